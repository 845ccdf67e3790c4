//! A counted B+tree of the members' numbers, ordered by score, then by member.
//!
//! ```text
//!            ┌ first key, count, child ┬ … ┐                    branches
//!   ┌ first key, count, child ┬ … ┐  ┌ … ┐
//!   [ scores | numbers ]  [ … ]  [ … ]                          leaves, up to 63 entries
//! ```
//!
//! A leaf fits a size class of allocators. The score is stored beside the number, so members are fetched and compared
//! only if scores are equal. The counts give ranks, and every range is a range of ranks: callers turn bounds into ranks
//! with [`Tree::rank_where`]. Leaves are not linked; an iterator descends from the root for each.
//!
//! * A full node that is extended at an end is not halved: the new entry begins a node of its own. So entries that are
//!   added in order, such as times, leave full leaves. Elsewhere a full leaf first shares with a neighbour that has room.
//! * After a removal a node is merged with a neighbour if both fit in three quarters of one.
//!
//! Invariants: no node is empty except a lone root; all leaves have the same depth; a branch's key and count are its
//! child's first key and number of entries; keys ascend.

use super::members::Members;
use crate::mover::{Mover, move_box, move_vec};
use std::cell::Cell;
use std::cmp::Ordering;
use std::ops::Range;

/// Unit tests use small nodes, so that their trees are deep.
const LEAF_ENTRIES_MAX: usize = if cfg!(test) { 6 } else { 63 };
const BRANCHES_MAX: usize = if cfg!(test) { 6 } else { 64 };
/// A full leaf is not split if a neighbour has at most this many entries.
const LEAF_SHARE_MAX: usize = LEAF_ENTRIES_MAX * 4 / 5;
const LEAF_MERGE_MAX: usize = LEAF_ENTRIES_MAX * 3 / 4;
const BRANCHES_MERGE_MAX: usize = BRANCHES_MAX * 3 / 4;

/// A score and the number of a member.
pub(super) type Key = (f64, u32);

#[derive(Clone)]
pub(super) struct Leaf {
    len: usize,
    scores: [f64; LEAF_ENTRIES_MAX],
    ids: [u32; LEAF_ENTRIES_MAX],
}

#[derive(Clone)]
struct Branch {
    first: Key,
    count: u32,
    child: Child,
}

#[derive(Clone)]
enum Child {
    Leaf(Box<Leaf>),
    Inner(Vec<Branch>),
}

pub(super) struct Tree {
    root: Child,
    len: usize,
    /// Bytes of all nodes.
    bytes: usize,
}

