//! Observation of a list that is a queue.
//!
//! ```text
//!   list ── Seen ─┬─ Arrivals            when its elements came: goes wherever the list goes
//!                 └─ Book ─┬─ WaitTimes  how long those waited that were taken
//!                          └─ Figures    shared: read without holding the shard
//! ```
//!
//! The list reports all arriving and leaving elements to its [`Seen`], so no command has to. The [`Book`] belongs to
//! the queue, not to the list: it remains when the list goes ([`Seen::close`]).

use std::sync::Arc;

use ds::list::End;
use ds::mover::{Mover, move_box};

use super::arrivals::Arrivals;
use super::figures::{FOLD_MS, Figures};
use super::taken_at::Shown;
use super::waits::{PERIODS_S, WaitTimes};

/// The observed state of a list that is a queue, or recently was one.
#[derive(Debug, Default)]
pub struct Seen {
    /// Time of the reported changes, in milliseconds.
    now_ms: u64,
    arrivals: Arrivals,
    book: Option<Book>,
}

/// The records of a queue beyond its elements.
#[derive(Debug)]
pub struct Book {
    figures: Arc<Figures>,
    waits: Option<Box<WaitTimes>>,
    /// Before this time, counting suffices. Then the figures have to be updated, or a slot of waiting times ends.
    quiet_ms: u64,
}

impl Clone for Seen {
    /// Copies only the arrivals: a copy of the list is another queue, if it is one.
    fn clone(&self) -> Self {
        Seen { now_ms: self.now_ms, arrivals: self.arrivals.clone(), book: None }
    }
}

impl Seen {
    /// The state of a list whose elements have these arrivals.
    pub fn new(arrivals: Arrivals) -> Seen {
        Seen { now_ms: 0, arrivals, book: None }
    }

    /// Sets the time of the following changes. If the clock goes backwards, the newest arrival's time is kept.
    #[inline]
    pub fn set_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Bytes that it has allocated.
    pub fn memory_bytes(&self) -> usize {
        let waits = self.book.as_ref().and_then(Book::waits);
        self.arrivals.memory_bytes() + waits.map_or(0, |waits| size_of::<WaitTimes>() + waits.memory_bytes())
    }

    /// Moves its memory if the mover asks for it.
    pub(crate) fn relocate(&mut self, mover: &mut dyn Mover) {
        self.arrivals.relocate(mover);
        if let Some(waits) = self.book.as_mut().and_then(|book| book.waits.as_mut()) {
            move_box(waits, mover);
        }
    }

    /// When the elements arrived.
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Whether consumers should find the queue empty.
    #[inline]
    pub fn is_paused(&self) -> bool {
        self.book.as_ref().is_some_and(|book| book.figures.is_paused())
    }

    /// The records of the queue; `None` if the list is not a queue.
    pub fn book(&self) -> Option<&Book> {
        self.book.as_ref()
    }

    /// Makes the list a queue from now on; it has `len` elements, and was used like that before.
    pub fn open(&mut self, book: Book, len: usize, shown: Shown) {
        book.figures.learn_taken_at(shown);
        self.book = Some(book);
        self.tell(len);
    }

    /// Ends observing the list as a queue. Returns the record of the queue, which now has no elements.
    pub fn close(&mut self) -> Option<Book> {
        let book = self.book.take()?;
        book.figures.depth.set(0);
        book.figures.oldest_ms.set(0);
        Some(book)
    }

    /// Updates the figures that are not kept current all the time; `memory_bytes` is the size of the elements.
    pub fn refresh(&mut self, now_ms: u64, memory_bytes: usize) {
        if let Some(book) = &mut self.book {
            book.refresh(now_ms, Some(memory_bytes));
        }
    }

    /// Notes that a client has pushed at this end.
    #[inline]
    pub(crate) fn pushed_by_client(&mut self, end: End) {
        if let Some(book) = &self.book {
            book.figures.note_push(end);
        }
    }

    // Functions of their own, so that the fast path saves no registers, neither here nor in the callers.
    #[inline(never)]
    pub(crate) fn pushed(&mut self, end: End, count: usize, len: usize) {
        if !self.pushed_again(end, count, len) {
            self.pushed_anew(end, count, len);
        }
    }

    /// Fast path: elements arrived in the same millisecond as the previous ones.
    #[inline]
    fn pushed_again(&mut self, end: End, count: usize, len: usize) -> bool {
        let Some(book) = self.book.as_ref().filter(|book| self.now_ms < book.quiet_ms) else { return false };
        let is_again = self.arrivals.grow(end, count, self.now_ms);
        if is_again {
            book.figures.pushed.add(count as u64);
            book.figures.depth.set(len as u64);
        }
        is_again
    }

    #[cold]
    fn pushed_anew(&mut self, end: End, count: usize, len: usize) {
        self.arrivals.push(end, count, self.now_ms);
        if let Some(book) = &mut self.book {
            book.count(self.now_ms, |book| book.figures.pushed.add(count as u64));
        }
        self.tell(len);
    }

    #[inline(never)]
    pub(crate) fn popped(&mut self, end: End, len: usize) {
        if !self.popped_again(end, len) {
            self.popped_anew(end, len);
        }
    }

