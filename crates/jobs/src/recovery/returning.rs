//! Returns the jobs of a dead group to their queues.
//!
//! A transaction returns some jobs: it pushes each one, and removes it from the report that showed it. So a
//! server that crashes in between continues with the others after its restart. The last transaction deletes
//! the keys that the processes left. Each transaction checks that the processes are still dead.
//!
//! A process may also take jobs with a lease. Its reports show them, too, but these jobs come back by
//! themselves.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::Ordering;

use crate::queues::own_id;
use background::Visits;
use ds::list::End;
use ds::set::Set;
use engine::{Change, Class, Store, Tx, note_put_back};
use keyspace::List;
use shard::ShardId;

use super::search::{Found, Job};
use super::watch::{Around, store_of};
use super::{Group, Process};
use crate::job::Jobs;
use crate::record::State;

/// The most jobs that go back in one transaction.
const RETURNED_MAX: usize = 64;
/// The most transactions of one round.
const TRIES_MAX: usize = 16;
/// The elements at the popping end of a queue that are searched for a job whose lease may have ended.
const NEXT_MAX: usize = 100;
/// The most queues that one line of the log names; it counts the others. Users never run into this as a
/// limit.
const NAMED_MAX: usize = 10;

/// The result of returning a job.
enum Outcome {
    Returned,
    /// The key of its queue holds something else.
    Left,
    /// It had a lease.
    Leased,
}

/// A group with jobs that have yet to go back.
#[derive(Debug)]
pub(super) struct Return {
    pub(super) group: Group,
    poppers: HashSet<u64>,
    /// The jobs, returned from the last to the first. Each goes to the end from which it was popped, so the
    /// oldest is next again.
    jobs: Vec<Job>,
    running_count: u64,
    left_count: u64,
    /// How many jobs went back to each queue.
    returned: BTreeMap<Vec<u8>, u64>,
}

/// The result of a transaction.
enum Step {
    /// There is more to do.
    More,
    /// That was all.
    Last,
    /// A process lives again: the rest has to be searched again.
    Alive,
}

impl Return {
    pub(super) fn new((group, found): (Group, Found)) -> Return {
        let mut jobs: Vec<Job> = found.jobs.into_values().collect();
        jobs.sort_by_key(|job| job.at_ms);
        assert!(!group.processes.is_empty(), "jobs go back on behalf of a process");
        let running_count = jobs.iter().filter(|job| job.reported.is_some()).count() as u64;
        let (poppers, returned) = (found.poppers, BTreeMap::new());
        Return { group, poppers, jobs, running_count, left_count: 0, returned }
    }

    /// Returns some jobs; false if there are no more.
    pub(super) fn go_on(&mut self, around: &Around<'_>, thread: &mut impl Visits) -> bool {
        for _ in 0..TRIES_MAX {
            match self.step(around, thread) {
                None | Some(Step::More) => {}
                Some(Step::Last) => {
                    assert!(self.jobs.is_empty(), "a group is forgotten when all of its jobs have gone back");
                    around.recovery.forget_group(&self.group, &self.poppers);
                    self.say();
                    return false;
                }
                Some(Step::Alive) => return false,
            }
        }
        true
    }

    /// Runs one transaction; `None` if a shard is taken.
    fn step(&mut self, around: &Around<'_>, thread: &mut impl Visits) -> Option<Step> {
        let from = self.jobs.len().saturating_sub(RETURNED_MAX);
        let some = &self.jobs[from..];
        let mut shards: BTreeSet<ShardId> = some.iter().map(|job| (around.locate)(&job.queue)).collect();
        for process in self.group.processes.keys() {
            shards.extend([&process.key()[..], &process.set].map(around.locate));
            shards.extend(process.work_keys().map(|key| (around.locate)(&key)));
        }
        let shards: Vec<ShardId> = shards.into_iter().collect();
        let group = &self.group;
        let done = thread.visit_all(&shards, true, |tx| return_some(tx, group, some, from == 0))?;
        let Some(outcomes) = done else { return Some(Step::Alive) };
        assert_eq!(outcomes.len(), self.jobs.len() - from, "each job that goes back has an outcome");
        let figures = around.figures;
        for (job, outcome) in self.jobs.drain(from..).zip(outcomes) {
            match outcome {
                Outcome::Returned => {
                    figures.returned_jobs.fetch_add(1, Ordering::Relaxed);
                    *self.returned.entry(job.queue).or_default() += 1;
                }
                Outcome::Left => {
                    figures.left_jobs.fetch_add(1, Ordering::Relaxed);
                    self.left_count += 1;
                }
                Outcome::Leased => {}
            }
        }
        if from > 0 {
            return Some(Step::More);
        }
        figures.dead_processes.fetch_add(self.group.processes.len() as u64, Ordering::Relaxed);
        figures.last_ms.store(around.wall_ms, Ordering::Relaxed);
        Some(Step::Last)
    }

