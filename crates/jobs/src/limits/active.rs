//! Counts how many jobs of a queue may be taken now. The sorted set of active jobs counts those of the queue;
//! those of each group are counted beside it, in the same transactions. So there are never more than the
//! limit allows, whatever ends a lease and wherever the queue has moved by then.

use ds::zset::ZSet;
use engine::{CommandError, Store, got_room, is_closed};

use super::{Limit, has_limit};
use crate::job::Jobs;
use crate::record::{Record, State};

impl Jobs<'_> {
    /// How many more jobs may be active. The rate limit is checked where jobs are taken.
    pub(crate) fn room(&self, store: &Store) -> Result<u64, CommandError> {
        let Some(active_max) = Limit::of(store, self.queue)?.and_then(|limit| limit.active) else {
            return Ok(u64::MAX);
        };
        let active = store.peek_as::<ZSet>(self.names.active())?.map_or(0, |active| active.len() as u64);
        Ok(active_max.saturating_sub(active))
    }

    /// Ends the lease of the job with this record, so a waiting worker may take another job. False if it had
    /// no lease.
    pub(crate) fn end_lease(
        &self,
        store: &mut Store,
        id: &[u8],
        record: Option<&Record>,
    ) -> Result<bool, CommandError> {
        let mut is_counted = false;
        if let Some(group) = record.and_then(|record| record.group.as_deref())
            && self.is_active(store, id)?
        {
            self.count_active(store, group, false)?;
            is_counted = true;
        }
        let was_active = Self::take_out(store, self.names.active(), id)?;
        assert!(was_active || !is_counted, "a group has one active job fewer for each lease that ends");
        if was_active && has_limit(store, self.queue) {
            got_room(store, self.queue);
        }
        Ok(was_active)
    }
}

/// Whether a client waiting for a job of `queue` would get one, or an error.
pub(crate) fn has_some(store: &Store, queue: &[u8]) -> bool {
    let is_closed = is_closed(store, queue);
    if store.exists(queue) && !has_limit(store, queue) && !is_closed {
        return true;
    }
    let Ok(jobs) = Jobs::to_change(store, queue, State::Active) else { return store.exists(queue) };
    let is_full = jobs.room(store).is_ok_and(|room| room == 0);
    if is_full || is_closed {
        return false;
    }
    store.exists(queue) || jobs.has_group_with_some(store).is_ok_and(|has_some| has_some)
}
