//! The atomics that `mailbox` and `stack` use; the loom models substitute their own.

pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
