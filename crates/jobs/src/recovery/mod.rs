//! Returns the jobs that plain Sidekiq had when it died to their queues (setting `job-recovery`).
//!
//! ```text
//!   a process lives       BRPOP                  ──▶ each shard notes who popped what (keyspace, `queue/popped.rs`)
//!                         SADD processes …       ──▶ a beat: by which connection, and when                (Recovery)
//!                         <identity>:work        ──▶ kept for longer than Sidekiq asks for                (Watch)
//!   it dies               its connections close  ──▶ which ones, from where, and when                     (Recovery)
//!   a minute later        <identity> expires     ──▶ what `:work` showed, and what its connections
//!                                                    popped since the beat before the last one            (Search)
//!                                                    … go back: RPUSH                                     (Return)
//! ```
//!
//! *Which connections are a process's?* Sidekiq pops jobs and beats by different connections, and names none of them. But a process that
//! dies closes all of them at once: those from the address of its last beat's connection that close within [`TOGETHER_MS`] of it. Where
//! several processes of one address die together, nobody can tell whose connection was whose. They are a [`Group`], which is searched
//! and returned as if it were one process, when all of its keys have expired. What an open connection popped is never returned.
//!
//! *Which jobs may be running?* Those of the last `:work`, and those that were popped since the beat before the last one: a job that
//! was popped earlier and is not in the last `:work` is done. Some of the others are done as well, and run again.
//!
//! *Whose is a job that was popped twice?* The last one's to pop it. What is pushed to the end from which it was popped, by Sidekiq when it stops
//! or by a return, is nobody's. So no job is returned twice.
//!
//! *When?* While the key `<identity>` exists, the process lives. One that stops takes itself out of `processes` before that expires, and
//! gives its jobs back itself. The first thread looks each second.
//!
//! `:work` is data: it survives a restart or a failover, and so do the jobs that it shows. What was popped, and by whom, is only in memory.

mod returning;
mod search;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use watch::{Around, Watch, trim};

/// Connections that close within this time of each other may have been one process's.
const TOGETHER_MS: u64 = 1500;
/// How long it is known that a connection has closed, if processes are watched: longer than it takes to notice that its process is dead.
const DEPARTED_MS: u64 = 180_000;
/// Closed connections that are known; the oldest are forgotten.
const DEPARTED_MAX: usize = 65_536;
/// Processes that are known.
const PROCESSES_MAX: usize = 10_000;
/// A beat is noticed a moment after Sidekiq looked which jobs it has, and so is a pop.
const SLACK_MS: u64 = 1000;
/// How long pops are remembered: two beats of Sidekiq's, and some time for them to be late.
const LOGGED_MS: u64 = 25_000;
/// How long they are remembered at most while it is to be decided whether a process is dead.
const UNDECIDED_MS: u64 = 120_000;

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
    /// By which client the last one came.
    client: u64,
    last_ms: u64,
    before_ms: Option<u64>,
}

/// Processes of one database that died, so close together that their connections cannot be told apart; mostly one.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    /// Each with the time of its last beat; 0 if none was heard.
    processes: BTreeMap<Process, u64>,
    /// Their connections, and perhaps others that closed at the same time.
    clients: HashSet<u64>,
    /// What these popped since then may not be done.
    since_ms: u64,
    /// When the first one died, if it is known.
    died_ms: Option<u64>,
}

impl Recovery {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection closed.
    pub fn depart(&self, client: u64, peer: &str, at_ms: u64) {
        let address = peer.rsplit_once(':').map_or(peer, |(address, _)| address);
        let departed = &mut self.lock().departed;
        if departed.len() >= DEPARTED_MAX {
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

    /// Since when pops are to be remembered, as [`Self::decide_kept`] found.
    pub fn kept_since_ms(&self) -> u64 {
        self.kept_since_ms.load(Ordering::Relaxed)
    }

    /// Forgets what closed long ago, and finds out since when pops are to be remembered: for as long as somebody may have died whose
    /// jobs they are. Processes have been watched since `began_ms`; before that, nothing could be decided.
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

    /// The jobs that these connections popped went back: they are of no other process.
    fn forget_group(&self, group: &Group, poppers: &HashSet<u64>) {
        let mut inner = self.lock();
        group.processes.keys().for_each(|process| _ = inner.beats.remove(process));
        inner.departed.retain(|departed| !poppers.contains(&departed.client));
    }

    /// A process that is dead, and all that may have died together with it.
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
        // Pops are noted for each database, so those of others cannot be mistaken.
        let same_db = inner.beats.iter().filter(|(other, _)| other.db == process.db);
        let by_client: BTreeMap<u64, (&Process, &Beats)> =
            same_db.map(|(process, beats)| (beats.client, (process, beats))).collect();
        let here = || inner.departed.iter().filter(|departed| departed.address == own.address);
        // From one beat's connection to the next, in both directions, as long as no connection can be of one only.
        let mut deaths: Vec<&Departed> =
            here().filter(|departed| by_client.contains_key(&departed.client)).collect();
        deaths.sort_by_key(|death| death.at_ms);
        let is_near = |pair: &[&Departed]| pair[1].at_ms - pair[0].at_ms <= 2 * TOGETHER_MS;
        let at = deaths.iter().position(|death| *death == own).expect("it is one of them");
        let from = at - deaths[..=at].windows(2).rev().take_while(|pair| is_near(pair)).count();
        let to = at + deaths[at..].windows(2).take_while(|pair| is_near(pair)).count();
        let deaths = &deaths[from..=to];
        group.since_ms = u64::MAX;
        for death in deaths {
            let (process, beats) = by_client[&death.client];
            group.processes.insert(process.clone(), beats.last_ms);
            let since_ms = beats.before_ms.map_or(0, |before_ms| before_ms.saturating_sub(SLACK_MS));
            group.since_ms = group.since_ms.min(since_ms);
        }
        // Of one that has beaten only once, it is not known which of its jobs are done. What the others popped longer ago is.
        group.since_ms = group.since_ms.max(deaths[0].at_ms.saturating_sub(LOGGED_MS));
        let is_together = |departed: &&Departed| {
            deaths.iter().any(|death| departed.at_ms.abs_diff(death.at_ms) <= TOGETHER_MS)
        };
        group.clients = here().filter(is_together).map(|departed| departed.client).collect();
        group.died_ms = Some(deaths[0].at_ms);
        group
    }
}

/// How the keys end that show what a process runs: Sidekiq 7 and 8, and Sidekiq 6.
const WORK: [&[u8]; 2] = [b":work", b":workers"];

impl Process {
    fn namespace(&self) -> &[u8] {
        self.set.strip_suffix(b"processes").unwrap_or_default()
    }

    /// The key that says that it lives.
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
