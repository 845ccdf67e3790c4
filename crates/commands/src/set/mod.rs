//! The set commands.
//!
//! | file | commands |
//! |---|---|
//! | `members` | SADD SREM SMOVE SCARD SISMEMBER SMISMEMBER SMEMBERS SSCAN |
//! | `random` | SPOP SRANDMEMBER |
//! | `expiry` | SEXPIRE SPEXPIRE SEXPIREAT SPEXPIREAT STTL SPTTL SEXPIRETIME SPEXPIRETIME SPERSIST SADDEX |
//! | `combine` | SINTER SUNION SDIFF |
//! | `cardinality` | SINTERCARD SUNIONCARD SDIFFCARD |
//! | `store` | SINTERSTORE SUNIONSTORE SDIFFSTORE |
//!
//! Invariant: a set in the keyspace has members. A command that removes the last one deletes the key.

mod cardinality;
mod combine;
mod expiry;
#[cfg(test)]
mod expiry_tests;
mod members;
mod random;
mod store;

use engine::Entry;

/// The set commands.
pub const ENTRIES: &[Entry] = &[
    members::SADD,
    expiry::SADDEX,
    members::SCARD,
    combine::SDIFF,
    cardinality::SDIFFCARD,
    store::SDIFFSTORE,
    expiry::SEXPIRE,
    expiry::SEXPIREAT,
    expiry::SEXPIRETIME,
    combine::SINTER,
    cardinality::SINTERCARD,
    store::SINTERSTORE,
    members::SISMEMBER,
    members::SMEMBERS,
    members::SMISMEMBER,
    members::SMOVE,
    expiry::SPERSIST,
    expiry::SPEXPIRE,
    expiry::SPEXPIREAT,
    expiry::SPEXPIRETIME,
    random::SPOP,
    expiry::SPTTL,
    random::SRANDMEMBER,
    members::SREM,
    members::SSCAN,
    expiry::STTL,
    combine::SUNION,
    cardinality::SUNIONCARD,
    store::SUNIONSTORE,
];
