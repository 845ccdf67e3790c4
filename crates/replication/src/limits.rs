//! The settings that limit how far and how long replicas may lag.

use config::{
    CLUSTER_ETCD, REPL_BACKLOG_SIZE, REPL_DISKLESS_SYNC, REPL_DISKLESS_SYNC_DELAY,
    REPL_DISKLESS_SYNC_MAX_REPLICAS, REPL_TIMEOUT, Settings,
};

/// The class of `client-output-buffer-limit` for replicas.
const REPLICA_CLASS: usize = 1;

/// The longest wait for more replicas in a group.
const GROUP_DELAY_MS: u64 = 100;

/// See the head of this file.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A replica that sends nothing, or takes nothing, for this long is disconnected.
    pub timeout_ms: u64,
    /// A replica that is more bytes behind than this is disconnected.
    pub bytes_max: u64,
    /// A replica that is this many bytes behind for this many milliseconds is disconnected.
    pub soft: Option<(u64, u64)>,
    /// A snapshot waits this long for more replicas.
    pub delay_ms: u64,
    /// It starts at once when this many replicas wait. 0: it always waits.
    pub enough: usize,
}

impl Limits {
    /// The current limits.
    pub fn of(settings: &Settings) -> Limits {
        let unread = settings.output_limit(REPLICA_CLASS);
        let delay_ms = settings.number(REPL_DISKLESS_SYNC_DELAY) as u64 * 1000;
        // Until a group has its nodes in sync, it may be unable to write.
        let delay_ms =
            if settings.text(CLUSTER_ETCD).is_empty() { delay_ms } else { delay_ms.min(GROUP_DELAY_MS) };
        Limits {
            timeout_ms: settings.number(REPL_TIMEOUT) as u64 * 1000,
            // Otherwise a replica that was told to continue within the backlog would be dropped for the part of it that
            // it lacks.
            bytes_max: match unread.hard_bytes {
                0 => u64::MAX,
                hard_bytes => hard_bytes.max(settings.number(REPL_BACKLOG_SIZE) as u64),
            },
            soft: (unread.soft_bytes > 0).then_some((unread.soft_bytes, unread.soft_seconds * 1000)),
            delay_ms: if settings.is_on(REPL_DISKLESS_SYNC) { delay_ms } else { 0 },
            enough: settings.number(REPL_DISKLESS_SYNC_MAX_REPLICAS) as usize,
        }
    }
}
