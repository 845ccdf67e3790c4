//! Whether to poll before going to sleep.
//!
//! Going to sleep and being woken is the dearest thing a lightly loaded server does: it costs the one who wakes about 12 µs
//! and the request its latency. Polling costs a whole core. So a thread polls only if lately something came soon after it
//! ran out of work, and it learns that either way: a poll that finds something and a sleep that ends at once speak for
//! polling, a poll in vain (double, because it burnt time) and a long sleep against. An idle thread never polls.

/// The score at which polling starts.
const SCORE_TO_POLL: u32 = 8;
const SCORE_MAX: u32 = 16;
/// Away from the core for so long, and it was not a client's turn but somebody's time slice.
const SLICE_NS: u64 = 1_000_000;
/// How long a thread does not poll then.
const REST_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(crate) struct IdlePolicy {
    poll_ns: u64,
    score: u32,
    /// No polling before this.
    rest_until_ns: u64,
}

impl IdlePolicy {
    pub(crate) fn new(poll_us: u32) -> IdlePolicy {
        IdlePolicy { poll_ns: u64::from(poll_us) * 1_000, score: 0, rest_until_ns: 0 }
    }

    /// How long to poll before sleeping; 0 is not at all.
    pub(crate) fn poll_ns(&self, now_ns: u64) -> u64 {
        if self.score >= SCORE_TO_POLL && now_ns >= self.rest_until_ns { self.poll_ns } else { 0 }
    }

    /// The thread offered its core to others, and has it back after `away_ns`.
    pub(crate) fn yielded(&mut self, away_ns: u64, now_ns: u64) {
        if away_ns >= SLICE_NS {
            self.rest_until_ns = now_ns + REST_NS;
        }
    }

    /// Something came while polling.
    pub(crate) fn poll_paid(&mut self) {
        self.score = (self.score + 1).min(SCORE_MAX);
    }

    /// Nothing came while polling.
    pub(crate) fn poll_was_in_vain(&mut self) {
        self.score = self.score.saturating_sub(2);
    }

    /// A sleep without a poll before it ended after `slept_ns`, which includes the waking up.
    pub(crate) fn slept(&mut self, slept_ns: u64) {
        if slept_ns <= 2 * self.poll_ns {
            self.poll_paid();
        } else {
            self.score = self.score.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_while_it_pays_and_stops_when_it_does_not() {
        let mut policy = IdlePolicy::new(30);
        assert_eq!(policy.poll_ns(0), 0, "a new thread sleeps");
        for _ in 0..SCORE_TO_POLL {
            policy.slept(20_000);
        }
        assert_eq!(policy.poll_ns(0), 30_000);
        policy.poll_paid();
        policy.poll_was_in_vain();
        assert_eq!(policy.poll_ns(0), 0);
        for _ in 0..100 {
            policy.slept(100_000_000);
        }
        policy.slept(20_000);
        assert_eq!(policy.poll_ns(0), 0, "one busy moment is not a busy time");
    }

    #[test]
    fn rests_where_others_need_the_core() {
        let mut policy = IdlePolicy::new(30);
        (0..SCORE_MAX).for_each(|_| policy.poll_paid());
        policy.yielded(100_000, 5_000_000);
        assert_eq!(policy.poll_ns(5_000_000), 30_000, "a client had its turn");
        policy.yielded(3_000_000, 8_000_000);
        assert_eq!(policy.poll_ns(8_000_000), 0);
        assert_eq!(policy.poll_ns(8_000_000 + REST_NS - 1), 0);
        assert_eq!(policy.poll_ns(8_000_000 + REST_NS), 30_000);
    }

    #[test]
    fn zero_never_polls() {
        let mut policy = IdlePolicy::new(0);
        for _ in 0..100 {
            policy.poll_paid();
        }
        assert_eq!(policy.poll_ns(0), 0);
    }
}
