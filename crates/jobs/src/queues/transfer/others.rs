//! Celery's messages, and the keys of dramatiq and arq for an id.

use engine::{CommandError, Store};
use keyspace::queue::{CELERY_PRIORITY, State};

use super::{Custody, Going, Job, NOT_MOVED, Place, WITH_WORKERS, words};
use crate::queues::member::{quoted, with_member};

/// A message of Celery names its origin. A worker that does not acknowledge it returns it there, and so do
/// retries.
struct Celery<'a> {
    queue: &'a [u8],
}

pub(super) fn moved_in_celery<'a>(to: &Place<'a>) -> Result<Box<dyn Custody + 'a>, CommandError> {
    if to.state() != Some(State::Waiting) {
        return Err(NOT_MOVED);
    }
    let end = memchr::memmem::find(to.key, CELERY_PRIORITY).unwrap_or(to.key.len());
    Ok(Box::new(Celery { queue: &to.key[..end] }))
}

impl Custody for Celery<'_> {
    fn keys(&self, _: &Store, _: &[u8]) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn take(&self, _: &Store, job: Job<'_>) -> Result<Going, CommandError> {
        let element = job.element;
        // The default exchange delivers to the queue named by the routing key.
        let routed =
            with_member(element, &["properties", "delivery_info", "exchange"], b"\"\"").and_then(|element| {
                with_member(&element, &["properties", "delivery_info", "routing_key"], &quoted(self.queue))
            });
        Ok(Going { element: routed.unwrap_or_else(|| element.to_vec()), ..Going::default() })
    }
}

/// The messages of a queue of dramatiq are in a hash, by id.
struct Dramatiq {
    messages: Vec<u8>,
}

pub(super) fn removed_in_dramatiq<'a>(from: &Place<'a>) -> Box<dyn Custody + 'a> {
    Box::new(Dramatiq { messages: [from.key, b".msgs"].concat() })
}

impl Custody for Dramatiq {
    fn keys(&self, _: &Store, _: &[u8]) -> Vec<Vec<u8>> {
        vec![self.messages.clone()]
    }

    fn take(&self, store: &Store, job: Job<'_>) -> Result<Going, CommandError> {
        store.peek(&self.messages).map_or(Ok(()), |record| match record.value().kind() {
            ds::Kind::Hash => Ok(()),
            _ => Err(CommandError::WRONG_TYPE),
        })?;
        let commands = vec![words(&[b"HDEL", &self.messages, job.element])];
        Ok(Going { commands, ..Going::default() })
    }
}

/// A job of arq stays in its queue while it runs.
struct Arq;

pub(super) fn removed_in_arq<'a>() -> Box<dyn Custody + 'a> {
    Box::new(Arq)
}

impl Arq {
    fn names(id: &[u8]) -> [Vec<u8>; 3] {
        [&b"arq:job:"[..], b"arq:retry:", b"arq:in-progress:"].map(|begin| [begin, id].concat())
    }
}

impl Custody for Arq {
    fn keys(&self, _: &Store, id: &[u8]) -> Vec<Vec<u8>> {
        Self::names(id).to_vec()
    }

    fn take(&self, store: &Store, job: Job<'_>) -> Result<Going, CommandError> {
        let [key, retry, running] = Self::names(job.element);
        if store.exists(&running) {
            return Err(WITH_WORKERS);
        }
        Ok(Going { commands: vec![words(&[b"DEL", &key, &retry])], ..Going::default() })
    }
}
