//! Active defragmentation: moves what lies in sparse slabs together, so that memory that is not in use goes back to the system.
//!
//! ```text
//!          too much of the slabs is unused
//!  resting ───────────▶ choosing ──▶ walking ──▶ resting, and again as long as it is too much
//!     ▲                 which slabs  shards at home, record by record:
//!     └──── ending ◀──  the heap     what lies in a slab to be emptied moves
//!           it is not   is to empty
//! ```
//!
//! Each thread chooses among its own slabs and walks over the shards at home there, moving whatever lies in a slab that any
//! thread has chosen; the threads need not agree on anything, as passes come again. A slice takes [`SLICE_NS`], and slices come as
//! often as the share of time allows: `active-defrag-cycle-min` while clients keep the thread busy, otherwise more, up to
//! `-max`, depending on how much is unused. If a pass did not help, what is there cannot be moved, and the next one waits
//! longer, unless more becomes unused.
//!
//! Not here: which slabs (`heap`), how structures move (`ds::mover`), where the walk over a database stands (`keyspace`).

use std::collections::VecDeque;

use ds::mover::Mover;
use ds::random::Random;
use heap::Emptying;
use proactor::Clock;
use shard::ShardId;

use crate::settings::{
    ACTIVE_DEFRAG_CYCLE_MAX, ACTIVE_DEFRAG_CYCLE_MIN, ACTIVE_DEFRAG_IGNORE_BYTES,
    ACTIVE_DEFRAG_THRESHOLD_LOWER, ACTIVE_DEFRAG_THRESHOLD_UPPER, ACTIVEDEFRAG, Settings,
};
use crate::thread::{Thread, ThreadHost};

/// A slice of work, during which shards are held, one at a time.
const SLICE_NS: u64 = 100_000;
/// Between two passes; twice as long each time if the last one has not helped.
const PAUSE_NS: u64 = 100_000_000;
const PAUSE_NS_MAX: u64 = 60_000_000_000;
/// A pass has helped if no more than this, in sixteenths, of what was unused before still is.
const HELPED_SIXTEENTHS: u64 = 15;
/// In a simulation, where slabs are not used, blocks move by chance; slices are this short, and less than this apart.
const SIMULATED_STEPS: u32 = 6;
const SIMULATED_REST_NS: u64 = 20_000_000;

/// What a thread does about it.
#[derive(Debug, Default)]
pub(crate) struct Defrag {
    stage: Stage,
    /// In hundredths of its time, while there is something to do.
    percent: u64,
    /// Slabs were chosen.
    has_chosen: bool,
    /// On the monotonic clock: when the next slice, or the next pass, may begin.
    due_ns: u64,
    pause_ns: u64,
    /// What was unused when the pass began, and when it ended.
    unused_before: u64,
    unused_after: u64,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Resting,
    Choosing(Emptying),
    /// Shards, and their next database.
    Walking(VecDeque<(ShardId, usize)>),
    Ending(Emptying),
}

impl Defrag {
    /// When it goes on, on the monotonic clock, if there is something to do.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        (!matches!(self.stage, Stage::Resting)).then_some(self.due_ns.div_ceil(1_000_000))
    }
}

/// Bytes of slabs in which no block lies.
pub(crate) fn unused_bytes() -> u64 {
    let (slab_bytes, block_bytes) = heap::slab_bytes();
    slab_bytes.saturating_sub(block_bytes)
}

/// The share of each thread's time, in percent, that defragmentation gets; none if there is too little to gain.
fn percent(settings: &Settings, unused_bytes: u64, block_bytes: u64) -> Option<u64> {
    let number = |id| settings.number(id) as u64;
    let unused_percent = unused_bytes.saturating_mul(100) / block_bytes.max(1);
    let (lower, upper) = (number(ACTIVE_DEFRAG_THRESHOLD_LOWER), number(ACTIVE_DEFRAG_THRESHOLD_UPPER));
    if unused_bytes < number(ACTIVE_DEFRAG_IGNORE_BYTES) || unused_percent < lower {
        return None;
    }
    let (min, max) = (number(ACTIVE_DEFRAG_CYCLE_MIN), number(ACTIVE_DEFRAG_CYCLE_MAX));
    let more = max.saturating_sub(min) * (unused_percent - lower).min(upper.saturating_sub(lower))
        / upper.saturating_sub(lower).max(1);
    Some(min + more)
}

/// Decides what is moved in one slice, and counts.
struct Slice {
    clock: Clock,
    end_ns: u64,
    /// In a simulation.
    chance: Option<Random>,
    steps_left: u32,
    moved: u64,
    stayed: u64,
    keys_moved: u64,
    keys_stayed: u64,
    /// What was moved before the key that it is at.
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

impl Thread {
    /// Goes on with it if that is due; `is_round`: looks also whether it is needed.
    pub(crate) fn defragment(&mut self, is_round: bool) {
        if is_round {
            self.host.look_at_fragmentation();
        }
        let defrag = &self.host.defrag;
        let clock = self.host.driver.clock();
        if matches!(defrag.stage, Stage::Resting) || clock.monotonic_ns() < defrag.due_ns {
            return;
        }
        let (clock, started) = (clock.clone(), clock.ticks());
        let mut chance = None;
        if self.host.shared.is_simulated() {
            let mut entropy = self.host.driver.entropy().expect("a simulated driver has chance");
            chance = Some(Random::new(entropy.below(u64::MAX)));
        }
        let mut slice = Slice::new(clock.clone(), chance);
        while self.defragment_step(&mut slice) && slice.has_time() {}
        slice.end_key();
        let stats = self.host.stats();
        stats.defrag_hits.add(slice.moved);
        stats.defrag_misses.add(slice.stayed);
        stats.defrag_key_hits.add(slice.keys_moved);
        stats.defrag_key_misses.add(slice.keys_stayed);
        let ns = clock.ticks_to_ns(started, clock.ticks());
        self.host.note_latency("active-defrag-cycle", ns);
        let percent = match self.host.is_busy {
            true => self.host.shared.settings.number(ACTIVE_DEFRAG_CYCLE_MIN) as u64,
            false => self.host.defrag.percent,
        };
        let percent = percent.max(1);
        let rest_ns = match &mut slice.chance {
            None => ns * (100 - percent) / percent,
            Some(chance) => chance.below(SIMULATED_REST_NS),
        };
        let due_ns = &mut self.host.defrag.due_ns;
        *due_ns = (*due_ns).max(clock.monotonic_ns() + rest_ns);
    }

