//! The small form: entries `score | member` in order, in one node.

use super::members::split_record;
use super::tree::compare_scores;
use crate::list::End;
use crate::list::node::Node;
use smallvec::SmallVec;
use std::cmp::Ordering;

/// Bytes for an entry to be composed in without allocation: those of the default limits.
const ENTRY_INLINE_BYTES: usize = 72;

pub(super) fn entries(node: &Node) -> impl Iterator<Item = (&[u8], f64)> {
    node.entries().map(split_record)
}

/// The order of a sorted set.
pub(super) fn compare((left, left_score): (&[u8], f64), (right, right_score): (&[u8], f64)) -> Ordering {
    compare_scores(left_score, right_score).then_with(|| left.cmp(right))
}

pub(super) fn find(node: &Node, member: &[u8]) -> Option<(usize, f64)> {
    let (index, (_, score)) = entries(node).enumerate().find(|(_, (other, _))| *other == member)?;
    Some((index, score))
}

/// Adds a member or gives it another score; returns the score it had.
pub(super) fn insert(node: &mut Node, member: &[u8], score: f64) -> Option<f64> {
    let found = find(node, member);
    if let Some((index, old)) = found {
        if old == score {
            return Some(old);
        }
        node.remove(index);
    }
    // The sum turns a negative zero into a positive one.
    let score = score + 0.0;
    let index = entries(node).take_while(|&other| compare(other, (member, score)).is_lt()).count();
    let mut entry = SmallVec::<[u8; ENTRY_INLINE_BYTES]>::from_slice(&score.to_le_bytes());
    entry.extend_from_slice(member);
    node.insert(index, &entry);
    found.map(|(_, old)| old)
}

/// Removes `count` entries from `start` on, which exist.
pub(super) fn remove_range(node: &mut Node, start: usize, count: usize, visit: &mut dyn FnMut(&[u8], f64)) {
    let mut visit_entry = |entry: &[u8]| {
        let (member, score) = split_record(entry);
        visit(member, score);
    };
    if start == 0 {
        (0..count).for_each(|_| node.pop_with(End::Head, &mut visit_entry));
        return;
    }
    for _ in 0..count {
        node.get(start).map(&mut visit_entry);
        node.remove(start);
    }
}
