//! The allocator for blocks beyond 512 KiB and for threads without a heap: mimalloc, and what has to be known about it.
//! Above 4 MiB it is the system itself: such blocks grow without being copied, and are returned when they are freed.
//! Under Miri, which runs no C, it is the system's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{c_int, c_long, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use mimalloc::MiMalloc;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap, munmap};

/// From here on it rounds up to whole pages.
const PAGED_BYTES: usize = 128 * 1024;
const PAGE_BYTES: usize = 4096;
/// Larger blocks are mapped: to get their pages anew takes less than to fill them.
const UNMAPPED_BYTES_MAX: usize = 4 << 20;

/// How long freed memory is kept before it goes back to the system.
pub(crate) const KEPT_MS: u64 = 2000;
/// Number and default of mimalloc's option `purge_delay`, for which no crate has a name.
const PURGE_DELAY: c_int = 15;
const PURGE_DELAY_DEFAULT_MS: c_long = 1000;

unsafe extern "C" {
    safe fn mi_option_get(option: c_int) -> c_long;
    safe fn mi_option_set(option: c_int, value: c_long);
    safe fn mi_malloc(size: usize) -> *mut c_void;
    safe fn mi_zalloc(size: usize) -> *mut c_void;
    safe fn mi_collect(force: bool);
    fn mi_realloc(block: *mut c_void, size: usize) -> *mut c_void;
}

/// People want it otherwise (`MIMALLOC_PURGE_DELAY`).
static IS_SET: AtomicBool = AtomicBool::new(false);

/// Has freed memory kept for a while.
pub fn keep_freed() {
    let is_set = mi_option_get(PURGE_DELAY) != PURGE_DELAY_DEFAULT_MS;
    IS_SET.store(is_set, Ordering::Relaxed);
    keep(true);
}

/// Has freed memory kept for a while, or not at all.
pub(crate) fn keep(is_kept: bool) {
    if !cfg!(miri) && !IS_SET.load(Ordering::Relaxed) {
        mi_option_set(PURGE_DELAY, if is_kept { KEPT_MS as c_long } else { 0 });
    }
}

/// Gives back what has been kept for long enough, or (`at_once`) everything: mimalloc does so by itself only when this thread frees
/// something.
pub(crate) fn collect(at_once: bool) {
    if !cfg!(miri) {
        mi_collect(at_once);
    }
}

/// Whether mimalloc aligns a block of this size enough without being told. If it is told it takes another seven bytes
/// for most sizes, to be sure.
#[inline]
fn is_aligned_anyway(size: usize, align: usize) -> bool {
    align <= 8 || align <= 16 && size >= 16
}

/// The size of the block for a request: four sizes for each doubling.
#[inline]
pub(crate) fn block_bytes(size: usize) -> usize {
    match size {
        0..=8 => 8,
        9..=128 => size.next_multiple_of(16),
        _ if size > PAGED_BYTES => size.saturating_add(PAGE_BYTES - 1) & !(PAGE_BYTES - 1),
        _ => size.next_multiple_of(1 << ((size - 1).ilog2() - 2)),
    }
}

/// Whether such a block is the system's own, and not mimalloc's.
#[inline]
fn is_mapped(layout: Layout) -> bool {
    layout.size() > UNMAPPED_BYTES_MAX && layout.align() <= PAGE_BYTES && cfg!(not(miri))
}

/// Memory of the system's; what it gives are zeros.
#[cold]
fn map(size: usize) -> *mut u8 {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at a place of the system's choice concerns nobody.
    let mapped = unsafe { mmap_anonymous(ptr::null_mut(), size, protection, MapFlags::PRIVATE) };
    mapped.map_or(ptr::null_mut(), <*mut c_void>::cast)
}

