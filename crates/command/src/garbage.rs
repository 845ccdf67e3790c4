//! What left the keyspace and is too large to be freed while shards are held.

use keyspace::{Db, Value};

/// A value or a database that nobody can reach any more.
pub enum Garbage {
    /// A value of many elements.
    Value(Value),
    /// A flushed database, as far as it lay on one shard.
    Db(Db),
}

impl Garbage {
    /// Frees a bounded part; false when nothing is left.
    pub fn free_slice(&mut self) -> bool {
        match self {
            Garbage::Value(value) => value.free_slice(),
            Garbage::Db(db) => match db.drain_segment() {
                None => false,
                Some(_records) => true,
            },
        }
    }
}

impl std::fmt::Debug for Garbage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Garbage::Value(value) => write!(f, "Value of {} elements", value.len()),
            Garbage::Db(db) => write!(f, "Db of {} keys", db.len()),
        }
    }
}
