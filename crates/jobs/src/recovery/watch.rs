//! Watches Sidekiq's processes, on the first thread: keeps what they report, notices that one is dead, and
//! has its jobs returned.

use std::collections::{BTreeMap, BTreeSet};

use background::Visits;
use ds::set::Set;
use engine::{Client, Store, Tx};
use keyspace::queue::RecoveryFigures;
use resp::Proto;
use shard::ShardId;

use super::returning::Return;
use super::search::Search;
use super::{PROCESSES_MAX, Process, Recovery, UNDECIDED_MS};

/// After a start or a gap in the looks, a process that has not been heard from since has this long to beat.
const GRACE_MS: u64 = 30_000;
/// Looks come every second. After a gap of this length, another server was the primary, or writes were
/// refused, and beats with them.
const GAP_MS: u64 = 5000;
/// How long `:work` is kept; it is renewed when less than half of that is left. It has to outlast a restart,
/// or a disk that is full overnight.
const WORK_MS: i64 = 86_400_000;

/// The parts of the server that the watch uses.
pub struct Around<'a> {
    /// The monotonic clock.
    pub now_ms: u64,
    /// The machine's clock, in milliseconds since 1970.
    pub wall_ms: u64,
    /// The number of databases.
    pub db_count: u32,
    /// All shards.
    pub shards: &'a [ShardId],
    /// The shard of a key.
    pub locate: &'a dyn Fn(&[u8]) -> ShardId,
    /// The knowledge of all threads.
    pub recovery: &'a Recovery,
    /// The counters of what the watch does.
    pub figures: &'a RecoveryFigures,
}

/// The state of the watch.
#[derive(Debug, Default)]
pub struct Watch {
    began_ms: u64,
    looked_ms: u64,
    /// Processes that were listed: a client that finds a dead one may remove it from `processes` before its
    /// jobs are returned.
    listed: BTreeSet<Process>,
    work: Option<Work>,
}

/// The work on a group of dead processes.
#[derive(Debug)]
enum Work {
    Search(Search),
    Return(Return),
}

/// The observed state of a process.
#[derive(Clone, Copy)]
struct State {
    is_listed: bool,
    is_alive: bool,
}

impl Watch {
    /// Checks all processes. Call this every second.
    pub fn look(&mut self, around: &Around<'_>, thread: &mut impl Visits) {
        if around.now_ms.saturating_sub(self.looked_ms) > GAP_MS {
            *self = Watch { began_ms: around.now_ms, ..Watch::default() };
        }
        self.looked_ms = around.now_ms;
        around.recovery.decide_kept(around.now_ms, self.began_ms);
        let Some(states) = self.states(around, thread) else { return };
        self.listed.clear();
        let mut dead = Vec::new();
        for (process, state) in &states {
            if state.is_alive && !state.is_listed {
                // The process has stopped.
                around.recovery.forget(process);
                continue;
            }
            if state.is_alive {
                keep_work(process, around, thread);
            } else if around.recovery.has_beaten(process, self.began_ms)
                || self.began_ms + GRACE_MS <= around.now_ms
            {
                dead.push(process);
            }
            self.listed.insert(process.clone());
        }
        if self.work.is_none() {
            self.work = dead.into_iter().find_map(|dead| search(dead, &states, around)).map(Work::Search);
        }
    }

    /// Whether there is work to do between two looks.
    pub fn is_busy(&self) -> bool {
        self.work.is_some()
    }

    /// Continues the work on dead processes.
    pub fn go_on(&mut self, around: &Around<'_>, thread: &mut impl Visits) {
        self.work = match self.work.take() {
            Some(Work::Search(mut search)) => Some(if search.go_on(around, thread) {
                Work::Search(search)
            } else {
                Work::Return(Return::new(search.finish()))
            }),
            Some(Work::Return(mut returning)) => {
                let goes_on = returning.go_on(around, thread);
                if !goes_on {
                    // The next look lists the processes that still live.
                    self.listed.retain(|process| !returning.group.processes.contains_key(process));
                }
                goes_on.then_some(Work::Return(returning))
            }
            None => None,
        };
    }

