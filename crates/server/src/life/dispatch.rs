//! Gets a command its shards, from arguments to a reply.
//!
//! ```text
//!   command ── resolve, admit ──▶ needs ──▶ nothing: run
//!                                       ──▶ one shard: hop home │ enter and run │ put off │ delegate to its holder
//!                                       ──▶ several: enter all in order and run │ queue at the one taken, again
//! ```
//!
//! The thread keeps a baton over a run of commands of one pipeline that need the same shard. Before it leaves the
//! shard, it runs the tasks that were delegated meanwhile (`delegated.rs`).

use std::sync::atomic::Ordering;

use clients::session::{Retry, Session};
use config::EntryMode;
use effectlog::Lsn;
use engine::mutant::{self, Mutant};
use engine::{
    Client, Command, CommandError, Flag, Located, Mode, Needs, Outcome, OwnedArgs, Route, Shards, Task,
    TxMessage, Work,
};
use journal::Refusal;
use observe::{Call, EntryType, RequestSource};
use proactor::CloseMode;
use replication::Standing;
use resp::{Output, Reply};
use scripting::States;
use shard::{Delegated, PATIENCE_AFTER, ShardId};

use crate::connections::network::Network;
use crate::life::admit::{Admission, refusal_of_replica, suppress_reply};
use crate::life::executing::note_seen;
use crate::life::giving_way::pass_kept_on;
use crate::life::syncing::note_written;
use crate::life::wait::begin_wait;
use crate::life::waits::Waits;
use crate::message::Message;
use crate::messages::Remote;
use crate::reports::Reports;
use crate::shared::Shared;
use crate::subscribers::hear_itself;
use crate::thread::{Thread, ThreadHost, begin, finish, running};
use crate::users::refusal_of;

/// Commands of a pipeline that run under one baton before other threads get it.
const RUN_MAX: u32 = 32;

/// The place of the only key of a call, if it has just one.
#[inline]
fn locate_lone_key(shards: &Shards, command: &Command, args: &[&[u8]]) -> Option<Located> {
    let key = args[command.lone_key(args)?];
    Some(Located::new(key, shards.placement().locate(key)))
}

/// Whether commands of a client simply run: no state queues, refuses, delays or shows them.
#[inline]
pub(crate) fn runs_plainly(session: &Session, waits: &Waits, reports: &Reports, shared: &Shared) -> bool {
    !(session.is_special()
        || waits.pausing.is_on()
        || reports.monitors.are_there()
        || shared.scripts.is_busy()
        || shared.quorum.is_lacking()
        || shared.snapshots.last_failed.load(Ordering::Relaxed)
        || shared.journal.progress.refusal() != Refusal::None
        || shared.snapshots.progress.is_loading())
}

/// Whether a command on this shard goes from thread `me` to the shard's home thread, if that is another one: always in
/// home mode, otherwise if it is heavy and that thread is awake.
#[inline]
pub(crate) fn runs_elsewhere(shared: &Shared, me: u16, command: &Command, id: ShardId) -> bool {
    let home = shared.shards.home(id);
    home != me
        && match shared.entry_mode {
            EntryMode::Home => true,
            EntryMode::Roam => {
                let is_ready = |thread: &Remote| !thread.is_asleep() && !thread.is_away();
                command.entry.mode == Mode::Heavy && is_ready(&shared.threads[usize::from(home)])
            }
        }
}

/// Sends a command of a client to the home thread of its shard.
fn hop(
    session: &mut Session,
    net: &mut Network,
    shared: &Shared,
    command: &Command,
    args: &[&[u8]],
    id: ShardId,
) {
    let looks_first =
        shared.entry_mode == EntryMode::Home && !shared.singlehop_blocking && command.has(Flag::Blocking);
    let work = if looks_first { Work::Look(command.id) } else { Work::Run(command.id) };
    let node = Delegated::new(task_of(session, work, id, args));
    session.state.go_away();
    net.stats.count_entry(EntryType::Hop, 1);
    net.messages.send(shared.shards.home(id), Message::Hop(node));
}

/// Creates a task of a client.
pub(crate) fn task_of(session: &Session, work: Work, shard: ShardId, args: &[&[u8]]) -> Task {
    let client = Client { may_be_gone: true, ..session.client };
    Task::new(work, shard, client, OwnedArgs::new(args))
}

