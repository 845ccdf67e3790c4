//! What a database says of itself to those who do not hold its shard.

use ds::figure::Figure;

/// How large a database of a shard is.
#[derive(Debug, Default)]
pub struct Tally {
    /// Keys, those that expired and are not collected yet included.
    pub keys: Figure,
    /// Keys that have an expiry.
    pub volatile_keys: Figure,
    /// How long those live that were looked at of late, on average, in milliseconds; 0 if none was.
    pub ttl_ms: Figure,
    /// Bytes of the table itself.
    pub table_bytes: Figure,
}
