//! Applies slices with several threads.
//!
//! ```text
//!   the caller reads ──▶ raw ▒▒▒ ──▶ any worker deals ──▶ dealt ▒▒▒ ──▶ worker 0 applies list 0 ─┐
//!                                                                   ──▶ worker 1 applies list 1 ─┴▶ all have: the batch goes
//! ```
//!
//! Each worker has the shards of one group, and applies the lists of that group in order. If its next list is
//! not ready, it deals the next batch. If there is no such batch, it sleeps. At most [`UNDER_WAY_MAX`]
//! batches for each worker are in memory. After a large batch, nothing is read until it has been applied.
//!
//! A step that needs several groups is in the list of each, with a [`Meeting`]. Each worker that reaches it
//! leaves the shards that the step needs, and the last one enters all of them and runs it. All lists have the
//! same order, so there is no circular wait: consider the first step in the stream that workers wait for. All
//! of them are ahead of everything before it, and its batch has been dealt.
//!
//! The caller also changes the libraries of functions, batch after batch.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shard::ShardId;
use smallvec::SmallVec;

use super::apply::{Applier, change_libraries};
use super::deal::{Batch, Dealer, Dealt, group_of};
use super::{Input, UNDER_WAY_MAX};
use crate::error::Error;
use crate::load::{Extras, on_heap_to_serve};
use crate::runner::{LoadStage, Runner};

/// After a batch larger than this, nothing is read until it has been applied.
const LARGE_BYTES: usize = 4 * 1024 * 1024;
/// The number of checks of a meeting before a thread sleeps.
const SPINS_MAX: u32 = 200;
/// The time that it sleeps there before it checks whether another group has failed.
const FAILURE_LOOK: Duration = Duration::from_millis(20);

/// Brings groups together for a step that needs shards of each.
pub(super) struct Meeting {
    ids: SmallVec<[ShardId; 8]>,
    group_count: usize,
    arrived: Mutex<usize>,
    is_over: AtomicBool,
    ended: Condvar,
}

impl Meeting {
    /// Creates a meeting of this many groups, which together have these shards, ascending.
    pub(super) fn new(group_count: usize, ids: SmallVec<[ShardId; 8]>) -> Meeting {
        assert!(ids.is_sorted(), "they are looked for");
        let (arrived, is_over, ended) = (Mutex::new(0), AtomicBool::new(false), Condvar::new());
        Meeting { ids, group_count, arrived, is_over, ended }
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = ShardId> + '_ {
        self.ids.iter().copied()
    }

    pub(super) fn needs(&self, id: ShardId) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    /// Lets a group arrive. Returns true if it is the last one. All others leave their shards first.
    pub(super) fn arrive(&self, leave: impl FnOnce()) -> bool {
        let mut arrived = lock(&self.arrived);
        *arrived += 1;
        assert!(*arrived <= self.group_count, "more have come than were asked");
        if *arrived == self.group_count {
            return true;
        }
        leave();
        false
    }

    /// Ends the meeting: the last one has run the step.
    pub(super) fn end(&self) {
        let arrived = lock(&self.arrived);
        self.is_over.store(true, Ordering::Release);
        drop(arrived);
        self.ended.notify_all();
    }

    /// Waits for the end. Returns false if another group has failed, so that the end may never come.
    pub(super) fn wait(&self, has_failed: &dyn Fn() -> bool) -> bool {
        for _ in 0..SPINS_MAX {
            if self.is_over.load(Ordering::Acquire) {
                return true;
            }
            std::hint::spin_loop();
        }
        let mut arrived = lock(&self.arrived);
        while !self.is_over.load(Ordering::Acquire) {
            if has_failed() {
                return false;
            }
            let waited = self.ended.wait_timeout(arrived, FAILURE_LOOK);
            arrived = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// The state that the caller and the workers share.
struct Crew {
    state: Mutex<CrewState>,
    changed: Condvar,
    /// Whether all work is over.
    is_over: AtomicBool,
}

struct CrewState {
    /// Batches that have not been dealt, with their numbers.
    raw: VecDeque<(u64, Batch)>,
    /// The batches from number `first` on that have been dealt.
    dealt: VecDeque<Option<Arc<Dealt>>>,
    first: u64,
    /// The number of applied batches, by group.
    applied: Vec<u64>,
    /// The number of keys, by group.
    key_counts: Vec<u64>,
    /// Whether no more batches follow.
    is_ended: bool,
    /// The first error.
    error: Option<Error>,
}

impl CrewState {
    fn next(&self) -> u64 {
        self.first + self.dealt.len() as u64
    }
}

/// The next work of a worker.
enum CrewWork {
    Deal(u64, Batch),
    Apply(Arc<Dealt>),
}

/// Applies everything with this many workers. Returns the database selected at the end, if known.
pub(super) fn apply_with(
    worker_count: usize,
    mut input: Input<'_>,
    extras: &mut dyn Extras,
) -> Result<Option<u32>, Error> {
    let crew = Crew {
        state: Mutex::new(CrewState {
            raw: VecDeque::new(),
            dealt: VecDeque::new(),
            first: 0,
            applied: vec![0; worker_count],
            key_counts: vec![0; worker_count],
            is_ended: false,
            error: None,
        }),
        changed: Condvar::new(),
        is_over: AtomicBool::new(false),
    };
    let (stage, table, dealer) = (input.stage, input.recovery.table, input.dealer(worker_count));
    let read = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..worker_count)
            .map(|group| {
                let crew = &crew;
                let work = move || {
                    // A worker that panics ends the waiting of all others.
                    let _end = EndOnPanic(crew);
                    let runner = Runner::new(stage, table, |id| group_of(id, worker_count) == group);
                    let mut applier = Applier { runner, table, group, group_count: worker_count };
                    crew.work(&mut applier, &dealer, stage);
                };
                scope.spawn(move || on_heap_to_serve(work))
            })
            .collect();
        let end = EndOnPanic(&crew);
        let read = crew.feed(&mut input, worker_count * UNDER_WAY_MAX, extras);
        if read.is_err() {
            crew.end();
        }
        drop(end);
        workers.into_iter().for_each(|worker| worker.join().expect("it did not panic"));
        read
    });
    let state = crew.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    // The error of a worker precedes one that the caller found later.
    state.error.map_or(read, Err)
}

