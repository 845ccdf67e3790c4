//! The heap of one thread.
//!
//! It has slabs, each cut into blocks of one size, and takes blocks from the current slab of their size until that is
//! full. A freed block goes back to its slab. If the slab belongs to another heap, the block goes there by post
//! ([`crate::mail`]).

use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, Ordering::Relaxed};

use crate::chunks;
use crate::classes::{CLASSES, Class, LargeClass};
use crate::free::Free;
use crate::large::Large;
use crate::mail::{self, HEAPS_MAX, Outbox};
use crate::region::{EMPTYING, LISTED, NOBODY, NONE, Region, SLAB_BYTES, Slab, UNLISTED};

/// Slabs without blocks that a heap keeps for itself.
const EMPTY_MAX: u32 = 16;
/// Blocks that came by post and are looked at in one go, at about 10 ns each.
const SORTED_MAX: usize = 256;

/// Stands where there is no slab: it is full.
static FULL: Slab = Slab {
    owner: AtomicU16::new(NOBODY),
    class: AtomicU8::new(0),
    place: AtomicU8::new(UNLISTED),
    used: AtomicU32::new(0),
    fresh_at: AtomicU32::new(SLAB_BYTES as u32),
    next: AtomicU32::new(NONE),
    previous: AtomicU32::new(NONE),
    free: AtomicPtr::new(ptr::null_mut()),
};

/// The heap of one thread.
pub(crate) struct Local {
    region: &'static Region,
    id: u16,
    /// By class, the slab that blocks are taken from.
    current: [&'static Slab; CLASSES],
    /// By class, the first of the other slabs with room.
    with_room: [u32; CLASSES],
    /// The first of the slabs without blocks, and how many these are.
    empty: u32,
    empty_count: u32,
    /// Blocks that came by post and were not looked at.
    arrived: *mut Free,
    outbox: Outbox,
    /// Large blocks, if there are addresses for them.
    large: Option<Large>,
}

impl Local {
    /// A heap with nothing in it; no other one has this `id`, which is below [`HEAPS_MAX`] and not [`NOBODY`].
    pub(crate) fn new(region: &'static Region, id: u16) -> Self {
        assert!(id != NOBODY && usize::from(id) < HEAPS_MAX, "heaps are numbered");
        Local {
            region,
            id,
            current: [&FULL; CLASSES],
            with_room: [NONE; CLASSES],
            empty: NONE,
            empty_count: 0,
            arrived: ptr::null_mut(),
            outbox: Outbox::new(),
            large: chunks::get().map(|chunks| Large::new(chunks, id)),
        }
    }

    /// A block of this class with anything in it; null if there are no addresses left.
    #[inline]
    pub(crate) fn allocate(&mut self, class: Class) -> *mut u8 {
        let slab = self.current[class.index()];
        let block = slab.free.load(Relaxed);
        if block.is_null() {
            return self.allocate_fresh(class);
        }
        // SAFETY: it is a free block of this heap, in which stands the next one.
        slab.free.store(unsafe { (*block).next }, Relaxed);
        slab.used.store(slab.used.load(Relaxed) + 1, Relaxed);
        block.cast()
    }

    /// The same if none is free in the current slab.
    fn allocate_fresh(&mut self, class: Class) -> *mut u8 {
        let slab = self.current[class.index()];
        let at = slab.fresh_at.load(Relaxed) as usize;
        if at + class.bytes() > SLAB_BYTES {
            return self.allocate_in_another(class);
        }
        slab.fresh_at.store((at + class.bytes()) as u32, Relaxed);
        slab.used.store(slab.used.load(Relaxed) + 1, Relaxed);
        // SAFETY: the block lies in the slab.
        unsafe { self.region.start(self.region.number(slab)).add(at) }.as_ptr()
    }

    /// The same if the current slab is full.
    #[cold]
    #[inline(never)]
    fn allocate_in_another(&mut self, class: Class) -> *mut u8 {
        if self.change_slab(class) { self.allocate(class) } else { ptr::null_mut() }
    }

