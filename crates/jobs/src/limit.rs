//! How many jobs of a queue may be taken now. Active ones are counted by their sorted set, so they are never more than the limit allows,
//! whatever ends a lease, and wherever the queue is by then.

use command::{CommandError, Limit, Store, is_closed};
use ds::list::List;
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
        let was_there = Self::take_out(store, &self.names.active, id)?;
        if was_there && store.exists(&self.names.limit) {
            store.got_room(self.queue);
        }
        Ok(was_there)
    }
}

/// Whether somebody who waits for a job of `queue` would get one, or an error.
pub(crate) fn has_some(store: &Store, queue: &[u8]) -> bool {
    let Ok(Some(_)) = store.peek_as::<List>(queue) else { return false };
    let is_full = Jobs::of(store, queue).and_then(|jobs| jobs.room(store)).is_ok_and(|room| room == 0);
    !is_full && !is_closed(store, queue)
}
