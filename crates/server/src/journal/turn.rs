//! What the journal is to a turn of a thread: replies wait for it.
//!
//! With `appendfsync always` nobody sees what a power failure could undo. While commands run, `Tx::seen` gathers the last slice of which
//! something was seen or changed. What they reply to one client, in one go, waits for that slice as a whole: a mark for each
//! reply would let go only what the slice before it made durable a moment earlier. Everything else goes on: the thread, other
//! clients, and other commands of the same client.

use command::Tx;
use command::mutant::{self, Mutant};
use proactor::Driver;
use resp::{Mark, Output};

use super::Journal;

impl Journal {
    /// Has what was written to `out` since `mark` wait until everything that it tells of, which `tx` has seen, is durable.
    #[inline]
    pub(crate) fn hold(&self, tx: &mut Tx, mark: Mark, out: &mut Output) {
        if tx.seen > 0 {
            let slice = std::mem::take(&mut tx.seen);
            if slice > self.progress.durable() && !mutant::is_on(Mutant::ReplyAtOnce) {
                out.hold_from(mark, slice);
            }
        }
    }

    /// Has thread number `thread`, which waits for slice `awaited` itself, send what waited for slices that are durable by now. False: even
    /// more is by now, so it must not sleep.
    #[inline]
    pub(crate) fn release(&self, thread: u16, driver: &mut Driver, awaited: Option<u64>) -> bool {
        (!driver.is_holding() && awaited.is_none()) || self.release_durable(thread, driver, awaited)
    }

    #[inline(never)]
    fn release_durable(&self, thread: u16, driver: &mut Driver, awaited: Option<u64>) -> bool {
        if driver.is_holding() {
            driver.release(self.progress.durable());
        }
        // That a journal has its first base all threads hear.
        let awaited = awaited.filter(|_| !self.awaits_first_base());
        match [driver.held_for(), awaited].into_iter().flatten().min() {
            Some(slice) => self.progress.awaits(usize::from(thread), slice),
            None => true,
        }
    }

    /// The last slice that a crash leaves, with all before it. As long as a journal has no base it leaves none.
    pub(crate) fn kept(&self) -> u64 {
        if self.awaits_first_base() { 0 } else { self.progress.durable() }
    }

    /// The slice for which somebody has to wait who wants everything that was committed before to be durable; `None`: it is. A journal that
    /// is still to begin keeps nothing.
    pub(crate) fn unkept(&self) -> Option<u64> {
        let open = self.log.slice();
        if !self.is_on() {
            return Some(open.max(self.progress.durable() + 1));
        }
        (self.log.has_pending() || self.kept() + 1 < open).then_some(open)
    }
}
