//! How much memory the process has allocated.
//!
//! Each thread counts in a cell of its own with plain loads and stores; threads beyond [`CELLS`] share the last cell. A
//! block may be freed by another thread than the one that allocated it, so single cells may be negative; only their sum
//! has a meaning.

use std::cell::Cell as LocalCell;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// Cells; the last one is shared by the threads that find no other.
const CELLS: usize = 128;
const SHARED: usize = CELLS - 1;
/// No cell yet.
const NONE: usize = usize::MAX;

/// Bytes of one thread, from elsewhere and from slabs; no two share a pair of cache lines.
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

/// Bytes allocated and not freed.
pub fn allocated_bytes() -> u64 {
    // While others allocate and free, the sum of what was read may be off.
    sum_of_cells().max(0) as u64
}

/// Those of them that lie in slabs.
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

/// Bytes allocated by all threads, as one of them sees it for next to nothing: its own part exactly, that of the others as
/// it was when it last looked. It looks again when its own part has changed by [`STALE_BYTES`]. So all of them together are
/// never further beyond a limit that each keeps than this and one allocation for each thread.
#[derive(Debug, Default)]
pub struct Gauge {
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
    pub fn bytes(&mut self, limit: u64) -> u64 {
        let own = ALLOCATED[own_cell()].sum();
        if own.wrapping_sub(self.own).unsigned_abs() > STALE_BYTES || limit != self.limit {
            self.limit = limit;
            return self.read();
        }
        self.others.wrapping_add(own).max(0) as u64
    }

    /// Looks at all threads.
    pub fn read(&mut self) -> u64 {
        self.own = ALLOCATED[own_cell()].sum();
        let sum = sum_of_cells();
        self.others = sum - self.own;
        sum.max(0) as u64
    }
}

/// The number of this thread's cell.
#[inline]
fn own_cell() -> usize {
    CELL.with(|cell| {
        if cell.get() == NONE {
            cell.set(NEXT_CELL.fetch_add(1, Ordering::Relaxed).min(SHARED));
        }
        cell.get()
    })
}

/// Counts what was allocated, or freed if it is negative, in a slab if it is small.
#[inline]
pub(crate) fn count(bytes: i64, is_small: bool) {
    let index = own_cell();
    let cell = &ALLOCATED[index].0[usize::from(is_small)];
    if index == SHARED {
        cell.fetch_add(bytes, Ordering::Relaxed);
    } else {
        // Only this thread writes it.
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_sees_what_all_have() {
        // Nothing is counted here but what this test counts.
        let (mut gauge, limit) = (Gauge::default(), 1 << 30);
        let before = gauge.bytes(limit);
        count(1 << 20, true);
        assert_eq!(gauge.bytes(limit), before + (1 << 20));
        let other = std::thread::spawn(|| count(5 << 20, true));
        other.join().expect("it only counts");
        // Its own change is small: it has not looked.
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
