//! Moves a connection from one thread to another, between two commands or while its command blocks.
//!
//! ```text
//!   send_off ──▶ the driver lets go of it ──▶ depart ── Message::Arrive ──▶ arrive
//!        └──────── it cannot leave in time: it stays
//! ```
//!
//! A question to all threads finds each connection once: see `life/gather.rs`.
//!
//! Not here: which connections move where (`balancing.rs`), and their former names (`clients::Moves`).

use std::sync::Arc;

use acl::Users;
use clients::{FORMER_NAMES_MAX, Mover, may_go};
use proactor::ConnId;
use shard::Subscriber;

use crate::connections::network::Network;
use crate::message::Message;

impl Network {
    /// Begins to move a connection to another thread. Returns false if it cannot move.
    pub(crate) fn send_off(&mut self, conn: ConnId, to: u16) -> bool {
        let may_go = to != self.id
            && self.connections.session(conn).is_some_and(|session| may_go(session))
            && self.moves.begin(conn, to, self.now_ms);
        if may_go {
            self.driver.detach(conn);
        }
        may_go
    }

    /// Lets a connection leave, if it still can. The driver has let go of it.
    pub(crate) fn depart(&mut self, conn: ConnId) {
        let questions = self.registry.questions();
        if self.answered < *questions {
            // The question is on its way here, and has already passed the thread to which the connection is going.
            return self.messages.put_off(Message::Depart(conn));
        }
        let Some(to) = self.moves.take(conn) else { return self.driver.stop_detaching(conn) };
        let goes = self.connections.session(conn).is_some_and(|session| may_go(session));
        let Some(connection) = goes.then(|| self.driver.take(conn)).flatten() else {
            return self.driver.stop_detaching(conn);
        };
        let Some((parser, mut session)) = self.connections.take(conn) else {
            unreachable!("no command of it runs now");
        };
        self.connections.remove(conn);
        self.timeouts.unset(&mut session.alarm, conn);
        if let Some(wait) = session.state.wait() {
            let stats = self.stats;
            stats.blocked_clients.sub(1);
            stats.clients_with_timeout.sub(u64::from(wait.deadline_ms.is_some()));
        }
        let forgotten =
            (session.former_names.len() == FORMER_NAMES_MAX).then(|| session.former_names.remove(0));
        session.former_names.push(Subscriber { thread: self.id, connection: conn.to_bits() });
        session.asked = *questions;
        self.moves.depart(&session.former_names, to);
        self.stats.connections_moved.add(1);
        self.messages.send(to, Message::Arrive(Box::new(Mover { connection, parser, session })));
        drop(questions);
        self.forget_names(forgotten.as_slice());
    }

    /// Takes in a connection that arrives from another thread.
    pub(crate) fn arrive(&mut self, users: &Users, mover: Mover) {
        let Mover { connection, parser, mut session } = mover;
        debug_assert!(session.asked >= self.answered, "no question overtakes a connection");
        let conn = self.driver.attach(connection);
        let place = Subscriber { thread: self.id, connection: conn.to_bits() };
        (session.client.thread, session.client.connection) = (place.thread, place.connection);
        session.takes_long = false;
        // Its output is empty.
        session.over_soft_limit_since_ms = None;
        session.has_to_wait = session.state.is_ready();
        if session.has_to_wait {
            // Its input may have waited until others had their turn, or until it read its replies.
            session.is_reading_paused = false;
            self.driver.resume_reading(conn);
            self.unserved.push_back(conn);
        }
        if let Some(wait) = session.state.wait() {
            let stats = self.stats;
            stats.blocked_clients.add(1);
            stats.clients_with_timeout.add(u64::from(wait.deadline_ms.is_some()));
        }
        if let Some(deadline_ms) = session.state.deadline_ms() {
            self.timeouts.set(&mut session.alarm, conn, deadline_ms, self.now_ms);
        }
        self.moves.arrive(&session.former_names, conn);
        self.registry.move_to(session.client.id, place);
        if session.access.has_missed_change(users) {
            // It may have been on its way when all threads were told.
            self.messages.send(self.id, Message::UsersChanged);
        }
        self.connections.add(conn, parser, session);
    }

    /// Keeps connections that could not leave in time.
    pub(crate) fn stop_overdue(&mut self) {
        while let Some(conn) = self.moves.pop_overdue(self.now_ms) {
            self.driver.stop_detaching(conn);
        }
    }

    /// Makes all threads that an ended connection was on forget its names.
    pub(crate) fn forget_names(&mut self, names: &[Subscriber]) {
        if names.is_empty() {
            return;
        }
        self.moves.forget(names);
        let names: Arc<[Subscriber]> = names.into();
        let mut threads: Vec<u16> = names.iter().map(|name| name.thread).collect();
        threads.sort_unstable();
        threads.dedup();
        for thread in threads.into_iter().filter(|thread| *thread != self.id) {
            self.messages.send(thread, Message::Forget(names.clone()));
        }
    }
}
