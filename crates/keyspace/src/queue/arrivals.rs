//! When the elements of a list arrived, without touching them.
//!
//! ```text
//!   head  [ newest … older ] [ older … newest ]  tail        runs: (millisecond, how many elements came in it)
//!          pushed at the head   pushed at the tail
//!                            ^ the oldest is on one of the two sides of this place
//! ```
//!
//! The runs are in the order of the list, and their counts add up to its length. A push adds to the run at its end or
//! begins one; a pop takes from the run at its end. So each element's time is known to the millisecond, however many
//! elements come and go at whichever end, until there are [`RUNS_MAX`] runs.
//!
//! Then the runs are *thinned*: neighbours are merged into one with the older one's time. The newest
//! [`EXACT`] elements of either side keep their times, so a queue with no more elements is always exact. A
//! run of other elements may span a [`PRECISION`]th of the time since its end. An element is older when it is
//! popped than when its run was thinned, so the error stays below that part of its age, at any rate of
//! arrivals. The number of runs grows with the logarithm of the age of the oldest: 1,200 for a day. (The idea
//! is that of exponential histograms: Datar, Gionis, Indyk and Motwani, "Maintaining stream statistics over
//! sliding windows", 2002.)

use std::collections::VecDeque;

use ds::list::End;
use ds::mover::{Mover, move_box, move_deque};

/// Number of newest elements at the pushing end that keep exact times.
pub const EXACT: usize = 1024;
/// The error of an age is less than one part in this many.
pub const PRECISION: u64 = 64;
/// Number of runs at which they are thinned.
const RUNS_MAX: usize = 2 * EXACT;
/// The runs must grow by one part in this many before they are thinned again.
const GROWTH_PART: usize = 4;

/// Elements that arrived in the same millisecond; after thinning, at about the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    /// time, 44 bits │ count, 20 bits
    word: u64,
}

const COUNT_BITS: u32 = 20;
const COUNT_MAX: usize = (1 << COUNT_BITS) - 1;
const TIME_MAX: u64 = u64::MAX >> COUNT_BITS;

impl Run {
    fn new(time: u64, count: usize) -> Run {
        debug_assert!(count <= COUNT_MAX);
        Run { word: time.min(TIME_MAX) << COUNT_BITS | count as u64 }
    }

    pub(super) fn time(self) -> u64 {
        self.word >> COUNT_BITS
    }

    pub(super) fn count(self) -> usize {
        self.word as usize & COUNT_MAX
    }

    /// The run with a count larger by `by`; `None` if the count would not fit.
    fn grown(self, by: usize) -> Option<Run> {
        (self.count() + by <= COUNT_MAX).then(|| Run { word: self.word + by as u64 })
    }

    pub(super) fn shrunk(self, by: usize) -> Run {
        debug_assert!(by <= self.count());
        Run { word: self.word - by as u64 }
    }
}

/// When the elements of a list arrived.
#[derive(Clone, Debug)]
pub struct Arrivals(Runs);

/// Most queues are short, and one run needs no memory of its own.
#[derive(Clone, Debug)]
enum Runs {
    /// The only run, at both ends. Its count is 0 if there are no elements.
    One(Run),
    Many(Box<Many>),
}

#[derive(Clone, Debug)]
struct Many {
    /// From the head to the tail; none is empty.
    runs: VecDeque<Run>,
    /// Number of runs that were pushed at the head.
    left: usize,
    /// Number of runs at which they are thinned.
    thin_at: usize,
}

impl Default for Arrivals {
    fn default() -> Self {
        Arrivals(Runs::One(Run::new(0, 0)))
    }
}

impl Arrivals {
    /// The arrivals of `count` elements that all arrived at `time`.
    pub fn at_once(count: usize, time: u64) -> Arrivals {
        let mut arrivals = Arrivals::default();
        arrivals.push(End::Tail, count, time);
        arrivals
    }

