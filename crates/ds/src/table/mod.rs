//! The hash table: the keys of a shard, the fields of a big hash, the members of a big set.
//!
//! Entries are found by a 64-bit hash that the caller computes; the table keeps it beside each entry and
//! never looks at keys except through the `eq` it is given. Hashes must be spread evenly over all but their
//! low 16 bits.
//!
//! A table is a row of segments, each a `hashbrown` table of some hundred entries. It grows by splitting
//! one segment and shrinks by merging two, so no operation moves more than those few entries. Small tables
//! are one segment, and an empty table allocates nothing.
//!
//! ```text
//!  hash   63 .. 48   | 47 .. 41 | .. 17, 16        | 15 .. 0
//!         bucket       tag        segment, position  placement on shards (equal in one table)
//! ```
//!
//! The *position* of an entry is its hash without the low 16 bits, read backwards. Segments are picked by
//! those bits from 16 upward, so every segment is one range of positions, and splits and merges only divide
//! and unite ranges: the order of positions outlives them all. A cursor is a position, saying that
//! everything below it is done. So [`Table::scan`] returns at least once whatever stays present from the
//! first call to the last, and the upper 16 bits of a client's cursor are left for the number of the shard.

pub(crate) mod numbering;
mod segment;
mod segments;
mod walk;

pub use numbering::POSITION_BITS;

use segment::Segment;
use segments::{ENTRIES_PER_SEGMENT_MAX, Segments};

/// A hash table; see the head of this file.
#[derive(Clone)]
pub struct Table<T> {
    state: State<T>,
}

#[derive(Clone)]
enum State<T> {
    Single(Segment<T>),
    Split(Segments<T>),
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Table<T> {
    /// An empty table; allocates nothing.
    pub const fn new() -> Self {
        Self { state: State::Single(Segment::new()) }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.state {
            State::Single(segment) => segment.len(),
            State::Split(segments) => segments.len,
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
            State::Split(segments) => segments.of(hash),
        }
    }

    #[inline]
    fn segment_mut(&mut self, hash: u64) -> &mut Segment<T> {
        match &mut self.state {
            State::Single(segment) => segment,
            State::Split(segments) => segments.of_mut(hash),
        }
    }

    fn segments(&self) -> &[Segment<T>] {
        match &self.state {
            State::Single(segment) => std::slice::from_ref(segment),
            State::Split(segments) => &segments.all,
        }
    }

    fn segments_mut(&mut self) -> &mut [Segment<T>] {
        match &mut self.state {
            State::Single(segment) => std::slice::from_mut(segment),
            State::Split(segments) => &mut segments.all,
        }
    }

    /// The entry with this hash that `eq` accepts. `eq` is asked only about entries whose whole hash is
    /// equal.
    #[inline]
    pub fn find(&self, hash: u64, eq: impl FnMut(&T) -> bool) -> Option<&T> {
        self.segment(hash).find(hash, eq)
    }

    /// Asks for the memory that a look-up of this hash reads.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.segment(hash).prefetch(hash);
    }

    /// Like [`find`](Self::find).
    #[inline]
    pub fn find_mut(&mut self, hash: u64, eq: impl FnMut(&T) -> bool) -> Option<&mut T> {
        self.segment_mut(hash).find_mut(hash, eq)
    }

    /// Adds an entry that the caller knows to be absent.
    #[inline]
    pub fn insert(&mut self, hash: u64, value: T) -> &mut T {
        self.split_if_full();
        match &mut self.state {
            State::Single(segment) => segment.insert(hash, value),
            State::Split(segments) => {
                let number = segments.make_room(hash);
                segments.len += 1;
                segments.all[number].insert(hash, value)
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
        self.split_if_full();
        match &mut self.state {
            State::Single(segment) => segment.find_or_insert_with(hash, eq, make),
            State::Split(segments) => {
                let number = segments.make_room(hash);
                let (value, is_new) = segments.all[number].find_or_insert_with(hash, eq, make);
                segments.len += usize::from(is_new);
                (value, is_new)
            }
        }
    }

    /// Takes the entry with this hash that `eq` accepts out of the table.
    #[inline]
    pub fn remove(&mut self, hash: u64, eq: impl FnMut(&T) -> bool) -> Option<T> {
        match &mut self.state {
            State::Single(segment) => {
                let value = segment.remove(hash, eq)?;
                segment.shrink();
                Some(value)
            }
            State::Split(segments) => {
                let value = segments.of_mut(hash).remove(hash, eq)?;
                segments.len -= 1;
                if segments.is_sparse() {
                    self.merge_last();
                }
                Some(value)
            }
        }
    }

    #[inline]
    fn split_if_full(&mut self) {
        if let State::Single(segment) = &mut self.state
            && segment.is_full()
        {
            self.grow_single();
        }
    }

    #[cold]
    fn grow_single(&mut self) {
        if let State::Single(segment) = &mut self.state {
            if segment.len() < ENTRIES_PER_SEGMENT_MAX {
                segment.grow();
            } else {
                self.state = State::Split(Segments::new(std::mem::replace(segment, Segment::new())));
            }
        }
    }

    #[cold]
    fn merge_last(&mut self) {
        if let State::Split(segments) = &mut self.state
            && let Some(only) = segments.merge_last()
        {
            self.state = State::Single(only);
        }
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
        match &self.state {
            State::Single(segment) => segment.memory_bytes(),
            State::Split(segments) => {
                segments.segment_bytes + segments.all.capacity() * size_of::<Segment<T>>()
            }
        }
    }

    /// Panics if the table contradicts itself; for tests.
    pub fn debug_validate(&self) {
        let segments = self.segments();
        assert_eq!(self.len(), segments.iter().map(Segment::len).sum::<usize>());
        if let State::Split(state) = &self.state {
            assert!(segments.len() > 1);
            assert_eq!(state.segment_bytes, segments.iter().map(Segment::memory_bytes).sum::<usize>());
        }
        for segment in segments {
            for slot in &segment.entries {
                assert!(std::ptr::eq(self.segment(slot.hash), segment), "an entry lies in a foreign segment");
                let found = segment.find(slot.hash, |value| std::ptr::eq(value, &slot.value));
                assert!(found.is_some(), "an entry cannot be found");
            }
        }
    }
}
