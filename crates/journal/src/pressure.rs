//! Applies back-pressure: decides from the time and the amount of waiting changes whether commands that write must
//! wait.
//!
//! ```text
//!   a thread commits ──▶ the log thread takes it ──▶ it is written ──▶ it is synced (everysec)
//!         └───── since.committed ──┴── since.taken ──┘└ since.written ┴ since.syncing ┘
//!         lost by kill -9                              lost by a power failure
//! ```
//!
//! For each of these steps, there is the commit time of the oldest change in it. Each thread that commits checks these
//! times before it serves further commands. It checks the number of bytes whenever it has added many. The log thread
//! may be in a hanging write, or without a core, so it cannot limit what it does not see. It does let the commands
//! continue, because it knows best when nothing waits any more.
//!
//! Two fences keep a change from waiting unnoticed. A thread commits, executes its fence, and then checks whether a
//! time is set. The log thread removes the time, executes its fence, and then checks for changes.
//!
//! Not here: waking threads (`progress.rs`), and the wait of a command.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use crate::writer::Policy;

/// With `everysec`, the longest time from a commit to the sync. A power failure may take two seconds; the difference is
/// for the turns and replies in progress when this time is over.
const UNSYNCED_MS_MAX: u64 = 1950;

/// Times on the monotonic clock in milliseconds. 0: nothing waits. They have cache lines of their own, because they
/// change with each write of the log.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Since {
    committed: AtomicU64,
    taken: AtomicU64,
    written: AtomicU64,
    syncing: AtomicU64,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Pressure {
    bytes_max: AtomicU64,
    age_ms_max: AtomicU64,
    /// Whether a journal is open, so that a waiting change may be lost.
    is_open: AtomicBool,
    /// Whether too much waits, or for too long, so that commands that write must wait.
    is_full: AtomicBool,
    since: Since,
}

impl Default for Pressure {
    /// Creates the state without limits.
    fn default() -> Pressure {
        Pressure {
            bytes_max: AtomicU64::new(u64::MAX),
            age_ms_max: AtomicU64::new(u64::MAX),
            is_open: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            since: Since::default(),
        }
    }
}

/// Sets a time that is not set.
#[inline]
fn begin(since_ms: &AtomicU64, now_ms: impl FnOnce() -> u64) {
    if since_ms.load(Ordering::Relaxed) == 0 {
        since_ms.store(now_ms().max(1), Ordering::Relaxed);
    }
}

/// Moves the changes that waited in one step to the next one.
fn pass(from: &AtomicU64, to: &AtomicU64) {
    let since_ms = from.swap(0, Ordering::Relaxed);
    if since_ms > 0 {
        begin(to, || since_ms);
    }
}

/// The age of the older of two times.
fn age_ms(first: &AtomicU64, second: &AtomicU64, now_ms: u64) -> u64 {
    let age_ms = |since_ms: &AtomicU64| match since_ms.load(Ordering::Relaxed) {
        0 => 0,
        since_ms => now_ms.saturating_sub(since_ms),
    };
    age_ms(first).max(age_ms(second))
}

impl Pressure {
    /// Sets the limits. Commands that write wait while more bytes than this wait to be written, or (with `everysec` and
    /// `no`) while any wait for longer than this. 0 milliseconds: no limit of time.
    pub fn set_limits(&self, bytes_max: u64, age_ms_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        let age_ms_max = if age_ms_max == 0 { u64::MAX } else { age_ms_max };
        self.age_ms_max.store(age_ms_max, Ordering::Relaxed);
    }

    /// Whether commands that write must wait.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Sets whether commands that write must wait. Returns true if that has changed.
    pub(crate) fn set_full(&self, is_full: bool) -> bool {
        self.is_full.swap(is_full, Ordering::Relaxed) != is_full
    }

    /// Whether this many bytes are too many to wait. Once they were too many, the limit for the end is lower, so that
    /// the answer does not change with every byte.
    pub(crate) fn is_too_much(&self, pending_bytes: u64) -> bool {
        let max = self.bytes_max.load(Ordering::Relaxed);
        pending_bytes > if self.is_full() { max / 2 } else { max }
    }

    /// Whether a change has waited too long for what `policy` promises. With `always`, replies wait anyway.
    #[inline]
    pub(crate) fn is_late(&self, policy: Policy, now_ms: u64) -> bool {
        let Since { committed, taken, .. } = &self.since;
        policy != Policy::Always
            && (age_ms(committed, taken, now_ms) > self.age_ms_max.load(Ordering::Relaxed)
                || self.is_unsynced_too_long(now_ms))
    }