    /// Adds elements to the newest run at this end, if they arrived in the same millisecond and it has room. Returns
    /// whether it did.
    #[inline]
    pub(super) fn grow(&mut self, end: End, count: usize, now: u64) -> bool {
        let newest = match &mut self.0 {
            Runs::One(run) => Some(run).filter(|run| run.count() > 0),
            Runs::Many(many) => many.newest(end),
        };
        // If the clock goes backwards, the newest time is kept.
        let newest = newest.filter(|run| run.time() >= now);
        newest.and_then(|run| run.grown(count).map(|grown| *run = grown)).is_some()
    }

    /// Adds `count` elements that arrived at this end.
    pub fn push(&mut self, end: End, count: usize, now: u64) {
        if self.grow(end, count, now) {
            return;
        }
        match &mut self.0 {
            Runs::One(run) if run.count() == 0 && count <= COUNT_MAX => *run = Run::new(now, count),
            Runs::One(_) | Runs::Many(_) => self.many().push(end, count, now),
        }
    }

    /// The run that a pop at this end takes from.
    #[inline]
    pub(super) fn run_at(&mut self, end: End) -> Option<&mut Run> {
        match (&mut self.0, end) {
            (Runs::One(run), _) => Some(run),
            (Runs::Many(many), End::Head) => many.runs.front_mut(),
            (Runs::Many(many), End::Tail) => many.runs.back_mut(),
        }
    }

    /// Removes the element at one end and returns when it arrived. Panics if the list is empty.
    pub fn pop(&mut self, end: End) -> u64 {
        let run = self.run_at(end).expect("there is an element");
        *run = run.shrunk(1);
        let run = *run;
        if let (0, Runs::Many(many)) = (run.count(), &mut self.0) {
            many.drop_run(if end == End::Head { 0 } else { many.runs.len() - 1 });
            if many.runs.is_empty() {
                *self = Arrivals::default();
            }
        }
        run.time()
    }

    /// When the oldest element arrived; `None` if the list is empty.
    #[inline]
    pub fn oldest(&self) -> Option<u64> {
        match &self.0 {
            Runs::One(run) => (run.count() > 0).then(|| run.time()),
            Runs::Many(many) => many.oldest(),
        }
    }

    /// Removes `count` elements from `index` on, counted from the head.
    pub fn remove(&mut self, index: usize, count: usize) {
        let many = self.many();
        let (mut before, mut rest, mut at) = (0, count, 0);
        while rest > 0 {
            let run = many.runs[at];
            let taken = rest.min((before + run.count()).saturating_sub(index.max(before)));
            before += run.count() - taken;
            rest -= taken;
            many.runs[at] = run.shrunk(taken);
            if many.runs[at].count() == 0 {
                many.drop_run(at);
            } else {
                at += 1;
            }
        }
        if many.runs.is_empty() {
            *self = Arrivals::default();
        }
    }

    /// Inserts an element before `index`, with the age of the element there.
    pub fn insert(&mut self, index: usize) {
        let many = self.many();
        let mut before = 0;
        for run in &mut many.runs {
            before += run.count();
            if index < before {
                match run.grown(1) {
                    Some(grown) => *run = grown,
                    None => continue,
                }
                return;
            }
        }
        let newest = many.runs.back().map_or(0, |run| run.time());
        many.push(End::Tail, 1, newest);
    }

    /// Keeps only `len` elements from `start` on, counted from the head.
    pub fn trim(&mut self, start: usize, len: usize) {
        if len == 0 {
            *self = Arrivals::default();
            return;
        }
        let count = self.count();
        self.remove(start + len, count - start - len);
        self.remove(0, start);
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        match &self.0 {
            Runs::One(run) => run.count(),
            Runs::Many(many) => many.runs.iter().map(|run| run.count()).sum(),
        }
    }

    /// Bytes that it has allocated.
    pub fn memory_bytes(&self) -> usize {
        match &self.0 {
            Runs::One(_) => 0,
            Runs::Many(many) => size_of::<Many>() + many.runs.capacity() * size_of::<Run>(),
        }
    }

