//! Handles what arrives at a thread: replies of commands that ran on other threads, ended waits, messages.

use std::io::ErrorKind;

use clients::session::{Answer, Gathering, Part, ReplyMode, Retry, Session};
use engine::{Needs, Outcome, Post, Task, Work};
use ops::migrate::Returned;
use proactor::{CloseMode, ConnId};
use resp::{Output, Reply};
use shard::Delegated;

use crate::connections::balancing::share;
use crate::connections::lifecycle::visit;
use crate::connections::moving::{arrive, depart};
use crate::life::admit::refusal_of_replica;
use crate::life::executing::{go_on_executing, note_seen, run_unheard};
use crate::life::waits::Syncing;
use crate::message::{Message, News};
use crate::replication::take_news;
use crate::subscribers::hear_itself;
use crate::thread::{Thread, ThreadHost};

/// Limit of messages to post for which a thread keeps memory.
const POSTS_KEPT_MAX: usize = 256;

impl Thread {
    /// Handles one message.
    pub(crate) fn receive(&mut self, message: Message) {
        match message {
            Message::Adopt(socket, entrance) => _ = self.host.adopt(socket, entrance),
            Message::Arrive(mover) => arrive(&mut self.host, *mover),
            Message::Depart(conn) => depart(&mut self.host, conn),
            Message::Share(order) => share(&mut self.host, order),
            Message::Forget(names) => self.host.net.moves.forget(&names),
            Message::Visit(socket, access) => visit(&mut self.host, socket, *access),
            Message::Listen(listeners) => {
                self.host.balancing.dealer.listen(&mut self.host.net.driver, listeners)
            }
            Message::Hop(node) => self.take_hop(node),
            Message::Done(node, published) => {
                // These come after the reply and before what the client sent next.
                for published in published.into_iter().rev().filter(|published| !published.to.is_empty()) {
                    self.host.net.mailroom.put_first(Message::Deliver(published));
                }
                self.come_home(*node);
            }
            Message::Post(post) => self.take_post(post),
            Message::Deliver(_) | Message::News(..) | Message::Monitor(_) => {
                let (delivery, monitors) = (&mut self.host.outputs.delivery, &self.host.reports.monitors);
                match message {
                    Message::Deliver(published) => delivery.deliver(&published, &mut self.host.net),
                    Message::News(news, _memory) => delivery.tell(news, &mut self.host.net),
                    Message::Monitor(line) => delivery.show(&line, monitors, &mut self.host.net),
                    _ => unreachable!("looked at above"),
                }
                self.look_at_written();
            }
            Message::Ask(question) => self.answer(question),
            Message::PassScript(asker) => self.host.net.mailroom.answer(asker, Part::Count(0)),
            Message::Answer(answer) => self.take_answer(answer),
            Message::Populate(share) => self.populate(share),
            Message::UsersChanged => self.follow_users(),
            Message::Migrated(returned) => self.take_returned(*returned),
            Message::Snapshot => self.look_at_snapshot(),
            Message::Loaded(loaded) => self.install(loaded),
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
            return self.nobody_home(task);
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
                    .mailroom
                    .send(self.host.shared.shards.home(task.shard), Message::Hop(Delegated::new(task)));
            }
            Work::Notify => self.try_again(conn),
            Work::Forget(_) | Work::Restore(_) | Work::HandOver(_) => {}
        }
    }

    /// Handles a task whose client has hung up: popped values go back, and a wait that it began ends.
    fn nobody_home(&mut self, task: Task) {
        self.put_back_unclaimed(task.client, task.restore);
        if let Outcome::Blocked(blocked) = task.outcome {
            // The waiter may have been served already at one of its keys. That value comes in a message of its own.
            let _is_unserved = blocked.waiter.claim.end();
            self.forget_tickets(&blocked);
        }
    }

    fn take_outcome(&mut self, conn: ConnId, mut task: Task) {
        match std::mem::take(&mut task.outcome) {
            Outcome::Done | Outcome::Failed => {
                self.reply_and_go_on(conn, &mut task.reply);
            }
            Outcome::Blocked(blocked) => self.with_session(conn, |thread, _| thread.begin_wait(blocked)),
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

    /// Tries a command again: its shard is free, or the next slice of a snapshot is done.
    pub(crate) fn try_again(&mut self, conn: ConnId) {
        let Some(session) = self.host.net.connections.session(conn) else { return };
        if let Some(retry) = session.state.take_retry() {
            self.retry(conn, retry);
        }
    }

    /// Continues a client's `MIGRATE`: the sent values have arrived or failed.
    fn take_returned(&mut self, returned: Returned) {
        let conn = ConnId::from_bits(returned.client.connection);
        let Some(session) = self.host.net.connections.session(conn) else { return };
        let Returned { command, args, migration, .. } = returned;
        session.migration = Some(Box::new(migration));
        session.state.come_home();
        self.retry(conn, Retry { command, args, needs: Needs::Nothing, tries: 0 });
    }

    /// Runs a command again that could not get its shards.
    fn retry(&mut self, conn: ConnId, retry: Retry) {
        // The time that it waited does not count as its own.
        self.host.reports.accounting.begin_lap(self.host.net.driver.clock());
        self.with_session(conn, |thread, out| {
            let args = retry.args.slices();
            let command = thread.host.shared.table.get(retry.command);
            let (mode, mark) = (thread.host.session().reply_mode, out.mark());
            if thread.host.is_kept_waiting(&retry.needs) {
                let error = thread.host.shared.scripts.busy_error();
                thread.host.refuse(Some(command), &error, out);
            } else if let Some(error) = refusal_of_replica(&mut thread.host, command, &args) {
                // This server was not a replica when the command came.
                thread.host.refuse(Some(command), &error, out);
            } else if thread.host.session().migration.is_none() && thread.host.postpones(command, &args) {
                // There was no pause when the command came. Migrated values are not sent again.
            } else {
                thread.execute(command, &args, retry.needs, retry.tries, out);
                note_seen(thread);
            }
            if thread.host.session().state.is_ready() {
                // The command is over, and may have been refused.
                thread.host.session().progress = None;
            }
            thread.host.suppress_reply(Some(command), mode, mark, out);
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
        if !self.host.net.mailroom.is_empty() && self.host.net.connections.session(conn).is_some_and(hears) {
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
        if let Some(mode) = close_mode {
            return self.close(conn, mode);
        }
        self.settle(conn);
    }

    /// Sends the messages of completed transactions.
    pub(crate) fn post_all(&mut self) {
        send_posts(self);
        self.host.net.mailroom.wake_sleepers();
    }

    fn take_post(&mut self, post: Post) {
        match post {
            Post::Served { waiter, ticket, parcel } => self.take_served(waiter, ticket, parcel),
            Post::Free(garbage) => {
                self.host.background.garbage.add(garbage, self.host.reports.accounting.stats())
            }
            Post::Published(_)
            | Post::Broadcast { .. }
            | Post::Event { .. }
            | Post::Flushed
            | Post::Jobs(_) => {
                unreachable!("messages travel as deliveries")
            }
            Post::ServeLater { ready, also } => self.serve_later(ready, also),
        }
    }

    pub(crate) fn take_answer(&mut self, answer: Answer) {
        let conn = ConnId::from_bits(answer.asker.connection);
        let Some(session) = self.host.net.connections.session(conn) else { return };
        let proto = answer.asker.proto;
        let Some(Gathering { parts, finish, then, .. }) = session.state.take_answer(answer) else { return };
        let mut out = Output::new();
        finish(parts, &mut Reply::new(&mut out, proto));
        match then {
            Some(executing) => go_on_executing(self, conn, executing, out),
            None => self.reply_and_go_on(conn, &mut out),
        }
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
            self.run_postponed(conn);
        }
    }

    fn run_postponed(&mut self, conn: ConnId) {
        let Some(session) = self.host.net.connections.session(conn) else { return };
        let Some(postponed) = session.state.take_postponed() else { return };
        self.host.reports.accounting.stats().blocked_clients.sub(1);
        self.with_session(conn, |thread, out| {
            let command = thread.host.shared.table.get(postponed.command);
            thread.call(command, &postponed.args.slices(), None, out);
            thread.leave_all();
        });
        self.serve(conn);
        self.post_all();
    }

    /// Handles a peer that will send nothing more, or (`error`) is gone.
    pub(crate) fn hang_up(&mut self, conn: ConnId, error: Option<ErrorKind>) {
        if error.is_some() {
            return self.close(conn, CloseMode::Now);
        }
        // A client that only closed its sending side still gets the replies to what it sent.
        if let Some(session) = self.host.net.connections.session(conn) {
            session.has_hung_up = true;
        }
        self.settle(conn);
    }

    /// Closes a connection, and ends its waits, watches and subscriptions.
    pub(crate) fn close(&mut self, conn: ConnId, mode: CloseMode) {
        self.host.net.driver.close(conn, mode);
        let Some(mut session) = self.host.net.connections.remove(conn) else { return };
        self.host.net.timers.unset(&mut session.alarm, conn);
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

/// Sends the messages of completed transactions without waking threads.
pub(crate) fn send_posts(thread: &mut Thread) {
    while !thread.tx.posts.is_empty() {
        let mut posts = std::mem::take(&mut thread.tx.posts);
        for post in posts.drain(..) {
            match post {
                Post::Served { ref waiter, .. } => {
                    let origin = waiter.wait.client.thread;
                    thread.host.net.mailroom.post(origin, Message::Post(post));
                }
                Post::Free(garbage) => {
                    thread.host.background.garbage.add(garbage, thread.host.reports.accounting.stats())
                }
                Post::Published(published) => thread.host.net.mailroom.publish(published),
                Post::Broadcast { to, key } => thread.host.outputs.delivery.broadcasts.add(to, &key),
                Post::Event { .. } => unreachable!("events are sent while their keys are held"),
                Post::Flushed if thread.host.shared.directory.tracking_count() > 0 => {
                    thread.host.shared.broadcast(|| Message::news(News::Flushed(None)));
                }
                Post::Flushed => {}
                Post::ServeLater { .. } => {
                    thread.host.net.mailroom.send(thread.host.net.id, Message::Post(post))
                }
                Post::Jobs(news) => {
                    thread.host.background.jobs.hear(news, &thread.host.shared.recovery, thread.tx.steady);
                }
            }
        }
        if thread.tx.posts.is_empty() && posts.capacity() <= POSTS_KEPT_MAX {
            thread.tx.posts = posts;
        }
    }
}
