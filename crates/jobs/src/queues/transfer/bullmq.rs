//! BullMQ's jobs: an id in the queue, and a hash under the name of the queue and the id.
//!
//! Each queue numbers its jobs itself, so a job cannot keep its id in another queue. Within its queue, a job
//! can be put among the waiting ones, as BullMQ's own "retry" and "promote" do it: the fields about its end
//! are removed from the hash, and the marker for which idle workers wait is set. Jobs of a flow are excepted,
//! because the flow's other jobs would have to be updated.

use ds::Kind;
use ds::zset::ZSet;
use engine::{CommandError, Store};
use keyspace::queue::State;

use super::{Custody, Going, Job, NO_JOB, Place, WITH_WORKERS, Words, field, has_text, words};

const OTHER_QUEUE: CommandError = CommandError::fixed(
    "ERR BullMQ numbers the jobs of each queue: a job can only be moved within its queue; add it to the other one with BullMQ",
);
const ONLY_TO_WAIT: CommandError = CommandError::fixed(
    "ERR jobs of BullMQ can only be moved to the key of those that wait, which ends with :wait",
);
const PAUSED: CommandError =
    CommandError::fixed("ERR BullMQ has paused this queue: resume it there before jobs are moved to it");
const OF_FLOW: CommandError =
    CommandError::fixed("ERR this job is part of a flow of BullMQ, which only BullMQ can change");
const OF_SCHEDULER: CommandError =
    CommandError::fixed("ERR this is the next job of a job scheduler of BullMQ: remove the scheduler there");

/// Fields of a hash that every job has. Other hashes of a queue, such as `meta`, do not have them.
const FIELDS: [&[u8]; 2] = [b"name", b"data"];

/// The keys that a job may have beside its hash.
const PARTS: [&[u8]; 5] = [b":logs", b":dependencies", b":processed", b":failed", b":unsuccessful"];

/// Jobs that are moved to the waiting ones.
struct Moved<'a> {
    /// The name of the queue, with the colon after it.
    stem: &'a [u8],
    from: Option<State>,
}

pub(super) fn moved<'a>(from: &Place<'a>, to: &Place<'a>) -> Result<Box<dyn Custody + 'a>, CommandError> {
    if from.class.is_some() && from.stem() != to.stem() {
        return Err(OTHER_QUEUE);
    }
    if !to.key.ends_with(b":wait") {
        return Err(ONLY_TO_WAIT);
    }
    Ok(Box::new(Moved { stem: to.stem(), from: from.state() }))
}

/// A move within a queue whose prefix is not `bull`, so that no pattern knows it: from a sorted set to a list
/// of one queue.
pub(super) fn by_shape<'a>(store: &Store, from: &Place<'a>, to: &Place<'a>) -> Option<Box<dyn Custody + 'a>> {
    let state = match from.key.strip_prefix(to.stem())? {
        b"failed" => State::Dead,
        b"completed" => State::Completed,
        b"delayed" => State::Scheduled,
        b"prioritized" => State::Waiting,
        _ => return None,
    };
    let is_set = store.peek(from.key).is_some_and(|record| record.value().kind() == Kind::ZSet);
    let is_it = is_set && !to.stem().is_empty() && to.key.strip_prefix(to.stem()) == Some(b"wait");
    is_it.then(|| Box::new(Moved { stem: to.stem(), from: Some(state) }) as Box<dyn Custody + 'a>)
}

/// Whether this is the hash of a job.
fn is_job(store: &Store, key: &[u8]) -> bool {
    FIELDS.iter().all(|name| field(store, key, name).is_some())
}

impl Moved<'_> {
    fn names(&self, id: &[u8]) -> [Vec<u8>; 3] {
        [id, b"meta", b"marker"].map(|name| [self.stem, name].concat())
    }
}

