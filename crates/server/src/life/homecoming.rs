//! Handles what arrives at a thread: replies of commands that ran on other threads, ended waits, messages.

use clients::Connections;
use clients::session::{Answer, Executing, Gathering, Part, ReplyMode, Retry, Session};
use engine::{Needs, Outcome, Task, Tx, TxMessage, Work};
use ops::migrate::Returned;
use proactor::{CloseMode, ConnId};
use resp::{Output, Reply};
use shard::Delegated;

use crate::background::Background;
use crate::connections::network::Network;
use crate::connections::outputs::Outputs;
use crate::life::admit::{refusal_of_replica, suppress_reply};
use crate::life::executing::{go_on_executing, note_seen, run_unheard};
use crate::life::wait::{begin_wait, putting_back};
use crate::life::waits::Syncing;
use crate::message::{Message, News};
use crate::replication::take_news;
use crate::shared::Shared;
use crate::snapshot::install;
use crate::subscribers::hear_itself;
use crate::thread::{Thread, ThreadHost, running};

/// Limit of messages to post for which a thread keeps memory.
const POSTS_KEPT_MAX: usize = 256;

impl Thread {
    /// Handles one message. Out of line, because most turns have none.
    #[inline(never)]
    pub(crate) fn receive(&mut self, message: Message) {
        match message {
            Message::Adopt(socket, entrance) => {
                self.host.net.adopt(&mut self.host.outputs.watchlist, self.host.shared, socket, entrance);
            }
            Message::Arrive(mover) => self.host.net.arrive(&self.host.shared.users, *mover),
            Message::Depart(conn) => self.host.net.depart(conn),
            Message::Share(order) => self.host.net.share(order),
            Message::Forget(names) => self.host.net.moves.forget(&names),
            Message::Visit(socket, access) => {
                self.host.net.visit(&mut self.host.outputs.watchlist, self.host.shared, socket, *access);
            }
            Message::Listen(listeners) => {
                self.host.balancing.dealer.listen(&mut self.host.net.driver, listeners)
            }
            Message::Hop(node) => self.send_task(node),
            Message::Done(node, published) => {
                // These come after the reply and before what the client sent next.
                for published in published.into_iter().rev().filter(|published| !published.to.is_empty()) {
                    self.host.net.messages.put_first(Message::Deliver(published));
                }
                self.come_home(*node);
            }
            Message::FromTx(TxMessage::Served { waiter, ticket, handoff }) => {
                self.take_served(waiter, ticket, handoff)
            }
            Message::FromTx(TxMessage::ServeLater { ready, also }) => self.serve_later(ready, also),
            Message::FromTx(TxMessage::Free(garbage)) => {
                self.host.background.garbage.add(garbage, self.host.net.stats);
            }
            Message::FromTx(_) => unreachable!("messages travel as deliveries"),
            Message::Deliver(_) | Message::News(..) | Message::Monitor(_) => {
                self.host.outputs.hear(message, &self.host.reports.monitors, &mut self.host.net);
                while let Some(conn) = self.host.outputs.pop_exceeding(&mut self.host.net, self.host.shared) {
                    self.close(conn, CloseMode::Now);
                }
            }
            Message::Ask(question) => self.answer(question),
            Message::PassScript(asker) => self.host.net.messages.answer(asker, Part::Count(0)),
            Message::Answer(answer) => match take_answer(&mut self.host.net.connections, answer) {
                Some((conn, Some(executing), reply)) => go_on_executing(self, conn, executing, reply),
                Some((conn, None, mut reply)) => self.reply_and_go_on(conn, &mut reply),
                None => {}
            },
            Message::Populate(share) => self.populate(share),
            Message::UsersChanged => self.follow_users(),
            Message::Migrated(returned) => {
                if let Some((conn, retry)) = next_round(&mut self.host.net.connections, *returned) {
                    self.retry(conn, retry);
                }
            }
            Message::Snapshot => {
                let (shared, id) = (self.host.shared, self.host.net.id);
                self.host.background.look_at_snapshot(shared, id);
            }
            Message::Loaded(loaded) => {
                let (shared, now_ms) = (self.host.shared, self.host.net.now_ms);
                match install(self, shared, now_ms, loaded) {
                    Some(loaded) => self.host.net.messages.put_off(Message::Loaded(loaded)),
                    None => self.post_all(),
                }
            }
            Message::Link(news) => take_news(self, *news),
            Message::OwnHeap => heap::own(),
            Message::ComeBy => self.host.shared.shutdown.hear(self.host.net.id),
            Message::Spare(_) | Message::Wake => {}
        }
    }

