//! The heap of one thread.
//!
//! It owns slabs, each cut into blocks of one size, and allocates from the current slab of a size until that is full. A
//! freed block goes back to its slab. If another heap owns the slab, the block is posted to that heap ([`crate::exchange`]).
//!
//! The first slabs of a size are small, as few blocks of it may ever be needed, and there are many sizes.

use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, Ordering::Relaxed};

use crate::chunks;
use crate::classes::{CLASSES, LargeClass, SizeClass};
use crate::exchange::{self, HEAPS_MAX, Outbox};
use crate::free::Free;
use crate::large::Large;
use crate::region::{EMPTYING, LISTED, NOBODY, NONE, Region, SMALL_SLAB_BYTES, Size, Slab, UNLISTED};

/// Slabs without blocks of each size that a heap keeps. The others are in the pool, where every heap finds them.
const EMPTY_MAX: u32 = 4;
/// Small slabs that a class has before it gets large ones.
const SMALL_SLABS_MAX: u16 = 16;
/// In a small slab, at most this part is left over behind the last block. Otherwise, there are only large ones.
const SMALL_SLAB_REST_PART: usize = 4;
/// Posted blocks that are freed in one slice, at about 10 ns each.
const SORTED_MAX: usize = 256;

/// Stands for "no current slab": it is always full.
static FULL: Slab = Slab {
    owner: AtomicU16::new(NOBODY),
    class: AtomicU8::new(0),
    place: AtomicU8::new(UNLISTED),
    bytes: AtomicU32::new(0),
    used: AtomicU32::new(0),
    fresh_at: AtomicU32::new(0),
    next: AtomicU32::new(NONE),
    previous: AtomicU32::new(NONE),
    free: AtomicPtr::new(ptr::null_mut()),
};

/// The heap of one thread.
pub(crate) struct Local {
    region: &'static Region,
    id: u16,
    /// Per class, the slab that blocks are allocated from.
    current: [&'static Slab; CLASSES],
    /// Per class, the head of the list of other slabs with room.
    with_room: [u32; CLASSES],
    /// Per class, the number of small slabs.
    small_count: [u16; CLASSES],
    /// By size, the slabs without blocks.
    empty: [Empty; 2],
    /// Blocks that were posted to this heap and are not freed yet.
    arrived: *mut Free,
    outbox: Outbox,
    /// Large blocks; `None` if the system refused the addresses.
    large: Option<Large>,
}

/// A list of slabs without blocks.
#[derive(Clone, Copy)]
struct Empty {
    head: u32,
    count: u32,
    /// The least length of the list since the last round: so many were not needed.
    unneeded: u32,
}

const NO_SLABS: Empty = Empty { head: NONE, count: 0, unneeded: 0 };

impl Local {
    /// Creates an empty heap. No other heap may have this `id`, which must be below [`HEAPS_MAX`] and not [`NOBODY`].
    pub(crate) fn new(region: &'static Region, id: u16) -> Self {
        assert!(id != NOBODY && usize::from(id) < HEAPS_MAX, "heaps are numbered");
        Local {
            region,
            id,
            current: [&FULL; CLASSES],
            with_room: [NONE; CLASSES],
            small_count: [0; CLASSES],
            empty: [NO_SLABS; 2],
            arrived: ptr::null_mut(),
            outbox: Outbox::new(),
            large: chunks::get().map(|chunks| Large::new(chunks, id)),
        }
    }

    /// Allocates an uninitialized block of this class; null if the addresses are used up.
    #[inline]
    pub(crate) fn allocate(&mut self, class: SizeClass) -> *mut u8 {
        let slab = self.current[class.index()];
        let block = slab.free.load(Relaxed);
        if block.is_null() {
            return self.allocate_fresh(class);
        }
        // SAFETY: it is a free block of this heap, so it contains the link to the next one.
        slab.free.store(unsafe { (*block).next }, Relaxed);
        slab.used.store(slab.used.load(Relaxed) + 1, Relaxed);
        block.cast()
    }

    /// Slow path of `allocate`: the current slab has no freed block, so the next fresh one is taken.
    fn allocate_fresh(&mut self, class: SizeClass) -> *mut u8 {
        let slab = self.current[class.index()];
        let at = slab.fresh_at.load(Relaxed) as usize;
        if at + class.bytes() > slab.bytes.load(Relaxed) as usize {
            return self.allocate_in_another(class);
        }
        slab.fresh_at.store((at + class.bytes()) as u32, Relaxed);
        slab.used.store(slab.used.load(Relaxed) + 1, Relaxed);
        // SAFETY: the block lies in the slab.
        unsafe { self.region.start(self.region.number(slab)).add(at) }.as_ptr()
    }

