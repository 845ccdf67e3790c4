//! The keys beside a queue. They lie on its shard, because what decides where the queue lies is their hash tag:
//!
//! ```text
//! mail        {mail}:jobs        {mail}:jobs:active …
//! {eu}mail    {eu}:{eu}mail:jobs …                       where a hash tag or a rule of `colocate` decides
//! ```

use command::{CommandError, Store};

/// The sorted set of jobs that workers have, by the end of their lease in ms.
const ACTIVE: &str = ":jobs:active";
/// The sorted set of jobs that are to come later, by when in ms.
const DELAYED: &str = ":jobs:delayed";
/// The sorted set of jobs that had all their attempts, by when the last one ended in ms.
const DEAD: &str = ":jobs:dead";
/// The hash of what is kept of jobs, by id.
const JOBS: &str = ":jobs";
/// The sorted set of workers that live, by until when that is said, in ms.
const WORKERS: &str = ":jobs:workers";
/// The sorted set of schedules, by when each comes next in ms.
const CRON: &str = ":jobs:cron";
/// The hash of what schedules push and when, by name.
const LINES: &str = ":jobs:cron:lines";
/// How the names of locks begin.
const UNIQUE: &str = ":jobs:unique:";

const BAD_NAME: &str = "ERR no name of a key lies beside this queue: give it no braces, or a hash tag";

/// The names of the keys beside a queue.
pub(crate) struct Names {
    pub(crate) active: Vec<u8>,
    pub(crate) delayed: Vec<u8>,
    pub(crate) dead: Vec<u8>,
    pub(crate) jobs: Vec<u8>,
    pub(crate) workers: Vec<u8>,
    pub(crate) cron: Vec<u8>,
    pub(crate) lines: Vec<u8>,
    unique: Vec<u8>,
}

impl Names {
    /// Those beside `queue`.
    pub(crate) fn of(store: &Store, queue: &[u8]) -> Result<Names, CommandError> {
        let part = store.tx.hold.shards().placement().placing_part(queue);
        if part.is_empty() || part.contains(&b'}') {
            return Err(CommandError::new(BAD_NAME));
        }
        let rest: &[&[u8]] = if part.len() == queue.len() { &[] } else { &[b":", queue] };
        let begin = [&[b"{", part, b"}"], rest].concat().concat();
        let name = |end: &str| [&begin, end.as_bytes()].concat();
        Ok(Names {
            active: name(ACTIVE),
            delayed: name(DELAYED),
            dead: name(DEAD),
            jobs: name(JOBS),
            workers: name(WORKERS),
            cron: name(CRON),
            lines: name(LINES),
            unique: name(UNIQUE),
        })
    }

    /// The key of the lock `name`.
    pub(crate) fn lock(&self, name: &[u8]) -> Vec<u8> {
        [&self.unique, name].concat()
    }
}

/// The queue beside which this key lies, at whose times something is to happen.
pub(crate) fn queue_of(key: &[u8]) -> Option<&[u8]> {
    let begin = [ACTIVE, DELAYED, CRON].into_iter().find_map(|end| key.strip_suffix(end.as_bytes()))?;
    let inner = begin.strip_prefix(b"{")?;
    let end = inner.iter().position(|byte| *byte == b'}')?;
    match &inner[end + 1..] {
        [] => Some(&inner[..end]),
        rest => rest.strip_prefix(b":"),
    }
}
