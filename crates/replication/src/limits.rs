//! The settings that say how long replicas are tolerated.

use settings::{
    REPL_BACKLOG_SIZE, REPL_DISKLESS_SYNC, REPL_DISKLESS_SYNC_DELAY, REPL_DISKLESS_SYNC_MAX_REPLICAS,
    REPL_TIMEOUT, Settings,
};

/// The class of `client-output-buffer-limit` that is about replicas.
const REPLICA_CLASS: usize = 1;

/// See the head of this file.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A replica that says nothing, or takes nothing, for so long is given up.
    pub timeout_ms: u64,
    /// One that is behind by more bytes is given up.
    pub bytes_max: u64,
    /// One that is behind by so many bytes for so many milliseconds is given up.
    pub soft: Option<(u64, u64)>,
    /// A snapshot waits so long for replicas that may come, and no longer when there are so many; 0: however many there are.
    pub delay_ms: u64,
    /// See there.
    pub enough: usize,
}

impl Limits {
    /// As they are now.
    pub fn of(settings: &Settings) -> Limits {
        let unread = settings.output_limit(REPLICA_CLASS);
        let delay_seconds = settings.number(REPL_DISKLESS_SYNC_DELAY) as u64;
        Limits {
            timeout_ms: settings.number(REPL_TIMEOUT) as u64 * 1000,
            // Or who was told to go on within the backlog would be given up for what it lacks of it.
            bytes_max: match unread.hard_bytes {
                0 => u64::MAX,
                hard_bytes => hard_bytes.max(settings.number(REPL_BACKLOG_SIZE) as u64),
            },
            soft: (unread.soft_bytes > 0).then_some((unread.soft_bytes, unread.soft_seconds * 1000)),
            delay_ms: if settings.is_on(REPL_DISKLESS_SYNC) { delay_seconds * 1000 } else { 0 },
            enough: settings.number(REPL_DISKLESS_SYNC_MAX_REPLICAS) as usize,
        }
    }
}
