//! Replies of a thread's turn that wait for the journal or for replicas.
//!
//! With `appendfsync always` nobody sees what a power failure could undo, and with `repl-sync-replicas` nobody sees
//! what a failover could undo. While commands run, `Tx::seen` collects the last slice of which something was read or
//! changed. All replies to one client in a turn wait for that slice together: with a mark for each reply, a reply would
//! be sent only a moment earlier, when the slice before is durable. Everything else continues: the thread, other
//! clients, and other commands of the same client.

use command::Tx;
use command::mutant::{self, Mutant};
use proactor::Driver;
use resp::{Mark, Output};

use crate::journal::Journal;

impl Journal {
    /// Has what was written to `out` since `mark` wait until everything that it tells of, which `tx` has seen, is durable.
    #[inline]
    pub fn hold(&self, tx: &mut Tx, mark: Mark, out: &mut Output) {
        if tx.seen > 0 {
            let slice = std::mem::take(&mut tx.seen);
            if slice > self.released(self.synced.wanted()) && !mutant::is_on(Mutant::ReplyAtOnce) {
                out.hold_from(mark, slice);
            }
        }
    }

    /// Has thread number `thread`, which waits for slice `awaited` itself, send what waited for slices that are durable by now. False: even
    /// more is by now, so it must not sleep.
    #[inline]
    pub fn release(&self, thread: u16, driver: &mut Driver, awaited: Option<u64>) -> bool {
        (!driver.is_holding() && awaited.is_none()) || self.release_durable(thread, driver, awaited)
    }

    #[inline(never)]
    fn release_durable(&self, thread: u16, driver: &mut Driver, awaited: Option<u64>) -> bool {
        if driver.is_holding() {
            driver.release(self.released(self.synced.wanted_by(usize::from(thread))));
        }
        // That a journal has its first base all threads hear.
        let awaited = awaited.filter(|_| !self.awaits_first_base());
        let waits_for_disk = |held: &u64| {
            self.synced.wanted_by(usize::from(thread)) == 0
                || self.holds_for_disk() && *held > self.progress.durable()
        };
        let held = driver.held_for().filter(waits_for_disk);
        match [held, awaited].into_iter().flatten().min() {
            Some(slice) => self.progress.awaits(usize::from(thread), slice),
            None => true,
        }
    }

    /// The last slice of which replies may tell that wait for so many replicas: it is durable, and these have it, as far as either is waited for.
    #[inline]
    fn released(&self, wanted: u64) -> u64 {
        let durable = self.progress.durable();
        match wanted {
            0 if self.is_on() => durable,
            // What was held for replicas, when they were wanted, no disk has to have.
            0 => durable.max(self.synced.slice()),
            _ if self.holds_for_disk() => durable.min(self.synced.slice()),
            _ => self.synced.slice(),
        }
    }

    /// Somebody waits until `slice` is durable. If it is written already, the sync comes with the one behind it, which is written for that.
    pub fn ask_for(&self, slice: u64) {
        self.progress.ask_for(slice.max(self.log.slice()));
    }

    /// The last slice that a crash leaves, with all before it. As long as a journal has no base it leaves none.
    pub fn kept(&self) -> u64 {
        if self.awaits_first_base() { 0 } else { self.progress.durable() }
    }

    /// The last slice that a crash leaves, and where in the stream that ends (0: that is not known); `None`: what comes is not kept, or not soon.
    pub fn durable_end(&self) -> Option<(u64, u64)> {
        let (policy, refusal) = (self.progress.policy(), self.progress.refusal());
        let is_asked = policy != journal::Policy::No && refusal == journal::Refusal::None;
        let slice = (is_asked && self.is_on() && !self.awaits_first_base()).then(|| self.progress.durable());
        slice.map(|slice| (slice, self.backlog.known_end_of(slice).unwrap_or(0)))
    }

    /// The last slice with something that was committed before; 0: all of it is durable.
    pub fn newest(&self) -> u64 {
        // In this order: what is no longer pending by now is in a slice before the one that is open then.
        let is_pending = self.log.has_pending();
        let newest = self.log.slice() - u64::from(!is_pending);
        if newest <= self.released(self.synced.wanted()) {
            return 0;
        }
        // That slice may be empty, and so not be written by itself.
        self.progress.ask_for(newest);
        newest
    }

    /// The slice for which a client has to wait that wants what it wrote, at last in slice `written`, to be durable; `None`: it is. A
    /// journal that is still to begin, or that has no base, keeps nothing of what was there before.
    pub fn unkept(&self, written: u64) -> Option<u64> {
        if !self.is_on() || self.awaits_first_base() {
            return Some(self.log.slice().max(self.progress.durable() + 1));
        }
        (written > self.kept()).then_some(written)
    }
}
