//! Walking a list from an index to one of its ends.

use super::entry::Entries;
use super::node::Node;
use super::row::Row;

/// The elements of a list from some index on, in either direction.
#[derive(Clone, Default)]
pub struct Iter<'a> {
    /// What is left of the node being read.
    entries: Entries<'a>,
    /// All nodes, if there are any, and the index of that node.
    nodes: Option<&'a Row<Node>>,
    at: usize,
    reverse: bool,
    remaining: usize,
}

impl<'a> Iter<'a> {
    /// Begins at an existing element, from which there are so many to the tail and to the head, itself included.
    pub(super) fn new(
        nodes: &'a Row<Node>,
        (at, index): (usize, usize),
        to_tail: usize,
        to_head: usize,
        reverse: bool,
    ) -> Self {
        let mut entries = nodes[at].entries();
        if reverse {
            if let Some(last) = (nodes[at].count() - 1 - index).checked_sub(1) {
                entries.nth_back(last);
            }
        } else {
            if let Some(last) = index.checked_sub(1) {
                entries.nth(last);
            }
        }
        Self { entries, nodes: Some(nodes), at, reverse, remaining: if reverse { to_head } else { to_tail } }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let value = if self.reverse { self.entries.next_back() } else { self.entries.next() };
            if value.is_some() {
                self.remaining -= 1;
                return value;
            }
            self.at = if self.reverse { self.at.checked_sub(1)? } else { self.at + 1 };
            self.entries = self.nodes?.get(self.at)?.entries();
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

impl ExactSizeIterator for Iter<'_> {}
