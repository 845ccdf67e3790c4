//! A model of `docs/jobs.md`, written from that page alone and as plainly as possible: rows of texts, a table
//! of jobs, and a clock.
//!
//! Where the page leaves something open (ids that the server makes up, the group that comes next), the model
//! accepts what the server did if the page allows it, and continues from there. [`Model::check`] compares one
//! reply, and says what the page asks for instead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use resp::Value;

use super::payload::{reference, says_id};
use super::schedule::Line;

pub(super) type Bytes = Vec<u8>;
/// The group of a job. Jobs without a group, in the list, form one more.
pub(super) type Group = Option<Bytes>;

/// The attempts of a job without TRIES.
const TRIES: u64 = 25;
/// The dead jobs that `JOB.RETRY … ALL` takes without COUNT.
const RETRIED: usize = 1000;
/// The largest time, as a duration and as a point in time.
const MS_MAX: i64 = 1 << 53;
/// The longest id and the longest name of a group.
const NAME_BYTES_MAX: usize = 512;

/// A command to the server.
#[derive(Clone, Debug)]
pub(super) enum Say {
    Push(Bytes),
    Pop(usize),
    Put(Bytes, Options),
    Take {
        worker: Bytes,
        lease_ms: i64,
        count: usize,
        how: How,
    },
    /// Jobs as [`claims`] reads them.
    Done(Vec<Bytes>),
    Release(Vec<Bytes>),
    /// A job, optionally its attempt, optionally a delay.
    Fail(Bytes, Option<i64>, Option<i64>),
    /// `ID` and jobs, or jobs as [`claims`] reads them.
    KeepJobs(i64, Vec<Bytes>),
    KeepWorker(i64, Bytes),
    Drop(Bytes),
    Retry(Bytes),
    RetryAll(Option<usize>),
    Limit(Limit),
    CronSet {
        name: Bytes,
        schedule: &'static str,
        payload: Bytes,
        skips: bool,
    },
    CronDel(Bytes),
    CronRun(Bytes),
    Delete,
    Rename(Bytes),
}

/// The order in which several queues are served.
#[derive(Clone, Debug)]
pub(super) enum How {
    /// This queue, then these, as given.
    Strict(Vec<Bytes>),
    /// This queue and these, in any order.
    Fair(Vec<Bytes>),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) id: Option<Bytes>,
    pub(super) delay_ms: Option<i64>,
    pub(super) lock: Option<(Bytes, Option<i64>)>,
    pub(super) tries: Option<i64>,
    pub(super) group: Group,
    pub(super) expire_ms: Option<i64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) rate: Option<(usize, i64)>,
    pub(super) active: Option<usize>,
    pub(super) per_group: Option<usize>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum State {
    Waiting,
    Active { worker: Bytes, end_ms: i64 },
    Delayed(i64),
    Dead(i64),
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) state: State,
    pub(super) attempt: u64,
    pub(super) payload: Bytes,
    tries: u64,
    group: Group,
    expires_ms: Option<i64>,
    has_lock: bool,
    has_failed: bool,
    /// Whether it was pushed as an element without an id of its own, and so goes back as one.
    is_pushed: bool,
    /// Whether its id was given with JOB.PUT.
    is_named: bool,
    pub(super) is_dropped: bool,
}

#[derive(Clone, Default, Debug)]
pub(super) struct Queue {
    /// The first one is next.
    pub(super) list: VecDeque<Bytes>,
    /// The jobs that have a record.
    pub(super) jobs: BTreeMap<Bytes, Job>,
    groups: BTreeMap<Bytes, VecDeque<Bytes>>,
    workers: BTreeMap<Bytes, i64>,
    /// The job that holds a lock, and until when at most.
    locks: BTreeMap<Bytes, (Bytes, i64)>,
    limit: Limit,
    /// The times of all takes; those from `limit_from` on were after the limit was set.
    takes: Vec<i64>,
    limit_from: usize,
    pub(super) crons: BTreeMap<Bytes, Line>,
    /// For each group that could have been served all the time, by how many jobs others are ahead of it.
    passed: BTreeMap<Group, BTreeMap<Group, usize>>,
    /// Groups whose turn may go to a dropped job.
    late: BTreeSet<Group>,
}

