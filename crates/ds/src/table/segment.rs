//! One segment of a table: all entries whose hash agrees in the bits that pick the segment.
//!
//! Inside, entries lie in a `hashbrown` table under their hash rotated by [`BUCKET_ROTATION`]: the bucket
//! comes from bits 48 upward and hashbrown's tag from bits 41 to 47. The low 16 bits (equal within a shard)
//! and the bits behind them (equal within a segment) take no part.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::numbering::position;
use crate::prefetch::prefetch;

/// What a half just split off has room for: it grows to at least this soon.
const SPLIT_CAPACITY: usize = 224;
const BUCKET_ROTATION: u32 = 48;
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
}

#[inline]
fn bucket_hash(hash: u64) -> u64 {
    hash.rotate_right(BUCKET_ROTATION)
}

#[derive(Clone)]
pub(super) struct Segment<T> {
    pub(super) entries: HashTable<Slot<T>>,
}

impl<T> Segment<T> {
    /// An empty one; allocates nothing.
    pub(super) const fn new() -> Self {
        Self { entries: HashTable::new() }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(super) fn find(&self, hash: u64, mut eq: impl FnMut(&T) -> bool) -> Option<&T> {
        let slot = self.entries.find(bucket_hash(hash), |slot| slot.hash == hash && eq(&slot.value));
        slot.map(|slot| &slot.value)
    }

    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        self.entries.find(bucket_hash(hash), |slot| {
            prefetch(slot);
            false
        });
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

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() == self.entries.capacity()
    }

    /// Makes room in a full segment. A quarter of tombstones is swept out; left alone, hashbrown would
    /// double it.
    #[cold]
    pub(super) fn grow(&mut self) {
        let capacity = self.entries.num_buckets() / 8 * 7;
        if self.len() < capacity / 4 * 3 {
            self.rebuild(capacity);
        } else {
            self.entries.reserve(1, Slot::bucket_hash);
        }
    }

    /// Bytes it has allocated.
    #[inline]
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.allocation_size()
    }

    /// Gives memory back when less than an eighth of it is in use.
    #[inline]
    pub(super) fn shrink(&mut self) {
        let buckets = self.entries.num_buckets();
        if buckets >= SHRINK_BUCKETS_MIN && self.len() < buckets / 8 {
            self.rebuild(self.len() * 2);
        }
    }

    #[cold]
    fn rebuild(&mut self, capacity: usize) {
        let old = std::mem::replace(&mut self.entries, HashTable::with_capacity(capacity));
        self.absorb(old);
    }

    fn absorb(&mut self, entries: HashTable<Slot<T>>) {
        for slot in entries {
            self.entries.insert_unique(slot.bucket_hash(), slot, Slot::bucket_hash);
        }
    }

    /// Divides the segment by one bit of the hash.
    pub(super) fn split(self, bit: u64) -> (Self, Self) {
        let high_count = self.entries.iter().filter(|slot| slot.hash & bit != 0).count();
        let half = |count: usize| Self {
            entries: HashTable::with_capacity(if count * 4 < SPLIT_CAPACITY {
                count
            } else {
                count.max(SPLIT_CAPACITY)
            }),
        };
        let (mut low, mut high) = (half(self.len() - high_count), half(high_count));
        for slot in self.entries {
            let side = if slot.hash & bit == 0 { &mut low } else { &mut high };
            side.entries.insert_unique(slot.bucket_hash(), slot, Slot::bucket_hash);
        }
        (low, high)
    }

    /// The segment of both buddies' entries, in a table of the right size.
    pub(super) fn merge(self, buddy: Self) -> Self {
        let mut merged = Self { entries: HashTable::with_capacity(self.len() + buddy.len()) };
        merged.absorb(self.entries);
        merged.absorb(buddy.entries);
        merged
    }

    /// Visits, in order of position, the entries with positions in `from..to`; returns how many.
    pub(super) fn visit_range<'a>(&'a self, from: u64, to: u64, visit: &mut dyn FnMut(&'a T)) -> usize {
        let in_range = |slot: &&Slot<T>| (from..to).contains(&position(slot.hash));
        let mut slots: Vec<&Slot<T>> = self.entries.iter().filter(in_range).collect();
        slots.sort_unstable_by_key(|slot| position(slot.hash));
        for slot in &slots {
            visit(&slot.value);
        }
        slots.len()
    }
}
