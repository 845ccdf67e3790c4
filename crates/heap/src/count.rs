//! Counts the memory that the process has allocated.
//!
//! Each thread counts in a cell of its own with plain loads and stores; threads beyond [`CELLS`] share the last cell. A
//! block may be freed by another thread than the one that allocated it, so a single cell may be negative; only the sum
//! of all cells is meaningful.

use std::cell::Cell as LocalCell;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering, fence};

use crate::exempt::{Exempt, KINDS};

/// Number of cells; the last one is shared by all threads that find no other.
const CELLS: usize = 128;
const SHARED: usize = CELLS - 1;
/// The thread has no cell yet.
const NONE: usize = usize::MAX;

/// The counts of one thread. Each cell has a pair of cache lines to itself.
#[repr(align(128))]
struct Cell {
    /// Bytes allocated: outside slabs, and in slabs.
    allocated: [AtomicI64; 2],
    /// The bytes of these that are exempt from the limit of memory; and how many of each kind.
    exempt: AtomicI64,
    exempt_by_kind: [AtomicI64; KINDS],
    /// Odd while the thread makes a change [at once](at_once). `before_change` is the counted bytes when it
    /// began.
    changes: AtomicU64,
    before_change: AtomicI64,
}

impl Cell {
    const fn new() -> Cell {
        Cell {
            allocated: [const { AtomicI64::new(0) }; 2],
            exempt: AtomicI64::new(0),
            exempt_by_kind: [const { AtomicI64::new(0) }; KINDS],
            changes: AtomicU64::new(0),
            before_change: AtomicI64::new(0),
        }
    }

    fn allocated(&self) -> i64 {
        self.allocated[0].load(Ordering::Relaxed).wrapping_add(self.allocated[1].load(Ordering::Relaxed))
    }

    /// The bytes that count against the limit, as its own thread sees them.
    #[inline]
    fn counted(&self) -> i64 {
        self.allocated().wrapping_sub(self.exempt.load(Ordering::Relaxed))
    }

    /// The bytes that count against the limit, as other threads see them: without a change that is in
    /// progress.
    fn settled(&self) -> i64 {
        loop {
            let changes = self.changes.load(Ordering::Acquire);
            if changes % 2 == 1 {
                return self.before_change.load(Ordering::Relaxed);
            }
            let counted = self.counted();
            // The values read above precede any change, if none has begun by now.
            fence(Ordering::Acquire);
            if self.changes.load(Ordering::Relaxed) == changes {
                return counted;
            }
        }
    }
}

static ALL: [Cell; CELLS] = [const { Cell::new() }; CELLS];
static NEXT_CELL: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CELL: LocalCell<usize> = const { LocalCell::new(NONE) };
}

/// Bytes that the process has allocated and not freed.
pub fn allocated_bytes() -> u64 {
    // While other threads allocate and free, the sum may be slightly off.
    used_cells().iter().map(Cell::allocated).sum::<i64>().max(0) as u64
}

/// The part of [`allocated_bytes`] that counts against the limit of memory: all that is not [exempt](crate::Exempt).
pub fn counted_bytes() -> u64 {
    counted().max(0) as u64
}

/// The part of [`allocated_bytes`] that lies in slabs.
pub(crate) fn small_bytes() -> u64 {
    let small = used_cells().iter().map(|cell| cell.allocated[1].load(Ordering::Relaxed));
    small.sum::<i64>().max(0) as u64
}

fn used_cells() -> &'static [Cell] {
    match NEXT_CELL.load(Ordering::Relaxed) {
        SHARED.. => &ALL,
        used => &ALL[..used],
    }
}

/// The bytes of all threads that count against the limit; below 0 if more is exempt than allocated at the moment.
pub(crate) fn counted() -> i64 {
    used_cells().iter().map(Cell::settled).sum()
}

/// Ends a change.
struct Change(&'static Cell);

impl Change {
    /// Begins a change of this thread, unless one is being made or others count in the same cell.
    fn begin() -> Option<Change> {
        let index = own_cell();
        let cell = &ALL[index];
        let changes = cell.changes.load(Ordering::Relaxed);
        if index == SHARED || changes % 2 == 1 {
            return None;
        }
        cell.before_change.store(cell.counted(), Ordering::Relaxed);
        cell.changes.store(changes + 1, Ordering::Release);
        // A thread that sees counts written from now on also sees that they are part of a change.
        fence(Ordering::Release);
        Some(Change(cell))
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        let changes = self.0.changes.load(Ordering::Relaxed);
        self.0.changes.store(changes + 1, Ordering::Release);
    }
}

/// Runs `work`, and makes its allocations, frees and exemptions count in one step when it is done. So memory
/// that is about to be exempt never counts, even if the thread waits long for a core meanwhile. (For threads
/// that share a cell, the change is not one step.)
pub fn at_once<R>(work: impl FnOnce() -> R) -> R {
    let _change = Change::begin();
    work()
}

/// The bytes of this kind that are exempt.
pub(crate) fn exempt_of(kind: Exempt) -> i64 {
    used_cells().iter().map(|cell| cell.exempt_by_kind[kind as usize].load(Ordering::Relaxed)).sum()
}

/// The bytes of this thread that count; `None` if it shares its cell, so that this is not known.
pub(crate) fn own_counted() -> Option<i64> {
    let index = own_cell();
    (index != SHARED).then(|| ALL[index].counted())
}

/// A cheap view of the bytes of all threads that count against the limit, for one thread. Its own part is exact; the other threads' part
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
    /// Bytes that count. Reads all cells if `limit` differs from that of the last call.
    #[inline]
    pub fn bytes(&mut self, limit: u64) -> u64 {
        let own = ALL[own_cell()].counted();
        if own.wrapping_sub(self.own).unsigned_abs() > STALE_BYTES || limit != self.limit {
            self.limit = limit;
            return self.read();
        }
        self.others.wrapping_add(own).max(0) as u64
    }

    /// Reads all threads' cells.
    pub fn read(&mut self) -> u64 {
        let cell = &ALL[own_cell()];
        self.own = cell.counted();
        self.others = counted() - cell.settled();
        self.others.wrapping_add(self.own).max(0) as u64
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
    add(&ALL[index].allocated[usize::from(is_small)], bytes, index);
}

/// Counts `bytes` as exempt (no longer if negative).
pub(crate) fn exempt(kind: Exempt, bytes: i64) {
    let index = own_cell();
    let cell = &ALL[index];
    add(&cell.exempt_by_kind[kind as usize], bytes, index);
    add(&cell.exempt, bytes, index);
}

/// Adds to a number of this thread's cell.
#[inline]
fn add(number: &AtomicI64, bytes: i64, index: usize) {
    if index == SHARED {
        number.fetch_add(bytes, Ordering::Relaxed);
    } else {
        // Only this thread writes to its cell.
        number.store(number.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
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