/// A job as JOB.TAKE returns it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Taken {
    id: Bytes,
    attempt: u64,
    payload: Bytes,
}

pub(super) struct Model {
    pub(super) now: i64,
    pub(super) queues: BTreeMap<Bytes, Queue>,
}

/// Jobs as a worker names them: by ids, or, after the word `ATTEMPT`, by ids and attempts. `None` if the
/// words make no sense.
fn claims(words: &[Bytes]) -> Option<Vec<(Bytes, Option<u64>)>> {
    let [first, pairs @ ..] = words else { return None };
    if !first.eq_ignore_ascii_case(b"attempt") {
        return Some(words.iter().map(|id| (id.clone(), None)).collect());
    }
    let claim = |pair: &[Bytes]| {
        let [id, attempt] = pair else { return None };
        let attempt = String::from_utf8_lossy(attempt).parse().ok().filter(|attempt| *attempt > 0)?;
        Some((id.clone(), Some(attempt)))
    };
    pairs.chunks(2).map(claim).collect::<Option<Vec<_>>>().filter(|claims| !claims.is_empty())
}

pub(super) fn text(value: &Value) -> Bytes {
    match value {
        Value::Bulk(text) | Value::Simple(text) => text.clone(),
        other => panic!("{other:?} is no text"),
    }
}

fn is_nothing(reply: &Value) -> bool {
    matches!(reply, Value::Null | Value::NullArray)
}

fn taken(reply: &Value) -> Vec<(Bytes, Taken)> {
    let Value::Array(jobs) = reply else { return Vec::new() };
    let one = |job: &Value| match job {
        Value::Array(fields) => match &fields[..] {
            [queue, id, Value::Int(attempt), payload] => {
                let attempt = attempt.cast_unsigned();
                (text(queue), Taken { id: text(id), attempt, payload: text(payload) })
            }
            _ => panic!("{job:?} is no job"),
        },
        _ => panic!("{job:?} is no job"),
    };
    jobs.iter().map(one).collect()
}

fn expect(wanted: &str, reply: &Value, is_so: bool) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(format!("the page wants {wanted}, the server says {reply:?}")) }
}

fn expect_error(reply: &Value) -> Result<(), String> {
    expect("an error", reply, matches!(reply, Value::Error(_)))
}

fn expect_count(wanted: usize, reply: &Value) -> Result<(), String> {
    expect(&wanted.to_string(), reply, *reply == Value::Int(wanted as i64))
}

impl Job {
    fn new(payload: &[u8]) -> Job {
        Job {
            state: State::Waiting,
            attempt: 0,
            payload: payload.to_vec(),
            tries: TRIES,
            group: None,
            expires_ms: None,
            has_lock: false,
            has_failed: false,
            is_pushed: false,
            is_named: false,
            is_dropped: false,
        }
    }

    /// Whether a waiting job has a record because its payload does not say everything about it.
    fn is_known(&self, id: &[u8]) -> bool {
        let has_options = self.tries != TRIES || self.group.is_some() || self.has_lock;
        let says_id = says_id(&self.payload).as_deref() == Some(id);
        has_options
            || self.is_named
            || self.expires_ms.is_some()
            || self.attempt > 0
            || self.has_failed
            || !says_id
    }

    /// Whether an element of the list is this job.
    fn is_in_list_as(&self, entry: &[u8], id: &[u8]) -> bool {
        entry == self.entry(id)
    }

    /// The element of the list for it.
    fn entry(&self, id: &[u8]) -> Bytes {
        let stands_itself = self.is_pushed || says_id(&self.payload).as_deref() == Some(id);
        if stands_itself { self.payload.clone() } else { reference(id) }
    }