    /// Fast path: the element waited as long as the previous one, and its run has further elements.
    #[inline]
    fn popped_again(&mut self, end: End, len: usize) -> bool {
        let Some(book) = self.book.as_mut().filter(|book| self.now_ms < book.quiet_ms) else { return false };
        let Some(run) = self.arrivals.run_at(end).filter(|run| run.count() > 1) else { return false };
        let wait_ms = self.now_ms.saturating_sub(run.time());
        let is_again = book.waits.as_mut().is_some_and(|waits| waits.repeat(wait_ms));
        if is_again {
            *run = run.shrunk(1);
            book.figures.note_pop(end);
            book.figures.popped.add(1);
            book.figures.depth.set(len as u64);
        }
        is_again
    }

    #[cold]
    fn popped_anew(&mut self, end: End, len: usize) {
        let (came_ms, now_ms) = (self.arrivals.pop(end), self.now_ms);
        if let Some(book) = &mut self.book {
            book.figures.note_pop(end);
            book.count(now_ms, |book| book.taken(now_ms, now_ms.saturating_sub(came_ms)));
        }
        self.tell(len);
    }

    pub(crate) fn inserted(&mut self, index: usize, len: usize) {
        self.arrivals.insert(index);
        self.tell(len);
    }

    pub(crate) fn removed(&mut self, index: usize, count: usize, len: usize) {
        self.arrivals.remove(index, count);
        self.tell(len);
    }

    pub(crate) fn trimmed(&mut self, start: usize, len: usize) {
        self.arrivals.trim(start, len);
        self.tell(len);
    }

    fn tell(&self, len: usize) {
        if let Some(book) = &self.book {
            book.figures.depth.set(len as u64);
            book.figures.oldest_ms.set(self.arrivals.oldest().unwrap_or(0));
        }
    }
}

impl Book {
    /// The record of a queue that has just become known.
    pub fn new(figures: Arc<Figures>) -> Book {
        let quiet_ms = if figures.is_counted() { figures.first_ms + FOLD_MS } else { 0 };
        Book { figures, waits: None, quiet_ms }
    }

    /// The figures, which any thread may read.
    pub fn figures(&self) -> &Arc<Figures> {
        &self.figures
    }

    /// Waiting times of the taken elements; `None` if none was taken.
    pub fn waits(&self) -> Option<&WaitTimes> {
        self.waits.as_deref()
    }

    fn taken(&mut self, now_ms: u64, wait_ms: u64) {
        let figures = &self.figures;
        figures.popped.add(1);
        let waits = self.waits.get_or_insert_default();
        waits.record(now_ms, wait_ms, |count, wait_ms| figures.active().count_waits(count, wait_ms));
        self.quiet_ms = self.quiet_ms.min(waits.slot_end_ms());
    }

    /// Counts arriving or taken elements, unless they are only replayed. Updates the rates first, so that these
    /// elements do not count for the quiet time before.
    fn count(&mut self, now_ms: u64, count: impl FnOnce(&mut Book)) {
        if now_ms < self.quiet_ms {
            count(self);
        } else if self.figures.is_counted() {
            self.figures.fold(now_ms);
            count(self);
            self.refresh(now_ms, None);
        }
    }

    /// Updates the figures that are not kept current all the time; without `memory_bytes`, not the memory.
    pub fn refresh(&mut self, now_ms: u64, memory_bytes: Option<usize>) {
        match memory_bytes {
            Some(bytes) => self.figures.measure(now_ms, bytes as u64),
            None => self.figures.fold(now_ms),
        }
        self.quiet_ms = now_ms + FOLD_MS;
        if let Some(waits) = &mut self.waits {
            self.quiet_ms = self.quiet_ms.min(waits.slot_end_ms());
            let figures = &self.figures;
            waits.settle(|count, wait_ms| figures.active().count_waits(count, wait_ms));
            let minute = waits.quantiles(now_ms, PERIODS_S[0]);
            let shown = minute.map_or([0; 3], |all| [all.p50_ms, all.p99_ms, all.max_ms]);
            let kept = &self.figures.active().last_minute_ms;
            kept.iter().zip(shown).for_each(|(kept, shown)| kept.set(shown));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_a_quiet_time_counts_as_new() {
        let mut seen = Seen::default();
        seen.open(Book::new(Arc::new(Figures::new(b"queue:a", 1, 0, 0))), 0, Shown::default());
        let figures = Arc::clone(seen.book().expect("it is a queue").figures());
        seen.set_time(60_000);
        seen.pushed(End::Head, 1000, 1000);
        assert_eq!(figures.rates(60_000)[0][0].round(), 100.0);
        seen.set_time(120_000);
        for len in (900..1000).rev() {
            seen.popped(End::Tail, len);
        }
        assert_eq!(figures.rates(120_000)[1][0].round(), 10.0);
        assert_eq!(figures.last_ms(), [Some(60_000), Some(120_000)]);
    }

    #[test]
    fn what_is_done_again_is_not_counted() {
        let figures = Arc::new(Figures::new(b"queue:a", 1, 0, 0));
        figures.set_counted(false);
        let mut seen = Seen::default();
        seen.open(Book::new(Arc::clone(&figures)), 0, Shown::default());
        seen.pushed(End::Head, 3, 3);
        seen.popped(End::Tail, 2);
        assert_eq!((figures.depth.get(), figures.pushed.get(), figures.popped.get()), (2, 0, 0));
        assert!(seen.book().is_some_and(|book| book.waits().is_none()) && figures.activity().is_none());
    }
}
