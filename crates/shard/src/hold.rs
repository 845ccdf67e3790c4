//! The shards that one thread holds, and how it enters several.
//!
//! *One shard*: enter it, or delegate the task.
//!
//! *Several*: enter them in ascending order, and spin briefly at one that is taken. If it stays taken, leave
//! all shards entered so far, queue a task at that shard, and try again when its holder reports. So a thread
//! that waits without limit holds nothing, and there is no deadlock. A transaction that has failed
//! [`PATIENCE_AFTER`] times takes the one [`Patience`] token, and spins a hundred times as long while it
//! holds what it has: the others still wait only briefly, so it succeeds. It does not yield the processor
//! meanwhile: if other processes want it, yielding would cost a slice of the scheduler, during which all
//! other threads would lack the shards that it holds.
//!
//! *Out of order* (a script touches a key that it did not declare): only try. If the shard is taken and nothing was
//! written, the script runs again with that shard among those entered in order. If the script has written, it cannot be
//! undone, and must wait while it holds its shards:
//!
//! ```text
//!   it holds the roaming shard    asks for the shard that it wants (`handover.rs`), for as long as that takes
//!   it does not                   asks for the roaming shard first, and meanwhile *lends* what it holds to the
//!                                 one that holds it, and so takes it back before it goes on
//! ```
//!
//! There is no circular wait. A shard that is asked for is held by a thread that runs, and leaves it in the end; or
//! that waits briefly, and then leaves it; or that waits for the roaming shard, and lends it. There is one roaming
//! shard, so never a second thread that holds it and waits.
//!
//! *Kept* shards: a bounded drain may end with tasks left over. The thread then keeps the baton into its next turn. It
//! may enter a shard that it keeps; it must not sleep while it keeps one.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::baton::Delegated;
use crate::cached_keys::Prefixes;
use crate::handover::{Given, HandOver};
use crate::interrupt::interrupt;
use crate::placement::ShardId;
use crate::shard::Shard;
use crate::shards::{Backlog, Shards};
use crate::sync::{AtomicBool, Ordering};

/// How often a thread looks at a taken baton before it leaves everything: about 2 µs, the time of a few commands.
const SPINS_MAX: u32 = if cfg!(loom) { 1 } else { 48 };
/// The spins of a thread with the patience token: about 0.2 ms. Counted rather than timed, because nothing
/// here reads a clock.
const PATIENT_SPINS_MAX: u32 = if cfg!(loom) { 2 } else { 100 * SPINS_MAX };
/// Failed attempts of a transaction on several shards after which it asks for the token.
pub const PATIENCE_AFTER: u32 = 8;

/// No shard: there are fewer ([`Placement`](crate::placement::Placement) counts them in a `u16`, and one is roaming).
const NONE: ShardId = ShardId(u16::MAX);

/// The right to wait longer for a shard while holding others. There is one for all threads.
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

/// The shards that a thread holds: those of the running transaction, in ascending order, and those that it keeps
/// because their backlog is not done.
pub struct Hold<'s, T, W> {
    shards: &'s Shards<T, W>,
    entered: Vec<ShardId>,
    /// The entered shard that is checked first, or [`NONE`].
    focus: ShardId,
    /// The data of the shard in focus; null if nobody has used them.
    focused: *mut Shard<W>,
    kept: Vec<ShardId>,
    /// Whether a change in held shards was recorded, and the record is not published yet.
    has_unpublished: bool,
}

/// Shards that no thread holds but that are still taken, for the thread that [takes](Hold::take) them. If no
/// thread takes them, they can never be entered again.
#[derive(Debug)]
#[must_use]
pub struct Lent(SmallVec<[ShardId; 8]>);

impl Lent {
    /// The shards.
    pub fn ids(&self) -> &[ShardId] {
        &self.0
    }
}