    pub(super) fn has_expired(&self, now: i64) -> bool {
        let is_late = self.expires_ms.is_some_and(|expires_ms| expires_ms < now);
        self.state == State::Waiting && (is_late || self.is_dropped)
    }
}

impl Queue {
    fn worker_until(&self, worker: &[u8]) -> i64 {
        self.workers.get(worker).copied().unwrap_or(0)
    }

    /// Whether a worker has a job, and this is its attempt if one is named.
    fn is_active(&self, id: &[u8], attempt: Option<u64>) -> bool {
        let is_its = |job: &Job| attempt.is_none_or(|attempt| attempt == job.attempt);
        self.jobs.get(id).is_some_and(|job| matches!(job.state, State::Active { .. }) && is_its(job))
    }

    /// Ends a job that is done or given back; false if the worker no longer has it.
    fn end(&mut self, id: &[u8], attempt: Option<u64>, is_done: bool) -> bool {
        let is_active = self.is_active(id, attempt);
        if is_active && is_done {
            self.forget(id);
        } else if is_active {
            self.jobs.get_mut(id).expect("it is active").attempt -= 1;
            self.join(id, true);
        }
        is_active
    }

    fn keep(&mut self, id: &[u8], attempt: Option<u64>, until_ms: i64) -> bool {
        let is_active = self.is_active(id, attempt);
        if let Some(Job { state: State::Active { end_ms, .. }, .. }) = self.jobs.get_mut(id)
            && is_active
        {
            *end_ms = until_ms;
        }
        is_active
    }

    fn active(&self, group: Option<&Group>) -> usize {
        let counts = |job: &&Job| {
            matches!(job.state, State::Active { .. }) && group.is_none_or(|group| job.group == *group)
        };
        self.jobs.values().filter(counts).count()
    }

    /// Adds a waiting job to its row, as the next or as the last.
    fn join(&mut self, id: &[u8], is_next: bool) {
        let job = self.jobs.get_mut(id).expect("it is known");
        job.state = State::Waiting;
        let (row, entry) = match &job.group {
            Some(group) => (self.groups.entry(group.clone()).or_default(), id.to_vec()),
            None => (&mut self.list, job.entry(id)),
        };
        if is_next {
            row.push_front(entry)
        } else {
            row.push_back(entry)
        }
        if !job.is_known(id) {
            self.jobs.remove(id);
        }
    }

    /// Deletes the record of a job.
    fn forget(&mut self, id: &[u8]) -> Option<Job> {
        self.unlock(id);
        self.jobs.remove(id)
    }

    fn unlock(&mut self, id: &[u8]) {
        self.locks.retain(|_, (holder, _)| holder != id);
    }

    /// Drops a job. A waiting one keeps its place until a take passes over it.
    fn drop_job(&mut self, id: &[u8]) -> bool {
        let Some(job) = self.jobs.get_mut(id).filter(|job| !job.is_dropped) else { return false };
        if job.state != State::Waiting {
            return self.forget(id).is_some();
        }
        job.is_dropped = true;
        self.late.insert(job.group.clone());
        self.unlock(id);
        true
    }

    /// Passes over a job that has expired or was dropped.
    pub(super) fn pass_over(&mut self, id: &[u8]) {
        let Some(job) = self.forget(id) else { return };
        let row = match &job.group {
            Some(group) => self.groups.entry(group.clone()).or_default(),
            None => &mut self.list,
        };
        let is_it = |entry: &Bytes| match job.group {
            Some(_) => entry == id,
            None => job.is_in_list_as(entry, id),
        };
        if let Some(at) = row.iter().position(is_it) {
            row.remove(at);
        }
    }

