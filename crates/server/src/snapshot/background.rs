//! Saves in the background: the cut, slices of work between the turns of clients, and clients that have to wait.
//!
//! The cut is made while all shards are entered, so it falls between two transactions everywhere. Then each thread
//! visits its home shards in slices of [`SLICE_NS`]. A thread that is about to change a record captures it first (see
//! `keyspace`'s `cut.rs`). Captured records wait for the writer. When too many wait, capturing stops.
//!
//! A command that would change a large value, or anything while too much waits, is *held back*: it is kept as
//! arguments, holds nothing, and is tried again in the order in which such commands came to their thread. Meanwhile
//! that thread helps with the large value. Only a change of an undeclared key (by a script, for example) captures all
//! of the value at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clients::session::{Retry, Session};
use config::{SAVE, SNAPSHOT_CRON};
use engine::{Command, Located, Needs, OwnedArgs, Route, Rule, Tx};
use journal::Progress;
use keyspace::Dbs;
use observe::ThreadStats;
use persistence::{Plan, Saving, is_due, save_settings};
use proactor::{Clock, ConnId};
use replication::log::{Begun, Step};
use scripting::Demands;
use shard::ShardId;

use super::Loaded;
use crate::message::Message;
use crate::thread::{Thread, ThreadHost};

/// The time for which a slice of work holds a shard.
const SLICE_NS: u64 = 50_000;
/// In a simulation, threads work on the snapshot in one turn of this many.
const SIMULATED_TURNS: u64 = 8;

/// A thread's share of the snapshot that is being saved.
pub(crate) struct Share {
    clock: Clock,
    /// Records in a slice of work.
    records_max: usize,
    saving: Option<Arc<Saving>>,
    /// Shards that may have records to be captured.
    shards: VecDeque<ShardId>,
    /// Clients whose commands are held back.
    held_back: VecDeque<ConnId>,
    /// The progress of the journal, which also holds commands back.
    journal: Arc<Progress>,
}

impl Share {
    /// Creates an empty share. Slices are timed by this clock, and contain at most this many records.
    pub(crate) fn new(clock: Clock, records_max: usize, journal: Arc<Progress>) -> Share {
        let (shards, held_back) = (VecDeque::new(), VecDeque::new());
        Share { clock, records_max, saving: None, shards, held_back, journal }
    }

    fn is_full(&self) -> bool {
        self.journal.is_full() || self.saving.as_ref().is_some_and(|saving| saving.is_full())
    }

    /// Whether there is work that can be done now.
    pub(crate) fn is_busy(&self) -> bool {
        let waits = !self.shards.is_empty() || !self.held_back.is_empty();
        waits && !self.is_full()
    }

    /// Whether no work is left, now or later.
    #[inline]
    fn is_idle(&self) -> bool {
        self.saving.is_none() && self.held_back.is_empty()
    }

    /// Whether flushed databases can be captured now.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_full()
    }

    /// Notes that a snapshot has begun, with the shards that this thread `visits` for it, or has ended.
    pub(crate) fn look<I: Iterator<Item = ShardId>>(
        &mut self,
        current: Option<Arc<Saving>>,
        visits: impl FnOnce(Arc<Saving>) -> I,
    ) {
        let is_known = match (&self.saving, &current) {
            (Some(known), Some(current)) => Arc::ptr_eq(known, current),
            (known, current) => known.is_none() && current.is_none(),
        };
        if !is_known {
            self.shards = current.clone().map_or_else(VecDeque::new, |saving| visits(saving).collect());
            self.saving = current;
        }
    }

    /// A function that says whether a slice that begins now may continue.
    pub(crate) fn slice(&self) -> impl FnMut() -> bool + use<> {
        let (clock, saving) = (self.clock.clone(), self.saving.clone());
        let end_ns = clock.monotonic_ns() + SLICE_NS;
        let mut left = self.records_max;
        move || {
            left = left.saturating_sub(1);
            let is_full = saving.as_ref().is_some_and(|saving| saving.is_full());
            left > 0 && !is_full && clock.monotonic_ns() < end_ns
        }
    }

    /// Makes a command of this client, which is ready, wait until the snapshot has come further.
    pub(crate) fn hold_back(&mut self, session: &mut Session, retry: Retry, stats: &ThreadStats) {
        session.state.hold_back(retry);
        stats.held_back.add(1);
        self.held_back.push_back(ConnId::from_bits(session.client.connection));
    }

    /// Whether a command, which `writes` or not, must not run yet, because it would change a key that the snapshot
    /// cannot capture at once, or because too much waits for the journal. If so, this helps with the snapshot.
    pub(crate) fn stops(
        &self,
        tx: &mut Tx<'_>,
        command: &Command,
        args: &[&[u8]],
        db: u32,
        writes: bool,
    ) -> bool {
        if writes && self.journal.is_full() {
            return true;
        }
        let (placement, now) = (tx.hold.shards().placement(), tx.now);
        let mut must_wait = false;
        for key in command.keys(args).unwrap_or_default() {
            let key = args[key.index];
            let (id, hash) = placement.locate(key);
            if !tx.hold.has(id) {
                continue;
            }
            let Some(db) = tx.hold.shard_mut(id).dbs.used_mut(db as usize).filter(|db| db.is_cut()) else {
                continue;
            };
            // Reading an expired record deletes it.
            let is_due = |record: keyspace::RecordRef<'_>| {
                record.expired(now) || record.value().first_field_expiry().is_some_and(|first| first < now)
            };
            if !writes && !db.find(hash, key).is_some_and(is_due) {
                continue;
            }
            if db.holds_back(hash, key) {
                let mut has_time = self.slice();
                while has_time() && !db.continue_cut(&mut has_time) {}
                must_wait |= db.holds_back(hash, key);
            }
        }
        must_wait
    }
}

