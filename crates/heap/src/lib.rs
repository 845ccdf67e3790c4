//! The program's allocator: finely spaced block sizes, exact counts, and unused memory returned to the system.
//!
//! ```text
//! allocate ──▶ on a thread with a heap of its own: up to 8 KiB ──▶ its slab for that size   (local.rs, classes.rs)
//!                                                up to 512 KiB ──▶ its chunk for that size  (large.rs, chunk.rs)
//!          ──▶ anything else ──▶ mimalloc                                                   (general.rs)
//! free     ──▶ by the address: mimalloc's, one of this heap, or by post to another heap     (region.rs, chunks.rs, exchange.rs)
//! ```
//!
//! General allocators have four sizes per doubling, and waste a tenth of a store's memory. Here sizes are 8
//! to 64 bytes apart. When many blocks have been freed and the remaining ones are scattered, code that knows
//! how to move the blocks can empty slabs (`emptying.rs`). The pages of free large blocks are returned one by
//! one. All memory that is not exempt (`exempt.rs`) counts against a limit of memory. A thread gets a heap
//! with [`own`], calls [`settle`] now and then when it has time, and runs a [`Round`] every [`ROUND_MS`].

mod chunk;
mod chunks;
mod classes;
mod count;
mod emptying;
mod exchange;
mod exempt;
mod free;
mod general;
mod inheriting;
mod kept;
mod large;
mod local;
mod mailbox;
mod owned;
mod purging;
mod region;
mod stack;
mod survey;
mod sync;

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

use crate::classes::{LargeClass, SMALL_BYTES_MAX, SizeClass};
use crate::count::count;
pub use crate::count::{Gauge, allocated_bytes, at_once, counted_bytes};
pub use crate::emptying::Emptying;
pub use crate::exempt::{Exempt, Exemption, as_fixed, block_bytes, exempt_bytes, fix};
use crate::free::Free;
pub use crate::general::keep_freed;
pub use crate::kept::kept_bytes;
use crate::local::Local;
pub use crate::owned::{disown, own};
use crate::owned::{has_local, with_local};
pub use crate::purging::{ROUND_MS, Round, keep_at_most, purge, purge_at_once};
pub use crate::survey::{SizeUse, survey};

/// Largest alignment of small blocks. Every multiple of it is a size class.
const SMALL_ALIGN: usize = 64;

/// Posts the blocks of other threads' heaps that this thread has freed, and frees some of the blocks that other threads
/// have posted to its heap. Returns true if more of those are waiting. Does nothing on a thread without a heap.
#[inline]
pub fn settle() -> bool {
    with_local(Local::settle).unwrap_or_default()
}

/// Whether the block at this address lies in a slab that is to be [emptied](Emptying). A new block of the same size
/// would be allocated outside such slabs.
#[inline]
pub fn is_to_move(block: *const u8) -> bool {
    region::is_to_move(block)
}

/// Returns the bytes of all slabs that heaps own, and of the blocks in them.
pub fn slab_bytes() -> (u64, u64) {
    (region::get().map_or(0, |region| region.taken_bytes()), count::small_bytes())
}

/// Size class for this layout; `None` if it is not a small block.
#[inline]
fn class_of(layout: Layout) -> Option<SizeClass> {
    (layout.size() <= SMALL_BYTES_MAX && layout.align() <= SMALL_ALIGN).then(|| fitting(layout))
}

/// Size class for the layout of a small block. Slabs are aligned, so a block is aligned to any power of two (up to the
/// slab's) that divides its size.
#[inline]
fn fitting(layout: Layout) -> SizeClass {
    SizeClass::of(layout.pad_to_align().size())
}

/// Size class of large blocks for this layout; `None` if it is not a large block.
#[inline]
fn large_class_of(layout: Layout) -> Option<LargeClass> {
    if layout.align() <= SMALL_ALIGN { LargeClass::of(layout.size()) } else { None }
}

/// The allocator a block came from.
#[derive(Clone, Copy)]
enum Source {
    Slab,
    Chunk(LargeClass),
    General,
}

