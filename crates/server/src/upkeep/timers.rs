//! When blocked clients time out, and when a pause ends.

use std::collections::BTreeSet;

use proactor::ConnId;

/// Deadlines on the monotonic clock, in milliseconds. A wait that ends before takes its deadline out, so there are
/// never more of them than blocked clients.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    deadlines: BTreeSet<(u64, ConnId)>,
    /// When the pause of all clients ends.
    pub(crate) pause_end_ms: Option<u64>,
}

impl Timers {
    /// Adds a deadline.
    pub(crate) fn add(&mut self, deadline_ms: u64, conn: ConnId) {
        self.deadlines.insert((deadline_ms, conn));
    }

    /// Takes a deadline out.
    pub(crate) fn remove(&mut self, deadline_ms: u64, conn: ConnId) {
        self.deadlines.remove(&(deadline_ms, conn));
    }

    /// How many clients have a deadline.
    pub(crate) fn len(&self) -> usize {
        self.deadlines.len()
    }

    /// The next deadline.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        let first_ms = self.deadlines.first().map(|(deadline_ms, _)| *deadline_ms);
        [first_ms, self.pause_end_ms].into_iter().flatten().min()
    }

    /// Takes out a connection whose deadline has come.
    pub(crate) fn pop_due(&mut self, now_ms: u64) -> Option<ConnId> {
        let &(deadline_ms, conn) = self.deadlines.first()?;
        if deadline_ms > now_ms {
            return None;
        }
        self.deadlines.pop_first();
        Some(conn)
    }
}
