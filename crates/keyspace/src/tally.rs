//! The size of a database, for readers that do not hold its shard.

use ds::figure::Figure;

/// The size of a shard's part of a database.
#[derive(Debug, Default)]
pub struct Tally {
    /// Keys, including those that have expired and are not deleted yet.
    pub keys: Figure,
    /// Keys that have an expiry.
    pub volatile_keys: Figure,
    /// The average time to live of recently sampled keys, in milliseconds; 0 if none was sampled.
    pub ttl_ms: Figure,
    /// Bytes of the table itself.
    pub table_bytes: Figure,
}
