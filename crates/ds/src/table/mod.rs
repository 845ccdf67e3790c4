//! The hash table: the keys of a shard, the fields of a big hash, the members of a big set.
//!
//! Entries are found by a 64-bit hash that the caller computes; the table keeps it beside each entry and never
//! looks at keys except through the `eq` it is given. Hashes must be spread evenly over all but their low 16 bits.
//!
//! Extendible hashing: a directory indexed by the top bits of the hash leads to segments of at most 448 entries,
//! each a `hashbrown` table. A full segment is split in two, sparse buddies are merged, so growing
//! and shrinking move some hundred entries at a time and never the whole table. One segment needs no directory, and an empty table allocates nothing.
//!
//! ```text
//!  hash   63 .. top bits .. | .. 25 and up | 24 .. 18 | 17 .. 16 | 15 .. 0
//!         directory, order    bucket         tag                   placement on shards (equal in one table)
//! ```
//!
//! Segments are ranges of hashes, so the order of hashes outlives every split and merge. A cursor is a *position*:
//! the top 48 bits of a hash, saying that everything below it is done. That makes [`Table::scan`] return at least once whatever stays
//! present from the first call to the last, and leaves 16 bits of a client's cursor for the number of the shard.

mod directory;
mod segment;
mod walk;

use directory::Directory;
use segment::{Room, Segment};

/// Bits of a cursor.
pub const POSITION_BITS: u32 = 48;
/// The most bits of the hash the directory uses; those and the bits used inside a segment do not overlap.
const DEPTH_MAX: u8 = 28;

/// A hash table; see the head of this file.
#[derive(Clone)]
pub struct Table<T> {
    state: State<T>,
}

#[derive(Clone)]
enum State<T> {
    Single(Segment<T>),
    Split(Box<Directory<T>>),
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Table<T> {
    /// An empty table; allocates nothing.
    pub const fn new() -> Self {
        Self { state: State::Single(Segment::root()) }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.state {
            State::Single(segment) => segment.len(),
            State::Split(directory) => directory.len,
        }
    }

    /// True if there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn segment(&self, hash: u64) -> &Segment<T> {
        match &self.state {
            State::Single(segment) => segment,
            State::Split(directory) => directory.segment(hash),
        }
    }

    #[inline]
    fn segment_mut(&mut self, hash: u64) -> &mut Segment<T> {
        match &mut self.state {
            State::Single(segment) => segment,
            State::Split(directory) => directory.segment_mut(hash),
        }
    }

    fn segments(&self) -> &[Segment<T>] {
        match &self.state {
            State::Single(segment) => std::slice::from_ref(segment),
            State::Split(directory) => &directory.segments,
        }
    }

    fn segments_mut(&mut self) -> &mut [Segment<T>] {
        match &mut self.state {
            State::Single(segment) => std::slice::from_mut(segment),
            State::Split(directory) => &mut directory.segments,
        }
    }

    /// The entry with this hash that `eq` accepts. `eq` is asked only about entries whose whole hash is equal.
    #[inline]
    pub fn find(&self, hash: u64, eq: impl FnMut(&T) -> bool) -> Option<&T> {
        self.segment(hash).find(hash, eq)
    }

    /// Like [`find`](Self::find).
    #[inline]
    pub fn find_mut(&mut self, hash: u64, eq: impl FnMut(&T) -> bool) -> Option<&mut T> {
        self.segment_mut(hash).find_mut(hash, eq)
    }

    /// Adds an entry that the caller knows to be absent.
    #[inline]
    pub fn insert(&mut self, hash: u64, value: T) -> &mut T {
        if self.segment(hash).is_full() {
            self.make_room(hash);
        }
        match &mut self.state {
            State::Single(segment) => segment.insert(hash, value),
            State::Split(directory) => {
                directory.len += 1;
                directory.segment_mut(hash).insert(hash, value)
            }
        }
    }

    /// The entry with this hash that `eq` accepts, or a new one from `make`; true if it is new.
    #[inline]
    pub fn find_or_insert_with(
        &mut self,
        hash: u64,
        eq: impl FnMut(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> (&mut T, bool) {
        if self.segment(hash).is_full() {
            self.make_room(hash);
        }
        match &mut self.state {
            State::Single(segment) => segment.find_or_insert_with(hash, eq, make),
            State::Split(directory) => {
                let number = directory.number_of(hash);
                let (value, is_new) = directory.segments[number].find_or_insert_with(hash, eq, make);
                directory.len += usize::from(is_new);
                (value, is_new)
            }
        }
    }

    /// Takes the entry with this hash that `eq` accepts out of the table.
    #[inline]
    pub fn remove(&mut self, hash: u64, eq: impl FnMut(&T) -> bool) -> Option<T> {
        let segment = self.segment_mut(hash);
        let value = segment.remove(hash, eq)?;
        let is_sparse = segment.is_sparse();
        if let State::Split(directory) = &mut self.state {
            directory.len -= 1;
        }
        if is_sparse {
            self.give_back(hash);
        }
        Some(value)
    }

    /// Splits the full segment of `hash` until a further entry fits.
    #[cold]
    fn make_room(&mut self, hash: u64) {
        while self.segment(hash).is_full() {
            match self.segment_mut(hash).make_room() {
                Room::Grows => return,
                Room::Split => {}
            }
            match &mut self.state {
                State::Single(segment) => {
                    let (low, high) = std::mem::replace(segment, Segment::root()).split();
                    self.state = State::Split(Box::new(Directory::new(low, high)));
                }
                State::Split(directory) => {
                    let number = directory.number_of(hash);
                    if !directory.split(number) {
                        return;
                    }
                }
            }
        }
    }

    /// Merges or shrinks the sparse segment of `hash`.
    #[cold]
    fn give_back(&mut self, hash: u64) {
        if let State::Split(directory) = &mut self.state
            && let Some(last) = directory.merge(directory.number_of(hash))
        {
            self.state = State::Single(last);
        }
        self.segment_mut(hash).shrink();
    }

    /// All entries, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.iter_with_hash().map(|(_, value)| value)
    }

    /// All entries with their hashes.
    pub fn iter_with_hash(&self) -> impl Iterator<Item = (u64, &T)> {
        let slots = self.segments().iter().flat_map(|segment| segment.entries.iter());
        slots.map(|slot| (slot.hash, &slot.value))
    }

    /// All entries, to be changed in ways that leave their hashes as they are.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let slots = self.segments_mut().iter_mut().flat_map(|segment| segment.entries.iter_mut());
        slots.map(|slot| &mut slot.value)
    }

    /// Drops all entries, in one go: see [`drain_segment`](Self::drain_segment) for large tables.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Bytes the table has allocated, not counting what entries own elsewhere.
    pub fn memory_bytes(&self) -> usize {
        let segments = self.segments().iter().map(|segment| segment.entries.allocation_size()).sum::<usize>();
        match &self.state {
            State::Single(_) => segments,
            State::Split(directory) => segments + directory.memory_bytes(),
        }
    }

    /// Panics if the table contradicts itself; for tests.
    pub fn debug_validate(&self) {
        if let State::Split(directory) = &self.state {
            directory.debug_validate();
        }
        for segment in self.segments() {
            for slot in &segment.entries {
                let prefix = slot.hash.checked_shr(64 - u32::from(segment.depth)).unwrap_or(0);
                assert_eq!(prefix, u64::from(segment.prefix), "an entry lies in a foreign segment");
                let found = segment.find(slot.hash, |value| std::ptr::eq(value, &slot.value));
                assert!(found.is_some() || size_of::<T>() == 0, "an entry cannot be found");
            }
        }
    }
}
