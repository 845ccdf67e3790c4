//! Attaches the marks of memcached's protocol to an item: flags, and a unique number for each version of its
//! value.

use keyspace::{Marks, RecordRef};

use super::Store;
use super::changes::note_written;

impl Store<'_, '_> {
    /// Marks the item at `key`, if it exists, and records the effect.
    pub fn mark(&mut self, key: &[u8], marks: Marks) {
        self.set_marks(key, marks);
        self.effect_with(|store| {
            note_written(store, key);
            store.effect_of_marks(key);
        });
    }

    /// Records the marks of the item at `key`, if it has any. Call this after an effect that sets its value
    /// by a command of Redis, which has no marks.
    pub fn effect_of_marks(&mut self, key: &[u8]) {
        if let Some(marks) = self.peek(key).map(RecordRef::marks).filter(|marks| *marks != Marks::default()) {
            self.effect(&[b"DARTER.MARK", key, marks.to_text().as_bytes()]);
        }
    }

    /// Marks the item at `key`, if it exists, without an effect.
    pub fn set_marks(&mut self, key: &[u8], marks: Marks) {
        let (id, hash) = self.locate(key);
        if let Some(mut record) = self.db_mut(id).find_mut(hash, key) {
            record.set_marks(marks);
        }
    }

    /// The number of this version of the value of `key`, for a client that asks for it; 0 if the key does not
    /// exist.
    pub fn cas(&mut self, key: &[u8]) -> u64 {
        let Some(marks) = self.peek(key).map(RecordRef::marks) else { return 0 };
        if marks.cas > 0 {
            return marks.cas;
        }
        let cas = self.next_cas(key);
        self.mark(key, Marks { cas, ..marks });
        cas
    }

    /// A number that no version of any value has had. The count begins at the clock, so that a restart repeats no
    /// number. Each shard counts in steps of the number of shards, so that shards share no number.
    pub fn next_cas(&mut self, key: &[u8]) -> u64 {
        let (id, _) = self.locate(key);
        let now_us = self.tx.now as u64 * 1000;
        let step = self.tx.hold.shards().len() as u64;
        let last = &mut self.tx.hold.shard_mut(id).last_cas;
        *last = (*last + step).max(now_us - now_us % step + id.index() as u64);
        *last
    }
}
