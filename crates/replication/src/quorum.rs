//! `min-replicas-to-write` and `repl_sync_replicas`: whether so many replicas follow that commands that write are run.
//!
//! Every such command asks, so the answer is one relaxed load; it is found anew each second and whenever something changes that
//! it depends on.

use std::sync::atomic::{AtomicBool, Ordering};

use command::CommandError;
use settings::{MIN_REPLICAS_MAX_LAG, MIN_REPLICAS_TO_WRITE, REPL_SYNC_REPLICAS, Settings};

use crate::following::Following;
use crate::primary::Primary;

/// What commands that write are answered while too few replicas follow closely.
const NO_REPLICAS: CommandError = CommandError::fixed("NOREPLICAS Not enough good replicas to write.");

/// See the head of this file.
pub struct Quorum {
    is_lacking: AtomicBool,
}

/// How many replicas there are to be, and how many seconds ago at most each acknowledged something; `None`: that is not asked.
fn wanted(settings: &Settings) -> Option<(u64, u64)> {
    let (count, lag) = (settings.number(MIN_REPLICAS_TO_WRITE), settings.number(MIN_REPLICAS_MAX_LAG));
    (count > 0 && lag > 0).then_some((count as u64, lag as u64))
}

impl Quorum {
    /// That of a server without replicas.
    pub fn new(settings: &Settings) -> Quorum {
        Quorum {
            is_lacking: AtomicBool::new(
                wanted(settings).is_some() || settings.number(REPL_SYNC_REPLICAS) > 0,
            ),
        }
    }

    /// How many follow closely, if that is asked.
    pub fn count(settings: &Settings, primary: &Primary, now_ms: u64) -> Option<u64> {
        wanted(settings).map(|(_, lag)| primary.close_count(now_ms, lag) as u64)
    }

    /// Finds out whether there are too few. A server that follows another one asks for none.
    pub fn judge(&self, settings: &Settings, primary: &Primary, following: &Following, now_ms: u64) {
        let lacks = |(count, lag)| (primary.close_count(now_ms, lag) as u64) < count;
        let is_lacking = wanted(settings).is_some_and(lacks)
            || lacks((settings.number(REPL_SYNC_REPLICAS) as u64, u64::MAX));
        self.is_lacking.store(is_lacking && !following.is_replica(), Ordering::Relaxed);
    }

    /// Whether there are too few.
    #[inline]
    pub fn is_lacking(&self) -> bool {
        self.is_lacking.load(Ordering::Relaxed)
    }

    /// What commands that write are answered, if there are too few.
    pub fn error(&self) -> Option<CommandError> {
        self.is_lacking().then_some(NO_REPLICAS)
    }
}