    /// Logs a line about each process.
    fn say(&self) {
        let count: u64 = self.returned.values().sum();
        let named = self
            .returned
            .iter()
            .take(NAMED_MAX)
            .map(|(queue, count)| format!("{count} to {}", queue.escape_ascii()));
        let mut queues = named.collect::<Vec<_>>().join(", ");
        if self.returned.len() > NAMED_MAX {
            queues += &format!(" and others to {} more queues", self.returned.len() - NAMED_MAX);
        }
        let with = match self.group.processes.len() {
            1 => String::new(),
            len => format!(" (one of {len} that died together)"),
        };
        for process in self.group.processes.keys() {
            let identity = process.identity.escape_ascii();
            tracing::warn!(
                db = process.db,
                running = self.running_count,
                "Sidekiq's process {identity} is dead{with}: {count} jobs returned{}{queues}",
                if count > 0 { ", " } else { "" }
            );
        }
        if self.left_count > 0 {
            tracing::warn!(
                "{} jobs could not be returned: the keys of their queues hold something else",
                self.left_count
            );
        }
    }
}

/// Returns jobs, the last one first, and deletes what the processes left if these are the last jobs. The
/// result has an outcome for each job; `None` if a process lives.
fn return_some(tx: &mut Tx, group: &Group, jobs: &[Job], is_last: bool) -> Option<Vec<Outcome>> {
    let db = group.processes.keys().next()?.db;
    let mut store = store_of(tx, db);
    if group.processes.keys().any(|process| store.exists(&process.key())) {
        return None;
    }
    let mut outcomes: Vec<Outcome> = jobs.iter().rev().map(|job| put_back(&mut store, job)).collect();
    outcomes.reverse();
    if is_last {
        for process in group.processes.keys() {
            process.work_keys().iter().for_each(|key| _ = store.delete(key));
            unlist(&mut store, process);
        }
    }
    Some(outcomes)
}

/// Puts a job where it is taken next, unless it had a lease.
fn put_back(store: &mut Store, job: &Job) -> Outcome {
    let outcome = if has_lease(store, job) {
        Outcome::Leased
    } else if Jobs::push(store, &job.queue, End::Tail, &job.payload).is_ok() {
        note_put_back(store, &job.queue, &[&job.payload]);
        Outcome::Returned
    } else {
        Outcome::Left
    };
    if let Some((key, field)) = &job.reported {
        // The key was a hash when the job was found there; what it is now does not matter.
        _ = Jobs::remove_field(store, key, field);
    }
    outcome
}

/// Whether the queue still has a job that a process took with a lease. If that is uncertain the job may be
/// lost, so it is returned.
fn has_lease(store: &Store, job: &Job) -> bool {
    let Some(id) = own_id(&job.payload).filter(|_| !job.is_popped()) else { return false };
    let record = Jobs::to_change(store, &job.queue, State::Active).and_then(|jobs| jobs.record(store, &id));
    let Ok(Some(record)) = record else { return false };
    record.state != State::Waiting || record.group.is_some() || is_next(store, &job.queue, &id)
}

/// Whether the job is among the next ones of its queue, as it is after its lease has ended.
fn is_next(store: &Store, queue: &[u8], id: &[u8]) -> bool {
    let Ok(Some(list)) = store.peek_as::<List>(queue) else { return false };
    let mut next = list.iter(-1, true).take(NEXT_MAX);
    next.any(|element| own_id(&element).as_deref() == Some(id))
}

/// Removes a process from the set of processes, as Sidekiq does with dead ones.
fn unlist(store: &mut Store, process: &Process) {
    let Ok(Some(mut set)) = store.write_as::<Set>(&process.set) else { return };
    let was_listed = set.remove(&process.identity);
    drop(set);
    if was_listed {
        let effect: [&[u8]; 3] = [b"SREM", &process.set, &process.identity];
        store.changed(&process.set, Change::new(Class::Set, "srem"), &effect);
        store.delete_if_empty(&process.set);
    }
}
