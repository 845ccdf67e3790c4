//! Moves jobs from one state to another. Each transition keeps list, sorted sets and hash consistent, and its
//! effects do the same.

use std::borrow::Cow;

use crate::queues::{coming_end, own_id, popping_end};
use ds::hash::{CollectionLimits, Hash};
use ds::list::End;
use ds::num::ScoreBound;
use ds::zset::ZSet;
use engine::{
    Change, Class, CommandError, JobsDue, JobsNews, SOON_MS, Store, TxMessage, know_jobs, note_put_back,
    peek_into, push_command, push_event, upsert_in_place,
};
use keyspace::List;
use keyspace::{JobSettings, Kind, Str};

use crate::leasing::Next;
use crate::names::Names;
use crate::record::{Record, State, hash};

/// The longest id.
pub(crate) const ID_BYTES_MAX: usize = 512;
/// The most dead jobs that one command or visit drops for being too many or too old: more than come in at
/// once.
const DROPPED_MAX: usize = 64;
/// Pack the records of active jobs once there are more than this; with fewer, jobs finish before packing pays
/// off.
const ACTIVE_PLAIN_MAX: usize = 1024;
/// The most expired jobs that one command passes over: this takes some tens of milliseconds.
pub(crate) const PASSED_OVER_MAX: usize = if cfg!(test) { 100 } else { 10_000 };
/// Jobs with the same id of their own are numbered up to this; the server makes up ids for the rest.
const LIKE_IDS_MAX: usize = 9;

/// A queue with the keys beside it.
pub(crate) struct Jobs<'q> {
    pub(crate) queue: &'q [u8],
    pub(crate) names: Names,
}

/// A job that a worker took.
pub(crate) struct Taken {
    pub(crate) id: Vec<u8>,
    pub(crate) attempt: u64,
    pub(crate) payload: Vec<u8>,
}

/// The worker that takes a job, and when its lease ends.
#[derive(Clone, Copy)]
pub(crate) struct Lease<'a> {
    pub(crate) worker: &'a [u8],
    pub(crate) until_ms: i64,
}

/// A job as its worker names it: by its id, and optionally by the attempt.
#[derive(Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) id: &'a [u8],
    /// `None`: the current attempt, whichever it is.
    pub(crate) attempt: Option<u64>,
}

