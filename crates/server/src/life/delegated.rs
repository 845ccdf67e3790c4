//! Runs delegated tasks: those of other threads' clients, because this thread holds the shard or is its home. Also
//! sends this thread's tasks to a shard or its holder.

use background::snapshot::Share;
use clients::session::Pausing;
use engine::mutant::{self, Mutant};
use engine::{Client, Command, Forget, Mode, Outcome, OwnedArgs, Task, Tx, TxMessage, Work};
use observe::{Call, RequestSource};
use resp::Proto;
use scripting::{Demands, States};
use shard::{Delegated, ShardId};
use smallvec::SmallVec;

use crate::life::homecoming::send_outbox;
use crate::message::Message;
use crate::shared::Shared;
use crate::thread::{Thread, ThreadHost, begin, finish};

/// Limit of delegated tasks that run before the thread continues with its own connections.
const DRAIN_MAX: usize = 16;

impl Thread {
    /// Runs a task at its shard now, or leaves it with the shard's holder.
    pub(crate) fn send_task(&mut self, node: Box<Delegated<Task>>) {
        let id = node.task.shard;
        self.leave_all();
        if let Some(node) = self.tx.hold.enter_or_delegate(id, node) {
            self.run_task(id, node);
            self.drain_kept();
        }
    }

    /// Runs the tasks delegated to the shards that this thread keeps, a bounded number for each. Wakes the tasks'
    /// threads only afterwards, because every other thread that needs the shard would wait while it wakes them.
    pub(crate) fn drain_kept(&mut self) {
        if self.tx.hold.kept().is_empty() {
            return self.host.net.messages.wake_sleepers();
        }
        self.host.reports.accounting.stats().kept.add(1);
        let mut kept: SmallVec<[ShardId; 8]> = self.tx.hold.kept().into();
        let mut index = 0;
        while let Some(&id) = kept.get(index) {
            index += 1;
            for _ in 0..DRAIN_MAX {
                // A task may have entered this shard, too, and left it without tasks; or the shard went to a script
                // that asked for it.
                if !self.tx.hold.kept().contains(&id) {
                    break;
                }
                let Some(node) = self.tx.hold.next_task_or_leave(id) else { break };
                self.run_task(id, node);
            }
            // Other threads may want the shards that a task entered beside its own.
            let more: SmallVec<[ShardId; 8]> =
                self.tx.hold.kept().iter().copied().filter(|id| !kept.contains(id)).collect();
            kept.extend(more);
        }
        self.host.net.messages.wake_sleepers();
    }

    /// Runs a delegated task at `id`, which this thread holds, and sends it back without waking its thread. Keeps the
    /// shard.
    pub(crate) fn run_task(&mut self, id: ShardId, mut node: Box<Delegated<Task>>) {
        if matches!(node.task.work, Work::HandOver(_)) {
            let Work::HandOver(to) = node.task.work else { unreachable!("looked at above") };
            return self.tx.hold.hand_over(id, to);
        }
        let entered = self.tx.hold.try_enter(id);
        debug_assert!(entered, "a thread may enter the shard that it keeps");
        // The task may have been sent after CONFIG SET was answered, while this turn began before.
        self.host.shared.data_config.refresh(&mut self.tx.config);
        self.host.shared.journal.set_holds(&mut self.tx);
        let origin = node.task.client.thread;
        let (mark, outer) = (node.task.reply.mark(), std::mem::take(&mut self.tx.seen));
        let outer_written = std::mem::take(&mut self.tx.written);
        let outer_told = self.tx.told_itself;
        let answers = self.perform(id, &mut node.task);
        self.tx.commit();
        node.task.written = std::mem::replace(&mut self.tx.written, outer_written);
        let (shared, seen) = (self.host.shared, self.tx.seen);
        let mut events = Vec::new();
        let note = |published| events.push(TxMessage::Published(published));
        shared.directory.send_events(&mut self.tx.outbox, seen, note);
        self.tx.outbox.splice(0..0, events);
        if !mutant::is_on(Mutant::DelegatedAtOnce) {
            shared.journal.hold(&mut self.tx, mark, &mut node.task.reply);
        }
        // Published messages go first, so that nothing that the task's client does next overtakes them. Messages for
        // the task's own thread go with the reply, because messages to the client itself come after the reply.
        let published =
            if answers { pubsub::take_for_thread(&mut self.tx.outbox, origin) } else { Vec::new() };
        (self.tx.seen, self.tx.told_itself) = (outer, outer_told);
        self.tx.hold.keep(id);
        if mutant::is_on(Mutant::CommitsLate) {
            self.tx.commit_late();
        }
        let ThreadHost { net, outputs, background, shared, .. } = &mut self.host;
        send_outbox(&mut self.tx, net, outputs, background, shared);
        if answers && published.is_empty() {
            self.host.net.messages.send_quietly(origin, Message::Done(node, published));
        } else if answers {
            // It follows the messages published before, even if the origin is this thread.
            self.host.shared.threads[usize::from(origin)].send(Message::Done(node, published));
        }
        // These are the shards that the task entered beside its own, and in which it may have published.
        while let Some(&other) = self.tx.hold.entered().last() {
            self.tx.hold.leave_or_keep(other);
        }
    }

