//! Which nodes of a list are compressed, and when.
//!
//! ```text
//!  head                                                           tail
//!  [ plain … ] [ not tried yet ] [ tried: compressed, mostly ] [ plain … ]
//! ```
//!
//! A list of at least [`ListLimits::nodes_min`] nodes is compressed from its middle on, two nodes for each that a push adds,
//! until only [`ListLimits::plain_nodes`] are left at either end: so the work is spread over the pushes. A node that
//! becomes the head or the tail is expanded, once and as a whole; all others stay as they are. Reading one expands a copy
//! for as long as it is read; a change expands it and compresses it again. Where compressing does not help, it is tried ever
//! more seldom.

use super::node::{NODE_BYTES_MAX, Node};
use super::{End, List};

/// Nodes that are tried for each that is added, and at once.
const TRIED_PER_NODE: u32 = 2;
const TRIED_AT_ONCE_MAX: u32 = 48;
/// After so many nodes in a row that could not be compressed, only one in two to that power is tried.
const FAILURES_MAX: u8 = 6;

/// Which lists are compressed.
#[derive(Clone, Copy, Debug)]
pub struct ListLimits {
    /// Nodes of the shortest list that is; none is if this is 0.
    pub nodes_min: u32,
    /// Nodes at either end that are not, at least one.
    pub plain_nodes: u32,
}

/// The run of nodes that were compressed, or could not be.
#[derive(Clone, Copy, Default)]
pub(super) struct Tried {
    from: u32,
    len: u32,
    /// Nodes that pushes have added and others are to be tried for.
    grown: u16,
    /// Nodes in a row that could not be compressed, and how many are therefore still to be left alone.
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

    fn end(&self) -> usize {
        (self.from + self.len) as usize
    }

    /// The next node to be tried, which counts as such now.
    fn next(&mut self, nodes: usize, plain_nodes: usize) -> Option<usize> {
        if self.len == 0 {
            self.from = (nodes / 2) as u32;
        }
        let (before, after) = (self.from as usize, nodes - self.end());
        if before.max(after) <= plain_nodes {
            return None;
        }
        self.len += 1;
        if before < after {
            return Some(self.end() - 1);
        }
        self.from -= 1;
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
        if self.tried.grown > 0 {
            self.try_inner(limits);
        }
    }

    #[cold]
    fn try_inner(&mut self, limits: &ListLimits) {
        if limits.nodes_min == 0 || self.nodes.len() < limits.nodes_min as usize {
            self.tried.grown = 0;
            return;
        }
        let count = (u32::from(self.tried.grown) * TRIED_PER_NODE).min(TRIED_AT_ONCE_MAX);
        self.tried.grown -= (count / TRIED_PER_NODE) as u16;
        for _ in 0..count {
            let Some(at) = self.tried.next(self.nodes.len(), limits.plain_nodes.max(1) as usize) else {
                self.tried.grown = 0;
                return;
            };
            if self.tried.skipped > 0 {
                self.tried.skipped -= 1;
            } else if !self.nodes[at].is_compressed() {
                let failures = if self.compress(at) { 0 } else { FAILURES_MAX.min(self.tried.failures + 1) };
                self.tried.failures = failures;
                self.tried.skipped = (1 << failures) - 1;
            }
        }
    }

    /// Compresses a node, unless it is compressed, lies at an end or has an element too large for other nodes; says whether
    /// it did.
    pub(super) fn compress(&mut self, at: usize) -> bool {
        let is_end = at == 0 || at + 1 >= self.nodes.len();
        if is_end || self.nodes[at].is_compressed() || self.nodes[at].capacity_bytes() > NODE_BYTES_MAX {
            return false;
        }
        let buffer = self.change(at, Node::compress);
        buffer.map(|buffer| self.keep_spare(buffer)).is_some()
    }

    /// Expands a node if it is compressed; says whether it was.
    pub(super) fn expand(&mut self, at: usize) -> bool {
        let is_compressed = self.nodes[at].is_compressed();
        if is_compressed {
            let buffer = self.full_buffer();
            self.change(at, |node| node.expand(buffer));
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
