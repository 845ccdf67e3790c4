//! Commands that run on another thread than their client's: handed over, and run for others.
//!
//! A command whose shard is taken goes into the shard's mailbox, and with it those that follow it in the pipeline, if they
//! are plain and meet the same shard: so a thread that cannot have a hot shard hands over whole batches and does the network
//! work meanwhile. Who holds the shard runs them, at most [`DRAIN_MAX`] before it goes on with its own connections.
//!
//! Followers stay in the client's input until the batch comes home, which says how many of them ran: if one waits, or has
//! to run again, those behind it have not.
//!
//! Not here: what follows when a task comes home (`homecoming.rs`).

use command::{ArgSlices, Client, CommandId, Follower, Forget, Needs, Outcome, OwnedArgs, Route, Task, Work};
use resp::{Limits, RequestParser};
use shard::{Node, ShardId};

use crate::message::Message;
use crate::stats::EntryType;
use crate::thread::Thread;

/// Delegated commands that run before the thread goes on with its own connections.
const DRAIN_MAX: usize = 16;
/// Bytes of a pipeline's requests that are handed over together.
const BATCH_BYTES_MAX: usize = 64 * 1024;

impl Thread {
    /// A task of the current client.
    pub(crate) fn task(&mut self, work: Work, shard: ShardId, args: &[&[u8]]) -> Task {
        let client = Client { may_be_gone: true, ..self.host.session().client };
        Task::new(work, shard, client, OwnedArgs::new(args))
    }

    /// Hands over the command that met a taken shard, if one did, with those that follow it in `rest` of the client's input.
    pub(crate) fn delegate(&mut self, rest: &[u8], limits: &Limits) {
        let Some(mut node) = self.delegating.take() else { return };
        let id = node.task.shard;
        if self.runs_plainly() {
            self.gather(&mut node.task, rest, limits);
        }
        self.host.count_entry(EntryType::Hop, 1);
        if let Some(node) = self.tx.hold.enter_or_delegate(id, node) {
            self.run_task(id, node);
            self.drain_kept();
        }
    }

    /// Copies the requests at the front of `rest` that may go with `task`.
    fn gather(&self, task: &mut Task, rest: &[u8], limits: &Limits) {
        let parser = RequestParser::new();
        let (table, placement) = (&self.host.shared.table, self.host.shared.shards.placement());
        let mut args = ArgSlices::new();
        let mut taken = 0;
        while task.following.len() + 1 < DRAIN_MAX && taken < BATCH_BYTES_MAX {
            let Some(input_bytes) = parser.parse_whole(&rest[taken..], limits, &mut args) else { return };
            let Ok(command) = table.resolve(&args) else { return };
            let is_plain = matches!(command.entry.route, Route::Keys | Route::KeysInTurn);
            if !is_plain
                || !command.entry.mode.may_travel()
                || Needs::at_first(command, &args, placement) != Needs::One(task.shard)
            {
                return;
            }
            taken += input_bytes;
            task.following.push_back(Follower {
                command: command.id,
                args: OwnedArgs::new(&args),
                input_bytes,
            });
        }
    }

    /// Runs what was delegated to the shards that this thread keeps, a bounded number of tasks for each.
    pub(crate) fn drain_kept(&mut self) {
        if self.tx.hold.kept().is_empty() {
            return;
        }
        self.host.stats().kept.add(1);
        let kept: Vec<ShardId> = self.tx.hold.kept().to_vec();
        for id in kept {
            // A task of a shard before it may have entered this one too, and left it with nothing to do.
            if !self.tx.hold.kept().contains(&id) {
                continue;
            }
            let mut count = 0;
            while count < DRAIN_MAX {
                let Some(node) = self.tx.hold.next_task_or_leave(id) else { break };
                count += 1 + node.task.following.len();
                self.run_task(id, node);
            }
        }
    }

    /// Runs a delegated task at `id`, which this thread holds, and sends it home.
    pub(crate) fn run_task(&mut self, id: ShardId, mut node: Box<Node<Task>>) {
        let entered = self.tx.hold.try_enter(id);
        debug_assert!(entered, "a thread may enter the shard that it keeps");
        let origin = node.task.client.thread;
        let answers = self.perform(id, &mut node.task);
        self.queue_events();
        self.tx.hold.keep(id);
        // What the task entered beside its shard.
        while let Some(&other) = self.tx.hold.entered().last() {
            self.tx.hold.leave_or_keep(other);
        }
        // What the task published goes first, so that nothing that its client does next overtakes it; what its own
        // thread has to deliver goes with the reply, because the client's own messages come after that.
        let published = if answers { self.take_published_for(origin) } else { Vec::new() };
        self.post_all();
        if answers {
            self.host.send(origin, Message::Done(node, published));
        }
    }

    /// Does the work of a task; false if nobody waits for it.
    fn perform(&mut self, id: ShardId, task: &mut Task) -> bool {
        match task.work {
            Work::Run(_) => {
                self.run_delegated(task);
                while matches!(task.outcome, Outcome::Done | Outcome::Failed) && task.go_on() {
                    self.run_delegated(task);
                }
                true
            }
            Work::Restore(command) => {
                self.run_of_task(command, task);
                false
            }
            Work::Notify | Work::Look(_) => true,
            Work::Forget(ref what) => {
                let args = task.args.slices();
                let shard = self.tx.hold.shard_mut(id);
                match what {
                    Forget::Wait { ticket } => _ = shard.waiters.remove(task.client.db, args[0], *ticket),
                    Forget::Watch(flag) => shard.watches.remove(task.client.db, args[0], flag),
                    Forget::Subscription(subscriber) => shard.subscribers.remove(args[0], *subscriber),
                }
                false
            }
        }
    }

    /// Runs a task's command for its client.
    fn run_delegated(&mut self, task: &mut Task) {
        let Work::Run(command) = task.work else { unreachable!("only commands are run") };
        let started = self.host.driver.clock().ticks();
        let mark = task.reply.mark();
        self.run_of_task(command, task);
        let command = self.host.shared.table.get(command);
        let (args, client) = (task.args.slices(), &task.client);
        self.host.count_command(command, &args, client, started, &task.outcome, mark, &task.reply);
        self.host.stats().delegated.add(1);
    }

    fn run_of_task(&mut self, command: CommandId, task: &mut Task) {
        let command = self.host.shared.table.get(command);
        let args = task.args.slices();
        self.tx.wrote = false;
        task.outcome = self.tx.run(command, &args, &task.client, &mut self.host, &mut task.reply);
        drop(args);
        task.restores.extend(self.tx.restore.take());
        self.tx.finish(&mut self.host);
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
