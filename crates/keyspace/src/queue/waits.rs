//! How long elements had waited when they were taken: over the last minute, ten minutes and hour.
//!
//! Times are counted in classes: each millisecond below [`EXACT_MS`], then 32 per doubling, so a class is at most 3 %
//! wide and its middle at most 1.6 % off. The counts are in *slots* of ten seconds. When a new slot begins, older ones
//! are merged: into minutes after a minute, later into ten minutes; they are dropped after an hour. A slot only has the
//! classes that occurred, in practice few, because jobs that are taken together have waited for the same time.

use std::collections::VecDeque;

/// Number of milliseconds with a class of their own.
const EXACT_MS: u64 = 64;
/// Classes per doubling above that, as a power of two.
const SUB_BITS: u32 = 5;

/// The reported periods, in seconds.
pub const PERIODS_S: [u64; 3] = [60, 600, 3600];
/// Length of the slots that are younger than each of the periods, in seconds.
const SPANS_S: [u64; 3] = [10, 60, 600];

/// Waiting times of the last hour.
#[derive(Debug, Default)]
pub struct WaitTimes {
    slots: VecDeque<Slot>,
    /// Elements that are in no slot yet.
    run: Run,
}

/// Consecutive elements that waited equally long.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    wait_ms: u64,
    count: u64,
}

#[derive(Debug)]
struct Slot {
    from_s: u64,
    span_s: u64,
    max_ms: u64,
    /// Classes with the number of elements in each, in no particular order.
    counts: Vec<(u16, u32)>,
}

/// Summary of the waiting times in a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quantiles {
    /// Number of taken elements.
    pub count: u64,
    /// Median waiting time in milliseconds.
    pub p50_ms: u64,
    /// 95th percentile in milliseconds.
    pub p95_ms: u64,
    /// 99th percentile in milliseconds.
    pub p99_ms: u64,
    /// Longest waiting time in milliseconds; exact.
    pub max_ms: u64,
}

fn class_of(wait_ms: u64) -> u16 {
    if wait_ms < EXACT_MS {
        return wait_ms as u16;
    }
    let octave = wait_ms.ilog2();
    let sub = (wait_ms >> (octave - SUB_BITS)) & ((1 << SUB_BITS) - 1);
    (EXACT_MS + u64::from((octave - EXACT_MS.ilog2()) << SUB_BITS) + sub) as u16
}

/// The time in the middle of a class.
fn middle_of(class: u16) -> u64 {
    let class = u64::from(class);
    if class < EXACT_MS {
        return class;
    }
    let above = class - EXACT_MS;
    let octave = EXACT_MS.ilog2() + (above >> SUB_BITS) as u32;
    let step = 1u64 << (octave - SUB_BITS);
    (1 << octave) + (above & ((1 << SUB_BITS) - 1)) * step + step / 2
}

impl WaitTimes {
    /// Counts an element taken before [`slot_end_ms`](Self::slot_end_ms) if it had waited as long as the last one.
    /// Returns whether it had; if not, it must be [recorded](Self::record).
    #[inline]
    pub fn repeat(&mut self, wait_ms: u64) -> bool {
        let is_same = wait_ms == self.run.wait_ms;
        self.run.count += u64::from(is_same);
        is_same
    }

    /// Records an element taken at `now_ms` that had waited `wait_ms`. Elements that are thereby settled are passed to
    /// `settled`: their number and waiting time.
    pub fn record(&mut self, now_ms: u64, wait_ms: u64, settled: impl FnOnce(u64, u64)) {
        let begins_slot = now_ms >= self.slot_end_ms();
        if !begins_slot && self.repeat(wait_ms) {
            return;
        }
        self.settle(settled);
        if begins_slot {
            self.begin_slot(now_ms / 1000);
        }
        self.run = Run { wait_ms, count: 1 };
    }

    /// When the last slot ends; 0 if no slot exists.
    pub fn slot_end_ms(&self) -> u64 {
        self.slots.back().map_or(0, |slot| (slot.from_s + slot.span_s) * 1000)
    }

    /// Puts the elements that are in no slot yet into theirs, and if there are any, passes their number and waiting
    /// time to `settled`.
    pub fn settle(&mut self, settled: impl FnOnce(u64, u64)) {
        let run = self.run;
        if let Some(slot) = self.slots.back_mut().filter(|_| run.count > 0) {
            slot.add_run(run);
            settled(run.count, run.wait_ms);
            self.run.count = 0;
        }
    }

    fn begin_slot(&mut self, now_s: u64) {
        let old = std::mem::take(&mut self.slots);
        for slot in old {
            let age_s = now_s.saturating_sub(slot.from_s + slot.span_s);
            if age_s >= PERIODS_S[2] {
                continue;
            }
            let period =
                PERIODS_S.iter().position(|period| age_s < *period).expect("it is younger than an hour");
            let span_s = SPANS_S[period];
            match self.slots.back_mut() {
                Some(last) if last.from_s / span_s == slot.from_s / span_s => last.merge(slot),
                _ => self.slots.push_back(slot),
            }
        }
        let span_s = SPANS_S[0];
        let from_s = now_s / span_s * span_s;
        // With very many queues, most have one slot with one class.
        self.slots.reserve_exact(1);
        self.slots.push_back(Slot { from_s, span_s, max_ms: 0, counts: Vec::new() });
    }