    /// Moves its memory if the mover asks for it.
    pub(crate) fn relocate(&mut self, mover: &mut dyn Mover) {
        if let Runs::Many(many) = &mut self.0 {
            move_box(many, mover);
            move_deque(&mut many.runs, mover);
        }
    }

    /// Encodes the arrivals for files, as varints: the number of runs that were pushed at the head, then each run from
    /// the head to the tail: its count, and the difference of its time to the previous one (zigzag).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let one;
        let (left, runs) = match &self.0 {
            Runs::One(run) => {
                one = VecDeque::from([*run]);
                (0, &one)
            }
            Runs::Many(many) => (many.left, &many.runs),
        };
        put_varint(&mut bytes, left as u64);
        let mut last = 0i64;
        for run in runs.iter().filter(|run| run.count() > 0) {
            let distance = run.time() as i64 - last;
            last = run.time() as i64;
            put_varint(&mut bytes, run.count() as u64);
            put_varint(&mut bytes, ((distance << 1) ^ (distance >> 63)) as u64);
        }
        bytes
    }

    /// Decodes the output of [`to_bytes`](Self::to_bytes) for a list of `len` elements. Returns `None` if the bytes are
    /// invalid or the length differs.
    pub fn from_bytes(mut bytes: &[u8], len: usize) -> Option<Arrivals> {
        let left = usize::try_from(take_varint(&mut bytes)?).ok()?;
        let (mut runs, mut last, mut sum) = (VecDeque::new(), 0i64, 0usize);
        while !bytes.is_empty() {
            let count = usize::try_from(take_varint(&mut bytes)?).ok()?;
            let word = take_varint(&mut bytes)?;
            last = last.checked_add((word >> 1) as i64 ^ -((word & 1) as i64))?;
            sum = sum.checked_add(count)?;
            let time = u64::try_from(last).ok().filter(|time| *time <= TIME_MAX)?;
            if count == 0 || count > COUNT_MAX || sum > len {
                return None;
            }
            runs.push_back(Run::new(time, count));
        }
        let thin_at = RUNS_MAX.max(runs.len());
        let many = Many { runs, left, thin_at };
        (sum == len && many.is_ordered()).then(|| Arrivals(Runs::Many(Box::new(many))).shortened())
    }

    /// Converts to the smallest form that fits.
    fn shortened(self) -> Arrivals {
        match &self.0 {
            Runs::Many(many) if many.runs.len() <= 1 => {
                Arrivals(Runs::One(many.runs.front().copied().unwrap_or(Run::new(0, 0))))
            }
            Runs::One(_) | Runs::Many(_) => self,
        }
    }

    fn many(&mut self) -> &mut Many {
        if let Runs::One(run) = self.0 {
            let runs: VecDeque<Run> = (run.count() > 0).then_some(run).into_iter().collect();
            self.0 = Runs::Many(Box::new(Many { runs, left: 0, thin_at: RUNS_MAX }));
        }
        match &mut self.0 {
            Runs::Many(many) => many,
            Runs::One(_) => unreachable!("it has just been made one of many"),
        }
    }

    /// Checks every invariant; for tests.
    pub fn debug_validate(&self, len: usize) {
        assert_eq!(self.count(), len, "the counts add up to the length");
        if let Runs::Many(many) = &self.0 {
            assert!(many.is_ordered());
            assert!(many.runs.iter().all(|run| run.count() > 0) && !many.runs.is_empty());
        }
    }
}

impl Many {
    fn right(&self) -> usize {
        self.runs.len() - self.left
    }

    /// The newest run at one end.
    #[inline]
    fn newest(&mut self, end: End) -> Option<&mut Run> {
        match end {
            End::Head if self.left > 0 => self.runs.front_mut(),
            End::Tail if self.right() > 0 => self.runs.back_mut(),
            End::Head | End::Tail => None,
        }
    }

