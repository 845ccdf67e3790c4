//! Owns what a thread knows about clients that wait for something other than a key: the journal, replicas, or the end of
//! a pause.
//!
//! Not here: the ends of these waits (`syncing.rs`, `wait.rs`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use clients::session::{Judge, Pausing, Session, SyncWait};
use effectlog::{Lsn, StreamPosition};
use engine::Command;
use observe::ThreadStats;
use proactor::ConnId;
use scripting::States;

use crate::shared::Shared;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Waits {
    /// Clients that wait for the journal, or for replicas.
    pub(crate) syncing: Syncing,
    pub(crate) pausing: Pausing,
}

impl Waits {
    /// Keeps a command of a client until the end of the pause, if there is a pause that applies to it.
    pub(crate) fn postpones(
        &mut self,
        session: &mut Session,
        lua: &mut States,
        (stats, judge): (&ThreadStats, Judge<'_>),
        command: &Command,
        args: &[&[u8]],
    ) -> bool {
        if !self.pausing.is_on() || !self.pausing.stops(judge.demands(session, lua, command, args).replicates)
        {
            return false;
        }
        self.postpone(session, stats, command, args);
        true
    }

    /// Keeps a command of a client until commands that were kept are tried again.
    pub(crate) fn postpone(
        &mut self,
        session: &mut Session,
        stats: &ThreadStats,
        command: &Command,
        args: &[&[u8]],
    ) {
        self.pausing.postpone(session, command, args);
        // As in Redis, a paused client counts as blocked.
        stats.blocked_clients.add(1);
    }
}

/// The clients of a thread that wait for slices.
#[derive(Default)]
pub(crate) struct Syncing {
    /// Clients that wait for the disk, and some whose wait has already ended.
    pub(super) of_disk: BinaryHeap<Reverse<(Lsn, u64)>>,
    /// Clients that wait for replicas, and some whose wait has already ended.
    pub(super) of_replicas: Vec<OfReplicas>,
    /// The number of acknowledgements and the end of the stream at the last check.
    pub(super) looked_at: (u64, StreamPosition),
    /// Whether replicas must be asked.
    pub(super) asks: bool,
}

/// A client that waits for replicas.
#[derive(Clone, Copy)]
pub(super) struct OfReplicas {
    pub(super) conn: ConnId,
    /// Whether replicas were asked since its slice was closed, or are about to be.
    pub(super) has_asked: bool,
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
    pub(crate) fn first(&self) -> Option<Lsn> {
        self.of_disk.peek().map(|Reverse((slice, _))| *slice)
    }

    /// A client that waits for no slice beyond `durable`.
    pub(super) fn pop(&mut self, durable: Lsn) -> Option<ConnId> {
        if self.first()? > durable {
            return None;
        }
        self.of_disk.pop().map(|Reverse((_, conn))| ConnId::from_bits(conn))
    }

    /// The time that thread number `thread` may sleep before it must check the replicas for which its output waits,
    /// from slice `held` on. `None`: without limit.
    pub(crate) fn wait(&self, shared: &Shared, thread: usize, held: Option<Lsn>) -> Option<Duration> {
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
