//! The first thread's watch over Sidekiq's processes: it keeps what they report, sees that one is dead, and returns its jobs.

use std::collections::{BTreeMap, BTreeSet};

use command::{Change, Class, Client, Store, Tx};
use ds::hash::Hash;
use ds::list::{End, List};
use ds::set::Set;
use queues::{json_member, json_text, own_id};
use resp::Proto;
use shard::ShardId;
use upkeep::Visits;

use super::{Process, Recovery};

/// Members of `processes` that are looked at.
const MEMBERS_MAX: usize = 10_000;
/// Jobs that go back in one transaction.
const RETURNED_MAX: usize = 64;
/// How often shards that are taken are tried before the next look.
const TRIES_MAX: usize = 100;
/// After a start, or a time in which this server was no primary, a process of which nothing was heard yet has so long to beat.
const GRACE_MS: u64 = 30_000;
/// Looks come each second: after so long without one somebody else may have been the primary.
const GAP_MS: u64 = 5000;
/// For how long `:work` is kept; it is kept for longer when less than half of that is left.
const WORK_MS: i64 = 600_000;
/// How the keys end that show what a process runs: Sidekiq 7 and 8, and Sidekiq 6.
const WORK: [&[u8]; 2] = [b":work", b":workers"];

/// What the watch needs to know of the server.
pub struct Around<'a> {
    /// The clock that does not jump.
    pub now_ms: u64,
    /// Databases.
    pub db_count: u32,
    /// All shards.
    pub shards: &'a [ShardId],
    /// Where a key lies.
    pub locate: &'a dyn Fn(&[u8]) -> ShardId,
    /// What all threads know.
    pub recovery: &'a Recovery,
}

/// The state of the watch.
#[derive(Debug, Default)]
pub struct Watch {
    began_ms: u64,
    looked_ms: u64,
    returning: Vec<Returning>,
}

/// A dead process, some of whose jobs have yet to go back.
#[derive(Debug)]
struct Returning {
    process: Process,
    /// The next one to go back is the last.
    jobs: Vec<Job>,
    reported_count: usize,
    popped_count: usize,
    returned_count: usize,
    left_count: usize,
}

/// A job that a process had.
#[derive(Clone, Debug)]
struct Job {
    queue: Vec<u8>,
    payload: Vec<u8>,
    /// When it was popped, or shown to be running.
    at_ms: u64,
}

/// What there is to see of a process.
struct State {
    is_listed: bool,
    is_alive: bool,
}

impl Watch {
    /// Looks after all processes. To be called each second.
    pub fn look(&mut self, around: &Around<'_>, thread: &mut impl Visits) {
        if around.now_ms.saturating_sub(self.looked_ms) > GAP_MS {
            self.began_ms = around.now_ms;
            self.returning.clear();
        }
        self.looked_ms = around.now_ms;
        let Some(states) = states(around, thread) else { return };
        let live: Vec<&Process> =
            states.iter().filter(|(_, state)| state.is_alive).map(|(process, _)| process).collect();
        for (process, state) in &states {
            if self.returning.iter().any(|returning| returning.process == *process) {
                continue;
            }
            if state.is_alive && state.is_listed {
                keep_work(process, around, thread);
            } else if state.is_alive {
                // It has stopped.
                around.recovery.forget(process);
            } else if around.recovery.has_beaten(process) || self.began_ms + GRACE_MS <= around.now_ms {
                self.returning.extend(find_jobs(process, &live, around, thread));
            }
        }
        self.return_jobs(around, thread);
    }

    /// Goes on returning jobs.
    fn return_jobs(&mut self, around: &Around<'_>, thread: &mut impl Visits) {
        let mut tries = 0;
        self.returning.retain_mut(|returning| {
            while tries < TRIES_MAX {
                match returning.go_on(around, thread) {
                    None => tries += 1,
                    Some(true) => {}
                    Some(false) => {
                        around.recovery.forget(&returning.process);
                        return false;
                    }
                }
            }
            true
        });
    }
}

