//! Moves what is in heaps without a thread to the heap of a serving thread.
//!
//! A thread that loads data allocates them on a heap of its own and then ends ([`own`](crate::own),
//! [`disown`](crate::disown)). The next thread that asks for a heap gets that one, with the data. But in a server that
//! loads while it serves, no new thread comes. There, one of the serving threads takes over the slabs and the chunks, a
//! bounded piece at a time, as a part of its rounds (`purging.rs`).
//!
//! A thread that frees a block may have read the number of the old heap, and posts the block there. So the old heap
//! forwards what arrives later. It has nothing itself by then, and waits for another thread that asks for a heap.

use crate::local::Local;
use crate::owned::{self, Idle, with_local};

/// Slabs and chunks that are looked at in one slice: some 20 us.
const NUMBERS_PER_SLICE: u32 = 1024;

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Inheriting {
    heaps: Vec<Idle>,
    /// The first slab and chunk that was not looked at, if the last of the heaps is ready for that.
    next: Option<u32>,
}

impl Inheriting {
    /// Of all heaps that no thread has, by a thread that has one.
    pub(crate) fn begin() -> Self {
        Inheriting { heaps: if owned::has_local() { owned::take_idle() } else { Vec::new() }, next: None }
    }

    /// Does a bounded piece of it; false at the end.
    pub(crate) fn advance(&mut self) -> bool {
        let Some(idle) = self.heaps.last_mut() else { return false };
        if !idle.is_empty && with_local(|local| inherit(local, idle, &mut self.next)) == Some(true) {
            return true;
        }
        // What was posted by its number, whosever it is by now.
        while idle.local().settle() {}
        self.heaps.pop().into_iter().for_each(owned::put_idle);
        true
    }
}

/// Takes over a piece of `idle`, from `next` on; false if that was all.
fn inherit(local: &mut Local, idle: &mut Idle, next: &mut Option<u32>) -> bool {
    let other = idle.local();
    let from = *next.get_or_insert_with(|| {
        other.wind_up();
        0
    });
    let end = from.saturating_add(NUMBERS_PER_SLICE);
    let is_left = local.inherit(other.id(), from..end);
    *next = is_left.then_some(end);
    idle.is_empty = !is_left;
    is_left
}
