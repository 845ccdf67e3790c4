//! How many jobs of a queue may be taken now. Active ones are counted by their sorted set, and those of each group beside it in the same
//! transactions, so they are never more than the limit allows, whatever ends a lease, and wherever the queue is by then.

use command::{CommandError, Limit, Store, got_room, is_closed};
use ds::zset::ZSet;

use crate::job::Jobs;

impl Jobs<'_> {
    /// How many more jobs may be active; what limits the rate is asked where they are taken.
    pub(crate) fn room(&self, store: &Store) -> Result<u64, CommandError> {
        let Some(active_max) = Limit::of(store, self.queue)?.and_then(|limit| limit.active) else {
            return Ok(u64::MAX);
        };
        let active = store.peek_as::<ZSet>(&self.names.active)?.map_or(0, |active| active.len() as u64);
        Ok(active_max.saturating_sub(active))
    }

    /// A lease ends: who waits for it may take another job. False if there is none.
    pub(crate) fn end_lease(&self, store: &mut Store, id: &[u8]) -> Result<bool, CommandError> {
        if !self.is_active(store, id)? {
            return Ok(false);
        }
        if let Some(group) = self.record(store, id)?.and_then(|record| record.group) {
            self.count_active(store, &group, false)?;
        }
        Self::take_out(store, &self.names.active, id)?;
        if store.exists(&self.names.limit()) {
            got_room(store, self.queue);
        }
        Ok(true)
    }
}

/// Whether somebody who waits for a job of `queue` would get one, or an error.
pub(crate) fn has_some(store: &Store, queue: &[u8]) -> bool {
    let Ok(jobs) = Jobs::of(store, queue) else { return store.exists(queue) };
    let is_full = jobs.room(store).is_ok_and(|room| room == 0);
    if is_full || is_closed(store, queue) {
        return false;
    }
    store.exists(queue) || jobs.has_group_with_some(store).is_ok_and(|has_some| has_some)
}