impl<'a> Claim<'a> {
    /// A claim on the job's current attempt, whichever it is.
    pub(crate) fn on_any(id: &'a [u8]) -> Claim<'a> {
        Claim { id, attempt: None }
    }

    /// Whether the claim names an attempt other than the job's last one.
    fn is_stale(&self, record: Option<&Record>) -> bool {
        self.attempt.is_some_and(|attempt| record.is_none_or(|record| record.attempts != attempt))
    }
}

impl<'q> Jobs<'q> {
    /// The jobs of `queue`, after checking their keys.
    ///
    /// # Errors
    /// If the queue's key or a key beside it holds something else, or no key can be named beside it.
    pub(crate) fn of(store: &Store, queue: &'q [u8]) -> Result<Jobs<'q>, CommandError> {
        let jobs = Self::to_change(store, queue, State::Active)?;
        let names = &jobs.names;
        for key in [names.delayed(), names.dead(), names.workers()] {
            check_kind(store, &key, Kind::ZSet)?;
        }
        Ok(jobs)
    }

    /// The jobs of `queue`, for a command that touches only the list, the records and the set of jobs in this
    /// state.
    ///
    /// # Errors
    /// If one of these keys holds something else, or no key can be named beside the queue.
    pub(crate) fn to_change(store: &Store, queue: &'q [u8], state: State) -> Result<Jobs<'q>, CommandError> {
        let jobs = Jobs { queue, names: Names::of(store, queue)? };
        jobs.check(store, state)?;
        Ok(jobs)
    }

    /// The jobs of `queue`, for a command that takes some, and whether any wait outside groups.
    ///
    /// # Errors
    /// If a key that a take touches holds something else, or no key can be named beside the queue.
    pub(crate) fn to_take(store: &mut Store, queue: &'q [u8]) -> Result<(Jobs<'q>, bool), CommandError> {
        let jobs = Jobs { queue, names: Names::of(store, queue)? };
        jobs.names.note(store, queue);
        let has_list = jobs.check(store, State::Active)?;
        Ok((jobs, has_list))
    }

    /// Checks the keys; whether the list is there.
    fn check(&self, store: &Store, state: State) -> Result<bool, CommandError> {
        let has_list = store.peek_as::<List>(self.queue)?.is_some();
        self.check_plain(store)?;
        self.names.set(state).map_or(Ok(()), |key| check_kind(store, &key, Kind::ZSet))?;
        check_kind(store, self.names.jobs(), Kind::Hash)?;
        Ok(has_list)
    }

    /// The jobs of `queue`, for a command that ends leases: computes where the keys are before it changes
    /// anything.
    ///
    /// # Errors
    /// If the queue's own key holds something else, or no key can be named beside it.
    pub(crate) fn to_end(store: &mut Store, queue: &'q [u8]) -> Result<Jobs<'q>, CommandError> {
        let names = Names::of(store, queue)?;
        names.note(store, queue);
        store.peek_as::<List>(queue)?;
        let jobs = Jobs { queue, names };
        jobs.check_plain(store)?;
        Ok(jobs)
    }

    /// Checks the key of jobs that are in the list as they were pushed. Few queues have it.
    fn check_plain(&self, store: &Store) -> Result<(), CommandError> {
        if self.has_plain(store) { check_kind(store, &self.names.plain(), Kind::ZSet) } else { Ok(()) }
    }

    fn has_plain(&self, store: &Store) -> bool {
        let (shard, _) = store.locate(self.queue);
        store.db(shard).queues().is_plain(self.queue)
    }

    /// The record of a job.
    pub(crate) fn record(&self, store: &Store, id: &[u8]) -> Result<Option<Record>, CommandError> {
        self.decoded(store, id, Record::decode)
    }

    /// The record of a job without payload, worker and reason.
    pub(crate) fn record_line(&self, store: &Store, id: &[u8]) -> Result<Option<Record>, CommandError> {
        self.decoded(store, id, Record::decode_line)
    }

    fn decoded(
        &self,
        store: &Store,
        id: &[u8],
        decode: impl FnOnce(&[u8]) -> Option<Record>,
    ) -> Result<Option<Record>, CommandError> {
        let mut buffer = Vec::new();
        let key = self.names.jobs();
        let jobs = peek_into::<Hash>(store, key, &mut buffer).map_err(|_| wrong_type(key))?;
        let Some(text) = jobs.and_then(|jobs| jobs.get(id)) else { return Ok(None) };
        decode(&text.bytes()).map(Some).ok_or_else(|| {
            let (key, id) = (key.escape_ascii(), id.escape_ascii());
            CommandError::new(format!("ERR the field {id} of {key} is no job: HDEL it"))
        })
    }

    fn keep(&self, store: &mut Store, id: &[u8], record: &Record) -> Result<(), CommandError> {
        Self::set_field(store, self.names.jobs(), id, &record.encode())
    }

    /// Sets a field of a hash beside the queue.
    pub(crate) fn set_field(
        store: &mut Store,
        key: &[u8],
        field: &[u8],
        text: &[u8],
    ) -> Result<(), CommandError> {
        let limits = store.config().hash;
        Self::set_limited(store, key, (field, text), &limits)
    }

    fn set_limited(
        store: &mut Store,
        key: &[u8],
        (field, text): (&[u8], &[u8]),
        limits: &CollectionLimits,
    ) -> Result<(), CommandError> {
        store.upsert::<Hash>(key).map_err(|_| wrong_type(key))?.set(field, text, limits);
        store.changed_with(key, Change::new(Class::Hash, "hset").times(0), |store| {
            store.effect(&[b"HSET", key, field, text]);
        });
        Ok(())
    }

    /// Removes a field of a hash beside the queue, if it is there.
    pub(crate) fn remove_field(store: &mut Store, key: &[u8], field: &[u8]) -> Result<(), CommandError> {
        let Some(mut fields) = store.write_as::<Hash>(key).map_err(|_| wrong_type(key))? else {
            return Ok(());
        };
        let (was_there, is_empty) = (fields.remove(field), fields.lend().is_empty());
        drop(fields);
        if was_there {
            store.changed_with(key, Change::new(Class::Hash, "hdel").times(0), |store| {
                store.effect(&[b"HDEL", key, field]);
            });
        }
        if is_empty {
            store.delete_if_empty(key);
        }
        Ok(())
    }

    /// Deletes the record of a job that is over, or of which only the element in the list remains.
    pub(crate) fn forget(
        &self,
        store: &mut Store,
        id: &[u8],
        lock: Option<&[u8]>,
    ) -> Result<(), CommandError> {
        Self::remove_field(store, self.names.jobs(), id)?;
        lock.into_iter().for_each(|lock| self.unlock(store, id, lock));
        Ok(())
    }

    /// Releases the job's lock. Leaves the key alone if another job holds it.
    fn unlock(&self, store: &mut Store, id: &[u8], lock: &[u8]) {
        let key = self.names.lock(lock);
        if matches!(store.peek_as::<Str>(&key), Ok(Some(holder)) if *holder.bytes() == *id) {
            store.delete(&key);
        }
    }

    /// Puts an id into a sorted set, or moves it there. Returns the number of ids in the set.
    pub(crate) fn set_time(
        store: &mut Store,
        key: &[u8],
        id: &[u8],
        time_ms: i64,
    ) -> Result<usize, CommandError> {
        let limits = store.config().zset;
        let mut ids = upsert_in_place::<ZSet>(store, key).map_err(|_| wrong_type(key))?;
        ids.insert(id, time_ms as f64, &limits);
        let count = ids.lend().len();
        drop(ids);
        store.changed_with(key, Change::new(Class::ZSet, "zadd").times(0), |store| {
            store.effect(&[b"ZADD", key, itoa::Buffer::new().format(time_ms).as_bytes(), id]);
        });
        Ok(count)
    }

    /// Sets a time at which the job needs attention, and tells the thread if that is soon.
    pub(crate) fn set_due(
        &self,
        store: &mut Store,
        key: &[u8],
        id: &[u8],
        time_ms: i64,
    ) -> Result<usize, CommandError> {
        let count = Self::set_time(store, key, id, time_ms)?;
        // The look of each second finds later times early enough.
        if time_ms < store.now() + SOON_MS {
            let (shard, _) = store.locate(self.queue);
            let (db, queue) = (store.client.db, self.queue.into());
            store.tx.outbox.push(TxMessage::Jobs(JobsNews::Due(JobsDue { time_ms, shard, db, queue })));
        }
        Ok(count)
    }

    /// Removes an id from a sorted set; false if it is not there.
    pub(crate) fn take_out(store: &mut Store, key: &[u8], id: &[u8]) -> Result<bool, CommandError> {
        let Some(mut set) = store.write_as::<ZSet>(key).map_err(|_| wrong_type(key))? else {
            return Ok(false);
        };
        let (was_there, is_empty) = (set.remove(id).is_some(), set.lend().is_empty());
        drop(set);
        if was_there {
            store.changed_with(key, Change::new(Class::ZSet, "zrem").times(0), |store| {
                store.effect(&[b"ZREM", key, id]);
            });
        }
        if is_empty {
            store.delete_if_empty(key);
        }
        Ok(was_there)
    }

    /// Pushes onto a list. Returns its new length.
    pub(crate) fn push(
        store: &mut Store,
        key: &[u8],
        end: End,
        element: &[u8],
    ) -> Result<usize, CommandError> {
        let limits = store.config().list;
        let list = store.upsert::<List>(key)?;
        list.push(end, element);
        list.compress_inner(&limits);
        let len = list.len();
        store.changed_with(key, Change::new(Class::List, push_event(end)), |store| {
            store.effect(&[push_command(end), key, element]);
        });
        Ok(len)
    }

    /// The end at which new jobs are pushed.
    pub(crate) fn coming_end(&self, store: &Store) -> End {
        coming_end(store, self.queue)
    }

    /// Makes a job wait that is in no state, or was removed from its previous one.
    pub(crate) fn wait(
        &self,
        store: &mut Store,
        id: &[u8],
        mut record: Record,
        end: End,
    ) -> Result<(), CommandError> {
        let payload = record.payload.take().unwrap_or_default();
        record.state = State::Waiting;
        record.is_at = false;
        record.worker.clear();
        let stands_itself = record.is_pushed || own_id(&payload).as_deref() == Some(id);
        let element = if stands_itself { Cow::Borrowed(&payload) } else { Cow::Owned(reference(id)) };
        match &record.group {
            Some(group) => self.wait_in_group(store, group, end, &element)?,
            None => {
                let len = Self::push(store, self.queue, end, &element)?;
                if len == 1 {
                    know_jobs(store, self.queue);
                }
            }
        }
        if !stands_itself {
            record.payload = Some(payload);
        } else if record.is_needless() {
            return self.forget(store, id, None);
        } else {
            let of_payload = hash(&payload);
            record.payload_hash = Some(of_payload);
            if record.is_pushed {
                Self::set_time(store, &self.names.plain(), id, of_payload.into())?;
            }
        }
        self.keep(store, id, &record)
    }

    /// Delays a job until `due_ms`.
    pub(crate) fn delay(
        &self,
        store: &mut Store,
        id: &[u8],
        mut record: Record,
        due_ms: i64,
    ) -> Result<(), CommandError> {
        record.state = State::Delayed;
        record.worker.clear();
        self.set_due(store, &self.names.delayed(), id, due_ms)?;
        self.keep(store, id, &record)
    }

    /// Takes the next job; `None` if there is none or the queue is paused.
    pub(crate) fn take(&self, store: &mut Store, lease: Lease<'_>) -> Result<Option<Taken>, CommandError> {
        for _ in 0..PASSED_OVER_MAX {
            let mut next = Next::None;
            self.take_next(store, &mut next)?;
            let (id, record) = match &mut next {
                Next::Job(id, record) => (id, record),
                Next::TooLate => continue,
                Next::None => return Ok(None),
            };
            if let Some(group) = &record.group {
                self.count_active(store, group, true)?;
            }
            record.state = State::Active;
            // The job began in time, even if this attempt fails.
            record.begins_until_ms = None;
            record.payload_hash = None;
            // A client may have written any number.
            record.attempts = record.attempts.saturating_add(1);
            assert!(record.attempts > 0, "a worker is told which attempt it makes");
            record.worker = lease.worker.to_vec();
            let active_count = self.set_due(store, self.names.active(), id, lease.until_ms)?;
            let mut limits = store.config().hash;
            if active_count <= ACTIVE_PLAIN_MAX {
                limits.pack_bytes_min = 0;
            }
            Self::set_limited(store, self.names.jobs(), (id, &record.encode()), &limits)?;
            let (id, payload) = (std::mem::take(id), record.payload.take().unwrap_or_default());
            return Ok(Some(Taken { id, attempt: record.attempts, payload }));
        }
        Ok(None)
    }

    /// Identifies an element that was taken from a list, that of `group` or the queue's. Returns the job's id
    /// and its record, payload included.
    #[inline]
    pub(crate) fn identify(
        &self,
        store: &mut Store,
        element: Vec<u8>,
        group: Option<&[u8]>,
    ) -> Result<(Vec<u8>, Record), CommandError> {
        let own = own_id(&element).filter(|id| (1..=ID_BYTES_MAX).contains(&id.len()));
        let own = own.map(|id| id.into_owned());
        let known = own.as_ref().map_or(Ok(None), |own| self.record(store, own))?;
        let is_free = known.is_none();
        let is_its = |record: &Record| record.state == State::Waiting && record.group.as_deref() == group;
        let own = match (own, known.filter(is_its)) {
            (Some(own), Some(record)) if record.is_of(&element) => {
                return Ok((own, Record { payload: Some(element), ..record }));
            }
            (Some(own), Some(record)) if record.payload.is_some() && is_reference(&element, &own) => {
                return Ok((own, record));
            }
            (own, _) => own,
        };
        if group.is_none()
            && let Some((id, record)) = self.take_plain(store, &element)?
        {
            return Ok((id, Record { payload: Some(element), ..record }));
        }
        let mut record = Record::new(State::Waiting, Some(element));
        match own {
            Some(own) if is_free => return Ok((own, record)),
            _ => record.is_pushed = group.is_none(),
        }
        // Another job may have the same id of its own, for example if it was pushed twice.
        let id = match own {
            Some(own) => self.other_id(store, &own)?,
            None => self.new_id(store)?,
        };
        Ok((id, record))
    }

    /// The job that came back to the list as this element, which has no id of its own.
    fn take_plain(
        &self,
        store: &mut Store,
        element: &[u8],
    ) -> Result<Option<(Vec<u8>, Record)>, CommandError> {
        if !self.has_plain(store) {
            return Ok(None);
        }
        let (key, of_element) = (self.names.plain(), f64::from(hash(element)));
        loop {
            let plain = store.peek_as::<ZSet>(&key).map_err(|_| wrong_type(&key))?;
            let first = plain.and_then(|plain| {
                let bound = ScoreBound::Inclusive(of_element);
                plain.at(plain.score_range(bound, bound).start).filter(|(_, score)| *score == of_element)
            });
            let Some(id) = first.map(|(id, _)| id.into_owned()) else { return Ok(None) };
            Self::take_out(store, &key, &id)?;
            let record = self.record(store, &id)?;
            // A client may have deleted its record.
            if let Some(record) = record.filter(|record| record.is_pushed && record.state == State::Waiting) {
                return Ok(Some((id, record)));
            }
        }
    }

    /// A new id that no job has.
    pub(crate) fn new_id(&self, store: &mut Store) -> Result<Vec<u8>, CommandError> {
        loop {
            let id =
                format!("{}-{:08x}", store.now(), store.random(self.queue).next_u64() as u32).into_bytes();
            if self.record(store, &id)?.is_none() {
                return Ok(id);
            }
        }
    }

    /// An id derived from `id` that no job has.
    fn other_id(&self, store: &mut Store, id: &[u8]) -> Result<Vec<u8>, CommandError> {
        for number in 2..=LIKE_IDS_MAX {
            let other = [id, format!("#{number}").as_bytes()].concat();
            if self.record(store, &other)?.is_none() {
                return Ok(other);
            }
        }
        self.new_id(store)
    }

    /// Whether a worker has a job.
    pub(crate) fn is_active(&self, store: &Store, id: &[u8]) -> Result<bool, CommandError> {
        Ok(self.time_ms(store, State::Active, id)?.is_some())
    }

    /// The time by which jobs in this state are sorted.
    pub(crate) fn time_ms(
        &self,
        store: &Store,
        state: State,
        id: &[u8],
    ) -> Result<Option<i64>, CommandError> {
        let Some(key) = self.names.set(state) else { return Ok(None) };
        Ok(store.peek_as::<ZSet>(&key)?.and_then(|set| set.score(id)).map(|time_ms| time_ms as i64))
    }

    /// Extends the lease of a job; false if the worker no longer has it.
    pub(crate) fn extend(
        &self,
        store: &mut Store,
        claim: Claim<'_>,
        until_ms: i64,
    ) -> Result<bool, CommandError> {
        if claim.attempt.is_some() && claim.is_stale(self.record_line(store, claim.id)?.as_ref()) {
            return Ok(false);
        }
        let is_active = self.is_active(store, claim.id)?;
        if is_active {
            self.set_due(store, self.names.active(), claim.id, until_ms)?;
        }
        Ok(is_active)
    }

    /// Ends a job that is done; false if the worker no longer has it.
    pub(crate) fn done(&self, store: &mut Store, claim: Claim<'_>) -> Result<bool, CommandError> {
        let id = claim.id;
        let line = self.record_line(store, id)?;
        if claim.is_stale(line.as_ref()) {
            return Ok(false);
        }
        let was_active = self.end_lease(store, id, line.as_ref())?;
        if was_active {
            self.forget(store, id, line.and_then(|line| line.lock).as_deref())?;
            if store.config().recovers {
                // Recovery must not return it on behalf of the process that reports it as running.
                note_put_back(store, self.queue, &[&reference(id)]);
            }
        }
        Ok(was_active)
    }

    /// Ends an attempt that failed: the job waits, is delayed until `due_ms`, or is dead. `None` if the
    /// worker no longer has it.
    pub(crate) fn fail(
        &self,
        store: &mut Store,
        claim: Claim<'_>,
        due_ms: Option<i64>,
        why: &[u8],
    ) -> Result<Option<State>, CommandError> {
        let id = claim.id;
        let record = self.record(store, id)?;
        if claim.is_stale(record.as_ref()) || !self.end_lease(store, id, record.as_ref())? {
            return Ok(None);
        }
        let Some(mut record) = record else { return Ok(None) };
        record.why = why.to_vec();
        if record.attempts >= record.attempts_max.unwrap_or(store.config().jobs.tries) {
            self.bury(store, id, record)?;
            return Ok(Some(State::Dead));
        }
        if let Some(due_ms) = due_ms {
            record.is_at = false;
            self.delay(store, id, record, due_ms)?;
            return Ok(Some(State::Delayed));
        }
        let end = popping_end(store, self.queue);
        self.wait(store, id, record, end)?;
        Ok(Some(State::Waiting))
    }

    /// Gives back a job that the worker has not begun; false if the worker no longer has it.
    pub(crate) fn release(&self, store: &mut Store, claim: Claim<'_>) -> Result<bool, CommandError> {
        let id = claim.id;
        let record = self.record(store, id)?;
        if claim.is_stale(record.as_ref()) || !self.end_lease(store, id, record.as_ref())? {
            return Ok(false);
        }
        let Some(mut record) = record else { return Ok(false) };
        record.attempts = record.attempts.saturating_sub(1);
        let end = popping_end(store, self.queue);
        self.wait(store, id, record, end)?;
        Ok(true)
    }

    fn bury(&self, store: &mut Store, id: &[u8], mut record: Record) -> Result<(), CommandError> {
        record.state = State::Dead;
        let now_ms = store.now();
        Self::set_time(store, &self.names.dead(), id, now_ms)?;
        let read = Record::decode(&record.encode());
        assert!(read.as_ref() == Some(&record), "a record is read as it was written");
        self.keep(store, id, &record)?;
        self.drop_dead(store)?;
        Ok(())
    }

    /// Drops dead jobs that are too many or too old, the oldest first, some at a time. Returns when there is
    /// something to drop again.
    pub(crate) fn drop_dead(&self, store: &mut Store) -> Result<Option<i64>, CommandError> {
        let (JobSettings { dead_max, dead_timeout_ms, .. }, now_ms) = (store.config().jobs, store.now());
        for _ in 0..DROPPED_MAX {
            let Some(dead) = store.peek_as::<ZSet>(&self.names.dead())? else { return Ok(None) };
            let Some((id, died_ms)) = dead.at(0) else { return Ok(None) };
            let ends_ms = dead_timeout_ms.map(|timeout_ms| (died_ms as i64).saturating_add(timeout_ms));
            if dead.len() <= dead_max && ends_ms.is_none_or(|ends_ms| ends_ms > now_ms) {
                return Ok(ends_ms);
            }
            let id = id.to_vec();
            let was_dead = self.drop_from(store, &self.names.dead(), &id)?;
            assert!(was_dead, "the first job of a set is in it");
        }
        Ok(Some(now_ms))
    }

    fn drop_from(&self, store: &mut Store, key: &[u8], id: &[u8]) -> Result<bool, CommandError> {
        let was_there = Self::take_out(store, key, id)?;
        if was_there {
            let lock = self.record_line(store, id)?.and_then(|line| line.lock);
            self.forget(store, id, lock.as_deref())?;
        }
        Ok(was_there)
    }

    /// Drops a job in any state; false if it has no record.
    pub(crate) fn drop(&self, store: &mut Store, id: &[u8]) -> Result<bool, CommandError> {
        let Some(record) = self.record(store, id)? else { return Ok(false) };
        match record.state {
            State::Active => self.done(store, Claim::on_any(id)),
            State::Delayed => self.drop_from(store, &self.names.delayed(), id),
            State::Dead => self.drop_from(store, &self.names.dead(), id),
            // The take that reaches it passes over it: finding it in the list would take long.
            State::Waiting if record.is_dropped() => Ok(false),
            State::Waiting => {
                if let Some(lock) = &record.lock {
                    self.unlock(store, id, lock);
                }
                self.keep(store, id, &record.dropped(&reference(id)))?;
                Ok(true)
            }
        }
    }

    /// Makes a dead or delayed job wait, with all its attempts before it; false if it is neither.
    pub(crate) fn retry(&self, store: &mut Store, id: &[u8]) -> Result<bool, CommandError> {
        let record = self.record(store, id)?;
        self.check_group(store, record.as_ref().and_then(|record| record.group.as_deref()))?;
        let is_either = Self::take_out(store, &self.names.dead(), id)?
            || Self::take_out(store, &self.names.delayed(), id)?;
        let Some(mut record) = record.filter(|_| is_either) else { return Ok(false) };
        record.attempts = 0;
        let end = self.coming_end(store);
        self.wait(store, id, record, end)?;
        Ok(true)
    }

    /// Takes the lock `name` for a job, for `for_ms`. Returns the id of the holder if another job has it.
    pub(crate) fn lock(
        &self,
        store: &mut Store,
        id: &[u8],
        name: &[u8],
        for_ms: Option<i64>,
    ) -> Result<Option<Vec<u8>>, CommandError> {
        let key = self.names.lock(name);
        if let Some(holder) = store.peek_as::<Str>(&key).map_err(|_| wrong_type(&key))? {
            let holder = holder.bytes().into_owned();
            // An expired job no longer holds its lock, even if no take has passed over it yet.
            if !self.record(store, &holder)?.is_some_and(|record| record.comes_too_late(store.now())) {
                return Ok(Some(holder));
            }
        }
        let expiry = for_ms.map(|for_ms| store.now().saturating_add(for_ms));
        store.set_string(&key, id, expiry);
        store.changed_with(&key, Change::new(Class::String, "set").times(0), |store| match expiry {
            None => store.effect(&[b"SET", &key, id]),
            Some(expiry) => {
                store.effect(&[b"SET", &key, id, b"PXAT", itoa::Buffer::new().format(expiry).as_bytes()]);
            }
        });
        Ok(None)
    }

    /// Adds a job that waits, or is delayed until `due_ms`.
    pub(crate) fn put(
        &self,
        store: &mut Store,
        id: &[u8],
        record: Record,
        due_ms: Option<i64>,
    ) -> Result<(), CommandError> {
        assert!(record.payload.is_some(), "a new job has its payload");
        assert!(record.attempts == 0 && record.worker.is_empty(), "no worker has had a new job");
        match due_ms.filter(|due_ms| *due_ms > store.now()) {
            Some(due_ms) => self.delay(store, id, record, due_ms),
            None => {
                let end = self.coming_end(store);
                self.wait(store, id, record, end)
            }
        }
    }
}

/// What is before and behind the id in the element for a job whose payload has no id of its own: a small payload that
/// has.
const REFERENCE: [&[u8]; 2] = [b"{\"id\":\"", b"\"}"];

/// The element for a job whose payload has no id of its own.
fn reference(id: &[u8]) -> Vec<u8> {
    let [before, behind] = REFERENCE;
    [before, &escaped(id), behind].concat()
}

/// Whether the element is the [`reference`] to this id.
fn is_reference(element: &[u8], id: &[u8]) -> bool {
    let [before, behind] = REFERENCE;
    let written = element.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
    written.is_some_and(|written| *written == *escaped(id))
}

/// The id as it stands in a JSON string.
fn escaped(id: &[u8]) -> Cow<'_, [u8]> {
    if !id.iter().any(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)) {
        return Cow::Borrowed(id);
    }
    let mut text = Vec::with_capacity(2 * id.len());
    for &byte in id {
        match byte {
            b'"' | b'\\' => text.extend([b'\\', byte]),
            0..0x20 => text.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => text.push(byte),
        }
    }
    Cow::Owned(text)
}

fn check_kind(store: &Store, key: &[u8], kind: Kind) -> Result<(), CommandError> {
    match store.peek(key) {
        Some(record) if record.value().kind() != kind => Err(wrong_type(key)),
        Some(_) | None => Ok(()),
    }
}

pub(crate) fn wrong_type(key: &[u8]) -> CommandError {
    let key = key.escape_ascii();
    CommandError::new(format!("WRONGTYPE {key}, which belongs to the queue's jobs, holds something else"))
}
