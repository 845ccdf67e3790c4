//! What the journal is to a turn of a thread: replies wait for it, and it is told what was committed.
//!
//! With `appendfsync always` nobody sees what a power failure could undo. While commands run, `Tx::seen` gathers the last slice of which
//! something was seen or changed. What they reply to one client, in one go, waits for that slice as a whole: a mark for each
//! reply would let go only what the slice before it made durable a moment earlier. Everything else goes on: the thread, other
//! clients, and other commands of the same client.

use resp::{Mark, Output};

use crate::thread::Thread;

impl Thread {
    /// Has what was written to `out` since `mark` wait until everything that it tells of is durable.
    #[inline]
    pub(crate) fn hold(&mut self, mark: Mark, out: &mut Output) {
        if self.tx.seen > 0 {
            let slice = std::mem::take(&mut self.tx.seen);
            if slice > self.host.shared.journal.progress.durable() {
                out.hold_from(mark, slice);
            }
        }
    }

    /// Lets go what waited for slices that are durable by now. False: even more is by now, so the thread must not sleep.
    pub(crate) fn release_held(&mut self) -> bool {
        let progress = &self.host.shared.journal.progress;
        if self.host.driver.held_for().is_none() {
            return true;
        }
        self.host.driver.release(progress.durable());
        match self.host.driver.held_for() {
            Some(slice) => progress.awaits(usize::from(self.host.id), slice),
            None => true,
        }
    }
}
