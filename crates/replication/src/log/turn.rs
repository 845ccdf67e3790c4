//! Holds replies of a thread's turn until the journal or replicas have their changes.
//!
//! With `appendfsync always`, no client sees a change that a power failure could undo, and with
//! `repl-sync-replicas` none sees one that a failover could undo. While commands run, `Tx::seen` collects the
//! last slice from which something was read or changed. All replies to one client in a turn wait for that
//! slice together: with a mark for each reply, a reply would be sent only a moment earlier, when the slice
//! before is durable. Everything else continues: the thread, other clients, and other commands of the same
//! client.

use effectlog::{Lsn, StreamPosition};
use engine::Tx;
use engine::mutant::{self, Mutant};
use proactor::{Driver, sooner};
use resp::{Mark, Output};

use crate::log::journal::ServerLog;

impl ServerLog {
    /// Holds the content of `out` since `mark` until all changes that it reports, which `tx` has seen, are
    /// durable.
    #[inline]
    pub fn hold(&self, tx: &mut Tx, mark: Mark, out: &mut Output) {
        if tx.seen != Lsn::NONE {
            let slice = std::mem::take(&mut tx.seen);
            let is_released = slice <= self.released(self.synced.wanted()) && !self.synced.group.is_on();
            if !is_released && !mutant::is_on(Mutant::ReplyAtOnce) {
                out.hold_from(mark, slice.get());
            }
        }
    }

    /// Lets thread number `thread` send replies whose slices are durable. `awaited` is the slice that the
    /// thread itself waits for. Returns false if more has become durable in the meantime, so the thread must
    /// not sleep.
    #[inline]
    pub fn release(&self, thread: u16, driver: &mut Driver, awaited: Option<Lsn>) -> bool {
        let is_plain = !driver.is_holding() && awaited.is_none() && !self.synced.group.is_on();
        is_plain || self.release_durable(thread, driver, awaited)
    }

    #[inline(never)]
    fn release_durable(&self, thread: u16, driver: &mut Driver, awaited: Option<Lsn>) -> bool {
        let (group, wanted) = (&self.synced.group, self.synced.wanted_by(usize::from(thread)));
        if driver.is_holding() && group.is_alone() {
            self.synced.cover_alone(|| self.log.slice());
        }
        if group.is_on() && wanted > 0 && !group.is_open(driver.clock().boot_ms()) {
            // Group rule 3: without the grants of all members nothing leaves that was read before. Whether this server still
            // leads does not matter: the thread has not heard yet that it does not.
            driver.release(Lsn::NONE.get());
        } else if driver.is_holding() || group.is_on() {
            driver.release(self.released(wanted).get());
        }
        // All threads are told anyway when a journal gets its first base.
        let awaited = awaited.filter(|_| !self.awaits_first_base());
        let waits_for_disk = |held: &Lsn| {
            self.synced.wanted_by(usize::from(thread)) == 0
                || self.holds_for_disk() && *held > self.progress.durable()
        };
        let held = driver.held_for().map(Lsn::new).filter(waits_for_disk);
        match sooner(held, awaited) {
            Some(slice) => self.progress.awaits(usize::from(thread), slice),
            None => true,
        }
    }

    /// The last slice whose changes replies may report if they wait for `wanted` replicas: it is durable and
    /// on these replicas, as far as either is required.
    #[inline]
    fn released(&self, wanted: u64) -> Lsn {
        let durable = self.progress.durable();
        match wanted {
            0 if self.is_on() => durable,
            // Replies held only for replicas need not wait for the disk.
            0 => durable.max(self.synced.slice()),
            _ if self.holds_for_disk() => durable.min(self.synced.slice()),
            _ => self.synced.slice(),
        }
    }

    /// Called when a client waits until `slice` is durable. If that slice has been written already, the sync
    /// comes with the slice after it, which is written for this purpose.
    pub fn ask_for(&self, slice: Lsn) {
        self.progress.ask_for(slice.max(self.log.slice()));
    }

    /// The last slice that has changes from before this call and may not survive a crash; `None` if all do. It is written
    /// and synced now.
    pub fn ask_for_all(&self) -> Option<Lsn> {
        let is_pending = self.log.has_pending();
        let open = self.log.slice();
        let newest = if is_pending { open } else { open.before() };
        if newest <= self.kept() {
            return None;
        }
        self.progress.ask_for(newest);
        Some(newest)
    }

    /// The last slice that survives a crash together with all slices before it. A journal without a base
    /// keeps nothing.
    pub fn kept(&self) -> Lsn {
        if self.awaits_first_base() { Lsn::NONE } else { self.progress.durable() }
    }

    /// The last slice that survives a crash, and its end in the stream (0 if that is unknown). `None` if later changes
    /// are not kept, or not soon.
    pub fn durable_end(&self) -> Option<(Lsn, StreamPosition)> {
        let (policy, refusal) = (self.progress.policy(), self.progress.refusal());
        let is_asked = policy != journal::Policy::No && refusal == journal::Refusal::None;
        let slice = (is_asked && self.is_on() && !self.awaits_first_base()).then(|| self.progress.durable());
        slice.map(|slice| (slice, self.backlog.known_end_of(slice).unwrap_or_default()))
    }

    /// The last slice that has changes from before this call; [`Lsn::NONE`] if all of them are durable.
    pub fn newest(&self) -> Lsn {
        let durable = self.progress.durable();
        // Read in this order: a change that is no longer pending now is in a slice before the one that is
        // open afterwards.
        let is_pending = self.log.has_pending();
        let open = self.log.slice();
        let newest = if is_pending { open } else { open.before() };
        assert!(durable <= newest, "slice {durable} is durable and still empty");
        if newest <= self.released(self.synced.wanted()) {
            return Lsn::NONE;
        }
        // That slice may be empty, and then it is not written by itself.
        self.progress.ask_for(newest);
        newest
    }

    /// The slice that a client must wait for until its changes, the last of them in slice `written`, are
    /// durable; `None` if they already are. A journal that has not begun or has no base keeps no earlier
    /// changes.
    pub fn unkept(&self, written: Lsn) -> Option<Lsn> {
        if !self.is_on() || self.awaits_first_base() {
            return Some(self.log.slice().max(self.progress.durable().next()));
        }
        assert!(written <= self.log.slice(), "slice {written} has changes and was never open");
        (written > self.kept()).then_some(written)
    }
}
