//! All shards of the store, shared by its threads.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};
use std::sync::{Arc, OnceLock};

use ds::hashing::Seed;
use ds::random::Random;
use keyspace::queue::Known;
use keyspace::{Tallies, Tally};

use crate::baton::{Baton, Delegated};
use crate::figures::Figures;
use crate::hold::Patience;
use crate::placement::{Placement, ShardId};
use crate::shard::Shard;
use crate::sync::{AtomicUsize, Ordering};

/// Tasks taken out of a shard's mailbox and not run yet, oldest first.
pub type Backlog<T> = VecDeque<Box<Delegated<T>>>;

/// One shard with its baton. Aligned to two cache lines, because the prefetcher fetches pairs.
#[repr(align(128))]
struct Cell<T, W> {
    baton: Baton<T>,
    home: u16,
    backlog: UnsafeCell<Backlog<T>>,
    /// The data; null until a holder of the baton asks for them. Owned: a leaked box.
    shard: AtomicPtr<Shard<W>>,
    /// The figures and tallies, which may be read without the baton.
    shown: OnceLock<(Arc<Figures>, Arc<Tallies>)>,
}

// A line more for each shard would be much for a server of many threads that has few data.
const _: () = assert!(size_of::<Cell<(), ()>>() == 128);

impl<T, W> Drop for Cell<T, W> {
    fn drop(&mut self) {
        let shard = *self.shard.get_mut();
        if !shard.is_null() {
            // SAFETY: `create` leaked this box, and nothing else refers to it.
            drop(unsafe { Box::from_raw(shard) });
        }
    }
}

/// All shards. `T` is a delegated task, `W` the data that a shard keeps of a waiting client.
pub struct Shards<T, W> {
    placement: Placement,
    cells: Box<[Cell<T, W>]>,
    patience: Patience,
    /// Scripts that have written and wait for a shard.
    asker_count: AtomicUsize,
    /// How often a random shard was chosen.
    chances: AtomicU64,
    seed: u64,
    key_seed: Arc<Seed>,
    db_count: u32,
    hides_due: AtomicBool,
    queues: Arc<Known>,
}

// SAFETY: the cells' contents are reached only through `shard_ptr` and `backlog_ptr`, whose callers hold the
// baton; taking and leaving it orders all accesses.
unsafe impl<T: Send, W> Sync for Shards<T, W> where Shard<W>: Send {}
// SAFETY: nothing in it is bound to a thread.
unsafe impl<T: Send, W> Send for Shards<T, W> where Shard<W>: Send {}

impl<T, W> Shards<T, W> {
    /// Empty shards, as many as `placement` has, each created when it is first used, dealt out to `thread_count` threads as their homes.
    pub fn new(placement: Placement, thread_count: u16, db_count: u32, seed: u64) -> Self {
        let key_seed = Arc::new(placement.seed().clone());
        let queues = Arc::<Known>::default();
        let cells = (0..=placement.shard_count())
            .map(|number| Cell {
                baton: Baton::default(),
                home: number % thread_count.max(1),
                backlog: UnsafeCell::default(),
                shard: AtomicPtr::default(),
                shown: OnceLock::new(),
            })
            .collect();
        Shards {
            placement,
            cells,
            patience: Patience::default(),
            asker_count: AtomicUsize::new(0),
            chances: AtomicU64::new(0),
            seed,
            key_seed,
            db_count,
            hides_due: AtomicBool::new(false),
            queues,
        }
    }

    /// The rule that places keys on shards.
    #[inline]
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Number of shards.
    pub fn len(&self) -> usize {
        usize::from(self.placement.shard_count())
    }

    /// Number of databases.
    pub fn db_count(&self) -> u32 {
        self.db_count
    }

    /// The shard after the last one, which has no keys. A script that may touch shards beyond those of its declared
    /// keys enters it, in order like any other. So only one such script runs at a time, and it may wait for a shard out
    /// of order as long as that takes (`hold.rs`).
    pub fn roaming(&self) -> ShardId {
        ShardId(self.placement.shard_count())
    }

    /// Always false: a store has at least one shard.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// All shards in ascending order.
    pub fn ids(&self) -> impl Iterator<Item = ShardId> + use<T, W> {
        (0..self.placement.shard_count()).map(ShardId)
    }

