//! A sorted set: members with scores, ordered by score and then by the member's bytes.
//!
//! * Small ("listpack" to OBJECT ENCODING): a run of bytes (`packed`) with the entry format of a list's nodes; each
//!   entry is `score (8 bytes, little-endian) | member`, in order. All operations walk through it.
//! * Large ("skiplist", though it is a B+tree): `members` owns the members and finds them by name, `tree` has them in
//!   order with ranks. A set that has become large stays large, as in Redis.
//!
//! Similar members of a large set, such as the jobs of a backlog, are packed with a dictionary (`packing`). Readers get copies.
//!
//! All ranges are ranges of ranks, 0 being the lowest score: [`ZSetRef::score_range`] and [`ZSetRef::lex_range`] turn bounds
//! into ranks for [`ZSetRef::iter_from_rank`] and [`ZSet::remove_rank_range`]. Scores are never NaN. The two zeros are equal in
//! order; the small form stores both as positive zero, as Redis does.

mod iter;
mod large;
mod members;
mod packing;
mod small;
#[cfg(test)]
mod tests;
mod tree;

pub use crate::num::{LexBound, ScoreBound};
pub use iter::Iter;

use crate::dictionary::PackingFigures;
use crate::listpack::LISTPACK_BYTES_MAX;
use crate::mover::{Mover, WalkPosition, move_box};
use crate::packed::Packed;
use crate::random::reduce;
use large::Large;
use small::Small;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;
use tree::compare_scores;

/// Members that [`ZSet::free_slice`] drops at a time.
const FREE_SLICE_MEMBERS: usize = 128;

/// When a sorted set leaves its small form.
#[derive(Clone, Copy, Debug)]
pub struct ZSetLimits {
    /// Maximum number of members of the small form.
    pub entries_max: usize,
    /// Maximum length of a member of the small form.
    pub value_bytes_max: usize,
    /// Bytes of its members at which a large set packs them; 0 disables packing.
    pub pack_bytes_min: usize,
}

/// A sorted set, owned.
#[derive(Clone)]
pub struct ZSet {
    form: Form,
}

#[derive(Clone)]
enum Form {
    Small(Small),
    Large(Box<Large>),
}

/// A borrowed sorted set, wherever it is stored.
#[derive(Clone, Copy)]
pub struct ZSetRef<'a> {
    form: FormRef<'a>,
}