impl Source {
    /// Finds where the block was allocated; `layout` is the one it was allocated with.
    #[inline]
    fn of(block: *const u8, layout: Layout) -> Source {
        if region::contains(block) {
            return Source::Slab;
        }
        match large_class_of(layout) {
            Some(class) if chunks::contains(block) => Source::Chunk(class),
            _ => Source::General,
        }
    }

    /// Size of the block in bytes, rounded up as its allocator does.
    #[inline]
    fn bytes(self, layout: Layout) -> usize {
        match self {
            Source::Slab => fitting(layout).bytes(),
            Source::Chunk(class) => class.bytes(),
            Source::General => general::block_bytes(layout.size()),
        }
    }
}

#[inline]
fn allocate(layout: Layout, zeroed: bool) -> *mut u8 {
    if let Some(class) = class_of(layout)
        && let Some(block) = with_local(|local| local.allocate(class))
        && !block.is_null()
    {
        count(class.bytes() as i64, true);
        if zeroed {
            // SAFETY: the block has at least `layout.size()` bytes.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        return block;
    }
    allocate_elsewhere(layout, zeroed)
}

/// Slow path of `allocate`: the block is not small, or the thread has no heap.
#[inline(never)]
fn allocate_elsewhere(layout: Layout, zeroed: bool) -> *mut u8 {
    if let Some(class) = large_class_of(layout)
        && let Some(block) = with_local(|local| local.allocate_large(class))
        && !block.is_null()
    {
        count(class.bytes() as i64, false);
        if zeroed {
            // SAFETY: the block has at least `layout.size()` bytes.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        return block;
    }
    let block = general::allocate(layout, zeroed);
    if !block.is_null() {
        count(general::block_bytes(layout.size()) as i64, false);
    }
    block
}

/// The program's allocator.
#[derive(Debug)]
pub struct Allocator;

// SAFETY: blocks have the requested size and alignment and belong to the caller until they are freed; see the
// modules. No method here allocates through itself or unwinds.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocate(layout, false)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocate(layout, true)
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let source = Source::of(block, layout);
        count(-(source.bytes(layout) as i64), matches!(source, Source::Slab));
        let free: *mut Free = block.cast();
        match source {
            Source::Slab => {
                // SAFETY: the caller guarantees it.
                let freed = with_local(|local| unsafe { local.free(block) });
                if freed.is_none() {
                    // SAFETY: the caller guarantees it.
                    unsafe { exchange::post(region::owner_of(block), free, free) };
                }
            }
            Source::Chunk(_) => {
                // SAFETY: the caller guarantees it.
                let freed = with_local(|local| unsafe { local.free_large(block) });
                if freed.is_none() {
                    // SAFETY: the caller guarantees it.
                    unsafe { exchange::post_large(chunks::owner_of(block), free) };
                }
            }
            // SAFETY: a block outside all slabs and chunks is the general allocator's; the caller guarantees the rest.
            Source::General => unsafe { general::free(block, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return ptr::null_mut() };
        let source = Source::of(block, layout);
        match source {
            Source::Slab if class_of(wanted) == class_of(layout) => return block,
            Source::Chunk(class) if large_class_of(wanted) == Some(class) => return block,
            Source::General
                if class_of(wanted).is_none() && (large_class_of(wanted).is_none() || !has_local()) =>
            {
                // SAFETY: the block is the general allocator's; the caller guarantees the rest.
                let moved = unsafe { general::reallocate(block, layout, size) };
                if !moved.is_null() {
                    count(general::block_bytes(size) as i64 - source.bytes(layout) as i64, false);
                }
                return moved;
            }
            Source::Slab | Source::Chunk(_) | Source::General => {}
        }
        let moved = allocate(wanted, false);
        if !moved.is_null() {
            // SAFETY: both blocks have that many bytes, and nothing else refers to the new one.
            unsafe { ptr::copy_nonoverlapping(block, moved, layout.size().min(size)) };
            // SAFETY: the caller guarantees it.
            unsafe { self.dealloc(block, layout) };
        }
        moved
    }
}
