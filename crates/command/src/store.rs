//! The store as a command sees it: the entered shards as one keyspace.
//!
//! Look-ups never return an expired value: an expired record is deleted where it is met, as an effect of its
//! own. A function that changes a key says so three ways, in one place: [`Store::changed`] (watchers, event,
//! counter), [`Store::effect`] (what a journal would have to run), and, if the collection may have become empty,
//! [`Store::delete_if_empty`].

use ds::random::Random;
use keyspace::access;
use keyspace::{Config, Db, Kind, Marks, Record, RecordMut, RecordRef, Str, Type, UnixMs, Value, ValueRef};
use shard::{Ready, ShardId};
use smallvec::SmallVec;

use crate::error::CommandError;
use crate::events::Class;
use crate::garbage::Garbage;
use crate::task::{Client, Post};
use crate::tx::Tx;

/// Fields in one `HDEL` of an effect.
const EFFECT_FIELDS_MAX: usize = 1024;
/// Values of more elements than this are freed outside the shards.
const FREED_IN_PLACE_MAX: usize = 64;
/// The same of bytes: to give more back to the system takes long.
const FREED_IN_PLACE_BYTES_MAX: usize = 1 << 20;

/// The store, as far as the transaction entered it, seen by one client.
pub struct Store<'a, 't> {
    /// The transaction.
    pub tx: &'a mut Tx<'t>,
    /// For whom: says the selected database.
    pub client: Client,
    pub(crate) located: Located,
}

/// Where a key of the running command lies. The key is known by its address: the arguments stay where they are while the
/// command runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Located {
    address: usize,
    length: usize,
    shard: ShardId,
    hash: u64,
}

impl Located {
    /// What the placement says about `key`.
    #[inline]
    pub fn new(key: &[u8], (shard, hash): (ShardId, u64)) -> Self {
        Located { address: key.as_ptr().addr(), length: key.len(), shard, hash }
    }

    /// The shard.
    #[inline]
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// The hash of the key.
    #[inline]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

impl<'a, 't> Store<'a, 't> {
    /// The store as `client` sees it.
    pub fn new(tx: &'a mut Tx<'t>, client: Client) -> Self {
        Store { tx, client, located: Located::default() }
    }

    /// The time of the transaction.
    #[inline]
    pub fn now(&self) -> UnixMs {
        self.tx.now
    }

    /// Whether something that is to go at `time` goes at once.
    pub fn is_past(&self, time: UnixMs) -> bool {
        time <= self.tx.now && !self.tx.keeps_due
    }

    /// Settings.
    #[inline]
    pub fn config(&self) -> &'t Config {
        self.tx.config
    }

    /// The shard and the hash of `key`.
    #[inline]
    pub fn locate(&self, key: &[u8]) -> (ShardId, u64) {
        let known = &self.located;
        if known.address == key.as_ptr().addr() && known.length == key.len() {
            return (known.shard, known.hash);
        }
        self.tx.hold.shards().placement().locate(key)
    }

    /// Chance, from the shard of `key`.
    pub fn random(&mut self, key: &[u8]) -> &mut Random {
        let (id, _) = self.locate(key);
        &mut self.tx.hold.shard_mut(id).random
    }

    // ---- looking up ------------------------------------------------------------------------------------