    /// A piece of work; false if nothing more can be done now.
    fn defragment_step(&mut self, slice: &mut Slice) -> bool {
        let (shards, own) = (&self.host.shared.shards, self.host.id);
        match &mut self.host.defrag.stage {
            Stage::Resting => return false,
            Stage::Choosing(emptying) => {
                if emptying.advance().is_some() {
                    let at_home = shards.ids().filter(|id| shards.home(*id) == own);
                    self.host.defrag.stage = Stage::Walking(at_home.map(|id| (id, 0)).collect());
                }
            }
            Stage::Walking(left) => {
                let Some((id, db)) = left.pop_front() else {
                    self.host.end_pass();
                    return false;
                };
                return self.defragment_shard(id, db, slice);
            }
            Stage::Ending(emptying) => {
                if emptying.advance().is_some() {
                    self.host.defrag = Defrag::default();
                }
            }
        }
        true
    }

    /// Goes on in a shard; false if it is taken, and its turn comes again.
    fn defragment_shard(&mut self, id: ShardId, db: usize, slice: &mut Slice) -> bool {
        let is_entered = self.tx.hold.try_enter(id);
        let mut unfinished = Some(db);
        if is_entered {
            let dbs = &mut self.tx.hold.shard_mut(id).dbs;
            unfinished = (db..dbs.len()).find(|number| !dbs[*number].defragment(slice));
            self.leave_all();
        }
        if let (Stage::Walking(left), Some(db)) = (&mut self.host.defrag.stage, unfinished) {
            if is_entered { left.push_front((id, db)) } else { left.push_back((id, db)) }
        }
        is_entered
    }
}

impl ThreadHost {
    /// Begins or ends it, according to how much is unused.
    fn look_at_fragmentation(&mut self) {
        let settings = &self.shared.settings;
        let (unused_bytes, block_bytes) = (unused_bytes(), heap::slab_bytes().1);
        let percent = match settings.is_on(ACTIVEDEFRAG) {
            true if self.shared.is_simulated() => Some(1),
            true => percent(settings, unused_bytes, block_bytes),
            false => None,
        };
        if self.id == 0 {
            self.shared.fragmented.note(percent.is_some(), self.now_ms);
        }
        let now_ns = self.driver.clock().monotonic_ns();
        let defrag = &mut self.defrag;
        let is_due = defrag.due_ns <= now_ns || unused_bytes > defrag.unused_after / 8 * 9;
        match (percent, &defrag.stage) {
            (Some(percent), Stage::Resting) if is_due => {
                defrag.due_ns = now_ns;
                defrag.stage = Stage::Choosing(Emptying::begin());
                (defrag.percent, defrag.has_chosen, defrag.unused_before) = (percent, true, unused_bytes);
            }
            (Some(percent), _) => defrag.percent = percent,
            (None, Stage::Choosing(_) | Stage::Walking(_) | Stage::Resting) if defrag.has_chosen => {
                (defrag.stage, defrag.due_ns) = (Stage::Ending(Emptying::end()), now_ns);
            }
            (None, _) => {}
        }
        let is_resting = matches!(self.defrag.stage, Stage::Resting);
        self.stats().defrag_percent.set(if is_resting { 0 } else { self.defrag.percent });
    }

    /// Rests after a pass, for longer if it was of no use.
    fn end_pass(&mut self) {
        let now_ns = self.driver.clock().monotonic_ns();
        let defrag = &mut self.defrag;
        defrag.unused_after = unused_bytes();
        let has_helped = defrag.unused_after <= defrag.unused_before / 16 * HELPED_SIXTEENTHS;
        defrag.pause_ns =
            if has_helped { PAUSE_NS } else { (2 * defrag.pause_ns).clamp(PAUSE_NS, PAUSE_NS_MAX) };
        defrag.due_ns = now_ns + defrag.pause_ns;
        defrag.stage = Stage::Resting;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_is_unused_the_more_time_it_gets() {
        const MIB: u64 = 1 << 20;
        let settings = Settings::default();
        for (unused, used, expected) in [
            (MIB, 10 * MIB, None),
            (29 * MIB, 1000 * MIB, None),
            (30 * MIB, 1000 * MIB, Some(1)),
            (515 * MIB, 1000 * MIB, Some(12)),
            (1000 * MIB, 1000 * MIB, Some(25)),
            (1000 * MIB, 0, Some(25)),
        ] {
            assert_eq!(percent(&settings, unused, used), expected, "{unused} of {used}");
        }
    }
}
