//! `maxmemory`: makes room when memory is short, and refuses commands that would need more.
//!
//! Before a command runs, its thread checks whether more memory is used than allowed, over all threads
//! (`heap::Gauge`; memory that the server itself needs, and memory that grows because keys are evicted, does
//! not count). If so, it evicts keys, at most as long as `maxmemory-eviction-tenacity` allows; all threads do
//! the rest in the background. A thread enters the shards from which it evicts by trying, one at a time and
//! holding no other, so it never waits.
//!
//! `limits.rs` says how much and how long, `search.rs` which keys. Values of many elements are freed in
//! slices, which counts as making room: nothing more is evicted while this thread still has something to
//! free.
//!
//! Not here: which commands are refused without room (`server`), how accesses are counted
//! (`keyspace::access`), all that an eviction entails (`Store::evict`).

mod limits;
mod pool;
mod search;

use std::sync::atomic::{AtomicU64, Ordering};

use heap::Gauge;
use keyspace::eviction::Policy;
use proactor::Clock;

pub use self::limits::{Limits, Lowered, client_bytes_max};
use self::search::{Search, Step};
use crate::Visits;

/// Maximum number of attempts while some shards are taken and the others have nothing to evict.
const TRIES_WHERE_TAKEN: u32 = 32;
/// Evictions, or slices of large values, between two reads of the clock.
const STEPS_PER_LOOK: u32 = 16;

/// Whether there is room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Room {
    /// There is room.
    #[default]
    Enough,
    /// There will be room: evicting continues.
    Soon,
    /// There is no room, and nothing can be evicted.
    None,
}

/// The decision when there may be too little room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plan {
    /// Do nothing: this is the state.
    Leave(Room),
    /// Evict keys by this policy.
    Evict(Policy),
}

/// The facts on which the decision to evict depends.
#[derive(Clone, Copy, Debug)]
pub struct Shortage<'e> {
    /// Maximum memory in use; 0: no limit.
    pub bytes_max: u64,
    /// Which keys may be evicted; `None`: no keys.
    pub policy: Option<Policy>,
    /// No room can be made now: clients are paused, a slow script holds shards, or this server hands over to
    /// another.
    pub is_held_up: bool,
    /// Where all threads record how long there was too little room.
    pub exceeded: &'e Exceeded,
    /// The time on the monotonic clock.
    pub now_ms: u64,
}

/// One thread's eviction.
#[derive(Debug)]
pub struct Eviction {
    gauge: Gauge,
    search: Search,
    /// Result of the last attempt.
    room: Room,
}

/// How long too much memory was used.
#[derive(Debug, Default)]
pub struct Exceeded {
    /// Since when the limit has been exceeded, on the monotonic clock; 0: it is not exceeded.
    since_ms: AtomicU64,
    total_ms: AtomicU64,
}

impl Exceeded {
    /// Records whether the limit is exceeded at `now_ms` on the monotonic clock.
    pub fn note(&self, is_exceeded: bool, now_ms: u64) {
        if is_exceeded {
            let _ = self.since_ms.compare_exchange(0, now_ms.max(1), Ordering::Relaxed, Ordering::Relaxed);
            return;
        }
        match self.since_ms.swap(0, Ordering::Relaxed) {
            0 => {}
            since_ms => _ = self.total_ms.fetch_add(now_ms.saturating_sub(since_ms), Ordering::Relaxed),
        }
    }

    /// How long the limit has been exceeded this time, and in total.
    pub fn current_and_total_ms(&self, now_ms: u64) -> (u64, u64) {
        let current_ms = match self.since_ms.load(Ordering::Relaxed) {
            0 => 0,
            since_ms => now_ms.saturating_sub(since_ms),
        };
        (current_ms, current_ms + self.total_ms.load(Ordering::Relaxed))
    }

    /// Resets both times to 0.
    pub fn reset(&self) {
        self.since_ms.store(0, Ordering::Relaxed);
        self.total_ms.store(0, Ordering::Relaxed);
    }
}

impl Default for Eviction {
    /// Without shards: a placeholder while the real one is on loan.
    fn default() -> Eviction {
        Eviction::new(0, 0)
    }
}