/// Every process that is listed, or that has said that it lives; `None` if shards are taken.
fn states(around: &Around<'_>, thread: &mut impl Visits) -> Option<BTreeMap<Process, State>> {
    let known = around.recovery.known();
    let mut sets: BTreeSet<(u32, Box<[u8]>)> =
        known.iter().map(|process| (process.db, process.set.clone())).collect();
    sets.extend((0..around.db_count).map(|db| (db, b"processes"[..].into())));
    let mut states: BTreeMap<Process, State> = BTreeMap::new();
    for (db, set) in sets {
        let members = look_at((around.locate)(&set), thread, |tx| members_of(tx, db, &set))?;
        for identity in members {
            let process = Process { db, set: set.clone(), identity };
            states.insert(process, State { is_listed: true, is_alive: false });
        }
    }
    for process in known {
        states.entry(process).or_insert(State { is_listed: false, is_alive: false });
    }
    for (process, state) in &mut states {
        let key = process.key();
        state.is_alive = look_at((around.locate)(&key), thread, |tx| store_of(tx, process.db).exists(&key))?;
    }
    Some(states)
}

fn members_of(tx: &mut Tx, db: u32, set: &[u8]) -> Vec<Box<[u8]>> {
    let store = store_of(tx, db);
    let Ok(Some(members)) = store.peek_as::<Set>(set) else { return Vec::new() };
    members.iter().take(MEMBERS_MAX).map(|member| Box::from(&*member)).collect()
}

/// What a process reports is kept until it is returned, should the process die.
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

/// What a dead process had; `None` if shards are taken.
fn find_jobs(
    process: &Process,
    live: &[&Process],
    around: &Around<'_>,
    thread: &mut impl Visits,
) -> Option<Returning> {
    let suspects = around.recovery.suspects(process);
    let last_beat_ms = suspects.as_ref().map_or(u64::MAX, |suspects| suspects.last_beat_ms);
    let mut jobs: BTreeMap<Vec<u8>, Job> = BTreeMap::new();
    for (queue, payload) in work_of(process, around, thread)? {
        jobs.insert(id_of(&payload), Job { queue, payload, at_ms: last_beat_ms });
    }
    let reported: BTreeSet<Vec<u8>> = jobs.keys().cloned().collect();
    // When somebody else popped a job.
    let mut of_others: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    if let Some(suspects) = &suspects {
        for &shard in around.shards {
            look_at(shard, thread, |tx| {
                tx.hold.shard(shard).dbs[process.db as usize].queues().popped().for_each(|pop| {
                    let id = id_of(pop.element);
                    if !suspects.clients.contains(&pop.client) {
                        let at_ms = of_others.entry(id).or_default();
                        *at_ms = pop.at_ms.max(*at_ms);
                    } else if pop.at_ms >= suspects.since_ms {
                        let (queue, payload) = (pop.queue.to_vec(), pop.element.to_vec());
                        jobs.insert(id, Job { queue, payload, at_ms: pop.at_ms });
                    }
                });
            })?;
        }
    }
    jobs.retain(|id, job| of_others.get(id).is_none_or(|at_ms| *at_ms <= job.at_ms));
    for other in live.iter().filter(|other| other.db == process.db) {
        for (_, payload) in work_of(other, around, thread)? {
            jobs.remove(&id_of(&payload));
        }
    }
    let reported_count = jobs.keys().filter(|id| reported.contains(*id)).count();
    let popped_count = jobs.len() - reported_count;
    let mut jobs: Vec<Job> = jobs.into_values().collect();
    // Each goes back to the end from which it came, so that the oldest is next again.
    jobs.sort_by_key(|job| job.at_ms);
    let process = process.clone();
    Some(Returning { process, jobs, reported_count, popped_count, returned_count: 0, left_count: 0 })
}

/// The jobs that a process showed in its last report: the keys of their queues, and their payloads.
fn work_of(
    process: &Process,
    around: &Around<'_>,
    thread: &mut impl Visits,
) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut jobs = Vec::new();
    for key in process.work_keys() {
        look_at((around.locate)(&key), thread, |tx| {
            let store = store_of(tx, process.db);
            let Ok(Some(work)) = store.peek_as::<Hash>(&key) else { return };
            for (_, entry) in work.iter() {
                let text = |name| json_text(json_member(entry, name)?);
                if let (Some(queue), Some(payload)) = (text("queue"), text("payload")) {
                    jobs.push((process.queue_key(&queue), payload.into_owned()));
                }
            }
        })?;
    }
    Some(jobs)
}

