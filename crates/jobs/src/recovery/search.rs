//! Searches for the jobs that a group of dead processes had.
//!
//! There may be a million pops to read, while every shard is serving clients. So the search goes from one
//! *place* to the next, reads a part at a time, and continues in the next round:
//!
//! 1. the last reports of the dead processes,
//! 2. the pops of their connections,
//! 3. jobs that other clients popped or put back after that: these belong to them,
//! 4. jobs that living processes report: these belong to them, too.

use std::collections::{BTreeMap, HashSet, VecDeque};

use crate::queues::{json_member, json_text, own_id};
use background::Visits;
use ds::hash::Hash;
use keyspace::queue::Pop;
use shard::ShardId;

use super::watch::{Around, look_at, store_of};
use super::{Group, Process, SLACK_MS};

/// Blocks of pops that one visit of a shard reads: about 300 jobs, in a fraction of a millisecond.
const BLOCKS_MAX: usize = 8;
/// The most visits of one round.
const VISITS_MAX: usize = 64;

/// A job that a process had.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) queue: Vec<u8>,
    pub(super) payload: Vec<u8>,
    /// When it was popped, or reported as running.
    pub(super) at_ms: u64,
    /// Where the pop is noted: the shard, and its number there.
    popped: Option<(ShardId, u64)>,
    /// Where the process reported it: key and field.
    pub(super) reported: Option<(Vec<u8>, Vec<u8>)>,
}

impl Job {
    /// Whether a connection popped it, without a lease.
    pub(super) fn is_popped(&self) -> bool {
        self.popped.is_some()
    }
}

/// The state of a search.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) group: Group,
    db: u32,
    places: VecDeque<Place>,
    found: Found,
}

/// The result so far: jobs by id.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) jobs: BTreeMap<Vec<u8>, Job>,
    /// Connections of the group that popped jobs.
    pub(super) poppers: HashSet<u64>,
}

#[derive(Debug)]
enum Place {
    /// The report of a dead process.
    Report(Process),
    /// The group's pops on a shard, starting at this number.
    Own(ShardId, u64),
    /// The pops of all other clients on a shard, starting at this number.
    Others(ShardId, u64),
    /// The report of a living process.
    Living(Process),
}

impl Search {
    pub(super) fn new(group: Group, live: Vec<Process>, shards: &[ShardId]) -> Search {
        let db = group.processes.keys().next().map_or(0, |process| process.db);
        let reports = group.processes.keys().cloned().map(Place::Report);
        let own = shards.iter().map(|shard| Place::Own(*shard, 0));
        let others = shards.iter().map(|shard| Place::Others(*shard, 0));
        let living = live.into_iter().filter(|process| process.db == db).map(Place::Living);
        let places = reports.chain(own).chain(others).chain(living).collect();
        Search { group, db, places, found: Found::default() }
    }

    /// Searches some places; false if there are no more.
    pub(super) fn go_on(&mut self, around: &Around<'_>, thread: &mut impl Visits) -> bool {
        for _ in 0..VISITS_MAX {
            let Some(place) = self.places.pop_front() else { return false };
            // A place whose shard is taken is tried again.
            if let Some(rest) = self.look(&place, around, thread).unwrap_or(Some(place)) {
                self.places.push_front(rest);
            }
        }
        true
    }

    /// The group and the result.
    pub(super) fn finish(self) -> (Group, Found) {
        (self.group, self.found)
    }

