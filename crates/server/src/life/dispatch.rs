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

use clients::session::Retry;
use config::EntryMode;
use engine::mutant::{self, Mutant};
use engine::{
    Client, Command, CommandError, Flag, Located, Mode, Needs, Outcome, OwnedArgs, Post, Route, Shards, Task,
    Work,
};
use journal::Refusal;
use replication::Standing;
use resp::{Output, Reply};
use shard::{Delegated, PATIENCE_AFTER, ShardId};

use crate::life::admit::{Admission, refusal_of_replica};
use crate::life::executing::note_seen;
use crate::life::giving_way::pass_kept_on;
use crate::life::syncing::note_written;
use crate::mailroom::Remote;
use crate::message::Message;
use crate::subscribers::hear_itself;
use crate::thread::{Thread, ThreadHost, begin, finish};
use observe::EntryType;

/// Commands of a pipeline that run under one baton before other threads get it.
const RUN_MAX: u32 = 32;

/// The place of the only key of a call, if it has just one.
#[inline]
fn locate_lone_key(shards: &Shards, command: &Command, args: &[&[u8]]) -> Option<Located> {
    let key = args[command.lone_key(args)?];
    Some(Located::new(key, shards.placement().locate(key)))
}

impl ThreadHost {
    /// The shards that a command of the current client needs.
    pub(crate) fn needs(&mut self, command: &Command, args: &[&[u8]]) -> Needs {
        match command.lone_key(args) {
            Some(index) => Needs::One(self.shared.shards.placement().shard(args[index])),
            None => self.needs_of_no_lone_key(command, args),
        }
    }

    /// The shards that a call needs if it does not have just one key.
    #[inline]
    fn needs_of_no_lone_key(&mut self, command: &Command, args: &[&[u8]]) -> Needs {
        let placement = self.shared.shards.placement();
        let of_keys = || Needs::of_no_lone_key(command, args, placement);
        match command.entry.route {
            Route::Queued => self.queued_needs(),
            Route::Chance | Route::Walk => Needs::Nothing,
            Route::KeysAndBeside => Needs::of_keys(command, args, placement),
            Route::Channels(from) if args.len() <= from => self.subscribed_needs(),
            Route::Script(callee) => {
                let trusted_after = self.shared.settings.script_trusted_after();
                of_keys().and(self.scripts.lua.needs(args, callee, trusted_after, &self.shared.shards))
            }
            _ => of_keys(),
        }
    }
}

impl Thread {
    /// Runs one command of the current client, or arranges that it will run.
    #[inline]
    pub(crate) fn command(&mut self, args: &[&[u8]], out: &mut Output) {
        match self.host.shared.table.resolve(args) {
            Ok(command) => self.call(command, args, None, out),
            Err(error) => self.host.turn_away_malformed(args, &error, out),
        }
    }

