//! The large form: the tree and the members, kept in step.

use super::members::{Members, split_record};
use super::small;
use super::tree::{Tree, compare_scores};
use crate::mover::{Mover, Place};
use crate::packed::Packed;

#[derive(Clone)]
pub(super) struct Large {
    pub(super) members: Members,
    pub(super) tree: Tree,
}

impl Large {
    pub(super) fn from_small(packed: Packed<'_>) -> Self {
        let mut large = Self { members: Members::new(), tree: Tree::new() };
        for (member, score) in small::pairs(packed) {
            large.insert(member, score);
        }
        large
    }

    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.members.find(member).map(|id| self.members.get(id).1)
    }

    pub(super) fn rank(&self, member: &[u8]) -> Option<usize> {
        self.members.find(member).map(|id| self.rank_of(id))
    }

    fn rank_of(&self, id: u32) -> usize {
        let (member, score) = self.members.get(id);
        self.tree.rank_where(|(other_score, other)| {
            other != id
                && compare_scores(other_score, score)
                    .then_with(|| self.members.member(other).cmp(member))
                    .is_lt()
        })
    }

    /// Adds a member or gives it another score; returns the score it had.
    pub(super) fn insert(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let hash = self.members.hash(member);
        let Some(id) = self.members.find_hashed(hash, member) else {
            let id = self.members.insert(hash, member, score);
            self.tree.insert(&self.members, (score, id));
            return None;
        };
        let old = self.members.get(id).1;
        if old != score {
            self.tree.remove_at(self.rank_of(id), 1, &mut |_| ());
            self.members.set_score(id, score);
            self.tree.insert(&self.members, (score, id));
        }
        Some(old)
    }

    pub(super) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let id = self.members.find(member)?;
        self.tree.remove_at(self.rank_of(id), 1, &mut |_| ());
        Some(split_record(self.members.remove(id).bytes()).1)
    }

    /// Removes `count` members from a rank on, which exist.
    pub(super) fn remove_range(&mut self, rank: usize, count: usize, visit: &mut dyn FnMut(&[u8], f64)) {
        let mut left = count;
        while left > 0 {
            left -= self.tree.remove_at(rank, left, &mut |(_, id)| {
                let record = self.members.remove(id);
                let (member, score) = split_record(record.bytes());
                visit(member, score);
            });
        }
    }

    /// Goes over the members, then, by ranks, over the tree.
    pub(super) fn defragment(&mut self, place: &mut Place, mover: &mut dyn Mover) -> bool {
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
        *place = Place::default();
        true
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.members.memory_bytes() + self.tree.memory_bytes()
    }

    pub(super) fn debug_validate(&self) {
        self.members.debug_validate();
        self.tree.debug_validate(&self.members);
        assert_eq!(self.members.len(), self.tree.len());
    }
}
