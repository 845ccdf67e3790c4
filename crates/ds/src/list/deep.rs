//! Which nodes of a list are compressed, and when.
//!
//! ```text
//!  head                                                           tail
//!  [ plain … ] [ not tried yet ] [ tried: compressed, mostly ] [ plain … ]
//! ```
//!
//! A list of at least [`ListLimits::nodes_min`] nodes is compressed from its middle on, a group of nodes for each that a push adds,
//! until few are left at either end ([`ListLimits::plain_part`]): so the work is spread over the pushes. Several
//! neighbours become one compressed node, because the more there is to compress at once, the less remains of each byte and
//! the faster it comes back. A node that becomes the head or the tail is expanded, once and as a whole; all others stay
//! as they are. Reading one expands a copy
//! for as long as it is read; a change expands it and compresses it again. Where compressing does not help, it is tried ever
//! more seldom.

use super::node::{ListNode, NODE_BYTES_MAX};
use super::{End, List};

/// Neighbours that become one compressed node in a long list.
pub(super) const GROUP_NODES: usize = 4;
/// The same in a list below [`LONG_NODES`], of which more would remain plain otherwise: what is left of each end is less than a group.
const SHORT_GROUP_NODES: usize = 2;
const LONG_NODES: usize = 128;
/// Groups that are tried at once: half a megabyte, so that pushes of a thousand jobs do not outrun it, in less than a millisecond.
const TRIED_AT_ONCE_MAX: u16 = 16;
/// After so many groups in a row that could not be compressed, only one in two to that power is tried.
const FAILURES_MAX: u8 = 6;

/// Which lists are compressed.
#[derive(Clone, Copy, Debug)]
pub struct ListLimits {
    /// Nodes of the shortest list that is; none is if this is 0.
    pub nodes_min: u32,
    /// Nodes at either end that are not, at most, and at least one.
    pub plain_nodes: u32,
    /// Of a list that is shorter than so many times `plain_nodes`, one node in so many is plain at either end.
    pub plain_part: u32,
}

impl ListLimits {
    /// Nodes at either end of a list of `nodes` that are not compressed.
    fn plain_nodes(&self, nodes: usize) -> usize {
        (nodes / self.plain_part.max(1) as usize).clamp(1, self.plain_nodes.max(1) as usize)
    }
}

/// The run of nodes that were compressed, or could not be.
#[derive(Clone, Copy, Default)]
pub(super) struct Tried {
    from: u32,
    len: u32,
    /// Nodes that pushes have added and groups are to be tried for.
    grown: u16,
    /// Groups in a row that could not be compressed, and how many are therefore still to be left alone.
    failures: u8,
    pub(super) skipped: u8,
}

impl Tried {
    /// A push has added a node.
    pub(super) fn count_grown(&mut self) {
        self.grown = self.grown.saturating_add(1);
    }

    /// A node is put at `at`.
    pub(super) fn add(&mut self, at: usize) {
        if at < self.from as usize {
            self.from += 1;
        } else if at < self.end() {
            self.len += 1;
        }
    }

    /// The node at `at` is taken away.
    pub(super) fn remove(&mut self, at: usize) {
        if at < self.from as usize {
            self.from -= 1;
        } else if at < self.end() {
            self.len -= 1;
        }
    }

    /// Nobody knows where nodes lie now.
    pub(super) fn forget(&mut self) {
        (self.from, self.len) = (0, 0);
    }

    /// A group was compressed, or could not be.
    fn count_try(&mut self, is_compressed: bool) {
        self.failures = if is_compressed { 0 } else { FAILURES_MAX.min(self.failures + 1) };
        self.skipped = (1 << self.failures) - 1;
    }

    fn end(&self) -> usize {
        (self.from + self.len) as usize
    }

    /// The first of the next `group_nodes` nodes to be tried, which count as such now.
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
    /// Compresses some inner nodes, in proportion to what was pushed since the last time.
    #[inline]
    pub fn compress_inner(&mut self, limits: &ListLimits) {
        if self.nodes.tried().is_some_and(|tried| tried.grown > 0) {
            self.try_inner(limits);
        }
    }

    #[cold]
    fn try_inner(&mut self, limits: &ListLimits) {
        let nodes = self.nodes.len();
        let Some(tried) = self.nodes.tried_mut() else { return };
        // Most of those tried are groups. In short lists these are smaller: what is compressed counts for more, and goes on to be.
        let plain_len = nodes + tried.len as usize * (GROUP_NODES - 1);
        if limits.nodes_min == 0 || plain_len < limits.nodes_min as usize {
            tried.grown = 0;
            return;
        }
        let plain_nodes = limits.plain_nodes(plain_len);
        let group_nodes = if plain_len < LONG_NODES { SHORT_GROUP_NODES } else { GROUP_NODES };
        let count = tried.grown.min(TRIED_AT_ONCE_MAX);
        tried.grown -= count;
        for _ in 0..count {
            let nodes = self.nodes.len();
            let Some(tried) = self.nodes.tried_mut() else { return };
            let Some(at) = tried.next(nodes, plain_nodes, group_nodes) else {
                tried.grown = 0;
                return;
            };
            if tried.skipped > 0 {
                tried.skipped -= 1;
            } else if !self.nodes[at].is_compressed() {
                let is_compressed = self.compress_group(at, group_nodes);
                self.nodes.tried_mut().into_iter().for_each(|tried| tried.count_try(is_compressed));
            }
        }
    }

    /// Puts one compressed node in place of the `group_nodes` that begin at `at`, unless one of them is compressed or has an element
    /// too large for other nodes; says whether it did.
    fn compress_group(&mut self, at: usize, group_nodes: usize) -> bool {
        let group = || (at..at + group_nodes).map(|at| &self.nodes[at]);
        if group().any(|node| node.is_compressed() || node.capacity_bytes() > NODE_BYTES_MAX) {
            return false;
        }
        let mut joined = ListNode::on(Box::new_uninit_slice(group().map(ListNode::used_bytes).sum()));
        group().for_each(|node| joined.append(node));
        if joined.compress().is_none() {
            return false;
        }
        (1..group_nodes).for_each(|_| self.drop_node(at + 1));
        self.nodes.change(at, |node| *node = joined);
        true
    }

    /// Compresses a node, unless it is compressed, lies at an end or has an element too large for other nodes; says whether
    /// it did.
    pub(super) fn compress(&mut self, at: usize) -> bool {
        let is_end = at == 0 || at + 1 >= self.nodes.len();
        if is_end || self.nodes[at].is_compressed() || self.nodes[at].is_large() {
            return false;
        }
        let buffer = self.nodes.change(at, ListNode::compress);
        buffer.map(|buffer| self.keep_spare(buffer)).is_some()
    }

    /// Expands a node if it is compressed; says whether it was.
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
