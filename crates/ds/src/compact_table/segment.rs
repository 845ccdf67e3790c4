//! One segment of a table: all blocks whose hashes agree in the bits that select the segment.
//!
//! It is an array of buckets. A block's tag determines its *home*, the first bucket it may lie in. If that is full, the
//! block lies in the next bucket with room, and is counted in each bucket that it went past. So tags suffice to rebuild
//! the array. Only a split reads the blocks, for the bit that each tag then needs in place of the one used up.

use std::mem::ManuallyDrop;

use super::bucket::{Bucket, SLOTS};
use super::slot::{Block, Glance, Held, Slot, TAG_BITS};
use super::tag_at;
use crate::mover::{Mover, move_slice};

/// End of the orders of tags; see [`order`].
pub(super) const ORDER_END: u64 = 1 << TAG_BITS;
/// How many buckets ahead blocks are prefetched before their hashes are needed.
const BUCKETS_AHEAD: usize = 2;

pub(super) struct Segment<B: Block> {
    buckets: Box<[Bucket<B>]>,
    len: u32,
    /// Number of blocks at which it has to grow.
    capacity: u32,
}

/// Where a block lies.
#[derive(Clone, Copy)]
pub(super) struct BlockPlace {
    bucket: usize,
    slot: usize,
}

/// The fraction of its slots up to which a segment is filled.
const FILL: (usize, usize) = (11, 12);
/// Growing or splitting adds room by this factor. A segment grows twice before it is split, when it has slightly more than doubled.
const ROOM: (usize, usize) = (41, 32);
/// Number of segment sizes per doubling, as a power of two. The heap keeps blocks of each size apart, and one slab per
/// size is not full: with arbitrary bucket counts, those slabs took more memory than small collections have.
const SIZES_BITS: u32 = 2;

/// Number of blocks that this many buckets may hold.
const fn capacity(bucket_count: usize) -> usize {
    bucket_count * SLOTS * FILL.0 / FILL.1
}

/// Number of buckets for `len` blocks and one more.
fn bucket_count(len: usize) -> usize {
    rounded_up(((len + 1) * FILL.1).div_ceil(SLOTS * FILL.0))
}

/// Distance between neighbouring sizes around this number of buckets.
fn step(count: usize) -> usize {
    1 << count.checked_ilog2().unwrap_or(0).saturating_sub(SIZES_BITS)
}

/// The smallest size with at least `count` buckets.
fn rounded_up(count: usize) -> usize {
    count.next_multiple_of(step(count - 1))
}

/// The size nearest to this number of buckets.
fn rounded(count: usize) -> usize {
    let step = step(count);
    (count + step / 2) / step * step
}

/// Number of buckets for `len` blocks, with room to grow.
fn roomy_bucket_count(len: usize) -> usize {
    let buckets = (len * FILL.1 * ROOM.0).div_ceil(SLOTS * FILL.0 * ROOM.1);
    rounded(buckets).max(bucket_count(len))
}

/// The next size of a segment that grows.
fn grown(count: usize) -> usize {
    rounded(count * ROOM.0 / ROOM.1).max(rounded_up(count + 1))
}

/// Order in which scans visit this tag: its bits reversed.
#[inline]
fn order(tag: u16) -> u64 {
    u64::from(tag.reverse_bits() >> (u16::BITS - TAG_BITS))
}

impl<B: Block> Segment<B> {
    /// An empty segment with room for `len` blocks.
    pub(super) fn with_room_for(len: usize) -> Self {
        Self::with_buckets(bucket_count(len))
    }

    /// A placeholder without buckets, on which nothing else may be called.
    pub(super) fn without_room() -> Self {
        Self::with_buckets(0)
    }