    /// Handles a task of a client of this thread that comes back.
    fn come_home(&mut self, node: Delegated<Task>) {
        let mut task = node.task;
        let conn = ConnId::from_bits(task.client.connection);
        if self.host.net.connections.session(conn).is_none() {
            // The client has hung up: popped values go back, and a wait that it began ends.
            if let Some(node) = putting_back(self.host.shared, task.client, task.restore) {
                self.send_task(node);
            }
            if let Outcome::Blocked(blocked) = task.outcome {
                // The waiter may have been served already at one of its keys. That value comes in a message of its own.
                let _is_unserved = blocked.waiter.claim.end();
                self.forget_tickets(&blocked);
            }
            return;
        }
        match task.work {
            Work::Run(command) => {
                if let Some(session) = self.host.net.connections.session(conn) {
                    session.last_command = Some(command);
                    session.written_slice = session.written_slice.max(task.written);
                    session.state.come_home();
                }
                self.take_outcome(conn, task);
            }
            Work::Look(command) => {
                // This is the second of two hops.
                task.work = Work::Run(command);
                self.host
                    .net
                    .messages
                    .send(self.host.shared.shards.home(task.shard), Message::Hop(Delegated::new(task)));
            }
            Work::Notify => {
                if let Some(retry) = take_retry(&mut self.host.net.connections, conn) {
                    self.retry(conn, retry);
                }
            }
            Work::Forget(_) | Work::Restore(_) | Work::HandOver(_) => {}
        }
    }

    fn take_outcome(&mut self, conn: ConnId, mut task: Task) {
        match std::mem::take(&mut task.outcome) {
            Outcome::Done | Outcome::Failed => {
                self.reply_and_go_on(conn, &mut task.reply);
            }
            Outcome::Blocked(blocked) => self.with_session(conn, |thread, _| {
                begin_wait(running(&mut thread.host.current), &mut thread.host.net, blocked);
            }),
            Outcome::Again(ids) => {
                let Work::Run(command) = task.work else { unreachable!("only a command runs again") };
                let retry = Retry {
                    command,
                    args: task.args,
                    needs: Needs::several(ids.into_vec().into()),
                    tries: 0,
                };
                if self.host.shared.may_hold_back() {
                    // The snapshot may be the reason, and takes a moment.
                    let ThreadHost { net, background, reports, .. } = &mut self.host;
                    let Some(session) = net.connections.session(conn) else { return };
                    session.state.hold_back(retry);
                    return background.snapshot.hold_back(conn, reports.accounting.stats());
                }
                self.retry(conn, retry);
            }
        }
    }

    /// Runs a command again that could not get its shards.
    pub(crate) fn retry(&mut self, conn: ConnId, retry: Retry) {
        // The time that it waited does not count as its own.
        self.host.reports.accounting.begin_lap(self.host.net.driver.clock());
        self.with_session(conn, |thread, out| {
            let args = retry.args.slices();
            let ThreadHost { current, scripts, waits, net, shared, .. } = &mut thread.host;
            let (session, lua) = (running(current), &mut scripts.lua);
            let command = shared.table.get(retry.command);
            let (mode, mark) = (session.reply_mode, out.mark());
            if shared.scripts.is_busy() && shared.judge().is_held(&retry.needs) {
                let error = shared.scripts.busy_error();
                thread.host.refuse(Some(command), &error, out);
            } else if let Some(error) = refusal_of_replica(session, lua, shared, command, &args) {
                // This server was not a replica when the command came.
                if session.is_told_to_go(&shared.settings, net.now_ms, out) {
                    session.state.close(CloseMode::AfterFlush);
                } else {
                    thread.host.refuse(Some(command), &error, out);
                }
            } else if session.migration.is_none()
                && waits.postpones(session, lua, (net.stats, shared.judge()), command, &args)
            {
                // There was no pause when the command came. Migrated values are not sent again.
            } else {
                thread.execute(command, &args, retry.needs, retry.tries, out);
                note_seen(thread);
            }
            if thread.host.session().state.is_ready() {
                // The command is over, and may have been refused.
                thread.host.session().progress = None;
            }
            suppress_reply(thread.host.session(), Some(command), mode, mark, out);
            thread.leave_all();
            if thread.tx.told_itself {
                hear_itself(thread, out);
            }
        });
        self.go_on(conn);
        self.post_all();
    }

