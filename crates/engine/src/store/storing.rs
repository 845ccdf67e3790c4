//! Stores and deletes values, and sets when they expire.
//!
//! Functions that a command calls for its own change neither announce it nor record an effect: the command
//! does that (`changes.rs`). Changes that no command asked for, because time has passed or memory is needed,
//! are announced and recorded here.

use ds::random::Random;
use keyspace::access;
use keyspace::{Config, Kind, Record, RecordMut, Str, UnixMs, Value, ValueRef};
use shard::{Ready, ShardId};

use super::Store;
use super::changes::{effect_of_time, tell};
use super::lookup::{expire_to_write, note_access};
use crate::change::Change;
use crate::garbage::Garbage;
use crate::task::TxMessage;
use keyspace::Class;

/// The most elements in one `HDEL` or `SREM` that is recorded as an effect.
const EFFECT_ELEMENTS_MAX: usize = 1024;
/// Values with more elements than this are freed outside the shards.
const FREED_IN_PLACE_MAX: usize = 64;
/// Larger lists and strings are freed outside the shards, too: returning more memory to the system takes
/// long.
const FREED_IN_PLACE_BYTES_MAX: usize = 1 << 20;

impl Store<'_, '_> {
    /// Stores `value` under `key`, replaces the previous value, and removes the expiry.
    pub fn set(&mut self, key: &[u8], value: Value) {
        self.replace(key, value, None);
    }

    /// Stores `value` under `key` with this expiry, and replaces the previous value.
    pub fn replace(&mut self, key: &[u8], value: Value, expiry: Option<UnixMs>) {
        let (id, hash) = self.locate(key);
        expire_to_write(self, id, hash, key);
        let (db, now, touch) = (self.client.db as usize, self.tx.now, !self.client.no_touch);
        let shard = self.tx.hold.shard_mut(id);
        match shard.dbs[db].find_mut(hash, key) {
            Some(mut record) => {
                let has_volatile_elements = value.lend().first_element_expiry().is_some();
                let mut old = record.replace_value(value);
                note_overwriting(&mut record, &self.tx.config, now, touch, &mut shard.random);
                shard.dbs[db].note_replaced(hash, key, &mut old);
                if has_volatile_elements {
                    self.note_volatile_elements(key);
                }
                self.mark_ready(id, key);
                self.mark_lost(id, key, old.lend());
                self.free(old);
            }
            None => self.insert_new(id, hash, key, value),
        }
        self.db_mut(id).set_expiry_if_changed(hash, key, expiry);
    }

    /// Stores a string under `key`, replaces the previous value, and reuses its block if possible. The hot
    /// path of `SET`.
    #[inline]
    pub fn set_string(&mut self, key: &[u8], bytes: &[u8], expiry: Option<UnixMs>) {
        let (id, hash) = self.locate(key);
        let (db, now, touch) = (self.client.db as usize, self.tx.now, !self.client.no_touch);
        let shard = self.tx.hold.shard_mut(id);
        match shard.dbs[db].find_mut(hash, key) {
            Some(mut record) if !record.lend().expired(now) || self.tx.keeps_due => {
                let old = record.set_string(bytes);
                note_overwriting(&mut record, &self.tx.config, now, touch, &mut shard.random);
                if record.lend().expiry() != expiry {
                    shard.dbs[db].set_expiry(hash, key, expiry);
                }
                if let Some(mut old) = old {
                    self.db_mut(id).note_replaced(hash, key, &mut old);
                    self.mark_lost(id, key, old.lend());
                    self.free(old);
                }
            }
            Some(_) => {
                self.delete_expired(key);
                self.set_string(key, bytes, expiry);
            }
            None => {
                self.insert_new(id, hash, key, Value::Str(Str::new(bytes)));
                if expiry.is_some() {
                    self.db_mut(id).set_expiry(hash, key, expiry);
                }
            }
        }
    }

    fn insert_new(&mut self, id: ShardId, hash: u64, key: &[u8], value: Value) {
        let access = access::created(self.tx.config.lfu, self.tx.now);
        self.db_mut(id).insert(hash, key, value).set_access(access);
        self.mark_ready(id, key);
        if self.tx.config.notify & Class::New as u32 != 0 {
            self.notify(Class::New, "new", key);
        }
    }

