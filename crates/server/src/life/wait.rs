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

use clients::session::{Session, Wait};
use clients::{LeftOver, Whereabouts};
use engine::{Blocked, Client, CommandError, Forget, Handoff, OwnedArgs, Restore, Task, TxMessage, Work};
use proactor::ConnId;
use resp::{Output, Proto, Reply};
use shard::{Delegated, Ready, ShardId, Subscriber, Waiter};

use crate::connections::network::Network;
use crate::life::syncing::end_sync;
use crate::message::Message;
use crate::shared::Shared;
use crate::thread::{Thread, ThreadHost};

/// Makes a client wait.
pub(crate) fn begin_wait(session: &mut Session, net: &mut Network, blocked: Box<Blocked>) {
    // The current millisecond has begun already. If it counted, the wait would end too early.
    let deadline_ms =
        (blocked.timeout_ms > 0).then(|| net.now_ms.saturating_add(blocked.timeout_ms).saturating_add(1));
    let conn = ConnId::from_bits(session.client.connection);
    session.state.block(Wait { blocked, deadline_ms });
    net.stats.clients_with_timeout.add(u64::from(deadline_ms.is_some()));
    net.stats.blocked_clients.add(1);
    if let Some(deadline_ms) = deadline_ms {
        net.timeouts.set(&mut session.alarm, conn, deadline_ms, net.now_ms);
    }
}

/// A task that puts a popped value back where it was, because its client is gone.
pub(crate) fn putting_back(
    shared: &Shared,
    client: Client,
    restore: Option<Restore>,
) -> Option<Box<Delegated<Task>>> {
    let Restore { db, args } = restore?;
    let slices = args.slices();
    let command = shared.table.declared(slices[0]).expect("a restoring command is a plain one");
    let id = shared.shards.placement().shard(slices[1]);
    drop(slices);
    let client = Client { db, deny_blocking: true, ..client };
    Some(Delegated::new(Task::new(Work::Restore(command.id), id, client, args)))
}

impl Thread {
    /// Ends the wait of a client that another thread has served.
    pub(crate) fn take_served(
        &mut self,
        waiter: Arc<Waiter<engine::Wait>>,
        ticket: (ShardId, u64),
        mut handoff: Box<Handoff>,
    ) {
        let Client { thread, connection, .. } = waiter.wait.client;
        let found = match self.host.net.moves.find(Subscriber { thread, connection }, self.host.net.id) {
            Whereabouts::Here(conn) => Some(conn),
            Whereabouts::Nowhere => None,
            Whereabouts::WentTo(thread) => {
                let served = TxMessage::Served { waiter, ticket, handoff };
                return self.host.net.messages.send(thread, Message::FromTx(served));
            }
        };
        let session = found.and_then(|conn| Some((conn, self.host.net.connections.session(conn)?)));
        let Some((conn, session)) = session else {
            if let Some(node) = putting_back(self.host.shared, waiter.wait.client, handoff.restore) {
                self.send_task(node);
            }
            return;
        };
        if session.state.is_away() {
            // It was served before the message that it waits came home.
            let served = TxMessage::Served { waiter, ticket, handoff };
            return self.host.net.messages.put_off(Message::FromTx(served));
        }
        if let Some(error) = self.wait_error(conn) {
            let restore = handoff.restore.take();
            if let Some(node) = putting_back(self.host.shared, waiter.wait.client, restore) {
                self.send_task(node);
            }
            handoff.reply.clear();
            Reply::new(&mut handoff.reply, waiter.wait.client.proto).error(error.text());
            self.host.reports.count_failed_wait(&mut self.host.net, conn, &error);
        }
        let Some(session) = self.host.net.connections.session(conn) else { return };
        session.written_slice = session.written_slice.max(handoff.written);
        let mut wait = session.state.take_wait().expect("only a waiting client is served");
        wait.blocked.tickets.retain(|other| (other.shard, other.number) != ticket);
        drop(waiter);
        self.end_wait(conn, wait);
        self.reply_and_go_on(conn, &mut handoff.reply);
        self.tx.handoffs.put_back(handoff);
    }

    /// Ends the waits that are due.
    pub(crate) fn run_timeouts(&mut self) {
        if !self.host.balancing.way.left_over.is_empty() {
            // This came up while a command ran, and needs shards.
            let LeftOver { ended, ends_pause } = std::mem::take(&mut self.host.balancing.way.left_over);
            for wait in ended {
                self.forget_tickets(&wait.blocked);
                self.tx.idle_waits.put_back(wait.blocked);
            }
            if ends_pause {
                self.run_all_postponed();
            }
        }
        if self.host.waits.pausing.end_ms().is_some_and(|end_ms| end_ms <= self.host.net.now_ms) {
            self.host.waits.pausing.end();
            self.run_all_postponed();
        }
        let now_ms = self.host.net.now_ms;
        while let Some(conn) = self.host.net.timeouts.pop_due(now_ms) {
            let Network { connections, timeouts, .. } = &mut self.host.net;
            let Some(session) = connections.session(conn) else { continue };
            match session.state.deadline_ms() {
                Some(deadline_ms) if deadline_ms <= now_ms => drop(self.time_out(conn, None)),
                Some(deadline_ms) => timeouts.set(&mut session.alarm, conn, deadline_ms, now_ms),
                None => {}
            }
        }
    }

    /// Ends a wait with the reply of a timeout, or with this error. Returns false if it had ended already.
    pub(crate) fn time_out(&mut self, conn: ConnId, error: Option<&CommandError>) -> bool {
        let Some(session) = self.host.net.connections.session(conn) else { return false };
        if session.state.sync_wait().is_some() {
            let ThreadHost { net, reports, shared, .. } = &mut self.host;
            let Some(mut reply) = end_sync(&mut net.connections, reports, shared, conn, error) else {
                return false;
            };
            self.reply_and_go_on(conn, &mut reply);
            return true;
        }
        let Some(wait) = session.state.wait() else { return false };
        if !wait.blocked.waiter.claim.end() {
            // It is being served at this moment, and the reply is on the way.
            return false;
        }
        let (null_array, client) = (wait.blocked.null_array, session.client);
        if let Some(error) = error {
            self.host.reports.count_failed_wait(&mut self.host.net, conn, error);
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

    /// Cleans up after a wait, before its client, if it is still connected, gets its reply: its next command may wait
    /// in the same way.
    pub(crate) fn end_wait(&mut self, conn: ConnId, wait: Wait) {
        self.forget_tickets(&wait.blocked);
        self.host.reports.note_end_of_wait(&mut self.host.net, &self.host.shared.table, conn, &wait);
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
            let task = Task::new(Work::Forget(what), id, client, OwnedArgs::default());
            self.send_task(Delegated::new(task));
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
        self.host.net.messages.put_off(Message::FromTx(TxMessage::ServeLater { ready, also }));
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