    /// Slow path of `allocate`: the current slab is full.
    #[cold]
    #[inline(never)]
    fn allocate_in_another(&mut self, class: SizeClass) -> *mut u8 {
        if self.change_slab(class) || self.take_slab(class) { self.allocate(class) } else { ptr::null_mut() }
    }

    /// Replaces the full current slab with another one of its class that has room. Returns false if there is none.
    #[cold]
    fn change_slab(&mut self, class: SizeClass) -> bool {
        self.sort_arrived();
        if !self.current[class.index()].free.load(Relaxed).is_null() {
            return true;
        }
        let listed = self.with_room[class.index()];
        if listed == NONE {
            return false;
        }
        self.unlist(class, listed);
        self.current[class.index()] = self.region.slab(listed);
        true
    }

    /// Replaces the full current slab with one without blocks. Returns false if there is none.
    fn take_slab(&mut self, class: SizeClass) -> bool {
        let Some(number) = self.take_empty(class) else { return false };
        let slab = self.region.slab(number);
        assert!(slab.used.load(Relaxed) == 0, "a slab with blocks is cut anew");
        slab.owner.store(self.id, Relaxed);
        slab.class.store(class.number(), Relaxed);
        slab.place.store(UNLISTED, Relaxed);
        slab.used.store(0, Relaxed);
        slab.fresh_at.store(0, Relaxed);
        slab.free.store(ptr::null_mut(), Relaxed);
        self.current[class.index()] = slab;
        true
    }

    /// Takes a slab without blocks for this class.
    fn take_empty(&mut self, class: SizeClass) -> Option<u32> {
        let small_count = &mut self.small_count[class.index()];
        if *small_count < SMALL_SLABS_MAX
            && SMALL_SLAB_BYTES % class.bytes() <= SMALL_SLAB_BYTES / SMALL_SLAB_REST_PART
            && let Some(number) = self.empty[Size::Small as usize].take(self.region, Size::Small)
        {
            *small_count += 1;
            return Some(number);
        }
        self.empty[Size::Large as usize].take(self.region, Size::Large)
    }

    /// A slab of this class has no blocks any more: it is no longer one of the class.
    fn note_empty(&mut self, class: SizeClass, number: u32) {
        if self.region.size(number) == Size::Small {
            let small_count = &mut self.small_count[class.index()];
            assert!(*small_count > 0, "a small slab leaves a class that has none");
            *small_count -= 1;
        }
    }

    /// Frees a block of this or another heap of the same region. Blocks of other heaps are collected in the outbox.
    ///
    /// # Safety
    /// The block is no longer in use.
    #[inline]
    pub(crate) unsafe fn free(&mut self, block: *mut u8) {
        let block: *mut Free = block.cast();
        let slab = self.region.slab(self.region.number_of(block.cast()));
        let owner = slab.owner.load(Relaxed);
        if owner != self.id {
            // SAFETY: the caller guarantees it.
            return unsafe { self.outbox.add(owner, block) };
        }
        // SAFETY: the block is free, and large enough and aligned for a pointer.
        unsafe { (*block).next = slab.free.load(Relaxed) };
        slab.free.store(block, Relaxed);
        let used = slab.used.load(Relaxed) - 1;
        slab.used.store(used, Relaxed);
        if used == 0 || slab.place.load(Relaxed) == UNLISTED {
            self.sort_slab(slab, used);
        }
    }

    /// Moves a slab to the right list: it has no blocks any more, or has room again and is in no list.
    fn sort_slab(&mut self, slab: &'static Slab, used: u32) {
        let class = SizeClass::numbered(slab.class.load(Relaxed));
        if ptr::eq(self.current[class.index()], slab) {
            return;
        }
        let number = self.region.number(slab);
        let is_possible = (used as usize + 1) * class.bytes() <= slab.bytes.load(Relaxed) as usize;
        assert!(is_possible, "more blocks of a slab are freed than it has");
        if used > 0 {
            return self.list(class, number);
        }
        if slab.place.load(Relaxed) == LISTED {
            self.unlist(class, number);
        }
        self.note_empty(class, number);
        let empty = &mut self.empty[self.region.size(number) as usize];
        if empty.count >= EMPTY_MAX {
            return self.region.put_back(number);
        }
        slab.next.store(empty.head, Relaxed);
        empty.head = number;
        empty.count += 1;
    }

