//! Returns the jobs of a plain Sidekiq process to their queues when the process has died (setting
//! `job-recovery`).
//!
//! ```text
//!   a process lives       BRPOP                  ──▶ each shard notes who popped what (`queue/popped.rs`)
//!                         SADD processes …       ──▶ a beat: its connection and time               (Recovery)
//!                         <identity>:work        ──▶ kept for longer than Sidekiq asks for         (Watch)
//!   it dies               its connections close  ──▶ which ones, from where, and when              (Recovery)
//!   a minute later        <identity> expires     ──▶ the jobs in `:work`, and those that its
//!                                                    connections popped since the beat before the
//!                                                    last one                                      (Search)
//!                                                    … go back: RPUSH                              (Return)
//! ```
//!
//! *Which connections are a process's?* Sidekiq uses different connections to pop jobs and to beat, and names
//! neither. But a process that dies closes all of them at once: its connections are those from the address of
//! its last beat that close within [`TOGETHER_MS`] of the beat's connection. If several processes at one
//! address die together, their connections cannot be told apart. They form a [`Group`], which is searched and
//! returned as if it were one process, once all of its keys have expired. Jobs popped by an open connection
//! are never returned.
//!
//! *Which jobs may be running?* Those of the last `:work`, and those popped since the beat before the last
//! one: a job that was popped earlier and is not in the last `:work` is done. Some of the others are done as
//! well, and run again.
//!
//! *Which process has a job that was popped twice?* The last one to pop it. A job that is pushed to the end
//! from which it was popped, by Sidekiq when it stops or by a return, belongs to no process. So no job is
//! returned twice.
//!
//! *When?* While the key `<identity>` exists, the process lives. A process that stops removes itself from
//! `processes` before that key expires, and gives its jobs back itself. The first thread checks every second.
//!
//! `:work` is data: it survives a restart or a failover, and so do the jobs in it. The pops and their
//! connections are only in memory.

mod returning;
mod search;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use watch::{Around, Watch, trim};

/// Connections that close within this time of each other may have belonged to one process.
const TOGETHER_MS: u64 = 1500;
/// How long a closed connection is remembered while processes are watched: longer than it takes to notice
/// that its process is dead.
const DEPARTED_MS: u64 = 180_000;
/// The most closed connections that are remembered; the oldest are forgotten.
const DEPARTED_MAX: usize = 65_536;
/// The most processes that are remembered.
const PROCESSES_MAX: usize = 10_000;
/// A beat is noticed a moment after Sidekiq looked up its jobs, and so is a pop.
const SLACK_MS: u64 = 1000;
/// How long pops are remembered: two beats of Sidekiq, and some time for late ones.
const LOGGED_MS: u64 = 25_000;
/// How long pops are remembered at most while it is open whether a process is dead.
const UNDECIDED_MS: u64 = 120_000;

/// A process of Sidekiq.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Process {
    /// Its database.
    pub db: u32,
    /// The set of processes.
    pub set: Box<[u8]>,
    /// Its name in that set.
    pub identity: Box<[u8]>,
}

/// The knowledge of all threads about processes and connections. Times are those of the monotonic clock.
#[derive(Debug, Default)]
pub struct Recovery {
    inner: Mutex<Inner>,
    kept_since_ms: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    departed: VecDeque<Departed>,
    beats: BTreeMap<Process, Beats>,
}

/// A connection that has closed.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Departed {
    client: u64,
    address: Box<str>,
    at_ms: u64,
}

#[derive(Clone, Copy, Debug)]
struct Beats {
    /// The client that sent the last beat.
    client: u64,
    last_ms: u64,
    before_ms: Option<u64>,
}

/// Processes of one database that died so close together that their connections cannot be told apart; usually
/// one.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    /// Each process with the time of its last beat; 0 if none was seen.
    processes: BTreeMap<Process, u64>,
    /// Their connections, and perhaps others that closed at the same time.
    clients: HashSet<u64>,
    /// Jobs that these connections popped since then may not be done.
    since_ms: u64,
    /// When the first process died, if that is known.
    died_ms: Option<u64>,
}

impl Recovery {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a connection closed.
    pub fn depart(&self, client: u64, peer: &str, at_ms: u64) {
        let address = peer.rsplit_once(':').map_or(peer, |(address, _)| address);
        let departed = &mut self.lock().departed;
        if departed.len() >= DEPARTED_MAX {
            departed.pop_front();
        }
        departed.push_back(Departed { client, address: address.into(), at_ms });
        assert!(departed.len() <= DEPARTED_MAX, "the oldest are forgotten");
    }

    /// Notes a process's beat.
    pub(crate) fn beat(&self, process: Process, client: u64, at_ms: u64) {
        let beats = &mut self.lock().beats;
        let before_ms = beats.get(&process).map(|known| known.last_ms);
        if before_ms.is_some() || beats.len() < PROCESSES_MAX {
            beats.insert(process, Beats { client, last_ms: at_ms, before_ms });
        }
        assert!(beats.len() <= PROCESSES_MAX, "no more processes are remembered");
    }

    /// Forgets everything.
    pub fn clear(&self) {
        *self.lock() = Inner::default();
    }