    fn fail(&mut self, id: &[u8], now: i64, delay_ms: Option<i64>) -> &'static str {
        let job = self.jobs.get_mut(id).expect("it is active");
        job.has_failed = true;
        if job.attempt >= job.tries {
            job.state = State::Dead(now);
            return "dead";
        }
        match delay_ms {
            Some(delay_ms) => {
                job.state = State::Delayed(now.saturating_add(delay_ms));
                "delayed"
            }
            None => {
                self.join(id, true);
                "waiting"
            }
        }
    }

    fn retry(&mut self, id: &[u8]) {
        self.jobs.get_mut(id).expect("it is dead or delayed").attempt = 0;
        self.join(id, false);
    }

    /// The dead jobs, with the times at which they died.
    pub(super) fn dead(&self) -> impl Iterator<Item = (i64, Bytes)> {
        self.jobs.iter().filter_map(|(id, job)| match job.state {
            State::Dead(died_ms) => Some((died_ms, id.clone())),
            _ => None,
        })
    }

    /// Takes the next job of a row. `seen` is its id if the server made it up.
    fn take(&mut self, group: &Group, seen: &[u8], now: i64) -> Option<Taken> {
        loop {
            let (entry, known) = match group {
                Some(group) => {
                    let id = self.groups.get_mut(group)?.pop_front()?;
                    (Bytes::new(), Some(id))
                }
                None => {
                    let entry = self.list.pop_front()?;
                    let known = says_id(&entry).filter(|id| self.stands_for(&entry, id));
                    (entry.clone(), known.or_else(|| self.pushed_as(&entry, seen)))
                }
            };
            if let Some(id) = &known
                && self.jobs[id].has_expired(now)
            {
                self.forget(id);
                continue;
            }
            // A job of a group with the same id may have been passed over just before.
            if known.is_none() && self.jobs.get(seen).is_some_and(|job| job.has_expired(now)) {
                self.pass_over(seen);
            }
            let id = known.unwrap_or_else(|| self.new_id(&entry, seen));
            let is_pushed = says_id(&entry).as_ref() != Some(&id);
            let new = || Job { is_pushed, ..Job::new(&entry) };
            let job = self.jobs.entry(id.clone()).or_insert_with(new);
            job.attempt += 1;
            job.expires_ms = None;
            return Some(Taken { id, attempt: job.attempt, payload: job.payload.clone() });
        }
    }

    /// Whether an element of the list is this waiting job.
    fn stands_for(&self, entry: &[u8], id: &[u8]) -> bool {
        let stands =
            |job: &Job| job.state == State::Waiting && job.group.is_none() && job.is_in_list_as(entry, id);
        self.jobs.get(id).is_some_and(stands)
    }

    /// The waiting job that is this element without an id of its own: `seen`, if that is one of several.
    fn pushed_as(&self, entry: &[u8], seen: &[u8]) -> Option<Bytes> {
        let is_it = |id: &[u8]| self.jobs[id].is_pushed && self.stands_for(entry, id);
        let mut ids = self.jobs.keys().filter(|id| is_it(id));
        if self.jobs.contains_key(seen) && is_it(seen) { Some(seen.to_vec()) } else { ids.next().cloned() }
    }

    /// The id of an element that is no known job: its own if that is free; otherwise the server makes one up.
    fn new_id(&self, entry: &[u8], seen: &[u8]) -> Bytes {
        match says_id(entry) {
            Some(id) if !self.jobs.contains_key(&id) => id,
            Some(id) => {
                let again = [&id[..], b"#"].concat();
                let is_fit = seen.starts_with(&again) && !self.jobs.contains_key(seen);
                if is_fit { seen.to_vec() } else { [&again[..], b"any"].concat() }
            }
            None if self.jobs.contains_key(seen) => b"another".to_vec(),
            None => seen.to_vec(),
        }
    }

    /// The rows with a job that may be taken now.
    fn eligible(&self, now: i64) -> Vec<Group> {
        let under = self.groups.keys().filter(|group| {
            let active = self.active(Some(&Some((*group).clone())));
            self.limit.per_group.is_none_or(|most| active < most)
        });
        let rows = under.map(|group| Some(group.clone())).chain([None]);
        rows.filter(|row| self.clone().take(row, b"made up", now).is_some()).collect()
    }

    /// How many jobs the rate allows to take: at least, and at most.
    fn rate_room(&self, now: i64) -> [usize; 2] {
        let Some((most, per_ms)) = self.limit.rate else { return [usize::MAX; 2] };
        let within = |takes: &[i64], ms: i64| takes.iter().filter(|at| **at > now - ms).count();
        let late_ms = per_ms / 1000 + 1;
        let sure = within(&self.takes, per_ms + late_ms);
        let at_most = within(&self.takes[self.limit_from..], per_ms);
        [most.saturating_sub(sure), most.saturating_sub(at_most)]
    }

    /// How many jobs a take of `count` gets: at least, and at most.
    fn available(&self, count: usize, now: i64) -> [usize; 2] {
        let active = self.limit.active.map_or(usize::MAX, |most| most.saturating_sub(self.active(None)));
        let (mut copy, mut found) = (self.clone(), 0);
        while found < count.min(active) {
            let taken = copy.eligible(now).into_iter().find_map(|group| {
                let seen = format!("made up {found}");
                copy.take(&group, seen.as_bytes(), now)
            });
            let Some(taken) = taken else { break };
            let job = copy.jobs.get_mut(&taken.id).expect("it was just taken");
            job.state = State::Active { worker: Bytes::new(), end_ms: 0 };
            found += 1;
        }
        self.rate_room(now).map(|room| found.min(room))
    }

    /// Notes a take of this group. A group is never ahead by more than two jobs of another that could have
    /// been served: one of this round, and one of the next.
    fn note_turn(&mut self, group: &Group, eligible: &[Group], now: i64) -> Result<(), String> {
        let behind = self.passed.entry(group.clone()).or_default();
        behind.values_mut().for_each(|jobs| *jobs = jobs.saturating_sub(1));
        self.late.remove(group);
        let is_late = |row: &VecDeque<Bytes>| row.iter().any(|id| self.jobs[id].has_expired(now));
        let has_late = |other: &Group| other.as_ref().is_some_and(|other| is_late(&self.groups[other]));
        let others = eligible.iter().filter(|other| *other != group);
        // A group whose first job has expired may have had its turn for that job.
        for other in others.filter(|other| !self.late.contains(*other) && !has_late(other)) {
            let jobs = self.passed.entry(other.clone()).or_default().entry(group.clone()).or_default();
            *jobs += 1;
            if *jobs > 2 {
                return Err(format!("{group:?} is {jobs} jobs ahead of {other:?}"));
            }
        }
        Ok(())
    }
}

