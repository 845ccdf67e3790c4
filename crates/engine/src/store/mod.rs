//! The store as a command sees it: the entered shards as one keyspace.
//!
//! | file | content |
//! |---|---|
//! | `lookup` | finds keys and their values, to read, peek or change |
//! | `storing` | stores and deletes values, and sets when they expire |
//! | `changes` | announces changes: to watchers, to subscribers of events, as an effect |
//! | `exchange` | replaces databases, and finds the waiters to serve |
//! | `queues/` | takes elements out of queues, pauses and limits them, and notes what clients do to them |
//! | `marks` | the marks of memcached's protocol |
//!
//! Look-ups never return an expired value: a command that meets an expired record deletes it, as an effect of
//! its own. On a replica the record stays until the primary deletes it, and is hidden from all clients. See
//! [`Due`].

mod changes;
pub(crate) mod exchange;
pub(crate) mod lookup;
mod marks;
pub(crate) mod queues;
pub(crate) mod storing;

use ds::random::Random;
use keyspace::{Config, Db, UnixMs};
use shard::ShardId;
use smallvec::SmallVec;

use crate::task::Client;
use crate::tx::{Due, Located, Tx};

/// The entered part of the store, as one client sees it.
pub struct Store<'a, 't> {
    /// The transaction.
    pub tx: &'a mut Tx<'t>,
    /// The client, with the selected database.
    pub client: Client,
    pub(crate) located: Located,
    pub(crate) beside_queue: lookup::BesideQueue,
}

impl<'a, 't> Store<'a, 't> {
    /// The store as `client` sees it.
    pub fn new(tx: &'a mut Tx<'t>, client: Client) -> Self {
        Store { tx, client, located: Located::default(), beside_queue: lookup::BesideQueue::default() }
    }

    /// The time of the transaction.
    #[inline]
    pub fn now(&self) -> UnixMs {
        self.tx.now
    }

    /// Whether something that expires at `time` expires at once.
    pub fn is_past(&self, time: UnixMs) -> bool {
        time <= self.tx.now && self.tx.due() == Due::Delete
    }

    /// Settings.
    #[inline]
    pub fn config(&self) -> &Config {
        &self.tx.config
    }

    /// The random numbers of the shard of `key`.
    pub fn random(&mut self, key: &[u8]) -> &mut Random {
        let (id, _) = self.locate(key);
        &mut self.tx.hold.shard_mut(id).random
    }

    /// The entered shards, ascending, for commands on whole databases.
    pub fn entered(&self) -> SmallVec<[ShardId; 8]> {
        self.tx.hold.entered().into()
    }

    /// Number of databases.
    pub fn db_count(&self) -> u32 {
        self.tx.hold.shards().db_count()
    }

    /// The selected database on shard `id`.
    pub fn db(&self, id: ShardId) -> &Db {
        &self.tx.hold.shard(id).dbs[self.client.db as usize]
    }

    /// The selected database on shard `id`, for changes.
    #[inline]
    pub fn db_mut(&mut self, id: ShardId) -> &mut Db {
        let db = self.client.db as usize;
        &mut self.tx.hold.shard_mut(id).dbs[db]
    }
}