    /// Every process that is or was listed, or that has beaten; `None` if a shard is taken.
    fn states(&self, around: &Around<'_>, thread: &mut impl Visits) -> Option<BTreeMap<Process, State>> {
        let known: BTreeSet<Process> =
            around.recovery.known().into_iter().chain(self.listed.iter().cloned()).collect();
        let mut sets: BTreeSet<(u32, Box<[u8]>)> =
            known.iter().map(|process| (process.db, process.set.clone())).collect();
        sets.extend((0..around.db_count).map(|db| (db, b"processes"[..].into())));
        let mut states: BTreeMap<Process, State> =
            known.into_iter().map(|process| (process, State { is_listed: false, is_alive: false })).collect();
        for (db, set) in sets {
            let members = look_at((around.locate)(&set), thread, |tx| members_of(tx, db, &set))?;
            for identity in members {
                let process = Process { db, set: set.clone(), identity };
                states.insert(process, State { is_listed: true, is_alive: false });
            }
        }
        for (process, state) in &mut states {
            let key = process.key();
            state.is_alive =
                look_at((around.locate)(&key), thread, |tx| store_of(tx, process.db).exists(&key))?;
        }
        Some(states)
    }
}

/// Starts the search for the jobs of a dead process and of those that died with it; `None` if one of them may
/// still be alive.
fn search(dead: &Process, states: &BTreeMap<Process, State>, around: &Around<'_>) -> Option<Search> {
    let mut group = around.recovery.group_of(dead);
    let is_alive = |process: &Process| states.get(process).is_some_and(|state| state.is_alive);
    let waits_until_ms = group.died_ms.map_or(0, |died_ms| died_ms + UNDECIDED_MS);
    if around.now_ms < waits_until_ms && group.processes.keys().any(is_alive) {
        return None;
    }
    group.processes.retain(|process, _| !is_alive(process));
    let live = states.keys().filter(|process| is_alive(process)).cloned().collect();
    Some(Search::new(group, live, around.shards))
}

fn members_of(tx: &mut Tx, db: u32, set: &[u8]) -> Vec<Box<[u8]>> {
    let store = store_of(tx, db);
    let Ok(Some(members)) = store.peek_as::<Set>(set) else { return Vec::new() };
    members.iter().take(PROCESSES_MAX).map(|member| Box::from(&*member)).collect()
}

/// Extends the expiry of a process's report, so that its jobs can be returned if the process dies.
fn keep_work(process: &Process, around: &Around<'_>, thread: &mut impl Visits) {
    for key in process.work_keys() {
        thread.visit((around.locate)(&key), |tx| {
            let mut store = store_of(tx, process.db);
            let now_ms = store.now();
            if store.expiry(&key).is_some_and(|expiry| expiry < now_ms + WORK_MS / 2) {
                store.expire_at(&key, now_ms + WORK_MS);
            }
        });
    }
}

pub(super) fn store_of<'a, 't>(tx: &'a mut Tx<'t>, db: u32) -> Store<'a, 't> {
    Store::new(tx, Client::internal(db, Proto::Resp2))
}

/// Visits a shard, and waits a moment if it is taken.
pub(super) fn look_at<R>(
    id: ShardId,
    thread: &mut impl Visits,
    look: impl FnOnce(&mut Tx) -> R,
) -> Option<R> {
    thread.visit_all(&[id], true, look)
}

/// Forgets what was popped before `since_ms`, or everything if that is `None`. Call this every second, for
/// the thread's own shards.
pub fn trim(since_ms: Option<u64>, shards: impl Iterator<Item = ShardId>, thread: &mut impl Visits) {
    for id in shards {
        thread.visit(id, |tx| {
            for (_, data) in tx.hold.shard_mut(id).dbs.iter_mut() {
                data.queues_mut().trim_popped(since_ms);
            }
        });
    }
}