/// Continues the cuts of a shard's databases. Returns true if all of them are done.
fn continue_cuts(dbs: &mut Dbs, has_time: &mut dyn FnMut() -> bool) -> bool {
    dbs.iter_mut().all(|(_, db)| {
        while !db.continue_cut(has_time) {
            if !has_time() {
                return false;
            }
        }
        true
    })
}

/// Whether commands that the current client's EXEC would run must wait, with `db` selected.
fn stops_exec(thread: &mut Thread, mut db: u32) -> bool {
    let Thread { tx, host, .. } = thread;
    let Some(multi) = host.session().multi.take() else { return false };
    let mut must_wait = false;
    for (id, args) in &multi.queued {
        let (command, args) = (tx.table.get(*id), args.slices());
        if command.entry.is_under(Rule::SelectsDb)
            && let Some(number) = args.get(1).and_then(|arg| ds::num::parse_i64(arg))
        {
            db = number as u32;
        }
        let writes = Demands::of(&mut host.lua, command, &args).replicates;
        must_wait |= host.snapshot.stops(tx, command, &args, db, writes);
    }
    host.session().multi = Some(multi);
    must_wait
}

impl Thread {
    /// Notes that a snapshot has begun or ended.
    pub(crate) fn look_at_snapshot(&mut self) {
        let (shared, own) = (self.host.shared, self.host.id);
        let visits = |saving: Arc<Saving>| {
            shared.shards.used().filter(move |id| saving.is_visitor(own, shared.shards.home(*id)))
        };
        self.host.snapshot.look(shared.snapshots.current(), visits);
    }

