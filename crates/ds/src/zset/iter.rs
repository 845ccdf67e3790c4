//! Walking a sorted set from a rank on, up or down.

use std::borrow::Cow;

use super::large::Large;
use super::members::split_record;
use super::tree::Leaf;
use super::{FormRef, ZSetRef};
use crate::list::entry::Entries;

fn lent(record: &[u8]) -> (Cow<'_, [u8]>, f64) {
    let (member, score) = split_record(record);
    (Cow::Borrowed(member), score)
}

/// Members and scores, in ascending or descending order.
#[derive(Clone)]
pub struct Iter<'a> {
    form: IterForm<'a>,
    /// Number of members still to come.
    remaining: usize,
    reverse: bool,
}

#[derive(Clone)]
enum IterForm<'a> {
    Small(Entries<'a>),
    /// The current leaf, the index of the next entry in it, and that entry's rank.
    Large(&'a Large, Option<(&'a Leaf, usize)>, usize),
}

impl<'a> Iter<'a> {
    pub(super) fn new(set: ZSetRef<'a>, rank: usize, reverse: bool) -> Self {
        let len = set.len();
        let remaining = match rank < len {
            true if reverse => rank + 1,
            true => len - rank,
            false => 0,
        };
        let form = match set.form {
            FormRef::Large(large) => IterForm::Large(large, None, rank),
            FormRef::Small(packed) => {
                let mut entries = Entries::new(packed.bytes);
                let skipped = len - remaining;
                if let Some(last) = skipped.checked_sub(1) {
                    if reverse {
                        entries.nth_back(last)
                    } else {
                        entries.nth(last)
                    };
                }
                IterForm::Small(entries)
            }
        };
        Self { form, remaining, reverse }
    }

    /// Limits the iterator to `count` members.
    #[must_use]
    pub fn limited(mut self, count: usize) -> Self {
        self.remaining = self.remaining.min(count);
        self
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = (Cow<'a, [u8]>, f64);

    fn next(&mut self) -> Option<(Cow<'a, [u8]>, f64)> {
        self.remaining = self.remaining.checked_sub(1)?;
        match &mut self.form {
            IterForm::Small(entries) if self.reverse => entries.next_back().map(lent),
            IterForm::Small(entries) => entries.next().map(lent),
            IterForm::Large(large, place, rank) => {
                let (leaf, at) = place.unwrap_or_else(|| large.tree.leaf_at(*rank));
                (*place, *rank) = if self.reverse {
                    (at.checked_sub(1).map(|at| (leaf, at)), rank.wrapping_sub(1))
                } else {
                    ((at + 1 < leaf.len()).then_some((leaf, at + 1)), *rank + 1)
                };
                let (score, id) = leaf.key(at);
                Some((large.members.member(id), score))
            }
        }
    }

    /// Walks through leaves as slices.
    fn fold<A, F: FnMut(A, Self::Item) -> A>(self, start: A, mut visit: F) -> A {
        let (large, mut place, mut rank) = match self.form {
            IterForm::Large(large, place, rank) => (large, place, rank),
            IterForm::Small(entries) if self.reverse => {
                return entries.rev().take(self.remaining).map(lent).fold(start, visit);
            }
            IterForm::Small(entries) => {
                return entries.take(self.remaining).map(lent).fold(start, visit);
            }
        };
        let (mut result, mut remaining) = (start, self.remaining);
        while remaining > 0 {
            let (leaf, at) = place.take().unwrap_or_else(|| large.tree.leaf_at(rank));
            let range = match self.reverse {
                true => (at + 1).saturating_sub(remaining)..at + 1,
                false => at..leaf.len().min(at + remaining),
            };
            let count = range.len();
            let keys = leaf.keys(range);
            let member = |(score, id)| (large.members.member(id), score);
            result = match self.reverse {
                true => keys.rev().map(member).fold(result, &mut visit),
                false => keys.map(member).fold(result, &mut visit),
            };
            remaining -= count;
            rank = if self.reverse { rank.wrapping_sub(count) } else { rank + count };
        }
        result
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

impl ExactSizeIterator for Iter<'_> {}
