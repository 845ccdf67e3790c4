//! What waits for the log thread, and what it keeps for replicas, does not count against `maxmemory` at any moment: not
//! even between being allocated and being exempt, where a thread may lose its core. The counts are the process', so this
//! file has only this test.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use effectlog::{Backlog, Collector, Log, Lsn, Stamp};
use heap::{Exempt, counted_bytes, exempt_bytes};
use journal::{DiskThread, Intake, LogThread, OnFailure, Order, Policy, Progress, Step};
use proactor::Clock;

#[global_allocator]
static WATCHING: Watching = Watching;
static HEAP: heap::Allocator = heap::Allocator;

/// The most that ever counted.
static MOST: AtomicU64 = AtomicU64::new(0);

/// The heap; looks after each large allocation how much counts.
struct Watching;

impl Watching {
    fn look(&self, block: *mut u8, bytes: usize) -> *mut u8 {
        if bytes >= SLACK_BYTES as usize / 4 {
            MOST.fetch_max(counted_bytes(), Ordering::Relaxed);
        }
        block
    }
}

// SAFETY: all calls go to the heap.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees it.
        self.look(unsafe { HEAP.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees it.
        self.look(unsafe { HEAP.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees it.
        unsafe { HEAP.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller guarantees it.
        self.look(unsafe { HEAP.realloc(block, layout, bytes) }, bytes)
    }
}

const RECORDS: usize = 64;
const RECORD_BYTES: usize = 1 << 20;
/// What may count: queues of small things.
const SLACK_BYTES: u64 = 256 << 10;

fn settle(thread: &mut LogThread) {
    while !matches!(thread.step(), Step::Waits(_)) {}
}

#[test]
fn what_waits_for_the_log_thread_or_for_replicas_does_not_count() {
    heap::own();
    let (log, mut recorders, ends) = Log::new(1, Box::new(|| 0));
    let progress = Arc::new(Progress::new(1, Lsn::NONE, Policy::Everysec, Box::new(|_| {})));
    let backlog = Arc::new(Backlog::new(1, Box::new(|_| {})));
    backlog.set_limits(1 << 20, 1 << 30);
    let (clock, on_failure): (Clock, OnFailure) = (Clock::real(), Arc::new(|_| {}));
    let (disk, _disk_thread) = DiskThread::new(&progress, &clock, Arc::clone(&on_failure));
    let (orders, obeyed) = channel();
    let collector = Collector::new(&log, ends);
    let intake = Intake::new((&log, collector, &backlog), &progress, obeyed);
    let mut thread = LogThread::new((&log, &intake), &progress, &clock, disk, on_failure);
    let last = log.turn_on(log.slice().next());
    orders.send(Order::Stream(last, true)).expect("it takes orders");
    settle(&mut thread);
    let value = vec![b'x'; RECORD_BYTES];
    let before = counted_bytes();
    MOST.store(before, Ordering::Relaxed);
    let is_uncounted = || MOST.load(Ordering::Relaxed).max(counted_bytes()) < before + SLACK_BYTES;
    let waiting = |kind| exempt_bytes(kind) as usize / RECORD_BYTES;

    let held = backlog.hold();
    let mut commit = |count: usize| {
        for _ in 0..count {
            recorders[0].push(0, &[b"SET", b"key", &value]);
            recorders[0].commit(Stamp::NONE).expect("it is on");
        }
    };
    commit(RECORDS);
    assert_eq!(waiting(Exempt::Journal), RECORDS, "the log thread has no core");
    assert!(is_uncounted(), "{MOST:?}, {before} before");
    settle(&mut thread);
    assert_eq!(waiting(Exempt::Stream), RECORDS, "a replica has stopped");
    assert!(is_uncounted(), "{MOST:?}, {before} before");
    drop(held);
    commit(1);
    settle(&mut thread);
    assert!(waiting(Exempt::Stream) <= 3 && is_uncounted(), "it is trimmed");
    drop((thread, intake, backlog));
    assert!(exempt_bytes(Exempt::Stream) == 0 && exempt_bytes(Exempt::Journal) == 0 && is_uncounted());
}
