//! Scripts that all threads know, and the slow ones that run just now.
//!
//! A thread compiles a script once and runs it without coming here. The lock is taken when a thread meets a script
//! for the first time, and by `SCRIPT LOAD`, `EXISTS` and `FLUSH`.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use script::ScriptCache;

/// What a thread's script is doing, as far as `SCRIPT KILL` cares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Slow {
    /// None runs, or not for long.
    No,
    /// It runs for longer than `busy-reply-threshold` and has changed nothing.
    Killable,
    /// It runs for longer and has changed data.
    Wrote,
    /// It was told to end.
    Killed,
}

/// Scripts of all threads.
#[derive(Debug, Default)]
pub(crate) struct ScriptStore {
    cache: Mutex<ScriptCache>,
    slow_count: AtomicUsize,
}

impl ScriptStore {
    /// The scripts.
    pub(crate) fn cache(&self) -> MutexGuard<'_, ScriptCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a script runs for longer than `busy-reply-threshold`.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.slow_count.load(Ordering::Relaxed) > 0
    }

    /// A script turned slow, or a slow one ended.
    pub(crate) fn note_slow(&self, slow: bool) {
        if slow {
            self.slow_count.fetch_add(1, Ordering::Relaxed);
        } else {
            self.slow_count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The state of a thread's script, for the other threads.
#[derive(Debug, Default)]
pub(crate) struct SlowScript(AtomicU8);

impl SlowScript {
    pub(crate) fn get(&self) -> Slow {
        match self.0.load(Ordering::Acquire) {
            0 => Slow::No,
            1 => Slow::Killable,
            2 => Slow::Wrote,
            _ => Slow::Killed,
        }
    }

    pub(crate) fn set(&self, slow: Slow) {
        self.0.store(slow as u8, Ordering::Release);
    }

    /// The slow script has changed data: it cannot be killed any more.
    pub(crate) fn note_write(&self) {
        let (from, to) = (Slow::Killable as u8, Slow::Wrote as u8);
        // Failure means that it was told to end before, or is known to have written.
        let _ = self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Tells the script to end, if it is slow and has changed nothing; its state then.
    pub(crate) fn kill(&self) -> Slow {
        let (from, to) = (Slow::Killable as u8, Slow::Killed as u8);
        let _ = self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        self.get()
    }
}