    /// Finds a slab with room in place of the current one, which is full; false if there is none.
    #[cold]
    fn change_slab(&mut self, class: Class) -> bool {
        self.sort_arrived();
        if !self.current[class.index()].free.load(Relaxed).is_null() {
            return true;
        }
        let listed = self.with_room[class.index()];
        let number = if listed != NONE {
            self.unlist(class, listed);
            listed
        } else {
            let Some(number) = self.take_empty() else { return false };
            let slab = self.region.slab(number);
            slab.owner.store(self.id, Relaxed);
            slab.class.store(class.number(), Relaxed);
            slab.place.store(UNLISTED, Relaxed);
            slab.used.store(0, Relaxed);
            slab.fresh_at.store(0, Relaxed);
            slab.free.store(ptr::null_mut(), Relaxed);
            number
        };
        self.current[class.index()] = self.region.slab(number);
        true
    }

    fn take_empty(&mut self) -> Option<u32> {
        if self.empty == NONE {
            return self.region.take();
        }
        let number = self.empty;
        self.empty = self.region.slab(number).next.load(Relaxed);
        self.empty_count -= 1;
        Some(number)
    }

    /// Takes back a block that came from this or another heap of the same region.
    ///
    /// # Safety
    /// Nobody uses the block any more.
    #[inline]
    pub(crate) unsafe fn free(&mut self, block: *mut u8) {
        let block: *mut Free = block.cast();
        let slab = self.region.slab(self.region.number_of(block.cast()));
        let owner = slab.owner.load(Relaxed);
        if owner != self.id {
            // SAFETY: by what the caller promises.
            return unsafe { self.outbox.add(owner, block) };
        }
        // SAFETY: the block is large enough for a pointer, aligned for it, and nobody's.
        unsafe { (*block).next = slab.free.load(Relaxed) };
        slab.free.store(block, Relaxed);
        let used = slab.used.load(Relaxed) - 1;
        slab.used.store(used, Relaxed);
        if used == 0 || slab.place.load(Relaxed) == UNLISTED {
            self.sort_slab(slab, used);
        }
    }

    /// Sees to a slab that has no block any more, or has room and is not in the list.
    fn sort_slab(&mut self, slab: &'static Slab, used: u32) {
        let class = Class::numbered(slab.class.load(Relaxed));
        if ptr::eq(self.current[class.index()], slab) {
            return;
        }
        let number = self.region.number(slab);
        if used > 0 {
            return self.list(class, number);
        }
        if slab.place.load(Relaxed) == LISTED {
            self.unlist(class, number);
        }
        if self.empty_count >= EMPTY_MAX {
            return self.region.put_back(number);
        }
        slab.next.store(self.empty, Relaxed);
        self.empty = number;
        self.empty_count += 1;
    }

    fn list(&mut self, class: Class, number: u32) {
        let slab = self.region.slab(number);
        let next = self.with_room[class.index()];
        slab.place.store(LISTED, Relaxed);
        slab.previous.store(NONE, Relaxed);
        slab.next.store(next, Relaxed);
        if next != NONE {
            self.region.slab(next).previous.store(number, Relaxed);
        }
        self.with_room[class.index()] = number;
    }

    fn unlist(&mut self, class: Class, number: u32) {
        let slab = self.region.slab(number);
        slab.place.store(UNLISTED, Relaxed);
        let (previous, next) = (slab.previous.load(Relaxed), slab.next.load(Relaxed));
        match previous {
            NONE => self.with_room[class.index()] = next,
            _ => self.region.slab(previous).next.store(next, Relaxed),
        }
        if next != NONE {
            self.region.slab(next).previous.store(previous, Relaxed);
        }
    }

    /// The slab of this number and its class, if it is this heap's, has blocks, and is not the one that they are taken from.
    pub(crate) fn own_slab(&self, number: u32) -> Option<(&'static Slab, Class)> {
        let slab = self.region.slab(number);
        // Nobody but this heap writes its number there, and it takes it away before others get the slab.
        if slab.owner.load(Relaxed) != self.id || slab.used.load(Relaxed) == 0 {
            return None;
        }
        let class = Class::numbered(slab.class.load(Relaxed));
        (!ptr::eq(self.current[class.index()], slab)).then_some((slab, class))
    }

    /// The slab that blocks of this class are taken from.
    pub(crate) fn current(&self, class: Class) -> Option<&'static Slab> {
        Some(self.current[class.index()]).filter(|slab| !ptr::eq(*slab, &FULL))
    }

