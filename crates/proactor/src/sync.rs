//! The atomics of the inbox and the waker: the standard library's, or the model checker's under `--cfg loom`.
//!
//! Only these two share state between threads in this crate, so only they import from here.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
