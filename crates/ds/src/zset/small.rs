//! The small form: ordered entries `score | member`, in the entry format of lists.

use super::members::split_record;
use super::tree::compare_scores;
use crate::list::entry::{self, Entries};
use crate::mover::{Mover, move_vec};
use crate::packed::{self, Packed};
use std::cmp::Ordering;
use std::ops::Range;

#[derive(Clone, Default)]
pub(super) struct Small {
    bytes: Vec<u8>,
    count: usize,
}

/// The order of a sorted set.
pub(super) fn compare((left, left_score): (&[u8], f64), (right, right_score): (&[u8], f64)) -> Ordering {
    compare_scores(left_score, right_score).then_with(|| left.cmp(right))
}

/// The members and their scores.
pub(super) fn pairs<'a>(packed: Packed<'a>) -> impl Iterator<Item = (&'a [u8], f64)> {
    Entries::new(packed.bytes).map(split_record)
}

/// The members and their scores, each with the range of bytes of its entry.
fn placed(bytes: &[u8]) -> impl Iterator<Item = (Range<usize>, (&[u8], f64))> {
    let mut entries = Entries::new(bytes);
    std::iter::from_fn(move || {
        let start = bytes.len() - entries.rest_bytes();
        let pair = split_record(entries.next()?);
        Some((start..bytes.len() - entries.rest_bytes(), pair))
    })
}

/// Whether these are the same member. Most members of one length have another last byte, so few are compared in full.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.last() == other.last() && one == other
}

/// Rank and score of a member.
pub(super) fn find(packed: Packed<'_>, member: &[u8]) -> Option<(usize, f64)> {
    let (index, (_, score)) = pairs(packed).enumerate().find(|(_, (other, _))| is_same(other, member))?;
    Some((index, score))
}

impl Small {
    pub(super) const fn new() -> Self {
        Self { bytes: Vec::new(), count: 0 }
    }

    pub(super) fn unpacked(packed: Packed<'_>) -> Self {
        Self { bytes: packed.to_vec(), count: packed.count }
    }

    #[inline]
    pub(super) fn packed(&self) -> Packed<'_> {
        Packed { form: 0, count: self.count, bytes: &self.bytes }
    }

    /// Moves its memory if the mover asks for it.
    pub(super) fn relocate(&mut self, mover: &mut dyn Mover) {
        move_vec(&mut self.bytes, mover);
    }

    /// Bytes that it has allocated.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Offset of the entry at `index`.
    fn offset_of(&self, index: usize) -> usize {
        let mut entries = Entries::new(&self.bytes);
        if let Some(last) = index.checked_sub(1) {
            entries.nth(last);
        }
        self.bytes.len() - entries.rest_bytes()
    }

    /// Adds a member or changes its score. Returns its previous score.
    pub(super) fn insert(&mut self, member: &[u8], score: f64) -> Option<f64> {
        // The sum turns a negative zero into a positive one.
        let score = score + 0.0;
        // Both are found in one walk: where the member is, and where it is to be.
        let (mut found, mut place) = (None, None);
        for (at, (other, other_score)) in placed(&self.bytes) {
            if is_same(other, member) {
                found = Some((at, other_score));
            } else if place.is_none() && compare((other, other_score), (member, score)).is_gt() {
                place = Some(at.start);
            }
        }
        let mut at = place.unwrap_or(self.bytes.len());
        if let Some((range, old)) = &found {
            if *old == score {
                return Some(*old);
            }
            if at > range.start {
                at -= range.len();
            }
            self.drop_entry(range.clone());
        }
        packed::reserve(&mut self.bytes, size_of::<f64>() + member.len() + entry::OVERHEAD_BYTES_MAX);
        let length = entry::append([&score.to_le_bytes(), member], &mut self.bytes);
        self.bytes[at..].rotate_right(length);
        self.count += 1;
        found.map(|(_, old)| old)
    }

    /// Removes a member; returns its score.
    pub(super) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let (range, (_, score)) = placed(&self.bytes).find(|(_, (other, _))| is_same(other, member))?;
        self.drop_entry(range);
        packed::give_back(&mut self.bytes);
        Some(score)
    }

    fn drop_entry(&mut self, range: Range<usize>) {
        self.bytes.drain(range);
        self.count -= 1;
    }

    /// Removes `count` existing entries from `start` on, and calls `visit` with each.
    pub(super) fn remove_range(&mut self, start: usize, count: usize, visit: &mut dyn FnMut(&[u8], f64)) {
        let from = self.offset_of(start);
        let mut entries = Entries::new(&self.bytes[from..]);
        entries.by_ref().take(count).map(split_record).for_each(|(member, score)| visit(member, score));
        let end = self.bytes.len() - entries.rest_bytes();
        self.bytes.drain(from..end);
        self.count -= count;
        packed::give_back(&mut self.bytes);
    }

    pub(super) fn debug_validate(&self) {
        let entries: Vec<_> = pairs(self.packed()).collect();
        assert_eq!(entries.len(), self.count);
        assert!(entries.is_sorted_by(|left, right| compare(*left, *right).is_lt()));
    }
}
