//! Freed blocks on their way to the heap that allocated them.
//!
//! A thread collects the blocks of other heaps that it frees, by owner, and posts several at a time: one write to a
//! line that two threads share, instead of one for each block. Large blocks are posted one by one.

use std::array;
use std::ptr;
use std::sync::atomic::AtomicPtr;

use crate::free::Free;
use crate::letterbox::Letterbox;

/// Heaps at most. Threads beyond have none of their own.
pub(crate) const HEAPS_MAX: usize = 128;
/// Blocks for one heap that are posted together.
const BATCH: u32 = 32;

static LETTERBOXES: [Letterbox; HEAPS_MAX] =
    [const { Letterbox(AtomicPtr::new(ptr::null_mut())) }; HEAPS_MAX];
/// The same for large blocks.
static LARGE: [Letterbox; HEAPS_MAX] = [const { Letterbox(AtomicPtr::new(ptr::null_mut())) }; HEAPS_MAX];

/// Whether something waits for the heap `id`.
#[inline]
pub(crate) fn is_there(id: u16) -> bool {
    LETTERBOXES[usize::from(id)].has_some()
}

/// Everything that waits for the heap `id`.
pub(crate) fn take(id: u16) -> *mut Free {
    LETTERBOXES[usize::from(id)].take()
}

/// Posts the blocks from `first` to `last`, linked, to the heap `id`.
///
/// # Safety
/// They are small blocks of that heap, or were when it had them, and nobody uses them any more.
pub(crate) unsafe fn post(id: u16, first: *mut Free, last: *mut Free) {
    // SAFETY: by what the caller promises.
    unsafe { LETTERBOXES[usize::from(id)].post(first, last) };
}

/// Whether large blocks wait for the heap `id`.
#[inline]
pub(crate) fn is_large_there(id: u16) -> bool {
    LARGE[usize::from(id)].has_some()
}

/// All large blocks that wait for the heap `id`.
pub(crate) fn take_large(id: u16) -> *mut Free {
    LARGE[usize::from(id)].take()
}

/// Posts a large block to the heap `id`.
///
/// # Safety
/// It is a block of that heap, or was when it had it, and nobody uses it any more.
pub(crate) unsafe fn post_large(id: u16, block: *mut Free) {
    // SAFETY: by what the caller promises.
    unsafe { LARGE[usize::from(id)].post(block, block) };
}

/// Blocks for one other heap.
struct Letter {
    first: *mut Free,
    last: *mut Free,
    count: u32,
}

/// Blocks of other heaps that a thread freed and did not post yet.
pub(crate) struct Outbox {
    letters: [Letter; HEAPS_MAX],
    /// The heaps that get something, one bit each.
    addressees: u128,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        let letter = |_| Letter { first: ptr::null_mut(), last: ptr::null_mut(), count: 0 };
        Outbox { letters: array::from_fn(letter), addressees: 0 }
    }

    /// Adds a block of the heap `owner`.
    ///
    /// # Safety
    /// Nobody uses the block any more.
    pub(crate) unsafe fn add(&mut self, owner: u16, block: *mut Free) {
        let letter = &mut self.letters[usize::from(owner)];
        if letter.count == 0 {
            letter.last = block;
            self.addressees |= 1 << owner;
        }
        // SAFETY: by what the caller promises.
        unsafe { (*block).next = letter.first };
        letter.first = block;
        letter.count += 1;
        if letter.count == BATCH {
            self.post_to(owner);
        }
    }

    /// Posts everything.
    #[inline]
    pub(crate) fn post(&mut self) {
        while self.addressees != 0 {
            self.post_to(self.addressees.trailing_zeros() as u16);
        }
    }

    fn post_to(&mut self, owner: u16) {
        let letter = &mut self.letters[usize::from(owner)];
        // SAFETY: the blocks were added for this heap, whose they are, and belong to nobody else.
        unsafe { post(owner, letter.first, letter.last) };
        letter.count = 0;
        letter.first = ptr::null_mut();
        self.addressees &= !(1 << owner);
    }
}
