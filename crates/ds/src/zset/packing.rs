//! Which members of a large sorted set are packed, and when: those of a backlog of jobs, as they are added.
//!
//! ```text
//!  128 KiB          learning, for 64 samples           from then on each new member is packed,
//!  ──┴──▶ the new member and an older one at a time ──▶ and four of the older ones, until all were tried
//! ```
//!
//! All of this is done while members are added, a few microseconds each time, so nothing has to wait and no list of
//! sets is needed. If packing does not help (values without a pattern), or no longer (jobs of other classes), it learns
//! again after twice as many members as before.
//!
//! Members with equal scores are not packed: they are ordered by their bytes, so each is read again and again. Jobs' scores are times.

use super::members::{Members, Tried};
use super::tree::{Leaf, Tree};
use crate::dictionary::{Learner, SAMPLES};

/// Shortest and longest members that are packed.
const PLAIN_BYTES_MIN: usize = 48;
const PLAIN_BYTES_MAX: usize = 4096;
/// Older members that are packed whenever one is added.
const OLDER_AT_ONCE: usize = 4;
/// Samples that are decided about whenever a member is added.
const DECIDED_AT_ONCE: usize = 2;
/// Added members after which the learner stops waiting for samples: members with equal scores do not count as samples.
const LEARNING_MEMBERS_MAX: u32 = 4 * SAMPLES as u32;
/// Minimum number of members that are added before it learns again, and limit of the doublings of that number.
const REST_MEMBERS: u32 = 256;
const REST_DOUBLINGS_MAX: u32 = 12;
/// Limit of the failures in a row that count: after `n` of them, only one member in `2^n` is tried.
const FAILURES_MAX: u8 = 6;

/// When this many bytes were tried, earlier results count half.
const RECENT_BYTES: usize = 256 << 10;

/// Whether a member has a length that is packed.
#[inline]
pub(super) fn is_fit(member: &[u8]) -> bool {
    (PLAIN_BYTES_MIN..=PLAIN_BYTES_MAX).contains(&member.len())
}

/// State of a set's packing.
#[derive(Default)]
pub(super) struct Packing {
    learner: Option<Box<Learner>>,
    /// Members added since learning began, or ended.
    added: u32,
    /// How often it has learned.
    learned: u32,
    /// Bytes of the members that were tried since learning ended, before and after packing.
    plain_bytes: usize,
    packed_bytes: usize,
    /// Rank from which on older members are still to be tried; `None` if all were tried.
    older_from: Option<usize>,
    /// Members in a row that could not be packed, and number of members that are therefore still to be skipped.
    failures: u8,
    skipped: u8,
}

impl Clone for Packing {
    /// The clone does not continue learning.
    fn clone(&self) -> Self {
        Self { learner: None, ..*self }
    }
}

impl Packing {
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.learner.as_ref().map_or(0, |learner| learner.memory_bytes())
    }

    /// Handles the addition of a member that qualifies, to a set that is large enough.
    pub(super) fn added(
        &mut self,
        members: &mut Members,
        tree: &Tree,
        (id, member): (u32, &[u8]),
        is_tied: bool,
    ) {
        self.added = self.added.saturating_add(1);
        if self.learner.is_some() {
            self.learn(members, tree, member, is_tied);
        } else if self.wants_to_learn(members) {
            (self.learner, self.added) = (Some(Box::default()), 0);
        }
        // Nothing is packed until the first dictionary is complete; a dictionary that stays empty is dropped.
        if self.learned == 0
            || members.dictionary_mut().as_ref().is_none_or(|dictionary| dictionary.is_empty())
        {
            return;
        }
        if self.skipped > 0 {
            self.skipped -= 1;
            self.count(member.len(), member.len());
        } else if !is_tied && let Some(tried) = members.pack(id) {
            self.note(tried);
        }
        self.pack_older(members, tree);
    }

    fn wants_to_learn(&self, members: &mut Members) -> bool {
        let rest = if self.learned == 0 { 0 } else { REST_MEMBERS << self.learned.min(REST_DOUBLINGS_MAX) };
        let has_room = members.dictionary_mut().as_ref().is_none_or(|dictionary| dictionary.has_room());
        self.added > rest && has_room && self.packed_bytes * 2 >= self.plain_bytes
    }

    fn note(&mut self, tried: Tried) {
        self.failures = if tried.is_packed { 0 } else { FAILURES_MAX.min(self.failures + 1) };
        self.skipped = (1 << self.failures) - 1;
        self.count(tried.plain_bytes, tried.packed_bytes.min(tried.plain_bytes));
    }

    fn count(&mut self, plain_bytes: usize, packed_bytes: usize) {
        self.plain_bytes += plain_bytes;
        self.packed_bytes += packed_bytes;
        if self.plain_bytes > RECENT_BYTES {
            self.plain_bytes /= 2;
            self.packed_bytes /= 2;
        }
    }

    /// Examines samples, or decides about some.
    fn learn(&mut self, members: &mut Members, tree: &Tree, member: &[u8], is_tied: bool) {
        let Some(learner) = &mut self.learner else { return };
        if !learner.has_seen_enough() && self.added < LEARNING_MEMBERS_MAX {
            if !is_tied {
                learner.look_at(member);
            }
            let rank = tree.len() * (self.added as usize % SAMPLES) / SAMPLES;
            if let Some(id) = untied(tree, rank) {
                let older = members.member(id);
                if is_fit(&older) {
                    learner.look_at(&older);
                }
            }
            return;
        }
        let dictionary = members.dictionary_mut();
        let learns = dictionary.get_or_insert_default();
        let added_bytes = (0..DECIDED_AT_ONCE).find_map(|_| learner.decide(learns));
        if added_bytes.is_none() {
            return;
        }
        if learns.is_empty() {
            *dictionary = None;
        } else {
            self.older_from = Some(0);
        }
        *self = Self { older_from: self.older_from, learned: self.learned + 1, ..Self::default() };
    }

    /// Tries to pack some of the members that were there before it learned.
    fn pack_older(&mut self, members: &mut Members, tree: &Tree) {
        let Some(from) = self.older_from.filter(|&from| self.learner.is_none() && from < tree.len()) else {
            self.older_from = self.older_from.filter(|_| self.learner.is_some());
            return;
        };
        for rank in from..tree.len().min(from + OLDER_AT_ONCE) {
            if let Some(id) = untied(tree, rank)
                && members.is_plain_fit(id)
            {
                members.pack(id);
            }
        }
        self.older_from = Some(from + OLDER_AT_ONCE);
    }
}

/// The member at an existing rank, unless a neighbour has the same score.
fn untied(tree: &Tree, rank: usize) -> Option<u32> {
    let (leaf, at) = tree.leaf_at(rank);
    let (score, id) = leaf.key(at);
    let score_of = |leaf: &Leaf, at| leaf.key(at).0;
    let before = match (at.checked_sub(1), rank.checked_sub(1)) {
        (Some(at), _) => Some(score_of(leaf, at)),
        (None, rank) => rank.map(|rank| tree.leaf_at(rank)).map(|(leaf, at)| score_of(leaf, at)),
    };
    let after = match at + 1 {
        at if at < leaf.len() => Some(score_of(leaf, at)),
        _ => (rank + 1 < tree.len()).then(|| tree.leaf_at(rank + 1)).map(|(leaf, at)| score_of(leaf, at)),
    };
    let is_tied = [before, after].contains(&Some(score));
    (!is_tied).then_some(id)
}
