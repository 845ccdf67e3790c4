//! The atomics of `letterbox`; its model has others.

pub(crate) use std::sync::atomic::{AtomicPtr, Ordering};
