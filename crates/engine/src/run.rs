//! Runs a transaction: its commands, one after the other, then the waiters of keys that became ready, then
//! its end.
//!
//! Not here: the state that commands of a transaction share (`tx.rs`), and how a thread enters the shards
//! beforehand.

use std::sync::Arc;

use effectlog::{Lsn, Stamp};
use keyspace::{Kind, UnixMs};
use resp::{Output, Reply};
use shard::{Ready, ShardId, Tracker, Waiter};

use crate::ctx::{Ctx, Host};
use crate::entry::{Flag, Group, Route, Run};
use crate::error::CommandError;
use crate::mutant::{self, Mutant};
use crate::store::Store;
use crate::store::queues::is_paused;
use crate::store::queues::taking::is_closed;
use crate::table::Command;
use crate::task::{Client, JobsDue, JobsNews, Outcome, SOON_MS, TxMessage, Wait, When};
use crate::tx::{Telling, Tx};

/// The most ready keys for which a shard keeps memory.
const READY_KEPT_MAX: usize = 64;

impl<'t> Tx<'t> {
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
        if self.holds_replies {
            self.begin_telling(command);
        }
        let (mark, post_count) = (out.mark(), self.outbox.len());
        let reply = Reply::new(out, client.proto);
        let located = std::mem::take(&mut self.located);
        let mut ctx: Ctx =
            Ctx { command, args, reply, store: Store { located, ..Store::new(self, *client) }, host };
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
                        // The next run publishes these messages again. But keys that have expired are gone,
                        // so only this run can announce them.
                        if !self.wrote {
                            self.outbox.truncate(post_count);
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

    /// Records the keys that a client with key tracking has read.
    #[cold]
    fn remember(&mut self, command: &Command, args: &[&[u8]], client: &Client) {
        let reads = command.has(Flag::ReadOnly) && command.entry.group != Group::Scripting;
        if !reads {
            return;
        }
        let placement = self.hold.shards().placement();
        let share = self.config.tracking_keys_max.div_ceil(self.hold.shards().len() as u64);
        let tracker = Tracker { client: client.id, subscriber: client.subscriber() };
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
                self.invalidate(trackers, &key, tracker.subscriber);
            }
        }
    }

    /// Serves the waiters of keys that became ready. Their changes and the transaction's effects are one
    /// unit. Call this when a command, or a whole MULTI or script, is complete, before the shards are left.
    #[inline]
    pub fn finish(&mut self, host: &mut dyn Host) {
        if self.is_unfinished {
            self.complete(host);
        }
        debug_assert!(!self.has_untold(), "a key came to be and nobody was told");
    }

    /// Whether leaving the shards has to publish something: messages, recorded effects, or the slices that
    /// replies depend on.
    #[inline]
    pub fn has_news(&self) -> bool {
        !self.outbox.is_empty() | self.hold.has_unpublished() | self.holds_replies
    }

    /// Publishes the recorded effects. Call this before a shard is left: no thread may see a change whose
    /// place in the stream is not fixed. If replies wait for slices, the transaction's messages wait for the
    /// slices that they depend on.
    #[inline]
    pub fn commit(&mut self) {
        if self.hold.has_unpublished() {
            self.publish();
        }
        if self.holds_replies {
            self.hold_posts();
        }
    }

    /// Makes the reply depend on the data in the command's shards, unless the command enters them for
    /// channels or says otherwise.
    #[cold]
    fn begin_telling(&mut self, command: &Command) {
        (self.told_before, self.told) = (self.told, Telling::Data);
        if matches!(command.entry.route, Route::Channel(_) | Route::Channels(_)) {
            self.tell_nothing();
        }
    }

    /// Says that the reply of the running command does not depend on the data in its shards, and so need not
    /// wait for them. It still waits if another command that ran in the same shards depends on them.
    pub fn tell_nothing(&mut self) {
        if self.holds_replies && self.told_before != Telling::Data {
            self.told = Telling::Nothing;
        }
    }

    /// Says that nothing was read in the held shards, because they are left before the command that they were entered
    /// for.
    pub fn leaves_unread(&mut self) {
        if self.holds_replies && self.told == Telling::Unknown {
            self.told = Telling::Nothing;
        }
    }

    #[cold]
    fn hold_posts(&mut self) {
        if std::mem::replace(&mut self.told, Telling::Unknown) != Telling::Nothing {
            let last = self.hold.largest_of_entered(|shard| shard.last_slice);
            if last == self.committed || !mutant::is_on(Mutant::ReadAtOnce) {
                self.seen = self.seen.max(last);
                if !self.hold.entered().is_empty() {
                    self.seen = self.seen.max(self.held_from);
                }
            }
        }
        if self.seen == Lsn::NONE {
            return;
        }
        for message in &mut self.outbox {
            match message {
                TxMessage::Served { .. } if mutant::is_on(Mutant::ServedAtOnce) => {}
                TxMessage::Published(_) if mutant::is_on(Mutant::PublishedAtOnce) => {}
                TxMessage::Served { handoff, .. } => handoff.reply.hold_all(self.seen.get()),
                TxMessage::Published(published) => published.held_for = published.held_for.max(self.seen),
                TxMessage::Free(_) | TxMessage::Broadcast { .. } | TxMessage::Event { .. } => {}
                TxMessage::Jobs(_) | TxMessage::Flushed | TxMessage::ServeLater { .. } => {}
            }
        }
    }

    #[cold]
    fn publish(&mut self) {
        if mutant::is_on(Mutant::CommitsLate) {
            return self.hold.note_unpublished(false);
        }
        let after = self.hold.largest_of_entered(|shard| shard.last_stamp);
        if let Some(place) = self.record.commit(after) {
            self.hold.for_each_entered(|shard| {
                shard.last_stamp = place.stamp;
                // A shard this transaction only read does not expose its writes, so readers there do not
                // depend on it.
                if std::mem::take(&mut shard.is_written) {
                    shard.last_slice = place.slice;
                }
            });
            (self.committed, self.written) = (place.slice, place.slice);
            for message in &mut self.outbox {
                if let TxMessage::Served { handoff, .. } = message {
                    handoff.written = place.slice;
                }
            }
        }
        self.hold.note_unpublished(false);
    }

    /// Commits as [`Mutant::CommitsLate`] does, after the shards have been left.
    #[cold]
    #[doc(hidden)]
    pub fn commit_late(&mut self) {
        shard::interrupt();
        if let Some(place) = self.record.commit(Stamp::NONE) {
            self.committed = place.slice;
            self.seen = self.seen.max(place.slice);
        }
    }

    #[cold]
    fn complete(&mut self, host: &mut dyn Host) {
        if std::mem::take(&mut self.has_ready) {
            self.serve_ready(host);
        }
        // Here rather than after each command, because nearly all that only read would pay for it.
        assert!(!self.has_untold(), "a key came to be and nobody was told");
        self.record.end_unit();
        self.is_unfinished = false;
    }

    /// Whether a key became ready in a shard of the transaction, and its waiters were not served.
    fn has_untold(&self) -> bool {
        self.hold.largest_of_entered(|shard| shard.ready.len() as u64) > 0
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
            // Serving may have made other keys ready (a move), on shards that were visited before.
            index = 0;
        }
    }

    /// Has the waiters of `key` served that can be served now, when the transaction is complete.
    pub fn wake(&mut self, id: ShardId, db: u32, key: &[u8]) {
        let shard = self.hold.shard_mut(id);
        let has_waiters = shard.waiters.any(db, key);
        if has_waiters {
            shard.ready.push(Ready { db, key: key.into(), was_lost: false, has_more: false });
        }
        self.note_ready(has_waiters);
    }

    /// [Wakes](Self::wake) all waiters in the shard that may be served when a time comes.
    pub fn wake_timed(&mut self, id: ShardId) {
        let timed: Vec<(u32, Box<[u8]>)> =
            self.hold.shard(id).waiters.timed_keys().map(|(db, key)| (db, key.into())).collect();
        timed.iter().for_each(|(db, key)| self.wake(id, *db, key));
    }

    /// Serves the waiters of a key in their order, as long as the key has something for them. If a time will serve
    /// others soon, tells the thread.
    pub fn serve_key(&mut self, id: ShardId, ready: &Ready, host: &mut dyn Host) {
        let mut look = Look { next_ms: UnixMs::MAX, found_nothing: false, is_nothing_due: false };
        self.serve_waiters(id, ready, &mut look, host);
        if look.next_ms < self.now.saturating_add(SOON_MS) {
            let (db, queue) = (ready.db, ready.key[..].into());
            let due = JobsDue { time_ms: look.next_ms, shard: id, db, queue };
            self.outbox.push(TxMessage::Jobs(JobsNews::Wait(due)));
        }
    }

    fn serve_waiters(&mut self, id: ShardId, ready: &Ready, look: &mut Look, host: &mut dyn Host) {
        let (db, key) = (ready.db, &*ready.key);
        let mut from = 0;
        loop {
            let Some((ticket, waiter)) = self.hold.shard_mut(id).waiters.next(db, key, from) else { return };
            from = ticket + 1;
            // Look the value up for the waiter's client, as serving it does, so that both find the same.
            let store = Store::new(self, waiter.wait.client);
            match look.fate(&store, &waiter, ready) {
                WaiterFate::Serve => {}
                WaiterFate::Pass => continue,
                WaiterFate::Stop => return,
            }
            if let Some(also) = waiter.wait.also
                && !self.hold.try_enter(also)
            {
                self.outbox.push(TxMessage::ServeLater { ready: ready.clone(), also });
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
        let mut handoff = self.handoffs.take();
        self.spare_args = std::mem::take(&mut handoff.spare_args);
        let out = &mut handoff.reply;
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
            // The waiter was claimed, so it gets a reply: that of a timeout, which says that nothing was
            // found.
            Ok(false) => ctx.reply.null_array(),
            Err(error) => {
                out.clear();
                Reply::new(out, client.proto).error(error.text());
                host.wait_failed(command.id, &error);
            }
        }
        drop(args);
        assert!(self.blocked.is_none(), "who is served does not wait again");
        handoff.restore = self.restore.take();
        handoff.spare_args = std::mem::take(&mut self.spare_args);
        self.outbox.push(TxMessage::Served { waiter, ticket, handoff });
    }
}

