//! The subscribers of the channels that are placed on this shard.
//!
//! A channel is placed like a key. `SUBSCRIBE` and `PUBLISH` enter its shard, so that a message either finds the
//! subscription or was published before it.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::figures::Figures;

/// Two separate sets of channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The channels of `PUBLISH`.
    Global,
    /// The channels of `SPUBLISH`.
    Shard,
}

/// A connection of a thread, which gets a channel's messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Subscriber {
    /// The thread of the connection.
    pub thread: u16,
    /// The connection, in the numbering of its thread.
    pub connection: u64,
}

/// Channels of one shard with their subscribers.
#[derive(Debug)]
pub struct Subscribers {
    /// By [`Scope`].
    by_channel: [HashMap<Box<[u8]>, Vec<Subscriber>, FixedState>; 2],
    figures: Arc<Figures>,
}

impl Subscribers {
    /// No subscribers. `seed` keeps clients from making channels collide; `figures` shows how many channels have
    /// subscribers.
    pub fn new(seed: u64, figures: &Arc<Figures>) -> Self {
        let map = || HashMap::with_hasher(FixedState::with_seed(seed));
        Subscribers { by_channel: [map(), map()], figures: figures.clone() }
    }

    /// Subscribes. False if the subscriber was subscribed already.
    pub fn add(&mut self, scope: Scope, channel: &[u8], subscriber: Subscriber) -> bool {
        let all = self.by_channel[scope as usize].entry(channel.into()).or_default();
        let new = !all.contains(&subscriber);
        if new {
            all.push(subscriber);
        }
        self.note_count(scope);
        new
    }

    /// Unsubscribes.
    pub fn remove(&mut self, scope: Scope, channel: &[u8], subscriber: Subscriber) {
        let channels = &mut self.by_channel[scope as usize];
        if let Some(all) = channels.get_mut(channel) {
            all.retain(|known| *known != subscriber);
            if all.is_empty() {
                channels.remove(channel);
                self.note_count(scope);
            }
        }
    }

    fn note_count(&self, scope: Scope) {
        self.figures.channels[scope as usize].set(self.by_channel[scope as usize].len() as u64);
    }

    /// The subscribers of `channel`, in the order in which they subscribed.
    pub fn of(&self, scope: Scope, channel: &[u8]) -> &[Subscriber] {
        self.by_channel[scope as usize].get(channel).map_or(&[], Vec::as_slice)
    }

    /// Every channel that has a subscriber.
    pub fn channels(&self, scope: Scope) -> impl Iterator<Item = &[u8]> {
        self.by_channel[scope as usize].keys().map(|channel| &**channel)
    }
}