impl Custody for Moved<'_> {
    fn keys(&self, _: &Store, id: &[u8]) -> Vec<Vec<u8>> {
        self.names(id).to_vec()
    }

    fn take(&self, store: &Store, job: Job<'_>) -> Result<Going, CommandError> {
        let [key, meta, marker] = self.names(job.element);
        if !is_job(store, &key) {
            return Err(NO_JOB);
        }
        if field(store, &meta, b"paused").is_some() {
            return Err(PAUSED);
        }
        store.peek_as::<ZSet>(&marker)?;
        let has_ended = matches!(self.from, Some(State::Dead | State::Completed) | None);
        if has_ended && field(store, &key, b"parentKey").is_some() {
            return Err(OF_FLOW);
        }
        let mut commands = Vec::new();
        if has_ended {
            commands.push(words(&[
                b"HDEL",
                &key,
                b"finishedOn",
                b"processedOn",
                b"failedReason",
                b"returnvalue",
            ]));
        }
        if self.from == Some(State::Scheduled) {
            commands.push(words(&[b"HSET", &key, b"delay", b"0"]));
        }
        // Before version 5 of BullMQ, workers waited for the list itself.
        let is_known = store.exists(&meta);
        Ok(Going { commands, is_known, ..Going::unchanged(Job { score: None, ..job }) })
    }

    fn kind(&self) -> Option<Kind> {
        Some(Kind::List)
    }

    fn announce(&self) -> Vec<Words> {
        vec![words(&[b"ZADD", &[self.stem, b"marker"].concat(), b"0", b"0"])]
    }
}

/// Jobs that are removed.
struct BullmqRemoval<'a> {
    stem: &'a [u8],
    is_delayed: bool,
}

pub(super) fn removed<'a>(from: &Place<'a>) -> Box<dyn Custody + 'a> {
    Box::new(BullmqRemoval { stem: from.stem(), is_delayed: from.state() == Some(State::Scheduled) })
}

impl BullmqRemoval<'_> {
    fn key(&self, id: &[u8]) -> Vec<u8> {
        [self.stem, id].concat()
    }

    /// The key that prevents other jobs of the same kind from being added while this one exists, and the one
    /// for the job to add then.
    fn locks(&self, store: &Store, key: &[u8]) -> Option<[Vec<u8>; 2]> {
        let lock = field(store, key, b"deid")?;
        Some([b"de:", b"dn:"].map(|name| [self.stem, &name[..], &lock].concat()))
    }
}

impl Custody for BullmqRemoval<'_> {
    fn keys(&self, store: &Store, id: &[u8]) -> Vec<Vec<u8>> {
        let key = self.key(id);
        let mut keys: Vec<Vec<u8>> = PARTS.iter().map(|part| [&key, *part].concat()).collect();
        keys.push([&key, &b":lock"[..]].concat());
        if store.tx.hold.has(store.locate(&key).0) {
            keys.extend(self.locks(store, &key).into_iter().flatten());
        }
        keys.push(key);
        keys
    }

    fn take(&self, store: &Store, job: Job<'_>) -> Result<Going, CommandError> {
        let key = self.key(job.element);
        let part = |part: &[u8]| [&key, part].concat();
        if !is_job(store, &key) {
            return Ok(Going::default());
        }
        if store.exists(&part(b":lock")) {
            return Err(WITH_WORKERS);
        }
        if field(store, &key, b"parentKey").is_some() || store.exists(&part(b":dependencies")) {
            return Err(OF_FLOW);
        }
        if self.is_delayed && job.element.starts_with(b"repeat:") && field(store, &key, b"rjk").is_some() {
            return Err(OF_SCHEDULER);
        }
        let mut delete = words(&[b"DEL", &key]);
        delete.extend(PARTS.map(part));
        if let Some(locks) = self.locks(store, &key)
            && has_text(store, &locks[0], job.element)
        {
            delete.extend(locks);
        }
        Ok(Going { commands: vec![delete], ..Going::default() })
    }
}
