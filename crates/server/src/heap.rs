//! How much memory the process has allocated.
//!
//! The allocator counts what it hands out, rounded up to the sizes that mimalloc has, so that the number grows as the
//! process does. Each thread counts in a cell of its own with plain loads and stores; threads beyond [`CELLS`] share
//! the last cell. A block may be freed by another thread than the one that asked for it: single cells may be
//! negative, only their sum means something.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell as LocalCell;
use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use mimalloc::MiMalloc;

/// Cells; the last one is shared by the threads that find no other.
const CELLS: usize = 128;
const SHARED: usize = CELLS - 1;
/// No cell yet.
const NONE: usize = usize::MAX;
/// From here on the allocator rounds up to whole pages.
const PAGED_BYTES: usize = 128 * 1024;
const PAGE_BYTES: usize = 4096;

/// How long freed memory is kept before it goes back to the system, as long as jemalloc does in Redis: a queue that fills and
/// empties would have to get it back page by page, at 1 us each.
const KEPT_MS: c_long = 10_000;
/// Number and default of mimalloc's option `purge_delay`, for which no crate has a name.
const PURGE_DELAY: c_int = 15;
const PURGE_DELAY_DEFAULT_MS: c_long = 1000;

unsafe extern "C" {
    safe fn mi_option_get(option: c_int) -> c_long;
    safe fn mi_option_set(option: c_int, value: c_long);
    safe fn mi_malloc(size: usize) -> *mut c_void;
    safe fn mi_zalloc(size: usize) -> *mut c_void;
    fn mi_realloc(block: *mut c_void, size: usize) -> *mut c_void;
}

/// Bytes of one thread; no two share a pair of cache lines.
#[repr(align(128))]
struct Cell(AtomicI64);

static ALLOCATED: [Cell; CELLS] = [const { Cell(AtomicI64::new(0)) }; CELLS];
static NEXT_CELL: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CELL: LocalCell<usize> = const { LocalCell::new(NONE) };
}

/// Whether mimalloc aligns a block of this size enough without being told. If it is told it takes another seven bytes
/// for most sizes, to be sure.
#[inline]
fn is_aligned_anyway(size: usize, align: usize) -> bool {
    align <= 8 || align <= 16 && size >= 16
}

/// mimalloc, counting.
#[derive(Debug)]
pub struct CountingAllocator;

/// Bytes allocated and not freed.
pub(crate) fn allocated_bytes() -> u64 {
    // While others allocate and free, the sum of what was read may be off.
    sum_of_cells().max(0) as u64
}

fn sum_of_cells() -> i64 {
    let used = match NEXT_CELL.load(Ordering::Relaxed) {
        SHARED.. => CELLS,
        used => used,
    };
    ALLOCATED[..used].iter().map(|cell| cell.0.load(Ordering::Relaxed)).sum()
}

/// Bytes allocated by all threads, as one of them sees it for next to nothing: its own part exactly, that of the others as
/// it was when it last looked. It looks again when its own part has changed by [`STALE_BYTES`]. So all of them together are
/// never further beyond a limit that each keeps than this and one allocation for each thread.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    others: i64,
    /// The own part when it last looked.
    own: i64,
    /// With which limit in mind.
    limit: u64,
}

/// What one thread may allocate before it looks at the others.
const STALE_BYTES: u64 = 16 * 1024;

impl Gauge {
    /// Bytes allocated; looks at once if `limit` is another one than before.
    #[inline]
    pub(crate) fn bytes(&mut self, limit: u64) -> u64 {
        let own = ALLOCATED[own_cell()].0.load(Ordering::Relaxed);
        if own.wrapping_sub(self.own).unsigned_abs() > STALE_BYTES || limit != self.limit {
            self.limit = limit;
            return self.read();
        }
        self.others.wrapping_add(own).max(0) as u64
    }

    /// Looks at all threads.
    pub(crate) fn read(&mut self) -> u64 {
        self.own = ALLOCATED[own_cell()].0.load(Ordering::Relaxed);
        let sum = sum_of_cells();
        self.others = sum - self.own;
        sum.max(0) as u64
    }
}

/// Has freed memory kept for a while, unless people want it otherwise (MIMALLOC_PURGE_DELAY).
pub(crate) fn keep_freed() {
    if mi_option_get(PURGE_DELAY) == PURGE_DELAY_DEFAULT_MS {
        mi_option_set(PURGE_DELAY, KEPT_MS);
    }
}