    /// Continues with the input that a client sent while its command waited. Messages of other clients for it are
    /// delivered first: it may have sent that input because it knows about them.
    pub(crate) fn go_on(&mut self, conn: ConnId) {
        let hears = |session: &mut Session| session.is_subscriber() || session.tracking.is_some();
        if !self.host.net.messages.is_empty() && self.host.net.connections.session(conn).is_some_and(hears) {
            self.host.net.unserved.push_back(conn);
        } else {
            self.serve(conn);
        }
    }

    /// Sends a reply from elsewhere and continues with the client's input.
    pub(crate) fn reply_and_go_on(&mut self, conn: ConnId, reply: &mut Output) {
        let Some(session) = self.host.net.connections.session(conn) else { return };
        let mode = session.reply_mode;
        if mode == ReplyMode::Skip {
            session.reply_mode = ReplyMode::On;
        }
        let is_last = session.close_after_reply;
        let stats = self.host.reports.accounting.stats();
        if mode == ReplyMode::On
            && let Some(out) = self.host.net.driver.output_mut(conn)
        {
            stats.net_output_bytes.add(reply.len() as u64);
            out.append(reply);
        }
        if is_last {
            return self.close(conn, CloseMode::AfterFlush);
        }
        self.go_on(conn);
    }

    /// Acts for a client as if its command ran: its session is the current one, and its output is available.
    pub(crate) fn with_session(&mut self, conn: ConnId, act: impl FnOnce(&mut Thread, &mut Output)) {
        let Some((parser, mut session)) = self.host.net.connections.take(conn) else { return };
        // A command that is not read from the input cannot be put off, because it could not be read again.
        session.state.forbid_putting_off();
        let outer = self.host.current.replace(session);
        let (mut out, outer_seen) = (Output::new(), std::mem::take(&mut self.tx.seen));
        let mark = out.mark();
        act(self, &mut out);
        self.host.shared.journal.hold(&mut self.tx, mark, &mut out);
        self.tx.seen = outer_seen;
        let session = self.host.current.take().expect("the session is put back where it was");
        self.host.current = outer;
        let close_mode = session.close_mode();
        self.host.net.connections.put_back(conn, parser, session);
        if !out.is_empty()
            && let Some(output) = self.host.net.driver.output_mut(conn)
        {
            output.append(&mut out);
        }
        let ThreadHost { outputs, net, shared, .. } = &mut self.host;
        if let Some(mode) = close_mode.or_else(|| outputs.settle(net, shared, conn)) {
            self.close(conn, mode);
        }
    }

    /// Sends the messages of completed transactions.
    #[inline]
    pub(crate) fn post_all(&mut self) {
        let ThreadHost { net, outputs, background, shared, .. } = &mut self.host;
        if !self.tx.outbox.is_empty() {
            send_outbox(&mut self.tx, net, outputs, background, shared);
        }
        net.messages.wake_sleepers();
    }

    /// Runs the commands that a pause postponed.
    pub(crate) fn run_all_postponed(&mut self) {
        let postponed = |(conn, session): (ConnId, &mut Session)| {
            session.state.postponed().map(|postponed| (postponed.number, conn))
        };
        let mut waiting: Vec<(u64, ConnId)> =
            self.host.net.connections.iter_mut().filter_map(postponed).collect();
        waiting.sort_unstable();
        for (_, conn) in waiting {
            let Some(session) = self.host.net.connections.session(conn) else { continue };
            let Some(postponed) = session.state.take_postponed() else { continue };
            self.host.net.stats.blocked_clients.sub(1);
            self.with_session(conn, |thread, out| {
                let command = thread.host.shared.table.get(postponed.command);
                thread.call(command, &postponed.args.slices(), None, out);
                thread.leave_all();
            });
            self.serve(conn);
            self.post_all();
        }
    }