    /// Whether a written change has waited too long for a sync.
    pub(crate) fn is_unsynced_too_long(&self, now_ms: u64) -> bool {
        age_ms(&self.since.written, &self.since.syncing, now_ms) > UNSYNCED_MS_MAX
    }

    /// Notes that the calling thread has committed a change and executed a fence.
    #[inline]
    pub(crate) fn note_commit(&self, now_ms: impl FnOnce() -> u64) {
        if self.is_open.load(Ordering::Relaxed) {
            begin(&self.since.committed, now_ms);
        }
    }

    /// Notes that the log thread is about to take what is committed.
    pub(crate) fn take(&self) {
        pass(&self.since.committed, &self.since.taken);
        fence(Ordering::SeqCst);
    }

    /// Notes that the taken changes are written, or that there were none.
    pub(crate) fn end_write(&self) {
        self.since.taken.store(0, Ordering::Relaxed);
    }

    /// Notes that the log thread has written what it took, and that a sync makes that durable. The log thread reported
    /// the write before. `now_ms` is when it took changes that were not noted yet, because the turn that committed them
    /// was not over.
    pub(crate) fn note_unsynced(&self, now_ms: u64) {
        fence(Ordering::SeqCst);
        let since_ms = self.since.taken.swap(0, Ordering::Relaxed);
        begin(&self.since.written, || if since_ms > 0 { since_ms } else { now_ms });
    }

    /// Notes that the disk thread begins to sync what is written.
    pub(crate) fn begin_sync(&self) {
        pass(&self.since.written, &self.since.syncing);
        fence(Ordering::SeqCst);
    }

    /// Notes that what was written by then is synced.
    pub(crate) fn end_sync(&self) {
        self.since.syncing.store(0, Ordering::Relaxed);
    }

    /// Notes whether a journal is open. Nothing waits.
    pub(crate) fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Relaxed);
        let Since { committed, taken, written, syncing } = &self.since;
        for since_ms in [committed, taken, written, syncing] {
            since_ms.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_too_long_is_late_until_it_is_written() {
        let pressure = Pressure::default();
        pressure.set_limits(1000, 100);
        let is_late = |policy, now_ms| pressure.is_late(policy, now_ms);
        pressure.note_commit(|| 5);
        assert!(!is_late(Policy::No, 500), "no journal is open");
        pressure.set_open(true);
        pressure.note_commit(|| 1000);
        pressure.note_commit(|| 1080);
        assert!(!is_late(Policy::No, 1100) && is_late(Policy::No, 1101), "the oldest counts");
        assert!(!is_late(Policy::Always, 1101), "its reply waits");
        pressure.take();
        assert!(is_late(Policy::No, 1101), "it is not written yet");
        pressure.note_commit(|| 1090);
        pressure.end_write();
        assert!(!is_late(Policy::No, 1190) && is_late(Policy::No, 1191), "the later one");
        pressure.set_limits(1000, 0);
        assert!(!is_late(Policy::No, 100_000), "there is no limit");
    }

    #[test]
    fn what_is_not_synced_in_time_is_late() {
        let pressure = Pressure::default();
        pressure.set_limits(1000, 100);
        pressure.set_open(true);
        let is_late = |now_ms| pressure.is_late(Policy::Everysec, now_ms);
        let write = |commit_ms| {
            pressure.note_commit(|| commit_ms);
            pressure.take();
            pressure.note_unsynced(commit_ms + 5);
        };
        write(10);
        assert!(!is_late(10 + UNSYNCED_MS_MAX) && is_late(11 + UNSYNCED_MS_MAX));
        pressure.begin_sync();
        // That sync does not cover it.
        write(30);
        assert!(is_late(11 + UNSYNCED_MS_MAX), "the sync is not over");
        pressure.end_sync();
        assert!(!is_late(30 + UNSYNCED_MS_MAX) && is_late(31 + UNSYNCED_MS_MAX));
        pressure.begin_sync();
        pressure.end_sync();
        assert!(!is_late(100_000));
        // It is written before the turn that committed it is over.
        pressure.take();
        pressure.note_unsynced(100_000);
        assert!(is_late(100_001 + UNSYNCED_MS_MAX));
    }

    #[test]
    fn too_many_bytes_wait_until_half_of_them_are_written() {
        let pressure = Pressure::default();
        pressure.set_limits(1000, 100);
        assert!(!pressure.is_too_much(1000) && pressure.is_too_much(1001));
        assert!(pressure.set_full(true) && !pressure.set_full(true));
        assert!(pressure.is_too_much(501) && !pressure.is_too_much(500));
    }
}