    fn list(&mut self, class: SizeClass, number: u32) {
        let slab = self.region.slab(number);
        assert!(slab.owner.load(Relaxed) == self.id, "a heap lists its own slabs");
        let next = self.with_room[class.index()];
        slab.place.store(LISTED, Relaxed);
        slab.previous.store(NONE, Relaxed);
        slab.next.store(next, Relaxed);
        if next != NONE {
            self.region.slab(next).previous.store(number, Relaxed);
        }
        self.with_room[class.index()] = number;
    }

    fn unlist(&mut self, class: SizeClass, number: u32) {
        let slab = self.region.slab(number);
        slab.place.store(UNLISTED, Relaxed);
        let (previous, next) = (slab.previous.load(Relaxed), slab.next.load(Relaxed));
        let head = &mut self.with_room[class.index()];
        match previous {
            NONE => {
                assert!(*head == number, "the list of another class begins with this slab");
                *head = next;
            }
            _ => {
                let before = self.region.slab(previous);
                assert!(
                    before.next.load(Relaxed) == number,
                    "a slab is unlisted from the list that it is in"
                );
                before.next.store(next, Relaxed);
            }
        }
        if next != NONE {
            self.region.slab(next).previous.store(previous, Relaxed);
        }
    }

    /// Returns the slab of this number and its class if this heap owns it, it has blocks, and it is not the current
    /// slab of its class.
    pub(crate) fn own_slab(&self, number: u32) -> Option<(&'static Slab, SizeClass)> {
        let slab = self.region.slab(number);
        // Only this heap stores its own number there, and replaces it before another heap can get the slab.
        if slab.owner.load(Relaxed) != self.id || slab.used.load(Relaxed) == 0 {
            return None;
        }
        let class = SizeClass::numbered(slab.class.load(Relaxed));
        (!ptr::eq(self.current[class.index()], slab)).then_some((slab, class))
    }

    /// The current slab of this class, if there is one.
    pub(crate) fn current(&self, class: SizeClass) -> Option<&'static Slab> {
        Some(self.current[class.index()]).filter(|slab| !ptr::eq(*slab, &FULL))
    }

    /// Stops or resumes allocating from an [own slab](Self::own_slab). A full slab stays as it is.
    pub(crate) fn set_emptying(&mut self, slab: &'static Slab, class: SizeClass, is_emptying: bool) {
        let number = self.region.number(slab);
        match (slab.place.load(Relaxed), is_emptying) {
            (LISTED, true) => {
                self.unlist(class, number);
                slab.place.store(EMPTYING, Relaxed);
            }
            (EMPTYING, false) => self.list(class, number),
            _ => {}
        }
    }

    /// Puts all slabs without blocks into the pool.
    pub(crate) fn let_go(&mut self) {
        for empty in &mut self.empty {
            empty.put_back(self.region, empty.count);
        }
        self.let_go_current();
    }

    /// Puts the current slabs without blocks into the pool.
    fn let_go_current(&mut self) {
        for index in 0..CLASSES {
            let current = self.current[index];
            if !ptr::eq(current, &FULL) && current.used.load(Relaxed) == 0 {
                let number = self.region.number(current);
                self.note_empty(SizeClass::numbered(index as u8), number);
                self.region.put_back(number);
                self.current[index] = &FULL;
            }
        }
    }

    /// Begins a round: puts slabs without blocks into the pool that were not needed since the last call, and those that are
    /// the current ones of sizes of which there are no blocks any more.
    pub(crate) fn let_go_unneeded(&mut self) {
        self.let_go_current();
        for empty in &mut self.empty {
            empty.put_back(self.region, empty.unneeded);
            empty.unneeded = empty.count;
        }
    }

    /// No longer allocates from the current slabs first, so that they can be emptied like the others.
    pub(crate) fn leave_current(&mut self) {
        for index in 0..CLASSES {
            let (class, current) = (SizeClass::numbered(index as u8), self.current[index]);
            if !ptr::eq(current, &FULL) && current.used.load(Relaxed) > 0 {
                self.current[index] = &FULL;
                if has_room(current, class) {
                    self.list(class, self.region.number(current));
                }
            }
        }
        self.let_go();
    }

    /// The heap's number.
    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    /// Prepares the heap to be [inherited](Self::inherit): frees all posted blocks and empties the lists of slabs and
    /// chunks. It must not be used until all of it has been inherited.
    pub(crate) fn wind_up(&mut self) {
        while self.settle() {}
        assert!(self.outbox.is_empty(), "a heap that is wound up has posted the blocks of others");
        self.let_go();
        (self.current, self.with_room) = ([&FULL; CLASSES], [NONE; CLASSES]);
        self.small_count = [0; CLASSES];
        if let Some(large) = &mut self.large {
            large.forget_lists();
        }
    }

