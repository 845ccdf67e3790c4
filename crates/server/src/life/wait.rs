//! Begins the wait of a blocking command, and ends it in one of three ways.
//!
//! ```text
//!   nothing there ──▶ begin_wait ──▶ blocked ──▶ served by a push: take_served
//!                                            ──▶ time is up, CLIENT UNBLOCK, a change of users: time_out
//!                                            ──▶ the client is gone: close (homecoming.rs)
//! ```
//!
//! One claim word decides between serving and the other two. The wait has a ticket in the shard of each key. The
//! tickets are removed when the wait is over; the thread that served the wait has removed the ticket that it served.

use std::sync::Arc;

use clients::session::Wait;
use clients::{LeftOver, Whereabouts};
use engine::{Blocked, Client, CommandError, Forget, OwnedArgs, Parcel, Post, Restore, Task, Work};
use proactor::ConnId;
use resp::{Output, Proto, Reply};
use shard::{Ready, ShardId, Subscriber, Waiter};

use crate::connections::network::Network;
use crate::life::syncing::end_sync;
use crate::message::Message;
use crate::thread::{Thread, ThreadHost};

impl Thread {
    /// Makes the current client wait.
    pub(crate) fn begin_wait(&mut self, blocked: Box<Blocked>) {
        // The current millisecond has begun already. If it counted, the wait would end too early.
        let deadline_ms = (blocked.timeout_ms > 0)
            .then(|| self.host.net.now_ms.saturating_add(blocked.timeout_ms).saturating_add(1));
        let session = self.host.session();
        let conn = ConnId::from_bits(session.client.connection);
        session.state.block(Wait { blocked, deadline_ms });
        let stats = self.host.reports.accounting.stats();
        stats.clients_with_timeout.add(u64::from(deadline_ms.is_some()));
        stats.blocked_clients.add(1);
        let ThreadHost { current, net: Network { timers, now_ms, .. }, .. } = &mut self.host;
        if let (Some(deadline_ms), Some(session)) = (deadline_ms, current) {
            timers.set(&mut session.alarm, conn, deadline_ms, *now_ms);
        }
    }

    /// Ends the wait of a client that another thread has served.
    pub(crate) fn take_served(
        &mut self,
        waiter: Arc<Waiter<engine::Wait>>,
        ticket: (ShardId, u64),
        mut parcel: Box<Parcel>,
    ) {
        let Client { thread, connection, .. } = waiter.wait.client;
        let found = match self.host.net.moves.find(Subscriber { thread, connection }, self.host.net.id) {
            Whereabouts::Here(conn) => Some(conn),
            Whereabouts::Nowhere => None,
            Whereabouts::WentTo(thread) => {
                let served = Post::Served { waiter, ticket, parcel };
                return self.host.net.mailroom.send(thread, Message::Post(served));
            }
        };
        let session = found.and_then(|conn| Some((conn, self.host.net.connections.session(conn)?)));
        let Some((conn, session)) = session else {
            return self.put_back_unclaimed(waiter.wait.client, parcel.restore);
        };
        if session.state.is_away() {
            // It was served before the message that it waits came home.
            let served = Post::Served { waiter, ticket, parcel };
            return self.host.net.mailroom.put_off(Message::Post(served));
        }
        if let Some(error) = self.wait_error(conn) {
            self.put_back_unclaimed(waiter.wait.client, parcel.restore.take());
            parcel.reply.clear();
            Reply::new(&mut parcel.reply, waiter.wait.client.proto).error(error.text());
            self.count_failed_wait(conn, &error);
        }
        let Some(session) = self.host.net.connections.session(conn) else { return };
        session.written_slice = session.written_slice.max(parcel.written);
        let mut wait = session.state.take_wait().expect("only a waiting client is served");
        wait.blocked.tickets.retain(|other| (other.shard, other.number) != ticket);
        drop(waiter);
        self.end_wait(conn, wait);
        self.reply_and_go_on(conn, &mut parcel.reply);
        self.tx.parcels.put_back(parcel);
    }

    /// Puts a popped value back where it was, because its client is gone.
    pub(crate) fn put_back_unclaimed(&mut self, client: Client, restore: Option<Restore>) {
        let Some(Restore { db, args }) = restore else { return };
        let slices = args.slices();
        let command = self.host.shared.table.declared(slices[0]).expect("a restoring command is a plain one");
        let id = self.host.shared.shards.placement().shard(slices[1]);
        drop(slices);
        let client = Client { db, deny_blocking: true, ..client };
        self.send_task(id, Task::new(Work::Restore(command.id), id, client, args));
    }

