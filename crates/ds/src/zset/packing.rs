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
use crate::dictionary::{Pace, SAMPLES, is_fit};

/// Older members that are packed whenever one is added.
const OLDER_AT_ONCE: usize = 4;

/// State of a set's packing.
#[derive(Clone, Default)]
pub(super) struct Packing {
    pace: Pace,
    /// Rank from which on older members are still to be tried; `None` if all were tried.
    older_from: Option<usize>,
}

impl Packing {
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.pace.memory_bytes()
    }

    /// Frees the samples that were collected.
    pub(super) fn stop_learning(&mut self) {
        self.pace.stop_learning();
    }

    /// Handles the addition of a member that qualifies, to a set that is large enough.
    pub(super) fn added(
        &mut self,
        members: &mut Members,
        tree: &Tree,
        (id, member): (u32, &[u8]),
        is_tied: bool,
    ) {
        self.learn(members, tree, member, is_tied);
        if self.pace.usable(members.dictionary()).is_none() {
            return;
        }
        if !self.pace.skips(member.len())
            && !is_tied
            && let Some(Tried { plain_bytes, packed_bytes, is_packed }) = members.pack(id)
        {
            self.pace.note(plain_bytes, packed_bytes, is_packed);
        }
        self.pack_older(members, tree);
    }

    /// Examines samples, or decides about some.
    fn learn(&mut self, members: &mut Members, tree: &Tree, member: &[u8], is_tied: bool) {
        let rank = tree.len() * (self.pace.added() % SAMPLES) / SAMPLES;
        if let Some(learner) = self.pace.add(members.dictionary()) {
            if !is_tied {
                learner.look_at(member);
            }
            if let Some(id) = untied(tree, rank) {
                let older = members.member(id);
                if is_fit(&older) {
                    learner.look_at(&older);
                }
            }
        } else if self.pace.decide(members.dictionary_mut()) {
            self.older_from = members.dictionary().map(|_| 0);
        }
    }

    /// Tries to pack some of the members that were there before it learned.
    fn pack_older(&mut self, members: &mut Members, tree: &Tree) {
        let Some(from) = self.older_from.filter(|&from| !self.pace.is_learning() && from < tree.len()) else {
            self.older_from = self.older_from.filter(|_| self.pace.is_learning());
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
