//! Shares the progress of the journal: numbers that the log thread writes and all threads read.
//!
//! A thread whose replies wait for a slice announces that before it sleeps ([`Progress::awaits`]), and is woken when
//! the slice is durable. The log thread sleeps when it has nothing to do, and a thread that has committed a change
//! wakes it ([`Progress::nudge`]). Both work in the same way: the sleeper announces its sleep and then checks once
//! more. The other side publishes its news and then checks for sleepers. The fences between the two steps keep the
//! sides from missing each other.
//!
//! Not here: the content and the place of the slices.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use effectlog::{AtomicLsn, AtomicStreamPosition, Log, Lsn, StreamPosition};

use crate::pressure::Pressure;
use crate::writer::Policy;

/// The reason why commands that write are refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// They are accepted.
    None,
    /// They are accepted, but a write or a sync takes too long. Health checks report it.
    Stalled,
    /// There is no space on the disk for a segment.
    NoRoom,
    /// A write or a sync has failed. Only a checkpoint into new files ends that.
    Failed,
}

/// A value on a cache line of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct CacheLine<T>(T);

/// Counters of the log thread and the disk thread, which others read at intervals. They have cache lines of their own,
/// because they change with each write and are beside values that all threads read all the time.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct Counts {
    /// Writes of slices.
    pub write_count: AtomicU64,
    /// Their total duration in microseconds.
    pub write_us: AtomicU64,
    /// The longest write since this was last reset, in nanoseconds.
    pub slowest_write_ns: AtomicU64,
    /// The longest sync since this was last reset, in nanoseconds.
    pub slowest_sync_ns: AtomicU64,
    /// The beginning of the write in progress, on the monotonic clock in milliseconds. 0: there is none.
    pub write_since_ms: AtomicU64,
    /// The beginning of the sync in progress, on the monotonic clock in milliseconds. 0: there is none.
    pub sync_since_ms: AtomicU64,
    /// The number of times that commands that write had to wait because a sync took too long.
    pub syncs_delayed: AtomicU64,
    /// The number of times that they had to wait for the journal at all.
    pub writes_delayed: AtomicU64,
    /// The bytes that the log thread has taken out of the log, or is about to take, and has not written.
    pub taken_bytes: AtomicU64,
    /// The position at the end of the stream.
    pub position: AtomicStreamPosition,
}

/// Wakes a thread that waits for something.
pub type Wake = Box<dyn Fn(usize) + Send + Sync>;

/// See the head of this file.
pub struct Progress {
    /// The policy in force, as a number.
    policy: AtomicU8,
    refusal: AtomicU8,
    /// The amount and the age of waiting changes.
    pub pressure: Pressure,
    written: CacheLine<AtomicLsn>,
    durable: CacheLine<AtomicLsn>,
    /// The last slice of the journal that was closed last.
    ended: AtomicLsn,
    /// The last slice that a client waits to be durable, under any policy.
    asked: AtomicLsn,
    /// The last slice that a client waits to be closed.
    hurried: CacheLine<AtomicLsn>,
    /// For each thread, the first slice that it waits for.
    awaited: Box<[CacheLine<AtomicLsn>]>,
    wake: Wake,
    /// Whether the log thread sleeps and must be woken.
    is_asleep: CacheLine<AtomicBool>,
    log_thread: OnceLock<Thread>,
    why: Mutex<String>,
    /// The counters.
    pub counts: Counts,
}

impl Progress {
    /// Creates the progress of a journal that is durable up to `slice`. `wake` wakes one of `threads` threads.
    pub fn new(threads: usize, slice: Lsn, policy: Policy, wake: Wake) -> Progress {
        Progress {
            policy: AtomicU8::new(policy as u8),
            refusal: AtomicU8::new(Refusal::None as u8),
            pressure: Pressure::default(),
            written: CacheLine(AtomicLsn::new(slice)),
            durable: CacheLine(AtomicLsn::new(slice)),
            ended: AtomicLsn::default(),
            asked: AtomicLsn::default(),
            hurried: CacheLine::default(),
            awaited: (0..threads).map(|_| CacheLine::default()).collect(),
            wake,
            is_asleep: CacheLine::default(),
            log_thread: OnceLock::new(),
            why: Mutex::default(),
            counts: Counts::default(),
        }
    }

    /// The policy in force.
    #[inline]
    pub fn policy(&self) -> Policy {
        match self.policy.load(Ordering::Relaxed) {
            0 => Policy::Always,
            1 => Policy::Everysec,
            _ => Policy::No,
        }
    }

