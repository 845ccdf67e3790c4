//! The atomics of the inbox and the waker: the standard library's, or the model checker's under `--cfg loom`.
//!
//! Nothing else in this crate is shared between threads, so nothing else imports from here.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
