//! `maxmemory`: makes room when memory is short, and refuses what would need more.
//!
//! Before a command runs, its thread looks whether more memory is used than is allowed, over all threads (`heap::Gauge`), and
//! evicts keys until it is not, at most as long as `maxmemory-eviction-tenacity` says; what is left to be done is done in
//! the background of all threads. The shards from which it evicts it enters by trying, one at a time and holding no
//! other, so it waits for nobody.
//!
//! `room.rs` says when, `search.rs` which keys. Values of many elements are freed in slices, which counts as making room: nothing more is evicted while something is
//! left to be freed here.
//!
//! Not here: what counts an access (`keyspace::access`), what an eviction is to those who watch (`Store::evict`).

mod clients;
mod pool;
mod room;
mod search;

use std::sync::atomic::{AtomicU64, Ordering};

use heap::Gauge;

use self::search::Search;

/// Whether there is room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Room {
    /// There is.
    #[default]
    Enough,
    /// There will be: evicting goes on.
    Soon,
    /// There is not, and there is nothing to be evicted.
    None,
}

/// What one thread knows of the memory.
#[derive(Debug)]
pub(crate) struct Eviction {
    gauge: Gauge,
    search: Search,
    /// What became of the last attempt.
    room: Room,
}

/// For how long too much memory was used.
#[derive(Debug, Default)]
pub(crate) struct Exceeded {
    /// Since when it is, on the monotonic clock; 0: it is not.
    since_ms: AtomicU64,
    total_ms: AtomicU64,
}

impl Exceeded {
    pub(crate) fn note(&self, is_exceeded: bool, now_ms: u64) {
        if is_exceeded {
            let _ = self.since_ms.compare_exchange(0, now_ms.max(1), Ordering::Relaxed, Ordering::Relaxed);
            return;
        }
        match self.since_ms.swap(0, Ordering::Relaxed) {
            0 => {}
            since_ms => _ = self.total_ms.fetch_add(now_ms.saturating_sub(since_ms), Ordering::Relaxed),
        }
    }

    /// For how long now, and in all.
    pub(crate) fn current_and_total_ms(&self, now_ms: u64) -> (u64, u64) {
        let current_ms = match self.since_ms.load(Ordering::Relaxed) {
            0 => 0,
            since_ms => now_ms.saturating_sub(since_ms),
        };
        (current_ms, current_ms + self.total_ms.load(Ordering::Relaxed))
    }

    /// Begins anew.
    pub(crate) fn reset(&self) {
        self.since_ms.store(0, Ordering::Relaxed);
        self.total_ms.store(0, Ordering::Relaxed);
    }
}

impl Eviction {
    pub(crate) fn new(seed: u64, shard_count: usize) -> Eviction {
        Eviction { gauge: Gauge::default(), search: Search::new(seed, shard_count), room: Room::Enough }
    }

    /// Whether the background has to go on at once.
    pub(crate) fn is_behind(&self) -> bool {
        self.room == Room::Soon
    }
}