/// A block; its contents are zeros if `zeroed`. Null if there is no memory.
#[inline]
pub(crate) fn allocate(layout: Layout, zeroed: bool) -> *mut u8 {
    if is_mapped(layout) {
        return map(layout.size());
    }
    if cfg!(miri) {
        // SAFETY: nothing empty is asked for under Miri.
        return unsafe { System.alloc_zeroed(layout) };
    }
    match (is_aligned_anyway(layout.size(), layout.align()), zeroed) {
        (true, false) => mi_malloc(layout.size()).cast(),
        (true, true) => mi_zalloc(layout.size()).cast(),
        // SAFETY: mimalloc takes any layout, an empty one, too.
        (false, false) => unsafe { MiMalloc.alloc(layout) },
        // SAFETY: as above.
        (false, true) => unsafe { MiMalloc.alloc_zeroed(layout) },
    }
}

/// # Safety
/// The block came from [`allocate`] with this layout, and nobody uses it any more.
#[inline]
pub(crate) unsafe fn free(block: *mut u8, layout: Layout) {
    if is_mapped(layout) {
        // SAFETY: it was mapped with this size; the rest by what the caller promises.
        let unmapped = unsafe { munmap(block.cast(), layout.size()) };
        return unmapped.expect("what was mapped is unmapped");
    }
    if cfg!(miri) {
        // SAFETY: by what the caller promises.
        return unsafe { System.dealloc(block, layout) };
    }
    // SAFETY: by what the caller promises.
    unsafe { MiMalloc.dealloc(block, layout) }
}

/// # Safety
/// The block came from [`allocate`] with this layout, and nobody uses it any more unless the result is null.
#[inline]
pub(crate) unsafe fn reallocate(block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return ptr::null_mut() };
    match (is_mapped(layout), is_mapped(wanted)) {
        (false, false) => {}
        (true, true) => {
            // SAFETY: it was mapped with this size; the rest by what the caller promises.
            let moved = unsafe { mremap(block.cast(), layout.size(), size, MremapFlags::MAYMOVE) };
            return moved.map_or(ptr::null_mut(), <*mut c_void>::cast);
        }
        (true, false) | (false, true) => {
            let moved = allocate(wanted, false);
            if !moved.is_null() {
                // SAFETY: both blocks have that many bytes, and the new one is nobody else's.
                unsafe { ptr::copy_nonoverlapping(block, moved, layout.size().min(size)) };
                // SAFETY: by what the caller promises.
                unsafe { free(block, layout) };
            }
            return moved;
        }
    }
    if cfg!(miri) {
        // SAFETY: by what the caller promises.
        return unsafe { System.realloc(block, layout, size) };
    }
    if is_aligned_anyway(size, layout.align()) {
        // SAFETY: by what the caller promises.
        unsafe { mi_realloc(block.cast(), size) }.cast()
    } else {
        // SAFETY: as above.
        unsafe { MiMalloc.realloc(block, layout, size) }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn mi_usable_size(block: *const c_void) -> usize;
    }

    #[test]
    fn freed_memory_is_kept() {
        keep_freed();
        assert_eq!(mi_option_get(PURGE_DELAY), KEPT_MS as c_long, "mimalloc has renumbered its options");
    }

    #[test]
    fn blocks_have_the_sizes_of_the_allocator() {
        for (size, block) in [
            (0, 8),
            (8, 8),
            (9, 16),
            (16, 16),
            (17, 32),
            (128, 128),
            (129, 160),
            (200, 224),
            (257, 320),
            (1000, 1024),
        ] {
            assert_eq!(block_bytes(size), block, "{size}");
        }
        assert_eq!(block_bytes(1_000_000), 1_003_520);
    }

    #[test]
    fn blocks_take_what_is_counted_and_are_aligned() {
        for (size, align) in
            [(1, 1), (8, 8), (16, 16), (33, 8), (42, 8), (48, 16), (80, 8), (129, 8), (576, 8), (640, 1)]
        {
            let layout = Layout::from_size_align(size, align).expect("a small power of two");
            let blocks: Vec<*mut u8> = (0..100).map(|_| allocate(layout, false)).collect();
            for &block in &blocks {
                assert_eq!(block.addr() % align, 0, "{size}");
                // SAFETY: it is a block of mimalloc.
                let bytes = unsafe { mi_usable_size(block.cast()) };
                assert_eq!(bytes, block_bytes(size), "{size}");
                // SAFETY: it came from there with this layout.
                unsafe { free(block, layout) };
            }
        }
    }
}
