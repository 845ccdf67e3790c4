//! What clients of memcached's protocol attach to an item: flags, and a number for each version of its value.

use keyspace::{Marks, RecordRef};

use super::Store;
use super::changes::note_written;

impl Store<'_, '_> {
    /// Marks the item at `key`, if there is one, with its effect.
    pub fn mark(&mut self, key: &[u8], marks: Marks) {
        self.set_marks(key, marks);
        self.effect_with(|store| {
            note_written(store, key);
            store.effect_of_marks(key);
        });
    }

    /// States the marks of the item at `key`, if it has some: after an effect that sets its value as Redis does, which knows
    /// none.
    pub fn effect_of_marks(&mut self, key: &[u8]) {
        if let Some(marks) = self.peek(key).map(RecordRef::marks).filter(|marks| *marks != Marks::default()) {
            self.effect(&[b"DARTER.MARK", key, marks.to_text().as_bytes()]);
        }
    }

    /// Marks the item at `key`, if there is one; no effect.
    pub fn set_marks(&mut self, key: &[u8], marks: Marks) {
        let (id, hash) = self.locate(key);
        if let Some(mut record) = self.db_mut(id).find_mut(hash, key) {
            record.set_marks(marks);
        }
    }

    /// The number of this version of the value of `key`, for somebody to see; 0 if there is no such key.
    pub fn cas(&mut self, key: &[u8]) -> u64 {
        let Some(marks) = self.peek(key).map(RecordRef::marks) else { return 0 };
        if marks.cas > 0 {
            return marks.cas;
        }
        let cas = self.next_cas(key);
        self.mark(key, Marks { cas, ..marks });
        cas
    }

    /// A number that no version of any value has had: a count that begins at the clock, so that none from before a restart
    /// comes again. Each shard has its own numbers, as many apart as there are shards.
    pub fn next_cas(&mut self, key: &[u8]) -> u64 {
        let (id, _) = self.locate(key);
        let now_us = self.tx.now as u64 * 1000;
        let step = self.tx.hold.shards().len() as u64;
        let last = &mut self.tx.hold.shard_mut(id).last_cas;
        *last = (*last + step).max(now_us - now_us % step + id.index() as u64);
        *last
    }
}
