//! Freed blocks on their way to the heap that owns them.
//!
//! A thread collects the blocks of other heaps that it frees, by owner, and posts several at a time: one write to a
//! cache line that two threads share, instead of one per block. Large blocks are posted one by one.

use std::array;
use std::ptr;
use std::sync::atomic::AtomicPtr;

use crate::free::Free;
use crate::mailbox::Mailbox;
use crate::region::NOBODY;

/// Largest number of heaps (number 0 is unused). Threads beyond that have no heap.
pub(crate) const HEAPS_MAX: usize = 128;
/// Blocks for one heap that are posted together.
const BATCH: u32 = 32;

static MAILBOXES: [Mailbox; HEAPS_MAX] = [const { Mailbox(AtomicPtr::new(ptr::null_mut())) }; HEAPS_MAX];
/// Mailboxes for large blocks.
static LARGE: [Mailbox; HEAPS_MAX] = [const { Mailbox(AtomicPtr::new(ptr::null_mut())) }; HEAPS_MAX];

/// Whether small blocks are waiting for the heap `id`.
#[inline]
pub(crate) fn is_there(id: u16) -> bool {
    MAILBOXES[usize::from(id)].has_some()
}

/// Takes all small blocks that are waiting for the heap `id`, as a linked list.
pub(crate) fn take(id: u16) -> *mut Free {
    MAILBOXES[usize::from(id)].take()
}

/// Posts a linked list of blocks, from `first` to `last`, to the heap `id`.
///
/// # Safety
/// They are small blocks that this heap owns, or owned until another heap inherited them, and are no longer in use.
pub(crate) unsafe fn post(id: u16, first: *mut Free, last: *mut Free) {
    // SAFETY: the caller guarantees it.
    unsafe { MAILBOXES[usize::from(id)].post(first, last) };
}

/// Whether large blocks are waiting for the heap `id`.
#[inline]
pub(crate) fn is_large_there(id: u16) -> bool {
    LARGE[usize::from(id)].has_some()
}

/// Takes all large blocks that are waiting for the heap `id`, as a linked list.
pub(crate) fn take_large(id: u16) -> *mut Free {
    LARGE[usize::from(id)].take()
}

/// Posts a large block to the heap `id`.
///
/// # Safety
/// It is a block that this heap owns, or owned until another heap inherited it, and is no longer in use.
pub(crate) unsafe fn post_large(id: u16, block: *mut Free) {
    // SAFETY: the caller guarantees it.
    unsafe { LARGE[usize::from(id)].post(block, block) };
}

/// Linked blocks for one other heap.
struct Batch {
    first: *mut Free,
    last: *mut Free,
    count: u32,
}

/// Blocks of other heaps that a thread has freed but not posted yet.
pub(crate) struct Outbox {
    batches: [Batch; HEAPS_MAX],
    /// Bitmap of the heaps with blocks to be posted.
    addressees: u128,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        let batch = |_| Batch { first: ptr::null_mut(), last: ptr::null_mut(), count: 0 };
        Outbox { batches: array::from_fn(batch), addressees: 0 }
    }

    /// Adds a block of the heap `owner`.
    ///
    /// # Safety
    /// The block is no longer in use.
    pub(crate) unsafe fn add(&mut self, owner: u16, block: *mut Free) {
        let batch = &mut self.batches[usize::from(owner)];
        if batch.count == 0 {
            batch.last = block;
            self.addressees |= 1 << owner;
        }
        // SAFETY: the caller guarantees it.
        unsafe { (*block).next = batch.first };
        batch.first = block;
        batch.count += 1;
        if batch.count == BATCH {
            self.post_to(owner);
        }
    }

    /// Whether all blocks are posted.
    pub(crate) fn is_empty(&self) -> bool {
        self.addressees == 0
    }

    /// Posts all blocks.
    #[inline]
    pub(crate) fn post(&mut self) {
        while self.addressees != 0 {
            self.post_to(self.addressees.trailing_zeros() as u16);
        }
    }

    fn post_to(&mut self, owner: u16) {
        let batch = &mut self.batches[usize::from(owner)];
        assert!(owner != NOBODY && batch.count > 0, "blocks are posted to the heap that owns them");
        // SAFETY: the blocks were added for this heap, which owns them, and nothing else uses them.
        unsafe { post(owner, batch.first, batch.last) };
        batch.count = 0;
        batch.first = ptr::null_mut();
        self.addressees &= !(1 << owner);
    }
}
