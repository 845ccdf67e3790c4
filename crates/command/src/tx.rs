//! A transaction: what one or several commands that run together share.
//!
//! The thread enters shards, runs commands through [`Tx::run`], calls [`Tx::finish`] to serve the waiters of
//! keys that came to be, calls [`Tx::commit`], and leaves the shards. Strict serializability follows from this two-phase
//! entry, and that recorded effects are in an order in which the transactions happened from `commit`.
//!
//! Not here: how commands and waiters run in it, and how it ends (`run.rs`).

use std::sync::Arc;

use effectlog::{NO_DB, Recorder};
use keyspace::{Config, UnixMs};
use shard::{Hold, ShardId, Subscriber, Told};

use crate::args::OwnedArgs;
use crate::table::Table;
use crate::task::{Blocked, IdleWaits, Medium, Parcels, Post, Published, Receiver, Restore, Task, Wait};

/// What the commands of one transaction share.
pub struct Tx<'t> {
    /// The shards that the thread holds.
    pub hold: Hold<'t, Task, Wait>,
    /// All commands.
    pub table: &'t Table,
    /// Settings.
    pub config: &'t Config,
    /// The time at which all of it happens.
    pub now: UnixMs,
    /// The same of a clock that does not jump: for what is measured.
    pub steady: UnixMs,
    /// What is due stays and is there ([`Due::Keep`]): a journal or a primary itself says when things go.
    pub keeps_due: bool,
    /// Messages for after the shards are left.
    pub posts: Vec<Post>,
    /// Whether data were changed: then the transaction cannot be run again.
    pub wrote: bool,
    /// Whether a script asked that what it does is not stated as effects (`redis.set_repl`).
    pub is_silent: bool,
    /// Where the key of the command to be run next lies, if that was found out on the way to its shard.
    pub located: Located,
    /// Whether [`Tx::finish`] has something to do: effects were stated, or it `has_ready`.
    pub is_unfinished: bool,
    /// Whether keys came to be for which somebody waits.
    pub has_ready: bool,
    /// Where effects are stated.
    pub record: Recorder,
    pub(crate) blocked: Option<Box<Blocked>>,
    /// Records for waits to come.
    pub idle_waits: IdleWaits,
    /// The slice of what was committed last, until somebody sets it to 0.
    pub committed: u64,
    /// Replies wait until what they show is durable: [`seen`](Self::seen) is kept.
    pub holds_replies: bool,
    /// The last slice of which something was seen or changed since somebody set it to 0. Of the shards that are held, what
    /// was seen counts when they are left.
    pub seen: u64,
    /// The slice of what was committed last, until somebody takes it for the client that it was done for.
    pub written: u64,
    /// What the commands that ran in the shards that are held reply, if [`holds_replies`](Self::holds_replies).
    pub(crate) told: Telling,
    /// The same before the running command.
    pub(crate) told_before: Telling,
    /// What undoes the pop of the command that ran last, if it said so.
    pub restore: Option<Restore>,
    /// What a compressed hash is expanded into to be read: small, as such hashes are.
    pub(crate) expanded: Vec<u8>,
    /// Memory for its arguments.
    pub(crate) spare_args: OwnedArgs,
    /// For what waiters to come are served with.
    pub parcels: Parcels,
}

/// What becomes of a key or a field that is past its time when somebody meets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// It is deleted.
    Delete,
    /// It is not there for whoever asks, and stays: this is a replica, and its primary says when things go.
    Hide,
    /// It is there: this is what the primary says, or a journal that is run again.
    Keep,
}

/// What is replied tells of the data in the shards that are held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Telling {
    /// No command ran. Who entered them may tell of the data.
    Unknown,
    /// Nothing: they do not count as seen when they are left.
    Nothing,
    /// Something.
    Data,
}

/// Where a key of the running command lies. The key is known by its address: the arguments stay where they are while the
/// command runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Located {
    pub(crate) address: usize,
    pub(crate) length: usize,
    shard: ShardId,
    hash: u64,
}

impl Located {
    /// What the placement says about `key`.
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
    pub fn new(hold: Hold<'t, Task, Wait>, table: &'t Table, config: &'t Config, now: UnixMs) -> Self {
        Tx {
            hold,
            table,
            config,
            now,
            steady: now,
            keeps_due: false,
            posts: Vec::new(),
            wrote: false,
            is_silent: false,
            located: Located::default(),
            is_unfinished: false,
            has_ready: false,
            record: Recorder::default(),
            blocked: None,
            idle_waits: IdleWaits::default(),
            committed: 0,
            holds_replies: false,
            seen: 0,
            written: 0,
            told: Telling::Unknown,
            told_before: Telling::Unknown,
            restore: None,
            expanded: Vec::new(),
            spare_args: OwnedArgs::default(),
            parcels: Parcels::default(),
        }
    }

    /// What becomes of what is past its time. Only asked where something is.
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

    /// Tells those who track `key` that it has changed.
    pub(crate) fn tell_of_change(&mut self, told: Told, key: &[u8]) {
        self.invalidate(told.readers, key);
        if !told.listeners.is_empty() {
            self.posts.push(Post::Broadcast { to: told.listeners, key: key.into() });
        }
    }

    pub(crate) fn invalidate(&mut self, trackers: Vec<Subscriber>, key: &[u8]) {
        if trackers.is_empty() {
            return;
        }
        let to = trackers.into_iter().map(|subscriber| Receiver { subscriber, pattern: None }).collect();
        let (medium, channel) = (Medium::Invalidation, Arc::default());
        let published = Published { to, medium, channel, message: key.into(), held_for: 0 };
        self.posts.push(Post::Published(published));
    }

    /// Takes note whether a shard says that keys came to be for which somebody waits.
    pub fn note_ready(&mut self, has_ready: bool) {
        self.has_ready |= has_ready;
        self.is_unfinished |= has_ready;
    }

    /// Says something to replicas that is about no data. A shard is held, which the caller leaves: who changes the role holds all of them, and
    /// nothing of this server's own may come into the copy of another stream. False: all are taken, and nothing was said.
    pub fn tell_replicas(&mut self, args: &[&[u8]]) -> bool {
        let shards = self.hold.shards();
        let is_held = !self.hold.entered().is_empty() || shards.ids().any(|id| self.hold.try_enter(id));
        if is_held && self.record.is_on() {
            self.record.push(NO_DB, args);
            self.committed = self.record.commit(0).map_or(0, |place| place.slice);
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
