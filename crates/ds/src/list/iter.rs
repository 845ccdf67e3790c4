//! Walking a list from an index to one of its ends.
//!
//! A compressed node is expanded into a copy when the walk reaches it. The next one reuses the memory if no element is
//! held any more, so a walk over a whole backlog takes the memory of one node.

use std::ops::Range;
use std::rc::Rc;

use super::List;
use super::element::Element;
use super::entry::{self, Entries};
use super::node::ListNode;
use super::nodes::Nodes;

/// The elements of a list from an index on, in either direction.
#[derive(Clone, Default)]
pub struct Iter<'a> {
    /// The rest of the current node.
    entries: NodeEntries<'a>,
    /// All nodes, if there are any, and the index of the current one.
    nodes: Option<&'a Nodes>,
    at: usize,
    reverse: bool,
    remaining: usize,
}

/// The elements of one node.
#[derive(Clone)]
enum NodeEntries<'a> {
    Lent(Entries<'a>),
    /// A copy, and the range in it that has not been passed.
    Copied(Rc<Vec<u8>>, Range<usize>),
}

impl Default for NodeEntries<'_> {
    fn default() -> Self {
        Self::Lent(Entries::default())
    }
}

impl<'a> NodeEntries<'a> {
    #[inline]
    fn new(node: &'a ListNode, last: Self) -> Self {
        if node.is_compressed() { Self::copied(node, last) } else { Self::Lent(node.entries()) }
    }

    fn copied(node: &ListNode, last: Self) -> Self {
        let mut bytes = match last {
            Self::Copied(copy, _) => Rc::into_inner(copy).unwrap_or_default(),
            Self::Lent(_) => Vec::new(),
        };
        bytes.clear();
        node.copy_expanded(|expanded| bytes.extend_from_slice(expanded));
        let range = 0..bytes.len();
        Self::Copied(Rc::new(bytes), range)
    }

    #[inline]
    fn next(&mut self, from_tail: bool) -> Option<Element<'a>> {
        match self {
            Self::Lent(entries) if from_tail => entries.next_back().map(Element::lent),
            Self::Lent(entries) => entries.next().map(Element::lent),
            Self::Copied(copy, rest) => next_copied(copy, rest, from_tail),
        }
    }
}

fn next_copied<'a>(copy: &Rc<Vec<u8>>, rest: &mut Range<usize>, from_tail: bool) -> Option<Element<'a>> {
    let bytes = &copy[rest.clone()];
    if bytes.is_empty() {
        return None;
    }
    let (value, length) = if from_tail { entry::last_range(bytes) } else { entry::first_range(bytes) };
    let value = rest.start + value.start..rest.start + value.end;
    if from_tail {
        rest.end -= length;
    } else {
        rest.start += length;
    }
    Some(Element::copied(copy, value))
}

impl<'a> Iter<'a> {
    /// Begins at an existing element. `to_tail` and `to_head` count the elements from it to each end, including itself.
    pub(super) fn new(
        nodes: &'a Nodes,
        (at, index): (usize, usize),
        to_tail: usize,
        to_head: usize,
        reverse: bool,
    ) -> Self {
        let mut entries = NodeEntries::new(&nodes[at], NodeEntries::default());
        let passed = if reverse { nodes[at].count() - 1 - index } else { index };
        for _ in 0..passed {
            entries.next(reverse);
        }
        Self { entries, nodes: Some(nodes), at, reverse, remaining: if reverse { to_head } else { to_tail } }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        loop {
            let value = self.entries.next(self.reverse);
            if value.is_some() {
                self.remaining -= 1;
                return value;
            }
            self.at = if self.reverse { self.at.checked_sub(1)? } else { self.at + 1 };
            let node = self.nodes?.get(self.at)?;
            self.entries = NodeEntries::new(node, std::mem::take(&mut self.entries));
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Calls `visit` for the elements at existing indexes, from the head, with bytes that begin with the element, and its
/// length. The bytes after the element are arbitrary, but may be read: that allows a faster copy of small elements.
pub fn visit_ahead(list: &List, range: Range<usize>, mut visit: impl FnMut(&[u8], usize)) {
    let mut left = range.len();
    let (mut at, mut passed) = if left > 0 { list.locate(range.start) } else { (0, 0) };
    while left > 0 {
        let node = &list.nodes[at];
        let count = left.min(node.count() - passed);
        if node.is_compressed() {
            node.copy_expanded(|bytes| entry::visit_ahead(bytes, passed, count, &mut visit));
        } else {
            entry::visit_ahead(node.bytes(), passed, count, &mut visit);
        }
        (left, at, passed) = (left - count, at + 1, 0);
    }
}
