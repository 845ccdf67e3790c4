//! A transaction: the state that commands which run together share.
//!
//! The thread enters shards, runs commands through [`Tx::run`], calls [`Tx::finish`] to serve the waiters of keys that
//! became ready, calls [`Tx::commit`], and leaves the shards. Two-phase entry makes transactions strictly serializable,
//! and `commit` puts their effects in that order.
//!
//! Not here: how commands and waiters run in it, and how it ends (`run.rs`).

use std::sync::Arc;

use effectlog::{Lsn, NO_DB, Recorder, Stamp};
use keyspace::{Config, UnixMs};
use shard::{Hold, ShardId, Subscriber, Told};

use crate::args::OwnedArgs;
use crate::table::Table;
use crate::task::{
    Blocked, HandoffPool, IdleWaits, Medium, Published, Receiver, Restore, Task, TxMessage, Wait,
};

/// The shared state of a transaction's commands.
pub struct Tx<'t> {
    /// The shards that the thread holds.
    pub hold: Hold<'t, Task, Wait>,
    /// All commands.
    pub table: &'t Table,
    /// Settings.
    pub config: Arc<Config>,
    /// The time at which all its commands run.
    pub now: UnixMs,
    /// The monotonic time of the transaction, for measuring.
    pub steady: UnixMs,
    /// Whether expired keys stay and are visible ([`Due::Keep`]), because a journal or a primary decides when
    /// they go.
    pub keeps_due: bool,
    /// Messages to send after the shards are left.
    pub outbox: Vec<TxMessage>,
    /// Whether data was changed, so that the transaction cannot be run again.
    pub wrote: bool,
    /// Whether a script asked not to record effects (`redis.set_repl`).
    pub is_silent: bool,
    /// The place of the next command's key, if it was computed on the way to its shard.
    pub located: Located,
    /// Whether [`Tx::finish`] has work to do: effects were recorded, or it `has_ready`.
    pub is_unfinished: bool,
    /// Whether keys that clients wait for became ready.
    pub has_ready: bool,
    /// The recorder of effects.
    pub record: Recorder,
    pub(crate) blocked: Option<Box<Blocked>>,
    /// Reusable records of waits.
    pub idle_waits: IdleWaits,
    /// The slice of the last commit, until the caller takes it.
    pub committed: Lsn,
    /// Whether replies wait until the changes they show are durable, so that [`seen`](Self::seen) is
    /// maintained.
    pub holds_replies: bool,
    /// The slice for which every reply that shows data waits, whatever it shows; [`Lsn::NONE`]: for none.
    pub held_from: Lsn,
    /// The last slice with data that was read or changed since the caller took this. Reads in shards
    /// that are still held are added when the shards are left.
    pub seen: Lsn,
    /// The slice of the last commit, until the caller takes it for the client of that command.
    pub written: Lsn,
    /// Whether replies of the commands that ran in the held shards depend on data, if
    /// [`holds_replies`](Self::holds_replies).
    pub(crate) told: Telling,
    /// The value of [`told`](Self::told) before the running command.
    pub(crate) told_before: Telling,
    /// Whether a message that the running command caused is for its own client.
    pub told_itself: bool,
    /// The command that puts back what the last command took, if it named one.
    pub restore: Option<Restore>,
    /// The buffer for expanding a compressed hash to read it: small, as such hashes are.
    pub(crate) expanded: Vec<u8>,
    /// Memory for its arguments.
    pub(crate) spare_args: OwnedArgs,
    /// Reusable handoffs for waiters.
    pub handoffs: HandoffPool,
}

/// The treatment of an expired key or field that a command meets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// It is deleted.
    Delete,
    /// It stays, but is invisible: this is a replica, and its primary decides when keys go.
    Hide,
    /// It stays and is visible: the command comes from the primary, or from a journal that is replayed.
    Keep,
}

/// Whether replies depend on the data in the held shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Telling {
    /// No command ran. The thread that entered the shards may report on their data.
    Unknown,
    /// They do not: the shards' data does not count as seen.
    Nothing,
    /// They do.
    Data,
}

