//! Changes other than push and pop: replace, insert, remove by value, trim.

use super::node::{ListNode, NODE_BYTES_MAX, is_large};
use super::{End, List, entry, imprint};

/// Neighbours that take no more than this together are merged, which leaves room for as much again.
const MERGE_BYTES_MAX: usize = NODE_BYTES_MAX / 2;

/// Nodes that [`List::free_slice`] drops at a time.
const FREE_SLICE_NODES: usize = 64;

impl List {
    /// Replaces the element at `index`, which counts from the tail if negative. Returns whether it exists.
    ///
    /// # Panics
    /// If the value is longer than [`super::ELEMENT_BYTES_MAX`].
    pub fn set(&mut self, index: i64, value: &[u8]) -> bool {
        self.expect_growth(value.len());
        let Some(index) = self.absolute(index) else { return false };
        let (at, within) = self.locate(index);
        let was_compressed = self.expand(at);
        let node = &self.nodes[at];
        let old_bytes = node.get(within).map_or(0, <[u8]>::len);
        let stays = !is_large(old_bytes)
            && (node.has_space(value.len())
                || entry::entry_bytes(value.len()) <= entry::entry_bytes(old_bytes));
        if stays {
            self.nodes.change(at, |node| {
                node.remove(within);
                node.insert(within, value);
            });
        } else {
            self.nodes.change(at, |node| node.remove(within));
            self.nodes.count_out(1);
            if self.nodes[at].count() == 0 {
                self.nodes.take(at);
                self.after_drop();
            }
            self.put_at(index, value);
        }
        if was_compressed {
            self.compress_near(at);
        }
        self.after_removal();
        true
    }

    /// Inserts an element before `index`, or at the tail if `index` is the length.
    ///
    /// # Panics
    /// If `index` is greater than the length, or the value is longer than [`super::ELEMENT_BYTES_MAX`].
    pub fn insert(&mut self, index: usize, value: &[u8]) {
        self.expect_growth(value.len());
        self.put_at(index, value);
    }

    /// Inserts an element before or after the first one from the head that equals `pivot`. Returns its index, or `None`
    /// if there is no such element.
    pub fn insert_relative(
        &mut self,
        pivot: &[u8],
        before: bool,
        value: &[u8],
        on_node: impl FnMut(usize),
    ) -> Option<usize> {
        self.expect_growth(value.len());
        let index = self.positions(pivot, false, usize::MAX, on_node).next()?;
        let index = if before { index } else { index + 1 };
        self.put_at(index, value);
        Some(index)
    }

    fn put_at(&mut self, index: usize, value: &[u8]) {
        assert!(index <= self.len(), "insert: the index is beyond the tail");
        if index == 0 || index == self.len() {
            return self.add(if index == 0 { End::Head } else { End::Tail }, value);
        }
        let (at, within) = self.locate(index);
        let was_compressed = self.expand(at);
        if self.nodes[at].has_space(value.len()) {
            self.nodes.change(at, |node| node.insert(within, value));
        } else {
            self.insert_between(at, within, value);
        }
        self.nodes.count_in(1);
        if was_compressed {
            self.compress_near(at);
        }
    }

    /// Compresses the nodes that an expanded node has become after an insertion.
    fn compress_near(&mut self, at: usize) {
        (at.saturating_sub(1)..at + 3).for_each(|near| _ = self.compress(near));
    }

    /// Inserts an element before index `within` of a node that has no space for it.
    fn insert_between(&mut self, at: usize, within: usize, value: &[u8]) {
        // The gap between two nodes: `at` is the node after it.
        let at = if within == 0 {
            at
        } else {
            let right = self.nodes.change(at, |node| node.split_off(within));
            self.nodes.add(at + 1, right);
            at + 1
        };
        let has_space = |node: &ListNode| !node.is_compressed() && node.has_space(value.len());
        if at > 0 && has_space(&self.nodes[at - 1]) {
            self.nodes.change(at - 1, |node| node.push(End::Tail, value));
        } else if has_space(&self.nodes[at]) {
            self.nodes.change(at, |node| node.push(End::Head, value));
        } else {
            self.add_empty_node(at, value.len());
            self.nodes.change(at, |node| node.push(End::Tail, value));
        }
    }

    /// Removes elements equal to `value`, as LREM counts: the first `count`, the last if it is negative, or all if it
    /// is zero. Returns the number removed.
    pub fn remove_matching(&mut self, count: i64, value: &[u8], on_node: impl FnMut(usize)) -> usize {
        self.remove_matching_observed(count, value, on_node, None)
    }

