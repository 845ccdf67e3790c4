//! Active defragmentation: moves blocks out of sparse slabs, so that unused memory can be returned to the
//! system.
//!
//! ```text
//!          too much of the slabs is unused
//!  resting ───────────▶ choosing ──▶ walking ──▶ resting, and again while too much is unused
//!     ▲                 which slabs  shards in its care, record by record:
//!     └──── ending ◀──  the heap     blocks in a slab to be emptied are moved
//!           it is not   is to empty
//! ```
//!
//! Each thread chooses among its own slabs and walks over the shards that it looks after, moving all blocks
//! in slabs that any thread has chosen. Threads need not coordinate, because passes are repeated. Threads
//! that serve no connections look after no shards, and choose all of their slabs: with a few blocks of each
//! size in many heaps, most of the slabs would be unused. A slice takes [`SLICE_NS`], and slices come as
//! often as the share of time allows: `active-defrag-cycle-min` while clients keep the thread busy, otherwise
//! more, up to `-max`, depending on how much is unused. If a pass did not help, the remaining blocks cannot
//! be moved, and the next pass waits longer, unless more memory becomes unused.
//!
//! Where keys of one size are evicted for keys of another, each of them leaves a hole. If the holes exceed
//! [`PRESSED_FROM_PERCENT`] of `maxmemory`, defragmentation also gets time of busy threads, more the larger
//! the excess: writers then wait for the work that makes room.
//!
//! Not here: which slabs (`heap`), how structures move (`ds::mover`), the position in a database
//! (`keyspace`).

use std::collections::VecDeque;

use ds::mover::Mover;
use ds::random::Random;
use heap::Emptying;
use proactor::Clock;
use shard::ShardId;

use crate::Visits;
use observe::ThreadStats;

/// Length of a slice of work, in which shards are held one at a time.
const SLICE_NS: u64 = 100_000;
/// Slices that are late because a turn took long are made up for, as far as they became due within this time.
pub const CREDIT_NS: u64 = 6_000_000;
/// Pause between two passes; doubled each time if the last pass has not helped.
const PAUSE_NS: u64 = 100_000_000;
/// Pause between two passes under pressure.
const PRESSED_PAUSE_NS: u64 = 1_000_000;
const PAUSE_NS_MAX: u64 = 60_000_000_000;
/// Percentage of `maxmemory` by which used and unused memory together may exceed it. Each percent more adds
/// `PRESSED_STEP` percent of each thread's time, up to `PRESSED_MAX`.
const PRESSED_FROM_PERCENT: u64 = 3;
const PRESSED_STEP: u64 = 30;
const PRESSED_MAX: u64 = 90;
/// A pass has helped if it moved one in this many of the blocks that it examined.
const HELPED_PART: u64 = 128;
/// A simulation does not use slabs: blocks move randomly, slices have this many steps, and the pauses between
/// them are shorter than this.
const SIMULATED_STEPS: u32 = 6;
const SIMULATED_REST_NS: u64 = 20_000_000;

/// The settings for defragmentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Whether defragmentation is on.
    pub is_on: bool,
    /// Unused bytes at which it begins.
    pub ignore_bytes: u64,
    /// Unused bytes, in percent of the used ones, at which it begins.
    pub lower_percent: u64,
    /// Unused bytes, in percent of the used ones, at which it gets its maximum time.
    pub upper_percent: u64,
    /// Minimum share of each thread's time.
    pub cycle_min_percent: u64,
    /// Maximum share of each thread's time.
    pub cycle_max_percent: u64,
    /// Bytes that may be used; 0: no limit.
    pub memory_bytes_max: u64,
    /// The thread serves no connections, so that it allocates little: its blocks move to the heaps of the
    /// others.
    pub is_leaving: bool,
}

/// A thread's defragmentation.
#[derive(Debug, Default)]
pub struct Defrag {
    stage: Stage,
    /// Share of the thread's time while there is work to do, in percent.
    percent: u64,
    /// Unused memory makes the process exceed `maxmemory`.
    is_pressed: bool,
    /// Keys were evicted since the last check of how much is unused.
    is_suspect: bool,
    /// Slabs have been chosen.
    has_chosen: bool,
    /// When the next slice or pass may begin, on the monotonic clock.
    due_ns: u64,
    pause_ns: u64,
    /// Number of blocks that this pass moved, and examined.
    moved: u64,
    looked_at: u64,
    /// Unused bytes at the end of the last pass.
    unused_after: u64,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Resting,
    Choosing(Emptying),
    /// Shards still to be visited, each with its next database.
    Walking(VecDeque<(ShardId, usize)>),
    Ending(Emptying),
}

