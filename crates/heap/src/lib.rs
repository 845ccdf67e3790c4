//! The program's allocator: small blocks in fine sizes, everything counted exactly.
//!
//! ```text
//! allocate ──▶ up to 8 KiB, on a thread with a heap of its own ──▶ its slab for that size   (local.rs, classes.rs)
//!          ──▶ anything else ──▶ mimalloc                                                   (general.rs)
//! free     ──▶ by the address: mimalloc's, a slab of this heap, or by post to another heap  (region.rs, mail.rs)
//! ```
//!
//! General allocators have four sizes for each doubling and waste a tenth of a store's memory on its values. Here sizes lie 8
//! to 64 bytes apart. Where many blocks were freed and those that are left lie scattered, slabs can be emptied (`emptying.rs`)
//! by whoever knows how to move what lies in them. A thread asks for a heap with [`own`], and tells it with [`settle`] now and
//! then that it has time.

mod classes;
mod count;
mod emptying;
mod general;
mod local;
mod mail;
mod region;

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr;
use std::sync::Mutex;

use crate::classes::{Class, SMALL_BYTES_MAX};
use crate::count::count;
pub use crate::count::{Gauge, allocated_bytes};
pub use crate::emptying::Emptying;
pub use crate::general::keep_freed;
use crate::local::{Free, Local};
use crate::mail::HEAPS_MAX;

/// The most that small blocks are aligned to: there is a size for each multiple of it.
const SMALL_ALIGN: usize = 64;

/// Heaps that no thread has, and how many there are in all.
static HEAPS: Mutex<(Vec<Idle>, u16)> = Mutex::new((Vec::new(), 0));

/// A heap between two threads.
struct Idle(*mut Local);

// SAFETY: nobody else has the heap.
unsafe impl Send for Idle {}

thread_local! {
    static LOCAL: Cell<*mut Local> = const { Cell::new(ptr::null_mut()) };
}

/// Gives this thread a heap of its own, if it has none, there are not too many, and the system gives addresses. It must
/// call [`settle`] from time to time, and [`disown`] before it ends.
pub fn own() {
    if !LOCAL.get().is_null() {
        return;
    }
    let Some(region) = region::get() else { return };
    let mut heaps = HEAPS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let heap = match heaps.0.pop() {
        Some(Idle(heap)) => heap,
        None if usize::from(heaps.1) < HEAPS_MAX - 1 => {
            heaps.1 += 1;
            Box::into_raw(Box::new(Local::new(region, heaps.1)))
        }
        None => return,
    };
    LOCAL.set(heap);
}

/// Takes this thread's heap from it; the next thread that asks for one gets it with all that is in it.
pub fn disown() {
    settle();
    let heap = LOCAL.replace(ptr::null_mut());
    if !heap.is_null() {
        let mut heaps = HEAPS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        heaps.0.push(Idle(heap));
    }
}

/// Posts the blocks of other threads' heaps that this thread freed, and takes back some of its own; true if more of those wait.
#[inline]
pub fn settle() -> bool {
    local().is_some_and(Local::settle)
}

/// Gives memory without blocks back to the system if it was without blocks at the last call already.
pub fn purge() {
    if let Some(region) = region::get() {
        region.purge();
    }
}

/// Whether the block at this address lies in a slab that is to be [emptied](Emptying): a block of the same size that is allocated
/// now would not.
#[inline]
pub fn is_to_move(block: *const u8) -> bool {
    region::is_to_move(block)
}

/// Bytes of the slabs that heaps have, and of the blocks in them.
pub fn slab_bytes() -> (u64, u64) {
    (region::get().map_or(0, |region| region.taken_bytes()), count::small_bytes())
}

/// This thread's heap.
#[inline]
fn local() -> Option<&'static mut Local> {
    // SAFETY: the heap lives for ever, only this thread has it, and nothing that has this reference asks for it again:
    // heaps do not allocate.
    unsafe { LOCAL.get().as_mut() }
}

/// The class of small blocks for this layout.
#[inline]
fn class_of(layout: Layout) -> Option<Class> {
    (layout.size() <= SMALL_BYTES_MAX && layout.align() <= SMALL_ALIGN).then(|| fitting(layout))
}

/// The same for the layout of a small block. Slabs are aligned, so blocks are to what their size is a multiple of.
#[inline]
fn fitting(layout: Layout) -> Class {
    Class::of(layout.size().next_multiple_of(layout.align()))
}

/// Bytes of the block that was given for this layout, from a slab or not.
#[inline]
fn bytes_of(is_small: bool, layout: Layout) -> usize {
    if is_small { fitting(layout).bytes() } else { general::block_bytes(layout.size()) }
}

#[inline]
fn allocate(layout: Layout, zeroed: bool) -> *mut u8 {
    if let Some(class) = class_of(layout)
        && let Some(local) = local()
    {
        let block = local.allocate(class);
        if !block.is_null() {
            count(class.bytes() as i64, true);
            if zeroed {
                // SAFETY: the block is that long.
                unsafe { block.write_bytes(0, layout.size()) };
            }
            return block;
        }
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

// SAFETY: blocks have the sizes and alignments asked for and are nobody else's until they are freed: see the modules.
// Nothing here allocates through itself or unwinds.
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
        let is_small = region::contains(block);
        count(-(bytes_of(is_small, layout) as i64), is_small);
        if !is_small {
            // SAFETY: what is not in the region is the general allocator's; the rest by what the caller promises.
            return unsafe { general::free(block, layout) };
        }
        match local() {
            // SAFETY: by what the caller promises.
            Some(local) => unsafe { local.free(block) },
            None => {
                let block: *mut Free = block.cast();
                // SAFETY: by what the caller promises.
                unsafe { mail::post(region::owner_of(block.cast()), block, block) };
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return ptr::null_mut() };
        let is_small = region::contains(block);
        if is_small && class_of(wanted) == class_of(layout) {
            return block;
        }
        if !is_small && class_of(wanted).is_none() {
            // SAFETY: what is not in the region is the general allocator's; the rest by what the caller promises.
            let moved = unsafe { general::reallocate(block, layout, size) };
            if !moved.is_null() {
                count(general::block_bytes(size) as i64 - bytes_of(is_small, layout) as i64, false);
            }
            return moved;
        }
        let moved = allocate(wanted, false);
        if !moved.is_null() {
            // SAFETY: both blocks have that many bytes, and the new one is nobody else's.
            unsafe { ptr::copy_nonoverlapping(block, moved, layout.size().min(size)) };
            // SAFETY: by what the caller promises.
            unsafe { self.dealloc(block, layout) };
        }
        moved
    }
}
