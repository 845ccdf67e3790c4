//! RQ's jobs: an id in the queue, and a hash `rq:job:<id>` with the job's queue and state.
//!
//! A job joins a queue as RQ's own "requeue" puts it there: its status becomes `queued`, and the fields about
//! its last run are removed.

use ds::set::Set;
use engine::{CommandError, Store};
use jiff::Timestamp;
use keyspace::queue::State;

use super::{Custody, Going, Job, NO_JOB, NOT_MOVED, Place, Words, field, words};

const QUEUE: &[u8] = b"rq:queue:";
const JOB: &[u8] = b"rq:job:";
/// The set of all queues.
const QUEUES: &[u8] = b"rq:queues";
/// A field that every job has.
const DATA: &[u8] = b"data";

struct Moved<'a> {
    /// The key of the queue.
    to: &'a [u8],
    /// Whether the jobs wait in another queue.
    are_queued: bool,
}

pub(super) fn moved<'a>(from: &Place<'a>, to: &Place<'a>) -> Result<Box<dyn Custody + 'a>, CommandError> {
    // Deferred jobs wait for other jobs.
    let is_deferred = from.key.starts_with(b"rq:deferred:");
    let may_leave = matches!(from.state(), None | Some(State::Waiting | State::Dead | State::Scheduled));
    if to.state() != Some(State::Waiting) || !may_leave || is_deferred {
        return Err(NOT_MOVED);
    }
    Ok(Box::new(Moved { to: to.key, are_queued: from.state() == Some(State::Waiting) }))
}

fn job_key(id: &[u8]) -> Vec<u8> {
    [JOB, id].concat()
}

impl Custody for Moved<'_> {
    fn keys(&self, _: &Store, id: &[u8]) -> Vec<Vec<u8>> {
        vec![job_key(id), QUEUES.to_vec()]
    }

    fn take(&self, store: &Store, job: Job<'_>) -> Result<Going, CommandError> {
        let key = job_key(job.element);
        if field(store, &key, DATA).is_none() {
            return Err(NO_JOB);
        }
        store.peek_as::<Set>(QUEUES)?;
        let mut set = words(&[b"HSET", &key, b"origin", &self.to[QUEUE.len()..], b"status", b"queued"]);
        let mut commands = Vec::new();
        if !self.are_queued {
            set.extend(words(&[b"enqueued_at", time(store.now()).as_bytes()]));
            commands.push(words(&[b"HDEL", &key, b"started_at", b"ended_at", b"exc_info"]));
        }
        commands.push(set);
        Ok(Going { commands, is_known: true, ..Going::unchanged(Job { score: None, ..job }) })
    }

    fn announce(&self) -> Vec<Words> {
        vec![words(&[b"SADD", QUEUES, self.to])]
    }
}

/// A time as RQ writes it.
fn time(now_ms: i64) -> String {
    Timestamp::from_millisecond(now_ms).map_or_else(|_| String::new(), |time| format!("{time:.6}"))
}

struct RqRemoval;

pub(super) fn removed<'a>() -> Box<dyn Custody + 'a> {
    Box::new(RqRemoval)
}

impl RqRemoval {
    fn names(id: &[u8]) -> [Vec<u8>; 3] {
        [&b""[..], b":dependents", b":dependencies"].map(|part| [&job_key(id), part].concat())
    }
}

impl Custody for RqRemoval {
    fn keys(&self, _: &Store, id: &[u8]) -> Vec<Vec<u8>> {
        Self::names(id).to_vec()
    }

    fn take(&self, store: &Store, job: Job<'_>) -> Result<Going, CommandError> {
        let names = Self::names(job.element);
        if field(store, &names[0], DATA).is_none() {
            return Ok(Going::default());
        }
        let mut delete = words(&[b"DEL"]);
        delete.extend(names);
        Ok(Going { commands: vec![delete], ..Going::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rq_does() {
        assert_eq!(time(1_700_000_000_042), "2023-11-14T22:13:20.042000Z");
    }
}
