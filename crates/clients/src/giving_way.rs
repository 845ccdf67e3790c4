//! Tracks a thread's running command, and what the thread did for its other clients meanwhile.
//!
//! Not here: serving those clients (`life/giving_way.rs` of the server).

use crate::session::Wait;
use proactor::{Clock, ConnId};

/// The interval at which a thread checks its other clients. The first check comes after a command has worked for two of
/// them.
const INTERVAL_NS: u64 = 1_000_000;

/// See the head of this file.
#[derive(Debug)]
pub struct GivingWay {
    /// The time of the next check of other clients, in ticks; the maximum while no command runs.
    due_ticks: u64,
    interval_ticks: u64,
    /// The processor time of the thread when a check was last due. 0: none has been.
    worked_ns: u64,
    /// Whether it has given way to other clients since the command began.
    pub is_away: bool,
    /// The number of checks of its other clients.
    pub looks: u32,
    /// The driver's slot at which the search for silent clients continues.
    pub slot: usize,
    /// The thread that gets the next connection, if it can take it.
    pub next: u16,
    /// Connections that are not read until the command has ended.
    pub paused: Vec<ConnId>,
    /// Requests of other threads that came meanwhile and need shards.
    pub left_over: LeftOver,
}

/// Requests of other threads that came while a command ran and need shards.
#[derive(Debug, Default)]
pub struct LeftOver {
    /// Waits that have ended, whose records are still in the shards.
    pub ended: Vec<Wait>,
    /// Whether a pause has ended, so that postponed commands can run.
    pub ends_pause: bool,
}

impl LeftOver {
    /// Whether nothing is left over.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.ends_pause && self.ended.is_empty()
    }
}

impl GivingWay {
    /// Creates the state for a thread that starts. `clock` is its clock.
    pub fn new(clock: &Clock) -> GivingWay {
        GivingWay {
            due_ticks: u64::MAX,
            interval_ticks: clock.ns_to_ticks(INTERVAL_NS),
            worked_ns: 0,
            is_away: false,
            looks: 0,
            slot: 0,
            next: 0,
            paused: Vec::new(),
            left_over: LeftOver::default(),
        }
    }

    /// Begins a command at `now`, in ticks.
    #[inline]
    pub fn begin(&mut self, now: u64) {
        (self.due_ticks, self.worked_ns) = (now.saturating_add(self.interval_ticks), 0);
    }

    /// Ends the command. Returns whether the thread has given way and must come back.
    #[inline]
    pub fn end(&mut self) -> bool {
        self.due_ticks = u64::MAX;
        self.is_away
    }

    /// Comes back from a command during which the thread gave way. Returns the connections that it may read again.
    pub fn come_back(&mut self) -> Vec<ConnId> {
        (self.is_away, self.looks, self.slot) = (false, 0, 0);
        std::mem::take(&mut self.paused)
    }

    /// Whether a command runs.
    pub fn is_running(&self) -> bool {
        self.due_ticks < u64::MAX
    }

    /// Whether a check is due at `now`, in ticks.
    #[inline]
    pub fn is_due(&self, now: u64) -> bool {
        now >= self.due_ticks
    }

    /// Whether to serve other clients at a check that is due: the thread has used the processor for most of the time
    /// since the last one. If the thread lost its processor, other clients have waited for the processor rather than
    /// for the command. `worked_ns` is its processor time.
    pub fn has_worked(&mut self, now: u64, worked_ns: u64) -> bool {
        self.due_ticks = now.saturating_add(self.interval_ticks);
        let before_ns = std::mem::replace(&mut self.worked_ns, worked_ns);
        self.is_away || before_ns > 0 && worked_ns - before_ns >= INTERVAL_NS / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_command_gives_way_after_two_milliseconds_of_work() {
        let clock = Clock::simulated(Default::default());
        let mut way = GivingWay::new(&clock);
        assert!(!way.is_due(u64::MAX - 1) && !way.is_running(), "nothing runs");
        way.begin(10 * MS);
        assert!(!way.is_due(11 * MS - 1) && way.is_due(11 * MS));
        assert!(!way.has_worked(11 * MS, 500 * MS), "how much of the first it has worked is not known");
        assert!(!way.is_due(12 * MS - 1) && way.is_due(12 * MS));
        assert!(!way.has_worked(12 * MS, 500 * MS + MS / 10), "it had lost its processor");
        assert!(way.has_worked(13 * MS, 501 * MS));
        way.is_away = true;
        assert!(way.has_worked(14 * MS, 501 * MS), "others wait only for it from now on");
        assert!(way.end());
        assert!(way.come_back().is_empty() && !way.end());
    }
}
