//! The allocator for blocks above 512 KiB and for threads without a heap: mimalloc, with the settings that it
//! needs. Blocks above 4 MiB are mapped from the system: they grow without being copied, and are returned
//! when they are freed. Under Miri, which runs no C, it is the system's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{c_int, c_long, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use mimalloc::MiMalloc;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap, munmap};

/// Above this size, mimalloc rounds up to whole pages.
const PAGED_BYTES: usize = 128 * 1024;
const PAGE_BYTES: usize = 4096;
/// Larger blocks are mapped directly: faulting their pages in costs less than filling them.
const UNMAPPED_BYTES_MAX: usize = 4 << 20;

/// How long freed memory is kept before it is returned to the system.
pub(crate) const KEPT_MS: u64 = 2000;
/// Number and default of mimalloc's option `purge_delay`, for which no crate has a constant.
const PURGE_DELAY: c_int = 15;
const PURGE_DELAY_DEFAULT_MS: c_long = 1000;
/// Number of mimalloc's option `allow_thp`.
const ALLOW_THP: c_int = 43;

unsafe extern "C" {
    safe fn mi_option_get(option: c_int) -> c_long;
    safe fn mi_option_set(option: c_int, value: c_long);
    safe fn mi_option_set_default(option: c_int, value: c_long);
    safe fn mi_malloc(size: usize) -> *mut c_void;
    safe fn mi_zalloc(size: usize) -> *mut c_void;
    safe fn mi_collect(force: bool);
    fn mi_realloc(block: *mut c_void, size: usize) -> *mut c_void;
}

/// Whether the user set the delay (`MIMALLOC_PURGE_DELAY`).
static IS_SET: AtomicBool = AtomicBool::new(false);

/// Whether [`want_small_pages`] was called.
static WANTS_SMALL_PAGES: AtomicBool = AtomicBool::new(false);

/// Keeps mimalloc from asking for huge pages: with them, the first few bytes of each kind take 2 MiB, which
/// are never returned. Call this before the first allocation. The user can override it
/// (`MIMALLOC_ALLOW_THP`).
#[cold]
fn want_small_pages() {
    WANTS_SMALL_PAGES.store(true, Ordering::Relaxed);
    mi_option_set_default(ALLOW_THP, 0);
}

/// Makes mimalloc keep freed memory for a while, unless the user set another delay.
pub fn keep_freed() {
    let is_set = mi_option_get(PURGE_DELAY) != PURGE_DELAY_DEFAULT_MS;
    IS_SET.store(is_set, Ordering::Relaxed);
    keep(true);
}

/// Makes mimalloc keep freed memory for a while, or not at all.
pub(crate) fn keep(is_kept: bool) {
    if !cfg!(miri) && !IS_SET.load(Ordering::Relaxed) {
        mi_option_set(PURGE_DELAY, if is_kept { KEPT_MS as c_long } else { 0 });
    }
}

/// Returns memory that mimalloc has kept for long enough or, if `at_once`, all of it. On its own, mimalloc
/// does so only when this thread frees something.
pub(crate) fn collect(at_once: bool) {
    if !cfg!(miri) {
        mi_collect(at_once);
    }
}

/// Whether mimalloc aligns a block of this size sufficiently without being given the alignment. If it is given one, it
/// adds seven bytes to most sizes to be safe.
#[inline]
fn is_aligned_anyway(size: usize, align: usize) -> bool {
    align <= 8 || align <= 16 && size >= 16
}

/// Size of the block that mimalloc allocates for a request: four sizes per doubling.
#[inline]
pub(crate) fn block_bytes(size: usize) -> usize {
    match size {
        0..=8 => 8,
        9..=128 => size.next_multiple_of(16),
        _ if size > PAGED_BYTES => size.saturating_add(PAGE_BYTES - 1) & !(PAGE_BYTES - 1),
        _ => size.next_multiple_of(1 << ((size - 1).ilog2() - 2)),
    }
}

/// Whether such a block is mapped directly, and not mimalloc's.
#[inline]
fn is_mapped(layout: Layout) -> bool {
    layout.size() > UNMAPPED_BYTES_MAX && layout.align() <= PAGE_BYTES && cfg!(not(miri))
}

