//! One segment of a table: all entries whose hash starts with the same bits.
//!
//! Inside, entries lie in a `hashbrown` table under their hash rotated by [`BUCKET_ROTATION`]: the bucket comes from bits 25
//! upward and hashbrown's tag from bits 18 to 24. The low 16 bits (equal within a shard) and the top bits (equal
//! within a segment) take no part.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::{DEPTH_MAX, POSITION_BITS};

/// The most buckets a segment has before it is split.
pub(super) const BUCKETS_MAX: usize = 512;
/// What fits into that many buckets at hashbrown's load limit of 7/8.
pub(super) const ENTRIES_MAX: usize = BUCKETS_MAX / 8 * 7;
/// A full segment with more entries than this is split; with fewer it is mostly tombstones and is rebuilt.
const SPLIT_ENTRIES_MIN: usize = ENTRIES_MAX / 4 * 3;
/// Two buddies with at most this many entries together become one segment.
pub(super) const MERGE_ENTRIES_MAX: usize = ENTRIES_MAX / 2;

const BUCKET_ROTATION: u32 = 25;
const SHRINK_BUCKETS_MIN: usize = 32;

#[derive(Clone)]
pub(super) struct Slot<T> {
    pub(super) hash: u64,
    pub(super) value: T,
}

impl<T> Slot<T> {
    #[inline]
    fn bucket_hash(&self) -> u64 {
        bucket_hash(self.hash)
    }

    pub(super) fn position(&self) -> u64 {
        self.hash >> (64 - POSITION_BITS)
    }
}

#[inline]
fn bucket_hash(hash: u64) -> u64 {
    hash.rotate_right(BUCKET_ROTATION)
}

/// What a full segment needs before the next insertion.
pub(super) enum Room {
    /// Nothing: hashbrown grows the segment as it inserts.
    Grows,
    /// It must be split, or grow past its limit where that is impossible.
    Split,
}

#[derive(Clone)]
pub(super) struct Segment<T> {
    pub(super) entries: HashTable<Slot<T>>,
    /// The top `depth` bits that all hashes in here share.
    pub(super) prefix: u32,
    pub(super) depth: u8,
}

