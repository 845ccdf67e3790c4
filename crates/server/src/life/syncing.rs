//! Makes clients wait until their writes are durable or have reached replicas: `WAITAOF` and `WAIT`.
//!
//! Such a client waits for the last slice that contains a write of its own, including writes of its transactions and
//! scripts, and pops that served it. A client that wrote nothing does not wait for the disk. The log thread is asked to
//! write that slice now, and the disk thread to sync it, whatever `appendfsync` says. Clients that ask at the same time
//! share one sync.
//!
//! The stream asks replicas, after that slice, for their offsets. All clients that wait at that moment share the
//! question. Replies that wait for replicas (`repl-sync-replicas`) work in the same way.
//!
//! Not here: replies that wait by themselves (`replication/log/turn.rs`), and the commands (`replication`).

use std::cmp::Reverse;

use clients::session::{Session, SyncWait};
use config::APPENDONLY;
use engine::{CommandError, Tx};
use proactor::ConnId;
use replication::{Awaited, NO_JOURNAL, QUESTION};
use resp::{Output, Reply};

use crate::life::waits::{OfReplicas, Syncing};
use crate::thread::{Thread, ThreadHost};

/// The first slice for which output of this thread waits until replicas have it.
pub(crate) fn held_for_replicas(host: &mut ThreadHost) -> Option<u64> {
    let synced = &host.shared.journal.synced;
    if synced.wanted() == 0 || !host.net.driver.is_holding() {
        return None;
    }
    host.net.driver.held_for().filter(|held| *held > synced.slice())
}

/// Notes that the changes that `tx` has committed belong to the client of this session.
pub(crate) fn note_written(tx: &mut Tx<'_>, session: Option<&mut Session>) {
    match session {
        Some(session) => replication::note_written(tx, &mut session.written_slice),
        None => tx.written = 0,
    }
}

/// Makes the current client wait for this, for at most `timeout_ms` milliseconds. 0: forever.
pub(crate) fn begin_sync(host: &mut ThreadHost, awaited: Awaited, timeout_ms: u64) {
    // The current millisecond has begun already.
    let deadline_ms = (timeout_ms > 0).then(|| host.net.now_ms.saturating_add(timeout_ms).saturating_add(1));
    let session = host.session();
    let conn = ConnId::from_bits(session.client.connection);
    session.state.sync(SyncWait { awaited, deadline_ms });
    let stats = host.reports.accounting.stats();
    stats.clients_with_timeout.add(u64::from(deadline_ms.is_some()));
    stats.blocked_clients.add(1);
    if let (Some(deadline_ms), Some(session)) = (deadline_ms, &mut host.current) {
        host.net.timers.set(&mut session.alarm, conn, deadline_ms, host.net.now_ms);
    }
    let journal = &host.shared.journal;
    if awaited.wish.is_local {
        host.waits.syncing.of_disk.push(Reverse((awaited.kept, conn.to_bits())));
        journal.ask_for(awaited.kept);
    }
    if awaited.wish.replicas > 0 {
        let has_asked = journal.backlog.end_of(awaited.written).is_some();
        host.waits.syncing.asks |= has_asked;
        host.waits.syncing.of_replicas.push(OfReplicas { conn, has_asked });
    }
}

/// Replies to clients whose writes are durable now, or have reached replicas. If the journal has been closed, replies
/// to all clients that waited for it.
pub(crate) fn end_syncs(thread: &mut Thread) {
    let shared = thread.host.shared;
    if !shared.settings.is_on(APPENDONLY) && !shared.journal.is_on() {
        while let Some(conn) = thread.host.waits.syncing.pop(u64::MAX) {
            if awaited_by(thread, conn).is_some_and(|awaited| awaited.wish.is_local) {
                end_sync(thread, conn, Some(&NO_JOURNAL));
            }
        }
    }
    let durable = shared.journal.kept();
    while let Some(conn) = thread.host.waits.syncing.pop(durable) {
        end_if_met(thread, conn);
    }
    // The order matters: news that come meanwhile are checked again.
    let news = (shared.acks.count(), shared.journal.backlog.end());
    if std::mem::replace(&mut thread.host.waits.syncing.looked_at, news) != news {
        look_at_replicas(thread);
    }
    if let Some(held) = held_for_replicas(&mut thread.host) {
        thread.host.waits.syncing.asks |= shared.journal.synced.asks(held, shared.journal.backlog.last());
    }
    if std::mem::take(&mut thread.host.waits.syncing.asks) && shared.primary.is_followed() {
        thread.host.waits.syncing.asks = !thread.tx.tell_replicas(&QUESTION);
        shared.journal.progress.hurry(thread.tx.committed);
        thread.leave_all();
    }
}

/// Checks all clients that wait for replicas.
fn look_at_replicas(thread: &mut Thread) {
    for one in std::mem::take(&mut thread.host.waits.syncing.of_replicas) {
        if end_if_met(thread, one.conn) {
            continue;
        }
        let Some(awaited) = awaited_by(thread, one.conn).filter(|awaited| awaited.wish.replicas > 0) else {
            continue;
        };
        let is_closed = thread.host.shared.journal.backlog.end_of(awaited.written).is_some();
        let syncing = &mut thread.host.waits.syncing;
        syncing.asks |= is_closed && !one.has_asked;
        syncing.of_replicas.push(OfReplicas { has_asked: is_closed, ..one });
    }
}

/// The condition for which a client waits, if it waits.
fn awaited_by(thread: &mut Thread, conn: ConnId) -> Option<Awaited> {
    Some(thread.host.net.connections.session(conn)?.state.sync_wait()?.awaited)
}

/// Ends a client's wait if its condition holds.
fn end_if_met(thread: &mut Thread, conn: ConnId) -> bool {
    // It may wait again, for more.
    let awaited = awaited_by(thread, conn);
    let is_met =
        awaited.is_some_and(|awaited| awaited.is_met_by(thread.host.shared.role_parts().reached(&awaited)));
    is_met && end_sync(thread, conn, None)
}

/// Ends a client's wait. The reply is the number of replicas that have its writes, or this error. Returns false if it
/// does not wait.
pub(crate) fn end_sync(thread: &mut Thread, conn: ConnId, error: Option<&CommandError>) -> bool {
    let Some(session) = thread.host.net.connections.session(conn) else { return false };
    let Some(wait) = session.state.take_sync_wait() else { return false };
    let (client, last_command) = (session.client, session.last_command);
    Syncing::note_end(wait, thread.host.reports.accounting.stats());
    let mut out = Output::new();
    let mut reply = Reply::new(&mut out, client.proto);
    match error {
        Some(error) => {
            reply.error(error.text());
            thread.host.reports.accounting.count_failed_wait(last_command, error);
        }
        None => wait.awaited.reply(thread.host.shared.role_parts().reached(&wait.awaited), &mut reply),
    }
    thread.reply_and_go_on(conn, &mut out);
    true
}