/// The number of the thread's cell.
#[inline]
fn own_cell() -> usize {
    CELL.with(|cell| {
        if cell.get() == NONE {
            cell.set(NEXT_CELL.fetch_add(1, Ordering::Relaxed).min(SHARED));
        }
        cell.get()
    })
}

#[inline]
fn count(bytes: i64) {
    let index = own_cell();
    let cell = &ALLOCATED[index].0;
    if index == SHARED {
        cell.fetch_add(bytes, Ordering::Relaxed);
    } else {
        // Only this thread writes it.
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
    }
}

/// The size of the block that mimalloc takes for a request: four sizes for each doubling.
#[inline]
fn block_bytes(size: usize) -> i64 {
    let rounded = match size {
        0..=8 => 8,
        9..=128 => size.next_multiple_of(16),
        _ if size > PAGED_BYTES => size.saturating_add(PAGE_BYTES - 1) & !(PAGE_BYTES - 1),
        _ => size.next_multiple_of(1 << ((size - 1).ilog2() - 2)),
    };
    rounded as i64
}

// SAFETY: every call goes on to mimalloc with the arguments as they came; counting allocates nothing and cannot
// unwind.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = if is_aligned_anyway(layout.size(), layout.align()) {
            mi_malloc(layout.size()).cast()
        } else {
            // SAFETY: the caller's promises are those that mimalloc asks for.
            unsafe { MiMalloc.alloc(layout) }
        };
        if !block.is_null() {
            count(block_bytes(layout.size()));
        }
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let block = if is_aligned_anyway(layout.size(), layout.align()) {
            mi_zalloc(layout.size()).cast()
        } else {
            // SAFETY: the caller's promises are those that mimalloc asks for.
            unsafe { MiMalloc.alloc_zeroed(layout) }
        };
        if !block.is_null() {
            count(block_bytes(layout.size()));
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-block_bytes(layout.size()));
        // SAFETY: the caller's promises are those that mimalloc asks for.
        unsafe { MiMalloc.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let moved = if is_aligned_anyway(size, layout.align()) {
            // SAFETY: the caller's promises are those that mimalloc asks for.
            unsafe { mi_realloc(block.cast(), size) }.cast()
        } else {
            // SAFETY: as above.
            unsafe { MiMalloc.realloc(block, layout, size) }
        };
        if !moved.is_null() {
            count(block_bytes(size) - block_bytes(layout.size()));
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn mi_usable_size(block: *const c_void) -> usize;
    }

    #[test]
    fn freed_memory_is_kept() {
        keep_freed();
        assert_eq!(mi_option_get(PURGE_DELAY), KEPT_MS, "mimalloc has renumbered its options");
    }

    #[test]
    fn every_thread_sees_what_all_have() {
        // Nothing is counted here but what this test counts.
        let (mut gauge, limit) = (Gauge::default(), 1 << 30);
        let before = gauge.bytes(limit);
        count(1 << 20);
        assert_eq!(gauge.bytes(limit), before + (1 << 20));
        let other = std::thread::spawn(|| count(5 << 20));
        other.join().expect("it only counts");
        // Its own change is small: it has not looked.
        count(STALE_BYTES as i64);
        assert_eq!(gauge.bytes(limit), before + (1 << 20) + STALE_BYTES);
        count(1);
        assert_eq!(gauge.bytes(limit), before + (6 << 20) + STALE_BYTES + 1);
        let other = std::thread::spawn(|| count(-(5 << 20)));
        other.join().expect("it only counts");
        assert_eq!(gauge.bytes(limit + 1), before + (1 << 20) + STALE_BYTES + 1);
        count(-(1 << 20) - STALE_BYTES as i64 - 1);
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
            let blocks: Vec<*mut u8> = (0..100)
                // SAFETY: the layout is not empty.
                .map(|_| unsafe { CountingAllocator.alloc(layout) })
                .collect();
            for &block in &blocks {
                assert_eq!(block.addr() % align, 0, "{size}");
                // SAFETY: it is a block of mimalloc.
                let bytes = unsafe { mi_usable_size(block.cast()) };
                assert_eq!(bytes as i64, block_bytes(size), "{size}");
                // SAFETY: it came from there with this layout.
                unsafe { CountingAllocator.dealloc(block, layout) };
            }
        }
    }
}