impl Leaf {
    fn new() -> Box<Self> {
        Box::new(Self { len: 0, scores: [0.0; LEAF_ENTRIES_MAX], ids: [0; LEAF_ENTRIES_MAX] })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn key(&self, at: usize) -> Key {
        (self.scores[at], self.ids[at])
    }

    /// The keys of a range of its entries.
    pub(super) fn keys(&self, range: Range<usize>) -> impl DoubleEndedIterator<Item = Key> {
        self.scores[range.clone()].iter().copied().zip(self.ids[range].iter().copied())
    }

    fn rank_where(&self, before: &impl Fn(Key) -> bool) -> usize {
        partition_point(self.len, |at| before(self.key(at)))
    }

    fn insert(&mut self, at: usize, (score, id): Key) {
        self.scores.copy_within(at..self.len, at + 1);
        self.ids.copy_within(at..self.len, at + 1);
        self.scores[at] = score;
        self.ids[at] = id;
        self.len += 1;
    }

    fn remove(&mut self, at: usize, count: usize) {
        self.scores.copy_within(at + count..self.len, at);
        self.ids.copy_within(at + count..self.len, at);
        self.len -= count;
    }

    fn append(&mut self, other: &Self) {
        let end = self.len + other.len;
        self.scores[self.len..end].copy_from_slice(&other.scores[..other.len]);
        self.ids[self.len..end].copy_from_slice(&other.ids[..other.len]);
        self.len = end;
    }

    /// Makes this leaf and the one to the right of it equally long.
    fn balance(&mut self, right: &mut Self) {
        let (end, left_len) = (self.len, (self.len + right.len) / 2);
        if left_len > end {
            let moved = left_len - end;
            self.scores[end..left_len].copy_from_slice(&right.scores[..moved]);
            self.ids[end..left_len].copy_from_slice(&right.ids[..moved]);
            right.remove(0, moved);
        } else {
            let moved = end - left_len;
            right.scores.copy_within(..right.len, moved);
            right.ids.copy_within(..right.len, moved);
            right.scores[..moved].copy_from_slice(&self.scores[left_len..end]);
            right.ids[..moved].copy_from_slice(&self.ids[left_len..end]);
            right.len += moved;
        }
        self.len = left_len;
    }

    fn split_off(&mut self, at: usize) -> Box<Self> {
        let mut right = Self::new();
        right.len = self.len - at;
        right.scores[..right.len].copy_from_slice(&self.scores[at..self.len]);
        right.ids[..right.len].copy_from_slice(&self.ids[at..self.len]);
        self.len = at;
        right
    }
}

impl Child {
    /// The first key of a non-empty node.
    fn first(&self) -> Key {
        match self {
            Self::Leaf(leaf) => leaf.key(0),
            Self::Inner(branches) => branches[0].first,
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.len,
            Self::Inner(branches) => branches.iter().map(|branch| branch.count as usize).sum(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Leaf(_) => size_of::<Leaf>(),
            Self::Inner(branches) => branches.capacity() * size_of::<Branch>(),
        }
    }

    /// Bytes of this node and all nodes below it.
    fn bytes_below(&self) -> usize {
        let below = match self {
            Self::Leaf(_) => 0,
            Self::Inner(branches) => branches.iter().map(|branch| branch.child.bytes_below()).sum(),
        };
        self.bytes() + below
    }

    fn into_branch(self) -> Branch {
        Branch { first: self.first(), count: self.count() as u32, child: self }
    }
}

impl Clone for Tree {
    /// The clone's branches have no spare room.
    fn clone(&self) -> Self {
        let root = self.root.clone();
        Self { bytes: root.bytes_below(), root, len: self.len }
    }
}

impl Tree {
    pub(super) fn new() -> Self {
        Self { root: Child::Leaf(Leaf::new()), len: 0, bytes: size_of::<Leaf>() }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// Number of entries for which `before` is true. These must be the first ones.
    pub(super) fn rank_where(&self, before: impl Fn(Key) -> bool) -> usize {
        let (mut child, mut rank) = (&self.root, 0);
        loop {
            match child {
                Child::Leaf(leaf) => return rank + leaf.rank_where(&before),
                Child::Inner(branches) => {
                    let at = branch_where(branches, &before);
                    rank += branches[..at].iter().map(|branch| branch.count as usize).sum::<usize>();
                    child = &branches[at].child;
                }
            }
        }
    }

    /// The leaf with an existing rank, and the index in it.
    pub(super) fn leaf_at(&self, rank: usize) -> (&Leaf, usize) {
        debug_assert!(rank < self.len);
        let (mut child, mut rank) = (&self.root, rank);
        loop {
            match child {
                Child::Leaf(leaf) => return (leaf, rank),
                Child::Inner(branches) => {
                    let at = branch_at(branches, &mut rank);
                    child = &branches[at].child;
                }
            }
        }
    }

    /// Moves the memory of the leaf with an existing rank, and of the branches above it. Returns the number of entries
    /// from that rank to the end of the leaf.
    pub(super) fn move_leaf(&mut self, rank: usize, mover: &mut dyn Mover) -> usize {
        let (mut child, mut rank) = (&mut self.root, rank);
        loop {
            match child {
                Child::Leaf(leaf) => {
                    move_box(leaf, mover);
                    return leaf.len - rank;
                }
                Child::Inner(branches) => {
                    move_vec(branches, mover);
                    let at = branch_at(branches, &mut rank);
                    child = &mut branches[at].child;
                }
            }
        }
    }

    /// Adds an entry for a member that has none. Returns whether it was compared with another of the same score.
    pub(super) fn insert(&mut self, members: &Members, member: &[u8], (score, id): Key) -> bool {
        let is_tied = Cell::new(false);
        let before = |(other_score, other): Key| {
            let by_member = || {
                is_tied.set(true);
                members.compare(other, member)
            };
            compare_scores(other_score, score).then_with(by_member).is_lt()
        };
        if let Some(right) = insert(&mut self.root, &before, (score, id), &mut self.bytes) {
            let left = std::mem::replace(&mut self.root, Child::Inner(Vec::with_capacity(4)));
            let Child::Inner(branches) = &mut self.root else {
                unreachable!("the root has just been replaced")
            };
            branches.push(left.into_branch());
            branches.push(right);
            self.bytes += self.root.bytes();
        }
        self.len += 1;
        is_tied.get()
    }

    /// Removes up to `limit` entries from an existing rank on, all from one leaf, and calls `removed` with each.
    /// Returns their number.
    pub(super) fn remove_at(&mut self, rank: usize, limit: usize, removed: &mut impl FnMut(Key)) -> usize {
        debug_assert!(rank < self.len);
        let count = remove(&mut self.root, rank, limit, removed, &mut self.bytes);
        self.len -= count;
        while let Child::Inner(branches) = &mut self.root
            && branches.len() < 2
        {
            let child = branches.pop().map(|branch| branch.child);
            self.bytes -= self.root.bytes();
            self.root = child.unwrap_or_else(|| {
                self.bytes += size_of::<Leaf>();
                Child::Leaf(Leaf::new())
            });
        }
        count
    }

    /// The fraction of the leaves' capacity that is used.
    #[cfg(test)]
    pub(super) fn leaf_fill(&self) -> f64 {
        let (mut leaves, mut rank) = (0, 0);
        while rank < self.len {
            rank += self.leaf_at(rank).0.len;
            leaves += 1;
        }
        self.len as f64 / (leaves * LEAF_ENTRIES_MAX) as f64
    }

    pub(super) fn debug_validate(&self, members: &Members) {
        let mut keys = Vec::with_capacity(self.len);
        let mut bytes = 0;
        validate(&self.root, true, &mut keys, &mut bytes);
        assert_eq!(keys.len(), self.len);
        assert_eq!(bytes, self.bytes);
        for &(score, id) in &keys {
            assert_eq!(score.to_bits(), members.score(id).to_bits());
        }
        let ascending = |left: Key, right: Key| {
            compare_scores(left.0, right.0)
                .then_with(|| members.member(left.1).cmp(&members.member(right.1)))
                .is_lt()
        };
        assert!(keys.windows(2).all(|pair| ascending(pair[0], pair[1])));
    }
}

/// Compares two scores. Neither may be NaN.
#[inline]
pub(super) fn compare_scores(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or(Ordering::Equal)
}

#[inline(always)]
fn partition_point(len: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low.midpoint(high);
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// The branch that contains the end of the entries for which `before` is true.
fn branch_where(branches: &[Branch], before: &impl Fn(Key) -> bool) -> usize {
    partition_point(branches.len(), |at| before(branches[at].first)).saturating_sub(1)
}

/// The branch that contains a rank; `rank` becomes the rank within it.
fn branch_at(branches: &[Branch], rank: &mut usize) -> usize {
    let mut at = 0;
    while *rank >= branches[at].count as usize {
        *rank -= branches[at].count as usize;
        at += 1;
    }
    at
}

/// Moves entries of a full leaf to a neighbour that has room. Returns whether it did.
fn share(branches: &mut [Branch], at: usize) -> bool {
    let len = |at: usize| match branches.get(at).map(|branch| &branch.child) {
        Some(Child::Leaf(leaf)) => leaf.len,
        Some(Child::Inner(_)) | None => LEAF_ENTRIES_MAX,
    };
    if len(at) < LEAF_ENTRIES_MAX {
        return false;
    }
    let left = if at > 0 && len(at - 1) <= LEAF_SHARE_MAX { at - 1 } else { at };
    let Some([left, right]) = branches.get_disjoint_mut([left, left + 1]).ok() else { return false };
    let (Child::Leaf(left_leaf), Child::Leaf(right_leaf)) = (&mut left.child, &mut right.child) else {
        return false;
    };
    if left_leaf.len.min(right_leaf.len) > LEAF_SHARE_MAX {
        return false;
    }
    left_leaf.balance(right_leaf);
    (left.count, right.count) = (left_leaf.len as u32, right_leaf.len as u32);
    right.first = right_leaf.key(0);
    true
}

/// Adds an entry below `child`. Returns the node that was split off to its right, if there is one.
fn insert(child: &mut Child, before: &impl Fn(Key) -> bool, key: Key, bytes: &mut usize) -> Option<Branch> {
    match child {
        Child::Leaf(leaf) => insert_into_leaf(leaf, leaf.rank_where(before), key, bytes),
        Child::Inner(branches) => {
            let mut at = branch_where(branches, before);
            if share(branches, at) {
                at = branch_where(branches, before);
            }
            let branch = &mut branches[at];
            let right = insert(&mut branch.child, before, key, bytes);
            branch.first = branch.child.first();
            branch.count += 1;
            let right = right?;
            branch.count -= right.count;
            insert_branch(branches, at + 1, right, bytes)
        }
    }
}

fn insert_into_leaf(leaf: &mut Leaf, at: usize, key: Key, bytes: &mut usize) -> Option<Branch> {
    if leaf.len < LEAF_ENTRIES_MAX {
        leaf.insert(at, key);
        return None;
    }
    let middle = match at {
        0 | LEAF_ENTRIES_MAX => at,
        _ => LEAF_ENTRIES_MAX / 2,
    };
    let mut right = leaf.split_off(middle);
    if at < middle || middle == 0 {
        leaf.insert(at, key);
    } else {
        right.insert(at - middle, key);
    }
    let right = Child::Leaf(right);
    *bytes += right.bytes();
    Some(right.into_branch())
}

fn insert_branch(branches: &mut Vec<Branch>, at: usize, branch: Branch, bytes: &mut usize) -> Option<Branch> {
    let len = branches.len();
    if len < BRANCHES_MAX {
        let before = branches.capacity();
        branches.insert(at, branch);
        *bytes += (branches.capacity() - before) * size_of::<Branch>();
        return None;
    }
    let middle = match at {
        1 => 1,
        BRANCHES_MAX => BRANCHES_MAX,
        _ => BRANCHES_MAX / 2,
    };
    let mut right = Vec::with_capacity(BRANCHES_MAX);
    right.extend(branches.drain(middle..));
    if at < middle || at == 1 {
        branches.insert(at, branch);
    } else {
        right.insert(at - middle, branch);
    }
    let right = Child::Inner(right);
    *bytes += right.bytes();
    Some(right.into_branch())
}

/// Removes up to `limit` entries from `rank` on, from one leaf below `child`. Returns their number.
fn remove(
    child: &mut Child,
    mut rank: usize,
    limit: usize,
    removed: &mut impl FnMut(Key),
    bytes: &mut usize,
) -> usize {
    match child {
        Child::Leaf(leaf) => {
            let count = limit.min(leaf.len - rank);
            (rank..rank + count).for_each(|at| removed(leaf.key(at)));
            leaf.remove(rank, count);
            count
        }
        Child::Inner(branches) => {
            let at = branch_at(branches, &mut rank);
            let branch = &mut branches[at];
            let count = remove(&mut branch.child, rank, limit, removed, bytes);
            branch.count -= count as u32;
            if branch.count == 0 {
                *bytes -= branches.remove(at).child.bytes();
            } else {
                branch.first = branch.child.first();
                merge_right(branches, at, bytes);
            }
            if at > 0 {
                merge_right(branches, at - 1, bytes);
            }
            count
        }
    }
}

/// Merges the branch at `at` with the next one if both are small.
fn merge_right(branches: &mut Vec<Branch>, at: usize, bytes: &mut usize) {
    let [left, right, ..] = &mut branches[at..] else { return };
    let bytes_before = left.child.bytes() + right.child.bytes();
    match (&mut left.child, &mut right.child) {
        (Child::Leaf(left), Child::Leaf(right)) if left.len + right.len <= LEAF_MERGE_MAX => {
            left.append(right)
        }
        (Child::Inner(left), Child::Inner(right)) if left.len() + right.len() <= BRANCHES_MERGE_MAX => {
            left.append(right);
        }
        _ => return,
    }
    left.count += right.count;
    *bytes = *bytes + left.child.bytes() - bytes_before;
    branches.remove(at + 1);
}

/// Collects all keys below. Returns the depth.
fn validate(child: &Child, is_root: bool, keys: &mut Vec<Key>, bytes: &mut usize) -> usize {
    *bytes += child.bytes();
    match child {
        Child::Leaf(leaf) => {
            assert!(is_root || leaf.len > 0);
            keys.extend((0..leaf.len).map(|at| leaf.key(at)));
            0
        }
        Child::Inner(branches) => {
            assert!(branches.len() > usize::from(is_root) && branches.len() <= BRANCHES_MAX);
            let mut depths = branches.iter().map(|branch| {
                assert_eq!(branch.first, branch.child.first());
                assert_eq!(branch.count as usize, branch.child.count());
                validate(&branch.child, false, keys, bytes)
            });
            let depth = depths.next().expect("an inner node has branches");
            assert!(depths.all(|other| other == depth));
            depth + 1
        }
    }
}
