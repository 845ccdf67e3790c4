//! A flag that threads of a scope watch, and that is set when the test ends, however it ends: a scope waits for its
//! threads, so a test that fails inside would hang if they were not told.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets the flag to this value when it is dropped.
#[derive(Debug)]
pub struct SetAtEnd<'a>(pub &'a AtomicBool, pub bool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(self.1, Ordering::Relaxed);
    }
}