    /// Takes over the slabs and chunks with these numbers that the heap `other` owns, which has been wound up. Returns
    /// false if there are no larger numbers.
    pub(crate) fn inherit(&mut self, other: u16, numbers: Range<u32>) -> bool {
        assert!(other != self.id, "a heap inherits from another one");
        let end = self.region.used_ever();
        for number in self.region.skip_unused(numbers.start)..numbers.end.min(end) {
            let slab = self.region.slab(number);
            if slab.owner.load(Relaxed) == other {
                assert!(slab.used.load(Relaxed) > 0, "a heap that was wound up has no slabs without blocks");
                slab.owner.store(self.id, Relaxed);
                slab.place.store(UNLISTED, Relaxed);
                let class = SizeClass::numbered(slab.class.load(Relaxed));
                if self.region.size(number) == Size::Small {
                    self.small_count[class.index()] += 1;
                }
                if has_room(slab, class) {
                    self.list(class, number);
                }
            }
        }
        let has_chunks = self.large.as_mut().is_some_and(|large| large.inherit(other, numbers.clone()));
        has_chunks || numbers.end < end
    }

    /// This heap's slabs have numbers below this.
    pub(crate) fn slab_count(&self) -> u32 {
        self.region.used_ever()
    }

    /// The first number from `number` on whose slab may have been used.
    pub(crate) fn skip_unused(&self, number: u32) -> u32 {
        self.region.skip_unused(number)
    }

    /// Size of the slab with this number.
    pub(crate) fn size(&self, slab: &Slab) -> Size {
        self.region.size(self.region.number(slab))
    }

    /// Posts the blocks of other heaps, and frees some of the blocks posted to this heap. Returns true if more are waiting.
    #[inline]
    pub(crate) fn settle(&mut self) -> bool {
        self.outbox.post();
        if let Some(large) = &mut self.large {
            large.settle();
        }
        if !self.arrived.is_null() || exchange::is_there(self.id) {
            self.sort_arrived();
        }
        !self.arrived.is_null()
    }

    /// Allocates an uninitialized large block; null if the addresses are used up.
    pub(crate) fn allocate_large(&mut self, class: LargeClass) -> *mut u8 {
        self.large.as_mut().map_or(ptr::null_mut(), |large| large.allocate(class))
    }

    /// Frees a large block of this or another heap.
    ///
    /// # Safety
    /// The block is no longer in use.
    pub(crate) unsafe fn free_large(&mut self, block: *mut u8) {
        let large = self.large.as_mut().expect("there are large blocks");
        // SAFETY: the caller guarantees it.
        unsafe { large.free(block) };
    }

    /// Continues to return pages of free large blocks to the system: those that have been free for long or, if
    /// `at_once`, all. Returns false at the end.
    pub(crate) fn cool_large(&mut self, at_once: bool) -> bool {
        self.large.as_mut().is_some_and(|large| large.cool(at_once))
    }

    fn sort_arrived(&mut self) {
        for _ in 0..SORTED_MAX {
            if self.arrived.is_null() {
                self.arrived = exchange::take(self.id);
            }
            let block = self.arrived;
            if block.is_null() {
                return;
            }
            // SAFETY: it is a freed block of this heap, so it contains the link to the next one.
            self.arrived = unsafe { (*block).next };
            // SAFETY: the block is no longer in use.
            unsafe { self.free(block.cast()) };
        }
    }
}

/// Whether a slab of this heap and class has room for a block.
fn has_room(slab: &Slab, class: SizeClass) -> bool {
    let has_fresh = slab.fresh_at.load(Relaxed) as usize + class.bytes() <= slab.bytes.load(Relaxed) as usize;
    has_fresh || !slab.free.load(Relaxed).is_null()
}

impl Empty {
    fn take(&mut self, region: &Region, size: Size) -> Option<u32> {
        if self.head == NONE {
            return region.take(size);
        }
        let number = self.head;
        self.head = region.slab(number).next.load(Relaxed);
        self.count -= 1;
        self.unneeded = self.unneeded.min(self.count);
        Some(number)
    }

    /// Puts so many slabs into the pool.
    fn put_back(&mut self, region: &Region, count: u32) {
        for _ in 0..count.min(self.count) {
            let number = self.head;
            self.head = region.slab(number).next.load(Relaxed);
            self.count -= 1;
            region.put_back(number);
        }
    }
}
