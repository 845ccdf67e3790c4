//! The directory of a table with more than one segment: extendible hashing.
//!
//! ```text
//! depth = 2        index  00 01 10 11        hash >> (64 - depth) picks a place in `index`,
//!                          0  0  1  2        which holds the number of a segment
//! segments   0: prefix 0, depth 1   1: prefix 10, depth 2   2: prefix 11, depth 2
//! ```
//!
//! A segment of depth d owns 2^(depth - d) neighbouring places. Splitting a segment at full depth doubles the
//! index; when no segment is left at full depth the index is halved. Both copy four bytes a place: a
//! table of ten million entries has 32 768 to 65 536 places.
//!
//! Invariants: places of one segment are exactly those its prefix covers; segments lie dense, in no order; there are at least two. The index has at most
//! [`PLACES_FREE`] + [`PLACES_PER_SEGMENT`] × segments places, so hashes that agree in their top bits (which a secret
//! seed prevents) make a segment larger than usual instead of an index without bound.
//! (Fagin, Nievergelt, Pippenger, Strong: "Extendible hashing", ACM TODS 1979.)

use super::DEPTH_MAX;
use super::segment::{MERGE_ENTRIES_MAX, Segment};

const PLACES_FREE: usize = 1024;
const PLACES_PER_SEGMENT: usize = 64;

#[derive(Clone)]
pub(super) struct Directory<T> {
    /// 64 minus the depth of the index, which is at least 1.
    shift: u32,
    /// How many segments have the depth of the index.
    deepest_count: usize,
    /// Entries in all segments.
    pub(super) len: usize,
    index: Vec<u32>,
    pub(super) segments: Vec<Segment<T>>,
}

impl<T> Directory<T> {
    /// The directory of the two halves of the root.
    pub(super) fn new(low: Segment<T>, high: Segment<T>) -> Self {
        let len = low.len() + high.len();
        Self { shift: 63, deepest_count: 2, len, index: vec![0, 1], segments: vec![low, high] }
    }

    fn depth(&self) -> u32 {
        64 - self.shift
    }

    /// The number of the segment for `hash`.
    #[inline]
    pub(super) fn number_of(&self, hash: u64) -> usize {
        self.index[(hash >> self.shift) as usize] as usize
    }

    #[inline]
    pub(super) fn segment(&self, hash: u64) -> &Segment<T> {
        &self.segments[self.number_of(hash)]
    }

    #[inline]
    pub(super) fn segment_mut(&mut self, hash: u64) -> &mut Segment<T> {
        let number = self.number_of(hash);
        &mut self.segments[number]
    }

    /// Makes the places that the segment's prefix covers lead to it.
    fn point_at(&mut self, number: usize) {
        let segment = &self.segments[number];
        let spread = self.depth() - u32::from(segment.depth);
        let first = (segment.prefix as usize) << spread;
        self.index[first..first + (1 << spread)].fill(number as u32);
    }

    /// Splits a segment in two; false, and nothing done, if the index would become too large for it.
    pub(super) fn split(&mut self, number: usize) -> bool {
        let depth = self.segments[number].depth;
        if u32::from(depth) == self.depth() && !self.double() {
            return false;
        }
        let (low, high) = std::mem::replace(&mut self.segments[number], Segment::root()).split();
        if u32::from(low.depth) == self.depth() {
            self.deepest_count += 2;
        }
        self.segments[number] = low;
        self.segments.push(high);
        self.point_at(self.segments.len() - 1);
        true
    }

    fn double(&mut self) -> bool {
        let places = self.index.len() * 2;
        let places_max = PLACES_FREE + PLACES_PER_SEGMENT * self.segments.len();
        if self.depth() >= u32::from(DEPTH_MAX) || places > places_max {
            return false;
        }
        let mut index = Vec::with_capacity(places);
        for &number in &self.index {
            index.extend([number, number]);
        }
        self.index = index;
        self.shift -= 1;
        self.deepest_count = 0;
        true
    }

    /// Merges a segment with its buddy, and the result with its own, while they are sparse.
    ///
    /// Returns the last segment of all when only that is left; the directory is empty then.
    pub(super) fn merge(&mut self, mut number: usize) -> Option<Segment<T>> {
        while let Some(buddy_number) = self.sparse_buddy(number) {
            let segment = std::mem::replace(&mut self.segments[number], Segment::root());
            let buddy = std::mem::replace(&mut self.segments[buddy_number], Segment::root());
            if u32::from(segment.depth) == self.depth() {
                self.deepest_count -= 2;
            }
            let merged = segment.merge(buddy);
            if merged.depth == 0 {
                return Some(merged);
            }
            if u32::from(merged.depth) == self.depth() {
                self.deepest_count += 1;
            }
            self.segments[number] = merged;
            self.point_at(number);
            self.segments.swap_remove(buddy_number);
            if buddy_number < self.segments.len() {
                self.point_at(buddy_number);
            }
            if number == self.segments.len() {
                number = buddy_number;
            }
            while self.deepest_count == 0 {
                self.halve();
            }
        }
        None
    }

    fn sparse_buddy(&self, number: usize) -> Option<usize> {
        let segment = &self.segments[number];
        let place = ((segment.prefix ^ 1) as usize) << (self.depth() - u32::from(segment.depth));
        let buddy_number = self.index[place] as usize;
        let buddy = &self.segments[buddy_number];
        let are_sparse = segment.len() + buddy.len() <= MERGE_ENTRIES_MAX;
        (buddy.depth == segment.depth && are_sparse).then_some(buddy_number)
    }

    fn halve(&mut self) {
        self.index = self.index.iter().copied().step_by(2).collect();
        self.shift += 1;
        let depth = self.depth();
        self.deepest_count = self.segments.iter().filter(|s| u32::from(s.depth) == depth).count();
        if self.segments.len() < self.segments.capacity() / 4 {
            self.segments.shrink_to(self.segments.len() * 2);
        }
    }

    /// The last segment, in order of hashes, that holds anything.
    pub(super) fn last_occupied(&self) -> Option<usize> {
        let numbers = self.index.iter().rev().map(|&number| number as usize);
        numbers.into_iter().find(|&number| self.segments[number].len() > 0)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.index.capacity() * size_of::<u32>()
            + self.segments.capacity() * size_of::<Segment<T>>()
    }

    pub(super) fn debug_validate(&self) {
        assert_eq!(self.index.len(), 1 << self.depth());
        assert!(self.segments.len() >= 2);
        assert_eq!(self.len, self.segments.iter().map(Segment::len).sum::<usize>());
        let deepest = self.segments.iter().filter(|s| u32::from(s.depth) == self.depth());
        assert_eq!(self.deepest_count, deepest.count());
        assert!(self.deepest_count > 0, "the index is deeper than needed");
        let mut places = 0;
        for (number, segment) in self.segments.iter().enumerate() {
            let spread = self.depth() - u32::from(segment.depth);
            let first = (segment.prefix as usize) << spread;
            assert!(self.index[first..first + (1 << spread)].iter().all(|&place| place as usize == number));
            places += 1 << spread;
        }
        assert_eq!(places, self.index.len());
    }
}
