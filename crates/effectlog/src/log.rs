//! The log of all threads: receives records, and gives each its place in one order.
//!
//! The order is by the number of the slice, then by stamp, which is max(ticks, the thread's last + 1, last of
//! every entered shard + 1). The commit reads the number and makes the stamp while it holds the changed
//! shards:
//!
//! ```text
//!   a thread commits                              the collector closes a slice
//!   1 busy = true; fence        own line          1 slice = old + 1, unless a cut has ended it; fence
//!   2 read slice                mostly read       2 each thread: wait while it is busy (Acquire)
//!   3 send the record                             3 each thread: take its records up to `old`
//!   4 busy = false (Release)                      4 merge them by stamp, then by thread
//! ```
//!
//! * All fences have one order, so there are two cases for a commit and a close. If the commit's fence comes
//!   first, the collector sees that the thread is busy, or that it no longer is, and then also sees the
//!   record. If the collector's fence comes first, the commit reads a number that is at least the one that
//!   the collector saw. So slice `old` is complete in both cases. It does not matter which thread wrote that
//!   number: a slice that a [cut](Log::cut) has ended needs the same fence, between seeing that it has ended
//!   and looking at the threads.
//! * If two records met in a shard, the later one reads a slice number at least as large and takes a larger
//!   stamp. That also holds if the earlier one only read there. So the order is one in which the transactions
//!   could have run.
//! * Between slices the order is that of real time. Inside a slice ticks give it as far as the counters of
//!   the cores agree.
//!
//! No line is written by two threads in turn: a thread writes its own, the collector writes the number, which is mostly read.
//!
//! A commit never waits, see `lane.rs`. No step from 1 to 4 can panic, so a thread does not stay busy.
//!
//! A thread that commits much calls a [watch](Log::set_watch), which can stop further commits for a while.
//!
//! Not here: how slices are made of records (`collector.rs`), and how much may wait (`journal`'s `pressure.rs`).

use std::sync::OnceLock;

use crate::boundary::{Boundaries, Boundary, Cut};
use crate::lane::{LaneEnd, LaneStart, lane};
use crate::line::CacheLine;
use crate::mutant::{Mistake, Mutant};
use crate::places::{AtomicLsn, Lsn, Stamp};
use crate::record::Record;
use crate::recorder::{RecordPlace, Recorder, Sink, Switch};
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering, fence};

/// How often the collector checks a committing thread before it gives up for now: for some hundred nanoseconds, which
/// is longer than a commit takes.
const SPINS_MAX: u32 = if cfg!(loom) { 1 } else { 64 };

/// A thread calls the [watch](Log::set_watch) each time it has committed this much.
const WATCH_BYTES: u64 = 256 * 1024;

/// A counter that advances with real time.
pub type Ticks = Box<dyn Fn() -> u64 + Send + Sync>;

/// Checks whether too much waits for the collector.
pub type Watch = Box<dyn Fn(&Log) + Send + Sync>;

/// State that a thread and the collector share beside the records.
#[derive(Debug, Default)]
pub(crate) struct Account {
    thread: CacheLine<ThreadSide>,
    /// How many bytes of records are in slices. Written by the collector.
    merged_bytes: CacheLine<AtomicU64>,
}

/// The part that the thread writes.
#[derive(Debug, Default)]
struct ThreadSide {
    /// The thread is committing, and may have read the number of a slice that is being closed.
    busy: AtomicBool,
    /// How many bytes of records the thread has sent.
    sent_bytes: AtomicU64,
}

/// See the head of this file.
pub struct Log {
    /// The number of the open slice.
    slice: CacheLine<AtomicLsn>,
    /// Whether the records have readers. This and the next two change only while one thread holds all shards.
    is_on: AtomicBool,
    /// The log holds copies of another stream, and not the effects of this server's threads.
    copies: AtomicBool,
    /// Whether effects of threads are recorded: the log is on, and does not hold copies.
    records: Switch,
    boundaries: Boundaries,
    accounts: Box<[Account]>,
    ticks: Ticks,
    watch: OnceLock<Watch>,
    mistake: Mistake,
}

