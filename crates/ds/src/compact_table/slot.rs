//! One slot of a bucket: the address of an owned block, with a tag in the sixteen bits that addresses leave free.
//!
//! ```text
//!  63    62 .. 48   47 .. 1                                  0
//!  mark  tag        address of the block; 0 in an empty slot  turn
//! ```
//!
//! The mark belongs to the bucket and stays when the block goes. The turn belongs to the block and moves with it: a
//! block whose turn differs from its table's is [old](super::CompactTable::begin_turn).

use std::marker::PhantomData;
use std::mem;
use std::num::NonZero;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Bits of a tag.
pub(super) const TAG_BITS: u32 = 15;

const ADDRESS_BITS: u32 = u64::BITS - 1 - TAG_BITS;
const TURN: usize = 1;
const ADDRESS_MASK: usize = (1 << ADDRESS_BITS) - 1 - TURN;
const TAG_MASK: usize = ((1 << TAG_BITS) - 1) << ADDRESS_BITS;
const MARK: usize = 1 << (ADDRESS_BITS + TAG_BITS);

/// Exactly one owner of one block of memory.
///
/// # Safety
///
/// `into_raw` returns a pointer that stays valid and remains the only owner until it is passed to `from_raw`.
pub unsafe trait Block: 'static {
    /// A reference to a block.
    type Ref<'a>: Copy;

    /// Gives up ownership and returns the pointer. Its address has at most 48 bits and is even.
    fn into_raw(self) -> NonNull<()>;

    /// Takes ownership again.
    ///
    /// # Safety
    ///
    /// `raw` came from `into_raw`, and `from_raw` has not been called with it since.
    unsafe fn from_raw(raw: NonNull<()>) -> Self;

    /// Borrows the block.
    ///
    /// # Safety
    ///
    /// `raw` came from `into_raw`, and the block is neither changed nor taken back during `'a`.
    unsafe fn lend<'a>(raw: NonNull<()>) -> Self::Ref<'a>;

    /// Prefetches the memory that a look-up reads of the block at this address.
    fn prefetch(address: *const ());
}

// SAFETY: a box gives up its pointer and takes it back exactly so.
unsafe impl<T: 'static> Block for Box<T> {
    type Ref<'a> = &'a T;

    fn into_raw(self) -> NonNull<()> {
        NonNull::from(Box::leak(self)).cast()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: the caller guarantees that the pointer came from a box.
        unsafe { Box::from_raw(raw.cast().as_ptr()) }
    }

    unsafe fn lend<'a>(raw: NonNull<()>) -> &'a T {
        // SAFETY: the caller guarantees it.
        unsafe { raw.cast().as_ref() }
    }

    fn prefetch(address: *const ()) {
        crate::prefetch::prefetch(address);
    }
}

/// A borrowed block that may have other owners elsewhere.
pub struct SharedBlock<'a, T> {
    value: NonNull<T>,
    lent: PhantomData<&'a T>,
}

impl<T> Clone for SharedBlock<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedBlock<'_, T> {}

impl<'a, T> SharedBlock<'a, T> {
    /// The value.
    #[inline]
    pub fn get(self) -> &'a T {
        // SAFETY: the block is borrowed for `'a`.
        unsafe { self.value.as_ref() }
    }

    /// Creates another owner.
    pub fn to_owned(self) -> Arc<T> {
        // SAFETY: the address came from `Arc::into_raw`, and the table remains an owner, because this `Arc` is not dropped.
        let owner = mem::ManuallyDrop::new(unsafe { Arc::from_raw(self.value.as_ptr()) });
        Arc::clone(&owner)
    }
}

// SAFETY: an `Arc` gives up its pointer and takes it back exactly so; nothing changes the value behind it.
unsafe impl<T: 'static> Block for Arc<T> {
    type Ref<'a> = SharedBlock<'a, T>;

    fn into_raw(self) -> NonNull<()> {
        NonNull::new(Arc::into_raw(self).cast_mut()).expect("it is no null pointer").cast()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: the caller guarantees that the pointer came from `Arc::into_raw`.
        unsafe { Arc::from_raw(raw.cast().as_ptr()) }
    }

    unsafe fn lend<'a>(raw: NonNull<()>) -> SharedBlock<'a, T> {
        SharedBlock { value: raw.cast(), lent: PhantomData }
    }

    fn prefetch(address: *const ()) {
        crate::prefetch::prefetch(address);
    }
}

// SAFETY: a number owns nothing, and its pointer is never dereferenced.
unsafe impl Block for u32 {
    type Ref<'a> = u32;

