//! Clients that wait until what they wrote is durable: `WAITAOF`.
//!
//! Such a client waits for the last slice with something that it wrote itself, be it by a transaction or a script, or that was popped for it while
//! it waited. One that wrote nothing does not wait. The log thread is asked to write that slice now, and the disk thread to sync it, whatever `appendfsync` says; many who ask at once
//! share one sync.
//!
//! Not here: replies that wait by themselves (`journal/turn.rs`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use command::{CommandError, Tx};
use observe::ThreadStats;
use proactor::ConnId;
use resp::{Output, Reply};
use session::{Session, SyncWait};
use settings::APPENDONLY;

use crate::thread::{Thread, ThreadHost};

/// What `WAITAOF` answers where there is no journal.
pub(crate) const NO_JOURNAL: CommandError =
    CommandError::fixed("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");

/// The clients of a thread that wait for slices.
#[derive(Default)]
pub(crate) struct Syncing {
    /// Also some whose wait has ended in another way.
    waits: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Syncing {
    /// A client's wait has begun.
    fn add(&mut self, slice: u64, conn: ConnId) {
        self.waits.push(Reverse((slice, conn.to_bits())));
    }

    /// A client's wait has ended, and is counted no more in `stats`.
    pub(crate) fn note_end(wait: SyncWait, stats: &ThreadStats) {
        stats.clients_with_timeout.sub(u64::from(wait.deadline_ms.is_some()));
        stats.blocked_clients.sub(1);
    }

    /// The first slice that one of them waits for.
    pub(crate) fn first(&self) -> Option<u64> {
        self.waits.peek().map(|Reverse((slice, _))| *slice)
    }

    /// One that waits for nothing behind slice `durable`.
    fn pop(&mut self, durable: u64) -> Option<ConnId> {
        if self.first()? > durable {
            return None;
        }
        self.waits.pop().map(|Reverse((_, conn))| ConnId::from_bits(conn))
    }
}

/// What `tx` has committed was done for the client of this session.
pub(crate) fn note_written(tx: &mut Tx<'_>, session: Option<&mut Session>) {
    let written = std::mem::take(&mut tx.written);
    if written > 0
        && let Some(session) = session
    {
        session.written_slice = written;
    }
}

/// The current client waits until this slice is durable, or so many milliseconds; 0: for ever.
pub(crate) fn begin_sync(host: &mut ThreadHost, slice: u64, timeout_ms: u64) {
    // This millisecond has begun already.
    let deadline_ms = (timeout_ms > 0).then(|| host.now_ms.saturating_add(timeout_ms).saturating_add(1));
    let session = host.session();
    let conn = ConnId::from_bits(session.client.connection);
    session.state.sync(SyncWait { slice, deadline_ms });
    host.syncing.add(slice, conn);
    let stats = host.accounting.stats();
    stats.clients_with_timeout.add(u64::from(deadline_ms.is_some()));
    stats.blocked_clients.add(1);
    if let (Some(deadline_ms), Some(session)) = (deadline_ms, &mut host.current) {
        host.timers.set(&mut session.alarm, conn, deadline_ms, host.now_ms);
    }
    host.shared.journal.ask_for(slice);
}

/// Answers those who waited for what is durable by now; if there is no journal any more, all.
pub(crate) fn end_syncs(thread: &mut Thread) {
    let shared = thread.host.shared;
    let durable = shared.journal.kept();
    if !shared.settings.is_on(APPENDONLY) && !shared.journal.is_on() {
        while let Some(conn) = thread.host.syncing.pop(u64::MAX) {
            end_sync(thread, conn, Some(&NO_JOURNAL));
        }
    }
    while let Some(conn) = thread.host.syncing.pop(durable) {
        let state = thread.host.connections.session(conn).map(|session| &session.state);
        // It may wait again, for more.
        if state.and_then(|state| state.sync_wait()).is_some_and(|wait| wait.slice <= durable) {
            end_sync(thread, conn, None);
        }
    }
}

/// Ends a client's wait for the journal: the reply says what is durable, or is this error. False: it does not wait.
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
        None => write_counts(&mut reply, thread.host.shared.journal.kept() >= wait.slice),
    }
    thread.reply_and_go_on(conn, &mut out);
    true
}

/// What `WAITAOF` replies: how many journals, this server's and those of replicas, have it on disk.
pub(crate) fn write_counts(reply: &mut Reply<'_>, is_durable: bool) {
    reply.array(2);
    reply.int(i64::from(is_durable));
    reply.int(0);
}
