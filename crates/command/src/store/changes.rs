//! Saying what changed: to those who watch the key or cache it, to those who asked for events, and as an effect.
//!
//! One call says all three, so that none can be forgotten: [`Store::changed`], or [`Store::changed_with`] if the effect takes
//! some building. What a change brings with it (another key, a further event) is said beside it, without an effect of its own.
//!
//! What a [`Change`] says is known where it is said: these calls are inlined everywhere, so that nothing is left to be asked.

use crate::change::Change;
use crate::task::Post;
use effectlog::NO_DB;
use keyspace::Class;
use shard::ShardId;

use super::Store;

impl Store<'_, '_> {
    /// Says that `key` was changed, and that running `effect` does the same to another store.
    #[inline(always)]
    pub fn changed(&mut self, key: &[u8], change: Change, effect: &[&[u8]]) {
        tell(self, key, change);
        if self.tx.record.is_on() {
            effect_of(self, key, effect);
        }
    }

    /// The same with effects that take some building: `state` states them ([`Store::effect`]), and is called only if somebody
    /// records them.
    #[inline(always)]
    pub fn changed_with(&mut self, key: &[u8], change: Change, state: impl FnOnce(&mut Self)) {
        tell(self, key, change);
        if self.tx.record.is_on() {
            note_written(self, key);
            state(self);
        }
    }

    /// Says that `key` was changed as part of something whose effect another call states, or that needs none.
    #[inline(always)]
    pub fn also_changed(&mut self, key: &[u8], change: Change) {
        tell(self, key, change);
        if self.tx.record.is_on() {
            note_written(self, key);
        }
    }

    #[inline]
    fn touched(&mut self, key: &[u8], count: usize) {
        let shard = self.counted(key, count);
        if !shard.watches.is_empty() || !shard.tracking.is_empty() {
            tell_watchers(self, key);
        }
    }

    #[inline]
    fn counted(&mut self, key: &[u8], count: usize) -> &mut crate::Shard {
        let id = self.entered_shard(key);
        self.tx.wrote = true;
        let shard = self.tx.hold.shard_mut(id);
        shard.stats.changes.add(count as u64);
        shard
    }

    /// Says that whole databases are gone, as far as they lie on the entered shards.
    pub fn flushed(&mut self) {
        for id in self.entered() {
            self.tx.hold.shard_mut(id).tracking.clear_keys();
        }
        self.tx.posts.push(Post::Flushed);
    }

    /// Publishes a further event of a change, if its class is asked for.
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

    #[inline]
    pub(super) fn effect_with(&mut self, state: impl FnOnce(&mut Self)) {
        if self.tx.record.is_on() {
            state(self);
        }
    }

    /// States the effect of a change that is of no key: of everything in the entered shards, or of what all shards share.
    pub fn effect_everywhere(&mut self, args: &[&[u8]]) {
        for id in self.entered() {
            self.tx.hold.shard_mut(id).is_written = true;
        }
        self.effect(args);
    }

    /// States an effect: the command that does to another store what was done to this one. For [`Store::changed_with`].
    #[inline]
    pub fn effect(&mut self, args: &[&[u8]]) {
        if self.tx.record.is_on() && !self.tx.is_silent {
            let is_written = |&id: &ShardId| self.tx.hold.shard(id).is_written;
            debug_assert!(self.tx.hold.entered().iter().any(is_written), "of what shard is this a change?");
            self.tx.state(self.client.db, args);
        }
    }

    /// States a command that changes no data: replicas run it, too. Nobody's reply waits for it, and whoever reads the journal passes over it.
    pub fn tell_replicas(&mut self, args: &[&[u8]]) {
        if self.tx.record.is_on() && !self.tx.is_silent {
            self.tx.state(NO_DB, args);
        }
    }
}

/// Says it to everybody but those who record effects.
#[inline(always)]
pub(super) fn tell(store: &mut Store<'_, '_>, key: &[u8], change: Change) {
    if change.is_told {
        store.touched(key, change.count);
    } else {
        store.counted(key, change.count);
    }
    if let Some((class, event)) = change.event {
        store.notify(class, event, key);
    }
}

/// Tells those who watch `key` or have it in a cache.
#[cold]
fn tell_watchers(store: &mut Store<'_, '_>, key: &[u8]) {
    let ((id, hash), db) = (store.locate(key), store.client.db);
    let shard = store.tx.hold.shard_mut(id);
    if !shard.watches.is_empty() {
        let exists = shard.dbs[db as usize].find(hash, key).is_some();
        shard.watches.touch(db, key, exists);
    }
    if !shard.tracking.is_empty() {
        let told = shard.tracking.changed(key, store.client.id);
        store.tx.tell_of_change(told, key);
    }
}

/// States the effect of a change of `key`. Out of line, so that nothing is prepared for it where nothing is recorded.
#[cold]
#[inline(never)]
fn effect_of(store: &mut Store<'_, '_>, key: &[u8], effect: &[&[u8]]) {
    note_written(store, key);
    store.effect(effect);
}

/// Notes that what is recorded tells of a change of `key`: who reads in its shard waits until that is durable.
#[cold]
pub(super) fn note_written(store: &mut Store<'_, '_>, key: &[u8]) {
    let id = store.entered_shard(key);
    store.tx.hold.shard_mut(id).is_written = true;
}

/// States what time did, of which no script can be silent. It is no reason to wait: time does it again.
#[inline]
pub(super) fn effect_of_time(store: &mut Store<'_, '_>, args: &[&[u8]]) {
    if store.tx.record.is_on() {
        store.tx.state(store.client.db, args);
    }
}

#[cold]
pub(super) fn post_event(posts: &mut Vec<Post>, mask: u32, db: u32, event: &'static str, key: &[u8]) {
    if mask & Class::Keyspace as u32 != 0 {
        let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat().into();
        posts.push(Post::Event { channel, message: event.as_bytes().into() });
    }
    if mask & Class::Keyevent as u32 != 0 {
        let channel = format!("__keyevent@{db}__:{event}").into_bytes().into();
        posts.push(Post::Event { channel, message: key.into() });
    }
}
