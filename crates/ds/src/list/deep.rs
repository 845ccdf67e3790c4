//! Which nodes of a list are compressed, and when.
//!
//! ```text
//!  head                                                           tail
//!  [ plain … ] [ not tried yet ] [ tried: compressed, mostly ] [ plain … ]
//! ```
//!
//! A list of at least [`ListLimits::nodes_min`] nodes is compressed from its middle outwards, one group of nodes for each node
//! that a push adds, until few are left at either end ([`ListLimits::plain_part`]); this spreads the work over the pushes. What a push of
//! very many elements leaves, a thread does later, as much at once.
//! Several neighbours become one compressed node, because larger inputs compress better and expand faster. A node that becomes
//! the head or the tail is expanded, once and as a whole; all others stay compressed. Reading one expands a copy for the duration
//! of the read; a change expands it and compresses it again. Where compressing does not help, it is tried less and less often.

use super::node::{ListNode, NODE_BYTES_MAX};
use super::{End, List};

/// Number of neighbours that become one compressed node in a long list.
pub(super) const GROUP_NODES: usize = 4;
/// Number of neighbours in a list below [`LONG_NODES`]. The plain rest at each end is smaller than a group, so larger
/// groups would leave more of a short list plain.
const SHORT_GROUP_NODES: usize = 2;
const LONG_NODES: usize = 128;
/// Groups that are tried at once: half a megabyte, in less than a millisecond, so that pushes of a thousand jobs do not outrun it.
const TRIED_AT_ONCE_MAX: u16 = 16;
/// Limit of the failures in a row that count: after `n` of them, only one group in `2^n` is tried.
const FAILURES_MAX: u8 = 6;

/// Which lists are compressed.
#[derive(Clone, Copy, Debug)]
pub struct ListLimits {
    /// Minimum number of nodes; 0 disables compression.
    pub nodes_min: u32,
    /// Maximum number of nodes at either end that stay plain; at least one does.
    pub plain_nodes: u32,
    /// In a list shorter than `plain_part * plain_nodes` nodes, one node in `plain_part` stays plain at either end.
    pub plain_part: u32,
}

impl ListLimits {
    /// Number of plain nodes at either end of a list of `nodes`.
    fn plain_nodes(&self, nodes: usize) -> usize {
        (nodes / self.plain_part.max(1) as usize).clamp(1, self.plain_nodes.max(1) as usize)
    }
}

/// The run of nodes that compression was tried on.
#[derive(Clone, Copy, Default)]
pub(super) struct Tried {
    from: u32,
    len: u32,
    /// Number of nodes added by pushes for which a group is still to be tried.
    grown: u16,
    /// Groups in a row that could not be compressed, and number of groups that are therefore still to be skipped.
    failures: u8,
    pub(super) skipped: u8,
}

impl Tried {
    /// Counts a node added by a push.
    pub(super) fn count_grown(&mut self) {
        self.grown = self.grown.saturating_add(1);
    }

    /// Accounts for a node inserted at `at`.
    pub(super) fn add(&mut self, at: usize) {
        if at < self.from as usize {
            self.from += 1;
        } else if at < self.end() {
            self.len += 1;
        }
    }

    /// Accounts for the removal of the node at `at`.
    pub(super) fn remove(&mut self, at: usize) {
        if at < self.from as usize {
            self.from -= 1;
        } else if at < self.end() {
            self.len -= 1;
        }
    }

    /// Forgets the run, because the nodes have been renumbered.
    pub(super) fn forget(&mut self) {
        (self.from, self.len) = (0, 0);
    }

    /// Accounts for the outcome of trying a group.
    fn count_try(&mut self, is_compressed: bool) {
        self.failures = if is_compressed { 0 } else { FAILURES_MAX.min(self.failures + 1) };
        self.skipped = (1 << self.failures) - 1;
    }

    fn end(&self) -> usize {
        (self.from + self.len) as usize
    }

    /// Returns the first of the next `group_nodes` nodes to be tried, and adds them to the run.
    fn next(&mut self, nodes: usize, plain_nodes: usize, group_nodes: usize) -> Option<usize> {
        if self.len == 0 {
            self.from = (nodes / 2) as u32;
        }
        let (before, after) = (self.from as usize, nodes - self.end());
        if before.max(after) < plain_nodes + group_nodes {
            return None;
        }
        self.len += group_nodes as u32;
        if before < after {
            return Some(self.end() - group_nodes);
        }
        self.from -= group_nodes as u32;
        Some(self.from as usize)
    }

