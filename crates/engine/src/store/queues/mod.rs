//! Queues, as commands and the transaction see them: takes, pauses, limits.
//!
//! | file | content |
//! |---|---|
//! | `taking` | takes elements out of queues: what pauses and limits do |
//! | `room` | how much may be taken |
//! | `observer` | tells `job-recovery` what clients do to queues |
//!
//! This file names the keys beside queues, pauses queues, and notes what the thread has to look at.
//!
//! Not here: jobs and limits (crate `jobs`), and what is known of a queue (`keyspace/queue`).

pub(crate) mod observer;
pub(crate) mod room;
pub(crate) mod taking;

use ds::zset::ZSet;
use keyspace::queue::Class;
use shard::Placement;

use super::Store;
use crate::change::Change;
use crate::error::CommandError;
use crate::task::{JobsDue, JobsNews, SOON_MS, TxMessage};

/// The usual number of bytes by which the names of keys beside a queue exceed the queue's.
const BESIDE_BYTES: usize = 24;

const BAD_NAME: CommandError = CommandError::fixed(
    "ERR no name of a key lies beside this queue: give it a name without braces, or with a hash tag",
);
/// The limit of known queues has been reached.
const TOO_MANY_QUEUES: CommandError = CommandError::fixed(
    "ERR as many queues are known as queues-max allows; raise it, or resume queues that are not needed",
);

/// The prefix of the names of keys beside `queue`. They are on its shard, because their hash tag is the part
/// that determines the queue's shard.
///
/// ```text
/// mail        {mail}
/// {eu}mail    {eu}:{eu}mail      if a hash tag or a rule of `colocate` decides
/// ```
///
/// # Errors
/// If no key can be named beside the queue.
pub fn beside(store: &Store, queue: &[u8]) -> Result<Vec<u8>, CommandError> {
    beside_in(store.tx.hold.shards().placement(), queue)
}

/// The prefix under this placement of keys.
pub(in crate::store) fn beside_in(placement: &Placement, queue: &[u8]) -> Result<Vec<u8>, CommandError> {
    let part = placement.placing_part(queue);
    if part.is_empty() || part.contains(&b'}') {
        return Err(BAD_NAME);
    }
    let mut begin = Vec::with_capacity(part.len() + queue.len() + BESIDE_BYTES);
    begin.push(b'{');
    begin.extend_from_slice(part);
    begin.push(b'}');
    if part.len() < queue.len() {
        begin.push(b':');
        begin.extend_from_slice(queue);
    }
    Ok(begin)
}

/// Whether the queue at `key` is paused for this transaction.
#[inline]
pub fn is_paused(store: &Store, key: &[u8]) -> bool {
    let (id, hash) = store.locate(key);
    store.db(id).queues().is_paused(hash, key) && !store.tx.keeps_due
}

/// Pauses the queue at `key`, whether or not it has elements, or resumes it and serves its waiters. Records
/// the effect. False if this changes nothing.
pub fn pause(store: &mut Store, key: &[u8], is_paused: bool) -> Result<bool, CommandError> {
    let (id, hash) = store.locate(key);
    let has_changed = store.db_mut(id).pause_queue(hash, key, is_paused).ok_or(TOO_MANY_QUEUES)?;
    if has_changed {
        let effect: [&[u8]; 3] = [b"DARTER.PAUSE", key, if is_paused { b"1" } else { b"0" }];
        store.changed(key, Change::UNNAMED.untold(), &effect);
        if !is_paused {
            store.got_more(key);
        }
    }
    Ok(has_changed)
}

/// Notes that the queue at `key` has jobs that were put or leased, so that it is shown as a queue regardless
/// of its name.
#[cold]
pub fn know_jobs(store: &mut Store, key: &[u8]) {
    let (id, hash) = store.locate(key);
    store.db_mut(id).know_jobs(hash, key);
}

/// Notes that a push has left the list at `key` to be compressed.
#[cold]
pub fn note_deep_list(store: &mut Store, key: &[u8]) {
    let (id, _) = store.locate(key);
    store.db_mut(id).note_deep_list(key);
}

/// Whether jobs of any sorted set are moved to their queues when due; quick.
#[inline]
pub fn are_any_promoted(store: &Store) -> bool {
    store.config().promotes || store.tx.hold.shards().queues().promotions().are_any()
}

/// Called after an addition to the sorted set `key`. If its jobs are moved when due, and the first is due
/// soon, tells the thread.
#[cold]
pub fn note_promoted(store: &mut Store, key: &[u8]) {
    let (shard, hash) = store.locate(key);
    let (db, queues) = (store.client.db, store.db(shard).queues());
    let of_sidekiq = || {
        let class = Class::of_number(queues.figures(hash, key)?.class);
        (class.is_promoted() && store.config().promotes).then_some(class)
    };
    let is_said = || queues.known().promotions().of(db, key).map(|_| Class::CUSTOM);
    let Some(class) = of_sidekiq().or_else(is_said) else { return };
    let Ok(Some(set)) = store.peek_as::<ZSet>(key) else { return };
    let Some(time_ms) = set.score_at(0).map(|score| class.time_ms(score) as i64) else { return };
    if time_ms < store.now() + SOON_MS {
        store.tx.outbox.push(TxMessage::Jobs(JobsNews::Promote(JobsDue {
            time_ms,
            shard,
            db,
            queue: key.into(),
        })));
    }
}
