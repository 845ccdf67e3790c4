//! The hash table of blocks, pieces of memory that contain their own key: a shard's keys, and all larger collections.
//!
//! It is an array of segments that grows by splitting one and shrinks by merging two (`numbering`), so no operation moves
//! more than about 400 entries, and an empty table allocates nothing. It stores no hashes: an entry is eight bytes, the
//! address of its block and a 15-bit tag from the hash, and eight entries fill a cache line. A successful look-up reads that
//! line and the block; an unsuccessful one nearly always reads the line alone. A hundred entries take about a thousand bytes.
//!
//! ```text
//!  hash   63 ..            | .. 16 + depth         | .. 17, 16        | 15 .. 0
//!         not looked at      tag, 15 bits: bucket    segment            placement on shards (equal in one table)
//!                            in the segment
//! ```
//!
//! So the tag follows the bits that select the segment. A segment knows fifteen bits of its entries' positions beyond
//! its own first position, enough to visit them in that order. When a segment is split, the first bit of a tag decides
//! the side, and each tag gets a new last bit: for that, the owner's `hash_of` is called for each block. Merging reads
//! no block, and neither does growth within a segment.
//!
//! Each block is also *old* or not ([`CompactTable::begin_turn`]), even when it moves. Snapshots need this.

mod bucket;
mod numbering;
mod segment;
mod slot;
mod walk;

use std::mem;

use segment::{BlockPlace, Segment};
pub use slot::{Block, Held, SharedBlock};
use slot::{Slot, TAG_BITS};
pub use walk::Sampling;

pub use numbering::POSITION_BITS;
use numbering::{PLACEMENT_BITS, buddy_of, segment_of};

/// A segment is added when the average exceeds this many entries; segments not yet split then have up to about 370.
const ENTRIES_PER_SEGMENT_MAX: usize = 184;
/// A segment is merged when the average falls below this many entries.
const ENTRIES_PER_SEGMENT_MIN: usize = 60;

/// A hash table of blocks; see the head of this file.
pub struct CompactTable<B: Block> {
    /// Empty only while the table is.
    segments: Vec<Segment<B>>,
    len: usize,
    /// Bytes that the segments have allocated, kept up to date so that accounting need not visit them.
    segment_bytes: usize,
    /// The turn bit of blocks that are not old.
    turn: bool,
}

/// The tag of a hash in a segment of this depth.
#[inline]
fn tag_at(hash: u64, depth: u32) -> u16 {
    (hash >> (PLACEMENT_BITS + depth)) as u16 & (u16::MAX >> (u16::BITS - TAG_BITS))
}