impl Model {
    pub(super) fn queue(&mut self, name: &[u8]) -> &mut Queue {
        self.queues.entry(name.to_vec()).or_default()
    }

    /// Checks whether the server may reply this, and applies what follows from it.
    pub(super) fn check(&mut self, name: &[u8], say: &Say, reply: &Value) -> Result<(), String> {
        let now = self.now;
        let result = match say {
            Say::Put(payload, options) => self.put(name, payload, options, reply),
            Say::Take { worker, lease_ms, count, how } => {
                self.take(name, (worker, *lease_ms, *count), how, reply)
            }
            Say::CronSet { .. } | Say::CronDel(_) | Say::CronRun(_) => self.cron(name, say, reply),
            Say::Limit(limit) => {
                let queue = self.queue(name);
                queue.limit = *limit;
                queue.limit_from = queue.takes.len();
                expect("OK", reply, *reply == Value::Simple(b"OK".to_vec()))
            }
            Say::Push(_) | Say::Pop(_) | Say::Delete | Say::Rename(_) => self.plain(name, say, reply),
            say => self.tend(name, say, reply),
        };
        for queue in self.queues.values_mut() {
            let eligible = queue.eligible(now);
            queue.passed.retain(|group, _| eligible.contains(group));
        }
        result
    }

    /// Redis' own commands on the list.
    fn plain(&mut self, name: &[u8], say: &Say, reply: &Value) -> Result<(), String> {
        let now = self.now;
        let queue = self.queue(name);
        match say {
            Say::Push(payload) => {
                queue.list.push_back(payload.clone());
                expect_count(queue.list.len(), reply)
            }
            Say::Pop(count) => {
                let popped: Vec<Bytes> = match reply {
                    Value::Array(items) => items.iter().map(text).collect(),
                    _ => Vec::new(),
                };
                let [least, most] = queue.rate_room(now).map(|room| room.min(queue.list.len()).min(*count));
                let is_so = (least..=most).contains(&popped.len());
                expect(&format!("{least} to {most} elements"), reply, is_so)?;
                let first: Vec<Bytes> = queue.list.drain(..popped.len()).collect();
                queue.takes.extend(popped.iter().map(|_| now));
                expect(&format!("{first:?}"), reply, first == popped)
            }
            Say::Delete => {
                let had = usize::from(!queue.list.is_empty());
                queue.list.clear();
                expect_count(had, reply)
            }
            Say::Rename(to) => {
                let list = std::mem::take(&mut queue.list);
                if list.is_empty() {
                    return expect_error(reply);
                }
                self.queue(to).list = list;
                expect("OK", reply, *reply == Value::Simple(b"OK".to_vec()))
            }
            other => unreachable!("{other:?}"),
        }
    }

