//! The memory of one Lua state: counted, limited, and infallible while Rust code is on the stack.
//!
//! Lua reports a failed allocation by jumping out of what it was doing. In its own C code that is fine, but
//! it would skip the destructors of ours. So the heap has two modes. While a script runs, the heap enforces
//! the limit, and a script that asks for too much gets "not enough memory". While Rust code runs (a native
//! function, a conversion), the heap is *trusting*: no request fails. Instead the Rust code asks
//! [`Heap::has_room`] first, and [`Heap::is_over`] before it returns control. So a trusting heap exceeds the
//! limit by at most one value.
//!
//! Each run of a script makes some small tables and strings, and the collector frees those of many runs at
//! once. So small freed blocks are kept for reuse, by size ([`Spares`]). That is several times cheaper than
//! the allocator, which counts each block.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

/// Largest alignment that Lua's C code needs (a double, a pointer).
const ALIGNMENT_BYTES: usize = 8;
/// Sizes of small blocks are multiples of this.
const STEP_BYTES: usize = 16;
/// Largest small block.
const SMALL_BYTES_MAX: usize = 256;
/// Most bytes of all blocks that are kept. The collector frees what many runs have left, mostly closures and
/// tables, in one go. That is three times what remains, which is a few hundred kilobytes where BullMQ's
/// scripts are compiled.
const SPARE_BYTES_MAX: usize = 1024 * 1024;

/// Counts the memory of one state.
#[derive(Debug)]
pub(super) struct Heap {
    used_bytes: Cell<usize>,
    max_bytes: usize,
    trusting: Cell<bool>,
    /// Above this use, a full garbage collection is worthwhile.
    crowded_bytes: Cell<usize>,
    spares: Spares,
}

/// Small blocks that Lua has freed, by size. They do not count as Lua's memory. Each block starts with the
/// address of the next one.
#[derive(Debug)]
struct Spares {
    by_size: [Cell<*mut u8>; SMALL_BYTES_MAX / STEP_BYTES],
    bytes: Cell<usize>,
}

impl Default for Spares {
    fn default() -> Spares {
        Spares {
            by_size: [const { Cell::new(null_mut()) }; SMALL_BYTES_MAX / STEP_BYTES],
            bytes: Cell::new(0),
        }
    }
}

impl Spares {
    /// Takes a kept block of the right size for `bytes`, if there is one.
    #[inline]
    fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        let index = size_index(bytes);
        let first = self.by_size.get(index)?;
        let block = NonNull::new(first.get())?;
        // SAFETY: only this list has the block, and `keep` wrote an address to its beginning.
        first.set(unsafe { block.cast::<*mut u8>().read() });
        self.bytes.set(self.bytes.get() - (index + 1) * STEP_BYTES);
        Some(block)
    }

    /// Keeps a freed block of `bytes` bytes. False if it is large, or enough blocks are kept.
    #[inline]
    fn keep(&self, block: NonNull<u8>, bytes: usize) -> bool {
        let index = size_index(bytes);
        let Some(first) = self.by_size.get(index) else { return false };
        let bytes_then = self.bytes.get() + (index + 1) * STEP_BYTES;
        if bytes_then > SPARE_BYTES_MAX {
            return false;
        }
        // SAFETY: the block has room for an address and is aligned for it. It is free, so nothing else uses
        // it.
        unsafe { block.cast::<*mut u8>().write(first.get()) };
        first.set(block.as_ptr());
        self.bytes.set(bytes_then);
        true
    }
}

/// Index of the list for blocks of `bytes` bytes (at least one); past the end if they are large.
#[inline]
fn size_index(bytes: usize) -> usize {
    (bytes - 1) / STEP_BYTES
}

impl Drop for Spares {
    fn drop(&mut self) {
        for index in 0..self.by_size.len() {
            let bytes = (index + 1) * STEP_BYTES;
            while let Some(block) = self.take(bytes) {
                // SAFETY: the block was allocated below with the layout of all blocks that are kept here, and
                // nothing uses it.
                unsafe { dealloc(block.as_ptr(), layout(bytes)) };
            }
        }
    }
}

impl Heap {
    /// An empty, trusting heap, as needed while a state is set up.
    pub(super) fn new(max_bytes: usize) -> Heap {
        Heap {
            used_bytes: Cell::new(0),
            max_bytes,
            trusting: Cell::new(true),
            crowded_bytes: Cell::new(max_bytes),
            spares: Spares::default(),
        }
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes.get()
    }

    /// Sets whether Rust code (true) or a script (false) runs from here on.
    #[inline]
    pub(super) fn set_trusting(&self, trusting: bool) {
        self.trusting.set(trusting);
    }

    /// Whether `bytes` more stay within the limit.
    #[inline]
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.max_bytes.checked_sub(self.used_bytes.get()).is_some_and(|free| bytes <= free)
    }

    /// Whether trusted code has exceeded the limit.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.used_bytes.get() > self.max_bytes
    }

    /// Whether enough was allocated since the last full collection to make another one worthwhile. Lua
    /// collects step by step, and no faster when memory is short, so near the limit the caller has to
    /// collect.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.used_bytes.get() > self.crowded_bytes.get()
    }

    /// Makes the heap crowded once half of the memory that is free now is used.
    pub(super) fn set_crowded_from_here(&self) {
        let used = self.used_bytes.get();
        self.crowded_bytes.set(used + self.max_bytes.saturating_sub(used) / 2);
    }

    /// Accounts for a block that changes from `old` to `new` bytes. False if the limit does not allow it.
    #[inline]
    fn charge(&self, old: usize, new: usize) -> bool {
        let used = self.used_bytes.get() - old;
        // Shrinking a block never fails: Lua relies on that.
        if new > old && !self.trusting.get() && new > self.max_bytes.saturating_sub(used) {
            return false;
        }
        self.used_bytes.set(used + new);
        true
    }
}

