//! Announces changes: to clients that watch or cache the key, to subscribers of keyspace events, and as an effect.
//!
//! One call does all three, so that none can be forgotten: [`Store::changed`], or [`Store::changed_with`] if the effect
//! has to be built. Consequences of a change (another key, a further event) are announced separately, without an
//! effect.
//!
//! Each [`Change`] is a constant at the call. These functions are always inlined, so that nothing is tested
//! at run time.

use crate::change::Change;
use crate::task::TxMessage;
use effectlog::NO_DB;
use keyspace::Class;
use shard::ShardId;

use super::Store;

impl Store<'_, '_> {
    /// Announces a change of `key`. Running `effect` makes the same change in another store.
    #[inline(always)]
    pub fn changed(&mut self, key: &[u8], change: Change, effect: &[&[u8]]) {
        tell(self, key, change);
        if self.tx.record.is_on() {
            effect_of(self, key, effect);
        }
    }

    /// Announces a change whose effects have to be built: `state` records them ([`Store::effect`]), and is
    /// called only if effects are recorded.
    #[inline(always)]
    pub fn changed_with(&mut self, key: &[u8], change: Change, state: impl FnOnce(&mut Self)) {
        tell(self, key, change);
        if self.tx.record.is_on() {
            note_written(self, key);
            state(self);
        }
    }

    /// Announces a change of `key` whose effect another call records, or that needs none.
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

    #[inline(always)]
    fn counted(&mut self, key: &[u8], count: usize) -> &mut crate::Shard {
        let id = self.entered_shard(key);
        self.tx.wrote = true;
        let shard = self.tx.hold.shard_mut(id);
        shard.stats.changes.add(count as u64);
        shard
    }

    /// Announces that whole databases were deleted on the entered shards.
    pub fn flushed(&mut self) {
        for id in self.entered() {
            // Looking into an unused shard would create it.
            if self.tx.hold.shards().is_used(id) {
                self.tx.hold.shard_mut(id).tracking.clear_keys();
            }
        }
        self.tx.outbox.push(TxMessage::Flushed);
        self.tx.told_itself = true;
    }

    /// Publishes a further event of a change, if events of this class are enabled.
    #[inline]
    pub fn notify(&mut self, class: Class, event: &'static str, key: &[u8]) {
        if self.tx.config.notify & class as u32 != 0 {
            post_event(&mut self.tx.outbox, self.tx.config.notify, self.client.db, event, key);
        }
    }

    /// Whether effects are recorded. If not, they need not be built.
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

    /// Records the effect of a change that belongs to no key: to everything in the entered shards, or to data
    /// that all shards share.
    pub fn effect_everywhere(&mut self, args: &[&[u8]]) {
        // A replica records a part of its primary's stream afterwards.
        let is_recorded = self.tx.record.is_on() || self.tx.hold.shards().hides_due();
        for id in self.entered() {
            // If the effect is recorded, a reader in an empty shard has seen it as well. Otherwise, noting it
            // would create shards that are unused.
            if is_recorded || self.tx.hold.shards().is_used(id) {
                self.tx.hold.shard_mut(id).is_written = true;
            }
        }
        self.effect(args);
    }

    /// Records an effect: the command that makes this change in another store. For [`Store::changed_with`].
    #[inline]
    pub fn effect(&mut self, args: &[&[u8]]) {
        if self.tx.record.is_on() && !self.tx.is_silent {
            let is_written = |&id: &ShardId| self.tx.hold.shard(id).is_written;
            assert!(self.tx.hold.entered().iter().any(is_written), "of what shard is this a change?");
            self.tx.state(self.client.db, args);
        }
    }

    /// Records a command that changes no data, for replicas to run. No reply waits for it, and replaying a journal
    /// skips it.
    pub fn tell_replicas(&mut self, args: &[&[u8]]) {
        if self.tx.record.is_on() && !self.tx.is_silent {
            self.tx.state(NO_DB, args);
        }
    }
}

/// Announces a change without an effect.
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

/// Tells the clients that watch or cache `key`.
#[cold]
fn tell_watchers(store: &mut Store<'_, '_>, key: &[u8]) {
    let ((id, hash), db) = (store.locate(key), store.client.db);
    let shard = store.tx.hold.shard_mut(id);
    if !shard.watches.is_empty() {
        let exists = shard.dbs[db as usize].find(hash, key).is_some();
        shard.watches.touch(db, key, exists);
    }
    if !shard.tracking.is_empty() {
        let deaf = store.client.no_loop.then_some(store.client.id);
        let told = shard.tracking.changed(key, deaf);
        store.tx.tell_of_change(told, key, store.client.subscriber());
    }
}

/// Records the effect of a change of `key`. Out of line, so that it costs nothing if effects are not
/// recorded.
#[cold]
#[inline(never)]
fn effect_of(store: &mut Store<'_, '_>, key: &[u8], effect: &[&[u8]]) {
    note_written(store, key);
    store.effect(effect);
}

/// Notes that a change of `key` is recorded, so that readers in its shard wait until it is durable.
#[cold]
pub(super) fn note_written(store: &mut Store<'_, '_>, key: &[u8]) {
    let id = store.entered_shard(key);
    store.tx.hold.shard_mut(id).is_written = true;
}

/// Records an expiry, even if a script turned recording off. No reply waits for it: the passing of time would
/// repeat it.
#[inline]
pub(super) fn effect_of_time(store: &mut Store<'_, '_>, args: &[&[u8]]) {
    if store.tx.record.is_on() {
        store.tx.state(store.client.db, args);
    }
}

#[cold]
pub(super) fn post_event(outbox: &mut Vec<TxMessage>, mask: u32, db: u32, event: &'static str, key: &[u8]) {
    if mask & Class::Keyspace as u32 != 0 {
        let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat().into();
        outbox.push(TxMessage::Event { channel, message: event.as_bytes().into() });
    }
    if mask & Class::Keyevent as u32 != 0 {
        let channel = format!("__keyevent@{db}__:{event}").into_bytes().into();
        outbox.push(TxMessage::Event { channel, message: key.into() });
    }
}
