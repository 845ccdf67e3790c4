//! Moves the contents of heaps without a thread to the heap of a serving thread.
//!
//! A thread that loads data allocates it on a heap of its own and then ends ([`own`](crate::own),
//! [`disown`](crate::disown)). The next thread that asks for a heap gets that one, with the data. But in a
//! server that loads while it serves, no new thread starts. There, one of the serving threads takes over the
//! slabs and chunks in bounded steps, as part of its rounds (`purging.rs`).
//!
//! A thread that frees a block may already have read the old heap's number, and then posts the block there. So the old
//! heap, which is empty by then, forwards the blocks that arrive later. It waits for another thread that asks for a heap.

use crate::local::Local;
use crate::owned::{self, Idle, with_local};

/// Slabs and chunks that are examined in one slice, which takes about 20 us.
const NUMBERS_PER_SLICE: u32 = 1024;

/// One takeover of all idle heaps, in bounded steps.
#[derive(Debug, Default)]
pub(crate) struct Inheriting {
    heaps: Vec<Idle>,
    /// The first slab and chunk not yet examined for the last heap in `heaps`; `None` if that heap has not been wound up.
    next: Option<u32>,
}

impl Inheriting {
    /// Starts taking over all heaps that no thread has. Does nothing on a thread without a heap.
    pub(crate) fn begin() -> Self {
        Inheriting { heaps: if owned::has_local() { owned::take_idle() } else { Vec::new() }, next: None }
    }

    /// Does a bounded step. Returns false at the end.
    pub(crate) fn advance(&mut self) -> bool {
        let Some(idle) = self.heaps.last_mut() else { return false };
        if !idle.is_empty && with_local(|local| inherit(local, idle, &mut self.next)) == Some(true) {
            return true;
        }
        // Forwards the blocks that were posted under its number to the heaps that own them now.
        while idle.local().settle() {}
        self.heaps.pop().into_iter().for_each(owned::put_idle);
        true
    }
}

/// Takes over a part of `idle`, starting at `next`. Returns false if that was the rest.
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
