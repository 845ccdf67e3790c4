//! Sidekiq's jobs, which are JSON objects with all of the job's data, and Resque's.
//!
//! A job that leaves `dead` or `retry` for a queue is pushed as Sidekiq's own "retry" does it: its attempt
//! does not count, and `enqueued_at` is the present. A job that joins `schedule` or `retry` from elsewhere is
//! due now; in `dead`, the score is the time of its death, which is now.

use ds::set::Set;
use engine::{CommandError, Store};
use keyspace::queue::State;

use super::{Custody, Going, Job, NOT_MOVED, Place, Words, words};
use crate::queues::id::json_member;
use crate::queues::member::{integer, quoted, stamped, with_member};

const NOT_WRAPPED: CommandError =
    CommandError::fixed("ERR this is not a failed job of Resque, which has its payload in it");

/// The destination of the jobs.
struct Sidekiq<'a> {
    from: Option<State>,
    to: State,
    /// The queue's name, if the destination is a queue.
    queue: &'a [u8],
    /// The key of the set of all queues.
    queues: Vec<u8>,
}

pub(super) fn moved<'a>(from: &Place<'a>, to: &Place<'a>) -> Result<Box<dyn Custody + 'a>, CommandError> {
    let (namespace, queue) = queue_of(to);
    Ok(Box::new(Sidekiq {
        from: from.state(),
        to: to.state().unwrap_or(State::Waiting),
        queue,
        queues: [namespace, b"queues"].concat(),
    }))
}

/// The namespace of a key, with its colon, and the queue's name.
fn queue_of<'a>(place: &Place<'a>) -> (&'a [u8], &'a [u8]) {
    const PREFIX: &[u8] = b"queue:";
    let key = place.key;
    let at = if key.starts_with(PREFIX) {
        Some(0)
    } else {
        memchr::memmem::find(key, b":queue:").map(|at| at + 1)
    };
    match at {
        Some(at) => (&key[..at], &key[at + PREFIX.len()..]),
        None => (place.stem(), b""),
    }
}

impl Custody for Sidekiq<'_> {
    fn keys(&self, _: &Store, _: &[u8]) -> Vec<Vec<u8>> {
        if self.to == State::Waiting { vec![self.queues.clone()] } else { Vec::new() }
    }

    fn take(&self, store: &Store, job: Job<'_>) -> Result<Going, CommandError> {
        let now_s = store.now() as f64 / 1000.0;
        let keeps_time = matches!(self.from, Some(State::Scheduled | State::Retry)) && self.to != State::Dead;
        let score = job.score.filter(|_| keeps_time).unwrap_or(now_s);
        let is_job = ["class", "queue"].iter().all(|name| json_member(job.element, name).is_some());
        if self.to != State::Waiting || !is_job {
            return Ok(Going { score, ..Going::unchanged(job) });
        }
        store.peek_as::<Set>(&self.queues)?;
        let mut element = with_member(job.element, &["queue"], &quoted(self.queue));
        if self.from != Some(State::Waiting) {
            element = element.and_then(|element| stamped(&element, "enqueued_at", store.now()));
        }
        let mut element = element.unwrap_or_else(|| job.element.to_vec());
        let is_retry = matches!(self.from, Some(State::Dead | State::Retry));
        if let Some(count) = integer(&element, "retry_count").filter(|count| is_retry && *count > i64::MIN) {
            let less = (count - 1).to_string();
            element = with_member(&element, &["retry_count"], less.as_bytes()).unwrap_or(element);
        }
        Ok(Going { element, score, is_known: true, ..Going::default() })
    }

    fn announce(&self) -> Vec<Words> {
        vec![words(&[b"SADD", &self.queues, self.queue])]
    }
}

/// The destination of Resque's jobs.
struct Resque<'a> {
    /// Whether they have failed: such a job contains the one that was pushed.
    is_wrapped: bool,
    queue: &'a [u8],
    queues: Vec<u8>,
}

pub(super) fn moved_in_resque<'a>(
    from: &Place<'a>,
    to: &Place<'a>,
) -> Result<Box<dyn Custody + 'a>, CommandError> {
    // The members of the set of delayed jobs are times, each of which has a list of jobs.
    if to.state() != Some(State::Waiting) || from.state() == Some(State::Scheduled) {
        return Err(NOT_MOVED);
    }
    let (namespace, queue) = queue_of(to);
    let queues = [namespace, b"queues"].concat();
    Ok(Box::new(Resque { is_wrapped: from.state() == Some(State::Dead), queue, queues }))
}

impl Custody for Resque<'_> {
    fn keys(&self, _: &Store, _: &[u8]) -> Vec<Vec<u8>> {
        vec![self.queues.clone()]
    }

    fn take(&self, store: &Store, job: Job<'_>) -> Result<Going, CommandError> {
        store.peek_as::<Set>(&self.queues)?;
        let element = if self.is_wrapped {
            json_member(job.element, "payload")
                .filter(|payload| payload.starts_with(b"{"))
                .ok_or(NOT_WRAPPED)?
        } else {
            job.element
        };
        Ok(Going { element: element.to_vec(), is_known: true, ..Going::default() })
    }

    fn announce(&self) -> Vec<Words> {
        vec![words(&[b"SADD", &self.queues, self.queue])]
    }
}
