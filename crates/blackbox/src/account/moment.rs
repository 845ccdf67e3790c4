//! A total order of events on several threads: sending, receiving, writing to the disk.
//!
//! A moment is a unique number of nanoseconds since the timeline began. If one event happened before another,
//! because of a message between them or on one thread, its moment is smaller.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A point of a [`Timeline`], in nanoseconds since it began.
pub type Moment = u64;

/// The source of moments.
#[derive(Debug)]
pub struct Timeline {
    start: Instant,
    last: AtomicU64,
}

impl Timeline {
    /// A timeline that begins now.
    pub fn begin() -> Timeline {
        Timeline { start: Instant::now(), last: AtomicU64::new(0) }
    }

    /// The current moment, which is unique.
    pub fn moment(&self) -> Moment {
        let now = self.start.elapsed().as_nanos() as u64;
        let next = |last: u64| Some(now.max(last + 1));
        let last = self.last.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        now.max(last.expect("there is always a next moment") + 1)
    }
}

/// When a crash happened, and what had to survive it.
#[derive(Clone, Copy, Debug)]
pub struct Crash {
    /// Requests sent after this moment cannot have taken effect.
    pub at: Moment,
    /// Changes acknowledged up to this moment must be there.
    pub promised: Moment,
}

impl Crash {
    /// A crash at `at` of a server that may lose what it acknowledged during the last `tolerance`.
    pub fn new(at: Moment, tolerance: Duration) -> Crash {
        Crash { at, promised: at.saturating_sub(tolerance.as_nanos() as u64) }
    }
}

/// When something was requested, and when the server acknowledged it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Before the first byte was sent.
    pub sent: Moment,
    /// After the last byte of the reply was read.
    pub acked: Option<Moment>,
}

impl Span {
    /// A request sent at this moment, without a reply.
    pub fn from(sent: Moment) -> Span {
        Span { sent, acked: None }
    }

    /// Whether it may have happened.
    pub fn may_be(&self, crash: Crash) -> bool {
        self.sent <= crash.at
    }

    /// Whether it had been acknowledged when the crash happened.
    pub fn was_acked(&self, crash: Crash) -> bool {
        self.acked.is_some_and(|acked| acked <= crash.at)
    }

    /// Whether it must not be lost.
    pub fn must_be(&self, crash: Crash) -> bool {
        self.acked.is_some_and(|acked| acked <= crash.promised)
    }

    /// Whether it was in progress when the crash happened.
    pub fn is_open(&self, crash: Crash) -> bool {
        self.may_be(crash) && !self.was_acked(crash)
    }
}