    fn with_buckets(count: usize) -> Self {
        let capacity = u32::try_from(capacity(count)).expect("there are less than 2^32 blocks in a segment");
        Self { buckets: Bucket::empty_row(count), len: 0, capacity }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(super) fn slot_count(&self) -> usize {
        self.buckets.len() * SLOTS
    }

    /// Bytes that it has allocated.
    #[inline]
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// The home bucket of this tag.
    #[inline]
    fn home(&self, tag: u16) -> usize {
        (usize::from(tag) * self.buckets.len()) >> TAG_BITS
    }

    #[inline]
    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    /// Finds the place of the block with this tag that `eq` accepts.
    #[inline]
    pub(super) fn locate(&self, tag: u16, eq: impl FnMut(B::Ref<'_>) -> bool) -> Option<BlockPlace> {
        self.search(tag, eq, |_, _| {})
    }

    /// Like [`locate`](Self::locate). If there is no such block, returns a free slot for it, if the search came across one.
    #[inline]
    pub(super) fn locate_or_free(
        &self,
        tag: u16,
        eq: impl FnMut(B::Ref<'_>) -> bool,
    ) -> Result<BlockPlace, Option<BlockPlace>> {
        let mut free = None;
        let found = self.search(tag, eq, |bucket, untagged| {
            if free.is_none() && untagged != 0 {
                let place = BlockPlace { bucket, slot: untagged.trailing_zeros() as usize % SLOTS };
                free = self.slot(place).is_empty().then_some(place);
            }
        });
        found.ok_or(free)
    }

    /// Searches for the block with this tag that `eq` accepts. `pass` is called with each bucket that does not contain
    /// it, and that bucket's slots without a tag.
    #[inline(always)]
    fn search(
        &self,
        tag: u16,
        mut eq: impl FnMut(B::Ref<'_>) -> bool,
        mut pass: impl FnMut(usize, u8),
    ) -> Option<BlockPlace> {
        let mut at = self.home(tag);
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[at];
            let Glance { mut matching, untagged, marked: passed } = bucket.look_up(tag);
            while matching != 0 {
                let slot = matching.trailing_zeros() as usize % SLOTS;
                if bucket.slots[slot].get().is_some_and(&mut eq) {
                    return Some(BlockPlace { bucket: at, slot });
                }
                matching &= matching - 1;
            }
            pass(at, untagged);
            if passed == 0 {
                return None;
            }
            at = self.after(at);
        }
        None
    }

    /// Moves the buckets if the mover asks for it.
    pub(super) fn move_buckets(&mut self, mover: &mut dyn Mover) {
        move_slice(&mut self.buckets, mover);
    }

    /// The blocks of a bucket from a slot on, with the indexes of their slots, in a table with this turn.
    pub(super) fn held_from(
        &mut self,
        slot: usize,
        turn: bool,
    ) -> impl Iterator<Item = (usize, Held<'_, B>)> {
        let slots = self.buckets[slot / SLOTS].slots.iter_mut();
        let numbered = (slot - slot % SLOTS..).zip(slots).skip(slot % SLOTS);
        numbered.filter_map(move |(number, slot)| Some((number, slot.get_mut(turn)?)))
    }

    /// Prefetches the home bucket of this tag.
    #[inline]
    pub(super) fn prefetch(&self, tag: u16) {
        crate::prefetch::prefetch(self.buckets.as_ptr().wrapping_add(self.home(tag)));
    }

    /// The first slot with this tag in its home bucket: most likely the one that a look-up finds.
    #[inline]
    pub(super) fn likely_slot(&self, tag: u16) -> Option<&Slot<B>> {
        let bucket = self.buckets.get(self.home(tag))?;
        bucket.slots.get(bucket.look_up(tag).matching.trailing_zeros() as usize)
    }

    #[inline]
    pub(super) fn slot(&self, place: BlockPlace) -> &Slot<B> {
        &self.buckets[place.bucket].slots[place.slot]
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, place: BlockPlace) -> &mut Slot<B> {
        &mut self.buckets[place.bucket].slots[place.slot]
    }

    /// The slot with this index.
    pub(super) fn numbered_slot(&self, number: usize) -> Option<&Slot<B>> {
        self.buckets.get(number / SLOTS).map(|bucket| &bucket.slots[number % SLOTS])
    }

    /// The bucket with this index.
    pub(super) fn bucket(&self, number: usize) -> Option<&[Slot<B>; SLOTS]> {
        self.buckets.get(number).map(|bucket| &bucket.slots)
    }

    /// All slots, including empty ones.
    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot<B>> {
        self.buckets.iter().flat_map(|bucket| &bucket.slots)
    }

    /// All slots, including empty ones, for changing them.
    pub(super) fn slots_mut(&mut self) -> impl Iterator<Item = &mut Slot<B>> {
        self.buckets.iter_mut().flat_map(|bucket| &mut bucket.slots)
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len >= self.capacity
    }

    /// The first free slot for a block with this tag. The segment must not be full.
    #[inline(never)]
    pub(super) fn find_free(&self, tag: u16) -> BlockPlace {
        let mut at = self.home(tag);
        loop {
            match self.buckets[at].free_slot() {
                Some(slot) => return BlockPlace { bucket: at, slot },
                None => at = self.after(at),
            }
        }
    }

    /// Puts a block into the free slot found for it, and counts it in the buckets that it goes past.
    #[inline(always)]
    pub(super) fn put(&mut self, place: BlockPlace, tag: u16, turn: bool, block: B) -> Held<'_, B> {
        self.len += 1;
        let mut at = self.home(tag);
        while at != place.bucket {
            self.buckets[at].count_passing();
            at = self.after(at);
        }
        self.slot_mut(place).put(tag, turn, block)
    }

    /// Removes the block at this place.
    #[inline]
    pub(super) fn remove(&mut self, place: BlockPlace) -> Option<B> {
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

    /// Removes the blocks for which `keep` is false. Only looks at those with an order of `from` or later.
    pub(super) fn retain(&mut self, from: u64, keep: &mut dyn FnMut(B::Ref<'_>) -> bool) {
        for bucket in 0..self.buckets.len() {
            for slot in 0..SLOTS {
                let place = BlockPlace { bucket, slot };
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
        self.rebuild(grown(self.buckets.len()));
    }

    /// Whether less than half of the capacity is used.
    #[inline]
    pub(super) fn is_sparse(&self) -> bool {
        self.len * 2 < self.capacity && self.buckets.len() > 1
    }

    /// Frees unused memory.
    #[cold]
    pub(super) fn shrink(&mut self) {
        self.rebuild(roomy_bucket_count(self.len()));
    }

    fn rebuild(&mut self, bucket_count: usize) {
        let old = std::mem::replace(self, Self::without_room());
        let mut rebuilt = Filling::new(Self::with_buckets(bucket_count));
        rebuilt.absorb(old, |tag| tag);
        *self = rebuilt.finish();
    }

    /// Splits a segment of this depth by the first bit of its tags.
    pub(super) fn split(self, depth: u32, hash_of: impl Fn(B::Ref<'_>) -> u64) -> (Self, Self) {
        let len = self.len();
        let old = left_behind(self.buckets);
        // Empty slots have the tag 0.
        let high_bits =
            |bucket: &Bucket<B>| bucket.slots.iter().map(|slot| usize::from(slot.tag() & 1)).sum::<usize>();
        let high_count = old.iter().map(|bucket| high_bits(bucket)).sum();
        let [mut low, mut high] = [len - high_count, high_count]
            .map(|len| Filling::new(Self::with_buckets(roomy_bucket_count(len))));
        old.iter().take(BUCKETS_AHEAD).for_each(|bucket| bucket.prefetch_blocks());
        for (at, bucket) in old.iter().enumerate() {
            if let Some(ahead) = old.get(at + BUCKETS_AHEAD) {
                ahead.prefetch_blocks();
            }
            for slot in &bucket.slots {
                if let Some(block) = slot.get() {
                    let tag = tag_at(hash_of(block), depth + 1);
                    let side = if slot.tag() & 1 == 0 { &mut low } else { &mut high };
                    // SAFETY: each slot is taken over once and not used again.
                    unsafe { side.take_over(tag, slot) };
                }
            }
        }
        (low.finish(), high.finish())
    }

    /// Merges this segment with its buddy, whose hashes have a 1 in the bit that separates the two.
    pub(super) fn merge(self, buddy: Self) -> Self {
        let mut merged = Filling::new(Self::with_buckets(roomy_bucket_count(self.len() + buddy.len())));
        let one_bit_earlier = |tag: u16| tag << 1 & (u16::MAX >> (u16::BITS - TAG_BITS));
        merged.absorb(self, one_bit_earlier);
        merged.absorb(buddy, |tag| one_bit_earlier(tag) | 1);
        merged.finish()
    }

    /// A copy of the segment, with its blocks copied by `clone`.
    pub(super) fn cloned_by(&self, clone: &dyn Fn(B::Ref<'_>) -> B) -> Self {
        let bucket =
            |bucket: &Bucket<B>| Bucket { slots: bucket.slots.each_ref().map(|slot| slot.cloned_by(clone)) };
        Self { buckets: self.buckets.iter().map(bucket).collect(), ..*self }
    }

    /// Returns the segment and leaves an empty one in its place.
    pub(super) fn take_all(&mut self) -> Self {
        std::mem::replace(self, Self::with_room_for(0))
    }

    /// Removes all blocks.
    pub(super) fn into_blocks(mut self) -> Vec<B> {
        self.slots_mut().filter_map(Slot::take).collect()
    }

    /// Visits the first `count` (not 0) of the blocks with an order of `from` or later, and all others with the same
    /// order as the last of them. Returns the number of visited blocks, and the order to continue at.
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

    /// Calls `visit` for the old blocks (those whose turn is not `turn`), bucket by bucket. A block for which it
    /// returns true gets `turn`. If it returns false, stops and returns false. `ahead` is called for blocks shortly
    /// before, to prefetch memory.
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

    /// Panics if the segment is inconsistent; for tests.
    pub(super) fn debug_validate(&self) {
        assert!(self.len <= self.capacity && self.capacity as usize == capacity(self.buckets.len()));
        assert_eq!(self.len(), self.slots().filter(|slot| !slot.is_empty()).count());
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

/// A new segment that is being filled with the blocks of others. Its buckets have no gaps, so the count of a bucket
/// determines the next free slot.
struct Filling<B: Block> {
    segment: Segment<B>,
    /// Per bucket: the number of used slots in the bits of [`FILLED`], and above them the number of blocks that went past.
    counts: Vec<u16>,
}

/// The bits that count used slots.
const FILLED: u16 = 0xf;
/// One block that went past.
const PASSED: u16 = FILLED + 1;

/// The memory of buckets whose blocks are moved elsewhere. Dropping it frees the memory but drops no block: a block
/// that was not moved leaks.
fn left_behind<B: Block>(buckets: Box<[Bucket<B>]>) -> Box<[ManuallyDrop<Bucket<B>>]> {
    let buckets = Box::into_raw(buckets) as *mut [ManuallyDrop<Bucket<B>>];
    // SAFETY: it is the memory of a box whose elements have the same layout.
    unsafe { Box::from_raw(buckets) }
}

impl<B: Block> Filling<B> {
    fn new(segment: Segment<B>) -> Self {
        let counts = vec![0; segment.buckets.len()];
        Self { segment, counts }
    }

    /// Takes over the block of a non-empty slot, with its turn.
    ///
    /// # Safety
    ///
    /// The other slot is neither used again nor dropped.
    #[inline(always)]
    unsafe fn take_over(&mut self, tag: u16, from: &Slot<B>) {
        let mut at = self.segment.home(tag);
        loop {
            let count = &mut self.counts[at];
            let filled = usize::from(*count & FILLED);
            if let Some(slot) = self.segment.buckets[at].slots.get_mut(filled) {
                *count += 1;
                // SAFETY: the caller guarantees it.
                unsafe { slot.take_over(tag, from) };
                return;
            }
            *count = count.saturating_add(PASSED) & !FILLED | SLOTS as u16;
            at = self.segment.after(at);
        }
    }

    fn absorb(&mut self, other: Segment<B>, tag_of: impl Fn(u16) -> u16) {
        for bucket in left_behind(other.buckets).iter() {
            for slot in &bucket.slots {
                if !slot.is_empty() {
                    // SAFETY: each slot is taken over once and not used again.
                    unsafe { self.take_over(tag_of(slot.tag()), slot) };
                }
            }
        }
    }

    fn finish(self) -> Segment<B> {
        let Self { mut segment, counts } = self;
        for (bucket, count) in segment.buckets.iter_mut().zip(counts) {
            segment.len += u32::from(count & FILLED);
            if count >= PASSED {
                bucket.set_passed(0, (count / PASSED).min(u16::from(u8::MAX)) as u8);
            }
        }
        segment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_have_few_sizes() {
        assert!((0..5000).all(|len| capacity(bucket_count(len)) > len));
        assert!((0..5000).all(|len| capacity(roomy_bucket_count(len)) > len));
        let sizes = |len| [bucket_count(len), roomy_bucket_count(len), grown(roomy_bucket_count(len))];
        let mut sizes: Vec<usize> = (0..400).flat_map(sizes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let expected = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80];
        assert_eq!(sizes, expected);
    }

    #[test]
    fn segments_grow_two_or_three_times_while_they_double() {
        for len in 92..400 {
            let mut buckets = roomy_bucket_count(len);
            let mut grown_count = 0;
            while capacity(buckets) < 2 * len {
                buckets = grown(buckets);
                grown_count += 1;
            }
            assert!((2..=3).contains(&grown_count), "{len}: {grown_count}");
        }
    }
}