impl Defrag {
    /// When it continues, on the monotonic clock; `None` if there is nothing to do.
    pub fn next_ms(&self) -> Option<u64> {
        (!matches!(self.stage, Stage::Resting)).then_some(self.due_ns.div_ceil(1_000_000))
    }

    /// Whether the walk is over.
    fn has_walked(&self) -> bool {
        matches!(&self.stage, Stage::Walking(left) if left.is_empty())
    }

    /// Pauses after a pass, longer if it did not help.
    fn end_pass(&mut self, now_ns: u64) {
        self.unused_after = unused_bytes();
        let has_helped = self.moved > 0 && self.moved >= self.looked_at / HELPED_PART;
        let shortest_ns = if self.is_pressed { PRESSED_PAUSE_NS } else { PAUSE_NS };
        self.pause_ns =
            if has_helped { shortest_ns } else { (2 * self.pause_ns).clamp(shortest_ns, PAUSE_NS_MAX) };
        self.due_ns = now_ns + self.pause_ns;
        self.stage = Stage::Resting;
        (self.moved, self.looked_at) = (0, 0);
    }

    /// Notes that keys are evicted.
    pub fn suspect(&mut self) {
        self.is_suspect = true;
    }

    /// Whether keys were evicted since the last call.
    pub fn take_suspicion(&mut self) -> bool {
        std::mem::take(&mut self.is_suspect)
    }
}

/// Bytes of slabs that are not in any block.
pub fn unused_bytes() -> u64 {
    let (slab_bytes, block_bytes) = heap::slab_bytes();
    slab_bytes.saturating_sub(block_bytes)
}

/// The percentage of each thread's time that defragmentation gets; `None` if there is too little to gain.
fn percent(settings: &Settings, unused_bytes: u64, block_bytes: u64) -> Option<u64> {
    let unused_percent = unused_bytes.saturating_mul(100) / block_bytes.max(1);
    let (lower, upper) = (settings.lower_percent, settings.upper_percent);
    if unused_bytes < settings.ignore_bytes || unused_percent < lower {
        return None;
    }
    let (min, max) = (settings.cycle_min_percent, settings.cycle_max_percent);
    let more = max.saturating_sub(min) * (unused_percent - lower).min(upper.saturating_sub(lower))
        / upper.saturating_sub(lower).max(1);
    Some(min + more)
}

/// The percentage of each thread's time for defragmentation under pressure from `maxmemory`; 0 if that is not
/// much exceeded.
fn pressed_percent(bytes_max: u64, counted_bytes: u64, unused_bytes: u64) -> u64 {
    if bytes_max == 0 {
        return 0;
    }
    let held_percent = counted_bytes.saturating_add(unused_bytes).saturating_mul(100) / bytes_max;
    (held_percent.saturating_sub(100 + PRESSED_FROM_PERCENT) * PRESSED_STEP).min(PRESSED_MAX)
}

/// Decides which blocks are moved in one slice, and counts them.
struct Slice {
    clock: Clock,
    end_ns: u64,
    /// In a simulation, decides randomly which blocks move.
    chance: Option<Random>,
    steps_left: u32,
    moved: u64,
    stayed: u64,
    keys_moved: u64,
    keys_stayed: u64,
    /// Value of `moved` at the beginning of the current key.
    moved_before: Option<u64>,
}

impl Slice {
    fn new(clock: Clock, chance: Option<Random>) -> Slice {
        Slice {
            end_ns: clock.monotonic_ns() + SLICE_NS,
            clock,
            chance,
            steps_left: SIMULATED_STEPS,
            moved: 0,
            stayed: 0,
            keys_moved: 0,
            keys_stayed: 0,
            moved_before: None,
        }
    }