    fn put(&mut self, name: &[u8], payload: &[u8], options: &Options, reply: &Value) -> Result<(), String> {
        let now = self.now;
        let is_long = |name: &Bytes| name.is_empty() || name.len() > NAME_BYTES_MAX;
        let is_wrong = options.tries.is_some_and(|tries| tries < 1)
            || options.delay_ms.is_some_and(|ms| !(0..=MS_MAX).contains(&ms))
            || options.id.as_ref().is_some_and(is_long)
            || options.group.as_ref().is_some_and(is_long);
        if is_wrong {
            return expect_error(reply);
        }
        let said = options.id.clone().or_else(|| says_id(payload));
        let queue = self.queue(name);
        let holder = options.lock.as_ref().and_then(|(lock, _)| queue.locks.get(lock));
        let is_over = |id: &Bytes| queue.jobs.get(id).is_none_or(|job| job.has_expired(now));
        let holder =
            holder.filter(|(id, until_ms)| *until_ms > now && !is_over(id)).map(|(id, _)| id.clone());
        let is_there = said.as_ref().is_some_and(|id| queue.jobs.contains_key(id));
        let is_refused = matches!(reply, Value::Error(text) if text.starts_with(b"JOBEXISTS"));
        if let Some(holder) = holder {
            let is_holder = *reply == Value::Bulk(holder.clone());
            return expect(&format!("{holder:?}"), reply, is_holder || is_there && is_refused);
        }
        if is_there {
            return expect("JOBEXISTS", reply, is_refused);
        }
        let Value::Bulk(id) = reply else { return expect("an id", reply, false) };
        let is_new = !queue.jobs.contains_key(id);
        expect(&format!("{said:?}"), reply, said.as_ref().map_or(is_new, |said| said == id))?;
        let mut job = Job::new(payload);
        job.is_named = options.id.is_some();
        job.tries = options.tries.map_or(TRIES, i64::cast_unsigned);
        job.group.clone_from(&options.group);
        job.expires_ms = options.expire_ms.map(|ms| now.saturating_add(ms));
        if let Some((lock, for_ms)) = &options.lock {
            let until_ms = for_ms.map_or(i64::MAX, |ms| now.saturating_add(ms));
            queue.locks.insert(lock.clone(), (id.clone(), until_ms));
            job.has_lock = true;
        }
        queue.jobs.insert(id.clone(), job);
        match options.delay_ms {
            Some(ms) if ms > 0 => {
                let job = queue.jobs.get_mut(id).expect("it was just put");
                job.state = State::Delayed(now.saturating_add(ms));
            }
            _ => queue.join(id, false),
        }
        Ok(())
    }

