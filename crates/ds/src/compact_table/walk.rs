//! Walks over a table: cursors, background slices, old blocks, random picks, freeing in slices.

use super::CompactTable;
use super::bucket::SLOTS;
use super::numbering::{POSITION_END, hash_at, positions_at, segment_of};
use super::segment::{ORDER_END, Segment};
use super::slot::{Block, Held};
use crate::mover::{Mover, WalkPosition, move_vec};
use crate::random::Random;

/// More slots than a segment of usual size has.
const SEGMENT_SLOTS_MAX: usize = 576;
/// Attempts of a random pick to find a non-empty slot before it takes the next block it sees.
const RANDOM_TRIES_MAX: usize = 1000;

/// Position at which sampling continues.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampling {
    segment: usize,
    slot: usize,
}

/// The range of positions of a segment.
struct Positions {
    segment: usize,
    first: u64,
    count: u64,
}

impl Positions {
    /// Number of positions that one tag covers.
    fn of_one_tag(&self) -> u64 {
        self.count / ORDER_END
    }

    /// Converts a position to the order of tags in the segment.
    fn order(&self, position: u64) -> u64 {
        (position - self.first) / self.of_one_tag()
    }
}

/// A mover that moves nothing and has time as long as the closure says so.
struct Immobile<'a>(&'a mut dyn FnMut() -> bool);

impl Mover for Immobile<'_> {
    fn wants(&mut self, _: *const u8) -> bool {
        false
    }

    fn has_time(&mut self) -> bool {
        (self.0)()
    }
}

impl<B: Block> CompactTable<B> {
    /// The range of positions of the segment to which `position` belongs.
    fn positions_at(&self, position: u64) -> Positions {
        let (segment, _) = segment_of(self.segments.len(), hash_at(position));
        let (first, count) = positions_at(self.segments.len(), position);
        Positions { segment, first, count }
    }

    /// Calls `visit` for all blocks in the order of [`iter`](Self::iter), and prefetches those in the next bucket.
    pub fn for_each<'a>(&'a self, mut visit: impl FnMut(B::Ref<'a>)) {
        for segment in &self.segments {
            let mut bucket = segment.bucket(0);
            for number in 1.. {
                let Some(slots) = bucket else { break };
                bucket = segment.bucket(number);
                bucket.into_iter().flatten().for_each(|slot| slot.prefetch());
                slots.iter().filter_map(|slot| slot.get()).for_each(&mut visit);
            }
        }
    }

    /// Visits blocks from `cursor` on: at least `count` and at least one, unless fewer are left, and more only where
    /// several share the last position. Returns the cursor for the next call, or 0 at the end; it fits in 48 bits.
    ///
    /// Begin with cursor 0. A block that is present from the first call to the last is visited at least once,
    /// regardless of other changes to the table in between. A call costs O(`count`) plus one segment.
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, visit: &mut dyn FnMut(B::Ref<'a>)) -> u64 {
        let wanted = count.max(1);
        let mut visited = 0;
        let mut from = if self.is_empty() { POSITION_END } else { cursor };
        while from < POSITION_END && visited < wanted {
            let positions = self.positions_at(from);
            let segment = &self.segments[positions.segment];
            let (seen, order) = segment.visit(positions.order(from), wanted - visited, visit);
            visited += seen;
            from = positions.first + order * positions.of_one_tag();
        }
        if from < POSITION_END { from } else { 0 }
    }