/// The sink of a thread's recorder.
struct Track {
    log: Arc<Log>,
    thread: usize,
    last_stamp: Stamp,
    /// The watch is called when this many bytes were sent.
    watch_at_bytes: u64,
    lane: LaneStart,
}

impl Log {
    /// Creates a log for `threads` threads, which is off; a recorder for each thread; and the ends for a
    /// [`Collector`](crate::Collector). `ticks` advances with real time, as far as processor cores agree on
    /// it.
    pub fn new(threads: usize, ticks: Ticks) -> (Arc<Log>, Vec<Recorder>, LaneEnds) {
        Log::with_mistake(threads, ticks, Mistake::default())
    }

    /// Creates a log like [`new`](Log::new), with a deliberate mistake.
    #[cfg(loom)]
    pub fn with_mutant(
        threads: usize,
        ticks: Ticks,
        mutant: Option<Mutant>,
    ) -> (Arc<Log>, Vec<Recorder>, LaneEnds) {
        Log::with_mistake(threads, ticks, Mistake(mutant))
    }

    fn with_mistake(threads: usize, ticks: Ticks, mistake: Mistake) -> (Arc<Log>, Vec<Recorder>, LaneEnds) {
        let log = Arc::new(Log {
            slice: CacheLine::default(),
            is_on: AtomicBool::new(false),
            copies: AtomicBool::new(false),
            records: Switch::default(),
            boundaries: Boundaries::default(),
            accounts: (0..threads).map(|_| Account::default()).collect(),
            ticks,
            watch: OnceLock::new(),
            mistake,
        });
        let (mut recorders, mut ends) = (Vec::new(), Vec::new());
        for thread in 0..threads {
            let (start, end) = lane();
            let track = Track {
                log: Arc::clone(&log),
                thread,
                last_stamp: Stamp::NONE,
                watch_at_bytes: WATCH_BYTES,
                lane: start,
            };
            recorders.push(Recorder::with_switch(Box::new(track), Arc::clone(&log.records)));
            ends.push(end);
        }
        (log, recorders, LaneEnds(ends))
    }

    /// From now on each thread calls `watch` now and then after a commit. It commits enough bytes between two
    /// calls that they cost nothing, but so few that all threads together exceed the amount that may wait
    /// only by little.
    ///
    /// # Panics
    /// If there is a watch already.
    pub fn set_watch(&self, watch: Watch) {
        assert!(self.watch.set(watch).is_ok(), "there is one watch");
    }

    /// Records commits from now on, in slices from `first` on. The caller holds all shards. Returns the number of the
    /// slice that was open: earlier commits are in it or in earlier ones. The collector closes that slice, and no
    /// further one before it [begins](crate::Collector::begin) with `first`.
    ///
    /// # Panics
    /// If slice `first` was open before.
    pub fn turn_on(&self, first: Lsn) -> Lsn {
        let last = self.boundaries.turn_on(first, || {
            let open = self.slice.0.swap(first, Ordering::SeqCst);
            assert!(open < first, "slice {first} was before");
            open
        });
        self.is_on.store(true, Ordering::Release);
        self.note_recorded();
        last
    }

    /// Stops recording. The caller holds all shards. Returns the number of the last slice, which ends as with a
    /// [`cut`](Self::cut).
    pub fn turn_off(&self) -> Lsn {
        self.is_on.store(false, Ordering::Release);
        self.note_recorded();
        self.cut().slice()
    }

    /// From now on holds only [copies](Recorder::push_copy) of another stream, or only effects of threads. The caller
    /// holds all shards. If the log is on, this makes a [`cut`](Self::cut) and returns it.
    pub fn set_copying(&self, copies: bool) -> Option<Cut> {
        self.copies.store(copies, Ordering::Release);
        self.note_recorded();
        self.is_on().then(|| self.cut())
    }

    fn note_recorded(&self) {
        self.records.0.store(self.is_on() && !self.copies.load(Ordering::Relaxed), Ordering::Release);
    }

    /// Whether the records have readers.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// The number of the open slice.
    pub fn slice(&self) -> Lsn {
        self.slice.0.load(Ordering::Relaxed)
    }

    /// Ends the open slice. The caller holds all shards, so no thread is committing. Further cuts may be made before
    /// the collector has closed this slice.
    pub fn cut(&self) -> Cut {
        self.boundaries.cut(|| self.slice.0.fetch_next(Ordering::SeqCst))
    }

