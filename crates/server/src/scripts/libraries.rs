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

use crate::scripts::running::log_line;
use crate::shared::Shared;

/// How long a library may take to register its functions.
const LOAD_MS_MAX: u64 = 500;

/// The libraries, and which version of them it is.
#[derive(Debug, Default)]
pub(crate) struct LibraryStore {
    current: Mutex<Arc<LibrarySet>>,
    version: AtomicU64,
}

impl LibraryStore {
    /// The version of the libraries.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The libraries and their version.
    pub(crate) fn get(&self) -> (u64, Arc<LibrarySet>) {
        let current = self.lock();
        (self.version(), current.clone())
    }

    /// Puts other libraries in the place of all.
    pub(crate) fn set(&self, set: LibrarySet) {
        let mut current = self.lock();
        *current = Arc::new(set);
        self.version.fetch_add(1, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Arc<LibrarySet>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server as a library sees it while it is loaded: there is a log, and a time limit.
pub(crate) struct Loading<'a> {
    clock: &'a Clock,
    shared: &'a Shared,
    deadline_ms: u64,
}

impl<'a> Loading<'a> {
    /// For libraries that a client sends.
    pub(crate) fn limited(clock: &'a Clock, shared: &'a Shared) -> Self {
        let mut loading = Loading::unlimited(clock, shared);
        loading.begin_next();
        loading
    }

    /// For libraries that were loaded before.
    pub(crate) fn unlimited(clock: &'a Clock, shared: &'a Shared) -> Self {
        Loading { clock, shared, deadline_ms: u64::MAX }
    }

    /// The next library may take as long as the one before.
    pub(crate) fn begin_next(&mut self) {
        self.deadline_ms = self.clock.monotonic_ms() + LOAD_MS_MAX;
    }
}

impl script::Host for Loading<'_> {
    fn call(&mut self, _: &[&[u8]], _: bool, _: &mut Output) -> Result<(), Interrupt> {
        unreachable!("a library has nothing that calls commands while it is loaded")
    }

    fn tick(&mut self) -> Result<(), Interrupt> {
        let is_over =
            self.clock.monotonic_ms() > self.deadline_ms || self.shared.stopping.load(Ordering::Acquire);
        if is_over { Err(Interrupt::Killed) } else { Ok(()) }
    }

    fn log(&mut self, level: i64, text: &[u8]) {
        log_line(level, text);
    }

    fn set_stated(&mut self, _: bool) {}

    fn is_allowed(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }
}
