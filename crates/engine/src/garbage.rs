//! Removed values and databases that are too large to be freed while shards are held.

use keyspace::{Db, Value};

/// A value or a database that no command can reach any more.
pub enum Garbage {
    /// A value of many elements.
    Value(Value),
    /// The part of a flushed database that was on one shard.
    Db(Box<Db>),
}

impl Garbage {
    /// Whether the running snapshot still needs a part of it.
    pub fn is_cut(&self) -> bool {
        matches!(self, Garbage::Db(db) if db.is_cut())
    }

    /// Shows it to the snapshot while there is time.
    pub fn continue_cut(&mut self, has_time: &mut dyn FnMut() -> bool) {
        if let Garbage::Db(db) = self {
            db.continue_cut(has_time);
        }
    }

    /// Frees a bounded part. Returns how many values were freed, and whether nothing is left.
    pub fn free_slice(&mut self) -> (usize, bool) {
        match self {
            Garbage::Value(value) => match value.free_slice() {
                true => (0, false),
                false => (1, true),
            },
            Garbage::Db(db) => match db.drain_segment() {
                None => (0, true),
                Some(records) => (records.len(), false),
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
