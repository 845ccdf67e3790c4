//! Figures of a shard for readers that do not hold it: `INFO`, `DBSIZE`, a scrape.
//!
//! ```text
//!   the holder ── plain stores, as it changes something ──▶ figures, tallies ◀── plain loads ── anybody, any time
//! ```
//!
//! Each number is correct by itself. A sum over shards need not have been true at any moment: a key that is renamed
//! from one shard to another meanwhile may be counted twice or not at all. `docs/decisions/figures.md` says why that is
//! better than entering all shards.

use keyspace::Figure;

/// Counters and sizes of a shard. The counters of commands share the first cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Figures {
    /// Changes since the start, counted by element, as for `rdb_changes_since_last_save`.
    pub changes: Figure,
    /// Look-ups by reading commands that found a key.
    pub keyspace_hits: Figure,
    /// Look-ups by reading commands that found no key.
    pub keyspace_misses: Figure,
    /// Keys deleted because they expired.
    pub expired_keys: Figure,
    /// Fields of hashes and members of sets deleted because they expired.
    pub expired_elements: Figure,
    /// Keys evicted under `maxmemory`.
    pub evicted_keys: Figure,
    /// Sidekiq jobs that were moved to their queues when they were due.
    pub promoted_jobs: Figure,
    /// Records of waiting clients, one for each key that a client waits for.
    pub waiters: Figure,
    /// Keys that clients wait for.
    pub awaited_keys: Figure,
    /// Keys with waiting clients that are also to be told when the key is deleted.
    pub awaited_keys_for_loss: Figure,
    /// Keys that sessions watch.
    pub watched_keys: Figure,
    /// Channels with subscribers, by [`Scope`](crate::Scope).
    pub channels: [Figure; 2],
    /// Keys that clients cache.
    pub tracked_keys: Figure,
    /// The number of caching clients, summed over all keys.
    pub tracked_items: Figure,
    /// Tracked prefixes; the same at every shard.
    pub tracked_prefixes: Figure,
}

impl Figures {
    /// The figures that `CONFIG RESETSTAT` resets, always in the same order.
    pub fn counters(&self) -> [&Figure; 6] {
        let Figures { keyspace_hits, keyspace_misses, expired_keys, expired_elements, evicted_keys, .. } =
            self;
        [keyspace_hits, keyspace_misses, expired_keys, expired_elements, evicted_keys, &self.promoted_jobs]
    }
}
