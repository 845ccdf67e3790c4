//! What only queues have, in a box so that other lists stay small.

use super::node::ListNode;
use super::nodes::Nodes;
use super::{End, List};
use crate::mover::{Mover, move_box};
use crate::queue::Seen;

/// What is known of the queue, if a list is one.
#[derive(Clone, Debug, Default)]
pub struct Extras(Option<Box<Seen>>);

impl Extras {
    /// Replaces what is known of the queue. Without it, the list is none.
    pub fn set(&mut self, seen: Option<Seen>) {
        self.0 = seen.map(Box::new);
    }

    /// What is known of the queue; begins with the result of `begin` if the list was none.
    pub fn get_or_begin(&mut self, begin: impl FnOnce() -> Seen) -> &mut Seen {
        self.0.get_or_insert_with(|| Box::new(begin()))
    }

    /// Sets the time at which the following changes happen. Only queues need it.
    #[inline]
    pub fn set_time(&mut self, now_ms: u64) {
        if let Some(seen) = self.seen() {
            seen.set_time(now_ms);
        }
    }

    /// Updates the figures of a queue that are not kept current all the time; `list_bytes` is the size of its list.
    pub fn refresh(&mut self, now_ms: u64, list_bytes: usize) {
        if let Some(seen) = self.seen() {
            seen.refresh(now_ms, list_bytes);
        }
    }

    /// What is known of the queue, if the list is one.
    #[inline]
    pub fn seen(&mut self) -> Option<&mut Seen> {
        self.0.as_deref_mut()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |seen| size_of::<Seen>() + seen.memory_bytes())
    }

    pub(super) fn relocate(&mut self, mover: &mut dyn Mover) {
        if let Some(seen) = &mut self.0 {
            move_box(seen, mover);
            seen.relocate(mover);
        }
    }

    /// Notes that the first `limit` elements of node `at` that equal `value` (the last if `reverse`) are about to be
    /// removed. The list has `len` elements before.
    pub(super) fn note_removing(
        &mut self,
        nodes: &Nodes,
        (at, len): (usize, usize),
        (value, limit, reverse): (&[u8], usize, bool),
    ) {
        let Some(seen) = self.seen() else { return };
        let before: usize = nodes.iter().take(at).map(ListNode::count).sum();
        let node = &nodes[at];
        let from_head = |within: usize| if reverse { node.count() - 1 - within } else { within };
        let mut places: Vec<usize> =
            node.positions(value, reverse).into_iter().take(limit).map(from_head).collect();
        places.sort_unstable();
        for (gone, within) in places.into_iter().rev().enumerate() {
            seen.removed(before + within, 1, len - gone - 1);
        }
    }

    pub(super) fn note_inserted(&mut self, index: usize, len: usize) {
        match self.seen() {
            Some(seen) if index == 0 => seen.pushed(End::Head, 1, len),
            Some(seen) if index + 1 == len => seen.pushed(End::Tail, 1, len),
            Some(seen) => seen.inserted(index, len),
            None => {}
        }
    }
}

impl List {
    /// What is known of the queue, if the list is one.
    pub fn seen(&self) -> Option<&Seen> {
        self.extras.0.as_deref()
    }

    /// What only queues have.
    #[inline]
    pub fn extras_mut(&mut self) -> &mut Extras {
        &mut self.extras
    }
}