    /// Does a slice of work for the snapshot, if one is being saved, and for the commands that wait for it.
    pub(crate) fn save_slice(&mut self) {
        if self.host.snapshot.is_idle() {
            return;
        }
        if self.host.snapshot.saving.is_some() && self.host.shared.is_simulated() {
            let mut entropy = self.host.driver.entropy().expect("a simulated driver has chance");
            if !entropy.one_in(SIMULATED_TURNS) {
                return;
            }
        }
        if self.host.snapshot.is_full() {
            return;
        }
        for conn in std::mem::take(&mut self.host.snapshot.held_back) {
            self.try_again(conn);
        }
        let mut has_time = self.host.snapshot.slice();
        for _ in 0..self.host.snapshot.shards.len() {
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

    /// Whether a command whose shards are entered must wait for the snapshot. If so, it is held back.
    #[cold]
    pub(crate) fn hold_back(&mut self, command: &'static Command, args: &[&[u8]]) -> bool {
        let db = self.host.session().client.db;
        let must_wait = if command.entry.route == Route::Queued {
            stops_exec(self, db)
        } else {
            let writes = Demands::of(&mut self.host.lua, command, args).replicates;
            self.host.snapshot.stops(&mut self.tx, command, args, db, writes)
        };
        if must_wait {
            self.tx.located = Located::default();
            let args = OwnedArgs::new(args);
            let retry = Retry { command: command.id, args, needs: Needs::Nothing, tries: 0 };
            let ThreadHost { snapshot, current, accounting, .. } = &mut self.host;
            let session = current.as_deref_mut().expect("a command runs for a client");
            snapshot.hold_back(session, retry, accounting.stats());
        }
        must_wait
    }

    /// Enters all shards. Returns false if some stay taken.
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

    /// Begins a background save if it is due, unless shards stay taken. The first thread checks ten times a second.
    pub(crate) fn save_if_due(&mut self) {
        let (shared, now_seconds) = (self.host.shared, self.host.driver.clock().now_ms() / 1000);
        let changes = || shared.shards.changes();
        let keeper = shared.keeper();
        if let Some(step) = keeper.next_step(now_seconds) {
            if self.enters_all() {
                let begins = matches!(step, Step::Begin(_));
                if begins {
                    shared.break_history_if_unrecorded(&mut self.host.driver);
                }
                let hold = &mut self.tx.hold;
                keeper.take_step(step, |settings| shared.save_in_background(hold, settings));
                if begins {
                    shared.journal.name_stream(shared.primary.history().id);
                }
            } else {
                keeper.put_off(step);
            }
            return self.leave_all();
        }
        let (points, cron) = (shared.settings.text(SAVE), shared.settings.text(SNAPSHOT_CRON));
        let plan = Plan { points: &points, cron: &cron };
        if !is_due(&shared.snapshots, plan, changes, now_seconds) {
            return;
        }
        if self.enters_all() {
            let settings = save_settings(&shared.settings, &shared.machine.disk);
            if shared.snapshots.current().is_none()
                && let Err(error) = shared.save_in_background(&mut self.tx.hold, settings)
            {
                shared.snapshots.note_failure(&error.to_string());
            }
            shared.snapshots.is_scheduled.store(false, Ordering::Relaxed);
        }
        self.leave_all();
    }

    /// Puts the data loaded at the start in place. All commands are served afterwards.
    pub(crate) fn install(&mut self, mut loaded: Box<Loaded>) {
        let shared = self.host.shared;
        if !self.enters_all() {
            self.host.mailroom.put_off(Message::Loaded(loaded));
            return;
        }
        let (installed, is_imported) = (loaded.installed.take(), loaded.is_imported);
        let journal = loaded.journal.take();
        let is_replica = shared.following.is_replica() && !journal.as_ref().is_some_and(Begun::is_open);
        if let Some((stream, db)) = loaded.stream(shared.settings.databases()).filter(|_| is_replica) {
            shared.following.go_on_behind(&shared.primary, stream, Some(db));
            shared.journal.begin_copy(stream.1);
        }
        let has_data = loaded.has_data();
        loaded.put_in_place(&mut self.tx, &shared.scripts, &shared.snapshots);
        if let Some(begun) = journal {
            shared.journal.start(begun);
        } else if is_imported {
            // The sooner this is in a snapshot, the better.
            self.tx.hold.shard_mut(ShardId(0)).stats.changes.add(1);
            shared.snapshots.is_scheduled.store(true, Ordering::Relaxed);
        }
        if !shared.following.is_replica() && has_data {
            shared.journal.doubt_all();
            shared.judge_quorum(self.host.now_ms);
        }
        self.tx.finish(&mut self.host);
        self.leave_all();
        self.post_all();
        if !shared.is_simulated() {
            shared.broadcast(|| Message::OwnHeap);
        }
        if !shared.journal.awaits_first_base() {
            shared.snapshots.progress.end();
        }
        // If the server ends, the receiver is gone.
        let _ = installed.map(|installed| installed.send(()));
    }
}

#[cfg(test)]
mod tests {
    use engine::{Client, Local};
    use keyspace::{RecordRef, Taken, Witness};
    use resp::Proto;

    use super::*;

    /// A snapshot without room for more.
    struct Full;

    impl Witness for Full {
        fn take(&mut self, _: RecordRef<'_>, at_once: bool) -> Taken {
            if at_once { Taken::All } else { Taken::Nothing }
        }

        fn is_full(&self) -> bool {
            true
        }

        fn is_large(&self, _: RecordRef<'_>) -> bool {
            false
        }

        fn end(self: Box<Self>) {}
    }

    #[test]
    fn what_would_change_a_key_waits_while_there_is_no_room_for_it() {
        let mut local = Local::new(commands::FAMILIES);
        local.line("SET a 1");
        let journal = Progress::new(1, 0, journal::Policy::No, Box::new(|_| {}));
        let share = Share::new(Clock::real(), 10, Arc::new(journal));
        local.with_store(Client::internal(0, Proto::Resp2), |store| {
            let tx = &mut *store.tx;
            let ids: Vec<ShardId> = tx.hold.shards().ids().collect();
            let check = |tx: &mut Tx<'_>, line: &str, expected: bool| {
                let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
                let command = tx.table.resolve(&args).expect("there is such a command");
                let writes = command.is_write();
                assert_eq!(share.stops(tx, command, &args, 0, writes), expected, "{line}");
            };
            check(tx, "SET a 2", false);
            for id in ids {
                tx.hold.shard_mut(id).dbs[0].begin_cut(Box::new(Full));
            }
            check(tx, "SET a 2", true);
            check(tx, "GET a", false);
            check(tx, "MSET b 1 a 2", true);
            // The snapshot has nothing to capture for this key.
            check(tx, "SET b 2", false);
        });
    }
}
