//! A transaction: what one or several commands that run together share.
//!
//! The thread enters shards, runs commands through [`Tx::run`], calls [`Tx::finish`] to serve the waiters of
//! keys that came to be, calls [`Tx::commit`], and leaves the shards. Strict serializability follows from this two-phase
//! entry, and that recorded effects are in an order in which the transactions happened from `commit`.

use std::sync::Arc;

use effectlog::Recorder;
use keyspace::{Config, UnixMs};
use resp::{Output, Reply};
use shard::{Hold, Ready, ShardId, Subscriber, Told, Tracker, Waiter};

use crate::args::OwnedArgs;
use crate::ctx::Ctx;
use crate::entry::{Flag, Group, Run};
use crate::error::CommandError;
use crate::host::Host;
use crate::store::Store;
use crate::table::{Command, Table};
use crate::task::{
    Blocked, Client, IdleWaits, Medium, Outcome, Parcels, Post, Published, Receiver, Restore, Task, Wait,
    When,
};

/// Ready keys for which a shard keeps memory.
const READY_KEPT_MAX: usize = 64;

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
    /// What is due stays, and nothing is in the past: a journal is run again, which itself says when things went.
    pub keeps_due: bool,
    /// Messages for after the shards are left.
    pub posts: Vec<Post>,
    /// Whether data were changed: then the transaction cannot be run again.
    pub wrote: bool,
    /// Whether a script asked that what it does is not stated as effects (`redis.set_repl`).
    pub is_silent: bool,
    /// Where the key of the command to be run next lies, if that was found out on the way to its shard.
    pub located: Located,
    /// Whether [`Tx::finish`] has something to do: somebody waits for a key that came to be, or effects were stated.
    pub is_unfinished: bool,
    /// Where effects are stated.
    pub record: Recorder,
    pub(crate) blocked: Option<Box<Blocked>>,
    /// Records for waits to come.
    pub idle_waits: IdleWaits,
    /// What undoes the pop of the command that ran last, if it said so.
    pub restore: Option<Restore>,
    /// Memory for its arguments.
    pub(crate) spare_args: OwnedArgs,
    /// For what waiters to come are served with.
    pub parcels: Parcels,
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
            keeps_due: false,
            posts: Vec::new(),
            wrote: false,
            is_silent: false,
            located: Located::default(),
            is_unfinished: false,
            record: Recorder::default(),
            blocked: None,
            idle_waits: IdleWaits::default(),
            restore: None,
            spare_args: OwnedArgs::default(),
            parcels: Parcels::default(),
        }
    }

    /// Runs one command. Its shards must be entered. Appends its reply, if it has one, to `out`.
    pub fn run(
        &mut self,
        command: &'t Command,
        args: &[&[u8]],
        client: &Client,
        host: &mut dyn Host,
        out: &mut Output,
    ) -> Outcome {
        let Run::Function(function) = command.entry.run else {
            unreachable!("a container is never resolved");
        };
        shard::interrupt();
        let (mark, post_count) = (out.mark(), self.posts.len());
        let reply = Reply::new(out, client.proto);
        let located = std::mem::take(&mut self.located);
        let mut ctx: Ctx =
            Ctx { command, args, reply, store: Store { tx: self, client: *client, located }, host };
        let result = function(&mut ctx);
        if client.tracks && !result.as_ref().is_err_and(CommandError::is_again) {
            self.remember(command, args, client);
        }
        match result {
            Ok(()) => match self.blocked.take() {
                Some(blocked) => Outcome::Blocked(blocked),
                None => Outcome::Done,
            },
            Err(error) => {
                out.truncate(mark);
                match error.into_again() {
                    Ok(shards) => {
                        // What it published it will publish again; what had expired is gone, and that is news only now.
                        if !self.wrote {
                            self.posts.truncate(post_count);
                        }
                        Outcome::Again(shards)
                    }
                    Err(error) => {
                        Reply::new(out, client.proto).error(error.text());
                        Outcome::Failed
                    }
                }
            }
        }
    }

    /// Remembers what a client that tracks keys has read.
    #[cold]
    fn remember(&mut self, command: &Command, args: &[&[u8]], client: &Client) {
        let reads = command.has(Flag::ReadOnly) && command.entry.group != Group::Scripting;
        if !reads {
            return;
        }
        let placement = self.hold.shards().placement();
        let share = self.config.tracking_keys_max.div_ceil(self.hold.shards().len() as u64);
        let subscriber = Subscriber { thread: client.thread, connection: client.connection };
        let tracker = Tracker { client: client.id, subscriber, no_loop: client.no_loop };
        for key in command.keys(args).unwrap_or_default() {
            let id = placement.shard(args[key.index]);
            if !self.hold.has(id) {
                continue;
            }
            let tracking = &mut self.hold.shard_mut(id).tracking;
            tracking.remember(args[key.index], tracker);
            if share > 0
                && tracking.key_count() as u64 > share
                && let Some((key, trackers)) = tracking.evict()
            {
                self.invalidate(trackers, &key);
            }
        }
    }

    /// Tells those who track `key` that it has changed.
    pub(crate) fn tell_of_change(&mut self, told: Told, key: &[u8]) {
        self.invalidate(told.readers, key);
        if !told.listeners.is_empty() {
            self.posts.push(Post::Broadcast { to: told.listeners, key: key.into() });
        }
    }

    fn invalidate(&mut self, trackers: Vec<Subscriber>, key: &[u8]) {
        if trackers.is_empty() {
            return;
        }
        let to = trackers.into_iter().map(|subscriber| Receiver { subscriber, pattern: None }).collect();
        let (medium, channel) = (Medium::Invalidation, Arc::default());
        let published = Published { to, medium, channel, message: key.into(), held_for: 0 };
        self.posts.push(Post::Published(published));
    }

    /// Serves the waiters of keys that came to be; what they did and the transaction's effects are one unit. To be called
    /// when a command, or a whole MULTI or script, is complete, before the shards are left.
    #[inline]
    pub fn finish(&mut self, host: &mut dyn Host) {
        if self.is_unfinished {
            self.complete(host);
        }
        let is_done = |&id: &ShardId| self.hold.shard(id).ready.is_empty();
        debug_assert!(self.hold.entered().iter().all(is_done), "a key came to be and nobody was told");
    }

    /// Whether there is something to be told when the shards are left: messages, or what was recorded.
    #[inline]
    pub fn has_news(&self) -> bool {
        !self.posts.is_empty() | self.hold.has_unpublished()
    }

    /// Publishes what was recorded. To be called before a shard is left: nobody may see a change whose place among those of
    /// other threads is not fixed.
    #[inline]
    pub fn commit(&mut self) {
        if self.hold.has_unpublished() {
            self.publish();
        }
    }

    #[cold]
    fn publish(&mut self) {
        self.record.commit();
        self.hold.note_unpublished(false);
    }

    #[cold]
    pub(crate) fn state(&mut self, db: u32, args: &[&[u8]]) {
        self.record.push(db, args);
        self.hold.note_unpublished(true);
        self.is_unfinished = true;
    }

    #[cold]
    fn complete(&mut self, host: &mut dyn Host) {
        self.serve_ready(host);
        self.record.end_unit();
        self.is_unfinished = false;
    }

    fn serve_ready(&mut self, host: &mut dyn Host) {
        let mut index = 0;
        while let Some(&id) = self.hold.entered().get(index) {
            if self.hold.shard(id).ready.is_empty() {
                index += 1;
                continue;
            }
            let mut keys = std::mem::take(&mut self.hold.shard_mut(id).ready);
            for ready in keys.drain(..) {
                self.serve_key(id, &ready, host);
            }
            let ready = &mut self.hold.shard_mut(id).ready;
            if ready.is_empty() && keys.capacity() <= READY_KEPT_MAX {
                *ready = keys;
            }
            // Serving may have made other keys ready (a move), on shards that were looked at already.
            index = 0;
        }
    }

    /// Serves waiters of a key, first come, first served, as long as there is something for them.
    pub fn serve_key(&mut self, id: ShardId, ready: &Ready, host: &mut dyn Host) {
        let (db, key) = (ready.db, &*ready.key);
        let mut from = 0;
        loop {
            let Some((ticket, waiter)) = self.hold.shard_mut(id).waiters.next(db, key, from) else { return };
            from = ticket + 1;
            // As whoever serves looks it up: what is found here is found there.
            let store = Store::new(self, waiter.wait.client);
            let value = store.peek(key).map(|record| record.value());
            let is_served = match (waiter.wait.when, value) {
                (When::Holds(kind), Some(value)) => value.kind() == kind,
                // Nothing is left for all who come after it, unless they wait for just that.
                (When::Holds(_), None) if !ready.was_lost => return,
                (When::Holds(_), None) => false,
                (When::Is(good), value) => good(value, &waiter.wait.args.slices(), key),
            };
            if !is_served {
                continue;
            }
            if let Some(also) = waiter.wait.also
                && !self.hold.try_enter(also)
            {
                self.posts.push(Post::ServeLater { ready: ready.clone(), also });
                return;
            }
            if waiter.claim.serve() {
                self.hold.shard_mut(id).waiters.remove(db, key, ticket);
                self.serve_waiter(waiter, (id, ticket), key, host);
            }
        }
    }

    fn serve_waiter(
        &mut self,
        waiter: Arc<Waiter<Wait>>,
        ticket: (ShardId, u64),
        key: &[u8],
        host: &mut dyn Host,
    ) {
        let mut parcel = self.parcels.take();
        self.spare_args = std::mem::take(&mut parcel.spare_args);
        let out = &mut parcel.reply;
        let args = waiter.wait.args.slices();
        let client = Client { deny_blocking: true, ..waiter.wait.client };
        let table = self.table;
        let command = table.resolve(&args).unwrap_or_else(|error: CommandError| {
            unreachable!("a waiting command was resolved before: {error}");
        });
        let reply = Reply::new(out, client.proto);
        let mut ctx: Ctx =
            Ctx { command, args: &args, reply, store: Store::new(self, client), host: &mut *host };
        match (waiter.wait.serve)(&mut ctx, key) {
            Ok(true) => {}
            // It was claimed, so it gets a reply: that of a timeout, which says that nothing was found.
            Ok(false) => ctx.reply.null_array(),
            Err(error) => {
                out.clear();
                Reply::new(out, client.proto).error(error.text());
                host.wait_failed(command.id, &error);
            }
        }
        drop(args);
        parcel.restore = self.restore.take();
        parcel.spare_args = std::mem::take(&mut self.spare_args);
        self.posts.push(Post::Served { waiter, ticket, parcel });
    }
}
