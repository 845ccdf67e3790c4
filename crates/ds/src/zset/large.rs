//! The large form: the tree and the members, kept consistent.

use super::members::Members;
use super::packing::Packing;
use super::small;
use super::tree::{Tree, compare_scores};
use crate::dictionary::is_fit;
use crate::mover::{Mover, WalkPosition};
use crate::packed::Packed;

/// Called with a member and its score.
type Visit<'a> = dyn FnMut(&[u8], f64) + 'a;

#[derive(Clone)]
pub(super) struct Large {
    pub(super) members: Members,
    pub(super) tree: Tree,
    /// Created when the set is large enough for its members to be packed.
    packing: Option<Box<Packing>>,
}

impl Large {
    pub(super) fn from_small(packed: Packed<'_>) -> Self {
        let mut large = Self { members: Members::new(), tree: Tree::new(), packing: None };
        for (member, score) in small::pairs(packed) {
            large.insert(member, score, 0);
        }
        large
    }

    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.members.find(member).map(|id| self.members.score(id))
    }

    pub(super) fn rank(&self, member: &[u8]) -> Option<usize> {
        self.members.find(member).map(|id| self.rank_of(id, member))
    }

    /// The rank of the member with this number.
    fn rank_of(&self, id: u32, member: &[u8]) -> usize {
        let score = self.members.score(id);
        self.tree.rank_where(|(other_score, other)| {
            other != id
                && compare_scores(other_score, score)
                    .then_with(|| self.members.compare(other, member))
                    .is_lt()
        })
    }

    /// Adds a member or changes its score. Returns its previous score. If `pack_bytes_min` is not 0, members are packed
    /// once all of them together take at least that many bytes.
    pub(super) fn insert(&mut self, member: &[u8], score: f64, pack_bytes_min: usize) -> Option<f64> {
        let hash = self.members.hash(member);
        let Some(id) = self.members.find_hashed(hash, member) else {
            let id = self.members.insert(hash, member, score);
            let is_tied = self.tree.insert(&self.members, member, (score, id));
            // Packing makes a set smaller than that again.
            let is_large = || self.packing.is_some() || self.members.bytes() >= pack_bytes_min;
            if pack_bytes_min > 0 && is_fit(member) && is_large() {
                let packing = self.packing.get_or_insert_default();
                packing.added(&mut self.members, &self.tree, (id, member), is_tied);
            }
            return None;
        };
        let old = self.members.score(id);
        if old != score {
            self.tree.remove_at(self.rank_of(id, member), 1, &mut |_| ());
            self.members.set_score(id, score);
            self.tree.insert(&self.members, member, (score, id));
        }
        Some(old)
    }

    pub(super) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let id = self.members.find(member)?;
        self.tree.remove_at(self.rank_of(id, member), 1, &mut |_| ());
        Some(self.members.remove(id).score())
    }

    /// Removes `count` existing members from a rank on. If there is `visit`, it is called with each of them.
    pub(super) fn remove_range(&mut self, rank: usize, count: usize, mut visit: Option<&mut Visit<'_>>) {
        let mut left = count;
        while left > 0 {
            left -= self.tree.remove_at(rank, left, &mut |(_, id)| {
                let removed = self.members.remove(id);
                if let Some(visit) = &mut visit {
                    visit(&removed.member(), removed.score());
                }
            });
        }
    }

    /// Walks over the members, then over the tree by ranks.
    pub(super) fn defragment(&mut self, place: &mut WalkPosition, mover: &mut dyn Mover) -> bool {
        const IN_TREE: usize = usize::MAX;
        while place.part != IN_TREE {
            place.part = if self.members.move_part(place.part, mover) { place.part + 1 } else { IN_TREE };
            if !mover.has_time() {
                return false;
            }
        }
        while place.item < self.tree.len() {
            place.item += self.tree.move_leaf(place.item, mover);
            if !mover.has_time() {
                return false;
            }
        }
        *place = WalkPosition::default();
        true
    }

    pub(super) fn stop_learning(&mut self) {
        if let Some(packing) = &mut self.packing {
            packing.stop_learning();
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let packing = self.packing.as_ref().map_or(0, |packing| packing.memory_bytes());
        size_of::<Self>() + self.members.memory_bytes() + self.tree.memory_bytes() + packing
    }

    pub(super) fn debug_validate(&self) {
        self.members.debug_validate();
        self.tree.debug_validate(&self.members);
        assert_eq!(self.members.len(), self.tree.len());
    }
}
