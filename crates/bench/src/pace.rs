//! Sends at a fixed rate: computes when each request is due, regardless of those before it.
//!
//! This is a function of numbers alone: the loop asks when the next request is due, waits until then, and measures its
//! latency from there. So a server that falls behind is charged for every request that it delays, not only for the one
//! that it holds (no coordinated omission).

/// The due times of one of `stride` senders that share a rate: it sends the requests `next`, `next + stride`, …
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    per_second: u64,
    next: u64,
    stride: u64,
}

impl Pace {
    /// For sender `index` out of `count`, which together send `per_second` requests.
    pub(crate) fn shared(per_second: u64, index: u64, count: u64) -> Pace {
        Pace { per_second, next: index, stride: count }
    }

    /// When the next request is due, in nanoseconds from the start.
    pub(crate) fn due_ns(&self) -> u64 {
        let due = u128::from(self.next) * 1_000_000_000 / u128::from(self.per_second);
        u64::try_from(due).unwrap_or(u64::MAX)
    }

    /// Advances to the following request. Returns the number of this one, counted over all senders.
    pub(crate) fn take(&mut self) -> u64 {
        let number = self.next;
        self.next += self.stride;
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_share_the_rate_evenly() {
        let mut senders: Vec<Pace> = (0..3).map(|index| Pace::shared(1000, index, 3)).collect();
        let mut due: Vec<u64> = Vec::new();
        for _ in 0..10 {
            for sender in &mut senders {
                due.push(sender.due_ns());
                sender.take();
            }
        }
        assert_eq!(due, (0..30).map(|number| number * 1_000_000).collect::<Vec<u64>>());
    }

    #[test]
    fn a_period_that_is_no_whole_number_does_not_drift() {
        let mut pace = Pace::shared(3, 0, 1);
        for _ in 0..3_000_000 {
            pace.take();
        }
        assert_eq!(pace.due_ns(), 1_000_000_000_000_000);
    }

    #[test]
    fn being_late_does_not_move_what_is_due() {
        // The server holds the first request for five periods, so the next four are due in the past.
        let mut pace = Pace::shared(100, 0, 1);
        let mut now_ns: u64 = 0;
        let mut latencies_ms = Vec::new();
        for held_ms in [50, 1, 1, 1, 1, 1, 1] {
            let due_ns = pace.due_ns();
            pace.take();
            now_ns = now_ns.max(due_ns) + held_ms * 1_000_000;
            latencies_ms.push((now_ns - due_ns) / 1_000_000);
        }
        assert_eq!(latencies_ms, [50, 41, 32, 23, 14, 5, 1]);
    }
}