impl Thread {
    /// Runs a command of the current client, or arranges that it will run. `located` is the place of its only key, if known.
    #[inline]
    pub(crate) fn call(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        located: Option<Located>,
        out: &mut Output,
    ) {
        let users = &self.host.shared.users;
        if self.host.session().access.needs_check(users)
            && let Err(lack) = self.host.permit(command, args)
        {
            if let Some(error) = refusal_of(lack, self.host.session(), command) {
                self.host.turn_away(Some(command), &error, out);
            }
            return;
        }
        if self.lacks_room(command, args) && !self.host.shared.snapshots.progress.is_loading() {
            return self.host.turn_away(Some(command), &CommandError::OUT_OF_MEMORY, out);
        }
        let ThreadHost { current, scripts, waits, reports, shared, .. } = &mut self.host;
        let session = running(current);
        let is_special = !runs_plainly(session, waits, reports, shared)
            || shared.following.is_replica()
                && refusal_of_replica(session, &mut scripts.lua, shared, command, args).is_some();
        if is_special {
            self.special_command(command, args, out);
        // This is here rather than in `execute`, which nearly all commands can skip this way.
        } else if let Some(located) =
            located.or_else(|| locate_lone_key(&self.host.shared.shards, command, args))
        {
            self.execute_one(command, args, located.shard(), located, 0, out);
        } else {
            self.execute_otherwise(command, args, Needs::Nothing, 0, out);
        }
        if self.tx.told_itself {
            hear_itself(self, out);
        }
    }

    /// Handles a command of a client in a special state: it is queued, refused, or its reply suppressed.
    #[cold]
    fn special_command(&mut self, command: &'static Command, args: &[&[u8]], out: &mut Output) {
        let (mode, mark) = (self.host.session().reply_mode, out.mark());
        self.host.session().next_after_caching(command);
        match self.host.admit(command, args, out) {
            Admission::Run => {
                // MONITOR shows a script before the commands that it calls.
                let shown_first = command.has(Flag::SkipMonitor);
                let show = |host: &mut ThreadHost| {
                    let ThreadHost { reports, current, shared, net, .. } = host;
                    reports.monitor(command, args, running(current), shared, net.driver.clock());
                };
                if shown_first {
                    show(&mut self.host);
                }
                self.execute(command, args, Needs::Nothing, 0, out);
                note_seen(self);
                if self.host.session().is_subscriber() && !self.tx.outbox.is_empty() {
                    // Only after that is it known whether the client gets events of its own.
                    self.leave_all();
                }
                if !shown_first {
                    show(&mut self.host);
                }
            }
            Admission::Queued => {
                self.host.session().last_command = Some(command.id);
                Reply::new(out, self.host.session().client.proto).simple("QUEUED");
            }
            Admission::Later => return self.host.session().last_command = Some(command.id),
            Admission::Refused(error) => self.host.refuse(Some(command), &error, out),
            Admission::Gone => return self.host.session().state.close(CloseMode::AfterFlush),
        }
        suppress_reply(self.host.session(), Some(command), mode, mark, out);
    }

    /// Runs `command` with its shards and `more` entered, or delegates or queues it.
    pub(crate) fn execute(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        more: Needs,
        tries: u32,
        out: &mut Output,
    ) {
        match locate_lone_key(&self.host.shared.shards, command, args).filter(|_| more == Needs::Nothing) {
            Some(located) => self.execute_one(command, args, located.shard(), located, tries, out),
            None => self.execute_otherwise(command, args, more, tries, out),
        }
    }

    /// Executes a call that does not have just one key, or that needs more shards than its key's.
    fn execute_otherwise(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        more: Needs,
        tries: u32,
        out: &mut Output,
    ) {
        let shared = self.host.shared;
        if self.tx.hold.has_unpublished() {
            // This is for the same pipeline: an offset that this command shows includes earlier writes.
            self.tx.commit();
            note_written(&mut self.tx, self.host.current.as_deref_mut());
        }
        let ThreadHost { current, scripts, .. } = &mut self.host;
        let needs = if more != Needs::Nothing {
            shared.judge().needs(running(current), &mut scripts.lua, command, args).and(more)
        } else if command.entry.route == Route::KeysInTurn {
            Needs::of_first_key(command, args, shared.shards.placement())
        } else {
            shared.judge().needs_of_no_lone_key(running(current), &mut scripts.lua, command, args)
        };
        match &needs {
            Needs::Nothing => {
                if command.entry.route == Route::Walk {
                    // It leaves shards as it proceeds, but only after earlier changes are published.
                    self.leave_all();
                }
                self.host.reports.accounting.stats().count_entry(EntryType::None, 0);
                let entered_before = self.tx.hold.entered().len();
                self.run_here(command, args, out);
                if self.tx.hold.entered().len() > entered_before {
                    self.leave_all();
                }
            }
            Needs::One(id) => self.execute_one(command, args, *id, Located::default(), tries, out),
            Needs::Several(ids) => self.execute_wide(command, args, ids, &needs, tries, out),
            Needs::All => {
                let ids: Vec<ShardId> = shared.shards.ids().collect();
                self.execute_wide(command, args, &ids, &needs, tries, out);
            }
        }
    }

