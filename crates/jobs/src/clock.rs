//! Keeps leases, heartbeats and delays at their length when the machine's clock is set.
//!
//! Times are stored in milliseconds since 1970, as plain scores: snapshots and replicas include them, and
//! they mean the same after a restart. But a lease is a duration: it has to end a fixed number of
//! milliseconds after it began, regardless of the wall clock. So each database of a shard notes how far the
//! system clock is ahead of the monotonic one. If that has changed by [`JUMP_MS`] or more since the last
//! look, the clock was set. [`follow`] then moves leases, heartbeats and delays by the same amount before any
//! command uses them.
//!
//! Times of day stay: `JOB.PUT … AT`, and schedules. If the clock was set back, schedules are computed again;
//! a schedule that ran before the clock was set would otherwise be silent until its next time comes round. As
//! in Vixie cron, fixed times do not come a second time if the clock was set back by less than three hours.
//!
//! After a start or a takeover nothing is noted yet, so the first look at a database cannot tell by how much the
//! clock was set. It computes all schedules again. For that the clock must be read after the shard was entered: by
//! an earlier time, a schedule that has run since then on the old primary would run again. Visits read it then
//! ([`background::Visits`]). Commands may run by an earlier time, so they leave the first look to a visit.

use ds::zset::ZSet;
use engine::{Client, CommandError, JobsDue, JobsNews, Store, Tx, TxMessage};
use keyspace::queue::{ACTIVE, CRON, DELAYED};
use resp::Proto;
use shard::ShardId;

use crate::job::Jobs;
use crate::names::queue_of;

/// A clock that moves by less than this is being adjusted, not set.
pub(crate) const JUMP_MS: i64 = 1_000;
/// Fixed times do not come again if the clock goes back by less than this.
const COMES_AGAIN_MS: i64 = 3 * 3_600_000;
/// The most delayed jobs that are moved per queue: those that are due first.
const DELAYED_MAX: usize = 10_000;

/// Moves the times of all queues in the database of `queue` if the clock was set. Commands call this before leases
/// begin, are extended or end. If it would be the first look, only asks for a visit.
pub(crate) fn follow(store: &mut Store, queue: &[u8]) {
    let (shard, _) = store.locate(queue);
    if store.db(shard).has_noted_clock() {
        follow_in(store, shard);
    } else {
        let due = JobsDue { time_ms: store.now(), shard, db: store.client.db, queue: queue.into() };
        store.tx.outbox.push(TxMessage::Jobs(JobsNews::Due(due)));
    }
}

/// [`follow`] in a visit of the shard, which may be the first look.
#[inline]
pub(crate) fn follow_in(store: &mut Store, shard: ShardId) {
    let ahead_ms = store.tx.now - store.tx.steady;
    let last_ms = store.db_mut(shard).note_clock(ahead_ms);
    if last_ms.is_none_or(|last_ms| (ahead_ms - last_ms).abs() >= JUMP_MS) {
        move_times(store, shard, last_ms.map(|last_ms| ahead_ms - last_ms));
    }
}

/// Moves the times in every used database of a shard; unused ones have no times. If the times are not ours to
/// change (`is_ours`), only notes the clock: another server moves them.
pub(crate) fn follow_all(tx: &mut Tx, shard: ShardId, is_ours: bool) {
    let ahead_ms = tx.now - tx.steady;
    for db in 0..tx.hold.shard(shard).dbs.len() as u32 {
        if tx.hold.shard(shard).dbs.used(db as usize).is_none() {
            continue;
        }
        match is_ours {
            true => follow_in(&mut Store::new(tx, Client::internal(db, Proto::Resp2)), shard),
            false => _ = tx.hold.shard_mut(shard).dbs[db as usize].note_clock(ahead_ms),
        }
    }
}

/// `None`: it is not known by how much, since this is the first look.
#[cold]
fn move_times(store: &mut Store, shard: ShardId, by_ms: Option<i64>) {
    let timed: Vec<Vec<u8>> = store.db(shard).queues().timed().map(<[u8]>::to_vec).collect();
    for key in timed {
        // A client can make up a key whose name belongs to a queue on another shard.
        let Some(queue) = queue_of(&key).filter(|queue| store.locate(queue).0 == shard) else { continue };
        let moved = Jobs::of(store, queue).and_then(|jobs| move_set(&jobs, store, &key, by_ms));
        if let Err(error) = moved {
            let queue = queue.escape_ascii();
            tracing::warn!("cannot move leases and schedules of the queue {queue} with the clock: {error}");
        }
    }
}

/// Moves the times in one sorted set.
fn move_set(jobs: &Jobs<'_>, store: &mut Store, key: &[u8], by_ms: Option<i64>) -> Result<(), CommandError> {
    if key.ends_with(CRON) {
        return reschedule(jobs, store);
    }
    let Some(by_ms) = by_ms else { return Ok(()) };
    if key.ends_with(ACTIVE) {
        move_ids(jobs, store, &jobs.names.workers(), by_ms)?;
    }
    if key.ends_with(ACTIVE) || key.ends_with(DELAYED) {
        move_ids(jobs, store, key, by_ms)?;
    }
    Ok(())
}

/// Moves the times in a sorted set, except those of jobs that are delayed until a time of day.
fn move_ids(jobs: &Jobs<'_>, store: &mut Store, key: &[u8], by_ms: i64) -> Result<(), CommandError> {
    let Some(set) = store.peek_as::<ZSet>(key)? else { return Ok(()) };
    let is_delayed = key.ends_with(DELAYED);
    let count = if is_delayed { DELAYED_MAX } else { usize::MAX };
    let ids: Vec<(Vec<u8>, i64)> =
        set.iter().take(count).map(|(id, time_ms)| (id.to_vec(), time_ms as i64)).collect();
    for (id, time_ms) in ids {
        let record = if is_delayed { jobs.record_line(store, &id)? } else { None };
        if !record.is_some_and(|record| record.is_at) {
            jobs.set_due(store, key, &id, time_ms + by_ms)?;
        }
    }
    Ok(())
}

/// Computes the next time of schedules that became silent because the clock was set back.
fn reschedule(jobs: &Jobs<'_>, store: &mut Store) -> Result<(), CommandError> {
    let now_ms = store.now();
    for (name, due_ms) in jobs.scheduled(store)? {
        let Some(line) = jobs.line(store, &name)? else { continue };
        let comes_again =
            line.recurs() || line.next_ms(now_ms + COMES_AGAIN_MS).is_ok_and(|next| next < due_ms);
        if let Ok(next_ms) = line.next_ms(now_ms)
            && next_ms < due_ms
            && comes_again
        {
            jobs.set_due(store, &jobs.names.cron(), &name, next_ms)?;
        }
    }
    Ok(())
}