    /// The shards that were ever used, in ascending order: all others are empty. Call this while all shards
    /// are held, or where it does not matter that some are used meanwhile.
    pub fn used(&self) -> impl Iterator<Item = ShardId> + use<'_, T, W> {
        self.ids().filter(|id| self.is_used(*id))
    }

    /// Whether the shard was ever used.
    pub fn is_used(&self, id: ShardId) -> bool {
        !self.cells[id.index()].shard.load(Ordering::Relaxed).is_null()
    }

    /// The used shards that have `thread` as their home.
    pub fn used_at_home(&self, thread: u16) -> impl Iterator<Item = ShardId> + use<'_, T, W> {
        self.used().filter(move |id| self.home(*id) == thread)
    }

    /// The home thread of `id`.
    #[inline]
    pub fn home(&self, id: ShardId) -> u16 {
        self.cells[id.index()].home
    }

    /// Whether a thread holds `id` right now. Only a hint, which may be outdated.
    pub fn is_held(&self, id: ShardId) -> bool {
        self.baton(id).is_held()
    }

    /// The baton of `id`.
    #[inline]
    pub(crate) fn baton(&self, id: ShardId) -> &Baton<T> {
        &self.cells[id.index()].baton
    }

    /// The figures of the shards that were used, read without entering them.
    pub fn figures(&self) -> impl Iterator<Item = &Figures> {
        self.cells[..self.len()].iter().filter_map(|cell| Some(&*cell.shown.get()?.0))
    }

    /// The number of changes on all shards, exact if the caller has entered all of them.
    pub fn changes(&self) -> u64 {
        self.figures().map(|figures| figures.changes.get()).sum()
    }

    /// The size of a database on each shard where it was used, read without entering it. A thread that holds a shard
    /// sees its own changes here.
    pub fn tallies(&self, db: u32) -> impl Iterator<Item = &Tally> {
        self.tallies_by_shard(db).map(|(_, tally)| tally)
    }

    fn tallies_by_shard(&self, db: u32) -> impl Iterator<Item = (ShardId, &Tally)> {
        self.ids().filter_map(move |id| Some((id, self.cells[id.index()].shown.get()?.1.get(db)?)))
    }

    /// The known queues.
    pub fn queues(&self) -> &Arc<Known> {
        &self.queues
    }

    /// The number of keys in a database, expired ones included; it need not have been true at any moment.
    pub fn key_count(&self, db: u32) -> u64 {
        self.tallies(db).map(|tally| tally.keys.get()).sum()
    }

    /// A random shard, with a probability proportional to its keys in a database; `None` if there are no keys. It is
    /// not entered.
    pub fn any_with_keys(&self, db: u32) -> Option<ShardId> {
        let key_count = self.key_count(db);
        let number = self.chances.fetch_add(1, Ordering::Relaxed);
        let mut random = Random::new(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut index = random.below(key_count.max(1));
        // If keys are deleted meanwhile, the result is the last shard that has some.
        let mut last = None;
        for (id, tally) in self.tallies_by_shard(db) {
            let here = tally.keys.get();
            if here > 0 {
                last = Some(id);
            }
            if index < here {
                break;
            }
            index -= here;
        }
        last
    }

    /// The token that lets one thread at a time wait longer than the others.
    pub fn patience(&self) -> &Patience {
        &self.patience
    }

    /// Whether expired keys are hidden rather than deleted, because this is a replica and its primary says when keys
    /// go.
    #[inline]
    pub fn hides_due(&self) -> bool {
        // Relaxed: the thread that changes it holds all shards.
        self.hides_due.load(Ordering::Relaxed)
    }

    /// Sets [`hides_due`](Self::hides_due). Call this while all shards are held, so that it changes between
    /// transactions.
    pub fn set_hides_due(&self, hides_due: bool) {
        self.hides_due.store(hides_due, Ordering::Relaxed);
    }

    /// Whether a script that has written waits for a shard. A thread that holds several shards and may leave them
    /// should do so.
    pub fn is_asked_for(&self) -> bool {
        self.asker_count.load(Ordering::Relaxed) > 0
    }

    /// A script that has written begins (true) or ends waiting for a shard.
    pub fn note_asker(&self, begins: bool) {
        if begins {
            self.asker_count.fetch_add(1, Ordering::Relaxed);
        } else {
            self.asker_count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The data of `id`, or null if nobody has used them: to be used only while holding its baton.
    #[inline]
    pub(crate) fn used_ptr(&self, id: ShardId) -> *mut Shard<W> {
        // Relaxed: whoever has created it held the baton.
        self.cells[id.index()].shard.load(Ordering::Relaxed)
    }

    /// The data of `id`: to be used only while holding its baton.
    #[inline]
    pub(crate) fn shard_ptr(&self, id: ShardId) -> *mut Shard<W> {
        let shard = self.used_ptr(id);
        if shard.is_null() { self.create(id) } else { shard }
    }

    /// Creates the data of `id`. The memory of an empty shard is no data, so it does not count against `maxmemory`.
    #[cold]
    #[inline(never)]
    fn create(&self, id: ShardId) -> *mut Shard<W> {
        let cell = &self.cells[id.index()];
        let new = || Box::new(Shard::new(id, self.db_count, &self.key_seed, self.seed, &self.queues));
        let shard = heap::as_fixed(new);
        let shown = cell.shown.set((shard.stats.clone(), shard.dbs.tallies().clone()));
        assert!(shown.is_ok(), "a shard is created once, by the holder of its baton");
        let shard = Box::into_raw(shard);
        cell.shard.store(shard, Ordering::Relaxed);
        shard
    }

    /// The backlog of `id`: to be used only while holding its baton.
    #[inline]
    pub(crate) fn backlog_ptr(&self, id: ShardId) -> *mut Backlog<T> {
        self.cells[id.index()].backlog.get()
    }
}
