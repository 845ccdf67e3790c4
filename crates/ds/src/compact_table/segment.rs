//! One segment of a table: all blocks whose hashes agree in the bits that pick the segment.
//!
//! A row of buckets. A tag says the *home* of its block, the first bucket it may lie in; if that is full, it lies in
//! the next one that is not, and is counted in those that it went past. So the row is rebuilt by tags alone; only to
//! split a segment the blocks are looked at, for the bit that each tag then needs in place of the one used up.

use super::bucket::{Bucket, SLOTS};
use super::slot::{Block, Held, Slot, TAG_BITS};
use super::tag_at;
use crate::mover::{Mover, move_slice};

/// Orders of tags end here; see [`order`].
pub(super) const ORDER_END: u64 = 1 << TAG_BITS;
/// Blocks that are asked for before their hashes are needed.
const AHEAD: usize = 12;

pub(super) struct Segment<B: Block> {
    buckets: Box<[Bucket<B>]>,
    len: usize,
}

/// Where a block lies.
#[derive(Clone, Copy)]
pub(super) struct Place {
    bucket: usize,
    slot: usize,
}

/// How many blocks so many buckets hold at most: nine tenths of their slots.
const fn capacity(bucket_count: usize) -> usize {
    bucket_count * SLOTS * 9 / 10
}

/// The least number of buckets that is at least `count` and one of four for each doubling.
fn rounded_up(count: usize) -> usize {
    count.next_multiple_of(1 << (count - 1).checked_ilog2().unwrap_or(0).saturating_sub(2))
}

/// The number of buckets for `len` blocks and one more.
fn bucket_count(len: usize) -> usize {
    rounded_up(((len + 1) * 10).div_ceil(SLOTS * 9))
}

/// Where blocks with this tag come in the order of positions: its bits read backwards.
#[inline]
fn order(tag: u16) -> u64 {
    u64::from(tag.reverse_bits() >> (u16::BITS - TAG_BITS))
}

impl<B: Block> Segment<B> {
    /// An empty one with room for `len` blocks.
    pub(super) fn with_room_for(len: usize) -> Self {
        Self::with_buckets(bucket_count(len))
    }

    /// One that stands for another for a moment; it can do nothing.
    pub(super) fn without_room() -> Self {
        Self::with_buckets(0)
    }

