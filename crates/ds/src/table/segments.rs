//! The segments of a table that has more than one; [`numbering`](super::numbering) says which is which.
//!
//! [`ENTRIES_PER_SEGMENT_MAX`] lets segments that were not split yet in a round reach about 370 entries. Hashes that
//! are not spread (which a secret seed prevents), or entries that come in order of their positions, make some
//! segments larger, and nothing else.
//!
//! The price, against extendible hashing with an index of segment numbers (8-byte entries, best of five
//! interleaved runs, twice, on a busy machine): a lookup takes 20-24 ns instead of 19-20 among 100 000
//! entries and 94-102 instead of 76-81 among a million; an insertion 49-51 instead of 33-34 and 144-152
//! instead of 114-119. What it buys is that there is no index to double or to bound; the row of
//! segments itself, 32 bytes each, is still copied when it outgrows its allocation.

use super::numbering::{PLACEMENT_BITS, buddy_of, segment_of};
use super::segment::Segment;

/// A segment is added when there are more entries than this for each.
pub(super) const ENTRIES_PER_SEGMENT_MAX: usize = 184;
/// A segment is merged when there are fewer entries than this for each.
const ENTRIES_PER_SEGMENT_MIN: usize = 60;

#[derive(Clone)]
pub(super) struct Segments<T> {
    /// At least two. Entries with the same low bits of `hash >> 16` share one.
    pub(super) all: Vec<Segment<T>>,
    /// Entries in all segments.
    pub(super) len: usize,
    /// Bytes the segments have allocated, so that accounting need not ask them all.
    pub(super) segment_bytes: usize,
}

impl<T> Segments<T> {
    /// The two halves of the one segment a table begins with.
    pub(super) fn new(only: Segment<T>) -> Self {
        let len = only.len();
        let (low, high) = only.split(1 << PLACEMENT_BITS);
        let segment_bytes = low.memory_bytes() + high.memory_bytes();
        Self { all: vec![low, high], len, segment_bytes }
    }

    #[inline]
    pub(super) fn number_of(&self, hash: u64) -> usize {
        segment_of(self.all.len(), hash).0
    }

    #[inline]
    pub(super) fn of(&self, hash: u64) -> &Segment<T> {
        &self.all[self.number_of(hash)]
    }

    /// Makes room for an entry with this hash; returns the number of its segment.
    #[inline]
    pub(super) fn make_room(&mut self, hash: u64) -> usize {
        if self.len >= self.all.len() * ENTRIES_PER_SEGMENT_MAX {
            self.split_next();
        }
        let number = self.number_of(hash);
        if self.all[number].is_full() {
            self.change(number, Segment::grow);
        }
        number
    }

    /// Lets `change` allocate or free in one segment.
    pub(super) fn change<R>(&mut self, number: usize, change: impl FnOnce(&mut Segment<T>) -> R) -> R {
        let segment = &mut self.all[number];
        self.segment_bytes -= segment.memory_bytes();
        let result = change(segment);
        self.segment_bytes += segment.memory_bytes();
        result
    }

    #[inline]
    pub(super) fn of_mut(&mut self, hash: u64) -> &mut Segment<T> {
        let number = self.number_of(hash);
        &mut self.all[number]
    }

    /// Splits one segment off.
    #[cold]
    fn split_next(&mut self) {
        let new = self.all.len();
        let number = buddy_of(new);
        let bit = ((new - number) as u64) << PLACEMENT_BITS;
        let high = self.change(number, |buddy| {
            let whole = std::mem::replace(buddy, Segment::new());
            let (low, high) = whole.split(bit);
            *buddy = low;
            high
        });
        self.segment_bytes += high.memory_bytes();
        self.all.push(high);
    }

    #[inline]
    pub(super) fn is_sparse(&self) -> bool {
        self.len < self.all.len() * ENTRIES_PER_SEGMENT_MIN
    }

    /// Merges the last segment into its buddy; returns the last one of all when there were two.
    pub(super) fn merge_last(&mut self) -> Option<Segment<T>> {
        let last = self.all.pop()?;
        self.segment_bytes -= last.memory_bytes();
        let number = buddy_of(self.all.len());
        self.change(number, |buddy| {
            let whole = std::mem::replace(buddy, Segment::new()).merge(last);
            *buddy = whole;
        });
        if self.all.len() == 1 {
            return self.all.pop();
        }
        if self.all.len() < self.all.capacity() / 4 {
            self.all.shrink_to(self.all.len() * 2);
        }
        None
    }
}
