//! The durations of the calls of a command, summed over all threads: buckets and percentiles.
//!
//! Not here: counting into the buckets (`stats.rs`).

use engine::CommandId;

use crate::observed::Observed;
use crate::stats::{DURATION_BUCKETS, bucket_start_ns, duration_bucket};

/// How long calls took, on all threads.
pub struct Durations {
    /// The number of calls.
    pub calls: u64,
    buckets: [u64; DURATION_BUCKETS],
}

impl Durations {
    /// The calls of one command since the last reset.
    pub fn of(observed: &Observed, id: CommandId) -> Durations {
        let mut buckets = [0; DURATION_BUCKETS];
        if observed.sum(|stats| &stats.command(id).calls) > 0 {
            buckets = std::array::from_fn(|bucket| observed.sum(|stats| stats.command(id).calls_in(bucket)));
        }
        Durations { calls: buckets.iter().sum(), buckets }
    }

    /// The calls of these commands since the start, whatever was reset.
    pub fn of_all(observed: &Observed, ids: &[CommandId]) -> Durations {
        let mut buckets = [0; DURATION_BUCKETS];
        for stats in observed.threads() {
            ids.iter().for_each(|id| stats.command(*id).add_durations(&mut buckets));
        }
        Durations { calls: buckets.iter().sum(), buckets }
    }

    /// The calls since `before` was read for the same commands.
    pub fn since(&self, before: &Durations) -> Durations {
        let buckets =
            std::array::from_fn(|bucket| self.buckets[bucket].saturating_sub(before.buckets[bucket]));
        Durations { calls: buckets.iter().sum(), buckets }
    }

    /// The numbers of calls of up to 1, 2, 4 … microseconds; steps without further calls are left out. The steps are
    /// powers of two in nanoseconds from 1024 on. Their names are those of Redis' histogram with two digits.
    pub fn cumulative_us(&self) -> Vec<(u64, u64)> {
        let mut steps = Vec::new();
        let mut before = 0;
        for log2 in 10..u64::BITS {
            let below = duration_bucket(1 << log2);
            let is_last = below == DURATION_BUCKETS - 1;
            let calls = self.buckets[..if is_last { DURATION_BUCKETS } else { below }].iter().sum();
            if calls > before {
                steps.push((((1_u64 << log2) + (1 << (log2 - 7)) - 1) / 1000, calls));
                before = calls;
            }
            if is_last {
                break;
            }
        }
        steps
    }

    /// The duration in microseconds that `percent` of the calls did not exceed, interpolated within a bucket.
    pub fn percentile_us(&self, percent: f64) -> f64 {
        let wanted = self.calls as f64 * percent / 100.0;
        let mut below = 0.0;
        for (bucket, &calls) in self.buckets.iter().enumerate().filter(|(_, calls)| **calls > 0) {
            if below + calls as f64 >= wanted {
                let (start, end) = (bucket_start_ns(bucket) as f64, bucket_start_ns(bucket + 1) as f64);
                return (start + (end - start) * (wanted - below) / calls as f64) / 1000.0;
            }
            below += calls as f64;
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations(ns: &[u64]) -> Durations {
        let mut buckets = [0; DURATION_BUCKETS];
        ns.iter().for_each(|ns| buckets[duration_bucket(*ns)] += 1);
        Durations { calls: ns.len() as u64, buckets }
    }

    #[test]
    fn steps_are_named_as_in_redis() {
        let steps = durations(&[500, 900, 1500, 20_000, 40_000, 1_000_000, u64::MAX]).cumulative_us();
        assert_eq!(steps[..5], [(1, 2), (2, 3), (33, 4), (66, 5), (1056, 6)]);
        assert_eq!(steps[5].1, 7);
    }

    #[test]
    fn durations_of_a_span_are_those_between_two_looks() {
        let before = durations(&[1000, 20_000]);
        let span = durations(&[1000, 1000, 20_000, 1_000_000]).since(&before);
        assert_eq!((span.calls, span.cumulative_us()), (2, vec![(1, 1), (1056, 2)]));
    }

    #[test]
    fn percentiles_lie_in_the_right_bucket() {
        let durations = durations(&[1000, 1000, 1000, 100_000]);
        assert!((0.992..1.024).contains(&durations.percentile_us(50.0)));
        assert!((98.304..102.4).contains(&durations.percentile_us(99.0)));
    }

    #[test]
    fn percentiles_are_near_the_real_ones() {
        // Durations spread evenly over their logarithm, from 100 ns to a second.
        let all: Vec<u64> =
            (0..7_000).map(|step| 10_f64.powf(2.0 + f64::from(step) / 1_000.0) as u64).collect();
        let durations = durations(&all);
        for percent in [1.0, 10.0, 50.0, 90.0, 99.0, 99.9] {
            let real_us = all[(all.len() as f64 * percent / 100.0) as usize - 1] as f64 / 1000.0;
            let shown_us = durations.percentile_us(percent);
            assert!((shown_us / real_us - 1.0).abs() < 0.03, "p{percent}: {shown_us} for {real_us}");
        }
    }
}