impl<'s, T, W> Hold<'s, T, W> {
    /// A hold without shards.
    pub fn new(shards: &'s Shards<T, W>) -> Self {
        Hold {
            shards,
            entered: Vec::new(),
            focus: NONE,
            focused: std::ptr::null_mut(),
            kept: Vec::new(),
            has_unpublished: false,
        }
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

    /// Notes whether a recorded change is unpublished. No shard may be left before it is published.
    pub fn note_unpublished(&mut self, has_unpublished: bool) {
        self.has_unpublished = has_unpublished;
    }

    /// The next thread that enters a shard sees all changes made there, so they must have their place in the stream
    /// before.
    #[inline]
    fn check_published(&self) {
        assert!(!self.has_unpublished, "a shard is left before what was changed there is published");
    }

    /// Whether the running transaction entered `id`.
    #[inline]
    pub fn has(&self, id: ShardId) -> bool {
        self.focus == id || self.entered.binary_search(&id).is_ok()
    }

    /// Whether the running transaction entered `id`, for a shard that will be asked for repeatedly: makes it the focus.
    #[inline]
    pub fn focus(&mut self, id: ShardId) -> bool {
        if self.focus == id {
            return true;
        }
        let has = self.entered.binary_search(&id).is_ok();
        if has {
            self.look_at(id);
        }
        has
    }

    /// Makes `id`, which is entered, the focus.
    #[inline]
    fn look_at(&mut self, id: ShardId) {
        (self.focus, self.focused) = (id, self.shards.used_ptr(id));
    }

    /// Nothing is in focus: what was may be left.
    #[inline]
    fn look_away(&mut self) {
        self.focus = NONE;
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

    /// Enters `id`, or leaves `node` with its holder and returns `None`.
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

    /// Enters all of `ids`, which must ascend. The error is the first shard that stayed taken: those before it are
    /// entered, and the caller has to leave them.
    pub fn try_enter_all(&mut self, ids: &[ShardId], patient: bool) -> Result<(), ShardId> {
        debug_assert!(ids.is_sorted(), "shards are entered in ascending order");
        for &id in ids {
            if !self.try_enter(id) && !self.wait(id, patient) {
                return Err(id);
            }
        }
        Ok(())
    }

    /// Waits briefly for `id`; with the token (`patient`) longer, unless a script that has written waits for a shard.
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
        self.look_at(id);
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
        let is_in_focus = self.focus == id && !self.focused.is_null();
        let shard = if is_in_focus { self.focused } else { self.entered_ptr(id) };
        // SAFETY: this thread holds the baton, and `&self` keeps `shard_mut` away.
        unsafe { &*shard }
    }

    /// The data of `id`, to be changed; the running transaction must have entered it.
    #[inline]
    pub fn shard_mut(&mut self, id: ShardId) -> &mut Shard<W> {
        if self.focus != id || self.focused.is_null() {
            (self.focus, self.focused) = (id, self.entered_ptr(id));
        }
        // SAFETY: this thread holds the baton, and `&mut self` is the only way to the data.
        unsafe { &mut *self.focused }
    }

    /// The data of `id`, which the running transaction must have entered. Never null.
    #[inline(never)]
    fn entered_ptr(&self, id: ShardId) -> *mut Shard<W> {
        assert!(self.has(id), "shard {id:?} was not entered: the command's key specs are wrong");
        self.shards.shard_ptr(id)
    }

    /// Changes the tracked prefixes, which all shards share. All shards must be entered.
    pub fn change_prefixes(&mut self, change: impl FnOnce(&mut Prefixes)) {
        // Once taken out of all shards, they are not shared, so changing them does not copy them.
        let mut taken = None;
        self.for_each_entered(|shard| taken = shard.tracking.take_prefixes().or(taken.take()));
        let mut prefixes = taken.unwrap_or_default();
        change(Arc::make_mut(&mut prefixes));
        let prefixes = Some(prefixes).filter(|prefixes| !prefixes.is_empty());
        self.for_each_entered(|shard| shard.tracking.set_prefixes(prefixes.clone()));
    }

    /// The largest of these numbers of the shards of the running transaction. A shard that nobody has used has the
    /// default, and is not created to find that out.
    #[inline]
    pub fn largest_of_entered<N: Ord + Default>(&self, number: impl Fn(&Shard<W>) -> N) -> N {
        let mut largest = N::default();
        // A plain loop over pointers that are read once: it runs after each command.
        for id in &self.entered {
            let shard = self.shards.used_ptr(*id);
            if !shard.is_null() {
                // SAFETY: this thread holds the baton of what is entered, and `&self` keeps `shard_mut` away.
                largest = number(unsafe { &*shard }).max(largest);
            }
        }
        largest
    }

    /// Calls `visit` for every shard of the running transaction, except the roaming one, which has no data.
    #[inline]
    pub fn for_each_entered(&mut self, mut visit: impl FnMut(&mut Shard<W>)) {
        let roaming = self.shards.roaming();
        for &id in self.entered.iter().filter(|id| **id != roaming) {
            // SAFETY: this thread holds the batons of the entered shards, and `&mut self` is the only way to
            // the data.
            visit(unsafe { &mut *self.shards.shard_ptr(id) });
        }
    }

    /// Hands `id`, which this thread holds, over to the thread that asked for it, with its mailbox and backlog.
    pub fn hand_over(&mut self, id: ShardId, to: HandOver) {
        assert!(self.has(id) || self.kept.contains(&id), "only a held shard can be given");
        self.check_published();
        self.forget(id);
        interrupt();
        to.give(id);
        interrupt();
    }

    /// Takes a shard that was given to this thread, for the running transaction.
    pub fn accept(&mut self, given: Given) {
        self.add(given.shard());
    }

    /// Lends the shards of the running transaction that are `wanted`, until another thread [takes](Self::take) them.
    pub fn lend(&mut self, wanted: impl Fn(ShardId) -> bool) -> Lent {
        self.check_published();
        let lent: SmallVec<[ShardId; 8]> = self.entered.iter().copied().filter(|id| wanted(*id)).collect();
        lent.iter().for_each(|id| self.forget(*id));
        Lent(lent)
    }

    /// Takes shards that another thread has lent, for the running transaction.
    pub fn take(&mut self, lent: Lent) {
        lent.0.into_iter().for_each(|id| self.add(id));
    }

    /// Takes the first `wanted` task delegated to `id`, which this thread holds.
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

    /// The next delegated task of `id`, which this thread holds. `None` if there was none and the shard was left.
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

    /// Passes every task delegated to `id`, which this thread holds, to `sift`, and keeps those that `sift`
    /// returns.
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

    /// Leaves `id`. False if tasks were delegated meanwhile: then this thread keeps it.
    pub fn leave_or_keep(&mut self, id: ShardId) -> bool {
        assert!(self.has(id) || self.kept.contains(&id), "only a held shard can be left");
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

    /// Leaves all shards of the running transaction. False if it keeps some because tasks were delegated.
    #[inline]
    pub fn leave_or_keep_all(&mut self) -> bool {
        let mut all_left = true;
        while let Some(&id) = self.entered.last() {
            all_left &= self.leave_or_keep(id);
        }
        all_left
    }

    /// Ends the running transaction at `id` without leaving it: the next turn continues with its backlog.
    pub fn keep(&mut self, id: ShardId) {
        assert!(self.has(id) || self.kept.contains(&id), "only a held shard can be kept");
        self.check_published();
        self.look_away();
        self.entered.retain(|entered| *entered != id);
        if !self.kept.contains(&id) {
            self.kept.push(id);
        }
    }

    #[inline]
    fn forget(&mut self, id: ShardId) {
        self.look_away();
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
        let (mut asked, node) = request("other");
        assert!(other.enter_or_delegate(id, Delegated::new(("plain", None))).is_none());
        assert!(other.enter_or_delegate(id, node).is_none());
        let node = lender.take_first(id, |(_, wish)| wish.is_some()).expect("somebody asked");
        let (mut back, wish) = request("lender");
        lender.put_first(id, wish);
        lender.hand_over(id, node.task.1.expect("it asks"));
        assert!(!lender.has(id));
        let Answer::Given(given) = asked.answer() else { panic!("it was given") };
        other.accept(given);
        assert!(!other.leave_or_keep(id), "it is asked for");
        let node = other.next_task_or_leave(id).expect("it is asked for");
        assert_eq!((node.task.0, back.answer()), ("lender", Answer::Waiting));
        other.hand_over(id, node.task.1.expect("it asks"));
        assert_eq!(other.kept(), &[]);
        let Answer::Given(given) = back.answer() else { panic!("it was given back") };
        lender.accept(given);
        assert_eq!(lender.next_task_or_leave(id).expect("it waits").task.0, "plain");
        assert!(lender.next_task_or_leave(id).is_none());
        // A thread that asks a thread that has ended is told so.
        assert!(lender.try_enter(id));
        let (mut asked, node) = request("late");
        assert!(other.enter_or_delegate(id, node).is_none());
        drop(lender.next_task_or_leave(id));
        assert_eq!(asked.answer(), Answer::Dropped);
    }
}
