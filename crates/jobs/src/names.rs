//! The keys beside a queue. They lie on its shard, because what decides where the queue lies is their hash tag:
//!
//! ```text
//! mail        {mail}:jobs        {mail}:jobs:active …
//! {eu}mail    {eu}:{eu}mail:jobs …                       where a hash tag or a rule of `colocate` decides
//! ```

use command::{CommandError, Store, beside};
use keyspace::queue::{ACTIVE, CRON, DEAD, DELAYED, JOBS, LIMIT, RATE, TURN, queue_beside};

use crate::groups::GroupKeys;

/// The sorted set of workers that live, by until when that is said, in ms.
const WORKERS: &[u8] = b":jobs:workers";
/// The hash of what schedules push and when, by name.
const LINES: &[u8] = b":jobs:cron:lines";
/// How the names of locks begin.
const UNIQUE: &[u8] = b":jobs:unique:";

/// The names of the keys beside a queue: those that nearly every command needs, and how the others begin.
pub(crate) struct Names {
    pub(crate) active: Vec<u8>,
    pub(crate) delayed: Vec<u8>,
    pub(crate) dead: Vec<u8>,
    pub(crate) jobs: Vec<u8>,
    pub(crate) workers: Vec<u8>,
    begin: Vec<u8>,
}

impl Names {
    /// Those beside `queue`.
    pub(crate) fn of(store: &Store, queue: &[u8]) -> Result<Names, CommandError> {
        let begin = beside(store, queue)?;
        let name = |end: &[u8]| [&begin, end].concat();
        Ok(Names {
            active: name(ACTIVE),
            delayed: name(DELAYED),
            dead: name(DEAD),
            jobs: name(JOBS),
            workers: name(WORKERS),
            begin,
        })
    }

    fn other(&self, end: &[u8]) -> Vec<u8> {
        [&self.begin, end].concat()
    }

    /// The sorted set of schedules.
    pub(crate) fn cron(&self) -> Vec<u8> {
        self.other(CRON)
    }

    /// The hash of schedules.
    pub(crate) fn lines(&self) -> Vec<u8> {
        self.other(LINES)
    }

    /// The limit of the queue; how takes are counted against it is known to [`command::Limit`].
    pub(crate) fn limit(&self) -> Vec<u8> {
        self.other(LIMIT)
    }

    /// The key of the lock `name`.
    pub(crate) fn lock(&self, name: &[u8]) -> Vec<u8> {
        [&self.begin, UNIQUE, name].concat()
    }

    /// The hash of turns, which is there while jobs of groups wait.
    pub(crate) fn turn(&self) -> Vec<u8> {
        self.other(TURN)
    }

    /// The keys of groups.
    pub(crate) fn groups(&self) -> GroupKeys {
        GroupKeys::new(&self.begin)
    }
}

/// The queue beside which this key lies, at whose times something is to happen.
pub(crate) fn queue_of(key: &[u8]) -> Option<&[u8]> {
    [ACTIVE, DELAYED, DEAD, CRON, RATE].into_iter().find_map(|end| queue_beside(key, end))
}
