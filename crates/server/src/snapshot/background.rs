//! Saving in the background: the cut, slices of work between the turns of clients, and clients that have to wait.
//!
//! The cut is taken while all shards are entered, so it comes between two transactions everywhere. From then on each
//! thread goes over the shards at home there, in slices of [`SLICE_NS`], and records that change before their turn are taken by
//! whoever changes them (see `keyspace`'s `cut.rs`). What was taken waits for the writer; when too much does, nobody takes more.
//!
//! A command that would change a large value, or anything while too much waits, is *held back*: it is kept as arguments, holds
//! nothing, and is tried again in the order in which such commands came to their thread. Meanwhile that thread helps with the
//! large value. Only what comes upon a key unannounced (a script with undeclared keys, say) takes all of it at once.

use std::collections::VecDeque;
use std::sync::Arc;

use command::{Command, Flag, Group, Located, Needs, OwnedArgs, Route, Rule, Task, Wait};
use keyspace::Db;
use persistence::{Saving, Scribe};
use proactor::{Clock, ConnId};
use process::processors;
use session::Retry;
use shard::{Hold, ShardId};

use super::save_settings;
use crate::message::Message;
use crate::thread::{Thread, ThreadHost};

/// A slice of work, during which a shard is held.
const SLICE_NS: u64 = 50_000;
/// In a simulation threads come to the snapshot only in one of so many turns.
const SIMULATED_TURNS: u64 = 8;

/// What a thread has to do with the snapshot that is being saved.
#[derive(Default)]
pub(crate) struct Share {
    saving: Option<Arc<Saving>>,
    /// Shards at home here that may have records to be taken.
    shards: VecDeque<ShardId>,
    /// Clients whose commands are held back.
    held_back: VecDeque<ConnId>,
}

impl Share {
    fn is_full(&self) -> bool {
        self.saving.as_ref().is_some_and(|saving| saving.is_full())
    }

    /// Whether there is something that can be done now.
    pub(crate) fn is_busy(&self) -> bool {
        let waits = !self.shards.is_empty() || !self.held_back.is_empty();
        waits && !self.is_full()
    }

    /// Whether flushed databases can be looked at now.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_full()
    }

    /// What says whether a slice that begins now may go on.
    pub(crate) fn slice(&self, clock: &Clock, records_max: usize) -> impl FnMut() -> bool + use<> {
        let (clock, saving) = (clock.clone(), self.saving.clone());
        let end_ns = clock.monotonic_ns() + SLICE_NS;
        let mut left = records_max;
        move || {
            left = left.saturating_sub(1);
            let is_full = saving.as_ref().is_some_and(|saving| saving.is_full());
            left > 0 && !is_full && clock.monotonic_ns() < end_ns
        }
    }
}

/// Goes on with the cuts of a shard's databases; true if all of them are done.
fn continue_cuts(dbs: &mut [Db], has_time: &mut dyn FnMut() -> bool) -> bool {
    dbs.iter_mut().all(|db| {
        while !db.continue_cut(has_time) {
            if !has_time() {
                return false;
            }
        }
        true
    })
}

impl ThreadHost {
    /// Begins to save what is there now; all shards are entered, and no other save is under way. The error is for the log.
    pub(crate) fn begin_background_save(&mut self, hold: &mut Hold<'_, Task, Wait>) -> std::io::Result<()> {
        let shared = self.shared;
        let content = shared.content(hold)?;
        let tell = move || shared.broadcast(|| Message::Snapshot);
        let settings = save_settings(&shared.settings, &shared.machine.disk);
        let (saving, writer) =
            shared.snapshots.begin(settings, &content, shared.shards.changes(), Box::new(tell))?;
        shared.snapshots.run_writer(writer, move || processors::place_writer(&shared.settings))?;
        for id in shared.shards.ids() {
            for (number, db) in (0..).zip(&mut hold.shard_mut(id).dbs) {
                if !db.is_empty() {
                    db.begin_cut(Box::new(Scribe::new(&saving, number, shared.shards.home(id))));
                }
            }
        }
        shared.snapshots.began(&saving);
        tell();
        saving.close_one();
        tracing::info!("Background saving started");
        Ok(())
    }

    fn note_held_back(&mut self, conn: ConnId) {
        self.accounting.stats().held_back.add(1);
        self.snapshot.held_back.push_back(conn);
    }

    /// A command that came home without having run waits for its turn.
    pub(crate) fn hold_back_until_next_slice(&mut self, conn: ConnId, retry: Retry) {
        if let Some(session) = self.connections.session(conn) {
            session.state.hold_back(retry);
            self.note_held_back(conn);
        }
    }
}

impl Thread {
    /// Takes note of a snapshot that begins or is over.
    pub(crate) fn look_at_snapshot(&mut self) {
        let (shared, own) = (self.host.shared, self.host.id);
        let current = shared.snapshots.current();
        let share = &mut self.host.snapshot;
        let is_known = match (&share.saving, &current) {
            (Some(known), Some(current)) => Arc::ptr_eq(known, current),
            (known, current) => known.is_none() && current.is_none(),
        };
        if !is_known {
            share.shards = if current.is_some() {
                shared.shards.ids().filter(|id| shared.shards.home(*id) == own).collect()
            } else {
                VecDeque::new()
            };
            share.saving = current;
        }
    }

