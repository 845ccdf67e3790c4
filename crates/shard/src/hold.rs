//! The shards that one thread holds, and how it comes to hold several.
//!
//! *One shard*: enter it, or delegate and forget about it.
//!
//! *Several*: enter them in ascending order, spinning briefly at one that is taken. If it stays taken, let go
//! of everything entered so far, queue a task at that shard, and try again when its holder reports. So nobody
//! who waits without limit holds anything, and there is no deadlock. A transaction that was unlucky
//! [`PATIENCE_AFTER`] times takes the [`Patience`] token, of which there is one, and spins a hundred times as long
//! while it holds what it has: the others still wait only briefly, so it gets through. It never gives up the processor
//! meanwhile: where other processes want it, that would cost a slice of the scheduler, and everybody else the shards that
//! it holds.
//!
//! *Out of order* (a script touches a key that it did not declare): only try; if the shard is taken and nothing
//! was written, the script runs again with the shard among those entered in order. If it wrote already, it cannot be
//! undone, and must wait while it holds:
//!
//! ```text
//!   it holds the roaming shard    asks for the shard that it wants (`handover.rs`), for as long as that takes
//!   it does not                   asks for the roaming shard first, and meanwhile *lends* what it holds to the
//!                                 one that holds it, and so takes it back before it goes on
//! ```
//!
//! Nobody waits in a circle: a shard that is asked for is held by somebody who runs, and leaves it in the end; or who waits
//! briefly, and then lets go; or who waits for the roaming shard, and lends it. There is one roaming shard, so there is
//! never a second who holds it and waits.
//!
//! *Kept* shards: a bounded drain may end with tasks left over. The thread then keeps the baton into its next
//! turn. It may enter a shard that it keeps; it must not sleep while it keeps one.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::baton::Delegated;
use crate::cached_keys::Prefixes;
use crate::handover::HandOver;
use crate::interrupt::interrupt;
use crate::placement::ShardId;
use crate::shard::Shard;
use crate::shards::{Backlog, Shards};
use crate::sync::{AtomicBool, Ordering};

/// Looks at a taken baton before letting go of everything: about 2 µs, a few commands' length.
const SPINS_MAX: u32 = if cfg!(loom) { 1 } else { 48 };
/// The same for the one that has the token: about 0.2 ms. Counted, not timed: nothing here reads a clock.
const PATIENT_SPINS_MAX: u32 = if cfg!(loom) { 2 } else { 100 * SPINS_MAX };
/// Unlucky tries of a wide transaction after which it asks for the token.
pub const PATIENCE_AFTER: u32 = 8;

/// The right to wait longer for a shard while holding others; one for all threads.
#[derive(Debug)]
pub struct Patience(AtomicBool);

impl Default for Patience {
    fn default() -> Self {
        Patience(AtomicBool::new(false))
    }
}

impl Patience {
    /// Takes the token if it is free.
    pub fn try_take(&self) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }

    /// Puts the token back.
    pub fn put_back(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The shards that a thread holds just now: those of the running transaction, in ascending order, and those it
/// keeps because their backlog was not done.
pub struct Hold<'s, T, W> {
    shards: &'s Shards<T, W>,
    entered: SmallVec<[ShardId; 8]>,
    /// One of the entered ones, looked at first.
    focus: Option<ShardId>,
    kept: SmallVec<[ShardId; 4]>,
    /// What was changed in held shards was recorded, and the record is not published yet.
    has_unpublished: bool,
}

/// Shards that are held by nobody and entered all the same: by whoever [takes](Hold::take) them. If nobody does, nobody ever enters them again.
#[derive(Debug)]
#[must_use]
pub struct Lent(SmallVec<[ShardId; 8]>);

impl<'s, T, W> Hold<'s, T, W> {
    /// Nothing held.
    pub fn new(shards: &'s Shards<T, W>) -> Self {
        Hold { shards, entered: SmallVec::new(), focus: None, kept: SmallVec::new(), has_unpublished: false }
    }