impl Eviction {
    /// The eviction of one thread, for a server with `shard_count` shards.
    pub fn new(seed: u64, shard_count: usize) -> Eviction {
        Eviction { gauge: Gauge::default(), search: Search::new(seed, shard_count), room: Room::Enough }
    }

    /// Whether the background work has to continue at once.
    pub fn is_behind(&self) -> bool {
        self.room == Room::Soon
    }

    /// Whether a command may run, as far as is known. Called before each command.
    #[inline]
    pub fn has_room(&mut self, bytes_max: u64) -> bool {
        self.gauge.bytes(bytes_max) <= bytes_max && self.room == Room::Enough
    }

    /// Whether room has to be made in the background. With `is_round`, reads all threads' memory, and tries
    /// again where no key could be evicted before. `bytes_max` is 0 without a limit.
    pub fn is_due(&mut self, bytes_max: u64, is_round: bool) -> bool {
        if bytes_max == 0 && self.room == Room::Enough {
            return false;
        }
        if is_round {
            self.gauge.read();
        }
        let is_over = bytes_max > 0 && self.gauge.bytes(bytes_max) > bytes_max;
        match self.room {
            Room::Enough => is_over,
            // There was nothing to evict at the last attempt.
            Room::None => !is_over || is_round,
            Room::Soon => true,
        }
    }

    /// Reads all threads' memory and decides whether to evict keys. If so, call [`evict`](Self::evict), and
    /// [note](Self::note) its result.
    pub fn plan(&mut self, shortage: &Shortage<'_>) -> Plan {
        let bytes_max = shortage.bytes_max;
        if shortage.is_held_up {
            self.room = Room::Enough;
            return Plan::Leave(Room::Enough);
        }
        let is_over = bytes_max > 0 && self.gauge.read() > bytes_max;
        let room = match shortage.policy {
            Some(policy) if is_over => return Plan::Evict(policy),
            None if is_over => Room::None,
            _ => Room::Enough,
        };
        self.note(room, shortage);
        Plan::Leave(room)
    }

    /// Records the result of an attempt to make room.
    pub fn note(&mut self, room: Room, shortage: &Shortage<'_>) {
        self.room = room;
        shortage.exceeded.note(room != Room::Enough, shortage.now_ms);
    }

    /// Evicts keys until no more memory is used than `limits` allow, for a limited time. `free_slice` frees a
    /// slice of evicted values and returns false if this thread has none left; `anybody_has_garbage` returns
    /// whether any thread has some.
    pub fn evict<V: Visits>(
        &mut self,
        limits: &Limits,
        policy: Policy,
        clock: &Clock,
        thread: &mut V,
        mut free_slice: impl FnMut(&mut V) -> bool,
        anybody_has_garbage: impl Fn() -> bool,
    ) -> Room {
        self.search.begin(policy);
        let (bytes_max, ns_max) = (limits.bytes_max, limits.ns_max());
        assert!(bytes_max > 0, "nothing is evicted without a limit");
        let started = clock.ticks();
        let mut tries = 0;
        for step in 1_u32.. {
            if self.gauge.bytes(bytes_max) <= bytes_max {
                return Room::Enough;
            }
            if !free_slice(thread) {
                match self.search.evict_one(policy, limits.sample_count, thread) {
                    Step::Evicted | Step::Searching => {}
                    Step::Taken if tries < TRIES_WHERE_TAKEN => {
                        tries += 1;
                        std::hint::spin_loop();
                    }
                    Step::Taken => return Room::Soon,
                    Step::Nothing if anybody_has_garbage() => return Room::Soon,
                    Step::Nothing => return Room::None,
                }
            }
            if step % STEPS_PER_LOOK == 0 && clock.ticks_to_ns(started, clock.ticks()) > ns_max {
                return Room::Soon;
            }
        }
        Room::Soon
    }
}

#[cfg(test)]
mod tests {
    use keyspace::eviction::Rank;

    use super::*;
    use crate::tests::Alone;

    const ANY: Policy = Policy { only_volatile: false, rank: Rank::Chance };
    /// Other tests of this process free shards whose memory does not count, so the sum may be below 0 without
    /// this.
    const BALLAST_BYTES: usize = 256 << 20;

