//! Queues that are paused: whoever takes from them finds them empty. What a primary or a journal says happens anyway.

use ds::list::{End, List};
use ds::zset::ZSet;
use keyspace::Type;
use keyspace::queue::{Class, Pop};

use super::Store;
use crate::change::Change;
use crate::error::CommandError;
use crate::task::{Client, JobsDue, Post};

/// What is due within this time is said to the thread; what is later it finds itself.
const SOON_MS: i64 = 1500;

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
pub fn take_from<'s, T: Type>(store: &'s mut Store, key: &[u8]) -> Result<Option<T::Mut<'s>>, CommandError> {
    if is_paused(store, key) {
        return store.peek_as::<T>(key).map(|_| None);
    }
    store.write_as::<T>(key)
}

/// Something was added to the sorted set `key`: if it has jobs that join their queues by themselves, and the first is due soon, the thread hears of it.
#[cold]
pub fn note_promoted(store: &mut Store, key: &[u8]) {
    let (shard, hash) = store.locate(key);
    let Some(figures) = store.db(shard).queues().figures(hash, key) else { return };
    let class = Class::of_number(figures.class);
    if !class.is_promoted() {
        return;
    }
    let Ok(Some(set)) = store.peek_as::<ZSet>(key) else { return };
    let Some(time_ms) = set.score_at(0).map(|score| class.time_ms(score) as i64) else { return };
    if time_ms < store.now() + SOON_MS {
        let due = JobsDue { time_ms, shard, db: store.client.db, queue: key.into() };
        store.tx.posts.push(Post::Promote(due));
    }
}

/// So many elements are about to be popped from one end of `key`, to leave the store: if it is a queue of Sidekiq's, it is remembered who has them.
#[cold]
pub fn note_pops(store: &mut Store, key: &[u8], end: End, count: usize) {
    if store.tx.keeps_due {
        return;
    }
    let (shard, hash) = store.locate(key);
    let by = (store.client.id, store.tx.steady.cast_unsigned());
    let limits = &store.config().list;
    store.db_mut(shard).note_pops((hash, key), (end, count), by, limits);
}

/// Elements that were popped were put back, because their client was gone: they are nobody's any more.
#[cold]
pub fn note_put_back(store: &mut Store, key: &[u8], elements: &[&[u8]]) {
    let (shard, _) = store.locate(key);
    let at_ms = store.tx.steady.cast_unsigned();
    let limits = &store.config().list;
    for element in elements {
        let pop = Pop { at_ms, client: 0, queue: key, element };
        store.db_mut(shard).queues_mut().note_popped(&pop, limits);
    }
}

/// A member is added to the set `key`, which it may have been in: if that is the set of Sidekiq's processes, one of them lives.
#[cold]
pub fn note_beat(store: &mut Store, key: &[u8], identity: &[u8]) {
    if (key == b"processes" || key.ends_with(b":processes")) && !store.tx.keeps_due {
        let Client { db, id: client, .. } = store.client;
        store.tx.posts.push(Post::Beat { db, set: key.into(), identity: identity.into(), client });
    }
}