    /// All shards, held or not.
    pub fn shards(&self) -> &'s Shards<T, W> {
        self.shards
    }

    /// The shards of the running transaction, ascending.
    pub fn entered(&self) -> &[ShardId] {
        &self.entered
    }

    /// The shards kept into the next turn.
    pub fn kept(&self) -> &[ShardId] {
        &self.kept
    }

    /// Whether a change was recorded that is not published.
    #[inline]
    pub fn has_unpublished(&self) -> bool {
        self.has_unpublished
    }

    /// Notes whether a change was recorded that is not published. No shard is left before it is.
    pub fn note_unpublished(&mut self, has_unpublished: bool) {
        self.has_unpublished = has_unpublished;
    }

    /// Whoever enters a shard next may see all that was changed there: so all of it must have its place in the log.
    #[inline]
    fn check_published(&self) {
        debug_assert!(!self.has_unpublished, "a shard is left before what was changed there is published");
    }

    /// Whether the running transaction entered `id`.
    #[inline]
    pub fn has(&self, id: ShardId) -> bool {
        self.focus == Some(id) || self.entered.binary_search(&id).is_ok()
    }

    /// The same for the shard that will be asked for again and again.
    #[inline]
    pub fn focus(&mut self, id: ShardId) -> bool {
        let has = self.has(id);
        if has {
            self.focus = Some(id);
        }
        has
    }

    /// Enters `id` if it is free, kept or entered already.
    #[inline]
    pub fn try_enter(&mut self, id: ShardId) -> bool {
        if self.has(id) {
            return true;
        }
        interrupt();
        if !self.kept.contains(&id) && !self.shards.baton(id).try_enter() {
            return false;
        }
        self.add(id);
        true
    }

    /// Enters `id`, or leaves `node` with its holder: then `None`.
    #[must_use]
    pub fn enter_or_delegate(&mut self, id: ShardId, node: Box<Delegated<T>>) -> Option<Box<Delegated<T>>> {
        if self.has(id) || self.kept.contains(&id) {
            self.add(id);
            return Some(node);
        }
        interrupt();
        let node = self.shards.baton(id).enter_or_delegate(node)?;
        self.add(id);
        Some(node)
    }

    /// Enters all of `ids`, which ascend. The error is the shard that stayed taken: those before it are entered, and
    /// the caller has to leave them.
    pub fn try_enter_all(&mut self, ids: &[ShardId], patient: bool) -> Result<(), ShardId> {
        debug_assert!(ids.is_sorted(), "shards are entered in ascending order");
        for &id in ids {
            if !self.try_enter(id) && !self.wait(id, patient) {
                return Err(id);
            }
        }
        Ok(())
    }

    /// Waits a short time for `id`; with the token (`patient`) longer, unless a script that wrote waits for a shard.
    pub fn wait(&mut self, id: ShardId, patient: bool) -> bool {
        interrupt();
        let more = if patient { PATIENT_SPINS_MAX } else { 0 };
        for spin_count in 0..SPINS_MAX + more {
            spin();
            if !self.shards.baton(id).is_held() && self.try_enter(id) {
                return true;
            }
            if spin_count >= SPINS_MAX {
                interrupt();
                if self.shards.is_asked_for() {
                    return false;
                }
            }
        }
        false
    }

    #[inline]
    fn add(&mut self, id: ShardId) {
        self.focus = Some(id);
        match self.entered.last() {
            None => self.entered.push(id),
            Some(last) if *last < id => self.entered.push(id),
            Some(_) => {
                if let Err(place) = self.entered.binary_search(&id) {
                    self.entered.insert(place, id);
                }
            }
        }
    }

    /// The data of `id`, which the running transaction must have entered.
    #[inline]
    pub fn shard(&self, id: ShardId) -> &Shard<W> {
        assert!(self.has(id), "shard {id:?} was not entered: the command's key specs are wrong");
        // SAFETY: this thread holds the baton, and `&self` keeps `shard_mut` away.
        unsafe { &*self.shards.shard_ptr(id) }
    }

    /// The data of `id` to change them; `id` must have been entered by the running transaction.
    #[inline]
    pub fn shard_mut(&mut self, id: ShardId) -> &mut Shard<W> {
        assert!(self.has(id), "shard {id:?} was not entered: the command's key specs are wrong");
        // SAFETY: this thread holds the baton, and `&mut self` is the only way to the data.
        unsafe { &mut *self.shards.shard_ptr(id) }
    }

    /// Changes the prefixes that clients track, which all shards share: all of them are entered.
    pub fn change_prefixes(&mut self, change: impl FnOnce(&mut Prefixes)) {
        // Taken out of all shards they are no longer shared, and are not copied to be changed.
        let mut taken = None;
        self.for_each_entered(|shard| taken = shard.tracking.take_prefixes().or(taken.take()));
        let mut prefixes = taken.unwrap_or_default();
        change(Arc::make_mut(&mut prefixes));
        let prefixes = Some(prefixes).filter(|prefixes| !prefixes.is_empty());
        self.for_each_entered(|shard| shard.tracking.set_prefixes(prefixes.clone()));
    }

    /// Shows `visit` the data of every shard of the running transaction. (The roaming one has none.)
    #[inline]
    pub fn for_each_entered(&mut self, mut visit: impl FnMut(&mut Shard<W>)) {
        let roaming = self.shards.roaming();
        for &id in self.entered.iter().filter(|id| **id != roaming) {
            // SAFETY: this thread holds the baton of what is entered, and `&mut self` is the only way to the data.
            visit(unsafe { &mut *self.shards.shard_ptr(id) });
        }
    }

    /// Gives `id`, which this thread holds, to whoever asked for it, with its mailbox and backlog.
    pub fn hand_over(&mut self, id: ShardId, to: HandOver) {
        assert!(self.has(id) || self.kept.contains(&id), "only a held shard can be given");
        self.check_published();
        self.forget(id);
        interrupt();
        to.give();
        interrupt();
    }

    /// Takes what was [given](crate::Answer::Given) to this thread: it holds `id` again or for the first time, for the
    /// running transaction or, if it is `kept`, beside it.
    pub fn accept(&mut self, id: ShardId, kept: bool) {
        if kept { self.keep(id) } else { self.add(id) }
    }

    /// Lends those shards of the running transaction that are `wanted`, until they are [taken](Self::take) by whoever is given them.
    pub fn lend(&mut self, wanted: impl Fn(ShardId) -> bool) -> Lent {
        self.check_published();
        let lent: SmallVec<[ShardId; 8]> = self.entered.iter().copied().filter(|id| wanted(*id)).collect();
        lent.iter().for_each(|id| self.forget(*id));
        Lent(lent)
    }

    /// Takes what another thread has lent: it is part of the running transaction.
    pub fn take(&mut self, lent: Lent) {
        lent.0.into_iter().for_each(|id| self.add(id));
    }

    /// The first task delegated to `id`, which this thread holds, that is `wanted`: taken out.
    pub fn take_first(&mut self, id: ShardId, wanted: impl Fn(&T) -> bool) -> Option<Box<Delegated<T>>> {
        assert!(self.has(id) || self.kept.contains(&id), "only the holder sees what was delegated");
        let tasks = self.shards.baton(id).take();
        let backlog = self.backlog(id);
        backlog.extend(tasks);
        let index = backlog.iter().position(|node| wanted(&node.task))?;
        backlog.remove(index)
    }

    /// Puts `node` before the tasks that wait at `id`, which this thread holds.
    pub fn put_first(&mut self, id: ShardId, node: Box<Delegated<T>>) {
        assert!(self.has(id) || self.kept.contains(&id), "only the holder has a backlog");
        self.backlog(id).push_front(node);
    }

    /// The next delegated task of `id`, which this thread holds; `None`: there was none, the baton was put back
    /// and `id` is not held any more.
    pub fn next_task_or_leave(&mut self, id: ShardId) -> Option<Box<Delegated<T>>> {
        assert!(self.has(id) || self.kept.contains(&id), "only a held shard can be left");
        loop {
            if let Some(node) = self.backlog(id).pop_front() {
                return Some(node);
            }
            self.check_published();
            interrupt();
            if self.shards.baton(id).try_leave() {
                self.forget(id);
                return None;
            }
            let tasks = self.shards.baton(id).take();
            self.backlog(id).extend(tasks);
        }
    }

    /// Puts `node` behind the tasks that wait at `id`, which this thread holds.
    pub fn put_off(&mut self, id: ShardId, node: Box<Delegated<T>>) {
        assert!(self.has(id) || self.kept.contains(&id), "only the holder has a backlog");
        let tasks = self.shards.baton(id).take();
        self.backlog(id).extend(tasks);
        self.backlog(id).push_back(node);
    }

    /// Shows everything that was delegated to `id`, which this thread holds, to `sift`; what that returns stays.
    pub fn sift_tasks(
        &mut self,
        id: ShardId,
        sift: impl FnMut(Box<Delegated<T>>) -> Option<Box<Delegated<T>>>,
    ) {
        assert!(self.has(id) || self.kept.contains(&id), "only the holder sees what was delegated");
        let tasks = self.shards.baton(id).take();
        let backlog = self.backlog(id);
        *backlog = std::mem::take(backlog).into_iter().chain(tasks).filter_map(sift).collect();
    }

    fn backlog(&mut self, id: ShardId) -> &mut Backlog<T> {
        // SAFETY: this thread holds the baton (asserted by the callers).
        unsafe { &mut *self.shards.backlog_ptr(id) }
    }

    /// Puts the baton of `id` back; if tasks were delegated meanwhile, keeps it instead, and the answer is false.
    pub fn leave_or_keep(&mut self, id: ShardId) -> bool {
        self.check_published();
        interrupt();
        if self.backlog(id).is_empty() && self.shards.baton(id).try_leave() {
            self.forget(id);
            interrupt();
            return true;
        }
        self.keep(id);
        false
    }

    /// Puts the batons of all shards of the running transaction back; false if it keeps some, because tasks were delegated.
    #[inline]
    pub fn leave_or_keep_all(&mut self) -> bool {
        let mut all_left = true;
        while let Some(&id) = self.entered.last() {
            all_left &= self.leave_or_keep(id);
        }
        all_left
    }

    /// Ends the running transaction at `id` without putting the baton back: the next turn goes on with its
    /// backlog.
    pub fn keep(&mut self, id: ShardId) {
        self.check_published();
        self.focus = None;
        self.entered.retain(|entered| *entered != id);
        if !self.kept.contains(&id) {
            self.kept.push(id);
        }
    }

    #[inline]
    fn forget(&mut self, id: ShardId) {
        self.focus = None;
        match self.entered.as_slice() {
            [.., last] if *last == id => _ = self.entered.pop(),
            _ => self.entered.retain(|entered| *entered != id),
        }
        if !self.kept.is_empty() {
            self.kept.retain(|kept| *kept != id);
        }
    }
}

