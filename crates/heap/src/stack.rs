//! A lock-free stack from which single items are popped: slabs, or chunks, that no heap owns.
//!
//! The links are in a table of the caller, which is never freed. Between the moment a thread reads the top's link and
//! the moment it replaces the top, others may pop that item, pop the one below it, and push the first again. The top
//! is the same number then, but the link that was read is wrong: taking it for the new top would give one slab to two
//! heaps (ABA). So each change counts, and the counter is part of what is compared. A thread would have to stand still
//! during 2^32 changes to be misled.
//!
//! Who pops an item sees what the thread that pushed it wrote to it: pushing releases, popping acquires.
//! `tests/loom_stack.rs` includes this very file, with its own atomics, and checks it with the model checker; hence
//! `super`.

use super::sync::{AtomicU32, AtomicU64, Ordering};

/// No slab, or no chunk.
pub(crate) const NONE: u32 = u32::MAX;

/// A lock-free stack of slabs or chunks that no heap owns.
#[derive(Debug)]
pub(crate) struct Stack {
    /// The number on top in the low half; a counter of changes in the high half, which prevents ABA.
    top: AtomicU64,
}

impl Stack {
    pub(crate) fn new() -> Self {
        Stack { top: AtomicU64::new(NONE as u64) }
    }

    /// Pushes `number`; `next(n)` is the link of number `n` to the one below it.
    pub(crate) fn push<'a>(&self, number: u32, next: impl Fn(u32) -> &'a AtomicU32) {
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            next(number).store(top as u32, Ordering::Relaxed);
            match self.top.compare_exchange_weak(
                top,
                next_top(top, number),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.top.load(Ordering::Relaxed) as u32 == NONE
    }

    /// Pops the number on top.
    pub(crate) fn pop<'a>(&self, next: impl Fn(u32) -> &'a AtomicU32) -> Option<u32> {
        let mut top = self.top.load(Ordering::Acquire);
        while top as u32 != NONE {
            // If another thread popped it first, the value read is stale but harmless: the tables are never freed, and
            // the exchange fails.
            let below = next(top as u32).load(Ordering::Relaxed);
            match self.top.compare_exchange_weak(
                top,
                next_top(top, below),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(top as u32),
                Err(now) => top = now,
            }
        }
        None
    }
}

fn next_top(top: u64, number: u32) -> u64 {
    ((top >> 32) + 1) << 32 | u64::from(number)
}