    /// A slice of the snapshot, if one is being saved, and what waits for it.
    pub(crate) fn save_slice(&mut self) {
        if self.host.snapshot.saving.is_some() && self.host.shared.is_simulated() {
            let mut entropy = self.host.driver.entropy().expect("a simulated driver has chance");
            if !entropy.one_in(SIMULATED_TURNS) {
                return;
            }
        }
        let share = &mut self.host.snapshot;
        if share.is_full() {
            return;
        }
        for conn in std::mem::take(&mut share.held_back) {
            self.try_again(conn);
        }
        let share = &mut self.host.snapshot;
        let mut has_time =
            share.slice(self.host.driver.clock(), self.host.shared.machine.tuning.slice_records_max);
        for _ in 0..share.shards.len() {
            let Some(id) = self.host.snapshot.shards.pop_front() else { return };
            let mut is_done = false;
            if self.tx.hold.try_enter(id) {
                is_done = continue_cuts(&mut self.tx.hold.shard_mut(id).dbs, &mut has_time);
                self.leave_all();
            }
            if !is_done {
                self.host.snapshot.shards.push_back(id);
            }
            if !has_time() {
                return;
            }
        }
    }

    /// Whether a command whose shards are entered must wait for the snapshot; then that is seen to.
    #[cold]
    pub(crate) fn hold_back(&mut self, command: &'static Command, args: &[&[u8]]) -> bool {
        let client = self.host.session().client;
        let must_wait = match command.entry.route {
            Route::Queued => self.transaction_waits(client.db),
            _ => self.waits_for_snapshot(command, args, client.db),
        };
        if must_wait {
            self.tx.located = Located::default();
            let args = OwnedArgs::new(args);
            let retry = Retry { command: command.id, args, needs: Needs::Nothing, tries: 0 };
            self.host.session().state.hold_back(retry);
            self.host.note_held_back(ConnId::from_bits(client.connection));
        }
        must_wait
    }

    /// The same for the commands that EXEC of the current client would run.
    fn transaction_waits(&mut self, mut db: u32) -> bool {
        let Some(multi) = self.host.session().multi.take() else { return false };
        let mut must_wait = false;
        for (id, args) in &multi.queued {
            let (command, args) = (self.host.shared.table.get(*id), args.slices());
            if command.entry.is_under(Rule::SelectsDb)
                && let Some(number) = args.get(1).and_then(|arg| ds::num::parse_i64(arg))
            {
                db = number as u32;
            }
            must_wait |= self.waits_for_snapshot(command, &args, db);
        }
        self.host.session().multi = Some(multi);
        must_wait
    }

    /// Whether a command must not run yet because it would change a key that the snapshot cannot take at once. Helps with it.
    pub(crate) fn waits_for_snapshot(&mut self, command: &Command, args: &[&[u8]], db: u32) -> bool {
        let writes = command.is_write()
            || command.has(Flag::MayReplicate)
            || command.entry.group == Group::Scripting && !command.has(Flag::ReadOnly);
        let placement = self.host.shared.shards.placement();
        let mut must_wait = false;
        for key in command.keys(args).unwrap_or_default() {
            let key = args[key.index];
            let (id, hash) = placement.locate(key);
            if !self.tx.hold.has(id) {
                continue;
            }
            let Some(db) = self.tx.hold.shard_mut(id).dbs.get_mut(db as usize).filter(|db| db.is_cut())
            else {
                continue;
            };
            let now = self.tx.now;
            // To look at what has expired is to take it away.
            let is_due = |record: keyspace::RecordRef<'_>| {
                record.expired(now) || record.value().first_field_expiry().is_some_and(|first| first < now)
            };
            if !writes && !db.find(hash, key).is_some_and(is_due) {
                continue;
            }
            if db.holds_back(hash, key) {
                let mut has_time = self
                    .host
                    .snapshot
                    .slice(self.host.driver.clock(), self.host.shared.machine.tuning.slice_records_max);
                while has_time() && !db.continue_cut(&mut has_time) {}
                must_wait |= db.holds_back(hash, key);
            }
        }
        must_wait
    }

    /// Enters all shards, unless some are taken for long.
    pub(crate) fn enters_all(&mut self) -> bool {
        self.leave_all();
        let shared = self.host.shared;
        let ids: Vec<ShardId> = shared.shards.ids().collect();
        let patience = shared.shards.patience();
        let patient = patience.try_take();
        let has_all = self.tx.hold.try_enter_all(&ids, patient).is_ok();
        if patient {
            patience.put_back();
        }
        has_all
    }

    /// Begins to save in the background, unless shards are taken for long.
    pub(super) fn try_to_begin_save(&mut self) -> bool {
        let shared = self.host.shared;
        let has_all = self.enters_all();
        if has_all
            && shared.snapshots.current().is_none()
            && let Err(error) = self.host.begin_background_save(&mut self.tx.hold)
        {
            shared.snapshots.note_failure(&error.to_string());
        }
        self.leave_all();
        has_all
    }
}