#[inline]
fn spin() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use ds::hashing::Seed;

    use super::*;
    use crate::handover::{Answer, Asked};
    use crate::placement::Placement;

    #[test]
    fn lent_shards_are_free_for_nobody_but_whoever_takes_them() {
        let shards = Shards::<(), ()>::new(Placement::new(Seed::new(1), 4, None), 2, 1, 1);
        let [mut lender, mut helper, mut other] = [(); 3].map(|()| Hold::new(&shards));
        let ids: Vec<ShardId> = shards.ids().collect();
        lender.try_enter_all(&ids[..3], false).expect("they are free");
        let lent = lender.lend(|id| id.index() % 2 == 1);
        assert_eq!((lender.entered(), lender.has(ids[1])), (&[ids[0], ids[2]][..], false));
        assert!(!other.try_enter(ids[1]) && !lender.try_enter(ids[1]) && !helper.has(ids[1]));
        helper.take(lent);
        assert_eq!(helper.entered(), &ids[1..2]);
        lender.take(helper.lend(|_| true));
        assert_eq!((lender.entered(), helper.entered()), (&ids[..3], &[][..]));
        assert!(lender.leave_or_keep_all() && other.try_enter(ids[1]));
    }

    #[test]
    fn a_lent_shard_comes_back_before_anybody_else_sees_it() {
        let shards =
            Shards::<(&str, Option<HandOver>), ()>::new(Placement::new(Seed::new(1), 2, None), 2, 1, 1);
        let (mut lender, mut other) = (Hold::new(&shards), Hold::new(&shards));
        let id = ShardId(0);
        let request = |name| {
            let (asked, wish) = Asked::new();
            (asked, Delegated::new((name, Some(wish))))
        };
        assert!(lender.try_enter(id));
        let (asked, node) = request("other");
        assert!(other.enter_or_delegate(id, Delegated::new(("plain", None))).is_none());
        assert!(other.enter_or_delegate(id, node).is_none());
        let node = lender.take_first(id, |(_, wish)| wish.is_some()).expect("somebody asked");
        let (back, wish) = request("lender");
        lender.put_first(id, wish);
        lender.hand_over(id, node.task.1.expect("it asks"));
        assert!(!lender.has(id) && asked.answer() == Answer::Given);
        other.accept(id, false);
        assert!(!other.leave_or_keep(id), "it is asked for");
        let node = other.next_task_or_leave(id).expect("it is asked for");
        assert_eq!((node.task.0, back.answer()), ("lender", Answer::Waiting));
        other.hand_over(id, node.task.1.expect("it asks"));
        assert_eq!((back.answer(), other.kept()), (Answer::Given, &[][..]));
        lender.accept(id, false);
        assert_eq!(lender.next_task_or_leave(id).expect("it waits").task.0, "plain");
        assert!(lender.next_task_or_leave(id).is_none());
        // Who asks of a thread that has ended is told.
        assert!(lender.try_enter(id));
        let (asked, node) = request("late");
        assert!(other.enter_or_delegate(id, node).is_none());
        drop(lender.next_task_or_leave(id));
        assert_eq!(asked.answer(), Answer::Dropped);
    }
}
