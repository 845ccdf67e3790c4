//! The atomics that `letterbox` uses; the loom model substitutes its own.

pub(crate) use std::sync::atomic::{AtomicPtr, Ordering};