    /// Runs a command that was looked up before. `located` is the place of its only key, if known.
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
            return self.host.turn_away_for(lack, command, out);
        }
        if self.lacks_room(command, args) && !self.host.shared.snapshots.progress.is_loading() {
            return self.host.turn_away(Some(command), &CommandError::OUT_OF_MEMORY, out);
        }
        let is_special = !self.runs_plainly()
            || self.host.shared.following.is_replica()
                && refusal_of_replica(&mut self.host, command, args).is_some();
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

    /// Whether commands of the current client simply run: no state queues, refuses, delays or shows them.
    #[inline]
    pub(crate) fn runs_plainly(&mut self) -> bool {
        !(self.host.session().is_special()
            || self.host.waits.pausing.is_on()
            || self.host.reports.monitors.are_there()
            || self.host.shared.scripts.is_busy()
            || self.host.shared.quorum.is_lacking()
            || self.host.shared.snapshots.last_failed.load(Ordering::Relaxed)
            || self.host.shared.journal.progress.refusal() != Refusal::None
            || self.host.shared.snapshots.progress.is_loading())
    }

    /// Handles a command of a client in a special state: it is queued, refused, or its reply suppressed.
    #[cold]
    fn special_command(&mut self, command: &'static Command, args: &[&[u8]], out: &mut Output) {
        let (mode, mark) = (self.host.session().reply_mode, out.mark());
        self.host.session().next_after_caching(command);
        match self.host.admit(command, args) {
            Admission::Run => {
                // MONITOR shows a script before the commands that it calls.
                let shown_first = command.has(Flag::SkipMonitor);
                self.host.monitor(command, args, shown_first);
                self.execute(command, args, Needs::Nothing, 0, out);
                note_seen(self);
                if self.host.session().is_subscriber() && !self.tx.posts.is_empty() {
                    // Only after that is it known whether the client gets events of its own.
                    self.leave_all();
                }
                self.host.monitor(command, args, !shown_first);
            }
            Admission::Queued => {
                self.host.session().last_command = Some(command.id);
                Reply::new(out, self.host.session().client.proto).simple("QUEUED");
            }
            Admission::Later => return self.host.session().last_command = Some(command.id),
            Admission::Refused(error) => self.host.refuse(Some(command), &error, out),
        }
        self.host.suppress_reply(Some(command), mode, mark, out);
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
        let needs = if more != Needs::Nothing {
            self.host.needs(command, args).and(more)
        } else if command.entry.route == Route::KeysInTurn {
            Needs::of_first_key(command, args, shared.shards.placement())
        } else {
            self.host.needs_of_no_lone_key(command, args)
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
        if travels && self.runs_elsewhere(command, id) {
            return self.hop(command, args, id);
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
                let may_be_put_off = self.runs_plainly();
                if self.host.session().state.put_off(may_be_put_off) {
                    return;
                }
                let node = Delegated::new(self.task(Work::Run(command.id), id, args));
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

    /// Whether a command on this shard goes to the shard's home thread, if that is another one: always in home mode,
    /// otherwise if it is heavy and that thread is awake.
    #[inline]
    pub(crate) fn runs_elsewhere(&self, command: &Command, id: ShardId) -> bool {
        let shared = self.host.shared;
        let home = shared.shards.home(id);
        home != self.host.net.id
            && match shared.entry_mode {
                EntryMode::Home => true,
                EntryMode::Roam => {
                    let is_ready = |thread: &Remote| !thread.is_asleep() && !thread.is_away();
                    command.entry.mode == Mode::Heavy && is_ready(&shared.threads[usize::from(home)])
                }
            }
    }

    fn hop(&mut self, command: &'static Command, args: &[&[u8]], id: ShardId) {
        self.leave_all();
        let looks_first = self.host.shared.entry_mode == EntryMode::Home
            && !self.host.shared.singlehop_blocking
            && command.has(Flag::Blocking);
        let work = if looks_first { Work::Look(command.id) } else { Work::Run(command.id) };
        let node = Delegated::new(self.task(work, id, args));
        self.host.session().state.go_away();
        self.host.reports.accounting.stats().count_entry(EntryType::Hop, 1);
        self.host.net.mailroom.send(self.host.shared.shards.home(id), Message::Hop(node));
    }

    /// Creates a task of the current client.
    pub(crate) fn task(&mut self, work: Work, shard: ShardId, args: &[&[u8]]) -> Task {
        let client = Client { may_be_gone: true, ..self.host.session().client };
        Task::new(work, shard, client, OwnedArgs::new(args))
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
        if self.host.shared.may_hold_back() && self.hold_back(command, args) {
            return;
        }
        if self.host.shared.following.is_replica() && refuses_by_now(&mut self.host, command, args, out) {
            return;
        }
        let session = self.host.session();
        // This must not come earlier: another client that reads it may rely on the shards knowing the command, too.
        session.last_command = Some(command.id);
        let client = session.client;
        process::crash::note_command(client.id, client.db, command.id.0);
        let started = self.host.reports.accounting.lap();
        begin(self, started);
        if !self.tx.hold.kept().is_empty() && !command.has(Flag::Fast) && !self.tx.hold.has_unpublished() {
            pass_kept_on(self);
        }
        let mark = out.mark();
        self.tx.wrote = false;
        let mut outcome = self.tx.run(command, args, &client, &mut self.host, out);
        finish(self);
        self.host.count_command(command, args, &client, started, &mut outcome, mark, out);
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
            Outcome::Blocked(blocked) => self.begin_wait(blocked),
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

/// Refuses a command that writes if this server has become a replica since the command was admitted, before its shards
/// were entered.
#[cold]
fn refuses_by_now(
    host: &mut ThreadHost,
    command: &'static Command,
    args: &[&[u8]],
    out: &mut Output,
) -> bool {
    let may_write = command.is_write() || matches!(command.entry.route, Route::Queued | Route::Script(_));
    let refused = may_write.then(|| refusal_of_replica(host, command, args)).flatten();
    let Some(error) = refused.filter(|error| *error == Standing::READ_ONLY) else { return false };
    host.refuse(Some(command), &error, out);
    true
}

/// Leaves all shards where messages or records must be published. Out of line, because most transactions have none.
#[inline(never)]
fn leave_with_news(thread: &mut Thread) {
    let Thread { tx, host, .. } = thread;
    tx.commit();
    note_written(tx, host.current.as_deref_mut());
    let (shared, mailroom, seen) = (host.shared, &mut host.net.mailroom, tx.seen);
    let seen = if mutant::is_on(Mutant::EventAtOnce) { 0 } else { seen };
    let own = host.current.as_deref().map(|session| session.client.subscriber());
    let mut told_itself = false;
    shared.directory.send_events(&mut tx.posts, seen, |published| {
        told_itself |= published.to.iter().any(|receiver| Some(receiver.subscriber) == own);
        mailroom.publish(published);
    });
    tx.told_itself |= told_itself;
    // These come before the other posts, and while the shards are held.
    for post in tx.posts.extract_if(.., |post| matches!(post, Post::Published(_))) {
        if let Post::Published(published) = post {
            mailroom.publish(published);
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
