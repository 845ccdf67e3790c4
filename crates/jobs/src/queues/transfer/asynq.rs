//! asynq's tasks: an id in the queue, and a hash `asynq:{<queue>}:t:<id>` with the state and the message,
//! which includes the queue's name.
//!
//! Within its queue, a task can be run at once or archived, as asynq's own inspector does it.

use engine::{CommandError, Store};
use keyspace::queue::State;

use super::{Custody, Going, Job, NO_JOB, NOT_MOVED, Place, field, has_text, words};

const OTHER_QUEUE: CommandError = CommandError::fixed(
    "ERR asynq writes the queue's name into each task: a task can only be moved within its queue; enqueue it in the other one with asynq",
);

struct Moved<'a> {
    /// The common prefix of all keys of the queue.
    stem: &'a [u8],
    /// Whether the tasks are archived; otherwise they run now.
    are_archived: bool,
}

pub(super) fn moved<'a>(from: &Place<'a>, to: &Place<'a>) -> Result<Box<dyn Custody + 'a>, CommandError> {
    let Some(state) = from.state() else { return Err(NOT_MOVED) };
    if from.stem() != to.stem() {
        return Err(OTHER_QUEUE);
    }
    match (state, to.state()) {
        (State::Scheduled | State::Retry | State::Dead | State::Completed, Some(State::Waiting)) => {}
        (State::Waiting | State::Scheduled | State::Retry, Some(State::Dead)) => {}
        _ => return Err(NOT_MOVED),
    }
    Ok(Box::new(Moved { stem: to.stem(), are_archived: to.state() == Some(State::Dead) }))
}

fn task_key(stem: &[u8], id: &[u8]) -> Vec<u8> {
    [stem, b"t:", id].concat()
}

impl Custody for Moved<'_> {
    fn keys(&self, _: &Store, id: &[u8]) -> Vec<Vec<u8>> {
        vec![task_key(self.stem, id)]
    }

    fn take(&self, store: &Store, job: Job<'_>) -> Result<Going, CommandError> {
        let key = task_key(self.stem, job.element);
        if field(store, &key, b"msg").is_none() {
            return Err(NO_JOB);
        }
        let state = if self.are_archived { "archived" } else { "pending" };
        let mut set = words(&[b"HSET", &key, b"state", state.as_bytes()]);
        if !self.are_archived {
            set.extend(words(&[b"pending_since", format!("{}000000", store.now()).as_bytes()]));
        }
        let score = (store.now() / 1000) as f64;
        Ok(Going { element: job.element.to_vec(), score, commands: vec![set], is_known: false })
    }
}

struct AsynqRemoval<'a> {
    stem: &'a [u8],
}

pub(super) fn removed<'a>(from: &Place<'a>) -> Box<dyn Custody + 'a> {
    Box::new(AsynqRemoval { stem: from.stem() })
}

impl Custody for AsynqRemoval<'_> {
    fn keys(&self, store: &Store, id: &[u8]) -> Vec<Vec<u8>> {
        let key = task_key(self.stem, id);
        let lock = store.tx.hold.has(store.locate(&key).0).then(|| self.lock(store, &key)).flatten();
        [key].into_iter().chain(lock).collect()
    }

    fn take(&self, store: &Store, job: Job<'_>) -> Result<Going, CommandError> {
        let key = task_key(self.stem, job.element);
        if field(store, &key, b"msg").is_none() {
            return Ok(Going::default());
        }
        let mut delete = words(&[b"DEL", &key]);
        if let Some(lock) = self.lock(store, &key)
            && has_text(store, &lock, job.element)
        {
            delete.push(lock);
        }
        Ok(Going { commands: vec![delete], ..Going::default() })
    }
}

impl AsynqRemoval<'_> {
    /// The key that prevents other tasks of the same kind from being enqueued while this one exists.
    fn lock(&self, store: &Store, key: &[u8]) -> Option<Vec<u8>> {
        field(store, key, b"unique_key").filter(|lock| lock.starts_with(&[self.stem, b"unique:"].concat()))
    }
}