    /// Notes that `key` was created: clients that wait for it are served when the transaction is complete.
    pub(crate) fn mark_ready(&mut self, id: ShardId, key: &[u8]) {
        self.push_ready(id, key, false, false);
    }

    /// Notes that `old`, the value of `key`, is gone: clients that read a stream in a group may wait for
    /// that.
    fn mark_lost(&mut self, id: ShardId, key: &[u8], old: ValueRef<'_>) {
        if old.kind() == Kind::Stream {
            self.push_ready(id, key, true, false);
        }
    }

    fn push_ready(&mut self, id: ShardId, key: &[u8], was_lost: bool, has_more: bool) {
        let db = self.client.db;
        let shard = self.tx.hold.shard_mut(id);
        if shard.waiters.any(db, key) {
            let ready = Ready { db, key: key.into(), was_lost, has_more };
            if shard.ready.last() != Some(&ready) {
                shard.ready.push(ready);
            }
            self.tx.note_ready(true);
        }
    }

    /// Notes that `key` has more elements: clients that wait for them are served when the transaction is
    /// complete.
    #[inline]
    pub fn got_more(&mut self, key: &[u8]) {
        self.mark_ready(self.entered_shard(key), key);
    }

    /// Sets the access word of `key`, after it was stored again.
    pub fn set_access(&mut self, key: &[u8], access: u32) {
        let (id, hash) = self.locate(key);
        if let Some(mut record) = self.db_mut(id).find_mut(hash, key) {
            record.set_access(access);
        }
    }

    /// Removes `key` and returns its record, if it exists.
    pub fn take(&mut self, key: &[u8]) -> Option<Record> {
        let (id, hash) = self.locate(key);
        expire_to_write(self, id, hash, key);
        let record = self.db_mut(id).remove(hash, key)?;
        self.mark_lost(id, key, record.lend().value());
        Some(record)
    }

