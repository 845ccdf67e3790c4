//! The nodes of a list, and what is known of all of them together.
//!
//! A lone node, as short lists have it, says itself how many elements and bytes there are. Of several there are [`Sums`], so that
//! nobody has to go over them: whoever changes what nodes hold counts it afterwards.

use super::deep::Tried;
use super::node::ListNode;
use super::row::Row;

/// See the head of this file.
pub(super) type Nodes = Row<ListNode, Sums>;

/// What is known of several nodes.
#[derive(Clone, Copy, Default)]
pub(super) struct Sums {
    /// Elements.
    pub(super) len: usize,
    /// Bytes of the buffers.
    pub(super) buffer_bytes: usize,
    /// Which nodes were compressed, or could not be.
    tried: Tried,
}

impl Nodes {
    /// The number of elements.
    #[inline]
    pub(super) fn element_count(&self) -> usize {
        match self {
            Row::Lone(node) => node.count(),
            Row::Several(_) => self.beside().map_or(0, |sums| sums.len),
        }
    }

    /// Bytes of the buffers of all nodes.
    #[inline]
    pub(super) fn buffer_bytes(&self) -> usize {
        match self {
            Row::Lone(node) => node.capacity_bytes(),
            Row::Several(_) => self.beside().map_or(0, |sums| sums.buffer_bytes),
        }
    }

    /// Which nodes were compressed, if there were several.
    #[inline]
    pub(super) fn tried(&self) -> Option<&Tried> {
        self.beside().map(|sums| &sums.tried)
    }

    /// The same to be changed.
    #[inline]
    pub(super) fn tried_mut(&mut self) -> Option<&mut Tried> {
        self.beside_mut().map(|sums| &mut sums.tried)
    }

    /// So many elements have come.
    #[inline]
    pub(super) fn count_in(&mut self, count: usize) {
        if let Some(sums) = self.beside_mut() {
            sums.len += count;
        }
    }

    /// So many elements have gone.
    #[inline]
    pub(super) fn count_out(&mut self, count: usize) {
        if let Some(sums) = self.beside_mut() {
            sums.len -= count;
        }
    }

    /// A buffer of so many bytes has got so many.
    #[inline]
    pub(super) fn count_buffer(&mut self, before: usize, after: usize) {
        if let Some(sums) = self.beside_mut() {
            sums.buffer_bytes = sums.buffer_bytes - before + after;
        }
    }

    /// Puts a node at `at`. Its elements are new to the list, or were counted when they lay in another one.
    pub(super) fn add(&mut self, at: usize, node: ListNode) {
        let (was_lone, added) = (self.lone().is_some(), node.capacity_bytes());
        self.insert(at, node);
        if was_lone {
            self.recount(Tried::default());
        } else if let Some(sums) = self.beside_mut() {
            sums.buffer_bytes += added;
            sums.tried.add(at);
        }
    }

    /// Lets `change` give a node another buffer.
    pub(super) fn change<R>(&mut self, at: usize, change: impl FnOnce(&mut ListNode) -> R) -> R {
        let node = &mut self[at];
        let before = node.capacity_bytes();
        let result = change(node);
        let after = node.capacity_bytes();
        self.count_buffer(before, after);
        result
    }

    /// Takes a node away whose elements do not count any more.
    pub(super) fn take(&mut self, at: usize) -> ListNode {
        let node = self.remove(at).expect("only existing nodes are dropped");
        if let Some(sums) = self.beside_mut() {
            sums.buffer_bytes -= node.capacity_bytes();
            sums.tried.remove(at);
        }
        node
    }

    /// Counts several nodes anew.
    pub(super) fn recount(&mut self, tried: Tried) {
        let len = self.iter().map(ListNode::count).sum();
        let buffer_bytes = self.iter().map(ListNode::capacity_bytes).sum();
        if let Some(sums) = self.beside_mut() {
            *sums = Sums { len, buffer_bytes, tried };
        }
    }

    pub(super) fn debug_validate_sums(&self) {
        assert_eq!(self.iter().map(ListNode::count).sum::<usize>(), self.element_count());
        assert_eq!(self.iter().map(ListNode::capacity_bytes).sum::<usize>(), self.buffer_bytes());
        self.tried().inspect(|tried| tried.debug_validate(self.len()));
    }
}