    fn into_raw(self) -> NonNull<()> {
        NonNull::without_provenance(NonZero::<usize>::MIN.saturating_add(2 * self as usize + 1))
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        (raw.addr().get() / 2 - 1) as u32
    }

    unsafe fn lend<'a>(raw: NonNull<()>) -> Self::Ref<'a> {
        (raw.addr().get() / 2 - 1) as u32
    }

    fn prefetch(_: *const ()) {}
}

/// A tagged pointer that owns its block.
#[repr(transparent)]
pub(super) struct Slot<B: Block> {
    word: *mut (),
    owns: PhantomData<B>,
}

// SAFETY: a slot owns its block and nothing else.
unsafe impl<B: Block + Send> Send for Slot<B> {}
// SAFETY: a slot owns its block and nothing else, and `&Slot` only gives access to what `B` lends.
unsafe impl<B: Block + Sync> Sync for Slot<B> {}

impl<B: Block> Slot<B> {
    pub(super) const fn empty() -> Self {
        Slot { word: ptr::null_mut(), owns: PhantomData }
    }

    /// The pointer of the block, without the other bits.
    #[inline]
    fn raw(&self) -> Option<NonNull<()>> {
        NonNull::new(self.word.map_addr(|word| word & ADDRESS_MASK))
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.word.addr() & ADDRESS_MASK == 0
    }

    #[inline]
    pub(super) fn tag(&self) -> u16 {
        ((self.word.addr() & TAG_MASK) >> ADDRESS_BITS) as u16
    }

    /// The block's turn; meaningless for an empty slot.
    #[inline]
    pub(super) fn turn(&self) -> bool {
        self.word.addr() & TURN != 0
    }

    pub(super) fn set_turn(&mut self, turn: bool) {
        self.word = self.word.map_addr(|word| word & !TURN | usize::from(turn));
    }

    pub(super) fn set_marked(&mut self, is_marked: bool) {
        self.word = self.word.map_addr(|word| if is_marked { word | MARK } else { word & !MARK });
    }

    /// Flips the mark and returns its new state.
    #[inline]
    pub(super) fn flip_mark(&mut self) -> bool {
        self.word = self.word.map_addr(|word| word ^ MARK);
        self.word.addr() & MARK != 0
    }

    /// Fills an empty slot.
    #[inline]
    pub(super) fn put(&mut self, tag: u16, turn: bool, block: B) -> Held<'_, B> {
        assert!(self.is_empty(), "a slot has room for one block");
        let raw = block.into_raw().as_ptr();
        assert!(raw.addr() & !ADDRESS_MASK == 0, "an address has 48 bits and is even");
        let around =
            (usize::from(tag) << ADDRESS_BITS) & TAG_MASK | self.word.addr() & MARK | usize::from(turn);
        self.word = raw.map_addr(|address| address | around);
        Held { slot: self, turn }
    }

    /// A slot with the same tag, turn and mark, and the block that `clone` makes of this one.
    pub(super) fn cloned_by(&self, clone: &dyn Fn(B::Ref<'_>) -> B) -> Self {
        let mut cloned = Self::empty();
        if let Some(block) = self.get() {
            _ = cloned.put(self.tag(), self.turn(), clone(block));
        }
        cloned.set_marked(self.word.addr() & MARK != 0);
        cloned
    }

    /// Fills an empty slot without a mark with the block and turn of another slot.
    ///
    /// # Safety
    ///
    /// The other slot is neither used again nor dropped.
    #[inline]
    pub(super) unsafe fn take_over(&mut self, tag: u16, from: &Self) {
        debug_assert!(self.word.is_null());
        let tag = (usize::from(tag) << ADDRESS_BITS) & TAG_MASK;
        self.word = from.word.map_addr(|word| word & (ADDRESS_MASK | TURN) | tag);
    }

    /// Removes the block; the mark stays.
    #[inline]
    pub(super) fn take(&mut self) -> Option<B> {
        let raw = self.raw()?;
        self.word = ptr::without_provenance_mut(self.word.addr() & MARK);
        // SAFETY: the pointer came from `put`, and the slot has just given it up.
        Some(unsafe { B::from_raw(raw) })
    }

    /// The block, if the slot has one.
    #[inline]
    pub(super) fn get(&self) -> Option<B::Ref<'_>> {
        // SAFETY: the slot owns the block, and stays borrowed as long as the result.
        self.raw().map(|raw| unsafe { B::lend(raw) })
    }

    /// The block, for changing it, in a table with this turn.
    #[inline]
    pub(super) fn get_mut(&mut self, turn: bool) -> Option<Held<'_, B>> {
        if self.is_empty() { None } else { Some(Held { slot: self, turn }) }
    }

    /// Prefetches the block, if the slot has one.
    #[inline]
    pub(super) fn prefetch(&self) {
        B::prefetch(self.word.map_addr(|word| word & ADDRESS_MASK));
    }
}

