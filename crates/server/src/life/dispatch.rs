//! From arguments to a reply: how a command comes to its shards.
//!
//! ```text
//!   command ── resolve, admit ──▶ needs ──▶ nothing: run
//!                                       ──▶ one shard: hop home │ enter and run │ put off │ delegate to its holder
//!                                       ──▶ several: enter all in order and run │ queue at the one taken, again
//! ```
//!
//! The baton is kept over a run of commands of one pipeline that meet the same shard. What was delegated to the
//! thread meanwhile is run before it lets go, at most [`DRAIN_MAX`] commands a time.

use std::sync::atomic::Ordering;

use command::{
    Client, Command, CommandError, CommandId, Flag, Forget, Located, Mode, Needs, Outcome, OwnedArgs, Route,
    Shape, Task, Work,
};
use proactor::ConnId;
use resp::{Output, Proto, Reply};
use shard::{Node, PATIENCE_AFTER, ShardId};
use smallvec::SmallVec;

use crate::life::admit::Admission;
use crate::life::state::{Retry, Wait};
use crate::message::Message;
use crate::session::ReplyMode;
use crate::shared::EntryMode;
use crate::stats::EntryType;
use crate::thread::{Thread, ThreadHost};

/// Commands of a pipeline that run under one baton before others are let in.
const RUN_MAX: u32 = 32;
/// Delegated tasks that run before the thread goes on with its own connections.
const DRAIN_MAX: usize = 16;

impl ThreadHost {
    /// Takes back what a command wrote from `mark` on, if its client, in `mode` when it came, wants no reply to it.
    /// What (un)subscribing says is no reply.
    pub(crate) fn suppress_reply(
        &mut self,
        command: Option<&Command>,
        mode: ReplyMode,
        mark: resp::Mark,
        out: &mut Output,
    ) {
        let session = self.session();
        if mode == ReplyMode::On || session.reply_mode == ReplyMode::On {
            return;
        }
        if command.is_none_or(|command| command.entry.reply != Shape::Push) {
            out.truncate(mark);
        }
        let is_about_replies = command.is_some_and(|command| command.full_name == "client|reply");
        if session.state.is_ready() && session.reply_mode == ReplyMode::Skip && !is_about_replies {
            session.reply_mode = ReplyMode::On;
        }
    }

    /// The shards that a command of the current client needs.
    #[inline]
    pub(crate) fn needs(&mut self, command: &Command, args: &[&[u8]]) -> Needs {
        let placement = self.shared.shards.placement();
        match command.entry.route {
            Route::Queued => self.queued_needs(),
            Route::Chance => Needs::Nothing,
            Route::Channels(from) if args.len() <= from => self.subscribed_needs(),
            Route::Script(callee) => Needs::of(command, args, placement).and(self.script_needs(args, callee)),
            _ => Needs::of(command, args, placement),
        }
    }

    /// Answers an error without running anything.
    #[cold]
    pub(crate) fn refuse(&mut self, command: Option<&Command>, error: &CommandError, out: &mut Output) {
        let session = self.session();
        let proto = session.client.proto;
        let id = command.map(|command| command.id);
        session.last_command = id.or(session.last_command);
        if command.is_some_and(|command| command.entry.name == "exec") {
            // Also where there is no transaction.
            session.multi = None;
            self.unwatch();
            let error = CommandError::aborting(error);
            self.count_rejection(id, &error);
            return self.write_error(id, proto, error.text(), out);
        }
        if let Some(multi) = &mut session.multi {
            multi.refused = true;
        }
        self.count_rejection(id, error);
        self.write_error(id, proto, error.text(), out);
    }

    /// The same for a command that goes no further: if its client wants no reply there is none.
    #[cold]
    pub(crate) fn turn_away(&mut self, command: Option<&Command>, error: &CommandError, out: &mut Output) {
        let (mode, mark) = (self.session().reply_mode, out.mark());
        self.refuse(command, error, out);
        self.suppress_reply(command, mode, mark, out);
    }

    /// The same for a request that calls no command as it should.
    #[cold]
    pub(crate) fn turn_away_malformed(&mut self, args: &[&[u8]], error: &CommandError, out: &mut Output) {
        if args.first().is_some_and(|name| resp::is_http(name)) {
            return self.abort_http();
        }
        let command = self.shared.table.named(args).ok();
        self.turn_away(command, error, out);
    }

    /// Writes an error as the protocol of its command has it.
    pub(crate) fn write_error(
        &self,
        command: Option<CommandId>,
        proto: Proto,
        text: &[u8],
        out: &mut Output,
    ) {
        if command.is_some_and(|id| self.shared.table.is_of_protocol(id)) {
            out.extend_from_slice(&[b"SERVER_ERROR ", text, b"\r\n"].concat());
        } else {
            Reply::new(out, proto).error(text);
        }
    }
}