    /// Number and waiting time of the elements that `settled` has not been given yet.
    pub fn unsettled(&self) -> (u64, u64) {
        (self.run.count, self.run.wait_ms)
    }

    /// Summary of the last `period_s` seconds; `None` if nothing was taken.
    pub fn quantiles(&self, now_ms: u64, period_s: u64) -> Option<Quantiles> {
        let from_s = (now_ms / 1000).saturating_sub(period_s);
        let slots = self.slots.iter().filter(|slot| slot.from_s + slot.span_s > from_s);
        let mut all = Slot { from_s, span_s: period_s, max_ms: 0, counts: Vec::new() };
        if self.run.count > 0 && self.slot_end_ms() > from_s * 1000 {
            all.add_run(self.run);
        }
        for slot in slots {
            slot.counts.iter().for_each(|(class, count)| all.add(*class, *count));
            all.max_ms = all.max_ms.max(slot.max_ms);
        }
        all.counts.sort_unstable();
        let count: u64 = all.counts.iter().map(|(_, count)| u64::from(*count)).sum();
        let at = |percent: u64| {
            let mut rest = (count * percent).div_ceil(100);
            let class = all.counts.iter().find(|(_, count)| {
                rest = rest.saturating_sub(u64::from(*count));
                rest == 0
            });
            class.map_or(0, |(class, _)| middle_of(*class).min(all.max_ms))
        };
        (count > 0).then(|| Quantiles {
            count,
            p50_ms: at(50),
            p95_ms: at(95),
            p99_ms: at(99),
            max_ms: all.max_ms,
        })
    }

    /// Bytes that it has allocated.
    pub fn memory_bytes(&self) -> usize {
        let of_counts = |slot: &Slot| slot.counts.capacity() * size_of::<(u16, u32)>();
        self.slots.capacity() * size_of::<Slot>() + self.slots.iter().map(of_counts).sum::<usize>()
    }
}

impl Slot {
    fn add_run(&mut self, run: Run) {
        self.add(class_of(run.wait_ms), u32::try_from(run.count).unwrap_or(u32::MAX));
        self.max_ms = self.max_ms.max(run.wait_ms);
    }

    fn add(&mut self, class: u16, count: u32) {
        match self.counts.iter_mut().find(|(there, _)| *there == class) {
            Some((_, there)) => *there = there.saturating_add(count),
            None => {
                self.counts.reserve_exact(usize::from(self.counts.is_empty()));
                self.counts.push((class, count));
            }
        }
    }

    /// Merges a later slot into this one.
    fn merge(&mut self, later: Slot) {
        later.counts.iter().for_each(|(class, count)| self.add(*class, *count));
        self.max_ms = self.max_ms.max(later.max_ms);
        self.span_s = later.from_s + later.span_s - self.from_s;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_narrow() {
        for wait in (0..200_000).chain((0..40).map(|power| 3u64 << power)) {
            let middle = middle_of(class_of(wait));
            assert!(middle.abs_diff(wait) * 60 <= wait, "{wait} is told as {middle}");
        }
    }

    #[test]
    fn each_period_is_told_apart() {
        let (mut waits, mut counted) = (WaitTimes::default(), 0);
        let mut record = |waits: &mut WaitTimes, now_ms, wait_ms| {
            waits.record(now_ms, wait_ms, |count, _| counted += count);
        };
        assert_eq!(waits.quantiles(0, 60), None);
        // First, long ago, one that waited long; then one each second that waited up to 49 ms.
        record(&mut waits, 1_000_000, 3_000_000);
        for second in 0..900 {
            record(&mut waits, 3_000_000 + second * 1000, second % 50);
        }
        let now = 3_000_000 + 899_000;
        let minute = waits.quantiles(now, 60).expect("some were taken");
        assert!((60..=70).contains(&minute.count) && minute.max_ms == 49, "{minute:?}");
        let ten = waits.quantiles(now, 600).expect("some were taken");
        assert!((600..=660).contains(&ten.count), "{ten:?}");
        assert!((24..=25).contains(&ten.p50_ms), "{ten:?}");
        assert_eq!((ten.p95_ms, ten.p99_ms), (47, 49));
        let hour = waits.quantiles(now, 3600).expect("some were taken");
        assert_eq!((hour.count, hour.max_ms), (901, 3_000_000));
        assert!(waits.quantiles(now + 3_600_000 * 3, 60).is_none());
        waits.settle(|count, _| counted += count);
        assert_eq!(counted, 901);
        assert!(waits.slots.len() <= 6 + 1 + 10 + 1 + 7, "{} slots", waits.slots.len());
    }
}