    #[inline]
    fn execute_one(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        id: ShardId,
        located: Located,
        tries: u32,
        out: &mut Output,
    ) {
        let shared = self.host.shared;
        // A script depends on the user of its client.
        let mode = command.entry.mode;
        let travels = mode.may_travel() && (mode != Mode::Heavy || !self.host.session().access.is_limited());
        let home = shared.shards.home(id);
        if travels && runs_elsewhere(shared, self.host.net.id, command, id) {
            self.leave_all();
            let ThreadHost { current, net, .. } = &mut self.host;
            return hop(running(current), net, shared, command, args, id);
        }
        if self.run_length >= RUN_MAX || !self.tx.hold.focus(id) {
            self.leave_all();
            self.run_length = 0;
            if !self.tx.hold.try_enter(id) {
                if !travels {
                    return self.execute_wide(command, args, &[id], &Needs::One(id), tries, out);
                }
                // It is put off rather than delegated now, because its thread has other clients to serve and replies to
                // send, and the shard is rarely taken for longer.
                let ThreadHost { current, waits, reports, .. } = &mut self.host;
                let session = running(current);
                let may_be_put_off = runs_plainly(session, waits, reports, shared);
                if session.state.put_off(may_be_put_off) {
                    return;
                }
                let node = Delegated::new(task_of(self.host.session(), Work::Run(command.id), id, args));
                if self.tx.hold.enter_or_delegate(id, node).is_none() {
                    self.host.session().state.go_away();
                    self.host.reports.accounting.stats().left_with_holder.add(1);
                    return self.host.reports.accounting.stats().count_entry(EntryType::Hop, 1);
                }
            }
        }
        self.run_length += 1;
        self.tx.located = located;
        let entered_before = self.tx.hold.entered().len();
        self.run_here(command, args, out);
        // It may have entered more shards, or have left all of them to run again.
        let entered = self.tx.hold.entered().len();
        if entered > entered_before {
            self.host.reports.accounting.stats().count_entry(EntryType::Wide, 1 + entered - entered_before);
            self.leave_all();
        } else if entered > 0 {
            let entry_type = if home == self.host.net.id { EntryType::Inline } else { EntryType::Quick };
            self.host.reports.accounting.stats().count_entry(entry_type, 1);
        }
    }

    fn execute_wide(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        ids: &[ShardId],
        needs: &Needs,
        tries: u32,
        out: &mut Output,
    ) {
        let client = self.host.session().client;
        if !self.enter_all(ids, tries, client) {
            let retry = Retry {
                command: command.id,
                args: OwnedArgs::new(args),
                needs: needs.clone(),
                tries: tries + 1,
            };
            self.host.session().state.queue(retry);
            return self.host.reports.accounting.stats().retries.add(1);
        }
        let entry_type = if *needs == Needs::All { EntryType::Global } else { EntryType::Wide };
        self.host.reports.accounting.stats().count_entry(entry_type, ids.len());
        self.run_here(command, args, out);
        self.leave_all();
    }

    /// Enters all of `ids`, which ascend. Returns false if one stayed taken; then nothing is held, and a note at that
    /// shard tells `client` when to try again.
    pub(crate) fn enter_all(&mut self, ids: &[ShardId], tries: u32, client: Client) -> bool {
        self.leave_all();
        let patience = self.host.shared.shards.patience();
        let patient = tries >= PATIENCE_AFTER && patience.try_take();
        let mut entered = false;
        loop {
            match self.tx.hold.try_enter_all(ids, patient) {
                Ok(()) => entered = true,
                Err(taken) => {
                    self.tx.leaves_unread();
                    self.leave_all();
                    let task = Task::new(Work::Notify, taken, client, OwnedArgs::default());
                    if self.tx.hold.enter_or_delegate(taken, Delegated::new(task)).is_some() {
                        // The shard was left at this moment and is entered already.
                        continue;
                    }
                }
            }
            break;
        }
        if patient {
            patience.put_back();
        }
        entered
    }