    /// Ends the waits that are due.
    pub(crate) fn run_timers(&mut self) {
        if !self.host.balancing.way.left_over.is_empty() {
            do_left_over(self);
        }
        if self.host.waits.pausing.end_ms().is_some_and(|end_ms| end_ms <= self.host.net.now_ms) {
            self.host.waits.pausing.end();
            self.run_all_postponed();
        }
        let now_ms = self.host.net.now_ms;
        while let Some(conn) = self.host.net.timers.pop_due(now_ms) {
            let Network { connections, timers, .. } = &mut self.host.net;
            let Some(session) = connections.session(conn) else { continue };
            match session.state.deadline_ms() {
                Some(deadline_ms) if deadline_ms <= now_ms => drop(self.time_out(conn, None)),
                Some(deadline_ms) => timers.set(&mut session.alarm, conn, deadline_ms, now_ms),
                None => {}
            }
        }
    }

    /// Ends a wait with the reply of a timeout, or with this error. Returns false if it had ended already.
    pub(crate) fn time_out(&mut self, conn: ConnId, error: Option<&CommandError>) -> bool {
        let Some(session) = self.host.net.connections.session(conn) else { return false };
        if session.state.sync_wait().is_some() {
            return end_sync(self, conn, error);
        }
        let Some(wait) = session.state.wait() else { return false };
        if !wait.blocked.waiter.claim.end() {
            // It is being served at this moment, and the reply is on the way.
            return false;
        }
        let (null_array, client) = (wait.blocked.null_array, session.client);
        if let Some(error) = error {
            self.count_failed_wait(conn, error);
        }
        let mut out = Output::new();
        let mut reply = Reply::new(&mut out, client.proto);
        write_end_of_wait(&mut reply, error, null_array);
        let session = self.host.net.connections.session(conn);
        let wait = session.and_then(|session| session.state.take_wait()).expect("looked at above");
        self.end_wait(conn, wait);
        self.reply_and_go_on(conn, &mut out);
        true
    }

    /// Counts that the client's wait ends with an error.
    fn count_failed_wait(&mut self, conn: ConnId, error: &CommandError) {
        let command = self.host.net.connections.session(conn).and_then(|session| session.last_command);
        self.host.reports.accounting.count_failed_wait(command, error);
    }

    /// Cleans up after a wait, before its client, if it is still connected, gets its reply: its next command may wait
    /// in the same way.
    pub(crate) fn end_wait(&mut self, conn: ConnId, wait: Wait) {
        self.forget_tickets(&wait.blocked);
        note_end_of_wait(&mut self.host, conn, &wait);
        self.tx.idle_waits.put_back(wait.blocked);
    }

    /// Removes the records of an ended wait from the shards, in one visit to each.
    pub(crate) fn forget_tickets(&mut self, Blocked { waiter, tickets, .. }: &Blocked) {
        for tickets in tickets.chunk_by(|a, b| a.shard == b.shard) {
            let id = tickets[0].shard;
            self.leave_all();
            if self.tx.hold.try_enter(id) {
                waiter.wait.forget(self.tx.hold.shard_mut(id), tickets);
                self.leave_all();
                continue;
            }
            let what = Forget::Wait { waiter: waiter.clone(), tickets: tickets.into() };
            let client = Client { thread: self.host.net.id, ..Client::internal(0, Proto::Resp2) };
            self.send_task(id, Task::new(Work::Forget(what), id, client, OwnedArgs::default()));
        }
    }

    /// Serves a waiter that needs two shards: enters both and serves it.
    pub(crate) fn serve_later(&mut self, ready: Ready, also: ShardId) {
        let id = self.host.shared.shards.placement().shard(&ready.key);
        let mut ids = [id, also];
        ids.sort_unstable();
        self.leave_all();
        if self.tx.hold.try_enter_all(&ids, false).is_ok() {
            self.tx.serve_key(id, &ready, &mut self.host);
            self.tx.finish(&mut self.host);
            self.leave_all();
            return self.post_all();
        }
        // One of the shards is taken, so the next turn tries again.
        self.leave_all();
        self.host.net.mailroom.put_off(Message::Post(Post::ServeLater { ready, also }));
    }
}

/// Counts the end of a client's wait.
pub(crate) fn note_end_of_wait(host: &mut ThreadHost, conn: ConnId, wait: &Wait) {
    let stats = host.reports.accounting.stats();
    stats.clients_with_timeout.sub(u64::from(wait.deadline_ms.is_some()));
    stats.blocked_clients.sub(1);
    host.note_unblocked(conn, &wait.blocked);
}

/// Does the work that came up while a command ran and that needs shards.
fn do_left_over(thread: &mut Thread) {
    let LeftOver { ended, ends_pause } = std::mem::take(&mut thread.host.balancing.way.left_over);
    for wait in ended {
        thread.forget_tickets(&wait.blocked);
        thread.tx.idle_waits.put_back(wait.blocked);
    }
    if ends_pause {
        thread.run_all_postponed();
    }
}

/// Replies to a client whose wait ends without a value, or with this error.
pub(crate) fn write_end_of_wait(reply: &mut Reply<'_>, error: Option<&CommandError>, null_array: bool) {
    match error {
        Some(error) => reply.error(error.text()),
        None if null_array => reply.null_array(),
        None => reply.null(),
    }
}
