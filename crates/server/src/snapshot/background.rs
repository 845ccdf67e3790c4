//! Saves in the background: the cut, slices of work between the turns of clients, and clients that have to wait.
//!
//! The cut is made while all shards are entered, so it falls between two transactions everywhere. Then each thread
//! visits its home shards in slices (`background`'s `snapshot.rs`). A thread that is about to change a record captures
//! it first (see `keyspace`'s `cut.rs`). Captured records wait for the writer. When too many wait, capturing stops.
//!
//! A command that would change a large value, or anything while too much waits, is *held back*: it is kept as
//! arguments, holds nothing, and is tried again in the order in which such commands came to their thread. Meanwhile
//! that thread helps with the large value. Only a change of an undeclared key (by a script, for example) captures all
//! of the value at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use background::snapshot::continue_cuts;
use clients::session::Retry;
use config::{SAVE, SNAPSHOT_CRON};
use engine::{Command, Located, Needs, OwnedArgs, Route, Rule};
use persistence::{Plan, Saving, is_due, save_settings};
use proactor::ConnId;
use replication::log::{Begun, SwitchStep};
use scripting::Demands;
use shard::ShardId;

use super::Loaded;
use crate::message::Message;
use crate::thread::{Thread, ThreadHost};

/// In a simulation, threads work on the snapshot in one turn of this many.
const SIMULATED_TURNS: u64 = 8;

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
        let writes = Demands::of(&mut host.scripts.lua, command, &args).replicates;
        must_wait |= host.background.snapshot.stops(tx, command, &args, db, writes);
    }
    host.session().multi = Some(multi);
    must_wait
}

impl Thread {
    /// Notes that a snapshot has begun or ended.
    pub(crate) fn look_at_snapshot(&mut self) {
        let (shared, own) = (self.host.shared, self.host.net.id);
        let visits = |saving: Arc<Saving>| {
            shared.shards.used().filter(move |id| saving.is_visitor(own, shared.shards.home(*id)))
        };
        self.host.background.snapshot.look(shared.snapshots.current(), visits);
    }

    /// Does a slice of work for the snapshot, if one is being saved, and for the commands that wait for it.
    pub(crate) fn save_slice(&mut self) {
        if self.host.background.snapshot.is_idle() {
            return;
        }
        if self.host.background.snapshot.is_saving() && self.host.shared.is_simulated() {
            let mut entropy = self.host.net.driver.entropy().expect("a simulated driver has chance");
            if !entropy.one_in(SIMULATED_TURNS) {
                return;
            }
        }
        if self.host.background.snapshot.is_full() {
            return;
        }
        for conn in self.host.background.snapshot.take_held_back() {
            self.try_again(conn);
        }
        let mut has_time = self.host.background.snapshot.slice();
        for _ in 0..self.host.background.snapshot.shard_count() {
            let Some(id) = self.host.background.snapshot.pop_shard() else { return };
            let mut is_done = false;
            if self.tx.hold.try_enter(id) {
                is_done = continue_cuts(&mut self.tx.hold.shard_mut(id).dbs, &mut has_time);
                self.leave_all();
            }
            if !is_done {
                self.host.background.snapshot.push_shard(id);
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
            let writes = Demands::of(&mut self.host.scripts.lua, command, args).replicates;
            self.host.background.snapshot.stops(&mut self.tx, command, args, db, writes)
        };
        if must_wait {
            self.tx.located = Located::default();
            let args = OwnedArgs::new(args);
            let retry = Retry { command: command.id, args, needs: Needs::Nothing, tries: 0 };
            let ThreadHost { background, current, reports, .. } = &mut self.host;
            let session = current.as_deref_mut().expect("a command runs for a client");
            session.state.hold_back(retry);
            let conn = ConnId::from_bits(session.client.connection);
            background.snapshot.hold_back(conn, reports.accounting.stats());
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
        let (shared, now_seconds) = (self.host.shared, self.host.net.driver.clock().now_ms() / 1000);
        let changes = || shared.shards.changes();
        let keeper = shared.keeper();
        if let Some(step) = keeper.next_step(now_seconds) {
            if self.enters_all() {
                let begins = matches!(step, SwitchStep::Begin(_));
                if begins {
                    shared.break_history_if_unrecorded(&mut self.host.net.driver);
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
            self.host.net.mailroom.put_off(Message::Loaded(loaded));
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
            shared.role_parts().judge_quorum(self.host.net.now_ms);
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
