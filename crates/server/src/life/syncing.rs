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

use clients::Connections;
use clients::session::{Session, SyncWait};
use config::APPENDONLY;
use effectlog::Lsn;
use engine::{CommandError, Tx};
use proactor::{ConnId, Driver};
use replication::log::ServerLog;
use replication::{Awaited, NO_JOURNAL, QUESTION};
use resp::{Output, Reply};

use crate::connections::network::Network;
use crate::life::waits::{OfReplicas, Syncing};
use crate::reports::Reports;
use crate::shared::Shared;
use crate::thread::{Thread, ThreadHost};

/// The first slice for which output of this thread waits until replicas have it.
pub(crate) fn held_for_replicas(driver: &mut Driver, journal: &ServerLog) -> Option<Lsn> {
    let synced = &journal.synced;
    if synced.wanted() == 0 || !driver.is_holding() {
        return None;
    }
    driver.held_for().map(Lsn::new).filter(|held| *held > synced.slice())
}

/// Notes that the changes that `tx` has committed belong to the client of this session.
pub(crate) fn note_written(tx: &mut Tx<'_>, session: Option<&mut Session>) {
    match session {
        Some(session) => replication::note_written(tx, &mut session.written_slice),
        None => tx.written = Lsn::NONE,
    }
}

/// Makes a client wait for this, for at most `timeout_ms` milliseconds. 0: forever.
pub(crate) fn begin_sync(
    session: &mut Session,
    net: &mut Network,
    syncing: &mut Syncing,
    journal: &ServerLog,
    awaited: Awaited,
    timeout_ms: u64,
) {
    // The current millisecond has begun already.
    let deadline_ms = (timeout_ms > 0).then(|| net.now_ms.saturating_add(timeout_ms).saturating_add(1));
    let conn = ConnId::from_bits(session.client.connection);
    session.state.sync(SyncWait { awaited, deadline_ms });
    net.stats.clients_with_timeout.add(u64::from(deadline_ms.is_some()));
    net.stats.blocked_clients.add(1);
    if let Some(deadline_ms) = deadline_ms {
        net.timeouts.set(&mut session.alarm, conn, deadline_ms, net.now_ms);
    }
    if awaited.wish.is_local {
        syncing.of_disk.push(Reverse((awaited.kept, conn.to_bits())));
        journal.ask_for(awaited.kept);
    }
    if awaited.wish.replicas > 0 {
        let has_asked = journal.backlog.end_of(awaited.written).is_some();
        syncing.asks |= has_asked;
        syncing.of_replicas.push(OfReplicas { conn, has_asked });
    }
}

/// Replies to clients whose writes are durable now, or have reached replicas. If the journal has been closed, replies
/// to all clients that waited for it.
pub(crate) fn end_syncs(thread: &mut Thread) {
    let shared = thread.host.shared;
    if !shared.settings.is_on(APPENDONLY) && !shared.journal.is_on() {
        while let Some(conn) = thread.host.waits.syncing.pop(Lsn::MAX) {
            if awaited_by(&mut thread.host.net.connections, conn).is_some_and(|awaited| awaited.wish.is_local)
            {
                let ThreadHost { net, reports, .. } = &mut thread.host;
                let error = Some(&NO_JOURNAL);
                if let Some(mut reply) = end_sync(&mut net.connections, reports, shared, conn, error) {
                    thread.reply_and_go_on(conn, &mut reply);
                }
            }
        }
    }
    let durable = shared.journal.kept();
    while let Some(conn) = thread.host.waits.syncing.pop(durable) {
        let ThreadHost { net, reports, .. } = &mut thread.host;
        if let Some(mut reply) = end_if_met(&mut net.connections, reports, shared, conn) {
            thread.reply_and_go_on(conn, &mut reply);
        }
    }
    // The order matters: news that come meanwhile are checked again.
    let news = (shared.acks.count(), shared.journal.backlog.end());
    if std::mem::replace(&mut thread.host.waits.syncing.looked_at, news) != news {
        for one in std::mem::take(&mut thread.host.waits.syncing.of_replicas) {
            // It may wait again, for more.
            let ThreadHost { net, reports, .. } = &mut thread.host;
            if let Some(mut reply) = end_if_met(&mut net.connections, reports, shared, one.conn) {
                thread.reply_and_go_on(one.conn, &mut reply);
                continue;
            }
            let awaited = awaited_by(&mut net.connections, one.conn);
            let Some(awaited) = awaited.filter(|awaited| awaited.wish.replicas > 0) else { continue };
            let is_closed = shared.journal.backlog.end_of(awaited.written).is_some();
            let syncing = &mut thread.host.waits.syncing;
            syncing.asks |= is_closed && !one.has_asked;
            syncing.of_replicas.push(OfReplicas { has_asked: is_closed, ..one });
        }
    }
    if let Some(held) = held_for_replicas(&mut thread.host.net.driver, &shared.journal) {
        thread.host.waits.syncing.asks |= shared.journal.synced.asks(held, shared.journal.backlog.last());
    }
    if std::mem::take(&mut thread.host.waits.syncing.asks) && shared.primary.is_followed() {
        thread.host.waits.syncing.asks = !thread.tx.tell_replicas(&QUESTION);
        shared.journal.progress.hurry(thread.tx.committed);
        thread.leave_all();
    }
}

/// The condition for which a client waits, if it waits.
fn awaited_by(connections: &mut Connections, conn: ConnId) -> Option<Awaited> {
    Some(connections.session(conn)?.state.sync_wait()?.awaited)
}

/// Ends a client's wait if its condition holds. Returns its reply.
fn end_if_met(
    connections: &mut Connections,
    reports: &Reports,
    shared: &'static Shared,
    conn: ConnId,
) -> Option<Output> {
    let awaited = awaited_by(connections, conn)?;
    let is_met = awaited.is_met_by(shared.role_parts().reached(&awaited));
    if is_met { end_sync(connections, reports, shared, conn, None) } else { None }
}

/// Ends a client's wait. Returns its reply: the number of replicas that have its writes, or this error. `None`: it does
/// not wait.
pub(crate) fn end_sync(
    connections: &mut Connections,
    reports: &Reports,
    shared: &'static Shared,
    conn: ConnId,
    error: Option<&CommandError>,
) -> Option<Output> {
    let session = connections.session(conn)?;
    let wait = session.state.take_sync_wait()?;
    Syncing::note_end(wait, reports.accounting.stats());
    let mut out = Output::new();
    let mut reply = Reply::new(&mut out, session.client.proto);
    match error {
        Some(error) => {
            reply.error(error.text());
            reports.accounting.count_failed_wait(session.last_command, error);
        }
        None => wait.awaited.reply(shared.role_parts().reached(&wait.awaited), &mut reply),
    }
    Some(out)
}
