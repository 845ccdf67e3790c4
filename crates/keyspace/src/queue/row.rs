//! The figures of one queue at one moment, read without entering its shard.

use std::cmp::{Ordering, Reverse};
use std::sync::atomic::Ordering::Relaxed;

use super::figures::{Figures, WAIT_BOUNDS_MS};
use super::jobs::{JobCounts, JobFigure};
use super::{Class, Known, State, System};

/// The waiting times of elements until they were taken.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// A histogram: for each of [`WAIT_BOUNDS_MS`], the number of elements that waited at most that long, but
    /// longer than the bound before.
    pub counts: [u64; WAIT_BOUNDS_MS.len()],
    /// The number of elements taken.
    pub count: u64,
    /// The sum of their waiting times.
    pub sum_ms: u64,
    /// The median, 99th percentile and maximum of the elements taken in the last minute. `None` if none was
    /// taken.
    pub last_minute: Option<[u64; 3]>,
}

/// A queue, or another set of its jobs.
#[derive(Clone, Debug)]
pub struct Row {
    /// The key: arbitrary bytes.
    pub name: Box<[u8]>,
    /// Its database.
    pub db: u32,
    /// Its job system.
    pub system: System,
    /// The meaning of its elements.
    pub state: State,
    /// The waiting jobs: the elements, and jobs that wait in groups.
    pub depth: u64,
    /// The unit of its scores in milliseconds, if it is a sorted set and its scores are times.
    pub score_ms: Option<f64>,
    /// The age of the oldest element; for a sorted set of scheduled jobs, how late the first one is. `None` if it is
    /// empty or not late.
    pub oldest_ms: Option<u64>,
    /// Milliseconds until the first element of a sorted set is due, if it is not late.
    pub due_in_ms: Option<u64>,
    /// Elements added per second, over 10 s, 1 min and 10 min.
    pub in_per_s: [f64; 3],
    /// Elements taken per second, over the same times.
    pub out_per_s: [f64; 3],
    /// Elements added since the queue became known.
    pub pushed: u64,
    /// Elements taken since then.
    pub popped: u64,
    /// Clients that wait for elements.
    pub waiters: u64,
    /// Whether it is paused by `QUEUE PAUSE`.
    pub is_paused: bool,
    /// Memory of its elements about a second ago, in bytes.
    pub memory_bytes: u64,
    /// Waiting times.
    pub waits: Waits,
    /// Its jobs that are not in its list, about a second ago, if its jobs are leased, delayed or scheduled.
    pub jobs: Option<JobCounts>,
}

/// Queues with longer names are omitted from lists for people and other programs.
pub const SHOWN_NAME_BYTES_MAX: usize = 1024;

/// The last minute, in milliseconds.
const MINUTE_MS: u64 = 60_000;

impl Row {
    /// A queue with its figures at `now_ms` of the monotonic clock.
    pub fn new(figures: &Figures, now_ms: u64) -> Row {
        let class = Class::of_number(figures.class);
        let depth = figures.depth.get();
        let came_ms = Some(figures.oldest_ms.get()).filter(|came_ms| depth > 0 && *came_ms > 0);
        let [in_per_s, out_per_s] = figures.rates(now_ms);
        let activity = figures.activity();
        let waits = activity.map_or_else(Waits::default, |activity| {
            let last_minute = activity.last_minute_ms.each_ref().map(|figure| figure.get());
            let is_recent = figures.last_ms()[1].is_some_and(|last_ms| last_ms + MINUTE_MS > now_ms);
            let counts = activity.wait_counts.each_ref().map(|figure| figure.get());
            Waits {
                count: activity.waited.get(),
                counts,
                sum_ms: activity.waited_ms.get(),
                last_minute: is_recent.then_some(last_minute),
            }
        });
        let mut row = Row {
            name: figures.name.as_slice().into(),
            db: figures.db(),
            system: class.system,
            state: class.state,
            depth,
            score_ms: class.score_ms(),
            oldest_ms: came_ms.and_then(|came_ms| now_ms.checked_sub(came_ms)),
            due_in_ms: came_ms.and_then(|due_ms| due_ms.checked_sub(now_ms)).filter(|ms| *ms > 0),
            in_per_s,
            out_per_s,
            pushed: figures.pushed.get(),
            popped: figures.popped.get(),
            waiters: u64::from(figures.waiters.load(Relaxed)),
            is_paused: figures.is_paused(),
            memory_bytes: figures.memory_bytes.get(),
            waits,
            jobs: None,
        };
        if let Some(jobs) = figures.jobs().filter(|jobs| *jobs != JobCounts::default()) {
            row.note_jobs(jobs);
        }
        row
    }

    /// Notes its jobs that are not in its list. Jobs of groups count as waiting, too.
    pub fn note_jobs(&mut self, jobs: JobCounts) {
        let before = self.jobs.replace(jobs).map_or(0, |before| before.get(JobFigure::Grouped));
        self.depth = self.depth - before + jobs.get(JobFigure::Grouped);
    }

    /// The order in which queues are shown: a queue in trouble comes before the other sets of jobs,
    /// regardless of their age. Jobs that wait for workers come before active and paused ones, and these
    /// before jobs that are due later or done. Within each group the oldest comes first, then the deepest;
    /// then they are sorted by name.
    pub fn order(&self, other: &Row) -> Ordering {
        let rank = |row: &Row| (row.state.rank(), Reverse((row.oldest_ms, row.depth)));
        rank(self).cmp(&rank(other)).then_with(|| (&self.name, self.db).cmp(&(&other.name, other.db)))
    }
}

/// All queues with their figures at `now_ms` of the monotonic clock.
pub fn rows(known: &Known, now_ms: u64) -> Vec<Row> {
    rows_of(known, now_ms, |_| true)
}

/// The queues for whose figures `is_wanted` returns true.
pub fn rows_of(known: &Known, now_ms: u64, is_wanted: impl Fn(&Figures) -> bool) -> Vec<Row> {
    let listed = known.listed();
    let wanted = listed.iter().filter(|figures| is_wanted(figures));
    wanted.map(|figures| Row::new(figures, now_ms)).collect()
}
