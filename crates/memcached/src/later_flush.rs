//! A delayed `flush_all`: when database 0 has to be emptied.
//!
//! Not here: checking the time, and emptying the database (`server/memcached.rs`).

use std::sync::atomic::{AtomicI64, Ordering};

use keyspace::UnixMs;

/// When that is; all threads know it, and one of them takes it.
#[derive(Debug)]
pub struct LaterFlush(AtomicI64);

/// Nothing is to be emptied.
const NEVER: UnixMs = UnixMs::MAX;

impl Default for LaterFlush {
    fn default() -> Self {
        LaterFlush(AtomicI64::new(NEVER))
    }
}

impl LaterFlush {
    /// The database is to be emptied at this time (`None`: never), and not when anybody said so before.
    pub fn set(&self, at: Option<UnixMs>) {
        self.0.store(at.unwrap_or(NEVER), Ordering::Relaxed);
    }

    /// Whether it is to be emptied by `now`.
    pub fn is_due(&self, now: UnixMs) -> bool {
        self.0.load(Ordering::Relaxed) <= now
    }

    /// The same; if so, the caller does it, and nobody else.
    pub fn take_due(&self, now: UnixMs) -> bool {
        let at = self.0.load(Ordering::Relaxed);
        at <= now && self.0.compare_exchange(at, NEVER, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts_and_it_is_done_once() {
        let flush = LaterFlush::default();
        assert!(!flush.is_due(UnixMs::MAX - 1));
        flush.set(Some(200));
        flush.set(Some(100));
        assert!(!flush.is_due(99) && !flush.take_due(99));
        assert!(flush.is_due(100) && flush.take_due(250) && !flush.take_due(250));
        flush.set(Some(100));
        flush.set(None);
        assert!(!flush.is_due(250));
    }
}
