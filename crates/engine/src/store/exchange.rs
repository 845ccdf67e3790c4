//! Replaces databases in which clients wait for keys, and finds the waiters that can be served by the new
//! ones.

use keyspace::queue::TURN;
use keyspace::{Db, Dbs, Kind, UnixMs};
use shard::{Content, Placement, Ready, ShardId};

use super::queues::beside_in;
use crate::garbage::Garbage;
use crate::task::TxMessage;
use crate::tx::Tx;

/// The notice for clients that wait for `key` in database `number`, which changed from `before` to `now`;
/// `None` if there is nothing for them.
pub fn ready_after(
    placement: &Placement,
    number: u32,
    key: &[u8],
    (before, now): (&Db, &Db),
) -> Option<Ready> {
    let was_lost = has_stream(placement, before, key);
    let has = |key: &[u8]| now.find(placement.hash(key), key).is_some();
    // Waiting jobs of groups are beside the queue, which may have no list.
    let has_more = beside_in(placement, key).is_ok_and(|begin| has(&[&begin, TURN].concat()));
    (was_lost || has_more || has(key)).then(|| Ready { db: number, key: key.into(), was_lost, has_more })
}

/// The content of `key` in `db`, for clients that watch it.
pub fn content(placement: &Placement, db: &Db, key: &[u8], now: UnixMs) -> Content {
    match db.find(placement.hash(key), key) {
        None => Content::Nothing,
        Some(record) if record.expired(now) => Content::Expired,
        Some(_) => Content::Value,
    }
}

/// Whether `db` has a stream under `key`: clients that read it in a group also wait for its end.
pub fn has_stream(placement: &Placement, db: &Db, key: &[u8]) -> bool {
    db.find(placement.hash(key), key).is_some_and(|record| record.value().kind() == Kind::Stream)
}

/// Replaces all databases on shard `id`.
pub fn replace_dbs(tx: &mut Tx, id: ShardId, mut dbs: Dbs) {
    let was_used = tx.hold.shards().is_used(id);
    for db in 0..dbs.len() {
        // A database that is unused on both sides stays unchanged.
        if dbs.used(db).is_some() || was_used && tx.hold.shard(id).dbs.used(db).is_some() {
            replace(tx, id, db as u32, &mut dbs);
        }
    }
}

/// Replaces database `db` on shard `id` with the one in `dbs`. Tells clients that watch a key of either, and
/// serves clients that wait for keys which exist now.
fn replace(tx: &mut Tx, id: ShardId, db: u32, dbs: &mut Dbs) {
    let (placement, now) = (tx.hold.shards().placement(), tx.now);
    let shard = tx.hold.shard_mut(id);
    shard.dbs[db as usize].swap(&mut dbs[db as usize]);
    let old = dbs[db as usize].take();
    let new = &shard.dbs[db as usize];
    let of = |part: &Db, key: &[u8]| content(placement, part, key, now);
    shard.watches.replaced(db, |key| (of(&old, key), of(new, key)));
    let ready = |key: &[u8]| ready_after(placement, db, key, (&old, new));
    shard.ready.extend(shard.waiters.keys(db).filter_map(ready));
    let has_ready = !shard.ready.is_empty();
    tx.note_ready(has_ready);
    tx.wrote = true;
    if !old.is_empty() || old.is_cut() {
        tx.outbox.push(TxMessage::Free(Garbage::Db(Box::new(old))));
    }
}
