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

use clients::Mover;
use clients::session::{Session, Wait};
use engine::Client;
use proactor::ConnId;
use shard::Subscriber;

use crate::message::Message;
use crate::thread::ThreadHost;

/// Limit of former names that a connection keeps. No message to an older one can still be on its way.
const FORMER_NAMES_MAX: usize = 16;

/// Begins to move a connection to another thread. Returns false if it cannot move.
pub(crate) fn send_off(host: &mut ThreadHost, conn: ConnId, to: u16) -> bool {
    let may_go = to != host.net.id
        && host.net.connections.session(conn).is_some_and(|session| may_go(session))
        && host.net.moves.begin(conn, to, host.net.now_ms);
    if may_go {
        host.net.driver.detach(conn);
    }
    may_go
}

/// Whether only a client's session, and its waits in shards, depend on the thread that it is on.
pub(crate) fn may_go(session: &Session) -> bool {
    let is_known_elsewhere = session.is_subscriber()
        || session.tracking.is_some()
        || session.monitor
        || session.replica.is_some()
        || session.is_primary
        || session.handshake.is_some();
    let is_ending = session.has_hung_up || session.close_after_reply;
    let is_at_rest = session.state.is_ready() || session.state.wait().is_some();
    is_at_rest && !is_ending && !is_known_elsewhere && !is_known_by_oldest_name(session)
}

/// Whether a client has as many former names as allowed and waits under the first of them.
fn is_known_by_oldest_name(session: &Session) -> bool {
    let name = |wait: &Wait| {
        let Client { thread, connection, .. } = wait.blocked.waiter.wait.client;
        Subscriber { thread, connection }
    };
    session.former_names.len() == FORMER_NAMES_MAX
        && session.state.wait().map(name).as_ref() == session.former_names.first()
}

/// Lets a connection leave, if it still can. The driver has let go of it.
pub(crate) fn depart(host: &mut ThreadHost, conn: ConnId) {
    let questions = host.shared.registry.questions();
    if host.net.answered < *questions {
        // The question is on its way here, and has already passed the thread to which the connection is going.
        return host.net.mailroom.put_off(Message::Depart(conn));
    }
    let Some(to) = host.net.moves.take(conn) else { return host.net.driver.stop_detaching(conn) };
    let goes = host.net.connections.session(conn).is_some_and(|session| may_go(session));
    let Some(connection) = goes.then(|| host.net.driver.take(conn)).flatten() else {
        return host.net.driver.stop_detaching(conn);
    };
    let Some((parser, mut session)) = host.net.connections.take(conn) else {
        unreachable!("no command of it runs now");
    };
    host.net.connections.remove(conn);
    host.net.timers.unset(&mut session.alarm, conn);
    if let Some(wait) = session.state.wait() {
        let stats = host.reports.accounting.stats();
        stats.blocked_clients.sub(1);
        stats.clients_with_timeout.sub(u64::from(wait.deadline_ms.is_some()));
    }
    let forgotten = (session.former_names.len() == FORMER_NAMES_MAX).then(|| session.former_names.remove(0));
    session.former_names.push(Subscriber { thread: host.net.id, connection: conn.to_bits() });
    session.asked = *questions;
    host.net.moves.depart(&session.former_names, to);
    host.reports.accounting.stats().connections_moved.add(1);
    host.net.mailroom.send(to, Message::Arrive(Box::new(Mover { connection, parser, session })));
    drop(questions);
    forget_names(host, forgotten.as_slice());
}

/// Takes in a connection that arrives from another thread.
pub(crate) fn arrive(host: &mut ThreadHost, mover: Mover) {
    let Mover { connection, parser, mut session } = mover;
    debug_assert!(session.asked >= host.net.answered, "no question overtakes a connection");
    let conn = host.net.driver.attach(connection);
    let place = Subscriber { thread: host.net.id, connection: conn.to_bits() };
    (session.client.thread, session.client.connection) = (place.thread, place.connection);
    session.takes_long = false;
    // Its output is empty.
    session.over_soft_limit_since_ms = None;
    session.has_to_wait = session.state.is_ready();
    if session.has_to_wait {
        // Its input may have waited until others had their turn, or until it read its replies.
        session.is_reading_paused = false;
        host.net.driver.resume_reading(conn);
        host.net.unserved.push_back(conn);
    }
    if let Some(wait) = session.state.wait() {
        let stats = host.reports.accounting.stats();
        stats.blocked_clients.add(1);
        stats.clients_with_timeout.add(u64::from(wait.deadline_ms.is_some()));
    }
    if let Some(deadline_ms) = session.state.deadline_ms() {
        host.net.timers.set(&mut session.alarm, conn, deadline_ms, host.net.now_ms);
    }
    host.net.moves.arrive(&session.former_names, conn);
    host.shared.registry.move_to(session.client.id, place);
    if session.access.has_missed_change(&host.shared.users) {
        // It may have been on its way when all threads were told.
        host.net.mailroom.send(host.net.id, Message::UsersChanged);
    }
    host.net.connections.add(conn, parser, session);
}

/// Keeps connections that could not leave in time.
pub(crate) fn stop_overdue(host: &mut ThreadHost) {
    while let Some(conn) = host.net.moves.pop_overdue(host.net.now_ms) {
        host.net.driver.stop_detaching(conn);
    }
}

/// Makes all threads that an ended connection was on forget its names.
pub(crate) fn forget_names(host: &mut ThreadHost, names: &[Subscriber]) {
    if names.is_empty() {
        return;
    }
    host.net.moves.forget(names);
    let names: Arc<[Subscriber]> = names.into();
    let mut threads: Vec<u16> = names.iter().map(|name| name.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    for thread in threads.into_iter().filter(|thread| *thread != host.net.id) {
        host.net.mailroom.send(thread, Message::Forget(names.clone()));
    }
}
