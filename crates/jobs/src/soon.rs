//! The times that a thread knows to be due soon, the earliest first.

use std::collections::BTreeSet;

use engine::{JobsDue, SOON_MS};
use keyspace::UnixMs;

/// The most visits of shards per turn, for one kind of due times.
pub(crate) const VISITS_MAX: usize = 64;
/// How soon a shard that was taken is tried again.
pub(crate) const AGAIN_MS: i64 = 1;
/// The least time between two lines of the log about work that cannot be done.
const SAID_AGAIN_MS: i64 = 60_000;

/// At most `MAX` queues or sets, those that are due first; later looks find the others.
#[derive(Debug, Default)]
pub(crate) struct Soon<const MAX: usize> {
    due: BTreeSet<JobsDue>,
    said_ms: UnixMs,
}

impl<const MAX: usize> Soon<MAX> {
    pub(crate) fn add(&mut self, due: JobsDue) {
        self.due.insert(due);
        if self.due.len() > MAX {
            self.due.pop_last();
        }
    }

    /// Adds everything from `other`.
    pub(crate) fn append(&mut self, other: Self) {
        other.due.into_iter().for_each(|due| self.add(due));
    }

    /// Adds `due` again with another time, if that is soon.
    pub(crate) fn add_again(&mut self, due: JobsDue, time_ms: Option<UnixMs>, now_ms: UnixMs) {
        if let Some(time_ms) = time_ms.filter(|time_ms| *time_ms < now_ms + SOON_MS) {
            self.add(JobsDue { time_ms, ..due });
        }
    }

    pub(crate) fn is_due(&self, now_ms: UnixMs) -> bool {
        self.due.first().is_some_and(|due| due.time_ms <= now_ms)
    }

    /// Removes and returns the earliest time, if it is due.
    pub(crate) fn pop_due(&mut self, now_ms: UnixMs) -> Option<JobsDue> {
        if self.is_due(now_ms) { self.due.pop_first() } else { None }
    }

    /// The earliest time.
    pub(crate) fn next_ms(&self) -> Option<UnixMs> {
        Some(self.due.first()?.time_ms)
    }

    pub(crate) fn clear(&mut self) {
        self.due.clear();
    }

    /// Whether enough time has passed for another line of the log.
    pub(crate) fn may_say(&mut self, now_ms: UnixMs) -> bool {
        let may_say = now_ms - self.said_ms >= SAID_AGAIN_MS;
        if may_say {
            self.said_ms = now_ms;
        }
        may_say
    }
}