    /// Deletes `key`, with its effect and the event `del`; false if it does not exist.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        let Some(record) = self.take(key) else { return false };
        if let Some(value) = record.into_distant_value() {
            self.free(value);
        }
        self.changed(key, Change::new(Class::Generic, "del"), &[b"DEL", key]);
        true
    }

    /// Frees a removed value; a large one later, outside the shards.
    pub fn free(&mut self, value: Value) {
        let is_large = match &value {
            Value::Str(string) => string.len() > FREED_IN_PLACE_BYTES_MAX,
            Value::List(list) => {
                list.len() > FREED_IN_PLACE_MAX || list.memory_bytes() > FREED_IN_PLACE_BYTES_MAX
            }
            Value::Sketch(sketch) => sketch.memory_bytes() > FREED_IN_PLACE_BYTES_MAX,
            Value::Set(_) | Value::ZSet(_) | Value::Hash(_) | Value::Stream(_) => {
                value.len() > FREED_IN_PLACE_MAX
            }
        };
        if is_large {
            self.tx.outbox.push(TxMessage::Free(Garbage::Value(value)));
        }
    }

    /// Deletes `key` if its collection has become empty, with the event `del`. It needs no effect of its own: the
    /// effect that empties the collection deletes it elsewhere, too.
    pub fn delete_if_empty(&mut self, key: &[u8]) -> bool {
        let empty = self.peek(key).is_some_and(|record| record.value().is_empty());
        if empty {
            let ((id, hash), db) = (self.locate(key), self.client.db);
            let shard = self.tx.hold.shard_mut(id);
            if let Some(record) = shard.dbs[db as usize].remove_emptied(hash, key) {
                shard.waiters.keep_emptied(db, key, record);
            }
            self.notify(Class::Generic, "del", key);
        }
        empty
    }

    /// When `key` expires; `None` if it does not exist or has no expiry.
    pub fn expiry(&self, key: &[u8]) -> Option<UnixMs> {
        self.peek(key)?.expiry()
    }

    /// Sets or removes the expiry of `key`, without effect or event.
    pub fn set_expiry(&mut self, key: &[u8], expiry: Option<UnixMs>) -> bool {
        let (id, hash) = self.locate(key);
        self.db_mut(id).set_expiry(hash, key, expiry)
    }

    /// Sets the expiry of `key`, if it exists, with its effect and the event `expire`.
    pub fn expire_at(&mut self, key: &[u8], expiry: UnixMs) {
        if self.set_expiry(key, Some(expiry)) {
            self.changed_with(key, Change::new(Class::Generic, "expire"), |store| {
                store.effect(&[b"PEXPIREAT", key, itoa::Buffer::new().format(expiry).as_bytes()]);
            });
        }
    }

    /// Removes the expiry of `key`, with its effect and the event `persist`; false if it had none.
    pub fn persist(&mut self, key: &[u8]) -> bool {
        let had = self.expiry(key).is_some();
        if had {
            self.set_expiry(key, None);
            self.changed(key, Change::new(Class::Generic, "persist"), &[b"PERSIST", key]);
        }
        had
    }

    /// Removes up to `count_max` expired fields of the hash, or members of the set, at `key`, as an effect of its own.
    /// Returns how many.
    pub fn expire_elements(&mut self, key: &[u8], count_max: usize) -> usize {
        let (id, hash) = self.locate(key);
        let now = self.tx.now;
        let record = self.db_mut(id).find_mut(hash, key);
        let due = record
            .filter(|record| record.lend().value().first_element_expiry().is_some_and(|first| first < now));
        let (taken, change, command) = match due.map(RecordMut::into_value) {
            Some(Value::Hash(hash)) => {
                (hash.take_due(now, count_max), Change::new(Class::Hash, "hexpired"), &b"HDEL"[..])
            }
            Some(Value::Set(set)) => {
                (set.take_due(now, count_max), Change::new(Class::Set, "sexpired"), &b"SREM"[..])
            }
            Some(Value::Str(_) | Value::List(_) | Value::ZSet(_) | Value::Stream(_) | Value::Sketch(_))
            | None => return 0,
        };
        self.tx.hold.shard_mut(id).stats.expired_elements.add(taken.len() as u64);
        tell(self, key, change.times(0));
        self.effect_with(|store| {
            for some in taken.chunks(EFFECT_ELEMENTS_MAX) {
                let elements = some.iter().map(|element| &**element);
                let effect: Vec<&[u8]> = [command, key].into_iter().chain(elements).collect();
                effect_of_time(store, &effect);
            }
        });
        self.delete_if_empty(key);
        taken.len()
    }

    /// Whether a change of `key` that no command asked for has to wait for a snapshot.
    pub fn holds_back(&mut self, key: &[u8]) -> bool {
        let (id, hash) = self.locate(key);
        self.db_mut(id).holds_back(hash, key)
    }

    /// Notes that the hash or set at `key` has elements that expire.
    pub fn note_volatile_elements(&mut self, key: &[u8]) {
        let (id, hash) = self.locate(key);
        let db = self.client.db as usize;
        let shard = self.tx.hold.shard_mut(id);
        shard.dbs[db].note_volatile_elements_of(hash, key);
    }

    /// Deletes `key` because it has expired, as an effect of its own.
    pub fn delete_expired(&mut self, key: &[u8]) {
        let (id, _) = self.locate(key);
        self.tx.hold.shard_mut(id).stats.expired_keys.add(1);
        self.delete_unasked(key, Class::Expired, "expired");
    }

    /// Deletes `key` to free memory, as an effect of its own.
    pub fn evict(&mut self, key: &[u8]) {
        let (id, _) = self.locate(key);
        self.tx.hold.shard_mut(id).stats.evicted_keys.add(1);
        self.delete_unasked(key, Class::Evicted, "evicted");
    }

    fn delete_unasked(&mut self, key: &[u8], class: Class, event: &'static str) {
        let (id, hash) = self.locate(key);
        if let Some(record) = self.db_mut(id).remove(hash, key) {
            self.mark_lost(id, key, record.lend().value());
            if let Some(value) = record.into_distant_value() {
                self.free(value);
            }
        }
        // Redis does not count this change.
        tell(self, key, Change::new(class, event).times(0));
        effect_of_time(self, &[b"DEL", key]);
    }
}

/// Notes that commands that take from the queue at `key` may find something that they did not find before,
/// regardless of its list: they are served when the transaction is complete.
pub fn got_room(store: &mut Store, key: &[u8]) {
    store.push_ready(store.entered_shard(key), key, false, true);
}

/// Records that a record's value was replaced. `touch` says whether this is a use that LFU counts.
#[inline]
fn note_overwriting(record: &mut RecordMut, config: &Config, now: UnixMs, touch: bool, random: &mut Random) {
    if touch || config.lfu.is_none() {
        note_access(record, config, now, random);
    }
}