    fn end_key(&mut self) {
        match self.moved_before.take() {
            Some(before) if before < self.moved => self.keys_moved += 1,
            Some(_) => self.keys_stayed += 1,
            None => {}
        }
    }
}

impl Mover for Slice {
    #[inline]
    fn wants(&mut self, block: *const u8) -> bool {
        let wanted = match &mut self.chance {
            None => heap::is_to_move(block),
            Some(chance) => chance.wants(block),
        };
        *(if wanted { &mut self.moved } else { &mut self.stayed }) += 1;
        wanted
    }

    fn has_time(&mut self) -> bool {
        if self.chance.is_some() {
            self.steps_left = self.steps_left.saturating_sub(1);
            return self.steps_left > 0;
        }
        self.clock.monotonic_ns() < self.end_ns
    }

    fn begin_key(&mut self) {
        self.end_key();
        self.moved_before = Some(self.moved);
    }
}

/// The things that defragmentation needs from its thread.
pub struct Surroundings<'a> {
    /// The thread's clock.
    pub clock: Clock,
    /// The current settings.
    pub settings: Settings,
    /// Where moved blocks are counted.
    pub stats: &'a ThreadStats,
    /// Returns the shards that the thread looks after.
    pub in_care: &'a dyn Fn() -> Vec<ShardId>,
    /// Whether clients keep the thread busy.
    pub is_busy: bool,
}

impl Defrag {
    /// Whether there is work to do now.
    pub fn is_due(&self, now_ns: u64) -> bool {
        !matches!(self.stage, Stage::Resting) && self.due_ns <= now_ns
    }

    /// Starts or ends defragmentation, depending on how much is unused. Returns whether that is too much.
    pub fn look(&mut self, settings: &Settings, is_simulated: bool, now_ns: u64) -> bool {
        let (unused_bytes, block_bytes) = (unused_bytes(), heap::slab_bytes().1);
        let percent = match settings.is_on {
            true if is_simulated => Some(1),
            true => percent(settings, unused_bytes, block_bytes),
            false => None,
        };
        let pressed_percent = pressed_percent(settings.memory_bytes_max, heap::counted_bytes(), unused_bytes);
        self.is_pressed = percent.is_some() && pressed_percent > 0;
        let is_due = self.due_ns <= now_ns || unused_bytes > self.unused_after / 8 * 9;
        match (percent.map(|percent| percent.max(pressed_percent)), &self.stage) {
            (Some(percent), Stage::Resting) if is_due => {
                self.due_ns = now_ns;
                let emptying =
                    if settings.is_leaving { Emptying::leave() } else { Emptying::begin(self.is_pressed) };
                self.stage = Stage::Choosing(emptying);
                (self.percent, self.has_chosen) = (percent, true);
            }
            (Some(percent), _) => self.percent = percent,
            (None, Stage::Choosing(_) | Stage::Walking(_) | Stage::Resting) if self.has_chosen => {
                (self.stage, self.due_ns) = (Stage::Ending(Emptying::end()), now_ns);
            }
            (None, _) => {}
        }
        percent.is_some()
    }

    /// The percentage of its time that the thread currently spends on it.
    pub fn current_percent(&self) -> u64 {
        if matches!(self.stage, Stage::Resting) { 0 } else { self.percent }
    }

    /// Works for a slice. Returns how long that took, in nanoseconds. In a simulation, `chance` decides which
    /// blocks move.
    pub fn work(
        &mut self,
        around: &Surroundings<'_>,
        chance: Option<Random>,
        thread: &mut impl Visits,
    ) -> u64 {
        let clock = &around.clock;
        let started = clock.ticks();
        let mut slice = Slice::new(clock.clone(), chance);
        while self.step(around, &mut slice, thread) && slice.has_time() {}
        slice.end_key();
        around.stats.defrag_hits.add(slice.moved);
        around.stats.defrag_misses.add(slice.stayed);
        around.stats.defrag_key_hits.add(slice.keys_moved);
        around.stats.defrag_key_misses.add(slice.keys_stayed);
        let ns = clock.ticks_to_ns(started, clock.ticks());
        self.moved += slice.moved;
        self.looked_at += slice.moved + slice.stayed;
        if self.has_walked() {
            self.end_pass(clock.monotonic_ns());
        }
        let percent = match around.is_busy && !self.is_pressed {
            true => around.settings.cycle_min_percent,
            false => self.percent,
        };
        let percent = percent.max(1);
        let now_ns = clock.monotonic_ns();
        self.due_ns = match &mut slice.chance {
            // Counted from when the slice was due.
            None => self.due_ns.max(now_ns - ns - CREDIT_NS.min(now_ns - ns)) + ns * 100 / percent,
            Some(chance) => self.due_ns.max(now_ns + chance.below(SIMULATED_REST_NS)),
        };
        ns
    }

