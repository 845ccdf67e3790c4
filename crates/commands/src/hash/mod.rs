//! The hash commands.
//!
//! | file | commands |
//! |---|---|
//! | `read` | HGET HMGET HGETALL HKEYS HVALS HLEN HEXISTS HSTRLEN HSCAN |
//! | `write` | HSET HMSET HSETNX HDEL HINCRBY HINCRBYFLOAT |
//! | `random` | HRANDFIELD |
//!
//! Invariant: a hash in the keyspace has fields. Whoever removes the last one deletes the key.

mod random;
mod read;
mod write;

use command::Entry;

/// The hash commands.
pub const ENTRIES: &[Entry] = &[
    write::HDEL,
    read::HEXISTS,
    read::HGET,
    read::HGETALL,
    write::HINCRBY,
    write::HINCRBYFLOAT,
    read::HKEYS,
    read::HLEN,
    read::HMGET,
    write::HMSET,
    random::HRANDFIELD,
    read::HSCAN,
    write::HSET,
    write::HSETNX,
    read::HSTRLEN,
    read::HVALS,
];
