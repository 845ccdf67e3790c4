//! What a shard says of itself to those who do not hold it: `INFO`, `DBSIZE`, a scrape.
//!
//! ```text
//!   the holder ── plain stores, as it changes something ──▶ figures, tallies ◀── plain loads ── anybody, any time
//! ```
//!
//! Each number is right by itself. What is added up over shards is no moment's truth: a key that is renamed from one shard to
//! another meanwhile may be counted twice or not at all. Why that is preferred to entering all shards:
//! `docs/decisions/figures.md`.

use keyspace::Figure;

/// Counters and sizes of a shard. What commands count is in the first line of the processor's cache.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Figures {
    /// Changes since the start, element by element, as `rdb_changes_since_last_save` counts them.
    pub changes: Figure,
    /// Look-ups by reading commands that found a key.
    pub keyspace_hits: Figure,
    /// Look-ups by reading commands that did not.
    pub keyspace_misses: Figure,
    /// Keys deleted because their time had come.
    pub expired_keys: Figure,
    /// Fields of hashes deleted because their time had come.
    pub expired_fields: Figure,
    /// Keys evicted under `maxmemory`.
    pub evicted_keys: Figure,
    /// Jobs of Sidekiq's that joined their queues when they were due.
    pub promoted_jobs: Figure,
    /// Jobs that went back to their queues because a process of Sidekiq's had died.
    pub recovered_jobs: Figure,
    /// Records of waiting clients, one for each key that one waits for.
    pub waiters: Figure,
    /// Keys that somebody waits for.
    pub awaited_keys: Figure,
    /// Those for which somebody waits who wants to hear also that they are gone.
    pub awaited_keys_for_loss: Figure,
    /// Keys that sessions watch.
    pub watched_keys: Figure,
    /// Channels with subscribers, by [`Scope`](crate::Scope).
    pub channels: [Figure; 2],
    /// Keys that clients cache, and clients at all of them together.
    pub tracked_keys: Figure,
    /// See above.
    pub tracked_items: Figure,
    /// Prefixes of keys of which clients want to hear; the same at every shard.
    pub tracked_prefixes: Figure,
}

impl Figures {
    /// What `CONFIG RESETSTAT` begins to count anew, always in the same order.
    pub fn counters(&self) -> [&Figure; 7] {
        let Figures { keyspace_hits, keyspace_misses, expired_keys, expired_fields, evicted_keys, .. } = self;
        let Figures { promoted_jobs, recovered_jobs, .. } = self;
        [
            keyspace_hits,
            keyspace_misses,
            expired_keys,
            expired_fields,
            evicted_keys,
            promoted_jobs,
            recovered_jobs,
        ]
    }
}