    /// Takes no more blocks from an [own slab](Self::own_slab), or does so again. A full one stays as it is.
    pub(crate) fn set_emptying(&mut self, slab: &'static Slab, class: Class, is_emptying: bool) {
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

    /// Puts its slabs without blocks into the pool.
    pub(crate) fn let_go(&mut self) {
        while self.empty != NONE {
            let number = self.empty;
            self.empty = self.region.slab(number).next.load(Relaxed);
            self.region.put_back(number);
        }
        self.empty_count = 0;
        for current in &mut self.current {
            if !ptr::eq(*current, &FULL) && current.used.load(Relaxed) == 0 {
                self.region.put_back(self.region.number(current));
                *current = &FULL;
            }
        }
    }

    /// Its number.
    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    /// Makes it ready to be [inherited](Self::inherit): what came by post is in its place, and no list has a slab or a chunk. It is not to be
    /// asked for anything before all of it was inherited.
    pub(crate) fn wind_up(&mut self) {
        while self.settle() {}
        self.let_go();
        (self.current, self.with_room) = ([&FULL; CLASSES], [NONE; CLASSES]);
        if let Some(large) = &mut self.large {
            large.forget_lists();
        }
    }

    /// Takes over the slabs and chunks of these numbers that the heap `other` has, which was wound up; false if there are no larger numbers.
    pub(crate) fn inherit(&mut self, other: u16, numbers: Range<u32>) -> bool {
        let end = self.region.used_ever();
        for number in numbers.start..numbers.end.min(end) {
            let slab = self.region.slab(number);
            if slab.owner.load(Relaxed) == other {
                assert!(slab.used.load(Relaxed) > 0, "a heap that was wound up has no slabs without blocks");
                slab.owner.store(self.id, Relaxed);
                slab.place.store(UNLISTED, Relaxed);
                let class = Class::numbered(slab.class.load(Relaxed));
                let has_fresh = slab.fresh_at.load(Relaxed) as usize + class.bytes() <= SLAB_BYTES;
                if has_fresh || !slab.free.load(Relaxed).is_null() {
                    self.list(class, number);
                }
            }
        }
        let has_chunks = self.large.as_mut().is_some_and(|large| large.inherit(other, numbers.clone()));
        has_chunks || numbers.end < end
    }

    /// The number of slabs that may be this heap's.
    pub(crate) fn slab_count(&self) -> u32 {
        self.region.used_ever()
    }

    /// Posts what other heaps get, and puts some of what came to its places; true if not all.
    #[inline]
    pub(crate) fn settle(&mut self) -> bool {
        self.outbox.post();
        if let Some(large) = &mut self.large {
            large.settle();
        }
        if !self.arrived.is_null() || mail::is_there(self.id) {
            self.sort_arrived();
        }
        !self.arrived.is_null()
    }

    /// A large block with anything in it; null if there are no addresses left.
    pub(crate) fn allocate_large(&mut self, class: LargeClass) -> *mut u8 {
        self.large.as_mut().map_or(ptr::null_mut(), |large| large.allocate(class))
    }

    /// Takes back a large block that came from this or another heap.
    ///
    /// # Safety
    /// Nobody uses the block any more.
    pub(crate) unsafe fn free_large(&mut self, block: *mut u8) {
        let large = self.large.as_mut().expect("there are large blocks");
        // SAFETY: by what the caller promises.
        unsafe { large.free(block) };
    }

    /// Goes on giving pages of free large blocks back to the system, those that have been free for long or (`at_once`) all;
    /// false at the end.
    pub(crate) fn cool_large(&mut self, at_once: bool) -> bool {
        self.large.as_mut().is_some_and(|large| large.cool(at_once))
    }

    fn sort_arrived(&mut self) {
        for _ in 0..SORTED_MAX {
            if self.arrived.is_null() {
                self.arrived = mail::take(self.id);
            }
            let block = self.arrived;
            if block.is_null() {
                return;
            }
            // SAFETY: it is a freed block of this heap, in which stands the next one.
            self.arrived = unsafe { (*block).next };
            // SAFETY: nobody uses it any more.
            unsafe { self.free(block.cast()) };
        }
    }
}