    /// Changes the policy. Replies that already wait continue to wait.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.store(policy as u8, Ordering::Relaxed);
    }

    /// The reason why commands that write are refused.
    #[inline]
    pub fn refusal(&self) -> Refusal {
        match self.refusal.load(Ordering::Relaxed) {
            0 => Refusal::None,
            1 => Refusal::Stalled,
            2 => Refusal::NoRoom,
            _ => Refusal::Failed,
        }
    }

    /// Notes that the disk has not answered for this long, so that health checks report it, or is no longer late
    /// (`None`).
    pub fn note_stall(&self, late_ms: Option<u64>) {
        match (self.refusal(), late_ms) {
            (Refusal::None | Refusal::Stalled, Some(late_ms)) => {
                self.set_refusal(Refusal::Stalled, &format!("the disk has not answered for {late_ms} ms"));
            }
            (Refusal::Stalled, None) => self.set_refusal(Refusal::None, ""),
            _ => {}
        }
    }

    /// The age of the write or the sync in progress, if there is one. `now_ms` is on the monotonic clock.
    pub fn waits_for_disk_ms(&self, now_ms: u64) -> u64 {
        let since = [&self.counts.write_since_ms, &self.counts.sync_since_ms]
            .map(|since_ms| since_ms.load(Ordering::Relaxed));
        since
            .into_iter()
            .filter(|since_ms| *since_ms > 0)
            .map(|since_ms| now_ms.saturating_sub(since_ms))
            .max()
            .unwrap_or(0)
    }

    /// The reason for the refusal, in words.
    pub fn why(&self) -> String {
        self.lock_why().clone()
    }

    /// Sets whether commands that write are refused, and why.
    pub fn set_refusal(&self, refusal: Refusal, why: &str) {
        why.clone_into(&mut self.lock_why());
        self.refusal.store(refusal as u8, Ordering::Relaxed);
    }

    fn lock_why(&self) -> MutexGuard<'_, String> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether commands that write must wait, because too much waits to be written, or for too long.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.pressure.is_full()
    }

    /// Makes commands that write wait if a change has waited too long. Each thread calls this before it serves
    /// commands. `now_ms` is on the monotonic clock.
    #[inline]
    pub fn look(&self, now_ms: u64) {
        if self.pressure.is_late(self.policy(), now_ms) && !self.is_full() && !self.is_refused() {
            self.hold_back(now_ms);
        }
    }

    /// Makes commands that write wait if too many bytes wait. A thread that has committed many calls this.
    pub fn look_at_bytes(&self, log: &Log) {
        if !self.is_full() && self.pressure.is_too_much(self.pending_bytes(log)) {
            self.hold_back(0);
        }
    }

    /// Whether commands that write are refused, so that they need not wait.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.refusal(), Refusal::NoRoom | Refusal::Failed)
    }

    #[cold]
    fn hold_back(&self, now_ms: u64) {
        if self.note_full(now_ms) {
            // The log thread lets them continue, perhaps at once: it may just have written what waited.
            self.wake_log_thread();
        }
    }

    /// Makes commands that write wait. Returns false if they already do.
    pub(crate) fn note_full(&self, now_ms: u64) -> bool {
        let is_new = self.pressure.set_full(true);
        if is_new {
            self.counts.writes_delayed.fetch_add(1, Ordering::Relaxed);
            let is_sync_late = self.pressure.is_unsynced_too_long(now_ms);
            self.counts.syncs_delayed.fetch_add(u64::from(is_sync_late), Ordering::Relaxed);
        }
        is_new
    }

    /// The bytes that were committed to `log` and are not written.
    pub fn pending_bytes(&self, log: &Log) -> u64 {
        // The order matters: bytes that have left the log were taken before.
        log.pending_bytes() + self.counts.taken_bytes.load(Ordering::Acquire)
    }

    /// The last slice that was written to the system.
    pub fn written(&self) -> Lsn {
        self.written.0.load(Ordering::Acquire)
    }

    /// Notes that the log thread has written all slices up to this one to the system.
    pub fn note_written(&self, slice: Lsn) {
        assert!(slice >= self.written(), "slice {slice} is written after a later one");
        self.written.0.store(slice, Ordering::Release);
    }

    /// The last slice that survives a power failure, with all before it.
    #[inline]
    pub fn durable(&self) -> Lsn {
        self.durable.0.load(Ordering::Acquire)
    }

    /// Notes that all slices up to this one are durable. Wakes the threads that wait for that.
    pub fn note_durable(&self, slice: Lsn) {
        assert!(slice <= self.written(), "slice {slice} is durable and was never written");
        // Two threads may sync, and the later one may cover less.
        self.durable.0.fetch_max(slice, Ordering::Release);
        fence(Ordering::SeqCst);
        for (thread, awaited) in self.awaited.iter().enumerate() {
            let wanted = awaited.0.load(Ordering::Relaxed);
            if wanted != Lsn::NONE
                && wanted <= slice
                && awaited.0.swap(Lsn::NONE, Ordering::Relaxed) != Lsn::NONE
            {
                (self.wake)(thread);
            }
        }
    }

    /// Asks for a thread to be woken when `slice` is durable. Returns false if it is already.
    pub fn awaits(&self, thread: usize, slice: Lsn) -> bool {
        self.awaited[thread].0.store(slice, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.durable() < slice
    }

    /// Makes this slice, which may be open and empty, be written and synced at once, because a client waits for it.
    pub fn ask_for(&self, slice: Lsn) {
        self.asked.fetch_max(slice, Ordering::Relaxed);
        self.wake_log_thread();
    }

    /// Makes this slice be closed at once rather than at the log thread's next check, because a client waits for it.
    pub fn hurry(&self, slice: Lsn) {
        self.hurried.0.fetch_max(slice, Ordering::Relaxed);
        self.wake_log_thread();
    }

    /// The last slice that must be closed at once.
    pub(crate) fn hurried(&self) -> Lsn {
        self.hurried.0.load(Ordering::Relaxed)
    }

    /// The last slice that a client waits for.
    pub(crate) fn asked(&self) -> Lsn {
        self.asked.load(Ordering::Relaxed)
    }

    /// Whether the journal that ends with `slice` is closed, and neither the log thread nor the disk thread uses its
    /// files any more.
    pub fn has_ended(&self, slice: Lsn) -> bool {
        self.ended.load(Ordering::Acquire) >= slice
    }

    /// Notes that the journal that ends with this slice is closed.
    pub(crate) fn note_ended(&self, slice: Lsn) {
        self.ended.store(slice, Ordering::Release);
    }

    /// Notes that a journal was opened that is durable up to `slice`, whose end has this position in the stream.
    pub fn begin(&self, slice: Lsn, position: StreamPosition) {
        self.written.0.store(slice, Ordering::Release);
        self.durable.0.store(slice, Ordering::Release);
        self.counts.position.store(position, Ordering::Relaxed);
    }

    /// Wakes all threads, because commands may be held back now, or no longer.
    pub fn wake_all(&self) {
        (0..self.awaited.len()).for_each(|thread| (self.wake)(thread));
    }

    /// Makes the calling thread the one that [`nudge`](Self::nudge) wakes.
    pub fn set_log_thread(&self) {
        // A simulation has many log threads on one real thread, none of which sleeps.
        let _ = self.log_thread.set(std::thread::current());
    }

    /// Notes that the calling thread has committed a change that the log thread may not know. `now_ms` reads the
    /// monotonic clock, which is not always needed.
    #[inline]
    pub fn nudge(&self, now_ms: impl FnOnce() -> u64) {
        fence(Ordering::SeqCst);
        self.pressure.note_commit(now_ms);
        if self.is_asleep.0.load(Ordering::Relaxed) {
            self.wake_log_thread();
        }
    }

    /// Wakes the log thread at once, for work that cannot wait for its next check.
    #[cold]
    pub fn wake_log_thread(&self) {
        self.is_asleep.0.store(false, Ordering::Relaxed);
        if let Some(thread) = self.log_thread.get() {
            thread.unpark();
        }
    }

    /// Puts the log thread to sleep until it is nudged, for at most this time, unless `has_work` is true by now.
    pub fn sleep(&self, timeout: Duration, has_work: impl FnOnce() -> bool) {
        if self.fall_asleep(has_work) {
            std::thread::park_timeout(timeout);
        }
        self.is_asleep.0.store(false, Ordering::Relaxed);
    }

    /// Rests for this time, unless the log thread is [hurried](Self::hurry), asked for a slice, or given an order.
    pub(crate) fn rest(&self, time: Duration) {
        if !time.is_zero() {
            std::thread::park_timeout(time);
        }
    }

    /// Announces that the log thread must be woken. Returns false if `has_work` is true by now. The caller that steps
    /// the log thread does the waking.
    pub fn fall_asleep(&self, has_work: impl FnOnce() -> bool) -> bool {
        self.is_asleep.0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        !has_work()
    }

    /// Whether the log thread sleeps and has not been woken.
    pub fn is_asleep(&self) -> bool {
        self.is_asleep.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn threads_are_woken_once_when_what_they_wait_for_is_durable() {
        let woken: Arc<[AtomicUsize; 2]> = Arc::default();
        let bell = Arc::clone(&woken);
        let wake = Box::new(move |thread: usize| {
            bell[thread].fetch_add(1, Ordering::Relaxed);
        });
        let progress = Progress::new(2, Lsn::new(10), Policy::Always, wake);
        assert!(!progress.awaits(0, Lsn::new(10)), "that is durable already");
        assert!(progress.awaits(0, Lsn::new(11)) && progress.awaits(1, Lsn::new(13)));
        let counts = || [0, 1].map(|thread: usize| woken[thread].load(Ordering::Relaxed));
        progress.note_written(Lsn::new(12));
        assert_eq!(counts(), [0, 0], "what is written is not durable");
        progress.note_durable(Lsn::new(12));
        assert_eq!((counts(), progress.durable()), ([1, 0], Lsn::new(12)));
        progress.note_written(Lsn::new(13));
        progress.note_durable(Lsn::new(13));
        progress.note_durable(Lsn::new(13));
        assert_eq!(counts(), [1, 1]);
    }

    #[test]
    #[should_panic(expected = "never written")]
    fn nothing_is_durable_that_was_not_written() {
        Progress::new(1, Lsn::new(3), Policy::Always, Box::new(|_| {})).note_durable(Lsn::new(4));
    }
}
