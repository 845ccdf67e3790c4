//! Another database takes the place of one in which clients wait for keys: which of them may find something now.

use keyspace::queue::TURN;
use keyspace::{Db, Kind, UnixMs};
use shard::{Content, Placement, Ready};

use super::limits::beside_in;

/// What clients hear that wait for `key` in database `number`, where `before` was and `now` is; `None` if there is nothing for them.
pub fn ready_after(
    placement: &Placement,
    number: u32,
    key: &[u8],
    (before, now): (&Db, &Db),
) -> Option<Ready> {
    let was_lost = has_stream(placement, before, key);
    let has = |key: &[u8]| now.find(placement.hash(key), key).is_some();
    // Jobs of groups wait beside the queue, of which there may be no list.
    let has_more = beside_in(placement, key).is_ok_and(|begin| has(&[&begin, TURN].concat()));
    (was_lost || has_more || has(key)).then(|| Ready { db: number, key: key.into(), was_lost, has_more })
}

/// What `db` has at `key`, for those who watch it.
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