/// What becomes of a waiter.
enum WaiterFate {
    Serve,
    /// There is nothing for it, but perhaps for a later one.
    Pass,
    /// There is nothing for it and for later ones.
    Stop,
}

impl WaiterFate {
    fn serve_if(is_served: bool) -> WaiterFate {
        if is_served { WaiterFate::Serve } else { WaiterFate::Pass }
    }
}

/// A look at the waiters of a key, one after the other.
struct Look {
    /// The next time that will serve one of them.
    next_ms: UnixMs,
    /// One waiter's search beside the value found nothing, so the searches of later waiters will not either.
    found_nothing: bool,
    /// Nothing is due for one waiter, so nothing is for later ones.
    is_nothing_due: bool,
}

impl Look {
    fn fate(&mut self, store: &Store, waiter: &Waiter<Wait>, ready: &Ready) -> WaiterFate {
        let (key, args) = (&*ready.key, &waiter.wait.args);
        let value = store.peek(key).map(|record| record.value());
        match (waiter.wait.when, value) {
            (When::Holds(Kind::List) | When::Suffices(_) | When::Finds(_), _) if is_closed(store, key) => {
                WaiterFate::Stop
            }
            (When::Holds(_), Some(_)) if is_paused(store, key) => WaiterFate::Stop,
            (When::Is(_), Some(_)) if is_paused(store, key) && waiter.heeds_loss => WaiterFate::Pass,
            (When::Holds(kind), Some(value)) => WaiterFate::serve_if(value.kind() == kind),
            // Without a value, later waiters get nothing either, unless they wait for its loss or for
            // something beside it.
            (When::Suffices(enough), Some(_)) => WaiterFate::serve_if(enough(store, &args.slices(), key)),
            (When::Holds(_) | When::Suffices(_), None) if !ready.was_lost && !ready.has_more => {
                WaiterFate::Stop
            }
            (When::Holds(_) | When::Suffices(_), None) => WaiterFate::Pass,
            (When::Finds(finds), _) if !self.found_nothing && finds(store, key) => WaiterFate::Serve,
            // Later searches will find nothing either; only a waiter for the value alone can be served.
            (When::Finds(_), None) if !ready.was_lost => WaiterFate::Stop,
            (When::Finds(_), _) => {
                self.found_nothing = true;
                WaiterFate::Pass
            }
            (When::Is(good), value) => WaiterFate::serve_if(good(value, &args.slices(), key)),
            (When::At(_), Some(_)) if is_paused(store, key) => WaiterFate::Pass,
            (When::At(at), value) => self.serve_at(store, at(value, &args.slices(), key)),
            (When::Due(_), _) if self.is_nothing_due => WaiterFate::Pass,
            (When::Due(due_at), value) => {
                let value = value.filter(|_| !is_paused(store, key));
                let fate = self.serve_at(store, value.and_then(due_at));
                self.is_nothing_due = !matches!(fate, WaiterFate::Serve);
                let shard = store.tx.hold.shard(store.entered_shard(key));
                let is_last = self.is_nothing_due && shard.waiters.all_await_due(ready.db, key);
                if is_last { WaiterFate::Stop } else { fate }
            }
        }
    }

    /// Serves a waiter if its time has come.
    fn serve_at(&mut self, store: &Store, time_ms: Option<UnixMs>) -> WaiterFate {
        let time_ms = time_ms.unwrap_or(UnixMs::MAX);
        if time_ms <= store.now() {
            return WaiterFate::Serve;
        }
        self.next_ms = self.next_ms.min(time_ms);
        WaiterFate::Pass
    }
}
