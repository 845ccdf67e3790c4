//! Figures of a queue that can be read without holding its shard: the holder writes them, and any thread may read them at any time.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};

use once_cell::race::OnceBox;
use smallvec::SmallVec;

use super::jobs::{JobCounts, JobFigures};
use super::taken_at::{Shown, TakenAt};
use ds::figure::Figure;
use ds::list::End;

/// Upper bounds in milliseconds of the classes in which waiting times are counted. Longer times are in no class.
pub const WAIT_BOUNDS_MS: [u64; 12] =
    [1, 5, 25, 100, 500, 1_000, 5_000, 30_000, 120_000, 600_000, 3_600_000, 21_600_000];
/// Time constants in seconds over which rates are averaged.
pub const RATE_SPANS_S: [f64; 3] = [10.0, 60.0, 600.0];
/// Smaller rates are 0: less than one element in half an hour. An average never reaches 0 on its own, and
/// numbers computed from it would be nonsense.
const RATE_PER_S_MIN: f64 = 0.0005;
/// A queue to which no more elements were pushed or popped than this has no [`Activity`] yet.
const QUIET_MAX: u64 = 8;
/// Minimum interval between two updates of the rates.
pub const FOLD_MS: u64 = 1000;

/// A queue's name and figures.
#[derive(Debug)]
pub struct Figures {
    /// Its key.
    pub name: SmallVec<[u8; 24]>,
    /// The kind of queue; the code that recognizes queues assigns the numbers.
    pub class: u16,
    db: AtomicU16,
    is_paused: AtomicBool,
    is_gone: AtomicBool,
    is_counted: AtomicBool,
    /// The end from which elements are taken, as far as it is known, see [`TakenAt`].
    taken_at: AtomicU16,
    has_jobs: AtomicBool,
    /// Number of clients that wait for elements.
    pub waiters: AtomicU32,
    /// Number of elements.
    pub depth: Figure,
    /// When the oldest element arrived, in milliseconds; for elements with due times, the earliest due time.
    /// 0 if the queue is empty.
    pub oldest_ms: Figure,
    /// Number of elements that arrived since the queue became known.
    pub pushed: Figure,
    /// Number of elements that were taken since then.
    pub popped: Figure,
    /// Bytes of memory of the elements at the last measurement.
    pub memory_bytes: Figure,
    /// The low 32 bits of `pushed` plus `popped` at the last measurement.
    measured: AtomicU32,
    /// When the queue became known.
    pub first_ms: u64,
    activity: OnceBox<Activity>,
    jobs: OnceBox<JobFigures>,
}

/// Further figures of a queue that has been active for a second, or that elements were taken from.
#[derive(Debug, Default)]
pub struct Activity {
    /// When the rates were last updated.
    folded_ms: Figure,
    /// `pushed` and `popped` at that time.
    folded: [Figure; 2],
    /// Rates of arriving and of taken elements over [`RATE_SPANS_S`], as the bits of an `f32`.
    rates: [[AtomicU32; 3]; 2],
    /// When the last element arrived, and when the last one was taken.
    last_ms: [Figure; 2],
    /// Numbers of taken elements by waiting time: at most each of [`WAIT_BOUNDS_MS`], and longer than the one before.
    pub wait_counts: [Figure; WAIT_BOUNDS_MS.len()],
    /// Number of all taken elements that are counted here.
    pub waited: Figure,
    /// Sum of their waiting times in milliseconds.
    pub waited_ms: Figure,
    /// Median, 99th percentile and maximum of the waiting times in the last minute, at the last update; 0 if none was taken.
    pub last_minute_ms: [Figure; 3],
}

/// Rates per second over [`RATE_SPANS_S`].
pub type Rates = [f64; 3];

impl Figures {
    /// The figures of a queue that has just become known.
    pub fn new(name: &[u8], class: u16, db: u32, now_ms: u64) -> Figures {
        Figures {
            name: SmallVec::from_slice(name),
            class,
            db: AtomicU16::new(u16::try_from(db).unwrap_or(u16::MAX)),
            is_paused: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            is_counted: AtomicBool::new(true),
            taken_at: AtomicU16::new(TakenAt::UNKNOWN.0),
            has_jobs: AtomicBool::new(false),
            waiters: AtomicU32::new(0),
            depth: Figure::default(),
            oldest_ms: Figure::default(),
            pushed: Figure::default(),
            popped: Figure::default(),
            memory_bytes: Figure::default(),
            measured: AtomicU32::new(0),
            first_ms: now_ms,
            activity: OnceBox::new(),
            jobs: OnceBox::new(),
        }
    }

    /// Its database.
    pub fn db(&self) -> u32 {
        u32::from(self.db.load(Ordering::Relaxed))
    }

    /// Sets its database, after databases were swapped.
    pub fn set_db(&self, db: u32) {
        self.db.store(u16::try_from(db).unwrap_or(u16::MAX), Ordering::Relaxed);
    }