impl Returning {
    /// Returns some jobs, and at last what the process has left. False if that was all; `None` if shards are taken.
    fn go_on(&mut self, around: &Around<'_>, thread: &mut impl Visits) -> Option<bool> {
        let from = self.jobs.len().saturating_sub(RETURNED_MAX);
        let some = &self.jobs[from..];
        let [work, workers] = self.process.work_keys();
        let mut shards: BTreeSet<ShardId> = some.iter().map(|job| (around.locate)(&job.queue)).collect();
        let keys: [&[u8]; 4] = [&self.process.key(), &self.process.set, &work, &workers];
        shards.extend(keys.map(around.locate));
        let shards: Vec<ShardId> = shards.into_iter().collect();
        let returned = thread.visit_all(&shards, true, |tx| {
            let mut store = store_of(tx, self.process.db);
            if store.exists(&self.process.key()) {
                return None;
            }
            let count = some.iter().rev().filter(|job| put_back(&mut store, job)).count();
            if from == 0 {
                store.delete(&work);
                store.delete(&workers);
                unlist(&mut store, &self.process);
            }
            let (shard, _) = store.locate(&self.process.set);
            store.tx.hold.shard_mut(shard).stats.recovered_jobs.add(count as u64);
            Some(count)
        })?;
        let some_count = some.len();
        let Some(count) = returned else {
            let identity = self.process.identity.escape_ascii();
            tracing::warn!("Sidekiq's process {identity} lives again: no more of its jobs are returned");
            return Some(false);
        };
        self.returned_count += count;
        self.left_count += some_count - count;
        self.jobs.truncate(from);
        if from == 0 {
            self.say();
        }
        Some(from > 0)
    }

    fn say(&self) {
        let identity = self.process.identity.escape_ascii();
        let Returning { returned_count: returned, reported_count: running, popped_count: popped, .. } = self;
        tracing::warn!(
            db = self.process.db,
            "Sidekiq's process {identity} is dead: returned {returned} jobs to their queues, {running} that it was running and {popped} \
             that it had popped since"
        );
        if self.left_count > 0 {
            tracing::warn!("{} of them could not be returned: their queues are no lists", self.left_count);
        }
    }
}

/// Puts a job where workers take it next; false if that is no list.
fn put_back(store: &mut Store, job: &Job) -> bool {
    let limits = &store.config().list;
    let Ok(list) = store.upsert::<List>(&job.queue) else { return false };
    list.push(End::Tail, &job.payload);
    list.compress_inner(limits);
    let effect: [&[u8]; 3] = [b"RPUSH", &job.queue, &job.payload];
    store.changed(&job.queue, Change::new(Class::List, "rpush"), &effect);
    true
}

/// Takes a process out of the set of processes, as Sidekiq does with those that are dead.
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

/// What tells a job from others: its id, or all of its payload.
fn id_of(payload: &[u8]) -> Vec<u8> {
    own_id(payload).map_or_else(|| payload.to_vec(), |id| id.into_owned())
}

fn store_of<'a, 't>(tx: &'a mut Tx<'t>, db: u32) -> Store<'a, 't> {
    Store::new(tx, Client::internal(db, Proto::Resp2))
}

/// Visits a shard, waiting a moment if it is taken.
fn look_at<R>(id: ShardId, thread: &mut impl Visits, look: impl FnOnce(&mut Tx) -> R) -> Option<R> {
    thread.visit_all(&[id], true, look)
}

/// Takes out what was popped so long ago that nobody asks for it; everything, unless `gone` says which clients are gone. To be called each second, for
/// the shards at home.
pub fn trim(
    now_ms: u64,
    gone: Option<&std::collections::HashSet<u64>>,
    shards: impl Iterator<Item = ShardId>,
    thread: &mut impl Visits,
) {
    for id in shards {
        thread.visit(id, |tx| {
            for data in &mut tx.hold.shard_mut(id).dbs {
                match gone {
                    Some(gone) => {
                        data.queues_mut().trim_popped(now_ms, &|client| gone.contains(&client), own_id)
                    }
                    None => data.queues_mut().clear_popped(),
                }
            }
        });
    }
}
