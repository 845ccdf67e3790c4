//! Does what is due in a queue: ends leases and delays, runs schedules, drops dead jobs.

use ds::zset::ZSet;
use engine::{CommandError, Store};

use crate::clock::follow_in;
use crate::job::{Claim, Jobs};
use crate::limits;

/// The most jobs that one visit handles.
pub(crate) const FIRED_MAX: usize = 64;

/// The reason noted for an attempt whose lease ended.
const LEASE_ENDED: &[u8] = b"the lease ended";

/// Does what is due in `queue`, for at most [`FIRED_MAX`] jobs, in a visit of its shard. Returns when something is due next.
///
/// # Errors
/// If a key beside the queue has been replaced by something else: then nothing can be done.
pub(crate) fn fire(store: &mut Store, queue: &[u8]) -> Result<Option<i64>, CommandError> {
    let (shard, _) = store.locate(queue);
    follow_in(store, shard);
    let (jobs, now_ms) = (Jobs::of(store, queue)?, store.now());
    let (active, delayed, cron) = (jobs.names.active(), &jobs.names.delayed(), &jobs.names.cron());
    for _ in 0..FIRED_MAX {
        if let Some(id) = first_due(store, active, now_ms)? {
            // A worker with a current heartbeat keeps all its jobs.
            match jobs.worker_until(store, &id)? {
                Some(until_ms) if until_ms > now_ms => _ = jobs.set_due(store, active, &id, until_ms)?,
                _ => {
                    jobs.fail(store, Claim::on_any(&id), None, LEASE_ENDED)?;
                    assert!(!jobs.is_active(store, &id)?, "a lease that has ended ends once");
                }
            }
        } else if let Some(id) = first_due(store, delayed, now_ms)? {
            let record = jobs.record(store, &id)?;
            jobs.check_group(store, record.as_ref().and_then(|record| record.group.as_deref()))?;
            let was_delayed = Jobs::take_out(store, delayed, &id)?;
            assert!(was_delayed, "a job leaves the delayed ones before it waits");
            if let Some(record) = record {
                let end = jobs.coming_end(store);
                jobs.wait(store, &id, record, end)?;
            }
        } else if let Some(name) = first_due(store, cron, now_ms)? {
            jobs.tick(store, &name)?;
        } else {
            break;
        }
    }
    jobs.forget_workers(store)?;
    let drops_ms = jobs.drop_dead(store)?;
    let mut opens_ms = limits::open(store, queue)?;
    if jobs.settle_groups(store)? {
        // More groups may have to be moved: continue at once.
        opens_ms = Some(now_ms);
    }
    let first = |key: &[u8]| -> Result<Option<i64>, CommandError> {
        Ok(store.peek_as::<ZSet>(key)?.and_then(|set| set.at(0)).map(|(_, due_ms)| due_ms as i64))
    };
    Ok([first(active)?, first(delayed)?, first(cron)?, drops_ms, opens_ms].into_iter().flatten().min())
}

fn first_due(store: &Store, key: &[u8], now_ms: i64) -> Result<Option<Vec<u8>>, CommandError> {
    let first = store.peek_as::<ZSet>(key)?.and_then(|set| set.at(0));
    Ok(first.filter(|(_, due_ms)| *due_ms <= now_ms as f64).map(|(id, _)| id.to_vec()))
}

impl Jobs<'_> {
    /// The end of the heartbeat of the worker that has a job.
    fn worker_until(&self, store: &Store, id: &[u8]) -> Result<Option<i64>, CommandError> {
        let Some(record) = self.record(store, id)? else { return Ok(None) };
        let workers = store.peek_as::<ZSet>(&self.names.workers())?;
        Ok(workers.and_then(|workers| workers.score(&record.worker)).map(|until_ms| until_ms as i64))
    }

    /// Forgets workers whose heartbeat has ended.
    pub(crate) fn forget_workers(&self, store: &mut Store) -> Result<(), CommandError> {
        let workers = self.names.workers();
        for _ in 0..FIRED_MAX {
            let Some(worker) = first_due(store, &workers, store.now())? else { break };
            let was_there = Self::take_out(store, &workers, &worker)?;
            assert!(was_there, "the first worker of a set is in it");
        }
        Ok(())
    }
}