    /// Whether consumers find the queue empty.
    pub fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// Sets whether consumers find the queue empty.
    pub fn set_paused(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// The end from which elements are taken: as pops show, or the queue's system, or pushes; the tail if nothing does.
    pub fn taken_at(&self) -> End {
        self.get_taken_at().end()
    }

    /// The end from which elements are taken; `None` if nothing shows it.
    pub fn known_taken_at(&self) -> Option<End> {
        Some(self.get_taken_at()).filter(|known| known.is_shown()).map(TakenAt::end)
    }

    /// Expects elements to be taken from this end, as the queue's system does, until the first pop shows from which one they are.
    pub fn expect_taken_at(&self, end: End) {
        self.put_taken_at(TakenAt::by_system(end));
    }

    /// Takes over the signs that a list has shown before it was known to be a queue, unless more is known.
    pub(super) fn learn_taken_at(&self, shown: Shown) {
        if !self.get_taken_at().is_shown() {
            self.put_taken_at(TakenAt::of_list(shown));
        }
    }

    /// Decides on an end if none is known: the one that a list has shown, or else the tail.
    pub fn settle_taken_at(&self, shown: Shown) {
        self.learn_taken_at(shown);
        let known = self.get_taken_at();
        if !known.is_shown() {
            self.put_taken_at(known.after_take(known.end()));
        }
    }

    /// Notes a pop from this end. Only the holder of the shard may do so.
    #[inline]
    pub(super) fn note_pop(&self, end: End) {
        let known = self.get_taken_at();
        if known != TakenAt::by_pops(end) {
            self.put_taken_at(known.after_pop(end));
        }
    }

    /// Notes that a client pushed at this end. Only the holder of the shard may do so.
    #[inline]
    pub(super) fn note_push(&self, end: End) {
        let known = self.get_taken_at();
        if known.heeds_pushes() {
            self.put_taken_at(known.after_push(end));
        }
    }

    pub(super) fn get_taken_at(&self) -> TakenAt {
        TakenAt(self.taken_at.load(Ordering::Relaxed))
    }

    pub(super) fn put_taken_at(&self, taken_at: TakenAt) {
        self.taken_at.store(taken_at.0, Ordering::Relaxed);
    }

    /// Whether the server has forgotten the queue.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    /// Marks the queue as forgotten.
    pub fn set_gone(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
    }

    /// Whether arriving and taken elements are counted.
    #[inline]
    pub fn is_counted(&self) -> bool {
        self.is_counted.load(Ordering::Relaxed)
    }

    /// Sets whether elements are counted; they are not while a journal is replayed.
    pub fn set_counted(&self, is_counted: bool) {
        self.is_counted.store(is_counted, Ordering::Relaxed);
    }

    /// Whether its jobs are leased, delayed or scheduled.
    pub fn has_jobs(&self) -> bool {
        self.has_jobs.load(Ordering::Relaxed)
    }

    /// Notes that they are.
    pub fn set_has_jobs(&self) {
        self.has_jobs.store(true, Ordering::Relaxed);
    }

    /// The jobs that are not in the list; `None` if they have not been counted yet.
    pub fn jobs(&self) -> Option<JobCounts> {
        self.jobs.get().map(JobFigures::get)
    }

    /// Stores how many there are. Only the holder of the shard may do so.
    pub fn set_jobs(&self, counts: &JobCounts) {
        self.jobs.get_or_init(Box::default).set(counts);
    }

    /// The further figures; `None` if the queue has hardly been active.
    pub fn activity(&self) -> Option<&Activity> {
        self.activity.get()
    }

    /// The further figures, created on first use.
    pub(super) fn active(&self) -> &Activity {
        self.activity.get_or_init(|| {
            let activity = Activity::default();
            activity.folded_ms.set(self.first_ms);
            activity.last_ms[0].set(self.first_ms);
            Box::new(activity)
        })
    }

    /// Updates the rates. Only the holder of the shard may call it.
    pub(super) fn fold(&self, now_ms: u64) {
        let activity = self.active();
        for (side, total) in [&self.pushed, &self.popped].into_iter().enumerate() {
            let rates = self.rates_of(side, now_ms);
            for (kept, rate) in activity.rates[side].iter().zip(rates) {
                kept.store((rate as f32).to_bits(), Ordering::Relaxed);
            }
            if total.get() != activity.folded[side].get() {
                activity.last_ms[side].set(now_ms);
            }
            activity.folded[side].set(total.get());
        }
        activity.folded_ms.set(now_ms);
    }

    fn total(&self) -> u64 {
        self.pushed.get().wrapping_add(self.popped.get())
    }

    /// Whether nothing has arrived or been taken since the last call of `measure`. False for elements that were loaded and not
    /// measured yet.
    pub fn is_measured(&self) -> bool {
        let is_loaded = self.depth.get() > 0 && self.memory_bytes.get() == 0;
        self.measured.load(Ordering::Relaxed) == self.total() as u32 && !is_loaded
    }

    /// Updates the figures that are not kept current all the time. `memory_bytes` is the size of the elements. Only the
    /// holder of the shard may call it.
    pub fn measure(&self, now_ms: u64, memory_bytes: u64) {
        self.memory_bytes.set(memory_bytes);
        self.measured.store(self.total() as u32, Ordering::Relaxed);
        // With very many queues, most are nearly inactive; their rates are exact enough without the additional memory.
        if self.activity().is_some() || self.total() > QUIET_MAX {
            self.fold(now_ms);
        }
    }

    /// Rates per second at which elements arrive and are taken, over [`RATE_SPANS_S`].
    pub fn rates(&self, now_ms: u64) -> [Rates; 2] {
        [0, 1].map(|side| self.rates_of(side, now_ms))
    }

    fn rates_of(&self, side: usize, now_ms: u64) -> Rates {
        let total = [&self.pushed, &self.popped][side].get();
        let (since_ms, counted, rates) = match self.activity() {
            None => (self.first_ms, 0, [0.0; 3]),
            Some(activity) => {
                let rate =
                    |at: usize| f64::from(f32::from_bits(activity.rates[side][at].load(Ordering::Relaxed)));
                (activity.folded_ms.get(), activity.folded[side].get(), [rate(0), rate(1), rate(2)])
            }
        };
        let count = total.saturating_sub(counted) as f64;
        let passed_s = now_ms.saturating_sub(since_ms) as f64 / 1000.0;
        std::array::from_fn(|at| {
            let spans = passed_s / RATE_SPANS_S[at];
            // Assumes that the counted elements are spread evenly over the time that has passed; if none has passed,
            // they count as just arrived.
            let weight = if spans > 0.0 { -(-spans).exp_m1() / spans } else { 1.0 };
            let rate = rates[at] * (-spans).exp() + count / RATE_SPANS_S[at] * weight;
            if rate < RATE_PER_S_MIN { 0.0 } else { rate }
        })
    }

    /// When the last element arrived and when the last one was taken. `None` if there was none, or if it is not
    /// recorded because the queue has hardly been active.
    pub fn last_ms(&self) -> [Option<u64>; 2] {
        let last =
            |side: usize| self.activity().map(|activity| activity.last_ms[side].get()).filter(|ms| *ms > 0);
        let first = (self.pushed.get() > 0).then_some(self.first_ms);
        [last(0).or(first), last(1)]
    }
}

impl Activity {
    /// Counts `count` taken elements that had waited `wait_ms` each.
    pub(super) fn count_waits(&self, count: u64, wait_ms: u64) {
        self.waited.add(count);
        self.waited_ms.add(count.saturating_mul(wait_ms));
        if let Some(class) = WAIT_BOUNDS_MS.iter().position(|bound| wait_ms <= *bound) {
            self.wait_counts[class].add(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::taken_at::TURNS_AFTER;
    use super::*;

    #[test]
    fn rates_follow_what_comes_and_are_forgotten() {
        let figures = Figures::new(b"queue:a", 1, 0, 1_000_000);
        assert_eq!(figures.rates(1_000_000), [[0.0; 3]; 2]);
        let mut now = 1_000_000;
        for _ in 0..1200 {
            now += 1000;
            figures.pushed.add(50);
            figures.fold(now);
        }
        let [[short, middle, long], taken] = figures.rates(now);
        assert!((short - 50.0).abs() < 0.01 && (middle - 50.0).abs() < 0.01, "{short} {middle}");
        assert!((40.0..50.0).contains(&long), "{long}");
        assert_eq!(taken, [0.0; 3]);
        let [[short, ..], _] = figures.rates(now + 60_000);
        assert!(short < 0.2, "{short} a minute later");
        assert_eq!(figures.rates(now + 3_600_000 * 3), [[0.0; 3]; 2], "nothing came for hours");
        assert_eq!(figures.last_ms(), [Some(now), None]);
    }

    #[test]
    fn pops_at_the_other_end_turn_a_queue_only_if_there_are_several_in_a_row() {
        let figures = Figures::new(b"queue:a", 1, 0, 0);
        assert_eq!(figures.taken_at(), End::Tail);
        figures.note_pop(End::Head);
        assert_eq!(figures.taken_at(), End::Head, "the first pop decides");
        for _ in 0..3 {
            (1..TURNS_AFTER).for_each(|_| figures.note_pop(End::Tail));
            assert_eq!(figures.taken_at(), End::Head);
            figures.note_pop(End::Head);
        }
        (0..TURNS_AFTER).for_each(|_| figures.note_pop(End::Tail));
        assert_eq!(figures.taken_at(), End::Tail);
    }

    #[test]
    fn what_came_at_once_is_averaged_over_the_span() {
        let figures = Figures::new(b"queue:a", 1, 0, 0);
        figures.pushed.add(1000);
        let [[short, ..], _] = figures.rates(1);
        assert!((99.0..=100.0).contains(&short), "{short}");
        let [[short, ..], _] = figures.rates(10_000);
        assert!((60.0..70.0).contains(&short), "{short}");
    }

    #[test]
    fn how_often_rates_are_brought_up_to_date_does_not_matter() {
        let figures = Figures::new(b"queue:a", 1, 0, 0);
        for now in 10_000..10_020 {
            figures.fold(now);
            figures.pushed.add(50);
            figures.fold(now);
        }
        let [[short, ..], _] = figures.rates(10_020);
        assert!((99.0..=100.0).contains(&short), "{short}");
    }
}