impl<T> Segment<T> {
    /// The segment for all hashes; allocates nothing.
    pub(super) const fn root() -> Self {
        Self { entries: HashTable::new(), prefix: 0, depth: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() == self.entries.capacity()
    }

    #[inline]
    pub(super) fn find(&self, hash: u64, mut eq: impl FnMut(&T) -> bool) -> Option<&T> {
        let slot = self.entries.find(bucket_hash(hash), |slot| slot.hash == hash && eq(&slot.value));
        slot.map(|slot| &slot.value)
    }

    #[inline]
    pub(super) fn find_mut(&mut self, hash: u64, mut eq: impl FnMut(&T) -> bool) -> Option<&mut T> {
        let slot = self.entries.find_mut(bucket_hash(hash), |slot| slot.hash == hash && eq(&slot.value));
        slot.map(|slot| &mut slot.value)
    }

    #[inline]
    pub(super) fn insert(&mut self, hash: u64, value: T) -> &mut T {
        let slot = Slot { hash, value };
        &mut self.entries.insert_unique(bucket_hash(hash), slot, Slot::bucket_hash).into_mut().value
    }

    #[inline]
    pub(super) fn find_or_insert_with(
        &mut self,
        hash: u64,
        mut eq: impl FnMut(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> (&mut T, bool) {
        let is_it = |slot: &Slot<T>| slot.hash == hash && eq(&slot.value);
        match self.entries.entry(bucket_hash(hash), is_it, Slot::bucket_hash) {
            Entry::Occupied(entry) => (&mut entry.into_mut().value, false),
            Entry::Vacant(entry) => (&mut entry.insert(Slot { hash, value: make() }).into_mut().value, true),
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, hash: u64, mut eq: impl FnMut(&T) -> bool) -> Option<T> {
        let is_it = |slot: &Slot<T>| slot.hash == hash && eq(&slot.value);
        let entry = self.entries.find_entry(bucket_hash(hash), is_it).ok()?;
        Some(entry.remove().0.value)
    }

    /// True when merging or shrinking is worth a look.
    #[inline]
    pub(super) fn is_sparse(&self) -> bool {
        self.entries.len() < self.entries.num_buckets() / 4
    }

    /// Called on a full segment: rebuilds it where that gives room, otherwise says what is needed.
    pub(super) fn make_room(&mut self) -> Room {
        if self.entries.num_buckets() < BUCKETS_MAX {
            return Room::Grows;
        }
        if self.len() > SPLIT_ENTRIES_MIN {
            return Room::Split;
        }
        self.rebuild(ENTRIES_MAX);
        Room::Grows
    }

    /// Gives memory back when less than an eighth of it is in use.
    pub(super) fn shrink(&mut self) {
        let buckets = self.entries.num_buckets();
        if buckets >= SHRINK_BUCKETS_MIN && self.len() < buckets / 8 {
            self.rebuild(self.len() * 2);
        }
    }

    fn rebuild(&mut self, capacity: usize) {
        let old = std::mem::replace(&mut self.entries, HashTable::with_capacity(capacity));
        self.absorb(old);
    }

    fn absorb(&mut self, entries: HashTable<Slot<T>>) {
        self.entries.reserve(entries.len(), Slot::bucket_hash);
        for slot in entries {
            self.entries.insert_unique(slot.bucket_hash(), slot, Slot::bucket_hash);
        }
    }

    /// Divides the segment by the next bit of the hash.
    pub(super) fn split(self) -> (Self, Self) {
        assert!(self.depth < DEPTH_MAX, "the directory refuses deeper splits");
        let bit = 1_u64 << (63 - self.depth);
        let high_count = self.entries.iter().filter(|slot| slot.hash & bit != 0).count();
        let half = |prefix, count: usize| Self {
            // A half of about the usual size would grow to the limit at once: give it that size now.
            entries: HashTable::with_capacity(if count > ENTRIES_MAX / 4 {
                count.max(ENTRIES_MAX)
            } else {
                count
            }),
            prefix,
            depth: self.depth + 1,
        };
        let mut low = half(self.prefix * 2, self.len() - high_count);
        let mut high = half(self.prefix * 2 + 1, high_count);
        for slot in self.entries {
            let side = if slot.hash & bit == 0 { &mut low } else { &mut high };
            side.entries.insert_unique(slot.bucket_hash(), slot, Slot::bucket_hash);
        }
        (low, high)
    }

    /// The segment of both buddies' entries.
    pub(super) fn merge(self, buddy: Self) -> Self {
        debug_assert!(self.depth == buddy.depth && self.prefix ^ buddy.prefix == 1);
        let (mut large, small) = if self.len() > buddy.len() { (self, buddy) } else { (buddy, self) };
        large.prefix >>= 1;
        large.depth -= 1;
        large.absorb(small.entries);
        large
    }

    /// The position after the last one that can be in here; 2^48 for the last segment.
    pub(super) fn end_position(&self) -> u64 {
        (u64::from(self.prefix) + 1) << (POSITION_BITS - u32::from(self.depth))
    }

    /// Visits, in order of position, at least `wanted` entries at `from` or behind it, if there are so many, and
    /// never only some of those at one position. Returns how many, and the position to go on from if any are left.
    pub(super) fn scan<'a>(
        &'a self,
        from: u64,
        wanted: usize,
        visit: &mut dyn FnMut(&'a T),
    ) -> (usize, Option<u64>) {
        let mut slots: Vec<&Slot<T>> = self.entries.iter().filter(|slot| slot.position() >= from).collect();
        let found = slots.len();
        if wanted < found {
            let (_, last, _) = slots.select_nth_unstable_by_key(wanted - 1, |slot| slot.hash);
            let last = last.position();
            slots.retain(|slot| slot.position() <= last);
        }
        slots.sort_unstable_by_key(|slot| slot.hash);
        for slot in &slots {
            visit(&slot.value);
        }
        let rest = (slots.len() < found).then(|| slots[slots.len() - 1].position() + 1);
        (slots.len(), rest)
    }
}
