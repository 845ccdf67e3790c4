//! Walks over a table: cursors, background slices, what is old, random picks, freeing in pieces.

use super::CompactTable;
use super::bucket::SLOTS;
use super::numbering::{POSITION_END, hash_at, positions_at, segment_of};
use super::segment::{ORDER_END, Segment};
use super::slot::{Block, Held};
use crate::mover::{Mover, Place, move_vec};
use crate::random::Random;

/// More slots than a segment of usual size has.
const SEGMENT_SLOTS_MAX: usize = 576;
/// How often a random pick may meet an empty slot before it takes the next block it sees.
const RANDOM_TRIES_MAX: usize = 1000;

/// Where sampling goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampling {
    segment: usize,
    slot: usize,
}

/// The positions of a segment.
struct Positions {
    segment: usize,
    first: u64,
    count: u64,
}

impl Positions {
    /// How many positions the blocks of one tag share.
    fn of_one_tag(&self) -> u64 {
        self.count / ORDER_END
    }

    /// Where `position` lies in the order of the segment's tags.
    fn order(&self, position: u64) -> u64 {
        (position - self.first) / self.of_one_tag()
    }
}

/// Moves nothing, and has time as long as this says so.
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
    /// The positions of the segment at one of them.
    fn positions_at(&self, position: u64) -> Positions {
        let (segment, _) = segment_of(self.segments.len(), hash_at(position));
        let (first, count) = positions_at(self.segments.len(), position);
        Positions { segment, first, count }
    }

    /// Calls `visit` for all blocks, in the order of [`iter`](Self::iter), and asks for the memory of those in the next bucket meanwhile.
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
    /// several have the last position. Returns the cursor for the next call, 0 when nothing is left; it fits in 48 bits.
    ///
    /// Begin with cursor 0. Whatever is present from the first call to the last is visited at least once,
    /// no matter what happens to the table in between. One call costs O(`count`) plus one segment.
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

    /// Visits all blocks of `segments_max` segments from `cursor` on and removes those for which `keep` is
    /// false. Returns the cursor for the next slice, 0 at the end of the table.
    ///
    /// The promise of [`scan`](Self::scan) holds here too. A segment has some hundred blocks.
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

    /// From now on the blocks that are there are old, and those that come are not. There must be no old ones left from the
    /// turn before.
    pub fn begin_turn(&mut self) {
        self.turn = !self.turn;
    }

    /// Shows old blocks from `cursor` on to `visit`, and renews those for which that is true; the first for which it is not
    /// ends the slice. Returns the cursor for the next slice, `None` when no block is old any more, if the first
    /// one began with cursor 0. `ahead` sees blocks a moment earlier, to ask for memory that they refer to.
    pub fn visit_old(
        &mut self,
        cursor: u64,
        ahead: &mut dyn FnMut(B::Ref<'_>),
        visit: &mut dyn FnMut(B::Ref<'_>) -> bool,
    ) -> Option<u64> {
        let mut from = cursor;
        while from < POSITION_END && !self.is_empty() {
            let positions = self.positions_at(from);
            // All of the segment, also where two were merged.
            if !self.segments[positions.segment].visit_old(self.turn, ahead, visit) {
                return Some(positions.first);
            }
            from = positions.first + positions.count;
        }
        None
    }

    /// Moves memory from `place` on, as long as the mover has time: that of the table itself, and whatever `visit` moves of a block
    /// and what it refers to. `visit` is false if that block is to be visited again in the next slice. True at the end, where
    /// `place` is as at the beginning.
    pub fn defragment(
        &mut self,
        place: &mut Place,
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
            *place = Place { part: place.part + 1, item: 0 };
        }
        *place = Place::default();
        true
    }

    /// Shows `visit` blocks from `place` on, each to be replaced, as long as there is time, which is asked for every few blocks. True at the
    /// end, where `place` is as at the beginning. What happens to the table meanwhile may make it miss blocks, or come to them twice.
    pub fn visit_held(
        &mut self,
        place: &mut Place,
        has_time: &mut dyn FnMut() -> bool,
        visit: &mut dyn FnMut(Held<'_, B>),
    ) -> bool {
        self.defragment(place, &mut Immobile(has_time), &mut |held, _| {
            visit(held);
            true
        })
    }

    /// Moves the memory of the segment with this number; false if there is none.
    pub(crate) fn move_segment(&mut self, number: usize, mover: &mut dyn Mover) -> bool {
        if number == 0 {
            move_vec(&mut self.segments, mover);
        }
        let segment = self.segments.get_mut(number);
        segment.map(|segment| segment.move_buckets(mover)).is_some()
    }

    /// A random block, each equally likely as long as segments have their usual size; `None` if there is
    /// none.
    ///
    /// Picks a segment and a slot in it until that holds a block: as all slots of the table are
    /// equally likely, so are the blocks, however full their segments are.
    pub fn random(&self, random: u64, random2: u64) -> Option<B::Ref<'_>> {
        if self.is_empty() {
            return None;
        }
        let mut random = Random::new(random ^ random2.rotate_left(32));
        let segments = &self.segments;
        for _ in 0..RANDOM_TRIES_MAX {
            let segment = &segments[random.below(segments.len() as u64) as usize];
            // Smaller segments are picked as if they had as many slots as the largest, the rest empty.
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

    /// Shows `visit` one block after the other from `place` on, round and round, until it wants no more or so many buckets
    /// were looked at. Returns the place to go on from; begin anywhere. Unless the table changes, every block is shown once in
    /// a round. Blocks that lie together have nothing in common but their hashes.
    pub fn sample<'a>(
        &'a self,
        place: Sampling,
        buckets_max: usize,
        visit: &mut dyn FnMut(B::Ref<'a>) -> bool,
    ) -> Sampling {
        let Sampling { mut segment, mut slot } = place;
        for _ in 0..buckets_max {
            match self.segments.get(segment).map(|segment| segment.bucket(slot / SLOTS)) {
                None => (segment, slot) = (0, 0),
                Some(None) => (segment, slot) = (segment + 1, 0),
                Some(Some(slots)) => {
                    let rest = &slots[slot % SLOTS..];
                    rest.iter().filter(|slot| !slot.is_empty()).for_each(|slot| slot.prefetch());
                    for block in rest.iter().map(|slot| slot.get()) {
                        slot += 1;
                        if block.is_some_and(|block| !visit(block)) {
                            return Sampling { segment, slot };
                        }
                    }
                }
            }
        }
        Sampling { segment, slot }
    }

    /// Takes one segment's blocks out; `None` when the table is empty. Frees a large table in slices.
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