    /// Searches a place. Returns the rest of it; `None` if its shard is taken.
    fn look(
        &mut self,
        place: &Place,
        around: &Around<'_>,
        thread: &mut impl Visits,
    ) -> Option<Option<Place>> {
        match place {
            Place::Report(process) => {
                let at_ms = self.group.processes[process];
                for job in reported(process, at_ms, around, thread)? {
                    self.found.jobs.insert(id_of(&job.payload), job);
                }
                Some(None)
            }
            Place::Own(..) if self.group.clients.is_empty() => Some(None),
            Place::Own(shard, from) => {
                let rest = look_at(*shard, thread, |tx| {
                    let popped = tx.hold.shard(*shard).dbs[self.db as usize].queues().popped()?;
                    popped.read(*from, self.group.since_ms, BLOCKS_MAX, |number, pop| {
                        self.note_own(*shard, number, &pop);
                    })
                })?;
                Some(rest.map(|from| Place::Own(*shard, from)))
            }
            Place::Others(..) if self.found.jobs.is_empty() => Some(None),
            Place::Others(shard, from) => {
                let since_ms = self.found.jobs.values().map(|job| job.at_ms).min().unwrap_or(0);
                let rest = look_at(*shard, thread, |tx| {
                    let popped = tx.hold.shard(*shard).dbs[self.db as usize].queues().popped()?;
                    popped.read(*from, since_ms, BLOCKS_MAX, |number, pop| {
                        self.note_other(*shard, number, &pop);
                    })
                })?;
                Some(rest.map(|from| Place::Others(*shard, from)))
            }
            Place::Living(process) => {
                for job in reported(process, 0, around, thread)? {
                    self.found.jobs.remove(&id_of(&job.payload));
                }
                Some(None)
            }
        }
    }

    fn note_own(&mut self, shard: ShardId, number: u64, pop: &Pop<'_>) {
        if pop.at_ms < self.group.since_ms || !self.group.clients.contains(&pop.client) {
            return;
        }
        self.found.poppers.insert(pop.client);
        let id = id_of(pop.element);
        let reported = self.found.jobs.remove(&id).and_then(|job| job.reported);
        let (queue, payload) = (pop.queue.to_vec(), pop.element.to_vec());
        let job = Job { queue, payload, at_ms: pop.at_ms, popped: Some((shard, number)), reported };
        self.found.jobs.insert(id, job);
    }

    fn note_other(&mut self, shard: ShardId, number: u64, pop: &Pop<'_>) {
        if self.group.clients.contains(&pop.client) {
            return;
        }
        let id = id_of(pop.element);
        let is_later = self.found.jobs.get(&id).is_some_and(|job| match job.popped {
            Some((same, own)) if same == shard => number > own,
            Some(_) => pop.at_ms > job.at_ms,
            // A process pops a job before it reports it. If nothing is known about its connections, this may
            // be that pop.
            None => job.at_ms == 0 || pop.at_ms > job.at_ms + SLACK_MS,
        });
        if is_later {
            self.found.jobs.remove(&id);
        }
    }
}

/// The jobs in the last report of a process, which came at `at_ms`. `None` if a shard is taken.
fn reported(
    process: &Process,
    at_ms: u64,
    around: &Around<'_>,
    thread: &mut impl Visits,
) -> Option<Vec<Job>> {
    let mut jobs = Vec::new();
    for key in process.work_keys() {
        look_at((around.locate)(&key), thread, |tx| {
            let mut buffer = Vec::new();
            let store = store_of(tx, process.db);
            let Ok(Some(work)) = engine::peek_into::<Hash>(&store, &key, &mut buffer) else { return };
            for (field, entry) in work.iter() {
                let entry = entry.bytes();
                let text = |name| json_text(json_member(&entry, name)?);
                if let (Some(queue), Some(payload)) = (text("queue"), text("payload")) {
                    let (queue, payload) = (process.queue_key(&queue), payload.into_owned());
                    let reported = Some((key.clone(), field.to_vec()));
                    jobs.push(Job { queue, payload, at_ms, popped: None, reported });
                }
            }
        })?;
    }
    Some(jobs)
}

/// The identity of a job: its id, or its whole payload.
fn id_of(payload: &[u8]) -> Vec<u8> {
    own_id(payload).map_or_else(|| payload.to_vec(), |id| id.into_owned())
}