    pub(super) fn debug_validate(&self, nodes: usize) {
        assert!(self.len == 0 || self.end() <= nodes);
    }
}

impl List {
    /// Compresses some inner nodes, in proportion to the nodes pushed since the last call. Returns whether more nodes were pushed than
    /// one call keeps pace with: then it is to be called again, some time.
    #[inline]
    pub fn compress_inner(&mut self, limits: &ListLimits) -> bool {
        self.nodes.tried().is_some_and(|tried| tried.grown > 0) && self.try_inner(limits)
    }

    #[cold]
    fn try_inner(&mut self, limits: &ListLimits) -> bool {
        let (nodes, full_nodes) = (self.nodes.len(), self.nodes.buffer_bytes() / NODE_BYTES_MAX);
        let Some(tried) = self.nodes.tried_mut() else { return false };
        let plain_len = match tried.len as usize {
            // The first nodes of a list are smaller.
            0 => nodes.min(full_nodes),
            // Most tried nodes are groups. Those of short lists are smaller, so this overestimates, and such lists stay
            // above `nodes_min`.
            tried_len => nodes + tried_len * (GROUP_NODES - 1),
        };
        if limits.nodes_min == 0 || plain_len < limits.nodes_min as usize {
            tried.grown = 0;
            return false;
        }
        let plain_nodes = limits.plain_nodes(plain_len);
        let group_nodes = if plain_len < LONG_NODES { SHORT_GROUP_NODES } else { GROUP_NODES };
        let count = tried.grown.min(TRIED_AT_ONCE_MAX);
        tried.grown -= count;
        for _ in 0..count {
            let nodes = self.nodes.len();
            let Some(tried) = self.nodes.tried_mut() else { return false };
            let Some(at) = tried.next(nodes, plain_nodes, group_nodes) else {
                tried.grown = 0;
                return false;
            };
            if tried.skipped > 0 {
                tried.skipped -= 1;
            } else if !self.nodes[at].is_compressed() {
                let is_compressed = self.compress_group(at, group_nodes);
                self.nodes.tried_mut().into_iter().for_each(|tried| tried.count_try(is_compressed));
            }
        }
        self.nodes.tried().is_some_and(|tried| tried.grown > 0)
    }

    /// Replaces the `group_nodes` nodes from `at` on by one compressed node, if that is worthwhile and none of them is
    /// compressed or has an element too large for other nodes. Returns whether it did.
    fn compress_group(&mut self, at: usize, group_nodes: usize) -> bool {
        let group = || (at..at + group_nodes).map(|at| &self.nodes[at]);
        if group().any(|node| node.is_compressed() || node.capacity_bytes() > NODE_BYTES_MAX) {
            return false;
        }
        let mut joined = ListNode::on(Box::new_uninit_slice(group().map(ListNode::used_bytes).sum()));
        group().for_each(|node| joined.append(node));
        if !joined.compress() {
            return false;
        }
        (1..group_nodes).for_each(|_| drop(self.nodes.take(at + 1)));
        self.nodes.change(at, |node| *node = joined);
        true
    }

    /// Compresses a node if that is worthwhile, unless it is compressed, is at an end, or has an element too large for
    /// other nodes. Returns whether it did.
    pub(super) fn compress(&mut self, at: usize) -> bool {
        let is_end = at == 0 || at + 1 >= self.nodes.len();
        if is_end || self.nodes[at].is_compressed() || self.nodes[at].is_large() {
            return false;
        }
        self.nodes.change(at, ListNode::compress)
    }

    /// Expands a node if it is compressed. Returns whether it was.
    pub(super) fn expand(&mut self, at: usize) -> bool {
        let is_compressed = self.nodes[at].is_compressed();
        if is_compressed {
            self.nodes.change(at, ListNode::expand);
        }
        is_compressed
    }

    /// Expands the nodes that have become the ends.
    pub(super) fn after_drop(&mut self) {
        if self.is_empty() {
            return;
        }
        for end in [End::Head, End::Tail] {
            self.expand(self.end_index(end));
        }
    }
}
