//! How much memory the process has allocated.
//!
//! Each thread counts in a cell of its own with plain loads and stores; threads beyond [`CELLS`] share the last
//! cell. A block may be freed by another thread than the one that asked for it: single cells may be negative, only
//! their sum means something.

use std::cell::Cell as LocalCell;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// Cells; the last one is shared by the threads that find no other.
const CELLS: usize = 128;
const SHARED: usize = CELLS - 1;
/// No cell yet.
const NONE: usize = usize::MAX;

/// Bytes of one thread; no two share a pair of cache lines.
#[repr(align(128))]
struct Cell(AtomicI64);

static ALLOCATED: [Cell; CELLS] = [const { Cell(AtomicI64::new(0)) }; CELLS];
static NEXT_CELL: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CELL: LocalCell<usize> = const { LocalCell::new(NONE) };
}

/// Bytes allocated and not freed.
pub fn allocated_bytes() -> u64 {
    let sum: i64 = ALLOCATED.iter().map(|cell| cell.0.load(Ordering::Relaxed)).sum();
    // While others allocate and free, the sum of what was read may be off.
    sum.max(0) as u64
}

/// Counts what was allocated, or freed if it is negative.
#[inline]
pub(crate) fn count(bytes: i64) {
    let index = CELL.with(|cell| {
        if cell.get() == NONE {
            cell.set(NEXT_CELL.fetch_add(1, Ordering::Relaxed).min(SHARED));
        }
        cell.get()
    });
    let cell = &ALLOCATED[index].0;
    if index == SHARED {
        cell.fetch_add(bytes, Ordering::Relaxed);
    } else {
        // Only this thread writes it.
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
    }
}
