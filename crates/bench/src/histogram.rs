//! Latencies, in one histogram for each kind of request.
//!
//! HdrHistogram (Gil Tene): three significant digits over the whole range, so percentiles are as exact for
//! microseconds as for seconds.

use hdrhistogram::Histogram;

/// The shortest and the longest time that is distinguished.
const NS_MIN: u64 = 100;
const NS_MAX: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;

/// A kind of request: an index into the mode's names of kinds.
pub(crate) type Series = usize;

/// A histogram of times, in nanoseconds, for each kind.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Vec<Histogram<u64>>);

impl Latencies {
    pub(crate) fn new(kinds: usize) -> Latencies {
        Latencies((0..kinds).map(|_| empty()).collect())
    }

    /// Records `count` requests that took `ns` each.
    pub(crate) fn record(&mut self, kind: Series, ns: u64, count: u64) {
        self.0[kind].saturating_record_n(ns, count);
    }

    pub(crate) fn add(&mut self, other: &Latencies) {
        for (mine, others) in self.0.iter_mut().zip(&other.0) {
            mine.add(others).expect("all histograms have the same range");
        }
    }

    pub(crate) fn of(&self, kind: Series) -> &Histogram<u64> {
        &self.0[kind]
    }

    /// The histograms of several kinds, merged.
    pub(crate) fn joined(&self, kinds: &[Series]) -> Histogram<u64> {
        let mut joined = empty();
        for &kind in kinds {
            joined.add(&self.0[kind]).expect("all histograms have the same range");
        }
        joined
    }
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(NS_MIN, NS_MAX, DIGITS).expect("the range is a valid one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_kept_apart_and_added_up() {
        let mut first = Latencies::new(2);
        first.record(0, 10_000, 99);
        first.record(1, 5_000_000, 1);
        let mut second = Latencies::new(2);
        second.record(0, 20_000, 1);
        second.add(&first);
        assert_eq!((second.of(0).len(), second.of(1).len(), second.joined(&[0, 1]).len()), (100, 1, 101));
        let p99 = second.of(0).value_at_quantile(0.99);
        assert!((10_000..10_064).contains(&p99), "{p99}");
        assert!(second.joined(&[0, 1]).max() >= 5_000_000);
    }

    #[test]
    fn times_beyond_the_range_count_as_its_end() {
        let mut latencies = Latencies::new(1);
        latencies.record(0, u64::MAX, 1);
        latencies.record(0, 0, 1);
        assert_eq!(latencies.of(0).len(), 2);
    }
}
