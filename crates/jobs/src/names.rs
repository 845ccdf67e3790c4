//! The keys beside a queue. They lie on its shard, because what decides where the queue lies is their hash tag:
//!
//! ```text
//! mail        {mail}:jobs        {mail}:jobs:active …
//! {eu}mail    {eu}:{eu}mail:jobs …                       where a hash tag or a rule of `colocate` decides
//! ```

use std::borrow::Cow;

use command::{CommandError, Store, beside, note_beside};
use keyspace::queue::{ACTIVE, CRON, DEAD, DELAYED, JOBS, PLAIN, RATE, queue_beside};

use crate::groups::GroupKeys;
use crate::record::State;

/// The sorted set of workers that live, by until when that is said, in ms.
const WORKERS: &[u8] = b":jobs:workers";
/// The hash of what schedules push and when, by name.
const LINES: &[u8] = b":jobs:cron:lines";
/// How the names of locks go on.
const UNIQUE: &[u8] = b":jobs:unique:";

// That of the hash is the beginning of it.
const _: () = assert!(matches!(ACTIVE, [b':', b'j', b'o', b'b', b's', ..]) && JOBS.len() == 5);

/// The names of the keys beside a queue. All begin alike, and those that most commands need lie in one piece of memory.
pub(crate) struct Names {
    /// ```text
    /// {mail}:jobs:active
    ///     begin│   │jobs
    /// ```
    active: Vec<u8>,
    begin_len: usize,
}

impl Names {
    /// Those beside `queue`.
    pub(crate) fn of(store: &Store, queue: &[u8]) -> Result<Names, CommandError> {
        let mut active = beside(store, queue)?;
        let begin_len = active.len();
        active.extend_from_slice(ACTIVE);
        Ok(Names { active, begin_len })
    }

    /// Computes where the keys are that a lease of `queue` is kept in.
    pub(crate) fn note(&self, store: &mut Store, queue: &[u8]) {
        note_beside(store, queue, &self.active, [self.jobs().len(), self.active.len()]);
    }

    fn begin(&self) -> &[u8] {
        &self.active[..self.begin_len]
    }

    /// The sorted set of jobs that workers have, by the end of their lease in ms.
    pub(crate) fn active(&self) -> &[u8] {
        &self.active
    }

    /// The hash of what is kept of jobs, by id.
    pub(crate) fn jobs(&self) -> &[u8] {
        &self.active[..self.begin_len + JOBS.len()]
    }

    /// The sorted set of jobs that are to come later, by when in ms.
    pub(crate) fn delayed(&self) -> Vec<u8> {
        self.other(DELAYED)
    }

    /// The sorted set of jobs that had all their attempts, by when the last one ended in ms.
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

    /// The sorted set of workers that live, by until when that is said, in ms.
    pub(crate) fn workers(&self) -> Vec<u8> {
        self.other(WORKERS)
    }

    fn other(&self, end: &[u8]) -> Vec<u8> {
        [self.begin(), end].concat()
    }

    /// The sorted set of jobs that stand in the list as they were pushed, by a hash of their elements.
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

/// The queue beside which this key lies, at whose times something is to happen.
pub(crate) fn queue_of(key: &[u8]) -> Option<&[u8]> {
    [ACTIVE, DELAYED, DEAD, CRON, RATE].into_iter().find_map(|end| queue_beside(key, end))
}