    /// The value of `key` for a reading command: counts a hit or a miss, touches the access clock.
    #[inline]
    pub fn read(&mut self, key: &[u8]) -> Option<ValueRef<'_>> {
        self.read_record(key).map(RecordRef::value)
    }

    /// The same with its record.
    #[inline]
    pub fn read_record(&mut self, key: &[u8]) -> Option<RecordRef<'_>> {
        let (id, hash) = self.locate(key);
        self.expire_if_due(id, hash, key);
        let (db, touch) = (self.client.db, !self.client.no_touch);
        let Tx { hold, config, posts, now, .. } = &mut *self.tx;
        let shard = hold.shard_mut(id);
        match shard.dbs[db as usize].find_to_touch(hash, key) {
            Some(mut record) => {
                shard.stats.keyspace_hits.add(1);
                if touch {
                    let word = word_after_use(record.lend().access(), config, *now, &mut shard.random);
                    record.set_read(word);
                }
                Some(record.into_ref())
            }
            None => {
                shard.stats.keyspace_misses.add(1);
                if config.notify & Class::KeyMiss as u32 != 0 {
                    post_event(posts, config.notify, db, "keymiss", key);
                }
                None
            }
        }
    }

    /// The value of `key` as a `T` for a reading command.
    #[inline]
    pub fn read_as<T: Type>(&mut self, key: &[u8]) -> Result<Option<T::Ref<'_>>, CommandError> {
        match self.read(key) {
            None => Ok(None),
            Some(value) => T::of(value).map(Some).ok_or(CommandError::WRONG_TYPE),
        }
    }

    /// The live record of `key`, without counting or touching: several may be borrowed at once.
    #[inline]
    pub fn peek(&self, key: &[u8]) -> Option<RecordRef<'_>> {
        let (id, hash) = self.locate(key);
        let record = self.tx.hold.shard(id).dbs[self.client.db as usize].find(hash, key)?;
        (!record.expired(self.tx.now) || self.tx.keeps_due).then_some(record)
    }

    /// The value of `key` as a `T`, without counting or touching: several may be borrowed at once.
    pub fn peek_as<T: Type>(&self, key: &[u8]) -> Result<Option<T::Ref<'_>>, CommandError> {
        match self.peek(key) {
            None => Ok(None),
            Some(record) => T::of(record.value()).map(Some).ok_or(CommandError::WRONG_TYPE),
        }
    }

    /// Whether `key` exists.
    pub fn exists(&self, key: &[u8]) -> bool {
        self.peek(key).is_some()
    }

    /// The value of `key` as a `T`, to be changed.
    #[inline]
    pub fn write_as<T: Type>(&mut self, key: &[u8]) -> Result<Option<T::Mut<'_>>, CommandError> {
        match self.write(key) {
            None => Ok(None),
            Some(record) => T::of_mut(record).map(Some).ok_or(CommandError::WRONG_TYPE),
        }
    }

    /// The record of `key`, its value to be changed.
    #[inline]
    pub fn write(&mut self, key: &[u8]) -> Option<RecordMut<'_>> {
        let (id, hash) = self.locate(key);
        self.expire_if_due(id, hash, key);
        let (db, now, touch) = (self.client.db as usize, self.tx.now, !self.client.no_touch);
        let shard = self.tx.hold.shard_mut(id);
        let mut record = shard.dbs[db].find_mut(hash, key)?;
        if touch {
            note_access(&mut record, self.tx.config, now, &mut shard.random);
        }
        Some(record)
    }

    /// The value of `key` as a `T` to be changed, created empty if there is none: the caller must put something
    /// in.
    #[inline]
    pub fn upsert<T: Type>(&mut self, key: &[u8]) -> Result<T::Mut<'_>, CommandError> {
        let (id, hash) = self.locate(key);
        self.expire_if_due(id, hash, key);
        let (db, touch) = (self.client.db, !self.client.no_touch);
        let Tx { hold, config, posts, now, is_unfinished, .. } = &mut *self.tx;
        let shard = hold.shard_mut(id);
        let (mut record, is_new) = shard.dbs[db as usize].find_or_insert(hash, key, T::create);
        if is_new {
            record.set_access(access::created(config.lfu, *now));
            if shard.waiters.any(db, key) {
                shard.ready.push(Ready { db, key: key.into(), was_lost: false });
                *is_unfinished = true;
            }
            if config.notify & Class::New as u32 != 0 {
                post_event(posts, config.notify, db, "new", key);
            }
        } else if touch {
            note_access(&mut record, config, *now, &mut shard.random);
        }
        T::of_mut(record).ok_or(CommandError::WRONG_TYPE)
    }

    // ---- storing ---------------------------------------------------------------------------------------

    /// Stores `value` under `key` whatever was there; its expiry is gone.
    pub fn set(&mut self, key: &[u8], value: Value) {
        self.replace(key, value, None);
    }

    /// Stores `value` under `key` whatever was there, with this expiry.
    pub fn replace(&mut self, key: &[u8], value: Value, expiry: Option<UnixMs>) {
        let (id, hash) = self.locate(key);
        self.expire_if_due(id, hash, key);
        let (db, now, touch) = (self.client.db as usize, self.tx.now, !self.client.no_touch);
        let shard = self.tx.hold.shard_mut(id);
        match shard.dbs[db].find_mut(hash, key) {
            Some(mut record) => {
                let has_volatile_fields = value.lend().first_field_expiry().is_some();
                let old = record.replace_value(value);
                note_overwriting(&mut record, self.tx.config, now, touch, &mut shard.random);
                if has_volatile_fields {
                    self.note_volatile_fields(key);
                }
                self.mark_ready(id, key);
                self.mark_lost(id, key, old.lend());
                self.free(old);
            }
            None => self.insert_new(id, hash, key, value),
        }
        self.db_mut(id).set_expiry_if_changed(hash, key, expiry);
    }

    /// Stores a string under `key` whatever was there; reuses its block where it can. The hot path of `SET`.
    #[inline]
    pub fn set_string(&mut self, key: &[u8], bytes: &[u8], expiry: Option<UnixMs>) {
        let (id, hash) = self.locate(key);
        let (db, now, touch) = (self.client.db as usize, self.tx.now, !self.client.no_touch);
        let shard = self.tx.hold.shard_mut(id);
        match shard.dbs[db].find_mut(hash, key) {
            Some(mut record) if !record.lend().expired(now) || self.tx.keeps_due => {
                let old = record.set_string(bytes);
                note_overwriting(&mut record, self.tx.config, now, touch, &mut shard.random);
                if record.lend().expiry() != expiry {
                    shard.dbs[db].set_expiry(hash, key, expiry);
                }
                if let Some(old) = old {
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

    /// Somebody may wait for `key`, which came to be: serve them when the transaction is complete.
    fn mark_ready(&mut self, id: ShardId, key: &[u8]) {
        self.push_ready(id, key, false);
    }

    /// Somebody may wait for the end of `old`, the value that `key` had: who reads a stream in a group does.
    fn mark_lost(&mut self, id: ShardId, key: &[u8], old: ValueRef<'_>) {
        if old.kind() == Kind::Stream {
            self.push_ready(id, key, true);
        }
    }

    fn push_ready(&mut self, id: ShardId, key: &[u8], was_lost: bool) {
        let db = self.client.db;
        let shard = self.tx.hold.shard_mut(id);
        if shard.waiters.any(db, key) {
            let ready = Ready { db, key: key.into(), was_lost };
            if shard.ready.last() != Some(&ready) {
                shard.ready.push(ready);
            }
            self.tx.is_unfinished = true;
        }
    }

    /// Somebody may wait for more of `key`, which has got it: serve them when the transaction is complete.
    #[inline]
    pub fn got_more(&mut self, key: &[u8]) {
        self.mark_ready(self.entered_shard(key), key);
    }

    /// Gives `key` this access word, after it was stored anew.
    pub fn set_access(&mut self, key: &[u8], access: u32) {
        let (id, hash) = self.locate(key);
        if let Some(mut record) = self.db_mut(id).find_mut(hash, key) {
            record.set_access(access);
        }
    }

    /// Takes `key` out, if it lives.
    pub fn take(&mut self, key: &[u8]) -> Option<Record> {
        let (id, hash) = self.locate(key);
        self.expire_if_due(id, hash, key);
        let record = self.db_mut(id).remove(hash, key)?;
        self.mark_lost(id, key, record.lend().value());
        Some(record)
    }

    /// Deletes `key` with its effect and event `del`; false if there was none.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        let Some(record) = self.take(key) else { return false };
        self.free(record.into_value());
        self.changed(key, Class::Generic, "del");
        self.effect(&[b"DEL", key]);
        true
    }

    /// Frees a value that left the keyspace; a large one later, outside the shards.
    pub fn free(&mut self, value: Value) {
        let is_large = match &value {
            Value::Str(string) => string.len() > FREED_IN_PLACE_BYTES_MAX,
            Value::List(list) => {
                list.len() > FREED_IN_PLACE_MAX || list.memory_bytes() > FREED_IN_PLACE_BYTES_MAX
            }
            Value::Set(_) | Value::ZSet(_) | Value::Hash(_) | Value::Stream(_) => {
                value.len() > FREED_IN_PLACE_MAX
            }
        };
        if is_large {
            self.tx.posts.push(Post::Free(Garbage::Value(value)));
        }
    }

    /// Deletes `key` if its collection became empty, with the event `del`; the effect that emptied it deletes
    /// it wherever it is run.
    pub fn delete_if_empty(&mut self, key: &[u8]) -> bool {
        let empty = self.peek(key).is_some_and(|record| record.value().is_empty());
        if empty {
            let (id, hash) = self.locate(key);
            self.db_mut(id).remove(hash, key);
            self.notify(Class::Generic, "del", key);
        }
        empty
    }

    // ---- expiry ----------------------------------------------------------------------------------------

    /// When `key` expires; `None` if it does not exist or has no expiry.
    pub fn expiry(&self, key: &[u8]) -> Option<UnixMs> {
        self.peek(key)?.expiry()
    }

    /// Sets or takes away the expiry of `key`; neither effect nor event.
    pub fn set_expiry(&mut self, key: &[u8], expiry: Option<UnixMs>) -> bool {
        let (id, hash) = self.locate(key);
        self.db_mut(id).set_expiry(hash, key, expiry)
    }

    /// Gives `key`, if it exists, this expiry, with its effect and the event `expire`.
    pub fn expire_at(&mut self, key: &[u8], expiry: UnixMs) {
        if self.set_expiry(key, Some(expiry)) {
            self.changed(key, Class::Generic, "expire");
            self.effect_with(|store| {
                store.effect(&[b"PEXPIREAT", key, itoa::Buffer::new().format(expiry).as_bytes()]);
            });
        }
    }

    /// Takes the expiry of `key` away, with its effect and the event `persist`; false if it had none.
    pub fn persist(&mut self, key: &[u8]) -> bool {
        let had = self.expiry(key).is_some();
        if had {
            self.set_expiry(key, None);
            self.changed(key, Class::Generic, "persist");
            self.effect(&[b"PERSIST", key]);
        }
        had
    }

    #[inline]
    fn expire_if_due(&mut self, id: ShardId, hash: u64, key: &[u8]) {
        let db = &self.tx.hold.shard(id).dbs[self.client.db as usize];
        if db.volatile_len() == 0 && !db.has_volatile_fields() {
            return;
        }
        let Some(record) = db.find(hash, key) else { return };
        let now = self.tx.now;
        let is_over = record.expiry().is_some_and(|expiry| expiry < now);
        let has_due = record.value().first_field_expiry().is_some_and(|first| first < now);
        if (is_over || has_due) && self.tx.keeps_due {
            return;
        }
        if has_due {
            self.expire_fields(key, usize::MAX);
        }
        if is_over && self.tx.hold.shard(id).dbs[self.client.db as usize].find(hash, key).is_some() {
            self.delete_expired(key);
        }
    }

    /// Removes up to `count_max` fields of the hash at `key` because their time has come, as an effect of their own;
    /// how many there were.
    pub fn expire_fields(&mut self, key: &[u8], count_max: usize) -> usize {
        let (id, hash) = self.locate(key);
        let now = self.tx.now;
        let record = self.db_mut(id).find_mut(hash, key);
        let due = record
            .filter(|record| record.lend().value().first_field_expiry().is_some_and(|first| first < now));
        let Some(Value::Hash(fields)) = due.map(RecordMut::into_value) else { return 0 };
        let taken = fields.take_due(now, count_max);
        self.tx.hold.shard_mut(id).stats.expired_fields.add(taken.len() as u64);
        self.changed_elements(key, Class::Hash, "hexpired", 0);
        self.effect_with(|store| {
            for some in taken.chunks(EFFECT_FIELDS_MAX) {
                let fields = some.iter().map(|field| &**field);
                let effect: Vec<&[u8]> = [&b"HDEL"[..], key].into_iter().chain(fields).collect();
                store.effect_of_time(&effect);
            }
        });
        self.delete_if_empty(key);
        taken.len()
    }

    /// Whether what happens to `key` by itself is to wait for a snapshot.
    pub fn holds_back(&mut self, key: &[u8]) -> bool {
        let (id, hash) = self.locate(key);
        self.db_mut(id).holds_back(hash, key)
    }

    /// Notes that the hash at `key` has fields that expire.
    pub fn note_volatile_fields(&mut self, key: &[u8]) {
        let (id, hash) = self.locate(key);
        let db = self.client.db as usize;
        let shard = self.tx.hold.shard_mut(id);
        shard.dbs[db].note_volatile_fields_of(hash, key);
    }

    /// Deletes `key` because its time has come, as an effect of its own.
    pub fn delete_expired(&mut self, key: &[u8]) {
        let (id, _) = self.locate(key);
        self.tx.hold.shard_mut(id).stats.expired_keys.add(1);
        self.delete_unasked(key, Class::Expired, "expired");
    }

    /// Deletes `key` to make room, as an effect of its own.
    pub fn evict(&mut self, key: &[u8]) {
        let (id, _) = self.locate(key);
        self.tx.hold.shard_mut(id).stats.evicted_keys.add(1);
        self.delete_unasked(key, Class::Evicted, "evicted");
    }

    fn delete_unasked(&mut self, key: &[u8], class: Class, event: &'static str) {
        let (id, hash) = self.locate(key);
        if let Some(record) = self.db_mut(id).remove(hash, key) {
            self.mark_lost(id, key, record.lend().value());
            self.free(record.into_value());
        }
        // Redis does not count it.
        self.changed_elements(key, class, event, 0);
        self.effect_of_time(&[b"DEL", key]);
    }

    // ---- marks -----------------------------------------------------------------------------------------

    /// Marks the item at `key`, if there is one, with its effect.
    pub fn mark(&mut self, key: &[u8], marks: Marks) {
        self.set_marks(key, marks);
        self.effect_with(|store| store.effect_of_marks(key));
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

    // ---- saying what changed ---------------------------------------------------------------------------

    /// Says that `key` was changed by this: tells those who watch it, publishes the event if somebody asked for
    /// such, counts one change.
    #[inline]
    pub fn changed(&mut self, key: &[u8], class: Class, event: &'static str) {
        self.changed_elements(key, class, event, 1);
    }

    /// The same for a command that counts as `count` changes: as many as the elements that it changed; 0 if what it
    /// did to another key was counted.
    #[inline]
    pub fn changed_elements(&mut self, key: &[u8], class: Class, event: &'static str, count: usize) {
        self.touched(key, count);
        self.notify(class, event, key);
    }

    /// Like [`Store::changed_elements`] without an event.
    #[inline]
    pub fn touched(&mut self, key: &[u8], count: usize) {
        let (db, writer) = (self.client.db, self.client.id);
        let shard = self.counted(key, count);
        if !shard.watches.is_empty() {
            shard.watches.touch(db, key);
        }
        if !shard.tracking.is_empty() {
            let told = shard.tracking.changed(key, writer);
            self.tx.tell_of_change(told, key);
        }
    }

    /// Says that whole databases are gone, as far as they lie on the entered shards.
    pub fn flushed(&mut self) {
        for id in self.entered() {
            self.tx.hold.shard_mut(id).tracking.clear_keys();
        }
        self.tx.posts.push(Post::Flushed);
    }

    /// Like [`Store::touched`] for a change that those who watch `key` are not told, because Redis does not tell them: what
    /// happens to the groups of a stream, say.
    #[inline]
    pub fn counted(&mut self, key: &[u8], count: usize) -> &mut crate::Shard {
        let id = self.entered_shard(key);
        self.tx.wrote = true;
        let shard = self.tx.hold.shard_mut(id);
        shard.stats.changes.add(count as u64);
        shard
    }

    /// Publishes a keyspace event, if its class is asked for.
    #[inline]
    pub fn notify(&mut self, class: Class, event: &'static str, key: &[u8]) {
        if self.tx.config.notify & class as u32 != 0 {
            post_event(&mut self.tx.posts, self.tx.config.notify, self.client.db, event, key);
        }
    }

    /// Whether effects are recorded: spares building one.
    #[inline]
    pub fn records_effects(&self) -> bool {
        self.tx.record.is_on()
    }

    /// Lets `state` state the effects of what was done, if anybody records them: for those that take some building.
    #[inline]
    pub fn effect_with(&mut self, state: impl FnOnce(&mut Self)) {
        if self.tx.record.is_on() {
            state(self);
        }
    }

    /// States an effect: the command that does to another store what was done to this one. Whatever it works on, it is one
    /// effect, in the order of the transaction.
    #[inline]
    pub fn effect(&mut self, args: &[&[u8]]) {
        if self.tx.record.is_on() && !self.tx.is_silent {
            self.tx.state(self.client.db, args);
        }
    }

    /// States what time did, of which no script can be silent.
    #[inline]
    fn effect_of_time(&mut self, args: &[&[u8]]) {
        if self.tx.record.is_on() {
            self.tx.state(self.client.db, args);
        }
    }

    /// The shard of `key`, which was looked up before: spares hashing it again when only one was entered.
    #[inline]
    fn entered_shard(&self, key: &[u8]) -> ShardId {
        match self.tx.hold.entered() {
            [only] => *only,
            _ => self.locate(key).0,
        }
    }

    // ---- whole databases -------------------------------------------------------------------------------

    /// The shards that were entered, ascending: what commands on whole databases work on.
    pub fn entered(&self) -> SmallVec<[ShardId; 8]> {
        self.tx.hold.entered().into()
    }

    /// Number of databases.
    pub fn db_count(&self) -> u32 {
        self.tx.hold.entered().first().map_or(0, |&id| self.tx.hold.shard(id).dbs.len() as u32)
    }

    /// The selected database on shard `id`.
    pub fn db(&self, id: ShardId) -> &Db {
        &self.tx.hold.shard(id).dbs[self.client.db as usize]
    }

    /// The selected database on shard `id`, to be changed.
    #[inline]
    pub fn db_mut(&mut self, id: ShardId) -> &mut Db {
        let db = self.client.db as usize;
        &mut self.tx.hold.shard_mut(id).dbs[db]
    }
}

#[cold]
fn post_event(posts: &mut Vec<Post>, mask: u32, db: u32, event: &'static str, key: &[u8]) {
    if mask & Class::Keyspace as u32 != 0 {
        let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat().into();
        posts.push(Post::Event { channel, message: event.as_bytes().into() });
    }
    if mask & Class::Keyevent as u32 != 0 {
        let channel = format!("__keyevent@{db}__:{event}").into_bytes().into();
        posts.push(Post::Event { channel, message: key.into() });
    }
}

/// The access word of a record after one more use.
#[inline]
fn word_after_use(access: u32, config: &Config, now: UnixMs, random: &mut Random) -> u32 {
    match config.lfu {
        None => access::lru_clock(now),
        Some(lfu) => lfu.used(access, now, random),
    }
}

/// Notes a use of a record.
#[inline]
fn note_access(record: &mut RecordMut, config: &Config, now: UnixMs, random: &mut Random) {
    let word = word_after_use(record.lend().access(), config, now, random);
    record.set_access(word);
}

/// The same for one whose value was replaced, which without `touch` counts as a new one, or keeps its count.
#[inline]
fn note_overwriting(record: &mut RecordMut, config: &Config, now: UnixMs, touch: bool, random: &mut Random) {
    if touch || config.lfu.is_none() {
        note_access(record, config, now, random);
    }
}
