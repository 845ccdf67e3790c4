//! What only some lists have, in a box so that the others stay small: a buffer for the next node, and what is known of a queue.

use std::mem::MaybeUninit;

use super::node::{ListNode, NODE_BYTES_MAX};
use super::nodes::Nodes;
use super::{End, List};
use crate::mover::{Mover, move_box};
use crate::queue::Seen;

/// Additional state of a list that is a queue or has more than one node.
#[derive(Clone, Debug, Default)]
pub struct Extra {
    /// A full-size buffer for the next node; only while the list is a quicklist.
    pub(super) spare: Option<Box<[MaybeUninit<u8>; NODE_BYTES_MAX]>>,
    /// What is known of the queue, if the list is one.
    pub seen: Option<Seen>,
}

/// The optional [`Extra`] of a list.
#[derive(Clone, Debug, Default)]
pub struct Extras(Option<Box<Extra>>);

impl Extras {
    /// The additional state, if there is any.
    pub fn get(&self) -> Option<&Extra> {
        self.0.as_deref()
    }

    /// The additional state, which is created if there is none.
    pub fn get_mut(&mut self) -> &mut Extra {
        self.0.get_or_insert_default()
    }

    /// Takes the additional state away, to be put back later or given to another list.
    pub fn take(&mut self) -> Option<Box<Extra>> {
        self.0.take()
    }

    /// Puts additional state back.
    pub fn put(&mut self, extra: Box<Extra>) {
        self.0 = Some(extra);
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

    #[inline]
    pub(super) fn seen(&mut self) -> Option<&mut Seen> {
        self.0.as_mut()?.seen.as_mut()
    }

    pub(super) fn take_spare(&mut self) -> Option<Box<[MaybeUninit<u8>; NODE_BYTES_MAX]>> {
        self.0.as_mut()?.spare.take()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let Some(extra) = self.get() else { return 0 };
        let spare = extra.spare.as_ref().map_or(0, |buffer| size_of_val(&**buffer));
        size_of::<Extra>() + spare + extra.seen.as_ref().map_or(0, Seen::memory_bytes)
    }

    pub(super) fn relocate(&mut self, mover: &mut dyn Mover) {
        if let Some(extra) = &mut self.0 {
            move_box(extra, mover);
            extra.spare.take_if(|buffer| mover.wants(buffer.as_ptr().cast()));
            if let Some(seen) = &mut extra.seen {
                seen.relocate(mover);
            }
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
        self.extras.get()?.seen.as_ref()
    }

    /// Its additional state.
    #[inline]
    pub fn extras_mut(&mut self) -> &mut Extras {
        &mut self.extras
    }
}