    fn take(
        &mut self,
        name: &[u8],
        (worker, lease_ms, count): (&[u8], i64, usize),
        how: &How,
        reply: &Value,
    ) -> Result<(), String> {
        let now = self.now;
        if lease_ms < 1 || count < 1 {
            return expect_error(reply);
        }
        let (How::Strict(others) | How::Fair(others)) = how;
        let names: Vec<Bytes> = [name.to_vec()].into_iter().chain(others.iter().cloned()).collect();
        let jobs = taken(reply);
        let from = jobs.first().map(|(queue, _)| queue.clone());
        // A queue before the served one, or any other if none was served, had no job that had to be taken.
        let is_strict = matches!(how, How::Strict(_));
        let passed_over =
            names.iter().take_while(|name| from.is_none() || is_strict && Some(*name) != from.as_ref());
        for name in passed_over.cloned().collect::<Vec<_>>() {
            let [least, _] = self.queue(&name).available(count, now);
            expect(&format!("{least} jobs of {}", String::from_utf8_lossy(&name)), reply, least == 0)?;
        }
        let Some(from) = from else { return expect("null", reply, is_nothing(reply)) };
        expect("one of the queues", reply, names.contains(&from))?;
        let queue = self.queue(&from);
        let [least, most] = queue.available(count, now);
        expect(&format!("{least} to {most} jobs"), reply, (least..=most).contains(&jobs.len()))?;
        for (queue_name, job) in &jobs {
            expect("jobs of one queue", reply, *queue_name == from)?;
            let eligible = queue.eligible(now);
            let fits = |group: &&Group| {
                let taken = queue.clone().take(group, &job.id, now);
                taken.as_ref() == Some(job)
            };
            let Some(group) = eligible.iter().find(fits).cloned() else {
                let next: Vec<_> =
                    eligible.iter().map(|group| queue.clone().take(group, &job.id, now)).collect();
                return Err(format!("next is one of {next:?}, the server gave {job:?}"));
            };
            queue.take(&group, &job.id, now);
            let end_ms = now.saturating_add(lease_ms);
            queue.jobs.get_mut(&job.id).expect("it was just taken").state =
                State::Active { worker: worker.to_vec(), end_ms };
            queue.takes.push(now);
            queue.note_turn(&group, &eligible, now)?;
        }
        Ok(())
    }

    /// The commands of workers and operators on jobs.
    fn tend(&mut self, name: &[u8], say: &Say, reply: &Value) -> Result<(), String> {
        let now = self.now;
        let queue = self.queue(name);
        match say {
            Say::Done(words) | Say::Release(words) => {
                let Some(claims) = claims(words) else { return expect_error(reply) };
                let ended = claims
                    .iter()
                    .filter(|(id, attempt)| queue.end(id, *attempt, matches!(say, Say::Done(_))));
                expect_count(ended.count(), reply)
            }
            Say::Fail(id, attempt, delay_ms) => {
                if delay_ms.is_some_and(|ms| ms < 0) || attempt.is_some_and(|attempt| attempt < 1) {
                    return expect_error(reply);
                }
                if !queue.is_active(id, attempt.map(i64::cast_unsigned)) {
                    return expect("null", reply, is_nothing(reply));
                }
                let state = queue.fail(id, now, *delay_ms);
                expect(state, reply, *reply == Value::Simple(state.as_bytes().to_vec()))
            }
            Say::KeepJobs(ms, _) | Say::KeepWorker(ms, _) if *ms < 1 => expect_error(reply),
            Say::KeepJobs(ms, words) => {
                let claims = match &words[..] {
                    [id, ids @ ..] if id == b"ID" => Some(ids.iter().map(|id| (id.clone(), None)).collect()),
                    words => claims(words),
                };
                let Some(claims) = claims else { return expect_error(reply) };
                let end_ms = now.saturating_add(*ms);
                let kept = claims.iter().filter(|(id, attempt)| queue.keep(id, *attempt, end_ms));
                expect_count(kept.count(), reply)
            }
            Say::KeepWorker(ms, worker) => {
                queue.workers.insert(worker.clone(), now.saturating_add(*ms));
                expect("OK", reply, *reply == Value::Simple(b"OK".to_vec()))
            }
            Say::Drop(id) => expect_count(usize::from(queue.drop_job(id)), reply),
            Say::Retry(id) => {
                let is_so = |job: &Job| matches!(job.state, State::Delayed(_) | State::Dead(_));
                let runs = queue.jobs.get(id).is_some_and(is_so);
                if runs {
                    queue.retry(id);
                }
                expect_count(usize::from(runs), reply)
            }
            Say::RetryAll(count) => {
                let mut dead: Vec<(i64, Bytes)> = queue.dead().collect();
                dead.sort();
                dead.truncate(count.unwrap_or(RETRIED));
                dead.iter().for_each(|(_, id)| queue.retry(id));
                expect_count(dead.len(), reply)
            }
            other => unreachable!("{other:?}"),
        }
    }
}

