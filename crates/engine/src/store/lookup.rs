//! Finds keys and their values. Reading counts a hit or a miss and updates the access clock. Peeking does neither, and
//! may borrow several values at once.

use ds::random::Random;
use keyspace::access;
use keyspace::{Config, Creatable, InPlace, Packable, Record, RecordMut, RecordRef, Type, UnixMs, ValueRef};
use shard::{Ready, ShardId};
use smallvec::SmallVec;

use super::Store;
use super::changes::post_event;
use crate::error::CommandError;
use crate::tx::{Due, Located, Tx};
use keyspace::Class;

/// The usual length of the text of [`BesideQueue`].
const NAME_BYTES: usize = 48;

impl Store<'_, '_> {
    /// The shard and the hash of `key`.
    #[inline]
    pub fn locate(&self, key: &[u8]) -> (ShardId, u64) {
        let known = &self.located;
        if known.address == key.as_ptr().addr() && known.length == key.len() {
            return (known.shard(), known.hash());
        }
        if let Some(place) = self.beside_queue.find(key) {
            return place;
        }
        self.tx.hold.shards().placement().locate(key)
    }

    /// The shard of `key`, which was looked up before: if only one shard is entered, this need not hash the key again.
    #[inline]
    pub(crate) fn entered_shard(&self, key: &[u8]) -> ShardId {
        match self.tx.hold.entered() {
            [only] => *only,
            _ => self.locate(key).0,
        }
    }

    /// The value of `key` for a reading command: counts a hit or a miss, and updates the access clock.
    #[inline]
    pub fn read(&mut self, key: &[u8]) -> Option<ValueRef<'_>> {
        self.read_record(key).map(RecordRef::value)
    }

    /// The record of `key` for a reading command.
    #[inline]
    pub fn read_record(&mut self, key: &[u8]) -> Option<RecordRef<'_>> {
        read_with_buffer(self, key).map(|(record, _)| record)
    }

    /// The value of `key` as a `T` for a reading command.
    #[inline]
    pub fn read_as<T: Type>(&mut self, key: &[u8]) -> Result<Option<T::Ref<'_>>, CommandError> {
        // The lent value borrows the store.
        let (shards, keeps_due, now) = (self.tx.hold.shards(), self.tx.keeps_due, self.tx.now);
        let hidden_before = || (shards.hides_due() && !keeps_due).then_some(now);
        match read_with_buffer(self, key) {
            None => Ok(None),
            Some((record, buffer)) => {
                let value = T::expanded(record.value(), buffer);
                T::shown(value, hidden_before).map(Some).ok_or(CommandError::WRONG_TYPE)
            }
        }
    }

    /// The live record of `key`, without counting or updating the clock: several may be borrowed at once.
    #[inline]
    pub fn peek(&self, key: &[u8]) -> Option<RecordRef<'_>> {
        let (id, hash) = self.locate(key);
        let record = self.tx.hold.shard(id).dbs[self.client.db as usize].find(hash, key)?;
        (!record.expired(self.tx.now) || self.tx.due() == Due::Keep).then_some(record)
    }

    /// The value of `key` as a `T`, without counting or updating the clock: several may be borrowed at once.
    pub fn peek_as<T: InPlace>(&self, key: &[u8]) -> Result<Option<T::Ref<'_>>, CommandError> {
        self.peek(key).map(|record| shown::<T>(self, record.value())).transpose()
    }

    /// Whether `key` exists.
    pub fn exists(&self, key: &[u8]) -> bool {
        self.peek(key).is_some()
    }

    /// The value of `key` as a `T`, to be changed.
    #[inline]
    pub fn write_as<T: Type>(&mut self, key: &[u8]) -> Result<Option<T::Mut<'_>>, CommandError> {
        let steady = self.tx.steady;
        match self.write(key) {
            None => Ok(None),
            Some(record) => {
                T::of_mut(record).map(|value| Some(T::at(value, steady))).ok_or(CommandError::WRONG_TYPE)
            }
        }
    }

    /// The record of `key`, to change its value.
    #[inline]
    pub fn write(&mut self, key: &[u8]) -> Option<RecordMut<'_>> {
        let (id, hash) = self.locate(key);
        expire_to_write(self, id, hash, key);
        let (db, now, touch) = (self.client.db as usize, self.tx.now, !self.client.no_touch);
        let shard = self.tx.hold.shard_mut(id);
        let mut record = shard.dbs[db].find_mut(hash, key)?;
        if touch {
            note_access(&mut record, &self.tx.config, now, &mut shard.random);
        }
        Some(record)
    }

    /// The value of `key` as a `T` to be changed. It is created empty if it does not exist; the caller must then add
    /// something.
    #[inline]
    pub fn upsert<T: Creatable>(&mut self, key: &[u8]) -> Result<T::Mut<'_>, CommandError> {
        upsert_or::<T>(self, key, T::create)
    }
}

