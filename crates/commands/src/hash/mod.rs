//! The hash commands.
//!
//! | file | commands |
//! |---|---|
//! | `read` | HGET HMGET HGETALL HKEYS HVALS HLEN HEXISTS HSTRLEN HSCAN |
//! | `write` | HSET HMSET HSETNX HDEL HINCRBY HINCRBYFLOAT |
//! | `random` | HRANDFIELD |
//! | `expiry` | HEXPIRE HPEXPIRE HEXPIREAT HPEXPIREAT HTTL HPTTL HEXPIRETIME HPEXPIRETIME HPERSIST |
//! | `combined` | HGETDEL HGETEX HSETEX |
//!
//! Invariant: a hash in the keyspace has fields. A command that removes the last one deletes the key.

mod combined;
mod expiry;
mod random;
mod read;
mod write;

use engine::Entry;

/// The hash commands.
pub const ENTRIES: &[Entry] = &[
    write::HDEL,
    read::HEXISTS,
    expiry::HEXPIRE,
    expiry::HEXPIREAT,
    expiry::HEXPIRETIME,
    read::HGET,
    read::HGETALL,
    combined::HGETDEL,
    combined::HGETEX,
    write::HINCRBY,
    write::HINCRBYFLOAT,
    read::HKEYS,
    read::HLEN,
    read::HMGET,
    write::HMSET,
    expiry::HPERSIST,
    expiry::HPEXPIRE,
    expiry::HPEXPIREAT,
    expiry::HPEXPIRETIME,
    expiry::HPTTL,
    random::HRANDFIELD,
    read::HSCAN,
    write::HSET,
    combined::HSETEX,
    write::HSETNX,
    read::HSTRLEN,
    expiry::HTTL,
    read::HVALS,
];
