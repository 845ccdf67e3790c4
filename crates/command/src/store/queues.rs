//! Queues that are paused: whoever takes from them finds them empty. What a primary or a journal says happens anyway.

use ds::list::List;
use keyspace::InPlace;

use super::Store;
use crate::change::Change;
use crate::error::CommandError;

/// There are as many queues as may be.
const TOO_MANY_QUEUES: CommandError = CommandError::fixed(
    "ERR as many queues are known as queues-max allows; raise it, or resume queues that are not needed",
);

/// Whether the queue at `key` is paused for who runs the transaction.
#[inline]
pub fn is_paused(store: &Store, key: &[u8]) -> bool {
    let (id, hash) = store.locate(key);
    store.db(id).queues().is_paused(hash, key) && !store.tx.keeps_due
}

/// Pauses the queue at `key`, whether it has elements or not, or resumes it and serves those who wait, with the effect; false if it was so already.
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

/// The list of `key`, to take from it: there is none if it is a queue that is paused. It says so itself, so that other lists are not looked for
/// among the queues.
#[inline(always)]
pub fn take_from_list<'s>(store: &'s mut Store, key: &[u8]) -> Result<Option<&'s mut List>, CommandError> {
    let heeds_pauses = !store.tx.keeps_due;
    let list = store.write_as::<List>(key)?;
    Ok(list.filter(|list| !list.seen().is_some_and(|seen| seen.is_paused() && heeds_pauses)))
}

/// The value of `key` as a `T`, to take from it: there is none if it is a queue that is paused.
#[inline]
pub fn take_from<'s, T: InPlace>(
    store: &'s mut Store,
    key: &[u8],
) -> Result<Option<T::Mut<'s>>, CommandError> {
    if is_paused(store, key) {
        return store.peek_as::<T>(key).map(|_| None);
    }
    store.write_as::<T>(key)
}