impl Thread {
    /// Runs one command of the current client, or sees to it that it will be run.
    #[inline]
    pub(crate) fn command(&mut self, args: &[&[u8]], out: &mut Output) {
        match self.host.shared.table.resolve(args) {
            Ok(command) => self.call(command, args, None, out),
            Err(error) => self.host.turn_away_malformed(args, &error, out),
        }
    }

    /// The same for a command that is known; `located` says where its only key lies, if that was found out before.
    #[inline]
    pub(crate) fn call(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        located: Option<Located>,
        out: &mut Output,
    ) {
        if self.host.is_limited()
            && let Some(lack) = self.host.lack(command, args)
        {
            return self.host.turn_away_for(lack, command, out);
        }
        if self.lacks_room(command, args) && !self.host.shared.snapshots.progress.is_loading() {
            return self.host.turn_away(Some(command), &CommandError::OUT_OF_MEMORY, out);
        }
        if !self.runs_plainly() {
            return self.special_command(command, args, out);
        }
        match located {
            Some(located) => self.execute_one(command, args, located.shard(), located, 0, out),
            None => self.execute(command, args, Needs::Nothing, 0, out),
        }
    }

    /// Whether commands of the current client just run: nothing queues, refuses, delays or shows them.
    #[inline]
    pub(crate) fn runs_plainly(&mut self) -> bool {
        !(self.host.session().is_special()
            || self.host.pausing.is_on()
            || self.host.is_monitored()
            || self.host.shared.scripts.is_busy()
            || self.host.shared.snapshots.last_failed.load(Ordering::Relaxed)
            || self.host.shared.snapshots.progress.is_loading())
    }