/// [`Store::upsert`] of a collection that changes all the time: see [`Record::new_in_place`].
pub fn upsert_in_place<'s, T: Packable>(
    store: &'s mut Store<'_, '_>,
    key: &[u8],
) -> Result<T::Mut<'s>, CommandError> {
    upsert_or::<T>(store, key, Record::new_in_place::<T>)
}

#[inline(always)]
fn upsert_or<'s, T: Type>(
    store: &'s mut Store<'_, '_>,
    key: &[u8],
    create: impl FnOnce(&[u8]) -> Record,
) -> Result<T::Mut<'s>, CommandError> {
    let (id, hash) = store.locate(key);
    expire_to_write(store, id, hash, key);
    let (db, touch) = (store.client.db, !store.client.no_touch);
    let Tx { hold, config, outbox, now, steady, is_unfinished, has_ready, .. } = &mut *store.tx;
    let shard = hold.shard_mut(id);
    let waiters = &mut shard.waiters;
    let (mut record, is_new) = shard.dbs[db as usize].find_or_insert(hash, key, |key, idle| {
        let emptied = idle.or_else(|| waiters.take_emptied(db, key));
        emptied.filter(|record| T::of(record.lend().value()).is_some()).unwrap_or_else(|| create(key))
    });
    if is_new {
        record.set_access(access::created(config.lfu, *now));
        if shard.waiters.any(db, key) {
            shard.ready.push(Ready { db, key: key.into(), was_lost: false, has_more: false });
            (*is_unfinished, *has_ready) = (true, true);
        }
        if config.notify & Class::New as u32 != 0 {
            post_event(outbox, config.notify, db, "new", key);
        }
    } else {
        if touch {
            note_access(&mut record, config, *now, &mut shard.random);
        }
        if T::IS_AWAITED_TO_GROW && shard.waiters.any_for_growth(db, key) {
            shard.ready.push(Ready { db, key: key.into(), was_lost: false, has_more: false });
            (*is_unfinished, *has_ready) = (true, true);
        }
    }
    T::of_mut(record).map(|value| T::at(value, *steady)).ok_or(CommandError::WRONG_TYPE)
}

/// Computes where `key` is, so that later look-ups need not. It has to be an argument of the running command,
/// or to stay at its address until the command is over.
pub fn note_place(store: &mut Store, key: &[u8]) {
    store.located = Located::new(key, store.locate(key));
}

/// Computes where two keys beside `queue` are: the first `lens[0]` and `lens[1]` bytes of `text`.
pub fn note_beside(store: &mut Store, queue: &[u8], text: &[u8], lens: [usize; 2]) {
    let (shard, _) = store.locate(queue);
    let placement = store.tx.hold.shards().placement();
    store.beside_queue.keys = lens.map(|len| (len, placement.locate_beside(shard, &text[..len])));
    store.beside_queue.text.clear();
    store.beside_queue.text.extend_from_slice(text);
}

/// The places of the keys that [`note_beside`] named. They are identified by name, whereas [`Located`]
/// identifies an argument by its address.
#[derive(Default)]
pub(crate) struct BesideQueue {
    text: SmallVec<[u8; NAME_BYTES]>,
    /// The length of each key in the text, 0 for none, and its place.
    keys: [(usize, (ShardId, u64)); 2],
}

impl BesideQueue {
    #[inline]
    fn find(&self, key: &[u8]) -> Option<(ShardId, u64)> {
        let (len, place) = self.keys.into_iter().find(|(len, _)| *len == key.len())?;
        (len > 0 && self.text[..len] == *key).then_some(place)
    }
}

/// [`Store::peek_as`] for a type that may be compressed; a compressed value is expanded into `buffer`.
pub fn peek_into<'s, T: Type>(
    store: &'s Store,
    key: &[u8],
    buffer: &'s mut Vec<u8>,
) -> Result<Option<T::Ref<'s>>, CommandError> {
    store.peek(key).map(|record| shown::<T>(store, T::expanded(record.value(), buffer))).transpose()
}

/// The live value of `key`, without counting or updating the clock, and without elements that have expired.
pub fn peek_shown<'s>(store: &'s Store, key: &[u8]) -> Option<ValueRef<'s>> {
    let hidden_before = || (store.tx.due() == Due::Hide).then_some(store.tx.now);
    store.peek(key).map(|record| record.value().hiding(hidden_before))
}

