//! Defines the purposes of a background save, and the state of checkpoints.
//!
//! A checkpoint is written like any snapshot, but under the name of a journal's base. It has its own figures
//! and log lines: `LASTSAVE` and `rdb_*` do not report it, and the changes in it do not count as saved.
//!
//! A snapshot for replicas does not become a file at all (`spool.rs`). As in Redis, `rdb_*` report that it is
//! running and how long it took, but not whether it succeeded, and it does not count as a save.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::snapshots::{Saved, lock};

/// After a failed save, the server waits longer than this many seconds before it saves again without a
/// request.
pub(crate) const RETRY_SECONDS: u64 = 5;

/// Whether the server may save again without a request: the last save has not failed, or began long enough
/// ago.
pub(crate) fn may_try(last_try_seconds: &AtomicU64, last_failed: &AtomicBool, now_seconds: u64) -> bool {
    let since_try = now_seconds.saturating_sub(last_try_seconds.load(Ordering::Relaxed));
    since_try > RETRY_SECONDS || !last_failed.load(Ordering::Relaxed)
}

/// See the head of this file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// The snapshot that users know.
    Snapshot,
    /// The base of a journal.
    Checkpoint,
    /// The snapshot that replicas begin with.
    Replicas,
}

impl Purpose {
    /// The activity, in the words of Redis' log.
    pub fn activity(self) -> &'static str {
        match self {
            Purpose::Snapshot => "saving",
            Purpose::Checkpoint => "append only file rewriting",
            Purpose::Replicas => "RDB transfer",
        }
    }
}

/// The reason why a checkpoint failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoCheckpoint {
    /// A sentence.
    pub why: String,
    /// Whether it did not fail but was cancelled.
    pub is_given_up: bool,
}

/// The state of checkpoints.
#[derive(Debug)]
pub struct Checkpoints {
    /// The number that succeeded.
    pub count: AtomicU64,
    /// The number that failed since the last success.
    pub consecutive_failures: AtomicU64,
    /// Whether the last one failed.
    pub last_failed: AtomicBool,
    /// The beginning of the last one, in seconds since 1970.
    pub last_try_seconds: AtomicU64,
    /// The duration of the last checkpoint. -1 if there was none.
    pub last_took_seconds: AtomicI64,
    /// The largest amount that waited in memory to be written in the last one.
    pub last_peak_bytes: AtomicU64,
    /// The outcome of the last one, until it is taken.
    ended: Mutex<Option<Result<Saved, NoCheckpoint>>>,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Checkpoints {
            count: AtomicU64::new(0),
            consecutive_failures: AtomicU64::new(0),
            last_failed: AtomicBool::new(false),
            last_try_seconds: AtomicU64::new(0),
            last_took_seconds: AtomicI64::new(-1),
            last_peak_bytes: AtomicU64::new(0),
            ended: Mutex::default(),
        }
    }
}

impl Checkpoints {
    /// Takes the outcome of the last one: its files are durable and renamed, or removed. The component that
    /// began it takes it when it is told of the end.
    pub fn take_ended(&self) -> Option<Result<Saved, NoCheckpoint>> {
        lock(&self.ended).take()
    }

    /// Whether another one may begin without a request: the last one did not fail, or began long enough ago.
    pub fn may_try(&self, now_seconds: u64) -> bool {
        may_try(&self.last_try_seconds, &self.last_failed, now_seconds)
    }

    /// Notes that a checkpoint could not begin, or that a later step with its files failed.
    pub fn note_failure(&self, why: &str) {
        tracing::warn!("Background append only file rewriting error: {why}");
        self.last_failed.store(true, Ordering::Relaxed);
        self.consecutive_failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_end(&self, ended: Result<Saved, NoCheckpoint>, took_ms: u64, peak_bytes: u64) {
        match &ended {
            Ok(Saved { bytes, name, .. }) => {
                tracing::info!(
                    "Background append only file rewriting wrote {bytes} bytes to {name}, {took_ms} ms, {peak_bytes} bytes queued at peak"
                );
                self.count.fetch_add(1, Ordering::Relaxed);
                self.last_failed.store(false, Ordering::Relaxed);
                self.consecutive_failures.store(0, Ordering::Relaxed);
            }
            Err(NoCheckpoint { why, is_given_up: true }) => {
                tracing::warn!("Background append only file rewriting cancelled: {why}");
            }
            Err(NoCheckpoint { why, .. }) => self.note_failure(why),
        }
        self.last_took_seconds.store((took_ms / 1000) as i64, Ordering::Relaxed);
        self.last_peak_bytes.store(peak_bytes, Ordering::Relaxed);
        *lock(&self.ended) = Some(ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_that_failed_is_not_tried_again_at_once() {
        let checkpoints = Checkpoints::default();
        checkpoints.last_try_seconds.store(100, Ordering::Relaxed);
        assert!(checkpoints.may_try(100), "it did not fail");
        checkpoints.note_failure("the disk is full");
        assert!(!checkpoints.may_try(100) && !checkpoints.may_try(100 + RETRY_SECONDS));
        assert!(checkpoints.may_try(101 + RETRY_SECONDS));
    }
}