    /// A command of a client that is not plain: queued, refused, or its reply suppressed.
    #[cold]
    fn special_command(&mut self, command: &'static Command, args: &[&[u8]], out: &mut Output) {
        let (mode, mark) = (self.host.session().reply_mode, out.mark());
        self.host.session().next_after_caching(command);
        match self.host.admit(command, args) {
            Admission::Run => {
                // A script is shown before the commands that it calls.
                let shown_first = command.has(Flag::SkipMonitor);
                self.host.monitor(command, args, shown_first);
                self.execute(command, args, Needs::Nothing, 0, out);
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

    /// Runs `command` with its shards, and `more` beside them, entered; or delegates or queues it.
    #[inline]
    pub(crate) fn execute(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        more: Needs,
        tries: u32,
        out: &mut Output,
    ) {
        let shared = self.host.shared;
        if more == Needs::Nothing
            && let Some(index) = command.lone_key(args)
        {
            let key = args[index];
            let located = Located::new(key, shared.shards.placement().locate(key));
            return self.execute_one(command, args, located.shard(), located, tries, out);
        }
        let mut needs = match command.entry.route {
            Route::KeysInTurn if more == Needs::Nothing => {
                Needs::at_first(command, args, shared.shards.placement())
            }
            _ => self.host.needs(command, args),
        };
        if more != Needs::Nothing {
            needs = needs.and(more);
        }
        match &needs {
            Needs::Nothing => {
                self.host.count_entry(EntryType::None, 0);
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
        // A script looks at the user of its client.
        let mode = command.entry.mode;
        let travels = mode.may_travel() && (mode != Mode::Heavy || !self.host.session().access.is_limited());
        let home = shared.shards.home(id);
        if travels && home != self.host.id && self.hops(command, home) {
            return self.hop(command, args, id);
        }
        if self.run_length >= RUN_MAX || !self.tx.hold.focus(id) {
            self.leave_all();
            self.run_length = 0;
            if !self.tx.hold.try_enter(id) {
                if !travels {
                    return self.execute_wide(command, args, &[id], &Needs::One(id), tries, out);
                }
                if self.puts_off() {
                    return;
                }
                let node = Node::new(self.task(Work::Run(command.id), id, args));
                if self.tx.hold.enter_or_delegate(id, node).is_none() {
                    self.host.session().state.go_away();
                    return self.host.count_entry(EntryType::Hop, 1);
                }
            }
        }
        self.run_length += 1;
        self.tx.located = located;
        let entered_before = self.tx.hold.entered().len();
        self.run_here(command, args, out);
        // As it went it may have entered more, or have let go of all to run again.
        let entered = self.tx.hold.entered().len();
        if entered > entered_before {
            self.host.count_entry(EntryType::Wide, 1 + entered - entered_before);
            self.leave_all();
        } else if entered > 0 {
            let entry_type = if home == self.host.id { EntryType::Inline } else { EntryType::Quick };
            self.host.count_entry(entry_type, 1);
        }
    }

    /// Whether the current client's command, whose shard is taken, is put off rather than delegated now. Its thread has
    /// other clients to serve and replies to send, and the shard is rarely taken for longer than that.
    fn puts_off(&mut self) -> bool {
        let may = self.runs_plainly();
        self.host.session().state.put_off(may)
    }

    /// Whether a command goes to the home thread of its shard: always in home mode, heavy ones if it is awake.
    #[inline]
    fn hops(&self, command: &Command, home: u16) -> bool {
        let shared = self.host.shared;
        match shared.entry_mode {
            EntryMode::Home => true,
            EntryMode::Roam => {
                command.entry.mode == Mode::Heavy && !shared.threads[usize::from(home)].is_asleep()
            }
        }
    }

    fn hop(&mut self, command: &'static Command, args: &[&[u8]], id: ShardId) {
        self.leave_all();
        let looks_first = self.host.shared.entry_mode == EntryMode::Home
            && !self.host.shared.singlehop_blocking
            && command.has(Flag::Blocking);
        let work = if looks_first { Work::Look(command.id) } else { Work::Run(command.id) };
        let node = Node::new(self.task(work, id, args));
        self.host.session().state.go_away();
        self.host.count_entry(EntryType::Hop, 1);
        self.host.send(self.host.shared.shards.home(id), Message::Hop(node));
    }

    /// A task of the current client.
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
            return self.host.count_retry();
        }
        let entry_type = if *needs == Needs::All { EntryType::Global } else { EntryType::Wide };
        self.host.count_entry(entry_type, ids.len());
        self.run_here(command, args, out);
        self.leave_all();
    }

    /// Enters all of `ids`, which ascend. False: one stayed taken, nothing is held, and a note was left there, so
    /// that `client` hears when it is worth another try.
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
                    if self.tx.hold.enter_or_delegate(taken, Node::new(task)).is_some() {
                        // It came free at this moment: it is entered already.
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
        if self.host.shared.snapshots.is_cutting() && self.hold_back(command, args) {
            return;
        }
        let session = self.host.session();
        // Not before: whoever reads that of another client may rely on the shards knowing, too.
        session.last_command = Some(command.id);
        let client = session.client;
        let started = self.host.lap;
        let mark = out.mark();
        self.tx.wrote = false;
        let mut outcome = self.tx.run(command, args, &client, &mut self.host, out);
        self.tx.finish(&mut self.host);
        self.host.count_command(command, args, &client, started, &mut outcome, mark, out);
        match outcome {
            Outcome::Done | Outcome::Failed => {}
            outcome => self.conclude(command, args, outcome, out),
        }
    }

    /// What follows a command that has no reply yet.
    #[cold]
    fn conclude(&mut self, command: &'static Command, args: &[&[u8]], outcome: Outcome, out: &mut Output) {
        match outcome {
            Outcome::Done | Outcome::Failed => {}
            Outcome::Blocked(blocked) => self.begin_wait(blocked),
            Outcome::Again(ids) => {
                self.leave_all();
                if self.host.session().state.is_away() {
                    // When what it sent away has come back.
                    return;
                }
                self.host.count_retry();
                self.execute(command, args, Needs::several(ids.into_vec().into()), 0, out);
            }
        }
    }

    /// The current client waits.
    pub(crate) fn begin_wait(&mut self, blocked: Box<command::Blocked>) {
        // This millisecond has begun already: counted in, the wait would end too early.
        let deadline_ms = (blocked.timeout_ms > 0)
            .then(|| self.host.now_ms.saturating_add(blocked.timeout_ms).saturating_add(1));
        let session = self.host.session();
        let conn = ConnId::from_bits(session.client.connection);
        session.state.block(Wait { blocked, deadline_ms });
        let stats = self.host.stats();
        if let Some(deadline_ms) = deadline_ms {
            self.host.timers.add(deadline_ms, conn);
            stats.clients_with_timeout.set(self.host.timers.len() as u64);
        }
        stats.blocked_clients.add(1);
    }

    /// Leaves every shard of the running transaction, and runs what was delegated meanwhile.
    #[inline]
    pub(crate) fn leave_all(&mut self) {
        let has_posts = !self.tx.posts.is_empty();
        if has_posts {
            self.send_events();
            self.send_published();
        }
        let mut all_left = true;
        while let Some(&id) = self.tx.hold.entered().last() {
            all_left &= self.tx.hold.leave_or_keep(id);
        }
        if has_posts {
            self.host.wake_sleepers();
            // Before anything of this client is delegated: its messages keep their order.
            self.post_all();
        }
        if !all_left {
            self.drain_kept();
        }
    }

    /// Runs what was delegated to the shards that this thread keeps, a bounded number of tasks for each.
    pub(crate) fn drain_kept(&mut self) {
        if self.tx.hold.kept().is_empty() {
            return;
        }
        self.host.stats().kept.add(1);
        let mut kept: SmallVec<[ShardId; 8]> = self.tx.hold.kept().into();
        let mut index = 0;
        while let Some(&id) = kept.get(index) {
            index += 1;
            for _ in 0..DRAIN_MAX {
                // A task may have entered this one too, and left it with nothing to do; or it went to a script that asked.
                if !self.tx.hold.kept().contains(&id) {
                    break;
                }
                let Some(node) = self.tx.hold.next_task_or_leave(id) else { break };
                self.run_task(id, node);
            }
            // What a task entered beside its shard may be wanted by others, too.
            let more: SmallVec<[ShardId; 8]> =
                self.tx.hold.kept().iter().copied().filter(|id| !kept.contains(id)).collect();
            kept.extend(more);
        }
    }

    /// Runs a delegated task at `id`, which this thread holds, and sends it home.
    pub(crate) fn run_task(&mut self, id: ShardId, mut node: Box<Node<Task>>) {
        if matches!(node.task.work, Work::HandOver(_)) {
            let Work::HandOver(to) = node.task.work else { unreachable!("looked at above") };
            return self.tx.hold.hand_over(id, to);
        }
        let entered = self.tx.hold.try_enter(id);
        debug_assert!(entered, "a thread may enter the shard that it keeps");
        // It may have been sent when CONFIG SET was answered, and this turn have begun before.
        self.tx.config = self.host.shared.data_config();
        let origin = node.task.client.thread;
        let answers = self.perform(id, &mut node.task);
        self.send_events();
        // What the task published goes first, so that nothing that its client does next overtakes it; what its own
        // thread has to deliver goes with the reply, because the client's own messages come after that.
        let published = if answers { self.take_published_for(origin) } else { Vec::new() };
        self.tx.hold.keep(id);
        self.post_all();
        if answers && published.is_empty() {
            self.host.send(origin, Message::Done(node, published));
        } else if answers {
            // Behind what was published before, even if the origin is this thread.
            self.host.shared.threads[usize::from(origin)].send(Message::Done(node, published));
        }
        // What the task entered beside its shard, in which it may have published.
        while let Some(&other) = self.tx.hold.entered().last() {
            self.tx.hold.leave_or_keep(other);
        }
        self.host.wake_sleepers();
    }

    /// Does the work of a task; false if nobody waits for it.
    fn perform(&mut self, id: ShardId, task: &mut Task) -> bool {
        let table = &self.host.shared.table;
        match task.work {
            Work::Run(command) | Work::Restore(command) => {
                let command = table.get(command);
                let args = task.args.slices();
                let is_for_a_client = matches!(task.work, Work::Run(_));
                if is_for_a_client
                    && self.host.shared.snapshots.is_cutting()
                    && self.waits_for_snapshot(command, &args, task.client.db)
                {
                    // It is held back at home.
                    task.outcome = Outcome::Again([id].into_iter().collect());
                    return true;
                }
                let started = self.host.driver.clock().ticks();
                let mark = task.reply.mark();
                self.tx.wrote = false;
                task.outcome = self.tx.run(command, &args, &task.client, &mut self.host, &mut task.reply);
                task.restore = self.tx.restore.take();
                self.tx.finish(&mut self.host);
                if is_for_a_client {
                    let client = &task.client;
                    self.host.count_command(
                        command,
                        &args,
                        client,
                        started,
                        &mut task.outcome,
                        mark,
                        &task.reply,
                    );
                    self.host.stats().delegated.add(1);
                }
                is_for_a_client
            }
            Work::Notify | Work::Look(_) => true,
            Work::HandOver(_) => unreachable!("shards are given away before"),
            Work::Forget(ref what) => {
                let args = &task.args;
                let shard = self.tx.hold.shard_mut(id);
                match what {
                    Forget::Wait { waiter, tickets } => waiter.wait.forget(shard, tickets),
                    Forget::Watch(flag) => shard.watches.remove(task.client.db, args.get(0), flag),
                    Forget::Prefixes(subscriber) => shard.tracking.remove_prefixes(*subscriber),
                    Forget::Subscription(scope, subscriber) => {
                        shard.subscribers.remove(*scope, args.get(0), *subscriber);
                    }
                }
                false
            }
        }
    }

    /// Runs a task that hopped here, its home; if its shard is taken, its holder does.
    pub(crate) fn take_hop(&mut self, node: Box<Node<Task>>) {
        let id = node.task.shard;
        self.leave_all();
        if let Some(node) = self.tx.hold.enter_or_delegate(id, node) {
            self.run_task(id, node);
            self.drain_kept();
        }
    }
}