    /// The time since when pops are to be remembered, as [`Self::decide_kept`] found.
    pub fn kept_since_ms(&self) -> u64 {
        self.kept_since_ms.load(Ordering::Relaxed)
    }

    /// Forgets connections that closed long ago, and computes since when pops are to be remembered: since
    /// before the earliest death that is still undecided. Processes have been watched since `began_ms`;
    /// before that, nothing could be decided.
    fn decide_kept(&self, now_ms: u64, began_ms: u64) {
        let mut inner = self.lock();
        let is_within = |departed: &Departed, ms: u64| departed.at_ms.max(began_ms) + ms > now_ms;
        while inner.departed.pop_front_if(|first| !is_within(first, DEPARTED_MS)).is_some() {}
        let of_beats: HashSet<u64> = inner.beats.values().map(|beats| beats.client).collect();
        let mut undecided = inner.departed.iter().filter(|departed| of_beats.contains(&departed.client));
        let first_ms =
            undecided.find(|departed| is_within(departed, UNDECIDED_MS)).map(|departed| departed.at_ms);
        self.kept_since_ms.store(first_ms.unwrap_or(now_ms).saturating_sub(LOGGED_MS), Ordering::Relaxed);
    }

    fn known(&self) -> Vec<Process> {
        self.lock().beats.keys().cloned().collect()
    }

    fn has_beaten(&self, process: &Process, since_ms: u64) -> bool {
        self.lock().beats.get(process).is_some_and(|beats| beats.last_ms >= since_ms)
    }

    fn forget(&self, process: &Process) {
        self.lock().beats.remove(process);
    }

    /// Forgets a group and the connections whose jobs went back: they belong to no other process.
    fn forget_group(&self, group: &Group, poppers: &HashSet<u64>) {
        let mut inner = self.lock();
        group.processes.keys().for_each(|process| _ = inner.beats.remove(process));
        inner.departed.retain(|departed| !poppers.contains(&departed.client));
    }

    /// A dead process, and all that may have died together with it.
    fn group_of(&self, process: &Process) -> Group {
        let inner = self.lock();
        let mut group = Group {
            processes: BTreeMap::from([(process.clone(), 0)]),
            clients: HashSet::new(),
            since_ms: 0,
            died_ms: None,
        };
        let Some(beats) = inner.beats.get(process) else { return group };
        group.processes.insert(process.clone(), beats.last_ms);
        let Some(own) = inner.departed.iter().find(|departed| departed.client == beats.client) else {
            return group;
        };
        // Pops are noted per database, so those of other databases cannot be mistaken for these.
        let same_db = inner.beats.iter().filter(|(other, _)| other.db == process.db);
        let by_client: BTreeMap<u64, (&Process, &Beats)> =
            same_db.map(|(process, beats)| (beats.client, (process, beats))).collect();
        let here = || inner.departed.iter().filter(|departed| departed.address == own.address);
        // Walk in both directions from one beat's connection to the next, while a connection could belong to
        // either.
        let mut deaths: Vec<&Departed> =
            here().filter(|departed| by_client.contains_key(&departed.client)).collect();
        deaths.sort_by_key(|death| death.at_ms);
        let is_near = |pair: &[&Departed]| pair[1].at_ms - pair[0].at_ms <= 2 * TOGETHER_MS;
        let at = deaths.iter().position(|death| *death == own).expect("it is one of them");
        let from = at - deaths[..=at].windows(2).rev().take_while(|pair| is_near(pair)).count();
        let to = at + deaths[at..].windows(2).take_while(|pair| is_near(pair)).count();
        assert!((from..=to).contains(&at), "the process is among those that died together");
        let deaths = &deaths[from..=to];
        group.since_ms = u64::MAX;
        for death in deaths {
            let (process, beats) = by_client[&death.client];
            group.processes.insert(process.clone(), beats.last_ms);
            let since_ms = beats.before_ms.map_or(0, |before_ms| before_ms.saturating_sub(SLACK_MS));
            group.since_ms = group.since_ms.min(since_ms);
        }
        // For a process that has beaten only once, it is unknown which of its jobs are done. Jobs of other
        // processes that were popped longer ago are done.
        group.since_ms = group.since_ms.max(deaths[0].at_ms.saturating_sub(LOGGED_MS));
        let is_together = |departed: &&Departed| {
            deaths.iter().any(|death| departed.at_ms.abs_diff(death.at_ms) <= TOGETHER_MS)
        };
        group.clients = here().filter(is_together).map(|departed| departed.client).collect();
        group.died_ms = Some(deaths[0].at_ms);
        group
    }
}

/// The suffixes of the keys that show a process's running jobs: Sidekiq 7 and 8, and Sidekiq 6.
const WORK: [&[u8]; 2] = [b":work", b":workers"];

impl Process {
    fn namespace(&self) -> &[u8] {
        self.set.strip_suffix(b"processes").unwrap_or_default()
    }

    /// The key that exists while the process lives.
    fn key(&self) -> Vec<u8> {
        [self.namespace(), &self.identity].concat()
    }

    fn work_keys(&self) -> [Vec<u8>; 2] {
        WORK.map(|end| [&self.key(), end].concat())
    }

    fn queue_key(&self, name: &[u8]) -> Vec<u8> {
        [self.namespace(), b"queue:", name].concat()
    }
}
