//! `maxmemory`: makes room when memory is short, and refuses what would need more.
//!
//! Before a command runs, its thread looks whether more memory is used than is allowed, over all threads (`heap::Gauge`), and
//! evicts keys until it is not, at most as long as `maxmemory-eviction-tenacity` says; what is left to be done is done in
//! the background of all threads. The shards from which it evicts it enters by trying, one at a time and holding no
//! other, so it waits for nobody.
//!
//! ```text
//!   a shard by chance, by its number of keys ──▶ sample ──▶ pool.rs: the best of the last samples ──▶ evict the best
//! ```
//!
//! Values of many elements are freed in slices, which counts as making room: nothing more is evicted while something is
//! left to be freed here.
//!
//! Not here: what counts an access (`keyspace::access`), what an eviction is to those who watch (`Store::evict`).

mod clients;
mod policy;
mod pool;

use std::sync::atomic::{AtomicU64, Ordering};

use command::{Client, Command, Flag, Route, Rule, Store};
use ds::random::Random;
use heap::Gauge;
use resp::Proto;
use shard::ShardId;

use crate::settings::{MAXMEMORY_EVICTION_TENACITY, MAXMEMORY_SAMPLES};
use crate::thread::{Thread, ThreadHost};
use pool::{Candidate, Pool};

pub(crate) use clients::RecentPeaks;
pub(crate) use policy::{Policy, Rank};

/// More samples than this are not taken at a time.
const SAMPLES_MAX: usize = 64;
/// Buckets of a table that one visit of a shard looks at to find what may be evicted: some 30 µs.
const BUCKETS_PER_VISIT: usize = 64;
/// Shards that are tried by chance before all of them are looked at.
const TRIES_BY_CHANCE: usize = 4;
/// How often all shards are tried, as long as some are taken and the others have nothing.
const TRIES_WHERE_TAKEN: u32 = 32;
/// Evictions, or slices of large values, between two looks at the clock.
const STEPS_PER_LOOK: u32 = 16;
/// One step of `maxmemory-eviction-tenacity`.
const TENACITY_NS: f64 = 50_000.0;

/// Whether there is room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Room {
    /// There is.
    #[default]
    Enough,
    /// There will be: evicting goes on.
    Soon,
    /// There is not, and there is nothing to be evicted.
    None,
}

/// What one thread knows of the memory.
#[derive(Debug)]
pub(crate) struct Eviction {
    gauge: Gauge,
    pool: Pool,
    random: Random,
    /// Keys that may be evicted on each shard, when it was last visited.
    weights: Vec<u32>,
    /// What became of the last attempt.
    room: Room,
}

/// For how long too much memory was used.
#[derive(Debug, Default)]
pub(crate) struct Exceeded {
    /// Since when it is, on the monotonic clock; 0: it is not.
    since_ms: AtomicU64,
    total_ms: AtomicU64,
}

impl Exceeded {
    pub(crate) fn note(&self, is_exceeded: bool, now_ms: u64) {
        if is_exceeded {
            let _ = self.since_ms.compare_exchange(0, now_ms.max(1), Ordering::Relaxed, Ordering::Relaxed);
            return;
        }
        match self.since_ms.swap(0, Ordering::Relaxed) {
            0 => {}
            since_ms => _ = self.total_ms.fetch_add(now_ms.saturating_sub(since_ms), Ordering::Relaxed),
        }
    }

    /// For how long now, and in all.
    pub(crate) fn current_and_total_ms(&self, now_ms: u64) -> (u64, u64) {
        let current_ms = match self.since_ms.load(Ordering::Relaxed) {
            0 => 0,
            since_ms => now_ms.saturating_sub(since_ms),
        };
        (current_ms, current_ms + self.total_ms.load(Ordering::Relaxed))
    }

    /// Begins anew.
    pub(crate) fn reset(&self) {
        self.since_ms.store(0, Ordering::Relaxed);
        self.total_ms.store(0, Ordering::Relaxed);
    }
}

/// What an attempt to evict a key came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// One is gone.
    Evicted,
    /// None was found so far.
    Searching,
    /// There may be some where somebody else is.
    Taken,
    /// There is none.
    Nothing,
}

impl Eviction {
    pub(crate) fn new(seed: u64, shard_count: usize) -> Eviction {
        Eviction {
            gauge: Gauge::default(),
            pool: Pool::default(),
            random: Random::new(seed),
            weights: vec![0; shard_count],
            room: Room::Enough,
        }
    }

    /// Whether the background has to go on at once.
    pub(crate) fn is_behind(&self) -> bool {
        self.room == Room::Soon
    }