    fn ballast() -> Vec<u8> {
        std::hint::black_box(Vec::with_capacity(BALLAST_BYTES))
    }

    /// Less than any process uses.
    const TIGHT: Limits = Limits { bytes_max: 1, sample_count: 5, tenacity: 100 };

    fn evict(eviction: &mut Eviction, thread: &mut Alone, has_garbage: bool) -> Room {
        let _ballast = ballast();
        eviction.gauge.read();
        eviction.evict(&TIGHT, ANY, &Clock::real(), thread, |_| false, || has_garbage)
    }

    #[test]
    fn all_goes_that_may_and_then_there_is_no_room() {
        let mut thread = Alone::new();
        (0..100).for_each(|key| _ = thread.local.line(&format!("SET key:{key} v")));
        let mut eviction = Eviction::new(7, thread.shards().count());
        assert_eq!(evict(&mut eviction, &mut thread, false), Room::None);
        assert_eq!(thread.local.line("DBSIZE"), ":0\r\n");
        assert_eq!(evict(&mut eviction, &mut thread, true), Room::Soon, "another thread frees something");
    }

    #[test]
    fn what_is_taken_is_tried_again_later() {
        let mut thread = Alone::new();
        thread.local.line("SET key v");
        thread.is_taken = true;
        let mut eviction = Eviction::new(7, thread.shards().count());
        assert_eq!(evict(&mut eviction, &mut thread, false), Room::Soon);
    }

    #[test]
    fn the_background_goes_on_where_something_is_left_to_do() {
        let _ballast = ballast();
        let mut eviction = Eviction::new(7, 8);
        let plenty = u64::MAX / 2;
        for (room, bytes_max, is_round, is_due) in [
            (Room::Enough, 0, true, false),
            (Room::Enough, plenty, true, false),
            (Room::Enough, 1, true, true),
            (Room::Soon, 0, false, true),
            (Room::None, 1, false, false),
            (Room::None, 1, true, true),
            (Room::None, plenty, false, true),
        ] {
            eviction.gauge.read();
            eviction.room = room;
            assert_eq!(eviction.is_due(bytes_max, is_round), is_due, "{room:?} {bytes_max} {is_round}");
        }
    }

    #[test]
    fn keys_are_evicted_where_they_may_be_and_there_is_too_little_room() {
        let _ballast = ballast();
        let exceeded = Exceeded::default();
        let tight =
            Shortage { bytes_max: 1, policy: Some(ANY), is_held_up: false, exceeded: &exceeded, now_ms: 100 };
        let later = |ms| exceeded.current_and_total_ms(ms).0;
        for (shortage, plan, exceeded_ms, is_behind) in [
            (tight, Plan::Evict(ANY), 0, true),
            (Shortage { policy: None, ..tight }, Plan::Leave(Room::None), 50, false),
            // It is not checked, so the time of exceeding is not known either.
            (Shortage { is_held_up: true, ..tight }, Plan::Leave(Room::Enough), 50, false),
            (Shortage { bytes_max: 0, ..tight }, Plan::Leave(Room::Enough), 0, false),
            (Shortage { bytes_max: u64::MAX, policy: None, ..tight }, Plan::Leave(Room::Enough), 0, false),
        ] {
            let mut eviction = Eviction::new(7, 8);
            eviction.room = Room::Soon;
            assert_eq!(eviction.plan(&shortage), plan, "{shortage:?}");
            assert_eq!((later(150), eviction.is_behind()), (exceeded_ms, is_behind), "{shortage:?}");
        }
    }

    #[test]
    fn the_time_over_the_limit_is_added_up() {
        let exceeded = Exceeded::default();
        exceeded.note(true, 100);
        exceeded.note(true, 150);
        assert_eq!(exceeded.current_and_total_ms(160), (60, 60));
        exceeded.note(false, 200);
        exceeded.note(true, 500);
        assert_eq!(exceeded.current_and_total_ms(501), (1, 101));
        exceeded.reset();
        assert_eq!(exceeded.current_and_total_ms(600), (0, 0));
    }
}