    /// Visits all blocks of `segments_max` segments from `cursor` on and removes those for which `keep` is false.
    /// Returns the cursor for the next slice, or 0 at the end of the table.
    ///
    /// Gives the same guarantee as [`scan`](Self::scan). A segment usually has 60 to 370 blocks.
    pub fn scan_retain(
        &mut self,
        cursor: u64,
        segments_max: usize,
        keep: &mut dyn FnMut(B::Ref<'_>) -> bool,
    ) -> u64 {
        let mut from = cursor;
        for _ in 0..segments_max.max(1) {
            if from >= POSITION_END || self.is_empty() {
                return 0;
            }
            let positions = self.positions_at(from);
            self.len -= self.change(positions.segment, |segment| {
                let len_before = segment.len();
                segment.retain(positions.order(from), keep);
                len_before - segment.len()
            });
            from = positions.first + positions.count;
            while self.is_sparse() {
                self.merge_last();
            }
        }
        if from < POSITION_END { from } else { 0 }
    }

    /// Makes all present blocks old; blocks added from now on are not. No block may still be old from the turn before.
    pub fn begin_turn(&mut self) {
        self.turn = !self.turn;
    }

    /// Calls `visit` for the old blocks from `cursor` on. If it returns true, the block is not old any more; if it returns
    /// false, the slice ends. Returns the cursor for the next slice; `None` when no block is old any more, provided that the
    /// first slice began with cursor 0. `ahead` is called for blocks shortly before, to prefetch memory that they refer to.
    pub fn visit_old(
        &mut self,
        cursor: u64,
        ahead: &mut dyn FnMut(B::Ref<'_>),
        visit: &mut dyn FnMut(B::Ref<'_>) -> bool,
    ) -> Option<u64> {
        let mut from = cursor;
        while from < POSITION_END && !self.is_empty() {
            let positions = self.positions_at(from);
            // The whole segment, even if two were merged meanwhile.
            if !self.segments[positions.segment].visit_old(self.turn, ahead, visit) {
                return Some(positions.first);
            }
            from = positions.first + positions.count;
        }
        None
    }

    /// Moves memory from `place` on as long as the mover has time: the table's own, and the memory of a block
    /// and of everything it refers to, which `visit` moves. If `visit` returns false, the slice ends and that
    /// block is visited again in the next one. Returns true at the end, with `place` reset to the beginning.
    pub fn defragment(
        &mut self,
        place: &mut WalkPosition,
        mover: &mut dyn Mover,
        visit: &mut dyn FnMut(Held<'_, B>, &mut dyn Mover) -> bool,
    ) -> bool {
        while self.move_segment(place.part, mover) {
            let segment = &mut self.segments[place.part];
            while place.item < segment.slot_count() {
                if let Some(next) = segment.bucket(place.item / SLOTS + 1) {
                    next.iter().for_each(|slot| slot.prefetch());
                }
                for (number, held) in segment.held_from(place.item, self.turn) {
                    if !visit(held, mover) {
                        place.item = number;
                        return false;
                    }
                }
                place.item = (place.item / SLOTS + 1) * SLOTS;
                if !mover.has_time() {
                    return false;
                }
            }
            *place = WalkPosition { part: place.part + 1, item: 0 };
        }
        *place = WalkPosition::default();
        true
    }

    /// Calls `visit` for the blocks from `place` on, for changing them, as long as `has_time`, which is called every
    /// few blocks. Returns true at the end, with `place` reset to the beginning. If the table changes meanwhile, blocks
    /// may be skipped or visited twice.
    pub fn visit_held(
        &mut self,
        place: &mut WalkPosition,
        has_time: &mut dyn FnMut() -> bool,
        visit: &mut dyn FnMut(Held<'_, B>),
    ) -> bool {
        self.defragment(place, &mut Immobile(has_time), &mut |held, _| {
            visit(held);
            true
        })
    }

    /// Moves the memory of the segment with this number. Returns false if there is no such segment.
    pub(crate) fn move_segment(&mut self, number: usize, mover: &mut dyn Mover) -> bool {
        if number == 0 {
            move_vec(&mut self.segments, mover);
        }
        let segment = self.segments.get_mut(number);
        segment.map(|segment| segment.move_buckets(mover)).is_some()
    }

    /// A random block; `None` if the table is empty. All blocks are equally likely as long as segments have their usual size.
    ///
    /// Picks a segment and a slot in it until the slot has a block. All slots of the table are equally likely, and so
    /// are the blocks, however full their segments are.
    pub fn random(&self, random: u64, random2: u64) -> Option<B::Ref<'_>> {
        if self.is_empty() {
            return None;
        }
        let mut random = Random::new(random ^ random2.rotate_left(32));
        let segments = &self.segments;
        for _ in 0..RANDOM_TRIES_MAX {
            let segment = &segments[random.below(segments.len() as u64) as usize];
            // Smaller segments are treated as if they had as many slots as the largest, the rest being empty.
            let slots = if segments.len() == 1 { 1 } else { SEGMENT_SLOTS_MAX }.max(segment.slot_count());
            let slot = segment.numbered_slot(random.below(slots as u64) as usize);
            if let Some(block) = slot.and_then(|slot| slot.get()) {
                return Some(block);
            }
        }
        let start = random.below(segments.len() as u64) as usize;
        let (before, after) = segments.split_at(start);
        after.iter().chain(before).flat_map(Segment::slots).find_map(|slot| slot.get())
    }

    /// Calls `visit` for one block after the other from `place` on, cyclically, until it returns false or `buckets_max`
    /// buckets were visited. Returns the place to continue at; any place is valid as a start. Unless the table changes,
    /// each block is visited once per cycle. Blocks that lie together have only their hashes in common.
    pub fn sample<'a>(
        &'a self,
        place: Sampling,
        buckets_max: usize,
        visit: &mut dyn FnMut(B::Ref<'a>) -> bool,
    ) -> (Sampling, bool) {
        let Sampling { mut segment, mut slot } = place;
        let mut has_wrapped = false;
        for _ in 0..buckets_max {
            match self.segments.get(segment).map(|segment| segment.bucket(slot / SLOTS)) {
                None => (segment, slot, has_wrapped) = (0, 0, true),
                Some(None) => (segment, slot) = (segment + 1, 0),
                Some(Some(slots)) => {
                    let rest = &slots[slot % SLOTS..];
                    rest.iter().filter(|slot| !slot.is_empty()).for_each(|slot| slot.prefetch());
                    for block in rest.iter().map(|slot| slot.get()) {
                        slot += 1;
                        if block.is_some_and(|block| !visit(block)) {
                            return (Sampling { segment, slot }, has_wrapped);
                        }
                    }
                }
            }
        }
        (Sampling { segment, slot }, has_wrapped)
    }

    /// Removes and returns the blocks of one segment; `None` when the table is empty. Frees a large table in slices.
    pub fn drain_segment(&mut self) -> Option<Vec<B>> {
        while let Some(last) = self.segments.len().checked_sub(1) {
            let blocks = self.change(last, |segment| segment.take_all()).into_blocks();
            self.len -= blocks.len();
            if last == 0 {
                self.clear();
            } else {
                self.merge_last();
            }
            if !blocks.is_empty() {
                return Some(blocks);
            }
        }
        None
    }
}