    /// Closes a connection, and ends its waits, watches and subscriptions.
    pub(crate) fn close(&mut self, conn: ConnId, mode: CloseMode) {
        self.host.net.driver.close(conn, mode);
        let Some(mut session) = self.host.net.connections.remove(conn) else { return };
        self.host.net.timeouts.unset(&mut session.alarm, conn);
        if let Some(executing) = session.state.take_executing() {
            session = run_unheard(self, session, executing);
        }
        if let Some(wait) = session.state.take_wait() {
            // If it is being served at this moment, its reply comes too late and is undone.
            let _is_unserved = wait.blocked.waiter.claim.end();
            self.end_wait(conn, wait);
        } else if let Some(wait) = session.state.take_sync_wait() {
            Syncing::note_end(wait, self.host.reports.accounting.stats());
        } else if session.state.take_postponed().is_some() {
            self.host.reports.accounting.stats().blocked_clients.sub(1);
        }
        self.end_session(&mut session);
    }
}

/// Adds an answer to those that a client waits for. Returns the reply when it has all, and the EXEC that goes on then.
fn take_answer(
    connections: &mut Connections,
    answer: Answer,
) -> Option<(ConnId, Option<Box<Executing>>, Output)> {
    let (conn, proto) = (ConnId::from_bits(answer.asker.connection), answer.asker.proto);
    let session = connections.session(conn)?;
    let Gathering { parts, finish, then, .. } = session.state.take_answer(answer)?;
    let mut reply = Output::new();
    finish(parts, &mut Reply::new(&mut reply, proto));
    Some((conn, then, reply))
}

/// A command to be tried again: its shard is free, or the next slice of a snapshot is done.
pub(crate) fn take_retry(connections: &mut Connections, conn: ConnId) -> Option<Retry> {
    connections.session(conn)?.state.take_retry()
}

/// A client's `MIGRATE`, to be continued: the sent values have arrived or failed.
fn next_round(connections: &mut Connections, returned: Returned) -> Option<(ConnId, Retry)> {
    let Returned { client, command, args, migration, .. } = returned;
    let conn = ConnId::from_bits(client.connection);
    let session = connections.session(conn)?;
    session.migration = Some(Box::new(migration));
    session.state.come_home();
    Some((conn, Retry { command, args, needs: Needs::Nothing, tries: 0 }))
}

/// Sends the messages of completed transactions without waking threads.
pub(crate) fn send_outbox(
    tx: &mut Tx<'_>,
    net: &mut Network,
    outputs: &mut Outputs,
    background: &mut Background,
    shared: &Shared,
) {
    while !tx.outbox.is_empty() {
        let mut outbox = std::mem::take(&mut tx.outbox);
        for message in outbox.drain(..) {
            match message {
                TxMessage::Served { ref waiter, .. } => {
                    let origin = waiter.wait.client.thread;
                    net.messages.send_quietly(origin, Message::FromTx(message));
                }
                TxMessage::Free(garbage) => background.garbage.add(garbage, net.stats),
                TxMessage::Published(published) => net.messages.publish(published),
                TxMessage::Broadcast { to, key } => outputs.delivery.broadcasts.add(to, &key),
                TxMessage::Event { .. } => unreachable!("events are sent while their keys are held"),
                TxMessage::Flushed if shared.directory.tracking_count() > 0 => {
                    shared.broadcast(|| Message::news(News::Flushed(None)));
                }
                TxMessage::Flushed => {}
                TxMessage::ServeLater { .. } => net.messages.send(net.id, Message::FromTx(message)),
                TxMessage::Jobs(news) => {
                    background.jobs.hear(news, &shared.recovery, tx.steady);
                }
            }
        }
        if tx.outbox.is_empty() && outbox.capacity() <= POSTS_KEPT_MAX {
            tx.outbox = outbox;
        }
    }
}