fn shown<'s, T: Type>(store: &Store, value: ValueRef<'s>) -> Result<T::Ref<'s>, CommandError> {
    let hidden_before = || (store.tx.due() == Due::Hide).then_some(store.tx.now);
    T::shown(value, hidden_before).ok_or(CommandError::WRONG_TYPE)
}

/// The record of `key` for a reading command, and the buffer that a compressed hash is expanded into.
#[inline]
fn read_with_buffer<'s>(
    store: &'s mut Store<'_, '_>,
    key: &[u8],
) -> Option<(RecordRef<'s>, &'s mut Vec<u8>)> {
    let (id, hash) = store.locate(key);
    let is_hidden = expire_if_due(store, id, hash, key);
    let (db, touch) = (store.client.db, !store.client.no_touch);
    let Tx { hold, config, outbox, now, expanded, .. } = &mut *store.tx;
    let shard = hold.shard_mut(id);
    let found = if is_hidden { None } else { shard.dbs[db as usize].find_to_touch(hash, key) };
    match found {
        Some(mut record) => {
            shard.stats.keyspace_hits.add(1);
            if touch {
                let word = word_after_use(record.lend().access(), config, *now, &mut shard.random);
                record.set_read(word);
            }
            Some((record.into_ref(), expanded))
        }
        None => {
            shard.stats.keyspace_misses.add(1);
            if config.notify & Class::KeyMiss as u32 != 0 {
                post_event(outbox, config.notify, db, "keymiss", key);
            }
            None
        }
    }
}

/// Deletes the key if it has expired, and expired fields. True if the key has expired but stays, hidden.
#[inline(always)]
#[must_use]
fn expire_if_due(store: &mut Store<'_, '_>, id: ShardId, hash: u64, key: &[u8]) -> bool {
    has_volatile(store, id) && meet(store, id, hash, key, false)
}

/// Deletes expired data before `key` is written. A replica whose clients may write deletes it, too, so that
/// their writes are visible.
#[inline(always)]
pub(super) fn expire_to_write(store: &mut Store<'_, '_>, id: ShardId, hash: u64, key: &[u8]) {
    let is_hidden = has_volatile(store, id) && meet(store, id, hash, key, true);
    debug_assert!(!is_hidden, "nothing is written where it is hidden");
}

/// Whether anything in the database can expire. Always inlined: if nothing can, this costs a look-up two
/// loads and no call.
#[inline(always)]
fn has_volatile(store: &Store<'_, '_>, id: ShardId) -> bool {
    let data = store.tx.hold.shard(id).dbs.used(store.client.db as usize);
    data.is_some_and(|data| data.volatile_len() > 0 || data.has_volatile_elements())
}

fn meet(store: &mut Store<'_, '_>, id: ShardId, hash: u64, key: &[u8], writes: bool) -> bool {
    let (db, now) = (store.client.db as usize, store.tx.now);
    let Some(record) = store.tx.hold.shard(id).dbs[db].find(hash, key) else { return false };
    let is_over = record.expiry().is_some_and(|expiry| expiry < now);
    let has_due = record.value().first_element_expiry().is_some_and(|first| first < now);
    if !is_over && !has_due {
        return false;
    }
    meet_due(store, key, is_over, writes)
}

#[cold]
#[inline(never)]
fn meet_due(store: &mut Store<'_, '_>, key: &[u8], is_over: bool, writes: bool) -> bool {
    let ((id, hash), db) = (store.locate(key), store.client.db as usize);
    let find = |store: &Store<'_, '_>| {
        store.tx.hold.shard(id).dbs[db].find(hash, key).map(|record| record.expired(store.tx.now))
    };
    match store.tx.due() {
        Due::Keep => return false,
        Due::Hide if !writes => return find(store) == Some(true),
        Due::Hide | Due::Delete => {}
    }
    store.expire_elements(key, usize::MAX);
    if is_over && find(store).is_some() {
        store.delete_expired(key);
    }
    false
}

/// The access word of a record after another use.
#[inline]
pub(super) fn word_after_use(access: u32, config: &Config, now: UnixMs, random: &mut Random) -> u32 {
    match config.lfu {
        None => access::lru_clock(now),
        Some(lfu) => lfu.used(access, now, random),
    }
}

/// Records a use.
#[inline]
pub(super) fn note_access(record: &mut RecordMut, config: &Config, now: UnixMs, random: &mut Random) {
    let word = word_after_use(record.lend().access(), config, now, random);
    record.set_access(word);
}