    /// A shard, the more likely the more keys it had; also those that had none, more rarely.
    fn pick(&mut self) -> usize {
        let most = u64::from(self.weights.iter().copied().max().unwrap_or(0));
        let mut index = 0;
        for _ in 0..TRIES_BY_CHANCE * 2 {
            index = self.random.below(self.weights.len() as u64) as usize;
            if u64::from(self.weights[index]) + most / 16 >= self.random.below(most + 1) {
                break;
            }
        }
        index
    }
}

impl ThreadHost {
    /// Whether there was no room when the command of `client` came.
    pub(crate) fn lacked_room(&self, client: &Client) -> bool {
        client.lacks_room && self.shared.settings.memory_bytes_max() > 0
    }

    /// Whether a command of the current client is refused when there is no room.
    fn is_refused_without_room(&mut self, command: &Command, args: &[&[u8]]) -> bool {
        let table = &self.shared.table;
        let Some(multi) = self.session().multi.take() else { return self.needs_room(command, args) };
        let is_refused = if command.entry.route == Route::Queued {
            multi.queued.iter().any(|(id, args)| self.needs_room(table.get(*id), &args.slices()))
        } else {
            // Everything else would be queued, or wants to be.
            !command.entry.is_under(Rule::EndsMulti)
        };
        self.session().multi = Some(multi);
        is_refused
    }

    /// Whether a command may need memory: by its declaration, or that of its script.
    fn needs_room(&mut self, command: &Command, args: &[&[u8]]) -> bool {
        let Route::Script(callee) = command.entry.route else { return command.has(Flag::DenyOom) };
        self.called(args, callee).is_some_and(|program| {
            let flags = program.flags();
            flags.is_declared && !flags.allow_oom && !flags.no_writes
        })
    }

    /// How long evicting may hold up a command.
    fn eviction_ns_max(&self) -> u64 {
        match self.shared.settings.number(MAXMEMORY_EVICTION_TENACITY) {
            100 => u64::MAX,
            tenacity @ ..=10 => (TENACITY_NS * tenacity as f64) as u64,
            tenacity => (TENACITY_NS * 10.0 * 1.15_f64.powi((tenacity - 10) as i32)) as u64,
        }
    }

    /// Whether a thread has something left to free.
    fn anybody_has_garbage(&self) -> bool {
        self.shared.threads.iter().any(|thread| thread.stats.garbage.get() > 0)
    }
}

impl Thread {
    /// Makes room for a command of the current client; true if it is to be refused because there is none.
    #[inline]
    pub(crate) fn lacks_room(&mut self, command: &Command, args: &[&[u8]]) -> bool {
        let bytes_max = self.host.shared.settings.memory_bytes_max();
        if bytes_max == 0 {
            return false;
        }
        let eviction = &mut self.host.eviction;
        let is_well = eviction.gauge.bytes(bytes_max) <= bytes_max && eviction.room == Room::Enough;
        let room = if is_well { Room::Enough } else { self.make_room(bytes_max) };
        self.host.session().client.lacks_room = room == Room::None;
        room == Room::None && self.host.is_refused_without_room(command, args)
    }

    /// Goes on making room in the background; `is_round`: at least now and then.
    pub(crate) fn make_room_in_background(&mut self, is_round: bool) {
        let bytes_max = self.host.shared.settings.memory_bytes_max();
        let eviction = &mut self.host.eviction;
        if bytes_max == 0 && eviction.room == Room::Enough {
            return;
        }
        if is_round {
            eviction.gauge.read();
        }
        let is_over = bytes_max > 0 && eviction.gauge.bytes(bytes_max) > bytes_max;
        match eviction.room {
            Room::Enough if !is_over => {}
            // There was nothing to evict a moment ago.
            Room::None if is_over && !is_round => {}
            Room::Enough | Room::Soon | Room::None => _ = self.make_room(bytes_max),
        }
    }

    /// Evicts keys until no more memory is used than `bytes_max`, for a limited time.
    #[cold]
    fn make_room(&mut self, bytes_max: u64) -> Room {
        // Where clients are paused nothing changes, and a slow script holds shards.
        if self.host.pausing.is_on() || self.host.shared.scripts.is_busy() {
            self.host.eviction.room = Room::Enough;
            return Room::Enough;
        }
        let is_over = bytes_max > 0 && self.host.eviction.gauge.read() > bytes_max;
        let room = match self.host.shared.settings.policy() {
            _ if !is_over => Room::Enough,
            None => Room::None,
            Some(policy) => self.evict_down_to(bytes_max, policy),
        };
        self.host.eviction.room = room;
        self.host.shared.exceeded.note(room != Room::Enough, self.host.now_ms);
        room
    }