    /// Does one step of work. Returns false if nothing more can be done now.
    fn step(&mut self, around: &Surroundings<'_>, slice: &mut Slice, thread: &mut impl Visits) -> bool {
        match &mut self.stage {
            Stage::Resting => return false,
            Stage::Choosing(emptying) => {
                if emptying.advance().is_some() {
                    let left = (around.in_care)().into_iter().map(|id| (id, 0)).collect();
                    self.stage = Stage::Walking(left);
                }
            }
            Stage::Walking(left) => {
                let Some((id, db)) = left.pop_front() else { return false };
                let unfinished = thread.visit(id, |tx| {
                    let dbs = &mut tx.hold.shard_mut(id).dbs;
                    (db..dbs.len())
                        .find(|number| dbs.used_mut(*number).is_some_and(|db| !db.defragment(slice)))
                });
                match unfinished {
                    // The shard is taken; try it again later.
                    None => left.push_back((id, db)),
                    Some(Some(db)) => left.push_front((id, db)),
                    Some(None) => {}
                }
                return unfinished.is_some();
            }
            Stage::Ending(emptying) => {
                if emptying.advance().is_some() {
                    *self = Defrag::default();
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Alone;

    /// The percentages of the default settings.
    const SETTINGS: Settings = Settings {
        is_on: true,
        ignore_bytes: 30 << 20,
        lower_percent: 3,
        upper_percent: 100,
        cycle_min_percent: 1,
        cycle_max_percent: 25,
        memory_bytes_max: 0,
        is_leaving: false,
    };

    #[test]
    fn the_more_is_unused_the_more_time_it_gets() {
        const MIB: u64 = 1 << 20;
        for (unused, used, expected) in [
            (MIB, 10 * MIB, None),
            (29 * MIB, 1000 * MIB, None),
            (30 * MIB, 1000 * MIB, Some(1)),
            (515 * MIB, 1000 * MIB, Some(12)),
            (1000 * MIB, 1000 * MIB, Some(25)),
            (1000 * MIB, 0, Some(25)),
        ] {
            assert_eq!(percent(&SETTINGS, unused, used), expected, "{unused} of {used}");
        }
    }

    #[test]
    fn a_walk_comes_to_each_shard_and_loses_nothing() {
        let mut thread = Alone::new();
        for key in 0..1000 {
            thread.local.line(&format!("RPUSH list:{key} {key} b c"));
        }
        let shards: Vec<ShardId> = thread.shards().collect();
        let stats = ThreadStats::new(0);
        let clock = Clock::real();
        let around =
            Surroundings { clock, settings: SETTINGS, stats: &stats, in_care: &Vec::new, is_busy: false };
        let left = shards.into_iter().map(|id| (id, 0)).collect();
        let mut defrag = Defrag { stage: Stage::Walking(left), ..Defrag::default() };
        thread.is_taken = true;
        defrag.work(&around, Some(Random::new(1)), &mut thread);
        assert!(
            matches!(&defrag.stage, Stage::Walking(left) if left.len() == 8),
            "taken shards are left for later"
        );
        thread.is_taken = false;
        let slice_count = (2..).find(|seed| {
            defrag.work(&around, Some(Random::new(*seed)), &mut thread);
            matches!(defrag.stage, Stage::Resting)
        });
        assert!(slice_count > Some(8), "slices are short");
        assert!(stats.defrag_hits.get() > 0 && stats.defrag_misses.get() > 0);
        for key in 0..1000 {
            assert_eq!(thread.local.line(&format!("LINDEX list:{key} 0")), {
                let text = key.to_string();
                format!("${}\r\n{text}\r\n", text.len())
            });
        }
    }
}
