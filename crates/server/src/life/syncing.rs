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
use std::collections::BinaryHeap;
use std::time::Duration;

use clients::session::{Session, SyncWait};
use config::APPENDONLY;
use engine::{CommandError, Tx};
use observe::ThreadStats;
use proactor::ConnId;
use replication::{Awaited, NO_JOURNAL, QUESTION, Reached};
use resp::{Output, Reply};

use crate::shared::Shared;
use crate::thread::{Thread, ThreadHost};

/// The clients of a thread that wait for slices.
#[derive(Default)]
pub(crate) struct Syncing {
    /// Clients that wait for the disk, and some whose wait has already ended.
    of_disk: BinaryHeap<Reverse<(u64, u64)>>,
    /// Clients that wait for replicas, and some whose wait has already ended.
    of_replicas: Vec<OfReplicas>,
    /// The number of acknowledgements and the end of the stream at the last check.
    looked_at: (u64, u64),
    /// Whether replicas must be asked.
    asks: bool,
}

/// A client that waits for replicas.
#[derive(Clone, Copy)]
struct OfReplicas {
    conn: ConnId,
    /// Whether replicas were asked since its slice was closed, or are about to be.
    has_asked: bool,
}

impl Syncing {
    /// Whether no client waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.of_disk.is_empty() && self.of_replicas.is_empty()
    }

    /// Notes that a client's wait has ended and no longer counts in `stats`.
    pub(crate) fn note_end(wait: SyncWait, stats: &ThreadStats) {
        stats.clients_with_timeout.sub(u64::from(wait.deadline_ms.is_some()));
        stats.blocked_clients.sub(1);
    }

    /// The first slice of the journal that a client waits for.
    pub(crate) fn first(&self) -> Option<u64> {
        self.of_disk.peek().map(|Reverse((slice, _))| *slice)
    }

    /// A client that waits for no slice beyond `durable`.
    fn pop(&mut self, durable: u64) -> Option<ConnId> {
        if self.first()? > durable {
            return None;
        }
        self.of_disk.pop().map(|Reverse((_, conn))| ConnId::from_bits(conn))
    }

    /// The time that thread number `thread` may sleep before it must check the replicas for which its output waits,
    /// from slice `held` on. `None`: without limit.
    pub(crate) fn wait(&self, shared: &Shared, thread: usize, held: Option<u64>) -> Option<Duration> {
        if self.of_replicas.is_empty() && held.is_none() {
            return None;
        }
        let (acks, end) = self.looked_at;
        let unasked = held.filter(|slice| !shared.journal.synced.has_asked(*slice));
        if unasked.is_some_and(|slice| slice <= shared.journal.backlog.last()) {
            return Some(Duration::ZERO);
        }
        let waits_for_slice = unasked.is_some() || self.of_replicas.iter().any(|one| !one.has_asked);
        if waits_for_slice {
            shared.journal.progress.hurry(shared.journal.log.slice());
        }
        let has_news = !shared.acks.awaits(thread, acks)
            || waits_for_slice && !shared.journal.backlog.awaits(thread, end);
        has_news.then_some(Duration::ZERO)
    }
}

/// The first slice for which output of this thread waits until replicas have it.
pub(crate) fn held_for_replicas(host: &mut ThreadHost) -> Option<u64> {
    let synced = &host.shared.journal.synced;
    if synced.wanted() == 0 || !host.driver.is_holding() {
        return None;
    }
    host.driver.held_for().filter(|held| *held > synced.slice())
}

/// The progress of the disk, or of the replicas.
pub(crate) fn reached(shared: &Shared, awaited: &Awaited) -> Reached {
    let journal = &shared.journal;
    let end = if awaited.written == 0 { Some(0) } else { journal.backlog.end_of(awaited.written) };
    let has_journal = shared.settings.is_on(APPENDONLY) || journal.is_on();
    let count = |end| shared.primary.acknowledged(end, awaited.wish.is_durable) as u64;
    Reached { is_local: has_journal && journal.kept() >= awaited.kept, replicas: end.map_or(0, count) }
}

/// Notes that the changes that `tx` has committed belong to the client of this session.
pub(crate) fn note_written(tx: &mut Tx<'_>, session: Option<&mut Session>) {
    let written = std::mem::take(&mut tx.written);
    if written > 0
        && let Some(session) = session
    {
        session.written_slice = written;
    }
}