    fn evict_down_to(&mut self, bytes_max: u64, policy: Policy) -> Room {
        self.leave_all();
        self.run_length = 0;
        self.host.defrag.suspect();
        self.host.eviction.pool.begin(policy);
        let ns_max = self.host.eviction_ns_max();
        let started = self.host.driver.clock().ticks();
        let mut tries = 0;
        for step in 1_u32.. {
            if self.host.eviction.gauge.bytes(bytes_max) <= bytes_max {
                return Room::Enough;
            }
            if !self.host.free_slice() {
                match self.evict_one(policy) {
                    Step::Evicted | Step::Searching => {}
                    Step::Taken if tries < TRIES_WHERE_TAKEN => {
                        tries += 1;
                        std::hint::spin_loop();
                    }
                    Step::Taken => return Room::Soon,
                    Step::Nothing if self.host.anybody_has_garbage() => return Room::Soon,
                    Step::Nothing => return Room::None,
                }
            }
            let clock = self.host.driver.clock();
            if step % STEPS_PER_LOOK == 0 && clock.ticks_to_ns(started, clock.ticks()) > ns_max {
                return Room::Soon;
            }
        }
        Room::Soon
    }

    fn evict_one(&mut self, policy: Policy) -> Step {
        let found = self.sample(policy);
        loop {
            let Thread { tx, host, .. } = self;
            let Some(candidate) = host.eviction.pool.take_best(|id| tx.hold.try_enter(id)) else {
                self.leave_all();
                return found;
            };
            let is_evicted = self.evict_candidate(policy, candidate);
            self.tx.finish(&mut self.host);
            self.leave_all();
            if is_evicted {
                return Step::Evicted;
            }
        }
    }

    /// Evicts a candidate, whose shard is entered, unless it is gone or was used since it was sampled.
    fn evict_candidate(&mut self, policy: Policy, candidate: Candidate) -> bool {
        let db = &self.tx.hold.shard(candidate.shard).dbs[candidate.db as usize];
        let Some(record) = db.find_hashed(candidate.hash) else { return false };
        let score = policy.score(record, self.tx.config.lfu, self.tx.now);
        if score.is_none_or(|score| score < candidate.score) {
            return false;
        }
        let key: Box<[u8]> = record.key().into();
        Store::new(&mut self.tx, Client::internal(candidate.db, Proto::Resp2)).evict(&key);
        true
    }

    /// Puts candidates into the pool.
    fn sample(&mut self, policy: Policy) -> Step {
        for _ in 0..TRIES_BY_CHANCE {
            let index = self.host.eviction.pick();
            if self.sample_shard(policy, index) == Step::Searching {
                return Step::Searching;
            }
        }
        let count = self.host.eviction.weights.len();
        let first = self.host.eviction.random.below(count as u64) as usize;
        let mut found = Step::Nothing;
        for index in (first..count).chain(0..first) {
            match self.sample_shard(policy, index) {
                Step::Searching | Step::Evicted => return Step::Searching,
                Step::Taken => found = Step::Taken,
                Step::Nothing => {}
            }
        }
        found
    }

    /// Puts some candidates of a shard into the pool; `Searching` if there are any, though perhaps not found yet.
    fn sample_shard(&mut self, policy: Policy, index: usize) -> Step {
        let id = ShardId(index as u16);
        if !self.tx.hold.try_enter(id) {
            return Step::Taken;
        }
        let (lfu, now) = (self.tx.config.lfu, self.tx.now);
        let samples = (self.host.shared.settings.number(MAXMEMORY_SAMPLES) as usize).min(SAMPLES_MAX);
        let placement = self.host.shared.shards.placement();
        let eviction = &mut self.host.eviction;
        let shard = self.tx.hold.shard_mut(id);
        let mut weight = 0;
        for (number, db) in (0..).zip(&mut *shard.dbs) {
            let len = policy.eligible_len(db);
            if len == 0 {
                continue;
            }
            weight += len;
            let mut offer = |record: keyspace::RecordRef<'_>| {
                let Some(score) = policy.score(record, lfu, now) else { return false };
                let hash = placement.hash(record.key());
                eviction.pool.offer(Candidate { score, shard: id, db: number, hash });
                true
            };
            if policy == (Policy { only_volatile: false, rank: Rank::Chance }) {
                let (random, other_random) = (eviction.random.next_u64(), eviction.random.next_u64());
                db.random(random, other_random).map(offer);
                continue;
            }
            let mut left = if policy.rank == Rank::Chance { 1 } else { samples };
            db.sample(BUCKETS_PER_VISIT, &mut |record| {
                left -= usize::from(offer(record));
                left > 0
            });
        }
        eviction.weights[index] = weight.try_into().unwrap_or(u32::MAX);
        self.leave_all();
        if weight > 0 { Step::Searching } else { Step::Nothing }
    }
}
