//! The state of a thread's script, for other threads: whether one runs and, if it is slow, whether it can be
//! killed.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The state of a thread's script or function, as far as `SCRIPT KILL` and `FUNCTION KILL` are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Slow {
    /// No script runs, or none has run for long.
    No,
    /// It has been running for longer than `busy-reply-threshold`, and has changed nothing.
    Killable,
    /// It has been running for longer than `busy-reply-threshold`, and has changed data.
    Wrote,
    /// It was told to end.
    Killed,
}

/// The kind of a slow call: a script or a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlowKind {
    /// A script, called by `EVAL` and similar commands.
    Script,
    /// A function.
    Function,
}

/// A slow call of a script or function.
#[derive(Clone, Debug)]
pub struct SlowCall {
    /// Whether it is a script or a function.
    pub kind: SlowKind,
    /// The function's name; empty for a script.
    pub name: Vec<u8>,
    /// The command that called it.
    pub request: Vec<Box<[u8]>>,
    /// When it was called, on the monotonic clock.
    pub started_ms: u64,
}

/// The state of a thread's script, for other threads.
// Every script writes it, so it has its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SlowScript {
    state: AtomicU8,
    /// Whether a script runs, slow or not.
    is_running: AtomicBool,
    /// The call, while it is slow.
    call: Mutex<Option<SlowCall>>,
    /// Memory of the thread's Lua states: for scripts, and for functions.
    pub(crate) script_bytes: AtomicU64,
    pub(crate) function_bytes: AtomicU64,
}

impl SlowScript {
    /// The script's state.
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
    pub fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Relaxed)
    }

    /// The script has become slow. `wrote`: it has already changed data.
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

    /// The slow call, if there is one.
    pub(crate) fn call(&self) -> Option<SlowCall> {
        self.lock_call().clone()
    }

    /// The kind of the slow call, if there is one.
    pub(crate) fn kind(&self) -> Option<SlowKind> {
        self.lock_call().as_ref().map(|call| call.kind)
    }

    fn lock_call(&self) -> MutexGuard<'_, Option<SlowCall>> {
        self.call.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slow script has changed data, so it can no longer be killed.
    pub(crate) fn note_write(&self) {
        let (from, to) = (Slow::Killable as u8, Slow::Wrote as u8);
        // Failure means that it was told to end earlier, or has written before.
        let _ = self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Tells the script to end. False if it is not slow, or has changed data.
    pub(crate) fn kill(&self) -> bool {
        let (from, to) = (Slow::Killable as u8, Slow::Killed as u8);
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}
