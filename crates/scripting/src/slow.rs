//! What a thread's script is doing, for the other threads: whether any runs, and, once it is slow, whether it can be killed.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a thread's script or function is doing, as far as `SCRIPT KILL` and `FUNCTION KILL` care.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Slow {
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
pub enum SlowKind {
    /// A script of `EVAL` and its like.
    Script,
    /// A function.
    Function,
}

/// A slow script or function: how it was called, and when, on the monotonic clock.
#[derive(Clone, Debug)]
pub struct SlowCall {
    /// What it is.
    pub kind: SlowKind,
    /// Of a function.
    pub name: Vec<u8>,
    /// The command that called it.
    pub request: Vec<Box<[u8]>>,
    /// When that was.
    pub started_ms: u64,
}

/// The state of a thread's script, for the other threads.
// Written by every script: on lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SlowScript {
    state: AtomicU8,
    /// Whether any runs, slow or not.
    is_running: AtomicBool,
    /// What it is, as long as it is slow.
    call: Mutex<Option<SlowCall>>,
    /// What the thread's Lua states take: that of scripts, that of functions.
    pub(crate) script_bytes: AtomicU64,
    pub(crate) function_bytes: AtomicU64,
}

impl SlowScript {
    /// How slow it is.
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
