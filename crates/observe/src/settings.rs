//! The settings that say what is logged, in a form that costs each command one comparison.
//!
//! A command compares its duration with one number, the lower of both thresholds. Only a command that reaches it checks
//! which of the two applies.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Settings about what is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObserveSettings {
    /// The least duration for the slow log; `None`: it is off.
    pub slow_us: Option<u64>,
    /// The most entries of the slow log.
    pub slow_log_len_max: usize,
    /// The least duration for the latency monitor; `None`: it is off.
    pub latency_threshold_ms: Option<u64>,
    /// Whether calls are counted by duration.
    pub tracks_durations: bool,
}

impl ObserveSettings {
    /// Whether a command of this duration is added to the slow log.
    pub(crate) fn is_slow_command(&self, ns: u64) -> bool {
        self.slow_us.is_some_and(|slow_us| ns >= slow_us.saturating_mul(1000))
    }

    /// Whether an event of this duration is added to the latency monitor.
    pub(crate) fn is_slow_event(&self, ns: u64) -> bool {
        self.latency_threshold_ms.is_some_and(|threshold_ms| ns / 1_000_000 >= threshold_ms)
    }

    /// The least duration for the slow log or the latency monitor.
    fn noteworthy_ns(&self) -> u64 {
        let slow_ns = self.slow_us.map_or(u64::MAX, |us| us.saturating_mul(1000));
        slow_ns.min(self.latency_threshold_ms.map_or(u64::MAX, |ms| ms.saturating_mul(1_000_000)))
    }
}

/// The current settings.
#[derive(Debug)]
pub(crate) struct Current {
    noteworthy_ns: AtomicU64,
    tracks_durations: AtomicBool,
    settings: Mutex<ObserveSettings>,
}

impl Current {
    pub(crate) fn new(settings: ObserveSettings) -> Current {
        Current {
            noteworthy_ns: AtomicU64::new(settings.noteworthy_ns()),
            tracks_durations: AtomicBool::new(settings.tracks_durations),
            settings: Mutex::new(settings),
        }
    }

    /// Replaces the settings by those that `read` returns. `read` is called under a lock, so that changes do not mix.
    pub(crate) fn change(&self, read: impl FnOnce() -> ObserveSettings) {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        *settings = read();
        self.noteworthy_ns.store(settings.noteworthy_ns(), Ordering::Relaxed);
        self.tracks_durations.store(settings.tracks_durations, Ordering::Relaxed);
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
        let settings =
            ObserveSettings { slow_us, slow_log_len_max: 1, latency_threshold_ms, tracks_durations: false };
        let current = Current::new(settings);
        assert_eq!(current.noteworthy_ns(), noteworthy_ns);
        for ns in [0, noteworthy_ns / 2, noteworthy_ns.saturating_sub(1)]
            .into_iter()
            .filter(|ns| *ns < noteworthy_ns)
        {
            assert!(!settings.is_slow_command(ns) && !settings.is_slow_event(ns), "{ns}");
        }
        if noteworthy_ns < u64::MAX {
            assert!(settings.is_slow_command(noteworthy_ns) || settings.is_slow_event(noteworthy_ns));
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
