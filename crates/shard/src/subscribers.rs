//! The subscribers of the channels that are placed on this shard.
//!
//! A channel is placed like a key. `SUBSCRIBE` and `PUBLISH` enter its shard, so that each sees the other or
//! comes before it.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Who gets a channel's messages: a connection of a thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Subscriber {
    /// The thread whose connection it is.
    pub thread: u16,
    /// The connection, in the numbering of its thread.
    pub connection: u64,
}

/// Channels of one shard with their subscribers.
#[derive(Debug)]
pub struct Subscribers {
    by_channel: HashMap<Box<[u8]>, Vec<Subscriber>, FixedState>,
}

impl Subscribers {
    /// No subscribers; `seed` keeps clients from making channels collide.
    pub fn new(seed: u64) -> Self {
        Subscribers { by_channel: HashMap::with_hasher(FixedState::with_seed(seed)) }
    }

    /// Subscribes; false if it was subscribed already.
    pub fn add(&mut self, channel: &[u8], subscriber: Subscriber) -> bool {
        let all = self.by_channel.entry(channel.into()).or_default();
        let new = !all.contains(&subscriber);
        if new {
            all.push(subscriber);
        }
        new
    }

    /// Unsubscribes.
    pub fn remove(&mut self, channel: &[u8], subscriber: Subscriber) {
        if let Some(all) = self.by_channel.get_mut(channel) {
            all.retain(|known| *known != subscriber);
            if all.is_empty() {
                self.by_channel.remove(channel);
            }
        }
    }

    /// The subscribers of `channel`, in the order in which they came.
    pub fn of(&self, channel: &[u8]) -> &[Subscriber] {
        self.by_channel.get(channel).map_or(&[], Vec::as_slice)
    }

    /// Every channel that has a subscriber.
    pub fn channels(&self) -> impl Iterator<Item = &[u8]> {
        self.by_channel.keys().map(|channel| &**channel)
    }

    /// Number of channels that have a subscriber.
    pub fn len(&self) -> usize {
        self.by_channel.len()
    }

    /// Whether no channel has a subscriber.
    pub fn is_empty(&self) -> bool {
        self.by_channel.is_empty()
    }
}
