//! The state that all threads share for scripts: the script cache, the libraries of functions, and which
//! scripts are slow.
//!
//! A thread compiles a script once and then runs it without coming here. The lock of the cache is taken when
//! a thread runs a script for the first time, and by `SCRIPT LOAD`, `EXISTS` and `FLUSH`.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::CommandError;
use lua::ScriptCache;

use crate::libraries::Libraries;
use crate::roamed::Roamed;
use crate::slow::{Slow, SlowCall, SlowKind, SlowScript};

/// Logs a line for a script, at one of Redis' levels: 0 debug, 1 verbose, 2 notice, 3 warning.
pub type Log = fn(level: i64, text: &[u8]);

/// The scripts and functions of all threads.
#[derive(Debug)]
pub struct Scripts {
    cache: Mutex<ScriptCache>,
    /// Scripts and functions that have touched undeclared keys.
    pub roamed: Roamed,
    /// The libraries of functions.
    pub libraries: Libraries,
    slow_count: AtomicUsize,
    /// The state of each thread's script.
    threads: Box<[SlowScript]>,
    is_stopping: AtomicBool,
    pub(crate) log: Log,
}

impl Scripts {
    /// Without scripts and libraries, for this many threads.
    pub fn new(thread_count: usize, log: Log) -> Scripts {
        Scripts {
            cache: Mutex::default(),
            roamed: Roamed::default(),
            libraries: Libraries::default(),
            slow_count: AtomicUsize::new(0),
            threads: (0..thread_count).map(|_| SlowScript::default()).collect(),
            is_stopping: AtomicBool::new(false),
            log,
        }
    }

    /// The script cache.
    pub fn cache(&self) -> MutexGuard<'_, ScriptCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of a thread's script.
    pub fn thread(&self, number: usize) -> &SlowScript {
        &self.threads[number]
    }

    /// Memory of all Lua states, in bytes: those for scripts, and those for functions.
    pub fn state_bytes(&self) -> (u64, u64) {
        let sum = |bytes: fn(&SlowScript) -> u64| self.threads.iter().map(bytes).sum();
        let of_scripts = sum(|thread| thread.script_bytes.load(Ordering::Relaxed));
        (of_scripts, sum(|thread| thread.function_bytes.load(Ordering::Relaxed)))
    }

    /// The server is shutting down: ends all scripts.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Whether any script has been running for longer than `busy-reply-threshold`.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.slow_count.load(Ordering::Relaxed) > 0
    }

    /// A thread's script has become slow. `wrote`: it has already changed data.
    pub(crate) fn begin_slow(&self, thread: usize, call: SlowCall, wrote: bool) {
        self.threads[thread].begin(call, wrote);
        self.slow_count.fetch_add(1, Ordering::Relaxed);
    }

    /// A thread's slow script has ended.
    pub(crate) fn end_slow(&self, thread: usize) {
        self.threads[thread].end();
        self.slow_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// All slow calls.
    pub(crate) fn slow_calls(&self) -> impl Iterator<Item = SlowCall> {
        self.threads.iter().filter_map(SlowScript::call)
    }

    /// The error for clients while something is slow, which says how to end it.
    pub fn busy_error(&self) -> CommandError {
        let kinds = || self.threads.iter().filter_map(SlowScript::kind);
        let is_function = kinds().all(|kind| kind == SlowKind::Function) && kinds().next().is_some();
        if is_function { CommandError::BUSY_WITH_FUNCTION } else { CommandError::BUSY }
    }

    /// Ends every slow script, or every slow function, that has not written. Fails if it ends no call.
    pub fn kill(&self, kind: SlowKind) -> Result<(), CommandError> {
        let slow = || self.threads.iter();
        if slow().filter(|slow| slow.kind() == Some(kind) && slow.kill()).count() > 0 {
            return Ok(());
        }
        if slow().any(|slow| slow.get() == Slow::Wrote) {
            return Err(CommandError::UNKILLABLE);
        }
        let is_other = slow().any(|slow| slow.get() == Slow::Killable);
        Err(if is_other { self.busy_error() } else { CommandError::NOT_BUSY })
    }
}
