//! Saying what changed.

use crate::events::Class;
use crate::task::Post;

use super::Store;

impl Store<'_, '_> {
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
    pub(super) fn effect_of_time(&mut self, args: &[&[u8]]) {
        if self.tx.record.is_on() {
            self.tx.state(self.client.db, args);
        }
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
