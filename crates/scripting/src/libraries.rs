//! The libraries of functions that all threads share.
//!
//! A set of libraries never changes. `FUNCTION LOAD` and similar commands enter all shards, replace the set
//! and increment its version. A thread that is about to run a function compares versions, which is one read,
//! and takes the lock only if there is a new one. So all threads see a change at the same moment: the holder
//! of a shard sees one set.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lua::{Interrupt, LibrarySet};
use proactor::Clock;
use resp::Output;

use crate::scripts::Scripts;

/// How long a library may take to register its functions.
const LOAD_MS_MAX: u64 = 500;

/// The current libraries and their version.
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

    /// Replaces all libraries.
    pub fn set(&self, set: LibrarySet) {
        let mut current = self.lock();
        *current = Arc::new(set);
        self.version.fetch_add(1, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Arc<LibrarySet>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server as a library sees it while it is loaded: it can log, and has a time limit.
pub struct Loading<'a> {
    clock: &'a Clock,
    scripts: &'a Scripts,
    deadline_ms: u64,
}

impl<'a> Loading<'a> {
    /// For libraries that a client sends: with a time limit.
    pub fn limited(clock: &'a Clock, scripts: &'a Scripts) -> Self {
        let mut loading = Loading::unlimited(clock, scripts);
        loading.begin_next();
        loading
    }

    /// For libraries that have been loaded before: without a time limit.
    pub fn unlimited(clock: &'a Clock, scripts: &'a Scripts) -> Self {
        Loading { clock, scripts, deadline_ms: u64::MAX }
    }

    /// Restarts the time limit, for the next library.
    pub fn begin_next(&mut self) {
        self.deadline_ms = self.clock.monotonic_ms() + LOAD_MS_MAX;
    }
}

impl lua::Host for Loading<'_> {
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
