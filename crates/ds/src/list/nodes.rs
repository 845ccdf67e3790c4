//! The nodes of a list, and the totals over all of them.
//!
//! A lone node, as in short lists, knows its number of elements and bytes. For several nodes the totals are kept in
//! [`Sums`], so that nothing has to visit all nodes: code that changes the contents of nodes must update the sums.

use super::deep::Tried;
use super::node::ListNode;
use super::row::Row;

/// The nodes of a list.
pub(super) type Nodes = Row<ListNode, Sums>;

/// Totals over several nodes.
#[derive(Clone, Copy, Default)]
pub(super) struct Sums {
    /// Number of elements.
    pub(super) len: usize,
    /// Bytes of all buffers.
    pub(super) buffer_bytes: usize,
    /// The nodes that compression was tried on.
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

    /// The nodes that compression was tried on; `None` for a lone node.
    #[inline]
    pub(super) fn tried(&self) -> Option<&Tried> {
        self.beside().map(|sums| &sums.tried)
    }

    /// Like [`tried`](Self::tried), mutable.
    #[inline]
    pub(super) fn tried_mut(&mut self) -> Option<&mut Tried> {
        self.beside_mut().map(|sums| &mut sums.tried)
    }

    /// Adds `count` to the number of elements.
    #[inline]
    pub(super) fn count_in(&mut self, count: usize) {
        if let Some(sums) = self.beside_mut() {
            sums.len += count;
        }
    }

    /// Subtracts `count` from the number of elements.
    #[inline]
    pub(super) fn count_out(&mut self, count: usize) {
        if let Some(sums) = self.beside_mut() {
            sums.len -= count;
        }
    }

    /// Accounts for a buffer whose size has changed from `before` to `after`.
    #[inline]
    pub(super) fn count_buffer(&mut self, before: usize, after: usize) {
        if let Some(sums) = self.beside_mut() {
            sums.buffer_bytes = sums.buffer_bytes - before + after;
        }
    }

    /// Inserts a node at `at` and counts its buffer, but not its elements: these are new, or were counted in another node.
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

    /// Calls `change` on a node and counts the new size of its buffer.
    pub(super) fn change<R>(&mut self, at: usize, change: impl FnOnce(&mut ListNode) -> R) -> R {
        let node = &mut self[at];
        let before = node.capacity_bytes();
        let result = change(node);
        let after = node.capacity_bytes();
        self.count_buffer(before, after);
        result
    }

    /// Removes a node and its buffer from the totals; its elements must have been subtracted before.
    pub(super) fn take(&mut self, at: usize) -> ListNode {
        let node = self.remove(at).expect("only existing nodes are dropped");
        if let Some(sums) = self.beside_mut() {
            sums.buffer_bytes -= node.capacity_bytes();
            sums.tried.remove(at);
        }
        node
    }

    /// Recomputes the totals of several nodes.
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