    /// Whether records were sent that are in no slice yet.
    pub fn has_pending(&self) -> bool {
        self.accounts.iter().any(|account| account.pending_bytes() > 0)
    }

    /// How many bytes of records were ever sent.
    pub fn sent_bytes(&self) -> u64 {
        self.accounts.iter().map(|account| account.thread.0.sent_bytes.load(Ordering::Acquire)).sum()
    }

    /// How many bytes of records were sent and are in no slice yet.
    pub fn pending_bytes(&self) -> u64 {
        self.accounts.iter().map(Account::pending_bytes).sum()
    }

    /// Takes out the boundary after `slice`, which has ended, unless the collector ended it.
    pub(crate) fn take_boundary(&self, slice: Lsn) -> Option<Boundary> {
        self.boundaries.take(slice)
    }

    /// Ends slice `open`, unless it has already ended.
    pub(crate) fn end(&self, open: Lsn) {
        self.slice.0.end(open, Ordering::SeqCst);
        if self.mistake.is(Mutant::NoFenceAfterCut) {
            fence(Ordering::SeqCst);
        }
    }

    /// Whether a slice that has ended is complete: all its records were sent and will be received. If not, a thread is
    /// committing now. These are steps 1 and 2 of closing, see the head of this file.
    pub(crate) fn is_complete(&self) -> bool {
        if !self.mistake.is(Mutant::NoFenceAtClose) && !self.mistake.is(Mutant::NoFenceAfterCut) {
            fence(Ordering::SeqCst);
        }
        let is_busy =
            |account: &Account| (0..SPINS_MAX).all(|_| account.thread.0.busy.load(Ordering::Acquire));
        !self.accounts.iter().any(is_busy)
    }

    /// Records that the collector has put `bytes` more bytes of `thread` into a slice.
    pub(crate) fn note_merged(&self, thread: usize, bytes: u64) {
        let merged = &self.accounts[thread].merged_bytes.0;
        merged.store(merged.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }
}

impl Account {
    fn pending_bytes(&self) -> u64 {
        // In this order: merged bytes were sent before.
        let merged = self.merged_bytes.0.load(Ordering::Acquire);
        self.thread.0.sent_bytes.load(Ordering::Acquire).saturating_sub(merged)
    }
}

/// The collector's ends of all lanes, by thread.
pub struct LaneEnds(pub(crate) Vec<LaneEnd>);

impl Track {
    #[cold]
    fn call_watch(&mut self, sent_bytes: u64) {
        self.watch_at_bytes = sent_bytes + WATCH_BYTES;
        if let Some(watch) = self.log.watch.get() {
            watch(&self.log);
        }
    }
}

impl Sink for Track {
    fn publish(&mut self, record: &mut Record, after: Stamp) -> RecordPlace {
        let Track { log, thread, .. } = self;
        let (ThreadSide { busy, sent_bytes }, mistake) = (&log.accounts[*thread].thread.0, &log.mistake);
        let met = if mistake.is(Mutant::StampOfItsOwn) { Stamp::NONE } else { after.next() };
        let stamp = Stamp::new((log.ticks)()).max(self.last_stamp.next()).max(met);
        self.last_stamp = stamp;
        let sent = sent_bytes.load(Ordering::Relaxed) + record.byte_count() as u64;
        if !mistake.is(Mutant::NotBusy) {
            busy.store(true, Ordering::Relaxed);
        }
        if !mistake.is(Mutant::NoFenceAtCommit) {
            fence(Ordering::SeqCst);
        }
        let place = RecordPlace { slice: log.slice.0.load(Ordering::Relaxed), stamp };
        // While busy: a collector that sees pending bytes and no busy thread has the record.
        sent_bytes.store(sent, Ordering::Relaxed);
        if mistake.is(Mutant::SentTooLate) {
            busy.store(false, Ordering::Release);
        }
        self.lane.send(place, record);
        busy.store(false, Ordering::Release);
        if sent >= self.watch_at_bytes {
            self.call_watch(sent);
        }
        place
    }

    fn rest(&mut self) {
        self.lane.rest();
    }
}
