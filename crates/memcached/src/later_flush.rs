//! A delayed `flush_all`: when database 0 has to be emptied.
//!
//! Not here: checking the time, and emptying the database (`server/memcached.rs`).

use std::sync::atomic::{AtomicI64, Ordering};

use keyspace::UnixMs;

/// The time of the delayed flush. All threads read it; one of them takes it.
#[derive(Debug)]
pub struct LaterFlush(AtomicI64);

/// No flush is planned.
const NEVER: UnixMs = UnixMs::MAX;

impl Default for LaterFlush {
    fn default() -> Self {
        LaterFlush(AtomicI64::new(NEVER))
    }
}

impl LaterFlush {
    /// Plans a flush for this time (`None`: no flush), in place of the one planned before.
    pub fn set(&self, at: Option<UnixMs>) {
        self.0.store(at.unwrap_or(NEVER), Ordering::Relaxed);
    }

    /// Whether the flush is due by `now`.
    pub fn is_due(&self, now: UnixMs) -> bool {
        self.0.load(Ordering::Relaxed) <= now
    }

    /// Takes the flush if it is due. Only one caller gets true, and must do it.
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
