//! The data that one shard owns: plain single-threaded structures. A thread that has them as `&mut` holds the
//! baton.

use std::sync::Arc;

use ds::hashing::Seed;
use ds::random::Random;
use effectlog::{Lsn, Stamp};
use keyspace::Dbs;
use keyspace::queue::Known;
use smallvec::SmallVec;

use crate::cached_keys::Tracking;
use crate::figures::Figures;
use crate::placement::ShardId;
use crate::subscribers::Subscribers;
use crate::waiters::Waiters;
use crate::watches::Watches;

/// A key with waiters that was created, has got more elements, or was deleted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ready {
    /// The database.
    pub db: u32,
    /// The key. Names of queues are short.
    pub key: SmallVec<[u8; 32]>,
    /// Whether the key was deleted, which some clients wait for.
    pub was_lost: bool,
    /// Whether a waiter may find more beside the key than its value shows.
    pub has_more: bool,
}

/// The data of one shard.
pub struct Shard<W> {
    /// Its number.
    pub id: ShardId,
    /// Its part of every database.
    pub dbs: Dbs,
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
    /// Figures, which any thread may read.
    pub stats: Arc<Figures>,
    /// The last cas number given out.
    pub last_cas: u64,
    /// The stamp of the last record committed while this shard was held.
    pub last_stamp: Stamp,
    /// The slice of the last committed record with a change of this shard: data read here is durable when
    /// that slice is.
    pub last_slice: Lsn,
    /// Whether a change of this shard is recorded but not committed yet.
    pub is_written: bool,
    /// Random numbers for `SPOP`, `RANDOMKEY` and similar commands.
    pub random: Random,
}

impl<W> Shard<W> {
    /// An empty shard with `db_count` databases, whose keys are hashed with `key_seed` and recognized as queues by
    /// `queues`.
    pub fn new(id: ShardId, db_count: u32, key_seed: &Arc<Seed>, seed: u64, queues: &Arc<Known>) -> Self {
        let stats = Arc::<Figures>::default();
        Shard {
            id,
            dbs: Dbs::new(db_count, key_seed, queues, true),
            waiters: Waiters::new(seed, &stats),
            ready: Vec::new(),
            watches: Watches::new(seed, &stats),
            tracking: Tracking::new(seed, &stats),
            subscribers: Subscribers::new(seed, &stats),
            stats,
            last_cas: 0,
            last_stamp: Stamp::NONE,
            last_slice: Lsn::NONE,
            is_written: false,
            random: Random::new(seed ^ u64::from(id.0)),
        }
    }
}