/// The place of a key of the running command. The key is identified by its address: arguments do not move
/// while the command runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Located {
    pub(crate) address: usize,
    pub(crate) length: usize,
    shard: ShardId,
    hash: u64,
}

impl Located {
    /// The place of `key`, as the placement computed it.
    #[inline]
    pub fn new(key: &[u8], (shard, hash): (ShardId, u64)) -> Self {
        Located { address: key.as_ptr().addr(), length: key.len(), shard, hash }
    }

    /// The shard.
    #[inline]
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// The hash of the key.
    #[inline]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

impl<'t> Tx<'t> {
    /// A transaction over what `hold` holds.
    pub fn new(hold: Hold<'t, Task, Wait>, table: &'t Table, config: Arc<Config>, now: UnixMs) -> Self {
        Tx {
            hold,
            table,
            config,
            now,
            steady: now,
            keeps_due: false,
            outbox: Vec::new(),
            wrote: false,
            is_silent: false,
            located: Located::default(),
            is_unfinished: false,
            has_ready: false,
            record: Recorder::default(),
            blocked: None,
            idle_waits: IdleWaits::default(),
            committed: Lsn::NONE,
            holds_replies: false,
            held_from: Lsn::NONE,
            seen: Lsn::NONE,
            written: Lsn::NONE,
            told: Telling::Unknown,
            told_before: Telling::Unknown,
            told_itself: false,
            restore: None,
            expanded: Vec::new(),
            spare_args: OwnedArgs::default(),
            handoffs: HandoffPool::default(),
        }
    }

    /// The treatment of expired keys and fields. Ask only when one is met.
    #[inline]
    pub fn due(&self) -> Due {
        if self.keeps_due {
            Due::Keep
        } else if self.hold.shards().hides_due() {
            Due::Hide
        } else {
            Due::Delete
        }
    }

    /// Tells clients that track `key` that a command of `by` has changed it.
    pub(crate) fn tell_of_change(&mut self, told: Told, key: &[u8], by: Subscriber) {
        self.invalidate(told.readers, key, by);
        if !told.listeners.is_empty() {
            self.outbox.push(TxMessage::Broadcast { to: told.listeners, key: key.into() });
        }
    }

    pub(crate) fn invalidate(&mut self, trackers: Vec<Subscriber>, key: &[u8], by: Subscriber) {
        if trackers.is_empty() {
            return;
        }
        let to = trackers.into_iter().map(|subscriber| Receiver { subscriber, pattern: None }).collect();
        let published = Published::news(to, Medium::Invalidation, (Arc::default(), key.into()), Lsn::NONE);
        self.publish_by(by, Published { by: Some(by), ..published });
    }

    /// Publishes a message that a command of `by` caused.
    pub fn publish_by(&mut self, by: Subscriber, published: Published) {
        self.told_itself |= published.to.iter().any(|receiver| receiver.subscriber == by);
        self.outbox.push(TxMessage::Published(published));
    }

    /// Notes whether a shard has ready keys that clients wait for.
    pub fn note_ready(&mut self, has_ready: bool) {
        self.has_ready |= has_ready;
        self.is_unfinished |= has_ready;
    }

    /// Sends replicas a command that changes no data. A shard must be held, because a change of the role
    /// holds all shards, and no effect of this server may get into the copy of another primary's stream. If
    /// none is held, this enters one, which the caller leaves; false if all are taken and nothing was sent.
    pub fn tell_replicas(&mut self, args: &[&[u8]]) -> bool {
        let shards = self.hold.shards();
        let is_held = !self.hold.entered().is_empty() || shards.ids().any(|id| self.hold.try_enter(id));
        if is_held && self.record.is_on() {
            self.record.push(NO_DB, args);
            self.committed = self.record.commit(Stamp::NONE).map_or(Lsn::NONE, |place| place.slice);
        }
        is_held
    }

    #[cold]
    pub(crate) fn state(&mut self, db: u32, args: &[&[u8]]) {
        assert!(!args.is_empty(), "an effect is a command");
        self.record.push(db, args);
        self.hold.note_unpublished(true);
        self.is_unfinished = true;
    }
}
