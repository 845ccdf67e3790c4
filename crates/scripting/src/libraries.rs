//! Libraries of functions that all threads know.
//!
//! The set of libraries never changes: `FUNCTION LOAD` and its like, with all shards entered, put another one in its place and
//! count its version on. A thread that is to run a function compares versions, which is one read; only if there is a new
//! one it takes the lock. So all threads see a library from the same moment on: whoever holds a shard sees one set.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proactor::Clock;
use resp::Output;
use script::{Interrupt, LibrarySet};

use crate::scripts::Scripts;

/// How long a library may take to register its functions.
const LOAD_MS_MAX: u64 = 500;

/// The libraries, and which version of them it is.
#[derive(Debug, Default)]
pub struct Libraries {
    current: Mutex<Arc<LibrarySet>>,
    version: AtomicU64,
}

impl Libraries {
    /// The version of the libraries.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The libraries and their version.
    pub fn get(&self) -> (u64, Arc<LibrarySet>) {
        let current = self.lock();
        (self.version(), current.clone())
    }

    /// Puts other libraries in the place of all.
    pub fn set(&self, set: LibrarySet) {
        let mut current = self.lock();
        *current = Arc::new(set);
        self.version.fetch_add(1, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Arc<LibrarySet>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server as a library sees it while it is loaded: there is a log, and a time limit.
pub struct Loading<'a> {
    clock: &'a Clock,
    scripts: &'a Scripts,
    deadline_ms: u64,
}

impl<'a> Loading<'a> {
    /// For libraries that a client sends.
    pub fn limited(clock: &'a Clock, scripts: &'a Scripts) -> Self {
        let mut loading = Loading::unlimited(clock, scripts);
        loading.begin_next();
        loading
    }

    /// For libraries that were loaded before.
    pub fn unlimited(clock: &'a Clock, scripts: &'a Scripts) -> Self {
        Loading { clock, scripts, deadline_ms: u64::MAX }
    }

    /// The next library may take as long as the one before.
    pub fn begin_next(&mut self) {
        self.deadline_ms = self.clock.monotonic_ms() + LOAD_MS_MAX;
    }
}

impl script::Host for Loading<'_> {
    fn call(&mut self, _: &[&[u8]], _: bool, _: &mut Output) -> Result<(), Interrupt> {
        unreachable!("a library has nothing that calls commands while it is loaded")
    }

    fn tick(&mut self) -> Result<(), Interrupt> {
        let is_over = self.clock.monotonic_ms() > self.deadline_ms || self.scripts.is_stopping();
        if is_over { Err(Interrupt::Killed) } else { Ok(()) }
    }

    fn log(&mut self, level: i64, text: &[u8]) {
        (self.scripts.log)(level, text);
    }

    fn set_stated(&mut self, _: bool) {}

    fn is_allowed(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }
}
