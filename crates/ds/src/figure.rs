//! Numbers that are written under a shard's baton and may be read by any thread at any time.
//!
//! Only the holder of the baton writes, so adding is a load and a store. Readers see a recent number. A
//! client that has got a reply from the server sees at least the numbers written before that reply.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number with one writing thread at a time.
#[derive(Debug, Default)]
pub struct Figure(AtomicU64);

impl Figure {
    /// Adds `number`, wrapping around. Only the holder of the baton may call it.
    #[inline]
    pub fn add(&self, number: u64) {
        self.set(self.get().wrapping_add(number));
    }

    /// Subtracts `number`, wrapping around. Only the holder of the baton may call it.
    #[inline]
    pub fn sub(&self, number: u64) {
        self.set(self.get().wrapping_sub(number));
    }

    /// Sets the number. Only the holder of the baton may call it.
    #[inline]
    pub fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    /// The current value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
