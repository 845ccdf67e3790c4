//! A stack of freed blocks: any thread pushes to it, and one thread takes it as a whole.
//!
//! Single blocks are never popped, so there is no ABA problem. The thread that takes the blocks sees their contents and
//! links: posting releases, taking acquires. `tests/loom_mailbox.rs` includes this very file, with its own atomics
//! and blocks, and checks it with the model checker; hence `super`.

use std::ptr;

use super::free::Free;
use super::sync::{AtomicPtr, Ordering};

/// The blocks that are waiting for a heap. Each mailbox has a pair of cache lines to itself.
#[repr(align(128))]
pub(crate) struct Mailbox(pub(crate) AtomicPtr<Free>);

impl Mailbox {
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        !self.0.load(Ordering::Relaxed).is_null()
    }

    pub(crate) fn take(&self) -> *mut Free {
        if self.has_some() { self.0.swap(ptr::null_mut(), Ordering::Acquire) } else { ptr::null_mut() }
    }

    /// # Safety
    /// The blocks from `first` to `last` are linked, belong to the heap that owns the mailbox, and are no longer in use.
    pub(crate) unsafe fn post(&self, first: *mut Free, last: *mut Free) {
        let mut there = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: nothing else uses `last` until it is posted, as the caller guarantees.
            unsafe { (*last).next = there };
            match self.0.compare_exchange_weak(there, first, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => there = now,
            }
        }
    }
}