/// Ends the work of all if the thread panics.
struct EndOnPanic<'a>(&'a Crew);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}

impl Crew {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn end(&self) {
        let state = lock(&self.state);
        self.is_over.store(true, Ordering::Relaxed);
        drop(state);
        self.changed.notify_all();
    }

    /// Reads batches to the end, and removes those that all groups have applied. Returns the database
    /// selected at the end, if known.
    fn feed(
        &self,
        input: &mut Input<'_>,
        under_way_max: usize,
        extras: &mut dyn Extras,
    ) -> Result<Option<u32>, Error> {
        let (stage, table) = (input.stage, input.recovery.table);
        let mut selected = None;
        loop {
            let batch = input.next_batch()?;
            let is_last = batch.is_none();
            let is_large = batch.as_ref().is_some_and(|batch| batch.bytes() > LARGE_BYTES);
            let mut state = lock(&self.state);
            if let Some(batch) = batch {
                let number = state.next();
                state.raw.push_back((number, batch));
                state.dealt.push_back(None);
            }
            state.is_ended |= is_last;
            self.changed.notify_all();
            let left_max = if is_last || is_large { 0 } else { under_way_max - 1 };
            loop {
                while state.applied.iter().all(|applied| *applied > state.first) {
                    let dealt = state.dealt.pop_front().flatten().expect("all have applied it");
                    state.first += 1;
                    stage.target.set_key_count(state.key_counts.iter().sum());
                    drop(state);
                    dealt.check_selected(&mut selected)?;
                    change_libraries(&dealt, table, extras)?;
                    state = lock(&self.state);
                }
                if self.is_over() || state.dealt.len() <= left_max {
                    break;
                }
                state = self.wait(state);
            }
            if is_last || self.is_over() {
                return Ok(selected);
            }
        }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, CrewState>) -> MutexGuard<'a, CrewState> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Deals and applies batches, to the end.
    fn work(&self, applier: &mut Applier<'_>, dealer: &Dealer<'_>, stage: &LoadStage<'_>) {
        let has_failed = || self.is_over();
        while let Some(work) = self.next_work(applier.group) {
            let done = match work {
                CrewWork::Deal(number, batch) => dealer.deal(batch).map(|dealt| {
                    let mut state = lock(&self.state);
                    let place = (number - state.first) as usize;
                    state.dealt[place] = Some(Arc::new(dealt));
                }),
                CrewWork::Apply(dealt) => applier.apply(&dealt, &has_failed).map(|()| {
                    applier.runner.settle(stage);
                    let key_count = applier.runner.key_count();
                    let mut state = lock(&self.state);
                    state.applied[applier.group] += 1;
                    state.key_counts[applier.group] = key_count;
                }),
            };
            match done {
                Ok(()) => self.changed.notify_all(),
                Err(error) => {
                    lock(&self.state).error.get_or_insert(error);
                    self.end();
                }
            }
        }
    }

    fn next_work(&self, group: usize) -> Option<CrewWork> {
        let mut state = lock(&self.state);
        loop {
            if self.is_over() {
                return None;
            }
            let number = state.applied[group];
            assert!(number >= state.first, "a batch goes when all have applied it");
            if let Some(Some(dealt)) = state.dealt.get((number - state.first) as usize) {
                return Some(CrewWork::Apply(Arc::clone(dealt)));
            }
            if let Some((number, batch)) = state.raw.pop_front() {
                return Some(CrewWork::Deal(number, batch));
            }
            if state.is_ended && number == state.next() {
                return None;
            }
            state = self.wait(state);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
