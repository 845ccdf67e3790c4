//! What a thread does beside commands: expiry, eviction, defragmentation, and what is due at a time.
//!
//! Not here: snapshots (`snapshot/`), which have their own slices.

pub(crate) mod cron;
pub(crate) mod defrag;
pub(crate) mod eviction;
pub(crate) mod timers;
