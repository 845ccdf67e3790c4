//! When background work is due: every turn, every round of a tenth of a second, every second.
//!
//! Not here: the work itself (the server determines its order).

use observe::RecentPeaks;

/// Interval between two rounds over the home shards.
const ROUND_MS: u64 = 100;
/// Number of rounds within which blocks freed by other threads arrive.
const PURGES_AGAIN: u32 = 5;

/// The work that is due in a turn, in addition to the work of every turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    /// The work of a round over the home shards is due.
    pub is_round: bool,
    /// In this round, the work of every second is also due.
    pub is_second: bool,
}

/// When background work is due.
#[derive(Debug)]
pub struct Cron {
    next_round_ms: u64,
    next_second_ms: u64,
    next_purge_ms: u64,
    /// The largest buffers of clients in the last seconds.
    pub recent_peaks: RecentPeaks,
    /// Returns freed memory to the system.
    purge: heap::Round,
    /// Number of rounds over the shards in which all free memory is still to be returned at once.
    purges_left: u32,
}

impl Cron {
    /// The schedule of thread number `thread`.
    pub fn new(thread: u16) -> Self {
        // Threads should not all wake at the same moment.
        let next_round_ms = u64::from(thread) % ROUND_MS;
        Cron {
            next_round_ms,
            next_second_ms: 0,
            next_purge_ms: 0,
            recent_peaks: RecentPeaks::default(),
            purge: heap::Round::default(),
            purges_left: 0,
        }
    }

    /// Returns the work that is due at `now_ms` on the monotonic clock, and schedules it again.
    pub fn begin_turn(&mut self, now_ms: u64) -> Due {
        self.purge.advance();
        let is_round = now_ms >= self.next_round_ms;
        if is_round {
            self.next_round_ms = now_ms + ROUND_MS;
        }
        let is_second = is_round && now_ms >= self.next_second_ms;
        if is_second {
            self.next_second_ms = now_ms + 1000;
        }
        Due { is_round, is_second }
    }

    /// In a round: returns freed memory to the system if it is time. The first thread also returns memory
    /// that belongs to no thread. Returns true when it begins, every few seconds.
    pub fn purge(&mut self, now_ms: u64, is_first_thread: bool) -> bool {
        if self.purges_left > 0 {
            self.purges_left -= 1;
            heap::purge_at_once();
        }
        let begins = now_ms >= self.next_purge_ms;
        if begins {
            self.next_purge_ms = now_ms + heap::ROUND_MS;
            self.purge.begin(is_first_thread);
        }
        begins
    }

    /// Returns all free memory at once in the next few rounds, because other threads are about to post freed
    /// blocks to this one.
    pub fn purge_again(&mut self) {
        self.purges_left = PURGES_AGAIN;
    }

    /// When work is due next, on the monotonic clock.
    pub fn next_ms(&self) -> Option<u64> {
        Some(if self.purge.is_on() { 0 } else { self.next_round_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_a_tenth_of_a_second_apart_and_late_ones_are_not_made_up_for() {
        let mut cron = Cron::new(3);
        let due = [2, 3, 50, 102, 103, 500, 599, 600, 1100, 1203].map(|now_ms| cron.begin_turn(now_ms));
        let rounds = due.map(|due| due.is_round);
        assert_eq!(rounds, [false, true, false, false, true, true, false, true, true, true]);
        let seconds = due.map(|due| due.is_second);
        assert_eq!(seconds, [false, true, false, false, false, false, false, false, true, false]);
        assert_eq!(cron.next_ms(), Some(1303));
    }
}
