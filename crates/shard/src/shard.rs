//! What one shard owns. Plain single-threaded data: whoever has it as `&mut` holds its baton.

use std::sync::Arc;

use ds::hashing::Seed;
use ds::random::Random;
use keyspace::Db;

use crate::effects::Effects;
use crate::placement::ShardId;
use crate::subscribers::Subscribers;
use crate::tracking::Tracking;
use crate::waiters::Waiters;
use crate::watches::Watches;

/// Counters of a shard, summed up by `INFO`.
#[derive(Clone, Copy, Default, Debug)]
pub struct ShardStats {
    /// Changes since the start, element by element, as `rdb_changes_since_last_save` counts them.
    pub changes: u64,
    /// Look-ups by reading commands that found a key.
    pub keyspace_hits: u64,
    /// Look-ups by reading commands that did not.
    pub keyspace_misses: u64,
    /// Keys deleted because their time had come.
    pub expired_keys: u64,
    /// Fields of hashes deleted because their time had come.
    pub expired_fields: u64,
    /// Keys evicted under `maxmemory`.
    pub evicted_keys: u64,
}

/// A key that somebody waits for and that came to be, got more, or was taken away.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ready {
    /// The database.
    pub db: u32,
    /// The key.
    pub key: Box<[u8]>,
    /// It was taken away, which some wait for.
    pub was_lost: bool,
}

/// The data of one shard.
pub struct Shard<W> {
    /// Its number.
    pub id: ShardId,
    /// Its part of every database.
    pub dbs: Box<[Db]>,
    /// Clients waiting for keys of this shard.
    pub waiters: Waiters<W>,
    /// Keys whose waiters may be served after the running transaction.
    pub ready: Vec<Ready>,
    /// Keys that sessions watch.
    pub watches: Watches,
    /// Keys that clients cache.
    pub tracking: Tracking,
    /// Channels placed here.
    pub subscribers: Subscribers,
    /// What a journal would have to write.
    pub effects: Effects,
    /// Counters.
    pub stats: ShardStats,
    /// The cas number that was given out last.
    pub last_cas: u64,
    /// Chance for `SPOP`, `RANDOMKEY` and the like.
    pub random: Random,
}

impl<W> Shard<W> {
    /// An empty shard with `db_count` databases, whose keys are hashed by `key_seed`.
    pub fn new(id: ShardId, db_count: u32, key_seed: &Arc<Seed>, seed: u64) -> Self {
        Shard {
            id,
            dbs: (0..db_count).map(|_| Db::new(Arc::clone(key_seed))).collect(),
            waiters: Waiters::new(seed),
            ready: Vec::new(),
            watches: Watches::new(seed),
            tracking: Tracking::new(seed),
            subscribers: Subscribers::new(seed),
            effects: Effects::default(),
            stats: ShardStats::default(),
            last_cas: 0,
            random: Random::new(seed ^ u64::from(id.0)),
        }
    }
}