    /// Like [`remove_matching`](Self::remove_matching), and tells `observer` of each element that goes: its index at
    /// that moment, and the length then.
    pub fn remove_matching_observed(
        &mut self,
        count: i64,
        value: &[u8],
        mut on_node: impl FnMut(usize),
        mut observer: Option<&mut dyn FnMut(usize, usize)>,
    ) -> usize {
        let limit = match count {
            0 => usize::MAX,
            _ => usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX),
        };
        let (hash, len) = (imprint::hash(value), self.len());
        let (mut removed, mut nodes_changed, mut last_changed) = (0, 0, 0);
        for step in 0..self.nodes.len() {
            let at = if count < 0 { self.nodes.len() - 1 - step } else { step };
            on_node(self.nodes[at].count());
            let was_compressed = self.nodes[at].is_compressed();
            let is_here = |bytes: &[u8]| entry::Entries::new(bytes).any(|element| element == value);
            if was_compressed
                && !(self.nodes[at].may_have(hash) && self.nodes.change(at, |node| node.expand_if(is_here)))
            {
                continue;
            }
            if let Some(observer) = &mut observer {
                let places = self.places_in(at, value, limit - removed, count < 0);
                for (gone, place) in places.into_iter().rev().enumerate() {
                    observer(place, len - removed - gone - 1);
                }
            }
            let gone = self.nodes[at].remove_matching(value, limit - removed, count < 0);
            if was_compressed && self.nodes[at].count() > 0 {
                self.compress(at);
            }
            if gone > 0 {
                (nodes_changed, last_changed) = (nodes_changed + 1, at);
                removed += gone;
                if removed == limit {
                    break;
                }
            }
        }
        self.nodes.count_out(removed);
        match nodes_changed {
            0 => return 0,
            1 => self.tidy(last_changed),
            _ => self.tidy_all(),
        }
        self.after_drop();
        self.after_removal();
        removed
    }

    /// The indexes of the first `limit` elements of node `at` that equal `value` (the last if `reverse`), ascending.
    fn places_in(&self, at: usize, value: &[u8], limit: usize, reverse: bool) -> Vec<usize> {
        let before: usize = self.nodes.iter().take(at).map(ListNode::count).sum();
        let node = &self.nodes[at];
        let from_head = |within: usize| if reverse { node.count() - 1 - within } else { within };
        let places = node.positions(value, reverse).into_iter().take(limit);
        let mut places: Vec<usize> = places.map(|within| before + from_head(within)).collect();
        places.sort_unstable();
        places
    }

    /// Removes up to `count` elements at the head.
    pub fn drop_front(&mut self, count: usize) {
        self.drop_end(End::Head, count);
        self.after_removal();
    }

    /// Removes up to `count` elements at the tail.
    pub fn drop_back(&mut self, count: usize) {
        self.drop_end(End::Tail, count);
        self.after_removal();
    }

    /// Keeps `keep` elements from index `start` on.
    pub fn trim(&mut self, start: usize, keep: usize) {
        self.drop_end(End::Head, start);
        self.drop_end(End::Tail, self.len().saturating_sub(keep));
        self.after_removal();
    }

    /// Drops a bounded part of the contents. Returns false when nothing is left. Frees a long list in slices.
    pub fn free_slice(&mut self) -> bool {
        for _ in 0..self.nodes.len().min(FREE_SLICE_NODES) {
            let at = self.end_index(End::Tail);
            self.nodes.count_out(self.nodes[at].count());
            self.nodes.take(at);
        }
        self.after_drop();
        self.after_removal();
        !self.is_empty()
    }

    fn drop_end(&mut self, end: End, count: usize) {
        let mut count = count.min(self.len());
        self.nodes.count_out(count);
        while count > 0 {
            let at = self.end_index(end);
            let in_node = self.nodes[at].count();
            if count < in_node {
                self.expand(at);
                self.nodes[at].drop_values(end, count);
                break;
            }
            count -= in_node;
            self.nodes.take(at);
        }
        self.after_drop();
    }

    /// Drops the node if it is empty, or merges it with a neighbour if both are small.
    fn tidy(&mut self, at: usize) {
        if self.nodes[at].count() == 0 {
            self.nodes.take(at);
            return;
        }
        for left in [Some(at), at.checked_sub(1)].into_iter().flatten() {
            self.merge(left);
        }
    }

    /// Merges a node with the one after it if both are small. Returns whether it did.
    pub(super) fn merge(&mut self, left: usize) -> bool {
        let merges = left + 1 < self.nodes.len() && may_merge(&self.nodes[left], &self.nodes[left + 1]);
        if merges {
            let right = std::mem::take(&mut self.nodes[left + 1]);
            self.nodes.count_buffer(right.capacity_bytes(), 0);
            self.nodes.change(left, |node| node.append(&right));
            self.nodes.take(left + 1);
        }
        merges
    }

    /// Does what [`Self::tidy`] does, for all nodes in one pass.
    fn tidy_all(&mut self) {
        let mut tried = self.nodes.tried().copied().unwrap_or_default();
        tried.forget();
        for node in std::mem::take(&mut self.nodes).into_iter() {
            if node.count() == 0 {
                continue;
            }
            match self.nodes.back_mut() {
                Some(left) if may_merge(left, &node) => left.append(&node),
                _ => self.nodes.push_back(node),
            }
        }
        self.nodes.recount(tried);
    }
}

fn may_merge(left: &ListNode, right: &ListNode) -> bool {
    left.used_bytes() + right.used_bytes() <= MERGE_BYTES_MAX
}
