//! The settings that say what is logged, in a form that costs each command two comparisons.
//!
//! A command compares its duration with one number, the lower of both thresholds for it, and the bytes that its client
//! has not been sent yet with another. Only a command that reaches one of them checks which logs it belongs into. The
//! size of its request is only looked at if its client has just sent that much.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::command_log::LogKind;

/// Settings about a log of commands. By default it is off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogSettings {
    /// The least figure of a command in it: microseconds or bytes; `None`: it is off.
    pub figure_min: Option<u64>,
    /// The most entries.
    pub len_max: usize,
}

impl LogSettings {
    /// Whether a command with this figure is added.
    fn takes(&self, figure: u64) -> bool {
        self.figure_min.is_some_and(|min| figure >= min)
    }
}

/// Settings about what is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObserveSettings {
    /// Those of each log of commands, by [`LogKind`].
    pub logs: [LogSettings; 3],
    /// The least duration for the latency monitor; `None`: it is off.
    pub latency_threshold_ms: Option<u64>,
    /// Whether calls are counted by duration.
    pub tracks_durations: bool,
}

impl ObserveSettings {
    /// Whether a command with this figure is added to the log.
    pub(crate) fn takes(&self, kind: LogKind, figure: u64) -> bool {
        self.logs[kind as usize].takes(figure)
    }

    /// The least duration of a command in the slow log.
    pub(crate) fn slow_us(&self) -> Option<u64> {
        self.logs[LogKind::Slow as usize].figure_min
    }

    /// The most entries of a log.
    pub(crate) fn len_max(&self, kind: LogKind) -> usize {
        self.logs[kind as usize].len_max
    }

    /// Whether an event of this duration is added to the latency monitor.
    pub(crate) fn is_slow_event(&self, ns: u64) -> bool {
        self.latency_threshold_ms.is_some_and(|threshold_ms| ns / 1_000_000 >= threshold_ms)
    }

    /// The least duration for the slow log or the latency monitor.
    fn noteworthy_ns(&self) -> u64 {
        let slow_ns = self.figure_min(LogKind::Slow).saturating_mul(1000);
        slow_ns.min(self.latency_threshold_ms.map_or(u64::MAX, |ms| ms.saturating_mul(1_000_000)))
    }

    /// The least figure of a command in the log; the largest number if the log is off.
    fn figure_min(&self, kind: LogKind) -> u64 {
        self.logs[kind as usize].figure_min.unwrap_or(u64::MAX)
    }
}

/// The current settings.
#[derive(Debug)]
pub(crate) struct Current {
    noteworthy_ns: AtomicU64,
    large_request_bytes: AtomicU64,
    large_reply_bytes: AtomicU64,
    tracks_durations: AtomicBool,
    /// Whether every command is noted, because hot keys are searched for.
    notes_everything: AtomicBool,
    settings: Mutex<ObserveSettings>,
}

impl Current {
    pub(crate) fn new(settings: ObserveSettings) -> Current {
        Current {
            noteworthy_ns: AtomicU64::new(settings.noteworthy_ns()),
            large_request_bytes: AtomicU64::new(settings.figure_min(LogKind::LargeRequest)),
            large_reply_bytes: AtomicU64::new(settings.figure_min(LogKind::LargeReply)),
            tracks_durations: AtomicBool::new(settings.tracks_durations),
            notes_everything: AtomicBool::new(false),
            settings: Mutex::new(settings),
        }
    }

    /// Replaces the settings by those that `read` returns. `read` is called under a lock, so that changes do not mix.
    pub(crate) fn change(&self, read: impl FnOnce() -> ObserveSettings) {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        *settings = read();
        self.set_noteworthy(&settings);
        self.large_request_bytes.store(settings.figure_min(LogKind::LargeRequest), Ordering::Relaxed);
        self.large_reply_bytes.store(settings.figure_min(LogKind::LargeReply), Ordering::Relaxed);
        self.tracks_durations.store(settings.tracks_durations, Ordering::Relaxed);
    }

    /// Lets every command be noted, or no longer.
    pub(crate) fn note_everything(&self, notes: bool) {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        self.notes_everything.store(notes, Ordering::Relaxed);
        self.set_noteworthy(&settings);
    }

    /// Whether every command is noted.
    pub(crate) fn notes_everything(&self) -> bool {
        self.notes_everything.load(Ordering::Relaxed)
    }

    fn set_noteworthy(&self, settings: &ObserveSettings) {
        let ns = if self.notes_everything() { 0 } else { settings.noteworthy_ns() };
        self.noteworthy_ns.store(ns, Ordering::Relaxed);
    }

    /// The least size of a large request.
    #[inline]
    pub(crate) fn large_request_bytes(&self) -> u64 {
        self.large_request_bytes.load(Ordering::Relaxed)
    }

    /// The least size of a large reply.
    #[inline]
    pub(crate) fn large_reply_bytes(&self) -> u64 {
        self.large_reply_bytes.load(Ordering::Relaxed)
    }

    /// All settings. Takes a lock.
    pub(crate) fn all(&self) -> ObserveSettings {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The least duration for the slow log or the latency monitor.
    #[inline]
    pub(crate) fn noteworthy_ns(&self) -> u64 {
        self.noteworthy_ns.load(Ordering::Relaxed)
    }

    /// Whether calls are counted by duration.
    #[inline]
    pub(crate) fn tracks_durations(&self) -> bool {
        self.tracks_durations.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(slow_us: Option<u64>, latency_threshold_ms: Option<u64>, noteworthy_ns: u64) {
        let mut logs = [LogSettings::default(); 3];
        logs[LogKind::Slow as usize] = LogSettings { figure_min: slow_us, len_max: 1 };
        let settings = ObserveSettings { logs, latency_threshold_ms, tracks_durations: false };
        let current = Current::new(settings);
        assert_eq!(current.noteworthy_ns(), noteworthy_ns);
        let is_slow = |ns: u64| settings.takes(LogKind::Slow, ns / 1000);
        for ns in [0, noteworthy_ns / 2, noteworthy_ns.saturating_sub(1)]
            .into_iter()
            .filter(|ns| *ns < noteworthy_ns)
        {
            assert!(!is_slow(ns) && !settings.is_slow_event(ns), "{ns}");
        }
        if noteworthy_ns < u64::MAX {
            assert!(is_slow(noteworthy_ns) || settings.is_slow_event(noteworthy_ns));
        }
    }

    #[test]
    fn what_takes_less_than_both_thresholds_is_not_noted() {
        check(None, None, u64::MAX);
        check(Some(0), None, 0);
        check(Some(10_000), Some(5), 5_000_000);
        check(Some(10_000), Some(50), 10_000_000);
        check(None, Some(1), 1_000_000);
        check(Some(u64::MAX / 10), None, u64::MAX);
    }
}