/// The layout of a block of `bytes` bytes (at least one). Small blocks are rounded up, so that they have few
/// sizes. A large block never has a small block's size.
#[inline]
fn layout(bytes: usize) -> Layout {
    let rounded = if bytes <= SMALL_BYTES_MAX { bytes.next_multiple_of(STEP_BYTES) } else { bytes };
    Layout::from_size_align(rounded, ALIGNMENT_BYTES).expect("Lua asks for less than isize::MAX bytes")
}

/// Lua's only memory function: allocates, resizes and frees.
///
/// # Safety `heap` points to a live [`Heap`]. `block` is null with `old` 0, or was returned from here for `old` bytes. Lua guarantees
/// this.
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
    match (NonNull::new(block.cast::<u8>()).filter(|_| old != 0), new) {
        (None, 0) => null_mut(),
        (None, _) => account.spares.take(new).unwrap_or_else(|| fresh(new)).as_ptr().cast(),
        (Some(present), 0) => {
            if !account.spares.keep(present, old) {
                give_back(present, old);
            }
            null_mut()
        }
        (Some(present), _) => resized(present, old, new).as_ptr().cast(),
    }
}

/// Returns a block of `bytes` bytes to the allocator.
#[inline(never)]
fn give_back(block: NonNull<u8>, bytes: usize) {
    // SAFETY: the block was allocated here with this many bytes, and Lua no longer uses it.
    unsafe { dealloc(block.as_ptr(), layout(bytes)) };
}

/// Allocates a block of `bytes` bytes.
#[inline(never)]
fn fresh(bytes: usize) -> NonNull<u8> {
    let layout = layout(bytes);
    // SAFETY: the layout is not empty.
    let block = unsafe { alloc(layout) };
    NonNull::new(block).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Resizes a block from `old` to `new` bytes, both at least one.
#[inline(never)]
fn resized(block: NonNull<u8>, old: usize, new: usize) -> NonNull<u8> {
    let (old, new) = (layout(old), layout(new));
    if old == new {
        return block;
    }
    // SAFETY: the block was allocated here with the old layout, and the new size is neither zero nor too
    // large.
    let resized = unsafe { realloc(block.as_ptr(), old, new.size()) };
    NonNull::new(resized).unwrap_or_else(|| handle_alloc_error(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Allocates, resizes or frees on `heap`.
    fn call(heap: &Heap, block: *mut c_void, old: usize, new: usize) -> *mut c_void {
        let account = std::ptr::from_ref(heap).cast_mut().cast();
        // SAFETY: the heap is alive, and the tests follow the same rules as Lua.
        unsafe { allocate(account, block, old, new) }
    }

    #[test]
    fn what_was_freed_is_used_again_and_counted_as_asked() {
        let heap = Heap::new(1 << 20);
        let first = call(&heap, null_mut(), 0, 33);
        assert_eq!(heap.used_bytes(), 33);
        assert_eq!(call(&heap, first, 33, 48), first, "it had room for that");
        assert_eq!(heap.used_bytes(), 48);
        call(&heap, first, 48, 0);
        assert_eq!((heap.used_bytes(), heap.spares.bytes.get()), (0, 48));
        assert_eq!(call(&heap, null_mut(), 0, 40), first);
        assert_eq!((heap.used_bytes(), heap.spares.bytes.get()), (40, 0));
        let grown = call(&heap, first, 40, SMALL_BYTES_MAX + 1);
        call(&heap, grown, SMALL_BYTES_MAX + 1, 0);
        assert_eq!((heap.used_bytes(), heap.spares.bytes.get()), (0, 0), "a large block is not kept");
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let heap = Heap::new(usize::MAX / 2);
        let count = 2 * SPARE_BYTES_MAX / SMALL_BYTES_MAX;
        let blocks: Vec<_> = (0..count).map(|_| call(&heap, null_mut(), 0, SMALL_BYTES_MAX)).collect();
        for block in blocks {
            call(&heap, block, SMALL_BYTES_MAX, 0);
        }
        assert_eq!((heap.used_bytes(), heap.spares.bytes.get()), (0, SPARE_BYTES_MAX));
    }

    #[test]
    fn the_limit_counts_what_was_asked_for() {
        let heap = Heap::new(100);
        heap.set_trusting(false);
        let block = call(&heap, null_mut(), 0, 100);
        assert!(!block.is_null());
        assert!(call(&heap, null_mut(), 0, 1).is_null());
        call(&heap, block, 100, 0);
        let block = call(&heap, null_mut(), 0, 1);
        assert!(!block.is_null() && call(&heap, null_mut(), 0, 100).is_null());
        call(&heap, block, 1, 0);
    }
}