/// Properties of the slots of a bucket, one bit per slot.
pub(super) struct Glance {
    /// Slots with the tag; also empty slots if it is 0.
    pub(super) matching: u8,
    /// Empty slots, and the few with a block whose tag is 0.
    pub(super) untagged: u8,
    pub(super) marked: u8,
}

impl Glance {
    /// Compares the tags of all slots at once.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(super) fn at<B: Block>(slots: &[Slot<B>; 8], tag: u16) -> Self {
        use std::arch::x86_64::*;

        #[target_feature(enable = "sse2")]
        #[inline]
        fn compare(words: [i64; 8], tag: u16) -> Glance {
            // The upper halves of the words, four per vector: mark, tag, rest of the address.
            let upper_halves = |at: usize| {
                let two = |at: usize| _mm_castsi128_ps(_mm_set_epi64x(words[at + 1], words[at]));
                _mm_shuffle_ps::<0b11_01_11_01>(two(at), two(at + 2))
            };
            let (low, high) = (upper_halves(0), upper_halves(4));
            let marked = _mm_movemask_ps(low) | _mm_movemask_ps(high) << 4;
            let tags = |halves| _mm_srli_epi32::<17>(_mm_slli_epi32::<1>(_mm_castps_si128(halves)));
            let tags = _mm_packs_epi32(tags(low), tags(high));
            let equal = |tag: u16| {
                let equal = _mm_cmpeq_epi16(tags, _mm_set1_epi16(tag.cast_signed()));
                _mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128())) as u8
            };
            Glance { matching: equal(tag), untagged: equal(0), marked: marked as u8 }
        }

        let words = slots.each_ref().map(|slot| slot.word.addr() as i64);
        // SAFETY: SSE2 is part of every x86-64.
        unsafe { compare(words, tag) }
    }

    /// Portable version for other processors.
    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    pub(super) fn at<B: Block>(slots: &[Slot<B>; 8], tag: u16) -> Self {
        let bits = |is_one: &dyn Fn(&Slot<B>) -> bool| {
            slots.iter().rev().fold(0, |bits, slot| bits << 1 | u8::from(is_one(slot)))
        };
        Glance {
            matching: bits(&|slot| slot.tag() == tag),
            untagged: bits(&|slot| slot.tag() == 0),
            marked: bits(&|slot| slot.word.addr() & MARK != 0),
        }
    }
}

/// A block in its slot, mutably borrowed.
pub struct Held<'a, B: Block> {
    /// Never empty.
    slot: &'a mut Slot<B>,
    /// The table's turn.
    turn: bool,
}

impl<'a, B: Block> Held<'a, B> {
    /// The block's pointer. The block may be changed through it until anything else is done with this `Held`.
    #[inline]
    pub fn raw(&mut self) -> NonNull<()> {
        self.slot.raw().expect("the slot is not empty")
    }

    /// Reborrows it for a shorter time.
    #[inline]
    pub fn again(&mut self) -> Held<'_, B> {
        Held { slot: self.slot, turn: self.turn }
    }

    /// The block.
    #[inline]
    pub fn get(&self) -> B::Ref<'_> {
        self.slot.get().expect("the slot is not empty")
    }

    /// Whether the block was in the table when its turn began, and has not been [renewed](Self::renew) since.
    #[inline]
    pub fn is_old(&self) -> bool {
        self.slot.turn() != self.turn
    }

    /// Marks the block as not old.
    pub fn renew(&mut self) {
        self.slot.set_turn(self.turn);
    }

    /// The block, borrowed as long as its table.
    #[inline]
    pub fn into_ref(self) -> B::Ref<'a> {
        self.slot.get().expect("the slot is not empty")
    }

    /// Replaces the block by the result of `change`. The hash must stay the same.
    #[inline]
    pub fn replace(&mut self, change: impl FnOnce(B) -> B) {
        let (tag, turn) = (self.slot.tag(), self.slot.turn());
        let block = self.slot.take().expect("the slot is not empty");
        _ = self.slot.put(tag, turn, change(block));
    }
}

impl<B: Block> Drop for Slot<B> {
    #[inline]
    fn drop(&mut self) {
        if mem::needs_drop::<B>() {
            drop(self.take());
        }
    }
}