    fn with_buckets(count: usize) -> Self {
        Self { buckets: (0..count).map(|_| Bucket::empty()).collect(), len: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn slot_count(&self) -> usize {
        self.buckets.len() * SLOTS
    }

    /// Bytes it has allocated.
    #[inline]
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// The bucket in which blocks with this tag lie if it has room.
    #[inline]
    fn home(&self, tag: u16) -> usize {
        (usize::from(tag) * self.buckets.len()) >> TAG_BITS
    }

    #[inline]
    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    /// Where the block with this tag lies that `eq` accepts.
    #[inline]
    pub(super) fn locate(&self, tag: u16, mut eq: impl FnMut(B::Ref<'_>) -> bool) -> Option<Place> {
        let mut at = self.home(tag);
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[at];
            let (mut matching, passed) = bucket.look_up(tag);
            while matching != 0 {
                let slot = matching.trailing_zeros() as usize % SLOTS;
                if bucket.slots[slot].get().is_some_and(&mut eq) {
                    return Some(Place { bucket: at, slot });
                }
                matching &= matching - 1;
            }
            if passed == 0 {
                return None;
            }
            at = self.after(at);
        }
        None
    }

    /// Moves the buckets.
    pub(super) fn move_buckets(&mut self, mover: &mut dyn Mover) {
        move_slice(&mut self.buckets, mover);
    }

    /// The blocks of a bucket, in a table with this turn, from a slot of it on, with the numbers of their slots.
    pub(super) fn held_from(
        &mut self,
        slot: usize,
        turn: bool,
    ) -> impl Iterator<Item = (usize, Held<'_, B>)> {
        let slots = self.buckets[slot / SLOTS].slots.iter_mut();
        let numbered = (slot - slot % SLOTS..).zip(slots).skip(slot % SLOTS);
        numbered.filter_map(move |(number, slot)| Some((number, slot.get_mut(turn)?)))
    }

    /// Asks for the bucket of this tag.
    #[inline]
    pub(super) fn prefetch(&self, tag: u16) {
        crate::prefetch::prefetch(self.buckets.as_ptr().wrapping_add(self.home(tag)));
    }

    /// The first slot with this tag in its home: most likely the one that a look-up finds.
    #[inline]
    pub(super) fn likely_slot(&self, tag: u16) -> Option<&Slot<B>> {
        let bucket = self.buckets.get(self.home(tag))?;
        bucket.slots.get(bucket.look_up(tag).0.trailing_zeros() as usize)
    }

    #[inline]
    pub(super) fn slot(&self, place: Place) -> &Slot<B> {
        &self.buckets[place.bucket].slots[place.slot]
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, place: Place) -> &mut Slot<B> {
        &mut self.buckets[place.bucket].slots[place.slot]
    }

    /// The slot of this number.
    pub(super) fn numbered_slot(&self, number: usize) -> Option<&Slot<B>> {
        self.buckets.get(number / SLOTS).map(|bucket| &bucket.slots[number % SLOTS])
    }

    /// The bucket of this number.
    pub(super) fn bucket(&self, number: usize) -> Option<&[Slot<B>; SLOTS]> {
        self.buckets.get(number).map(|bucket| &bucket.slots)
    }

    /// All slots, empty ones too.
    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot<B>> {
        self.buckets.iter().flat_map(|bucket| &bucket.slots)
    }

    /// All slots, empty ones too, to change what they hold.
    pub(super) fn slots_mut(&mut self) -> impl Iterator<Item = &mut Slot<B>> {
        self.buckets.iter_mut().flat_map(|bucket| &mut bucket.slots)
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len >= capacity(self.buckets.len())
    }

    /// Adds a block with this turn; the segment is not full.
    #[inline]
    pub(super) fn insert(&mut self, tag: u16, turn: bool, block: B) -> Place {
        let mut at = self.home(tag);
        let slot = loop {
            let bucket = &mut self.buckets[at];
            match bucket.free_slot() {
                Some(slot) => break slot,
                None => bucket.count_passing(),
            }
            at = self.after(at);
        };
        self.buckets[at].slots[slot].put(tag, turn, block);
        self.len += 1;
        Place { bucket: at, slot }
    }

    /// Takes the block at a place out.
    #[inline]
    pub(super) fn remove(&mut self, place: Place) -> Option<B> {
        let slot = self.slot_mut(place);
        let tag = slot.tag();
        let block = slot.take()?;
        self.len -= 1;
        let mut at = self.home(tag);
        while at != place.bucket {
            self.buckets[at].uncount_passing();
            at = self.after(at);
        }
        Some(block)
    }

    /// Takes out the blocks for which `keep` is false, looking only at those with an order from `from` on.
    pub(super) fn retain(&mut self, from: u64, keep: &mut dyn FnMut(B::Ref<'_>) -> bool) {
        for bucket in 0..self.buckets.len() {
            for slot in 0..SLOTS {
                let place = Place { bucket, slot };
                let slot = self.slot_mut(place);
                if order(slot.tag()) >= from && slot.get().is_some_and(|block| !keep(block)) {
                    self.remove(place);
                }
            }
        }
        if self.is_sparse() {
            self.shrink();
        }
    }

    /// Makes room in a full segment.
    #[cold]
    pub(super) fn grow(&mut self) {
        self.rebuild(rounded_up(self.buckets.len() + 1));
    }

    /// Whether less than half of it is in use.
    #[inline]
    pub(super) fn is_sparse(&self) -> bool {
        self.len * 2 < capacity(self.buckets.len()) && self.buckets.len() > 1
    }

    /// Gives memory back that is not in use.
    #[cold]
    pub(super) fn shrink(&mut self) {
        self.rebuild(bucket_count(self.len + self.len / 4));
    }

    fn rebuild(&mut self, bucket_count: usize) {
        let mut rebuilt = Filling::new(Self::with_buckets(bucket_count));
        rebuilt.absorb(std::mem::replace(self, Self::without_room()), |tag| tag);
        *self = rebuilt.segment;
    }

    /// Divides a segment of this depth by the first bit of its tags.
    pub(super) fn split(mut self, depth: u32, hash_of: &dyn Fn(B::Ref<'_>) -> u64) -> (Self, Self) {
        let mut slots: Vec<&mut Slot<B>> = self.slots_mut().filter(|slot| !slot.is_empty()).collect();
        let high_count = slots.iter().filter(|slot| slot.tag() & 1 != 0).count();
        let mut low = Filling::new(Self::with_room_for(slots.len() - high_count));
        let mut high = Filling::new(Self::with_room_for(high_count));
        slots.iter().take(AHEAD).for_each(|slot| slot.prefetch());
        for number in 0..slots.len() {
            if let Some(ahead) = slots.get(number + AHEAD) {
                ahead.prefetch();
            }
            let slot = &mut slots[number];
            let side = if slot.tag() & 1 == 0 { &mut low } else { &mut high };
            if let Some(block) = slot.get() {
                let tag = tag_at(hash_of(block), depth + 1);
                side.take_over(tag, slot);
            }
        }
        (low.segment, high.segment)
    }

    /// The segment of this one's blocks and those of its buddy, whose hashes have a 1 in the bit where they part.
    pub(super) fn merge(self, buddy: Self) -> Self {
        let mut merged = Filling::new(Self::with_room_for(self.len + buddy.len));
        let one_bit_earlier = |tag: u16| tag << 1 & (u16::MAX >> (u16::BITS - TAG_BITS));
        merged.absorb(self, one_bit_earlier);
        merged.absorb(buddy, |tag| one_bit_earlier(tag) | 1);
        merged.segment
    }

    /// The same with the blocks that `clone` makes of those here.
    pub(super) fn cloned_by(&self, clone: &dyn Fn(B::Ref<'_>) -> B) -> Self {
        let bucket =
            |bucket: &Bucket<B>| Bucket { slots: bucket.slots.each_ref().map(|slot| slot.cloned_by(clone)) };
        Self { buckets: self.buckets.iter().map(bucket).collect(), ..*self }
    }

    /// The segment as it was, an empty one in its place.
    pub(super) fn take_all(&mut self) -> Self {
        std::mem::replace(self, Self::with_room_for(0))
    }

    /// Takes all blocks out.
    pub(super) fn into_blocks(mut self) -> Vec<B> {
        self.slots_mut().filter_map(Slot::take).collect()
    }

    /// Visits the first `count` (not 0) of the blocks that come at order `from` or later, and those that come at the same
    /// order as the last of them. Returns how many these were, and the order to go on from.
    pub(super) fn visit<'a>(
        &'a self,
        from: u64,
        count: usize,
        visit: &mut dyn FnMut(B::Ref<'a>),
    ) -> (usize, u64) {
        let slots = self.slots().filter(|slot| !slot.is_empty()).map(|slot| (order(slot.tag()), slot));
        let mut slots: Vec<(u64, &Slot<B>)> = slots.filter(|(order, _)| *order >= from).collect();
        let mut next = ORDER_END;
        if slots.len() > count {
            let (_, &mut (last, _), _) = slots.select_nth_unstable_by_key(count - 1, |(order, _)| *order);
            slots.retain(|(order, _)| *order <= last);
            next = last + 1;
        }
        slots.sort_unstable_by_key(|(order, _)| *order);
        slots.iter().for_each(|(_, slot)| slot.prefetch());
        slots.iter().filter_map(|(_, slot)| slot.get()).for_each(visit);
        (slots.len(), next)
    }

    /// Shows the blocks that have not this turn to `visit`, bucket by bucket, and gives it to those for which that is true;
    /// the first for which it is not ends the visit, and the answer is false. `ahead` sees them a moment earlier, to ask for
    /// memory.
    pub(super) fn visit_old(
        &mut self,
        turn: bool,
        ahead: &mut dyn FnMut(B::Ref<'_>),
        visit: &mut dyn FnMut(B::Ref<'_>) -> bool,
    ) -> bool {
        for at in 0..self.buckets.len() {
            if let Some(next) = self.buckets.get(at + 1) {
                next.slots.iter().for_each(|slot| slot.prefetch());
            }
            let is_old = |slot: &Slot<B>| !slot.is_empty() && slot.turn() != turn;
            let slots = &mut self.buckets[at].slots;
            slots.iter().filter(|slot| is_old(slot)).filter_map(Slot::get).for_each(&mut *ahead);
            for slot in slots.iter_mut().filter(|slot| is_old(slot)) {
                if !slot.get().is_some_and(&mut *visit) {
                    return false;
                }
                slot.set_turn(turn);
            }
        }
        true
    }

    /// Panics if the segment contradicts itself; for tests.
    pub(super) fn debug_validate(&self) {
        assert!(self.len <= capacity(self.buckets.len()));
        assert_eq!(self.len, self.slots().filter(|slot| !slot.is_empty()).count());
        let mut passed = vec![0_usize; self.buckets.len()];
        for (at, bucket) in self.buckets.iter().enumerate() {
            for slot in bucket.slots.iter().filter(|slot| !slot.is_empty()) {
                let mut home = self.home(slot.tag());
                while home != at {
                    passed[home] += 1;
                    home = self.after(home);
                }
            }
        }
        for (bucket, passed) in self.buckets.iter().zip(passed) {
            let counted = usize::from(bucket.passed());
            assert!(
                counted == passed || counted == usize::from(u8::MAX),
                "{counted} counted, {passed} passed"
            );
        }
    }
}

/// A new segment that is being filled. Its buckets have no gaps, so how full they are says where the next block goes.
struct Filling<B: Block> {
    segment: Segment<B>,
    filled: Vec<u8>,
}

impl<B: Block> Filling<B> {
    fn new(segment: Segment<B>) -> Self {
        let filled = vec![0; segment.buckets.len()];
        Self { segment, filled }
    }

    /// Takes over the block of a slot that is not empty.
    #[inline]
    fn take_over(&mut self, tag: u16, from: &mut Slot<B>) {
        let (home, turn) = (self.segment.home(tag), from.turn());
        let filled = &mut self.filled[home];
        if let Some(slot) = self.segment.buckets[home].slots.get_mut(usize::from(*filled)) {
            slot.take_over(tag, from);
            self.segment.len += 1;
            *filled += 1;
        } else if let Some(block) = from.take() {
            let at = self.segment.insert(tag, turn, block).bucket;
            self.filled[at] += 1;
        }
    }

    fn absorb(&mut self, mut other: Segment<B>, tag_of: impl Fn(u16) -> u16) {
        for slot in other.slots_mut().filter(|slot| !slot.is_empty()) {
            self.take_over(tag_of(slot.tag()), slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_counts_grow_in_steps() {
        let mut counts: Vec<usize> = (1..=100).map(rounded_up).collect();
        counts.dedup();
        assert_eq!(
            counts,
            [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112]
        );
        assert!((0..5000).all(|len| capacity(bucket_count(len)) > len));
    }
}
