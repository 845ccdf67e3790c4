//! Tells the one who observes what clients do to queues: the setting `job-recovery`, which returns jobs of Sidekiq's
//! processes that died. It hears of pops, of pushes and of members that sets get. Commands call it without knowing that;
//! if it is off, a call costs one test.
//!
//! Not here: what becomes of that (`jobs/recovery`).

use ds::list::End;

use super::room::Room;
use crate::store::Store;
use crate::task::{Client, JobsNews, TxMessage};

/// Called before elements are popped from `key` and leave the store, at this end and not more than there is room for.
#[inline]
pub(super) fn popping(store: &mut Store, key: &[u8], leaving: Option<(End, usize)>, room: Room) {
    if store.config().recovers
        && let Some(pops) = leaving
    {
        note_pops(store, key, pops, room);
    }
}

/// Called after a client has pushed `elements` to one end of `key`.
#[inline]
pub fn note_pushed(store: &mut Store, key: &[u8], end: End, elements: &[&[u8]]) {
    if end == End::Tail && store.config().recovers {
        note_put_back(store, key, elements);
    }
}

/// Called after a client has added `members` to the set `key`, even if they were there before.
#[inline]
pub fn note_added(store: &mut Store, key: &[u8], members: &[&[u8]]) {
    if store.config().recovers
        && let [identity] = members
    {
        note_beat(store, key, identity);
    }
}

/// If `key` is a queue of Sidekiq's, notes which client has the elements.
#[cold]
fn note_pops(store: &mut Store, key: &[u8], (end, count): (End, usize), room: Room) {
    if store.tx.keeps_due {
        return;
    }
    let (shard, hash) = store.locate(key);
    let by = (store.client.id, store.tx.steady.cast_unsigned());
    store.db_mut(shard).note_pops((hash, key), (end, room.fit(count)), by);
}

/// Notes that `elements` are in the queue at `key` again, or done, so that no client that had popped them has them any
/// more. Ignores keys that are not queues of Sidekiq's.
#[cold]
pub fn note_put_back(store: &mut Store, key: &[u8], elements: &[&[u8]]) {
    let (shard, hash) = store.locate(key);
    let at_ms = store.tx.steady.cast_unsigned();
    store.db_mut(shard).queues_mut().note_put_back((hash, key), elements, at_ms);
}

/// If `key` is the set of Sidekiq's processes, notes that the process lives.
#[cold]
fn note_beat(store: &mut Store, key: &[u8], identity: &[u8]) {
    if (key == b"processes" || key.ends_with(b":processes")) && !store.tx.keeps_due {
        let Client { db, id: client, .. } = store.client;
        let beat = JobsNews::Beat { db, set: key.into(), identity: identity.into(), client };
        store.tx.outbox.push(TxMessage::Jobs(beat));
    }
}