/// The passing of time.
impl Model {
    /// When the next thing happens by itself.
    pub(super) fn next_due(&self) -> Option<i64> {
        let of_job = |job: &Job| match job.state {
            State::Delayed(due_ms) => Some(due_ms),
            State::Active { end_ms, .. } => Some(end_ms),
            State::Waiting | State::Dead(_) => None,
        };
        let of_queue = |queue: &Queue| {
            let jobs = queue.jobs.values().filter_map(of_job).min();
            let crons = queue.crons.values().map(|line| line.next_ms).min();
            [jobs, crons].into_iter().flatten().min()
        };
        self.queues.values().filter_map(of_queue).min()
    }

    /// Does what happens by itself at this moment.
    pub(super) fn fire(&mut self) {
        let now = self.now;
        for queue in self.queues.values_mut() {
            let ended = |(id, job): (&Bytes, &Job)| match &job.state {
                State::Active { worker, end_ms } if *end_ms <= now => {
                    Some((*end_ms, id.clone(), queue.worker_until(worker)))
                }
                _ => None,
            };
            let mut ended: Vec<(i64, Bytes, i64)> = queue.jobs.iter().filter_map(ended).collect();
            ended.sort();
            for (_, id, until_ms) in ended {
                let state = &mut queue.jobs.get_mut(&id).expect("it is active").state;
                match state {
                    State::Active { end_ms, .. } if until_ms > now => *end_ms = until_ms,
                    _ => _ = queue.fail(&id, now, None),
                }
            }
            let due = |(id, job): (&Bytes, &Job)| match job.state {
                State::Delayed(due_ms) if due_ms <= now => Some((due_ms, id.clone())),
                _ => None,
            };
            let mut due: Vec<(i64, Bytes)> = queue.jobs.iter().filter_map(due).collect();
            due.sort();
            due.iter().for_each(|(_, id)| queue.join(id, false));
            for line in queue.crons.values_mut() {
                queue.list.extend(line.tick(now));
            }
        }
    }

    fn cron(&mut self, name: &[u8], say: &Say, reply: &Value) -> Result<(), String> {
        let now = self.now;
        let queue = self.queue(name);
        match say {
            Say::CronSet { name, schedule, payload, skips } => {
                let new = Line::new(schedule, payload, *skips, now);
                let line = queue.crons.entry(name.clone()).or_insert_with(|| new.clone());
                if !line.is_the_same_as(&new) {
                    *line = new;
                }
                expect(&line.next_ms.to_string(), reply, *reply == Value::Int(line.next_ms))
            }
            Say::CronDel(name) => expect_count(usize::from(queue.crons.remove(name).is_some()), reply),
            Say::CronRun(name) => {
                let payload = queue.crons.get(name).map(|line| line.payload_at(now));
                let count = usize::from(payload.is_some());
                queue.list.extend(payload);
                expect_count(count, reply)
            }
            other => unreachable!("{other:?}"),
        }
    }
}