    /// Runs a command whose shards are entered.
    #[inline]
    fn run_here(&mut self, command: &'static Command, args: &[&[u8]], out: &mut Output) {
        if self.host.shared.may_hold_back() {
            let ThreadHost { current, scripts, background, net, .. } = &mut self.host;
            let (session, lua) = (running(current), &mut scripts.lua);
            if background.holds_back(&mut self.tx, session, lua, net.stats, command, args) {
                return;
            }
        }
        if self.host.shared.following.is_replica() {
            let ThreadHost { current, scripts, shared, .. } = &mut self.host;
            let lua = &mut scripts.lua;
            if let Some(error) = refusal_by_now(running(current), lua, shared, command, args) {
                return self.host.refuse(Some(command), &error, out);
            }
        }
        let session = self.host.session();
        // This must not come earlier: another client that reads it may rely on the shards knowing the command, too.
        session.last_command = Some(command.id);
        let client = session.client;
        process::crash::note_command(client.id, client.db, command.id.0);
        let started = self.host.reports.accounting.lap();
        begin(&mut self.tx, &mut self.host.net, &mut self.host.balancing.way, started);
        if !self.tx.hold.kept().is_empty() && !command.has(Flag::Fast) && !self.tx.hold.has_unpublished() {
            pass_kept_on(&mut self.tx, &mut self.host.net.messages, self.host.shared);
        }
        let mark = out.mark();
        self.tx.wrote = false;
        let mut outcome = self.tx.run(command, args, &client, &mut self.host, out);
        finish(self);
        let call = Call { command, args, started, mark, out, source: RequestSource::Turn };
        let (current, clock) = (self.host.current.as_deref(), self.host.net.driver.clock());
        self.host.reports.count(&call, &client, &mut outcome, current, clock);
        match outcome {
            Outcome::Done | Outcome::Failed => {}
            outcome => self.conclude(command, args, outcome, out),
        }
    }

    /// Handles a command without a reply so far.
    #[cold]
    fn conclude(&mut self, command: &'static Command, args: &[&[u8]], outcome: Outcome, out: &mut Output) {
        match outcome {
            Outcome::Done | Outcome::Failed => {}
            Outcome::Blocked(blocked) => {
                begin_wait(running(&mut self.host.current), &mut self.host.net, blocked);
            }
            Outcome::Again(ids) => {
                self.leave_all();
                if !self.host.session().state.is_ready() {
                    // It runs again when its tasks have come back, or other clients were served.
                    return;
                }
                self.host.reports.accounting.stats().retries.add(1);
                self.execute(command, args, Needs::several(ids.into_vec().into()), 0, out);
            }
        }
    }

    /// Leaves every shard of the running transaction, and runs the tasks that were delegated meanwhile.
    #[inline]
    pub(crate) fn leave_all(&mut self) {
        if self.tx.has_news() {
            return leave_with_news(self);
        }
        if !self.tx.hold.leave_or_keep_all() {
            self.drain_kept();
        }
    }
}

/// The error if a command writes and this server has become a replica since the command was admitted, before its shards
/// were entered.
#[cold]
fn refusal_by_now(
    session: &Session,
    lua: &mut States,
    shared: &Shared,
    command: &Command,
    args: &[&[u8]],
) -> Option<CommandError> {
    let may_write = command.is_write() || matches!(command.entry.route, Route::Queued | Route::Script(_));
    let refused = may_write.then(|| refusal_of_replica(session, lua, shared, command, args)).flatten();
    refused.filter(|error| *error == Standing::READ_ONLY)
}

/// Leaves all shards where messages or records must be published. Out of line, because most transactions have none.
#[inline(never)]
fn leave_with_news(thread: &mut Thread) {
    let Thread { tx, host, .. } = thread;
    tx.commit();
    note_written(tx, host.current.as_deref_mut());
    let (shared, messages, seen) = (host.shared, &mut host.net.messages, tx.seen);
    let seen = if mutant::is_on(Mutant::EventAtOnce) { Lsn::NONE } else { seen };
    let own = host.current.as_deref().map(|session| session.client.subscriber());
    let mut told_itself = false;
    shared.directory.send_events(&mut tx.outbox, seen, |published| {
        told_itself |= published.to.iter().any(|receiver| Some(receiver.subscriber) == own);
        messages.publish(published);
    });
    tx.told_itself |= told_itself;
    // These come before the other messages, and while the shards are held.
    for message in tx.outbox.extract_if(.., |message| matches!(message, TxMessage::Published(_))) {
        if let TxMessage::Published(published) = message {
            messages.publish(published);
        }
    }
    let all_left = tx.hold.leave_or_keep_all();
    if mutant::is_on(Mutant::CommitsLate) {
        tx.commit_late();
    }
    // This comes before any delegation for this client, so that its messages keep their order.
    thread.post_all();
    if !all_left {
        thread.drain_kept();
    }
}