/// Makes the current client wait for this, for at most `timeout_ms` milliseconds. 0: forever.
pub(crate) fn begin_sync(host: &mut ThreadHost, awaited: Awaited, timeout_ms: u64) {
    // The current millisecond has begun already.
    let deadline_ms = (timeout_ms > 0).then(|| host.now_ms.saturating_add(timeout_ms).saturating_add(1));
    let session = host.session();
    let conn = ConnId::from_bits(session.client.connection);
    session.state.sync(SyncWait { awaited, deadline_ms });
    let stats = host.accounting.stats();
    stats.clients_with_timeout.add(u64::from(deadline_ms.is_some()));
    stats.blocked_clients.add(1);
    if let (Some(deadline_ms), Some(session)) = (deadline_ms, &mut host.current) {
        host.timers.set(&mut session.alarm, conn, deadline_ms, host.now_ms);
    }
    let journal = &host.shared.journal;
    if awaited.wish.is_local {
        host.syncing.of_disk.push(Reverse((awaited.kept, conn.to_bits())));
        journal.ask_for(awaited.kept);
    }
    if awaited.wish.replicas > 0 {
        let has_asked = journal.backlog.end_of(awaited.written).is_some();
        host.syncing.asks |= has_asked;
        host.syncing.of_replicas.push(OfReplicas { conn, has_asked });
    }
}

/// Replies to clients whose writes are durable now, or have reached replicas. If the journal has been closed, replies
/// to all clients that waited for it.
pub(crate) fn end_syncs(thread: &mut Thread) {
    let shared = thread.host.shared;
    if !shared.settings.is_on(APPENDONLY) && !shared.journal.is_on() {
        while let Some(conn) = thread.host.syncing.pop(u64::MAX) {
            if awaited_by(thread, conn).is_some_and(|awaited| awaited.wish.is_local) {
                end_sync(thread, conn, Some(&NO_JOURNAL));
            }
        }
    }
    let durable = shared.journal.kept();
    while let Some(conn) = thread.host.syncing.pop(durable) {
        end_if_met(thread, conn);
    }
    // The order matters: news that come meanwhile are checked again.
    let news = (shared.acks.count(), shared.journal.backlog.end());
    if std::mem::replace(&mut thread.host.syncing.looked_at, news) != news {
        look_at_replicas(thread);
    }
    if let Some(held) = held_for_replicas(&mut thread.host) {
        thread.host.syncing.asks |= shared.journal.synced.asks(held, shared.journal.backlog.last());
    }
    if std::mem::take(&mut thread.host.syncing.asks) && shared.primary.is_followed() {
        thread.host.syncing.asks = !thread.tx.tell_replicas(&QUESTION);
        shared.journal.progress.hurry(thread.tx.committed);
        thread.leave_all();
    }
}

/// Checks all clients that wait for replicas.
fn look_at_replicas(thread: &mut Thread) {
    for one in std::mem::take(&mut thread.host.syncing.of_replicas) {
        if end_if_met(thread, one.conn) {
            continue;
        }
        let Some(awaited) = awaited_by(thread, one.conn).filter(|awaited| awaited.wish.replicas > 0) else {
            continue;
        };
        let is_closed = thread.host.shared.journal.backlog.end_of(awaited.written).is_some();
        let syncing = &mut thread.host.syncing;
        syncing.asks |= is_closed && !one.has_asked;
        syncing.of_replicas.push(OfReplicas { has_asked: is_closed, ..one });
    }
}

/// The condition for which a client waits, if it waits.
fn awaited_by(thread: &mut Thread, conn: ConnId) -> Option<Awaited> {
    Some(thread.host.connections.session(conn)?.state.sync_wait()?.awaited)
}

/// Ends a client's wait if its condition holds.
fn end_if_met(thread: &mut Thread, conn: ConnId) -> bool {
    // It may wait again, for more.
    let awaited = awaited_by(thread, conn);
    let is_met = awaited.is_some_and(|awaited| awaited.is_met_by(reached(thread.host.shared, &awaited)));
    is_met && end_sync(thread, conn, None)
}

/// Ends a client's wait. The reply is the number of replicas that have its writes, or this error. Returns false if it
/// does not wait.
pub(crate) fn end_sync(thread: &mut Thread, conn: ConnId, error: Option<&CommandError>) -> bool {
    let Some(session) = thread.host.connections.session(conn) else { return false };
    let Some(wait) = session.state.take_sync_wait() else { return false };
    let (client, last_command) = (session.client, session.last_command);
    Syncing::note_end(wait, thread.host.accounting.stats());
    let mut out = Output::new();
    let mut reply = Reply::new(&mut out, client.proto);
    match error {
        Some(error) => {
            reply.error(error.text());
            thread.host.accounting.count_failed_wait(last_command, error);
        }
        None => wait.awaited.reply(reached(thread.host.shared, &wait.awaited), &mut reply),
    }
    thread.reply_and_go_on(conn, &mut out);
    true
}
