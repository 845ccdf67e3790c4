//! Jobs that plain Sidekiq had when it died go back to their queues (setting `job-recovery`).
//!
//! ```text
//!   a process lives       BRPOP                  ──▶ each shard notes who popped what (keyspace, `queue/popped.rs`)
//!                         SADD processes …       ──▶ a beat: which connection it came by, and when        (Recovery)
//!                         <identity>:work        ──▶ kept for longer than Sidekiq asks for                (Watch)
//!   it dies               its connections close  ──▶ which, from where, and when                          (Recovery)
//!   a minute later        <identity> expires     ──▶ what `:work` showed, and what its connections
//!                                                    popped since the beat before the last one: RPUSH     (Watch)
//! ```
//!
//! *Which connections are a process's?* Sidekiq fetches jobs and beats by different connections, and names none. But a process that
//! dies closes all of them at once: those that came from the same address as the connection of its last beat, and that closed within
//! [`TOGETHER_MS`] of it. What a connection popped that is open is never returned.
//!
//! *Which jobs may be running?* Those of the last `:work`, and those that were popped since the beat before the last one: a job that
//! was popped earlier and is not in the last `:work` is done. Some of the others are done as well, and run again.
//!
//! *When?* While the process's key `<identity>` exists, it lives. One that stops takes itself out of `processes` before that expires, and
//! gives its jobs back itself. The first thread looks each second.
//!
//! `:work` is data: it survives a restart or a failover, and so do the jobs that it shows. What was popped, and by whom, is only in memory.

#![expect(
    clippy::disallowed_types,
    reason = "taken when a process beats, a connection closes, and each second"
)]

mod watch;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use watch::{Around, Watch, trim};

/// Connections that close within this time of each other may have been one process's.
const TOGETHER_MS: u64 = 1500;
/// How long it is known that a connection has closed: longer than it takes to notice that its process is dead.
const DEPARTED_MS: u64 = 180_000;
/// Connections of which that is known; the oldest go.
const DEPARTED_MAX: usize = 65_536;
/// Processes that are known.
const PROCESSES_MAX: usize = 10_000;
/// A beat is noticed a moment after Sidekiq looked which jobs it has, and a pop as well.
const SLACK_MS: u64 = 1000;

/// A process of Sidekiq's.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Process {
    /// Its database.
    pub db: u32,
    /// The set of processes.
    pub set: Box<[u8]>,
    /// How it calls itself there.
    pub identity: Box<[u8]>,
}

/// What all threads know of processes and connections. Times are of the clock that does not jump.
#[derive(Debug, Default)]
pub struct Recovery(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    departed: VecDeque<Departed>,
    beats: BTreeMap<Process, Beats>,
}

#[derive(Debug)]
struct Departed {
    client: u64,
    address: Box<str>,
    at_ms: u64,
}

#[derive(Clone, Copy, Debug)]
struct Beats {
    /// By whom the last one came.
    client: u64,
    last_ms: u64,
    before_ms: Option<u64>,
}

/// What a process may have popped that is still to be done.
struct Suspects {
    clients: HashSet<u64>,
    since_ms: u64,
    last_beat_ms: u64,
}

impl Recovery {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection closed.
    pub fn depart(&self, client: u64, peer: &str, at_ms: u64) {
        let address = peer.rsplit_once(':').map_or(peer, |(address, _)| address);
        let departed = &mut self.lock().departed;
        while departed.len() >= DEPARTED_MAX
            || departed.front().is_some_and(|first| first.at_ms + DEPARTED_MS < at_ms)
        {
            departed.pop_front();
        }
        departed.push_back(Departed { client, address: address.into(), at_ms });
    }

    /// A process says that it lives.
    pub fn beat(&self, process: Process, client: u64, at_ms: u64) {
        let beats = &mut self.lock().beats;
        let before_ms = beats.get(&process).map(|known| known.last_ms);
        if before_ms.is_some() || beats.len() < PROCESSES_MAX {
            beats.insert(process, Beats { client, last_ms: at_ms, before_ms });
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        *self.lock() = Inner::default();
    }

    fn known(&self) -> Vec<Process> {
        self.lock().beats.keys().cloned().collect()
    }

    fn has_beaten(&self, process: &Process) -> bool {
        self.lock().beats.contains_key(process)
    }

    fn forget(&self, process: &Process) {
        self.lock().beats.remove(process);
    }

    /// The clients that are gone.
    pub fn gone(&self) -> HashSet<u64> {
        self.lock().departed.iter().map(|departed| departed.client).collect()
    }

    /// What a process that has died may have popped and not done; `None` if nothing is known of it, or its connection is still open.
    fn suspects(&self, process: &Process) -> Option<Suspects> {
        let inner = self.lock();
        let beats = inner.beats.get(process)?;
        let of_beat = inner.departed.iter().find(|departed| departed.client == beats.client)?;
        let is_together = |departed: &&Departed| {
            departed.address == of_beat.address && departed.at_ms.abs_diff(of_beat.at_ms) <= TOGETHER_MS
        };
        Some(Suspects {
            clients: inner.departed.iter().filter(is_together).map(|departed| departed.client).collect(),
            since_ms: beats.before_ms.map_or(0, |before_ms| before_ms.saturating_sub(SLACK_MS)),
            last_beat_ms: beats.last_ms,
        })
    }
}

#[cfg(test)]
mod tests;