    /// Does the work of a task. Returns false if no client waits for it.
    fn perform(&mut self, id: ShardId, task: &mut Task) -> bool {
        let table = &self.host.shared.table;
        match task.work {
            Work::Run(command) | Work::Restore(command) => {
                let command = table.get(command);
                if command.entry.mode == Mode::Heavy {
                    // This may take long, and the clients of earlier tasks should not wait for it.
                    self.host.net.messages.wake_sleepers();
                }
                let args = task.args.slices();
                let is_for_a_client = matches!(task.work, Work::Run(_));
                if !is_for_a_client && self.host.shared.following.is_replica() {
                    // The primary's stream says that it was popped.
                    return false;
                }
                let ThreadHost { scripts, waits, background, shared, .. } = &mut self.host;
                let held = (&waits.pausing, &background.snapshot);
                let (tx, lua, db) = (&mut self.tx, &mut scripts.lua, task.client.db);
                if is_for_a_client && is_stopped(tx, lua, shared, held, command, &args, db) {
                    task.outcome = Outcome::Again([id].into_iter().collect());
                    return true;
                }
                let started = self.host.net.driver.clock().ticks();
                begin(&mut self.tx, &mut self.host.net, &mut self.host.balancing.way, started);
                let mark = task.reply.mark();
                self.tx.wrote = false;
                task.outcome = self.tx.run(command, &args, &task.client, &mut self.host, &mut task.reply);
                task.restore = self.tx.restore.take();
                finish(self);
                if is_for_a_client {
                    let call = Call {
                        command,
                        args: &args,
                        started,
                        mark,
                        out: &task.reply,
                        source: RequestSource::Kept,
                    };
                    let (current, clock) = (self.host.current.as_deref(), self.host.net.driver.clock());
                    self.host.reports.count(&call, &task.client, &mut task.outcome, current, clock);
                    self.host.reports.accounting.stats().delegated.add(1);
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
                    Forget::Subscription(scope, subscriber) => {
                        shard.subscribers.remove(*scope, args.get(0), *subscriber);
                    }
                }
                false
            }
        }
    }
}

/// A task that removes a record from the shard of `key`, sent by thread number `id`.
pub(crate) fn forgetting(
    shared: &Shared,
    id: u16,
    db: u32,
    key: &[u8],
    what: Forget,
) -> Box<Delegated<Task>> {
    let placement = shared.shards.placement();
    let shard = match what {
        Forget::Watch(_) => placement.shard(key),
        Forget::Wait { .. } => unreachable!("tickets say where they were given out"),
        Forget::Subscription(..) => placement.channel(key),
    };
    let client = Client { thread: id, ..Client::internal(db, Proto::Resp2) };
    Delegated::new(Task::new(Work::Forget(what), shard, client, OwnedArgs::new(&[key])))
}

/// Whether an event since the command was left here makes it be refused or wait. Its client's thread handles that.
fn is_stopped(
    tx: &mut Tx<'_>,
    lua: &mut States,
    shared: &Shared,
    (pausing, snapshot): (&Pausing, &Share),
    command: &Command,
    args: &[&[u8]],
    db: u32,
) -> bool {
    if command.is_write() && shared.standing().is_read_only {
        return true;
    }
    if !shared.may_hold_back() && !pausing.is_on() {
        return false;
    }
    let replicates = Demands::of(lua, command, args).replicates;
    pausing.stops(replicates) || snapshot.stops(tx, command, args, db, replicates)
}