/// Maps zeroed memory; null if the system refuses it.
#[cold]
fn map(size: usize) -> *mut u8 {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the system chooses affects no other memory.
    let mapped = unsafe { mmap_anonymous(ptr::null_mut(), size, protection, MapFlags::PRIVATE) };
    mapped.map_or(ptr::null_mut(), <*mut c_void>::cast)
}

/// Allocates a block, filled with zeros if `zeroed`; null if there is no memory.
#[inline]
pub(crate) fn allocate(layout: Layout, zeroed: bool) -> *mut u8 {
    if is_mapped(layout) {
        return map(layout.size());
    }
    if cfg!(miri) {
        // SAFETY: no empty block is requested under Miri.
        return unsafe { System.alloc_zeroed(layout) };
    }
    if !WANTS_SMALL_PAGES.load(Ordering::Relaxed) {
        want_small_pages();
    }
    match (is_aligned_anyway(layout.size(), layout.align()), zeroed) {
        (true, false) => mi_malloc(layout.size()).cast(),
        (true, true) => mi_zalloc(layout.size()).cast(),
        // SAFETY: mimalloc accepts any layout, including an empty one.
        (false, false) => unsafe { MiMalloc.alloc(layout) },
        // SAFETY: mimalloc accepts any layout, including an empty one.
        (false, true) => unsafe { MiMalloc.alloc_zeroed(layout) },
    }
}

/// # Safety
/// The block came from [`allocate`] with this layout and is no longer in use.
#[inline]
pub(crate) unsafe fn free(block: *mut u8, layout: Layout) {
    if is_mapped(layout) {
        // SAFETY: it was mapped with this size; the caller guarantees the rest.
        let unmapped = unsafe { munmap(block.cast(), layout.size()) };
        return unmapped.expect("what was mapped is unmapped");
    }
    if cfg!(miri) {
        // SAFETY: the caller guarantees it.
        return unsafe { System.dealloc(block, layout) };
    }
    // SAFETY: the caller guarantees it.
    unsafe { MiMalloc.dealloc(block, layout) }
}

/// # Safety
/// The block came from [`allocate`] with this layout, and is no longer in use unless the result is null.
#[inline]
pub(crate) unsafe fn reallocate(block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return ptr::null_mut() };
    match (is_mapped(layout), is_mapped(wanted)) {
        (false, false) => {}
        (true, true) => {
            // SAFETY: it was mapped with this size; the caller guarantees the rest.
            let moved = unsafe { mremap(block.cast(), layout.size(), size, MremapFlags::MAYMOVE) };
            return moved.map_or(ptr::null_mut(), <*mut c_void>::cast);
        }
        (true, false) | (false, true) => {
            let moved = allocate(wanted, false);
            if !moved.is_null() {
                // SAFETY: both blocks have that many bytes, and nothing else refers to the new one.
                unsafe { ptr::copy_nonoverlapping(block, moved, layout.size().min(size)) };
                // SAFETY: the caller guarantees it.
                unsafe { free(block, layout) };
            }
            return moved;
        }
    }
    if cfg!(miri) {
        // SAFETY: the caller guarantees it.
        return unsafe { System.realloc(block, layout, size) };
    }
    if is_aligned_anyway(size, layout.align()) {
        // SAFETY: the caller guarantees it.
        unsafe { mi_realloc(block.cast(), size) }.cast()
    } else {
        // SAFETY: the caller guarantees it.
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
    fn mimalloc_asks_for_no_huge_pages() {
        let block = allocate(Layout::new::<[u8; 100]>(), false);
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("Linux has it");
        // SAFETY: it was allocated there with this layout.
        unsafe { free(block, Layout::new::<[u8; 100]>()) };
        let asks = |line: &str| line.starts_with("VmFlags:") && line.split(' ').any(|flag| flag == "hg");
        assert!(!maps.lines().any(asks), "mimalloc has renumbered its options");
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
                // SAFETY: it was allocated there with this layout.
                unsafe { free(block, layout) };
            }
        }
    }
}
