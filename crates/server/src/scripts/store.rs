//! Scripts that all threads know, and the slow ones that run just now.
//!
//! A thread compiles a script once and runs it without coming here. The lock is taken when a thread meets a script
//! for the first time, and by `SCRIPT LOAD`, `EXISTS` and `FLUSH`.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use script::ScriptCache;

use crate::scripts::roamed::Roamed;

/// What a thread's script or function is doing, as far as `SCRIPT KILL` and `FUNCTION KILL` care.
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

/// What is slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SlowKind {
    /// A script of `EVAL` and its like.
    Script,
    /// A function.
    Function,
}

/// Scripts of all threads.
#[derive(Debug, Default)]
pub(crate) struct ScriptStore {
    cache: Mutex<ScriptCache>,
    /// What was seen to touch keys that it does not declare.
    pub(crate) roamed: Roamed,
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

/// A slow script or function: how it was called, and when, on the monotonic clock.
#[derive(Clone, Debug)]
pub(crate) struct SlowCall {
    pub(crate) kind: SlowKind,
    /// Of a function.
    pub(crate) name: Vec<u8>,
    pub(crate) request: Vec<Box<[u8]>>,
    pub(crate) started_ms: u64,
}

/// The state of a thread's script, for the other threads.
#[derive(Debug, Default)]
pub(crate) struct SlowScript {
    state: AtomicU8,
    /// Whether any runs, slow or not.
    is_running: AtomicBool,
    /// What it is, as long as it is slow.
    call: Mutex<Option<SlowCall>>,
}

impl SlowScript {
    pub(crate) fn get(&self) -> Slow {
        match self.state.load(Ordering::Acquire) {
            0 => Slow::No,
            1 => Slow::Killable,
            2 => Slow::Wrote,
            _ => Slow::Killed,
        }
    }

    /// A script begins or ends.
    pub(crate) fn note_running(&self, is_running: bool) {
        self.is_running.store(is_running, Ordering::Relaxed);
    }

    /// Whether a script runs, slow or not.
    pub(crate) fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Relaxed)
    }

    /// The script has turned slow; `wrote`: after it changed data.
    pub(crate) fn begin(&self, call: SlowCall, wrote: bool) {
        *self.lock_call() = Some(call);
        let state = if wrote { Slow::Wrote } else { Slow::Killable };
        self.state.store(state as u8, Ordering::Release);
    }

    /// The slow script has ended.
    pub(crate) fn end(&self) {
        self.state.store(Slow::No as u8, Ordering::Release);
        *self.lock_call() = None;
    }

    /// What is slow, if something is.
    pub(crate) fn call(&self) -> Option<SlowCall> {
        self.lock_call().clone()
    }

    /// What kind of thing is slow, if something is.
    pub(crate) fn kind(&self) -> Option<SlowKind> {
        self.lock_call().as_ref().map(|call| call.kind)
    }

    fn lock_call(&self) -> MutexGuard<'_, Option<SlowCall>> {
        self.call.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slow script has changed data: it cannot be killed any more.
    pub(crate) fn note_write(&self) {
        let (from, to) = (Slow::Killable as u8, Slow::Wrote as u8);
        // Failure means that it was told to end before, or is known to have written.
        let _ = self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Tells the script to end, if it is slow and has changed nothing.
    pub(crate) fn kill(&self) -> bool {
        let (from, to) = (Slow::Killable as u8, Slow::Killed as u8);
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}