    /// Begins a run at one end, or as many as `count` elements need.
    fn push(&mut self, end: End, mut count: usize, now: u64) {
        let now = self.newest(end).map_or(now, |run| now.max(run.time()));
        while count > 0 {
            let part = count.min(COUNT_MAX);
            count -= part;
            match end {
                End::Head => {
                    self.runs.push_front(Run::new(now, part));
                    self.left += 1;
                }
                End::Tail => self.runs.push_back(Run::new(now, part)),
            }
        }
        if self.runs.len() >= self.thin_at {
            self.thin(now);
        }
    }

    fn drop_run(&mut self, at: usize) {
        self.runs.remove(at);
        self.left -= usize::from(at < self.left);
    }

    fn oldest(&self) -> Option<u64> {
        let of_left = self.left.checked_sub(1).and_then(|at| self.runs.get(at));
        let both = [of_left, self.runs.get(self.left)];
        both.into_iter().flatten().map(|run| run.time()).min()
    }

    #[cold]
    fn thin(&mut self, now: u64) {
        let left = thinned(self.runs.iter().take(self.left).copied(), now);
        let right = thinned(self.runs.iter().skip(self.left).rev().copied(), now);
        self.left = left.len();
        self.runs = left.into_iter().chain(right.into_iter().rev()).collect();
        self.thin_at = RUNS_MAX.max(self.runs.len() + self.runs.len() / GROWTH_PART);
    }

    /// Whether on both sides the newest runs are at the end where they were pushed.
    fn is_ordered(&self) -> bool {
        if self.left > self.runs.len() {
            return false;
        }
        let left = self.runs.iter().take(self.left).map(|run| run.time());
        let right = self.runs.iter().skip(self.left).map(|run| run.time());
        left.is_sorted_by(|newer, older| newer >= older) && right.is_sorted()
    }
}

/// Thins the runs of one side, given newest first: merges old ones.
fn thinned(newest_first: impl Iterator<Item = Run>, now: u64) -> Vec<Run> {
    let mut runs: Vec<Run> = newest_first.collect();
    let mut newer = 0;
    let exact = runs.iter().take_while(|run| {
        newer += run.count();
        newer < EXACT
    });
    let exact = (exact.count() + 1).min(runs.len());
    let mut oldest_first: Vec<Run> = Vec::new();
    for at in (exact..runs.len()).rev() {
        let (run, end) = (runs[at], runs[at - 1].time());
        if let Some(last) = oldest_first.last_mut()
            && end.saturating_sub(last.time()) * PRECISION <= now.saturating_sub(end)
            && let Some(grown) = last.grown(run.count())
        {
            *last = grown;
        } else {
            oldest_first.push(run);
        }
    }
    runs.truncate(exact);
    runs.extend(oldest_first.into_iter().rev());
    runs
}

fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The times of all elements, from the head to the tail.
    #[derive(Default)]
    struct Model(VecDeque<u64>);

    fn end(is_head: bool) -> End {
        if is_head { End::Head } else { End::Tail }
    }

    proptest! {
        #[test]
        fn it_knows_when_each_element_came(
            steps in proptest::collection::vec((0..9u8, any::<bool>(), 0..40usize, 0..3u64), 1..200)
        ) {
            let (mut model, mut arrivals, mut now) = (Model::default(), Arrivals::default(), 1_000_000u64);
            for (what, is_head, number, passed) in steps {
                now += passed;
                let len = model.0.len();
                match what {
                    0..4 => {
                        arrivals.push(end(is_head), number.max(1), now);
                        for _ in 0..number.max(1) {
                            if is_head { model.0.push_front(now) } else { model.0.push_back(now) }
                        }
                    }
                    4..6 => {
                        for _ in 0..number.min(len) {
                            let time = if is_head { model.0.pop_front() } else { model.0.pop_back() };
                            prop_assert_eq!(Some(arrivals.pop(end(is_head))), time);
                        }
                    }
                    6 => {
                        let (from, count) = (number.min(len), 3.min(len - number.min(len)));
                        arrivals.remove(from, count);
                        model.0.drain(from..from + count);
                    }
                    7 if len > 1 => {
                        let index = 1 + number % (len - 1);
                        arrivals.insert(index);
                        model.0.insert(index, model.0[index]);
                    }
                    _ => {
                        let (start, kept) = (number.min(len) / 4, (len - number.min(len) / 4) / 2);
                        arrivals.trim(start, kept);
                        model.0 = model.0.range(start..start + kept).copied().collect();
                    }
                }
                arrivals.debug_validate(model.0.len());
                prop_assert_eq!(arrivals.oldest(), model.0.iter().min().copied());
                let read = Arrivals::from_bytes(&arrivals.to_bytes(), model.0.len());
                // The side of a lone run is irrelevant.
                prop_assert_eq!(&read.expect("what it wrote").to_bytes()[1..], &arrivals.to_bytes()[1..]);
            }
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..40), len in 0..100usize) {
            if let Some(read) = Arrivals::from_bytes(&bytes, len) {
                read.debug_validate(len);
            }
        }
    }

    /// Pushes at the head for `duration_ms` with these pauses, pops all at the tail, one every `pop_ms`, and checks each age.
    fn check(name: &str, duration_ms: u64, mut pause: impl FnMut(u64) -> (u64, usize), pop_ms: u64) {
        let (mut arrivals, mut times, mut now, mut most) =
            (Arrivals::default(), VecDeque::new(), 1u64 << 40, 0);
        let until = now + duration_ms;
        while now < until {
            let (passed, count) = pause(now);
            now += passed;
            arrivals.push(End::Head, count, now);
            times.extend(std::iter::repeat_n(now, count));
            most = most.max(arrivals.memory_bytes());
        }
        while let Some(time) = times.pop_front() {
            now += pop_ms;
            let said = arrivals.pop(End::Tail);
            let (age, said) = (now - time, now - said);
            let error = age.abs_diff(said);
            assert!(error * PRECISION <= age, "{name}: {said} ms for {age}");
            assert!(times.len() >= EXACT || error == 0, "{name}: exact below {EXACT}: {said} for {age}");
        }
        assert!(most <= 8 * 8192, "{name}: {most} bytes");
    }

    #[test]
    fn ages_of_deep_queues_are_nearly_right_at_any_rate() {
        check("steady", 3_600_000, |_| (7, 1), 0);
        check("steady, slowly drained", 600_000, |_| (1, 1), 2);
        check("several each ms", 60_000, |_| (1, 40), 0);
        check("bursts", 7_200_000, |now| if now % 60_000 < 2_000 { (1, 3) } else { (1_000, 1) }, 0);
        let mut step = 1;
        let ever_rarer = |_| {
            step += 1;
            (step / 16, 1 + step as usize % 5)
        };
        check("ever rarer", 86_400_000, ever_rarer, 1);
        check("bulks", 600_000, |_| (10_000, 2_000_000), 0);
    }

    #[test]
    fn a_requeue_at_the_popping_end_hides_no_older_one() {
        let mut arrivals = Arrivals::default();
        arrivals.push(End::Head, 3, 100);
        arrivals.push(End::Head, 3, 200);
        assert_eq!(arrivals.pop(End::Tail), 100);
        arrivals.push(End::Tail, 1, 300);
        assert_eq!(arrivals.oldest(), Some(100));
        assert_eq!([arrivals.pop(End::Tail), arrivals.pop(End::Tail)], [300, 100]);
    }

    #[test]
    fn a_clock_that_runs_backwards_stands_still() {
        let mut arrivals = Arrivals::default();
        for time in [500, 600, 300] {
            arrivals.push(End::Head, 1, time);
        }
        arrivals.debug_validate(3);
        assert_eq!(
            [arrivals.pop(End::Tail), arrivals.pop(End::Tail), arrivals.pop(End::Tail)],
            [500, 600, 600]
        );
    }
}
