//! Counts the memory that the process has allocated.
//!
//! Each thread counts in a cell of its own with plain loads and stores; threads beyond [`CELLS`] share the last cell. A
//! block may be freed by another thread than the one that allocated it, so a single cell may be negative; only the sum
//! of all cells is meaningful.

use std::cell::Cell as LocalCell;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// Number of cells; the last one is shared by all threads that find no other.
const CELLS: usize = 128;
const SHARED: usize = CELLS - 1;
/// The thread has no cell yet.
const NONE: usize = usize::MAX;

/// Bytes allocated by one thread: outside slabs, and in slabs. Each cell has a pair of cache lines to itself.
#[repr(align(128))]
struct Cell([AtomicI64; 2]);

impl Cell {
    #[inline]
    fn sum(&self) -> i64 {
        self.0[0].load(Ordering::Relaxed).wrapping_add(self.0[1].load(Ordering::Relaxed))
    }
}

static ALLOCATED: [Cell; CELLS] = [const { Cell([const { AtomicI64::new(0) }; 2]) }; CELLS];
static NEXT_CELL: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CELL: LocalCell<usize> = const { LocalCell::new(NONE) };
}

/// Bytes that the process has allocated and not freed.
pub fn allocated_bytes() -> u64 {
    // While other threads allocate and free, the sum may be slightly off.
    sum_of_cells().max(0) as u64
}

/// The part of [`allocated_bytes`] that lies in slabs.
pub(crate) fn small_bytes() -> u64 {
    let small = used_cells().iter().map(|cell| cell.0[1].load(Ordering::Relaxed));
    small.sum::<i64>().max(0) as u64
}

fn used_cells() -> &'static [Cell] {
    match NEXT_CELL.load(Ordering::Relaxed) {
        SHARED.. => &ALLOCATED,
        used => &ALLOCATED[..used],
    }
}

fn sum_of_cells() -> i64 {
    used_cells().iter().map(Cell::sum).sum()
}

/// A cheap view of the bytes allocated by all threads, for one thread. Its own part is exact; the other threads' part
/// is cached, and read again when its own part has changed by more than [`STALE_BYTES`]. So if every thread keeps to a
/// limit, together they exceed it by at most this much and one allocation per thread.
#[derive(Debug, Default)]
pub struct Gauge {
    others: i64,
    /// This thread's part at the last full read.
    own: i64,
    /// The limit that the last call passed.
    limit: u64,
}

/// How much a thread may allocate or free before it reads the other threads' cells again.
const STALE_BYTES: u64 = 16 * 1024;

impl Gauge {
    /// Bytes allocated. Reads all cells if `limit` differs from that of the last call.
    #[inline]
    pub fn bytes(&mut self, limit: u64) -> u64 {
        let own = ALLOCATED[own_cell()].sum();
        if own.wrapping_sub(self.own).unsigned_abs() > STALE_BYTES || limit != self.limit {
            self.limit = limit;
            return self.read();
        }
        self.others.wrapping_add(own).max(0) as u64
    }

    /// Reads all threads' cells.
    pub fn read(&mut self) -> u64 {
        self.own = ALLOCATED[own_cell()].sum();
        let sum = sum_of_cells();
        self.others = sum - self.own;
        sum.max(0) as u64
    }
}

/// Index of this thread's cell.
#[inline]
fn own_cell() -> usize {
    CELL.with(|cell| {
        if cell.get() == NONE {
            cell.set(NEXT_CELL.fetch_add(1, Ordering::Relaxed).min(SHARED));
        }
        cell.get()
    })
}

/// Counts `bytes` as allocated (freed if negative), in a slab if `is_small`.
#[inline]
pub(crate) fn count(bytes: i64, is_small: bool) {
    let index = own_cell();
    let cell = &ALLOCATED[index].0[usize::from(is_small)];
    if index == SHARED {
        cell.fetch_add(bytes, Ordering::Relaxed);
    } else {
        // Only this thread writes to its cell.
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_sees_what_all_have() {
        // In this test nothing else is counted.
        let (mut gauge, limit) = (Gauge::default(), 1 << 30);
        let before = gauge.bytes(limit);
        count(1 << 20, true);
        assert_eq!(gauge.bytes(limit), before + (1 << 20));
        let other = std::thread::spawn(|| count(5 << 20, true));
        other.join().expect("it only counts");
        // Its own change is small, so it has not read the other cells.
        count(STALE_BYTES as i64, true);
        assert_eq!(gauge.bytes(limit), before + (1 << 20) + STALE_BYTES);
        count(1, true);
        assert_eq!(gauge.bytes(limit), before + (6 << 20) + STALE_BYTES + 1);
        let other = std::thread::spawn(|| count(-(5 << 20), true));
        other.join().expect("it only counts");
        assert_eq!(gauge.bytes(limit + 1), before + (1 << 20) + STALE_BYTES + 1);
        count(-(1 << 20) - STALE_BYTES as i64 - 1, true);
    }
}
