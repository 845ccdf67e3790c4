//! A list: the elements of the queue that this store exists for.
//!
//! A row (`row`) of nodes of up to 8 KiB (`node`), each a run of elements in one buffer (`entry`). Push and pop touch
//! the node at their end and move nothing else; an index is located by the nodes' counts, from the nearer end; a change
//! in the middle rewrites one node.
//!
//! ```text
//! nodes:  [ free │ e e e e ] [ e e e e e ] [ e e e e e ] [ e e │ free ]
//!                  ^head                                    ^tail
//! ```
//!
//! * A short list is one node, stored in the list itself. Its buffer just fits the first element and then grows in small steps, or
//!   doubles if the list is used as a queue. A list that has outgrown one node gets nodes of half the size at first, then of full size.
//! * An element too large for a node has one of its own.
//! * Inner nodes of a long list are compressed (`deep`). Head and tail never are.
//! * Nodes are never empty, except for a small one that the last pop leaves in a list for the next push. Neighbours
//!   that an edit in the middle has left small are merged; pops and trims at the ends do not check for that.
//!
//! [`List::encoding`] is the name that Redis 7.2 reports with `list-max-listpack-size -2`, by its rules: "listpack"
//! until an addition would make the whole exceed 8 KiB, then "quicklist" until a removal leaves one node of at most
//! half of that. The structure is the same for both. The division into nodes may differ from Redis where elements are
//! integers, which Redis packs, and after edits in the middle.

pub(crate) mod compression;
mod deep;
mod edit;
mod element;
pub(crate) mod entry;
mod imprint;
mod iter;
pub(crate) mod node;
mod nodes;
mod row;
mod search;
#[cfg(test)]
mod tests;

pub use deep::ListLimits;
use deep::{GROUP_NODES, Tried};
pub use element::Element;
pub use entry::back_bytes;
pub use iter::{Iter, visit_ahead};
use node::ListNode;
pub use node::NODE_BYTES_MAX;
use nodes::Nodes;
pub use search::{Bookmark, Stretch};

use crate::mover::{Mover, WalkPosition};

/// Length of the longest element. Requests are limited far below it.
pub const ELEMENT_BYTES_MAX: usize = u32::MAX as usize - entry::OVERHEAD_BYTES_MAX;

/// A list of fewer nodes gets ones of half the size: it would be a large part of the list that its first and last node have free.
const FULL_SIZE_FROM: usize = 6;

/// Larger buffers are not kept in an empty list.
const EMPTY_BYTES_MAX: usize = 1024;

/// Bytes that a listpack takes beside its elements.
const LISTPACK_FRAME_BYTES: usize = 7;

/// One of the two ends of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The left end, index 0.
    Head,
    /// The right end, index -1.
    Tail,
}

impl End {
    /// The other one.
    pub fn other(self) -> End {
        match self {
            End::Head => End::Tail,
            End::Tail => End::Head,
        }
    }
}

/// An ordered sequence of byte strings.
#[derive(Clone, Default)]
pub struct List {
    nodes: Nodes,
    is_quicklist: bool,
    /// A byte for whoever observes the list. It would be padding otherwise.
    pub mark: u8,
}

// Most lists are short.
const _: () = assert!(size_of::<List>() == 40);

