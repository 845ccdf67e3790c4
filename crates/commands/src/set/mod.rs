//! The set commands.
//!
//! | file | commands |
//! |---|---|
//! | `members` | SADD SREM SMOVE SCARD SISMEMBER SMISMEMBER SMEMBERS SSCAN |
//! | `random` | SPOP SRANDMEMBER |
//! | `combine` | SINTER SUNION SDIFF |
//! | `cardinality` | SINTERCARD SUNIONCARD SDIFFCARD |
//! | `store` | SINTERSTORE SUNIONSTORE SDIFFSTORE |
//!
//! Invariant: a set in the keyspace has members. A command that removes the last one deletes the key.

mod cardinality;
mod combine;
mod members;
mod random;
mod store;

use engine::Entry;

/// The set commands.
pub const ENTRIES: &[Entry] = &[
    members::SADD,
    members::SCARD,
    combine::SDIFF,
    cardinality::SDIFFCARD,
    store::SDIFFSTORE,
    combine::SINTER,
    cardinality::SINTERCARD,
    store::SINTERSTORE,
    members::SISMEMBER,
    members::SMEMBERS,
    members::SMISMEMBER,
    members::SMOVE,
    random::SPOP,
    random::SRANDMEMBER,
    members::SREM,
    members::SSCAN,
    combine::SUNION,
    cardinality::SUNIONCARD,
    store::SUNIONSTORE,
];
