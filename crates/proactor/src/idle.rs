//! Whether to poll before going to sleep.
//!
//! Going to sleep and being woken costs a thread some microseconds, and adds to the latency of the request;
//! polling costs the time that it takes. So a thread keeps an account of the time that polling saves. A poll
//! that soon finds something earns the price of a sleep, less its own time; one that takes longer than a
//! sleep is worth costs the difference; one that finds nothing costs all the time it took. When a thread
//! sleeps at once, the account is updated as if it had polled. The thread polls while the account is in
//! credit: an idle thread never does, nor does one whose clients keep it waiting for longer than a sleep is
//! worth.

/// The time that it costs a thread to sleep and to be woken.
const SLEEP_NS: i64 = 4_000;
/// The time from an event to the end of the sleep that it ends.
const WAKING_NS: i64 = 5_000;
/// The limit of the account in either direction: about ten similar polls or sleeps change the decision.
const CREDIT_MAX_NS: i64 = 40_000;
/// If the thread was off its core for this long, that was not a client's turn but another process's time
/// slice.
const SLICE_NS: u64 = 1_000_000;
/// How long a thread does not poll after that.
const REST_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(crate) struct IdlePolicy {
    poll_ns: u64,
    /// The time that polling has saved recently.
    credit_ns: i64,
    /// No polling before this.
    rest_until_ns: u64,
}

impl IdlePolicy {
    pub(crate) fn new(poll_us: u32) -> IdlePolicy {
        IdlePolicy { poll_ns: u64::from(poll_us) * 1_000, credit_ns: -CREDIT_MAX_NS, rest_until_ns: 0 }
    }

    /// How long to poll before sleeping; 0: not at all.
    pub(crate) fn poll_ns(&self, now_ns: u64) -> u64 {
        if self.credit_ns > 0 && now_ns >= self.rest_until_ns { self.poll_ns } else { 0 }
    }

    /// The thread yielded its core, and got it back after `away_ns`.
    pub(crate) fn yielded(&mut self, away_ns: u64, now_ns: u64) {
        if away_ns >= SLICE_NS {
            self.rest_until_ns = now_ns + REST_NS;
        }
    }

    /// Something arrived after `polled_ns` of polling.
    pub(crate) fn poll_found(&mut self, polled_ns: u64) {
        self.account(SLEEP_NS - polled_ns as i64);
    }

    /// Nothing arrived while polling.
    pub(crate) fn poll_was_in_vain(&mut self) {
        self.account(-(self.poll_ns as i64));
    }

    /// A sleep without a poll before it ended after `slept_ns`, including the waking.
    pub(crate) fn slept(&mut self, slept_ns: u64) {
        let would_poll_ns = (slept_ns as i64 - WAKING_NS).max(0) as u64;
        if would_poll_ns <= self.poll_ns {
            self.poll_found(would_poll_ns);
        } else {
            self.poll_was_in_vain();
        }
    }

    fn account(&mut self, saved_ns: i64) {
        self.credit_ns = self.credit_ns.saturating_add(saved_ns).clamp(-CREDIT_MAX_NS, CREDIT_MAX_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy of a thread that has just been busy.
    fn busy() -> IdlePolicy {
        let mut policy = IdlePolicy::new(30);
        for _ in 0..100 {
            policy.slept(6_000);
        }
        policy
    }

    #[test]
    fn polls_while_it_pays_and_stops_when_it_does_not() {
        assert_eq!(IdlePolicy::new(30).poll_ns(0), 0, "a new thread sleeps");
        let mut policy = busy();
        assert_eq!(policy.poll_ns(0), 30_000);
        policy.poll_was_in_vain();
        policy.poll_found(1_000);
        assert_eq!(policy.poll_ns(0), 30_000, "one long moment is no idle time");
        for _ in 0..3 {
            policy.poll_was_in_vain();
        }
        assert_eq!(policy.poll_ns(0), 0);
        policy.slept(6_000);
        assert_eq!(policy.poll_ns(0), 0, "one busy moment is not a busy time");
    }

    #[test]
    fn does_not_poll_for_longer_than_a_sleep_is_worth() {
        let mut policy = busy();
        for _ in 0..100 {
            policy.poll_found(10_000);
        }
        assert_eq!(policy.poll_ns(0), 0);
        for _ in 0..100 {
            policy.slept(15_000);
        }
        assert_eq!(policy.poll_ns(0), 0);
    }

    #[test]
    fn rests_where_others_need_the_core() {
        let mut policy = busy();
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
            policy.poll_found(0);
        }
        assert_eq!(policy.poll_ns(0), 0);
    }
}