#[derive(Clone, Copy)]
enum FormRef<'a> {
    Small(Packed<'a>),
    Large(&'a Large),
}

impl<'a> ZSetRef<'a> {
    /// The set that [`packed`](Self::packed) returned.
    #[inline]
    pub fn of(packed: Packed<'a>) -> Self {
        Self { form: FormRef::Small(packed) }
    }

    /// The set as bytes, if it is small.
    #[inline]
    pub fn packed(self) -> Option<Packed<'a>> {
        match self.form {
            FormRef::Small(packed) => Some(packed),
            FormRef::Large(_) => None,
        }
    }

    /// The number of members.
    pub fn len(self) -> usize {
        match self.form {
            FormRef::Small(packed) => packed.count,
            FormRef::Large(large) => large.tree.len(),
        }
    }

    /// Whether there are no members.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The name that OBJECT ENCODING reports.
    pub fn encoding(self) -> &'static str {
        match self.form {
            FormRef::Small(_) => "listpack",
            FormRef::Large(_) => "skiplist",
        }
    }

    /// Figures of its packing; `None` without a dictionary.
    pub fn packing(self) -> Option<PackingFigures> {
        let FormRef::Large(large) = self.form else { return None };
        let dictionary_bytes = large.members.dictionary()?.memory_bytes();
        Some(PackingFigures { packed_count: large.members.packed_count(), dictionary_bytes })
    }

    /// The score of a member.
    pub fn score(self, member: &[u8]) -> Option<f64> {
        match self.form {
            FormRef::Small(packed) => small::find(packed, member).map(|(_, score)| score),
            FormRef::Large(large) => large.score(member),
        }
    }

    /// The rank of a member, from 0 for the lowest score.
    pub fn rank(self, member: &[u8]) -> Option<usize> {
        match self.form {
            FormRef::Small(packed) => small::find(packed, member).map(|(index, _)| index),
            FormRef::Large(large) => large.rank(member),
        }
    }

    /// The member at a rank, and its score.
    pub fn at(self, rank: usize) -> Option<(Cow<'a, [u8]>, f64)> {
        self.iter_from_rank(rank, false).next()
    }

    /// The score at a rank.
    pub fn score_at(self, rank: usize) -> Option<f64> {
        match self.form {
            FormRef::Small(_) => self.at(rank).map(|(_, score)| score),
            FormRef::Large(large) if rank < large.tree.len() => {
                let (leaf, at) = large.tree.leaf_at(rank);
                Some(leaf.key(at).0)
            }
            FormRef::Large(_) => None,
        }
    }

    /// Members and scores from a rank on upwards, or downwards if `reverse`; empty if there is no such rank.
    pub fn iter_from_rank(self, rank: usize, reverse: bool) -> Iter<'a> {
        Iter::new(self, rank, reverse)
    }

    /// All members and scores in order.
    pub fn iter(self) -> Iter<'a> {
        self.iter_from_rank(0, false)
    }

    /// The ranks of the members whose scores are within the bounds; empty if no score is.
    pub fn score_range(self, min: ScoreBound, max: ScoreBound) -> Range<usize> {
        let below = |bound: f64, or_equal: bool| {
            self.rank_by_score(move |score| match compare_scores(score, bound) {
                Ordering::Less => true,
                Ordering::Equal => or_equal,
                Ordering::Greater => false,
            })
        };
        let start = match min {
            ScoreBound::Inclusive(bound) => below(bound, false),
            ScoreBound::Exclusive(bound) => below(bound, true),
        };
        let end = match max {
            ScoreBound::Inclusive(bound) => below(bound, true),
            ScoreBound::Exclusive(bound) => below(bound, false),
        };
        start..end.max(start)
    }

    /// The ranks of the members within the bounds, if all members have the same score; otherwise an arbitrary range.
    pub fn lex_range(self, min: LexBound<'_>, max: LexBound<'_>) -> Range<usize> {
        let below = |bound: LexBound<'_>, is_min: bool| match bound {
            LexBound::Min => 0,
            LexBound::Max => self.len(),
            LexBound::Inclusive(bound) => {
                self.rank_by_member(|member| if is_min { member < bound } else { member <= bound })
            }
            LexBound::Exclusive(bound) => {
                self.rank_by_member(|member| if is_min { member <= bound } else { member < bound })
            }
        };
        let start = below(min, true);
        // If scores differ, members are not in this order; Redis returns nothing then, unless the last member reaches the minimum.
        let reaches = |(last, _): (Cow<'_, [u8]>, f64)| match min {
            LexBound::Min => true,
            LexBound::Max => false,
            LexBound::Inclusive(bound) => *last >= *bound,
            LexBound::Exclusive(bound) => *last > *bound,
        };
        if !self.at(self.len().saturating_sub(1)).is_some_and(reaches) {
            return start..start;
        }
        start..below(max, false).max(start)
    }

    /// Number of members for whose scores `before` is true. These must be the first ones.
    fn rank_by_score(self, before: impl Fn(f64) -> bool) -> usize {
        match self.form {
            FormRef::Small(packed) => small::pairs(packed).take_while(|&(_, score)| before(score)).count(),
            FormRef::Large(large) => large.tree.rank_where(|(score, _)| before(score)),
        }
    }

    /// Number of members for which `before` is true. These must be the first ones.
    fn rank_by_member(self, before: impl Fn(&[u8]) -> bool) -> usize {
        match self.form {
            FormRef::Small(packed) => small::pairs(packed).take_while(|(member, _)| before(member)).count(),
            FormRef::Large(large) => large.tree.rank_where(|(_, id)| before(&large.members.member(id))),
        }
    }

    /// Visits about `count` members, or all of a small set. Returns the cursor to continue with, or 0 at the end. From
    /// the first call, with 0, to the last, every member that stays in the set is visited at least once.
    pub fn scan(self, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8], f64)) -> u64 {
        match self.form {
            FormRef::Small(packed) => {
                small::pairs(packed).for_each(|(member, score)| visit(member, score));
                0
            }
            FormRef::Large(large) => large.members.scan(cursor, count, visit),
        }
    }

    /// A random member and its score; all are equally likely.
    pub fn random(self, random: u64) -> Option<(Cow<'a, [u8]>, f64)> {
        if self.is_empty() { None } else { self.at(reduce(random, self.len())) }
    }

    /// An owned copy.
    pub fn to_zset(self) -> ZSet {
        let form = match self.form {
            FormRef::Small(packed) => Form::Small(Small::unpacked(packed)),
            FormRef::Large(large) => Form::Large(Box::new(large.clone())),
        };
        ZSet { form }
    }
}

impl Default for ZSet {
    fn default() -> Self {
        Self::new()
    }
}

impl ZSet {
    /// An empty set; allocates nothing.
    pub const fn new() -> Self {
        Self { form: Form::Small(Small::new()) }
    }

    /// A copy of the set that [`ZSetRef::packed`] returned.
    pub fn unpacked(packed: Packed<'_>) -> Self {
        Self { form: Form::Small(Small::unpacked(packed)) }
    }

