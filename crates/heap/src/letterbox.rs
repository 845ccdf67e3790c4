//! A stack of freed blocks to which any thread adds, and which one thread takes as a whole.
//!
//! Nobody takes single blocks off it, so there is no ABA problem. Whoever takes the blocks sees their contents and the
//! links between them: posting releases, taking acquires. `tests/loom_letterbox.rs` includes this very file, with
//! atomics and blocks of its own, and checks it with the model checker; hence `super`.

use std::ptr;

use super::free::Free;
use super::sync::{AtomicPtr, Ordering};

/// What waits for a heap; no two share a pair of cache lines.
#[repr(align(128))]
pub(crate) struct Letterbox(pub(crate) AtomicPtr<Free>);

impl Letterbox {
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        !self.0.load(Ordering::Relaxed).is_null()
    }

    pub(crate) fn take(&self) -> *mut Free {
        if self.has_some() { self.0.swap(ptr::null_mut(), Ordering::Acquire) } else { ptr::null_mut() }
    }

    /// # Safety
    /// The blocks from `first` to `last`, linked, are of the heap whose letterbox it is, and nobody uses them any more.
    pub(crate) unsafe fn post(&self, first: *mut Free, last: *mut Free) {
        let mut there = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: `last` is nobody else's until it is posted, as the caller promises.
            unsafe { (*last).next = there };
            match self.0.compare_exchange_weak(there, first, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => there = now,
            }
        }
    }
}