impl List {
    /// An empty list; allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.nodes.element_count()
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name that OBJECT ENCODING reports.
    pub fn encoding(&self) -> &'static str {
        if self.is_quicklist { "quicklist" } else { "listpack" }
    }

    /// Bytes that the list has allocated, as requested; the allocator's overhead is not counted.
    pub fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes() + self.nodes.buffer_bytes()
    }

    /// Announces that values of `value_bytes` in total are about to be added. [`Self::push`] does so for its value. A
    /// command that pushes several must do so first, because Redis chooses the encoding for all of them at once.
    #[inline]
    pub fn expect_growth(&mut self, value_bytes: usize) {
        if !self.is_quicklist {
            let listpack_bytes = match self.nodes.lone() {
                Some(node) => node.listpack_bytes(),
                None => self.nodes.iter().map(ListNode::listpack_bytes).sum(),
            };
            self.is_quicklist = LISTPACK_FRAME_BYTES + listpack_bytes + value_bytes > NODE_BYTES_MAX;
        }
    }

    /// Adds an element at one end.
    ///
    /// # Panics
    /// If the value is longer than [`ELEMENT_BYTES_MAX`].
    pub fn push(&mut self, end: End, value: &[u8]) {
        self.add(end, value);
    }

    /// Adds elements at one end, one after the other.
    ///
    /// # Panics
    /// Like [`push`](Self::push).
    #[inline]
    pub fn push_all(&mut self, end: End, values: &[&[u8]]) {
        if values.len() > 1 {
            self.expect_growth(values.iter().map(|value| value.len()).sum());
        }
        for value in values {
            self.add(end, value);
        }
    }

    #[inline]
    fn add(&mut self, end: End, value: &[u8]) {
        self.expect_growth(value.len());
        if !self.add_to_node(end, value) {
            self.add_to_new_node(end, value);
        }
    }

    /// Adds an element to the node at the end. Returns false if that has no room.
    #[inline]
    fn add_to_node(&mut self, end: End, value: &[u8]) -> bool {
        let Some((node, sums)) = self.nodes.end_mut(end == End::Head) else { return false };
        let grown_max = if sums.is_some() { NODE_BYTES_MAX / 2 } else { NODE_BYTES_MAX };
        if !node.has_room(end, value.len(), grown_max) {
            return false;
        }
        let before = node.capacity_bytes();
        node.push(end, value);
        if let Some(sums) = sums {
            sums.buffer_bytes += node.capacity_bytes() - before;
            sums.len += 1;
        }
        true
    }

    #[cold]
    fn add_to_new_node(&mut self, end: End, value: &[u8]) {
        if self.is_empty() && !self.nodes.is_empty() {
            self.nodes.take(0);
        }
        let at = match end {
            End::Head => 0,
            End::Tail => self.nodes.len(),
        };
        self.add_empty_node(at, value.len());
        self.nodes.tried_mut().into_iter().for_each(Tried::count_grown);
        self.nodes.change(at, |node| node.push(end, value));
        self.nodes.count_in(1);
    }

    /// Removes and returns the element at one end.
    pub fn pop(&mut self, end: End) -> Option<Vec<u8>> {
        self.pop_with(end, <[u8]>::to_vec)
    }

    /// Removes the element at one end after `visit` has read it in place.
    #[inline(always)]
    pub fn pop_with<R>(&mut self, end: End, visit: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let (node, sums) = self.nodes.end_mut(end == End::Head)?;
        if node.count() == 0 {
            return None;
        }
        let result = node.pop_with(end, visit);
        let is_empty = node.count() == 0;
        if let Some(sums) = sums {
            sums.len -= 1;
        }
        if is_empty {
            self.drop_emptied(end);
        }
        if self.is_quicklist && !self.nodes.has_more_than_one() {
            self.after_removal();
        }
        Some(result)
    }

    /// Drops the empty node at the end, unless it is a small one that is kept for the next push.
    #[cold]
    fn drop_emptied(&mut self, end: End) {
        if !self.is_empty() || self.nodes.buffer_bytes() > EMPTY_BYTES_MAX {
            self.nodes.take(self.end_index(end));
            self.after_drop();
        }
    }

    /// The element at one end.
    pub fn peek(&self, end: End) -> Option<&[u8]> {
        let node = if self.is_empty() { None } else { self.end_node(end) };
        node.map(|node| node.value(end))
    }

    /// The element at `index`; negative indexes count from the tail, which is -1.
    pub fn get(&self, index: i64) -> Option<Element<'_>> {
        let (at, within) = self.locate(self.absolute(index)?);
        let node = &self.nodes[at];
        if node.is_compressed() {
            self.iter(index, false).next()
        } else {
            node.get(within).map(Element::lent)
        }
    }

    /// The elements from index `from` on to the tail, or to the head if `reverse`; empty if there is no such index.
    pub fn iter(&self, from: i64, reverse: bool) -> Iter<'_> {
        match self.absolute(from) {
            Some(index) => Iter::new(&self.nodes, self.locate(index), self.len() - index, index + 1, reverse),
            None => Iter::default(),
        }
    }

    /// The positions of the elements that equal `wanted`, among the first `len_max` from the head, or from the tail if
    /// `reverse`. Positions count from that end. Calls `on_node` before each node that is searched, with its number of
    /// elements.
    pub fn positions<'l, W: FnMut(usize) + 'l>(
        &'l self,
        wanted: &'l [u8],
        reverse: bool,
        len_max: usize,
        mut on_node: W,
    ) -> impl Iterator<Item = usize> + use<'l, W> {
        let (hash, last, mut passed) = (imprint::hash(wanted), self.nodes.len().wrapping_sub(1), 0);
        (0..self.nodes.len())
            .map(move |step| {
                let node = &self.nodes[if reverse { last - step } else { step }];
                passed += node.count();
                on_node(node.count());
                (passed - node.count(), node)
            })
            .take_while(move |(before, _)| *before < len_max)
            .filter(move |(_, node)| node.may_have(hash))
            .flat_map(move |(before, node)| {
                node.positions(wanted, reverse).into_iter().map(move |within| before + within)
            })
            .take_while(move |position| *position < len_max)
    }

    /// Converts an index to one counted from the head; `None` if it does not exist.
    fn absolute(&self, index: i64) -> Option<usize> {
        let index = if index < 0 {
            self.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?
        } else {
            usize::try_from(index).ok()?
        };
        (index < self.len()).then_some(index)
    }

    /// The node that contains an existing index, counted from the head, and the index within that node. Costs O(nodes).
    pub fn locate(&self, index: usize) -> (usize, usize) {
        debug_assert!(index < self.len());
        if self.nodes.front().is_some_and(|node| index < node.count()) {
            return (0, index);
        }
        if index <= self.len() / 2 {
            let mut rest = index;
            for (at, node) in self.nodes.iter().enumerate() {
                if rest < node.count() {
                    return (at, rest);
                }
                rest -= node.count();
            }
        } else {
            let mut rest = self.len() - index;
            for at in (0..self.nodes.len()).rev() {
                let node = &self.nodes[at];
                if rest <= node.count() {
                    return (at, node.count() - rest);
                }
                rest -= node.count();
            }
        }
        unreachable!("the nodes' counts add up to the length");
    }

    fn end_index(&self, end: End) -> usize {
        match end {
            End::Head => 0,
            End::Tail => self.nodes.len() - 1,
        }
    }

    fn end_node(&self, end: End) -> Option<&ListNode> {
        match end {
            End::Head => self.nodes.front(),
            End::Tail => self.nodes.back(),
        }
    }

    /// Inserts an empty node at `at` with a buffer for a value. That of the first node, or of a large value, is as small as it can be.
    fn add_empty_node(&mut self, at: usize, value_bytes: usize) {
        assert!(value_bytes <= ELEMENT_BYTES_MAX, "the element is longer than a node's offsets reach");
        let needed = node::rounded_up(entry::entry_bytes(value_bytes));
        let buffer_bytes = match self.nodes.len() {
            0 => needed,
            _ if node::is_large(value_bytes) => needed,
            1..FULL_SIZE_FROM => needed.max(NODE_BYTES_MAX / 2),
            _ => NODE_BYTES_MAX,
        };
        self.nodes.add(at, ListNode::on(Box::new_uninit_slice(buffer_bytes)));
    }

    /// Makes the list a listpack again if it has become small enough.
    #[cold]
    fn after_removal(&mut self) {
        if !self.is_quicklist || self.nodes.has_more_than_one() {
            return;
        }
        let listpack_bytes = self.nodes.get(0).map_or(0, ListNode::listpack_bytes);
        if listpack_bytes + LISTPACK_FRAME_BYTES <= NODE_BYTES_MAX / 2 {
            self.is_quicklist = false;
            self.nodes.shrink_to_fit();
            if !self.nodes.is_empty() {
                self.nodes.change(0, ListNode::shrink);
            }
        }
    }

    /// Moves its memory from `place` on as long as the mover has time. Returns true at the end, with `place` reset to
    /// the beginning.
    pub fn defragment(&mut self, place: &mut WalkPosition, mover: &mut dyn Mover) -> bool {
        if place.part == 0 {
            self.nodes.relocate(mover);
        }
        while let Some(node) = self.nodes.get_mut(place.part) {
            node.relocate(mover);
            place.part += 1;
            if !mover.has_time() {
                return false;
            }
        }
        *place = WalkPosition::default();
        true
    }

    /// Checks every invariant; for tests.
    pub fn debug_validate(&self) {
        self.nodes.debug_validate();
        self.nodes.debug_validate_sums();
        for end in [self.nodes.get(0), self.nodes.back()] {
            assert!(end.is_none_or(|node| !node.is_compressed()));
        }
        for node in self.nodes.iter() {
            let node = &node.expanded();
            node.debug_validate();
            assert!(node.count() > 0 || (self.is_empty() && self.nodes.len() == 1));
            assert!(node.count() > 0 || node.capacity_bytes() <= EMPTY_BYTES_MAX);
            assert!(node.used_bytes() <= GROUP_NODES * NODE_BYTES_MAX || node.count() == 1);
            assert!(node.capacity_bytes() <= GROUP_NODES * NODE_BYTES_MAX || node.count() == 1);
        }
    }
}