    /// Borrows the set.
    #[inline]
    pub fn lend(&self) -> ZSetRef<'_> {
        let form = match &self.form {
            Form::Small(small) => FormRef::Small(small.packed()),
            Form::Large(large) => FormRef::Large(large),
        };
        ZSetRef { form }
    }

    /// Adds a member or changes its score. Returns its previous score. The score must not be NaN.
    pub fn insert(&mut self, member: &[u8], score: f64, limits: &ZSetLimits) -> Option<f64> {
        debug_assert!(!score.is_nan(), "a score is never NaN");
        if let Form::Small(small) = &mut self.form {
            let packed = small.packed();
            let fits = packed.count < limits.entries_max
                && member.len() <= limits.value_bytes_max
                && packed.bytes.len() + member.len() < LISTPACK_BYTES_MAX;
            if fits || small::find(packed, member).is_some() {
                return small.insert(member, score);
            }
            self.form = Form::Large(Box::new(Large::from_small(packed)));
        }
        match &mut self.form {
            Form::Large(large) => large.insert(member, score, limits.pack_bytes_min),
            Form::Small(_) => unreachable!("the small form has been dealt with"),
        }
    }

    /// Converts the set to the large form.
    pub fn make_large(&mut self) {
        if let Form::Small(small) = &self.form {
            self.form = Form::Large(Box::new(Large::from_small(small.packed())));
        }
    }

    /// Removes a member. Returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match &mut self.form {
            Form::Small(small) => small.remove(member),
            Form::Large(large) => large.remove(member),
        }
    }

    /// Removes and returns the member with the lowest score.
    pub fn pop_min(&mut self) -> Option<(Vec<u8>, f64)> {
        self.pop_rank(0)
    }

    /// Removes and returns the member with the highest score.
    pub fn pop_max(&mut self) -> Option<(Vec<u8>, f64)> {
        self.pop_rank(self.lend().len().checked_sub(1)?)
    }

    fn pop_rank(&mut self, rank: usize) -> Option<(Vec<u8>, f64)> {
        let mut popped = None;
        self.remove_rank_range(rank..rank.saturating_add(1), &mut |member, score| {
            popped = Some((member.to_vec(), score));
        });
        popped
    }

    /// Removes the members at these ranks and calls `visit` with each, in order. Returns their number.
    pub fn remove_rank_range(&mut self, ranks: Range<usize>, visit: &mut dyn FnMut(&[u8], f64)) -> usize {
        let count = self.count_in(&ranks);
        match &mut self.form {
            Form::Small(small) => small.remove_range(ranks.start, count, visit),
            Form::Large(large) => large.remove_range(ranks.start, count, Some(visit)),
        }
        count
    }

    /// Removes the members at these ranks. Faster than [`remove_rank_range`](Self::remove_rank_range). Returns their number.
    pub fn drop_rank_range(&mut self, ranks: Range<usize>) -> usize {
        let count = self.count_in(&ranks);
        match &mut self.form {
            Form::Small(small) => small.remove_range(ranks.start, count, &mut |_, _| ()),
            Form::Large(large) => large.remove_range(ranks.start, count, None),
        }
        count
    }

    /// Number of these ranks that exist.
    fn count_in(&self, ranks: &Range<usize>) -> usize {
        ranks.end.min(self.lend().len()).saturating_sub(ranks.start)
    }

    /// Frees the samples that it has collected for its dictionary. It collects them again when members are added.
    pub fn stop_learning(&mut self) {
        if let Form::Large(large) = &mut self.form {
            large.stop_learning();
        }
    }

    /// Moves its memory from `place` on as long as the mover has time. Returns true at the end, with `place` reset to
    /// the beginning.
    pub fn defragment(&mut self, place: &mut WalkPosition, mover: &mut dyn Mover) -> bool {
        match &mut self.form {
            Form::Small(node) => {
                node.relocate(mover);
                true
            }
            Form::Large(large) => {
                move_box(large, mover);
                large.defragment(place, mover)
            }
        }
    }

    /// Drops a bounded part of the contents. Returns false when nothing is left. Frees a large set in slices.
    pub fn free_slice(&mut self) -> bool {
        self.drop_rank_range(0..FREE_SLICE_MEMBERS);
        !self.lend().is_empty()
    }

    /// Bytes that the set has allocated, as requested; the allocator's overhead is not counted.
    pub fn memory_bytes(&self) -> usize {
        match &self.form {
            Form::Small(small) => small.memory_bytes(),
            Form::Large(large) => large.memory_bytes(),
        }
    }

    /// Panics if the set is inconsistent; for tests.
    pub fn debug_validate(&self) {
        match &self.form {
            Form::Small(small) => small.debug_validate(),
            Form::Large(large) => large.debug_validate(),
        }
    }
}
