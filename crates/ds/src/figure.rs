//! Numbers that are written under the baton of a shard and read by anybody, at any time.
//!
//! Only the holder writes, so adding is a load and a store. Readers see some recent number; whoever has got a reply from
//! the server sees at least what was written before that.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread at a time writes.
#[derive(Debug, Default)]
pub struct Figure(AtomicU64);

impl Figure {
    /// Adds; only the holder may.
    #[inline]
    pub fn add(&self, number: u64) {
        self.set(self.get().wrapping_add(number));
    }

    /// Subtracts; only the holder may.
    #[inline]
    pub fn sub(&self, number: u64) {
        self.set(self.get().wrapping_sub(number));
    }

    /// Makes it another number.
    #[inline]
    pub fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    /// What it is now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
