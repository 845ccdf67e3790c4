//! The segments of a table that has more than one: linear hashing.
//!
//! ```text
//! count = 6, depth 3          hash bits ..18 17 16 pick the number; 110 and 111 do not exist yet,
//!  000  001  010  011  100  101    so they fall back to their buddies 010 and 011, which have depth 2
//! ```
//!
//! A table grows by one segment at a time: number `count` is split off its *buddy*, the same number without
//! the highest bit. It shrinks by merging the last segment back. When that happens follows from the number
//! of entries alone, so there is no directory to look through, to double, or to fall out of step, and
//! finding a segment is a mask and a compare. Segments not yet split in a round hold up to twice as many
//! entries as split ones: [`ENTRIES_PER_SEGMENT_MAX`] lets those reach about 370. Hashes that are not
//! spread (which a secret seed prevents), or entries that come in order of their positions, make some
//! segments larger, and nothing else. (Litwin: "Linear hashing", VLDB 1980.)
//!
//! The price, against extendible hashing with an index of segment numbers (8-byte entries, best of five
//! interleaved runs, twice, on a busy machine): a lookup takes 20-24 ns instead of 19-20 among 100 000
//! entries and 94-102 instead of 76-81 among a million; an insertion 49-51 instead of 33-34 and 144-152
//! instead of 114-119. What it buys is that there is no index to double or to bound; the row of
//! segments itself, 32 bytes each, is still copied when it outgrows its allocation.

use super::segment::Segment;
use super::{PLACEMENT_BITS, POSITION_BITS, position};

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

/// The highest power of two in `number`, which is not 0.
#[inline]
fn highest_bit(number: usize) -> usize {
    1 << number.ilog2()
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
        let count = self.all.len();
        // `| 1` only tells the compiler that the logarithm exists: a count is at least two.
        let half = highest_bit((count - 1) | 1);
        let number = (hash >> PLACEMENT_BITS) as usize & (half * 2 - 1);
        if number < count { number } else { number & (half - 1) }
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

    /// The positions of the segment that `hash` belongs to: the first one, and the number of them.
    pub(super) fn positions(&self, hash: u64) -> (u64, u64) {
        let number = self.number_of(hash);
        let half = highest_bit(self.all.len() - 1);
        let is_split = number >= half || number + half < self.all.len();
        let depth = half.ilog2() + u32::from(is_split);
        (position((number as u64) << PLACEMENT_BITS), 1 << (POSITION_BITS - depth))
    }

    /// Splits one segment off.
    #[cold]
    fn split_next(&mut self) {
        let new = self.all.len();
        let distance = highest_bit(new);
        let high = self.change(new - distance, |buddy| {
            let whole = std::mem::replace(buddy, Segment::new());
            let (low, high) = whole.split((distance as u64) << PLACEMENT_BITS);
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
        let number = self.all.len() - highest_bit(self.all.len());
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
