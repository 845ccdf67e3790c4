//! The memory of one Lua state: counted, limited, and calm while Rust code is on the stack.
//!
//! Lua reports a failed allocation by jumping out of whatever it was doing. That is fine in its own C code
//! and would skip the destructors of ours. So the heap has two moods. While a script runs it keeps the limit,
//! and a script that asks for too much gets "not enough memory". While Rust code runs (a native function, a
//! conversion) it is *trusting*: no request fails, and the Rust side asks [`Heap::has_room`] first and
//! [`Heap::is_over`] before it hands control back. What a trusting heap may overshoot is one value at a time.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;

/// What Lua's own C code needs at most (a double, a pointer).
const ALIGNMENT_BYTES: usize = 8;

/// The account of one state's memory.
#[derive(Debug)]
pub(super) struct Heap {
    used_bytes: Cell<usize>,
    max_bytes: usize,
    trusting: Cell<bool>,
    /// From here on garbage is worth looking for.
    crowded_bytes: Cell<usize>,
}

impl Heap {
    /// An empty account that trusts, as a state being set up needs it.
    pub(super) fn new(max_bytes: usize) -> Heap {
        Heap {
            used_bytes: Cell::new(0),
            max_bytes,
            trusting: Cell::new(true),
            crowded_bytes: Cell::new(max_bytes),
        }
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes.get()
    }

    /// Says whether Rust code (true) or a script (false) runs from here on.
    #[inline]
    pub(super) fn set_trusting(&self, trusting: bool) {
        self.trusting.set(trusting);
    }

    /// Whether `bytes` more would stay within the limit.
    #[inline]
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.max_bytes.checked_sub(self.used_bytes.get()).is_some_and(|free| bytes <= free)
    }

    /// Whether trusted code has gone over the limit.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.used_bytes.get() > self.max_bytes
    }

    /// Whether enough was allocated since the last full collection to make another one worthwhile. Lua
    /// collects step by step and does not hurry when memory is short; near the limit somebody must.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.used_bytes.get() > self.crowded_bytes.get()
    }

    /// Makes the heap crowded once half of what is free now is used.
    pub(super) fn set_crowded_from_here(&self) {
        let used = self.used_bytes.get();
        self.crowded_bytes.set(used + self.max_bytes.saturating_sub(used) / 2);
    }

    /// Counts a block that changes from `old` to `new` bytes, or refuses.
    #[inline]
    fn charge(&self, old: usize, new: usize) -> bool {
        let used = self.used_bytes.get() - old;
        // A shrinking block is never refused: Lua relies on it.
        if new > old && !self.trusting.get() && new > self.max_bytes.saturating_sub(used) {
            return false;
        }
        self.used_bytes.set(used + new);
        true
    }
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, ALIGNMENT_BYTES).expect("Lua asks for less than isize::MAX bytes")
}

/// Lua's one entry for memory: allocate, resize, free.
///
/// # Safety
/// `heap` points to a live [`Heap`]; `block` is null with `old` 0, or came from here with `old` bytes. Lua
/// keeps to it.
pub(super) unsafe extern "C" fn allocate(
    heap: *mut c_void,
    block: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    // SAFETY: the state's owner keeps the heap alive until the state is closed.
    let account = unsafe { &*heap.cast::<Heap>() };
    if !account.charge(old, new) {
        return null_mut();
    }
    if new == 0 {
        if old != 0 {
            // SAFETY: the block was allocated below with this size and alignment.
            unsafe { dealloc(block.cast(), layout(old)) };
        }
        return null_mut();
    }
    let fresh = if old == 0 {
        // SAFETY: the layout is not empty.
        unsafe { alloc(layout(new)) }
    } else {
        // SAFETY: the block was allocated here with the old layout, and the new size is neither zero nor too
        // large.
        unsafe { realloc(block.cast(), layout(old), new) }
    };
    if fresh.is_null() {
        handle_alloc_error(layout(new));
    }
    fresh.cast()
}
