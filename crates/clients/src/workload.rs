//! Measures the load of one thread and the cost of its clients.
//!
//! Not here: the decisions that follow from them (`balance.rs`).

use proactor::Clock;

use crate::balance::Balance;

/// The cost of receiving a request and sending its reply, without the command.
const SERVING_NS: u64 = 5_000;
/// A client whose commands take longer than this is served apart from others.
const SLOW_NS: u64 = 10_000_000;
/// A round with fewer commands is not judged.
const COMMANDS_MIN: u64 = 1_000;
/// The longest time between two readings from which a rate is computed.
const READING_NS_MAX: u64 = 1_000_000_000;

/// See the head of this file.
#[derive(Debug)]
pub struct Workload {
    /// The plan for all threads; only the first thread's is used.
    pub balance: Balance,
    serving_ticks: u64,
    slow_ticks: u64,
    /// The last reading: the time, and the processor time of the thread.
    taken: (u64, u64),
    /// The load at the last reading, in thousandths.
    busy: u32,
    /// The last reading for [`was_working`](Self::was_working), which may be later than `taken`.
    judged: (u64, u64),
    /// The last reading: the time, and the idle time of the processors.
    idle: Option<(u64, u64)>,
    /// The last reading: commands, and those that were left with a shard's holder.
    commands: (u64, u64),
}

impl Workload {
    /// Creates the state for a thread that starts. `clock` is its clock.
    pub fn new(clock: &Clock) -> Workload {
        Workload {
            balance: Balance::default(),
            serving_ticks: clock.ns_to_ticks(SERVING_NS),
            slow_ticks: clock.ns_to_ticks(SLOW_NS),
            taken: (0, 0),
            busy: 0,
            judged: (0, 0),
            idle: None,
            commands: (0, 0),
        }
    }

    /// The cost of serving a client once, if its commands took this many ticks of the clock.
    #[inline]
    pub fn cost(&self, ticks: u64) -> u64 {
        ticks + self.serving_ticks
    }

    /// Whether a client whose commands took this long may have to be served apart from others: if it also
    /// [was working](Self::was_working).
    #[inline]
    pub fn may_be_slow(&self, ticks: u64) -> bool {
        ticks >= self.slow_ticks
    }

    /// Whether commands that took `took_ns` until now mostly used the processor rather than waited for it. `taken_ns`
    /// is as for [`busy`](Self::busy). This is an estimate: it assumes that the thread was as busy before these
    /// commands as at the last reading.
    pub fn was_working(&mut self, took_ns: u64, now_ns: u64, taken_ns: u64) -> bool {
        let (before_ns, taken_before_ns) = std::mem::replace(&mut self.judged, (now_ns, taken_ns));
        let others_ns =
            now_ns.saturating_sub(before_ns).saturating_sub(took_ns) * u64::from(self.busy) / 1000;
        taken_ns.saturating_sub(taken_before_ns).saturating_sub(others_ns) >= SLOW_NS / 2
    }

    /// The thread's load since the last call, in thousandths. `taken_ns` is its processor time up to now.
    pub fn busy(&mut self, now_ns: u64, taken_ns: u64) -> u32 {
        let (before_ns, taken_before_ns) = std::mem::replace(&mut self.taken, (now_ns, taken_ns));
        let past_ns = now_ns.saturating_sub(before_ns).max(1);
        self.busy = (taken_ns.saturating_sub(taken_before_ns) * 1000 / past_ns).min(1000) as u32;
        self.judged = self.taken;
        self.busy
    }

    /// The share of commands since the last call that were left with a shard's holder, in thousandths. `all` and `left` are
    /// totals.
    pub fn contended(&mut self, all: u64, left: u64) -> u32 {
        let (all_before, left_before) = std::mem::replace(&mut self.commands, (all, left));
        let count = all.saturating_sub(all_before);
        if count < COMMANDS_MIN {
            0
        } else {
            (left.saturating_sub(left_before) * 1000 / count).min(1000) as u32
        }
    }

    /// The processor time that was idle since the last call, in thousandths of one processor. `idle_ns` is the idle
    /// time up to now. `None` if the last call was too long ago.
    pub fn idle(&mut self, now_ns: u64, idle_ns: u64) -> Option<u32> {
        let (before_ns, idle_before_ns) = self.idle.replace((now_ns, idle_ns))?;
        let past_ns = now_ns.saturating_sub(before_ns);
        let idle = idle_ns.saturating_sub(idle_before_ns) * 1000 / past_ns.max(1);
        (1..READING_NS_MAX).contains(&past_ns).then_some(idle as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_time_since_the_last_look() {
        let mut workload = Workload::new(&Clock::real());
        workload.busy(1_000_000_000, 70);
        assert_eq!(workload.busy(1_100_000_000, 25_000_070), 250);
        assert_eq!(workload.busy(1_200_000_000, 25_000_070), 0);
        assert_eq!(workload.busy(1_200_000_000, 35_000_070), 1000, "no time has passed");
        assert_eq!(workload.idle(1_000_000_000, 900), None);
        assert_eq!(workload.idle(1_100_000_000, 150_000_900), Some(1500));
        assert_eq!(workload.idle(2_100_000_000, 250_000_900), None, "that is too long ago");
        assert_eq!(workload.idle(2_200_000_000, 250_000_900), Some(0));
        assert_eq!(workload.contended(2_000, 500), 250);
        assert_eq!(workload.contended(2_999, 1_499), 0, "too few");
        assert_eq!(workload.contended(4_999, 2_499), 500);
    }

    #[test]
    fn ten_milliseconds_are_slow() {
        let clock = Clock::real();
        let workload = Workload::new(&clock);
        assert!(
            workload.may_be_slow(clock.ns_to_ticks(SLOW_NS))
                && !workload.may_be_slow(clock.ns_to_ticks(SLOW_NS - 1_000))
        );
        assert!(workload.cost(0) > 0);
    }

    #[test]
    fn who_waits_for_the_processor_is_not_slow() {
        const MS: u64 = 1_000_000;
        let workload = || {
            let mut workload = Workload::new(&Clock::real());
            workload.busy(1000 * MS, 0);
            // It is busy for two fifths of the time.
            workload.busy(1100 * MS, 40 * MS);
            workload
        };
        // 50 ms later; the last 12 of them went to a command.
        let was_working = |taken_ms: u64| workload().was_working(12 * MS, 1150 * MS, (40 + taken_ms) * MS);
        assert!(was_working(15 + 12), "it worked for all of the 12 ms");
        assert!(!was_working(15 + 1), "it worked for one of them");
        assert!(!was_working(0));
        let mut workload = workload();
        assert!(workload.was_working(50 * MS, 1150 * MS, 90 * MS));
        assert!(
            !workload.was_working(12 * MS, 1165 * MS, 92 * MS),
            "what another client took does not count"
        );
    }
}