impl<B: Block> Default for CompactTable<B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B: Block> CompactTable<B> {
    /// An empty table; allocates nothing.
    pub const fn new() -> Self {
        Self { segments: Vec::new(), len: 0, segment_bytes: 0, turn: false }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The segment for a hash, and the hash's tag there.
    #[inline]
    fn segment(&self, hash: u64) -> Option<(&Segment<B>, u16)> {
        let (number, depth) = segment_of(self.segments.len().max(1), hash);
        Some((self.segments.get(number)?, tag_at(hash, depth)))
    }

    #[inline]
    fn segment_mut(&mut self, hash: u64) -> Option<(&mut Segment<B>, u16)> {
        let (number, depth) = segment_of(self.segments.len().max(1), hash);
        Some((self.segments.get_mut(number)?, tag_at(hash, depth)))
    }

    /// Prefetches the bucket that a look-up of this hash reads first.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some((segment, tag)) = self.segment(hash) {
            segment.prefetch(tag);
        }
    }

    #[inline]
    fn likely_slot(&self, hash: u64) -> Option<&Slot<B>> {
        self.segment(hash).and_then(|(segment, tag)| segment.likely_slot(tag))
    }

    /// Prefetches the block that a look-up of this hash will most likely find. Call it when the bucket has arrived
    /// after [`prefetch`](Self::prefetch).
    #[inline]
    pub fn prefetch_block(&self, hash: u64) {
        if let Some(slot) = self.likely_slot(hash) {
            slot.prefetch();
        }
    }

    /// The block that a look-up of this hash will most likely find. Reads only the bucket that
    /// [`prefetch`](Self::prefetch) asks for; the block's key is not compared.
    #[inline]
    pub fn likely(&self, hash: u64) -> Option<B::Ref<'_>> {
        self.likely_slot(hash)?.get()
    }

    /// Finds the block with this hash that `eq` accepts. `eq` is also called for a few blocks whose hashes agree in the
    /// bits that the table compares.
    #[inline]
    pub fn find(&self, hash: u64, eq: impl FnMut(B::Ref<'_>) -> bool) -> Option<B::Ref<'_>> {
        let (segment, tag) = self.segment(hash)?;
        segment.slot(segment.locate(tag, eq)?).get()
    }

    /// Like [`find`](Self::find), for changing the block.
    #[inline]
    pub fn find_mut(&mut self, hash: u64, eq: impl FnMut(B::Ref<'_>) -> bool) -> Option<Held<'_, B>> {
        let turn = self.turn;
        let (segment, tag) = self.segment_mut(hash)?;
        let place = segment.locate(tag, eq)?;
        segment.slot_mut(place).get_mut(turn)
    }

    /// Adds a block that the caller knows to be absent. `hash_of` returns the hash of any block of the table.
    #[inline]
    pub fn insert(&mut self, hash: u64, block: B, hash_of: impl Fn(B::Ref<'_>) -> u64) -> Held<'_, B> {
        self.make_room(hash, hash_of);
        let (number, depth) = segment_of(self.segments.len(), hash);
        self.put(number, tag_at(hash, depth), None, block)
    }

    /// Whether a segment must be added before another block.
    #[inline]
    fn is_crowded(&self) -> bool {
        self.len >= self.segments.len() * ENTRIES_PER_SEGMENT_MAX
    }

    /// Ensures room for a block with this hash.
    #[inline]
    fn make_room(&mut self, hash: u64, hash_of: impl Fn(B::Ref<'_>) -> u64) {
        if self.is_crowded() {
            self.add_segment(hash_of);
        }
        let (number, _) = segment_of(self.segments.len(), hash);
        if self.segments[number].is_full() {
            self.change(number, Segment::grow);
        }
    }

    /// Adds a block to a segment with room, into the given free slot or else the first one for its tag.
    #[inline(always)]
    fn put(&mut self, number: usize, tag: u16, free: Option<BlockPlace>, block: B) -> Held<'_, B> {
        self.len += 1;
        let segment = &mut self.segments[number];
        let place = free.unwrap_or_else(|| segment.find_free(tag));
        segment.put(place, tag, self.turn, block)
    }

    /// Finds the block with this hash that `eq` accepts, or adds a new one from `make`. Returns true if it is new.
    #[inline]
    pub fn find_or_insert_with(
        &mut self,
        hash: u64,
        eq: impl FnMut(B::Ref<'_>) -> bool,
        make: impl FnOnce() -> B,
        hash_of: impl Fn(B::Ref<'_>) -> u64,
    ) -> (Held<'_, B>, bool) {
        let (number, depth) = segment_of(self.segments.len().max(1), hash);
        let tag = tag_at(hash, depth);
        let free = match self.segments.get(number).map(|segment| segment.locate_or_free(tag, eq)) {
            Some(Ok(place)) => {
                let turn = self.turn;
                let slot = self.segments[number].slot_mut(place);
                return (slot.get_mut(turn).expect("it was found there"), false);
            }
            Some(Err(free)) => free,
            None => None,
        };
        if self.is_crowded() || self.segments[number].is_full() {
            return (self.insert(hash, make(), hash_of), true);
        }
        (self.put(number, tag, free, make()), true)
    }

    /// Removes and returns the block with this hash that `eq` accepts.
    #[inline]
    pub fn remove(&mut self, hash: u64, eq: impl FnMut(B::Ref<'_>) -> bool) -> Option<B> {
        let (number, depth) = segment_of(self.segments.len().max(1), hash);
        let segment = self.segments.get_mut(number)?;
        let place = segment.locate(tag_at(hash, depth), eq)?;
        let block = segment.remove(place)?;
        self.len -= 1;
        if segment.is_sparse() {
            self.change(number, Segment::shrink);
        }
        if self.is_sparse() {
            self.merge_last();
        }
        Some(block)
    }

    /// Calls `change`, which may allocate or free, on a segment and keeps `segment_bytes` up to date.
    fn change<R>(&mut self, number: usize, change: impl FnOnce(&mut Segment<B>) -> R) -> R {
        let segment = &mut self.segments[number];
        self.segment_bytes -= segment.memory_bytes();
        let result = change(segment);
        self.segment_bytes += segment.memory_bytes();
        result
    }

    /// Makes room for about `count` blocks, so that few are moved as they are added. Does nothing if the table is not empty.
    pub fn reserve(&mut self, count: usize) {
        if self.len > 0 {
            return;
        }
        let segment_count = count.div_ceil(ENTRIES_PER_SEGMENT_MAX);
        let segment = |number: usize| {
            let (_, depth) = segment_of(segment_count, (number as u64) << PLACEMENT_BITS);
            // A little more than expected there, so that few segments grow.
            Segment::with_room_for((count >> depth) * 17 / 16)
        };
        self.segments = (0..segment_count).map(segment).collect();
        self.segment_bytes = self.segments.iter().map(Segment::memory_bytes).sum();
    }

    /// Adds the first segment, or splits one.
    #[cold]
    #[inline(never)]
    fn add_segment(&mut self, hash_of: impl Fn(B::Ref<'_>) -> u64) {
        let new = self.segments.len();
        let added = if new == 0 {
            Segment::with_room_for(0)
        } else {
            let number = buddy_of(new);
            self.change(number, |buddy| {
                let whole = mem::replace(buddy, Segment::without_room());
                let (low, high) = whole.split((new - number).ilog2(), hash_of);
                *buddy = low;
                high
            })
        };
        self.segment_bytes += added.memory_bytes();
        self.segments.push(added);
    }

    #[inline]
    fn is_sparse(&self) -> bool {
        self.segments.len() > 1 && self.len < self.segments.len() * ENTRIES_PER_SEGMENT_MIN
    }

    /// Merges the last segment into its buddy.
    #[cold]
    fn merge_last(&mut self) {
        let Some(last) = self.segments.pop() else { return };
        self.segment_bytes -= last.memory_bytes();
        self.change(buddy_of(self.segments.len()), |buddy| {
            let whole = mem::replace(buddy, Segment::without_room()).merge(last);
            *buddy = whole;
        });
        if self.segments.len() < self.segments.capacity() / 4 {
            self.segments.shrink_to(self.segments.len() * 2);
        }
    }

    /// Copies the table; `clone` copies a block and must keep its hash.
    pub fn cloned_by(&self, clone: impl Fn(B::Ref<'_>) -> B) -> Self {
        let segments = self.segments.iter().map(|segment| segment.cloned_by(&clone)).collect();
        let mut cloned = Self { segments, ..*self };
        cloned.segments.shrink_to_fit();
        cloned
    }

    /// All blocks, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = B::Ref<'_>> {
        self.segments.iter().flat_map(Segment::slots).filter_map(|slot| slot.get())
    }

    /// Drops all blocks at once. For large tables see [`drain_segment`](Self::drain_segment).
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Bytes that the table has allocated, without the blocks.
    pub fn memory_bytes(&self) -> usize {
        self.segment_bytes + self.segments.capacity() * size_of::<Segment<B>>()
    }

    /// Panics if the table is inconsistent; for tests.
    pub fn debug_validate(&self, hash_of: impl Fn(B::Ref<'_>) -> u64) {
        assert_eq!(self.len, self.segments.iter().map(Segment::len).sum::<usize>());
        assert_eq!(self.segment_bytes, self.segments.iter().map(Segment::memory_bytes).sum::<usize>());
        for (number, segment) in self.segments.iter().enumerate() {
            segment.debug_validate();
            for slot in segment.slots() {
                let Some(hash) = slot.get().map(&hash_of) else { continue };
                let (own, depth) = segment_of(self.segments.len(), hash);
                assert_eq!(
                    (own, tag_at(hash, depth)),
                    (number, slot.tag()),
                    "a block lies in a foreign place"
                );
            }
        }
    }
}
