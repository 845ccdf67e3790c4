//! The names of the keys beside a queue. Their hash tag is whatever decides the queue's shard, so they are on
//! the same one:
//!
//! ```text
//! mail        {mail}:jobs        {mail}:jobs:active …
//! {eu}mail    {eu}:{eu}mail:jobs …                       where a hash tag or a rule of `colocate` decides
//! {eu}mail    {eu}:{eu}mail:jobs …                       if a hash tag or a rule of `colocate` decides

use std::borrow::Cow;

use engine::{CommandError, Store, beside, note_beside};
use keyspace::queue::{ACTIVE, CRON, DEAD, DELAYED, JOBS, PLAIN, RATE, queue_beside};

use crate::groups::GroupKeys;
use crate::record::State;

/// The sorted set of live workers, by the end of their heartbeat in ms.
const WORKERS: &[u8] = b":jobs:workers";
/// The hash of schedules and their payloads, by name.
const LINES: &[u8] = b":jobs:cron:lines";
/// The infix of the names of locks.
const UNIQUE: &[u8] = b":jobs:unique:";

// The hash's name has to be a prefix of this one.
const _: () = assert!(matches!(ACTIVE, [b':', b'j', b'o', b'b', b's', ..]) && JOBS.len() == 5);

/// The names of the keys beside a queue. All have the same prefix; the two that most commands need share one
/// buffer.
pub(crate) struct Names {
    /// ```text
    /// {mail}:jobs:active
    ///     begin│   │jobs
    /// ```
    active: Vec<u8>,
    begin_len: usize,
}

impl Names {
    /// The names of the keys beside `queue`.
    pub(crate) fn of(store: &Store, queue: &[u8]) -> Result<Names, CommandError> {
        let mut active = beside(store, queue)?;
        let begin_len = active.len();
        active.extend_from_slice(ACTIVE);
        Ok(Names { active, begin_len })
    }

    /// Computes in advance where the keys are that a lease of `queue` touches.
    pub(crate) fn note(&self, store: &mut Store, queue: &[u8]) {
        note_beside(store, queue, &self.active, [self.jobs().len(), self.active.len()]);
    }

    fn begin(&self) -> &[u8] {
        &self.active[..self.begin_len]
    }

    /// The sorted set of active jobs, by the end of their lease in ms.
    pub(crate) fn active(&self) -> &[u8] {
        &self.active
    }

    /// The hash of the records of jobs, by id.
    pub(crate) fn jobs(&self) -> &[u8] {
        &self.active[..self.begin_len + JOBS.len()]
    }

    /// The sorted set of delayed jobs, by their due time in ms.
    pub(crate) fn delayed(&self) -> Vec<u8> {
        self.other(DELAYED)
    }

    /// The sorted set of jobs that used up their attempts, by the end of the last one in ms.
    pub(crate) fn dead(&self) -> Vec<u8> {
        self.other(DEAD)
    }

    /// The sorted set of the jobs in this state, if they have one.
    pub(crate) fn set(&self, state: State) -> Option<Cow<'_, [u8]>> {
        match state {
            State::Active => Some(Cow::Borrowed(self.active())),
            State::Delayed => Some(Cow::Owned(self.delayed())),
            State::Dead => Some(Cow::Owned(self.dead())),
            State::Waiting => None,
        }
    }

    /// The sorted set of live workers, by the end of their heartbeat in ms.
    pub(crate) fn workers(&self) -> Vec<u8> {
        self.other(WORKERS)
    }

    fn other(&self, end: &[u8]) -> Vec<u8> {
        [self.begin(), end].concat()
    }

    /// The sorted set of jobs that are in the list as they were pushed, by a hash of their elements.
    pub(crate) fn plain(&self) -> Vec<u8> {
        self.other(PLAIN)
    }

    /// The sorted set of schedules.
    pub(crate) fn cron(&self) -> Vec<u8> {
        self.other(CRON)
    }

    /// The hash of schedules.
    pub(crate) fn lines(&self) -> Vec<u8> {
        self.other(LINES)
    }

    /// The key of the lock `name`.
    pub(crate) fn lock(&self, name: &[u8]) -> Vec<u8> {
        [self.begin(), UNIQUE, name].concat()
    }

    /// The keys of groups.
    pub(crate) fn groups(&self) -> GroupKeys {
        GroupKeys::new(self.begin())
    }
}

/// The queue to which a key of times belongs.
pub(crate) fn queue_of(key: &[u8]) -> Option<&[u8]> {
    [ACTIVE, DELAYED, DEAD, CRON, RATE].into_iter().find_map(|end| queue_beside(key, end))
}
