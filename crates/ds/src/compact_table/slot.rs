//! One slot of a bucket: the address of an owned block, with a tag in the sixteen bits that addresses leave free.
//!
//! ```text
//!  63    62 .. 48   47 .. 0
//!  mark  tag        address of the block; 0 in an empty slot
//! ```
//!
//! The mark belongs to the bucket, not to the block: it stays when the block goes.

use std::marker::PhantomData;
use std::mem;
use std::ptr::{self, NonNull};

/// Bits of a tag.
pub(super) const TAG_BITS: u32 = 15;

const ADDRESS_BITS: u32 = u64::BITS - 1 - TAG_BITS;
const ADDRESS_MASK: usize = (1 << ADDRESS_BITS) - 1;
const TAG_MASK: usize = ((1 << TAG_BITS) - 1) << ADDRESS_BITS;
const MARK: usize = 1 << (ADDRESS_BITS + TAG_BITS);

/// The owner of one block of memory, and nothing else.
///
/// # Safety
///
/// `into_raw` gives a pointer that stays valid, and stays the only owner, until `from_raw` gets it back.
pub unsafe trait Block: 'static {
    /// What is lent of a block.
    type Ref<'a>: Copy;
    /// What is lent of a block to change it.
    type Mut<'a>;

    /// Gives the block up as a pointer; its address has at most 48 bits.
    fn into_raw(self) -> NonNull<()>;

    /// The owner again.
    ///
    /// # Safety
    ///
    /// `raw` came from `into_raw` and was not given back before.
    unsafe fn from_raw(raw: NonNull<()>) -> Self;

    /// Lends the block.
    ///
    /// # Safety
    ///
    /// `raw` came from `into_raw`, and for `'a` nobody changes the block or takes it back.
    unsafe fn lend<'a>(raw: NonNull<()>) -> Self::Ref<'a>;

    /// Lends the block to be changed.
    ///
    /// # Safety
    ///
    /// `raw` came from `into_raw`, and for `'a` nobody else uses the block.
    unsafe fn lend_mut<'a>(raw: NonNull<()>) -> Self::Mut<'a>;

    /// Asks for the memory that a look-up reads of the block at this address.
    fn prefetch(address: *const ());
}

// SAFETY: a box gives its pointer up and takes it back just so.
unsafe impl<T: 'static> Block for Box<T> {
    type Ref<'a> = &'a T;
    type Mut<'a> = &'a mut T;

    fn into_raw(self) -> NonNull<()> {
        NonNull::from(Box::leak(self)).cast()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: by the caller's promise the pointer came from a box.
        unsafe { Box::from_raw(raw.cast().as_ptr()) }
    }

    unsafe fn lend<'a>(raw: NonNull<()>) -> &'a T {
        // SAFETY: by the caller's promise.
        unsafe { raw.cast().as_ref() }
    }

    unsafe fn lend_mut<'a>(raw: NonNull<()>) -> &'a mut T {
        // SAFETY: by the caller's promise.
        unsafe { raw.cast().as_mut() }
    }

    fn prefetch(address: *const ()) {
        crate::prefetch::prefetch(address);
    }
}

/// See the head of this file.
#[repr(transparent)]
pub(super) struct Slot<B: Block> {
    word: *mut (),
    owns: PhantomData<B>,
}

// SAFETY: a slot owns its block and nothing else.
unsafe impl<B: Block + Send> Send for Slot<B> {}
// SAFETY: as above; through `&Slot` one only gets what `B` lends.
unsafe impl<B: Block + Sync> Sync for Slot<B> {}

impl<B: Block> Slot<B> {
    pub(super) const fn empty() -> Self {
        Slot { word: ptr::null_mut(), owns: PhantomData }
    }

    /// The pointer that the block gave, if there is a block.
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

    #[inline]
    pub(super) fn is_marked(&self) -> bool {
        self.word.addr() & MARK != 0
    }

    pub(super) fn set_marked(&mut self, is_marked: bool) {
        self.word = self.word.map_addr(|word| if is_marked { word | MARK } else { word & !MARK });
    }

    /// Fills an empty slot.
    #[inline]
    pub(super) fn put(&mut self, tag: u16, block: B) {
        assert!(self.is_empty(), "a slot has room for one block");
        let raw = block.into_raw().as_ptr();
        assert!(raw.addr() <= ADDRESS_MASK, "an address has 48 bits");
        let mark = self.word.addr() & MARK;
        self.word = raw.map_addr(|address| address | (usize::from(tag) << ADDRESS_BITS) & TAG_MASK | mark);
    }

    /// Empties the slot.
    #[inline]
    pub(super) fn take(&mut self) -> Option<B> {
        let raw = self.raw()?;
        self.word = ptr::without_provenance_mut(self.word.addr() & MARK);
        // SAFETY: the pointer came from `put`, and the slot has just forgotten it.
        Some(unsafe { B::from_raw(raw) })
    }

    /// The block, if there is one.
    #[inline]
    pub(super) fn get(&self) -> Option<B::Ref<'_>> {
        // SAFETY: the slot owns the block, and stays borrowed as long as what is lent.
        self.raw().map(|raw| unsafe { B::lend(raw) })
    }

    /// The block to change it, if there is one.
    #[inline]
    pub(super) fn get_mut(&mut self) -> Option<B::Mut<'_>> {
        // SAFETY: the slot owns the block, and stays borrowed alone as long as what is lent.
        self.raw().map(|raw| unsafe { B::lend_mut(raw) })
    }

    /// Asks for the memory of the block, if there is one.
    #[inline]
    pub(super) fn prefetch(&self) {
        B::prefetch(self.word.map_addr(|word| word & ADDRESS_MASK));
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
