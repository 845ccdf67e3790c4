//! The search for the jobs that a group of dead processes had.
//!
//! There may be a million pops to look through, and every shard serves clients meanwhile. So the search looks at one *place* after the
//! other, a part at a time, and goes on in the next round:
//!
//! 1. what the dead processes reported last,
//! 2. what their connections popped,
//! 3. what others popped or put back after that, which is theirs,
//! 4. what living processes report, which is theirs, too.

use std::collections::{BTreeMap, HashSet, VecDeque};

use ds::hash::Hash;
use keyspace::queue::Pop;
use queues::{json_member, json_text, own_id};
use shard::ShardId;
use upkeep::Visits;

use super::watch::{Around, look_at, store_of};
use super::{Group, Process, SLACK_MS};

/// Blocks of pops that one visit of a shard reads: some 300 jobs, in a fraction of a millisecond.
const BLOCKS_MAX: usize = 8;
/// Visits of one round.
const VISITS_MAX: usize = 64;

/// A job that a process had.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) queue: Vec<u8>,
    pub(super) payload: Vec<u8>,
    /// When it was popped, or shown to be running.
    pub(super) at_ms: u64,
    /// Where the pop is noted: its shard, and its number there.
    popped: Option<(ShardId, u64)>,
    /// Where the process reported it: key and field.
    pub(super) reported: Option<(Vec<u8>, Vec<u8>)>,
}

impl Job {
    /// Whether it was popped, without a lease.
    pub(super) fn is_popped(&self) -> bool {
        self.popped.is_some()
    }
}

/// How far it has come.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) group: Group,
    db: u32,
    places: VecDeque<Place>,
    found: Found,
}

/// What was found: jobs by their ids.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) jobs: BTreeMap<Vec<u8>, Job>,
    /// Connections of the group that popped jobs.
    pub(super) poppers: HashSet<u64>,
}

#[derive(Debug)]
enum Place {
    /// The report of a process that is dead.
    Report(Process),
    /// Pops on a shard, from a number on: those of the group.
    Own(ShardId, u64),
    /// The same of all others.
    Others(ShardId, u64),
    /// The report of a process that lives.
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

    /// Looks at some places; false if that were all.
    pub(super) fn go_on(&mut self, around: &Around<'_>, thread: &mut impl Visits) -> bool {
        for _ in 0..VISITS_MAX {
            let Some(place) = self.places.pop_front() else { return false };
            // One that is taken is tried again.
            if let Some(rest) = self.look(&place, around, thread).unwrap_or(Some(place)) {
                self.places.push_front(rest);
            }
        }
        true
    }

    /// The group, and what was found.
    pub(super) fn finish(self) -> (Group, Found) {
        (self.group, self.found)
    }

    /// Looks at a place. Returns what is left of it; `None` if its shard is taken.
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
            // A process that reports a job popped it before; if nothing is known of its connections, that may be this pop.
            None => job.at_ms == 0 || pop.at_ms > job.at_ms + SLACK_MS,
        });
        if is_later {
            self.found.jobs.remove(&id);
        }
    }
}

/// The jobs that a process showed in its last report, which came at `at_ms`. `None` if a shard is taken.
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
            let Ok(Some(work)) = command::peek_into::<Hash>(&store, &key, &mut buffer) else { return };
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

/// What tells a job from others: its id, or all of its payload.
fn id_of(payload: &[u8]) -> Vec<u8> {
    own_id(payload).map_or_else(|| payload.to_vec(), |id| id.into_owned())
}
