//! The subscribers that all threads know without entering a shard.
//!
//! Keyspace events do not enter the shard of a channel, so the subscribers of their channels are here. So are
//! patterns, which have no shard, and the number of clients that track keys.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use effectlog::Lsn;
use engine::{Medium, Published, Receiver, TxMessage};
use shard::{Scope, Subscriber};

use crate::patterns::{PatternMap, Patterns};
use crate::subscriptions::Subscriptions;

/// Subscribers that all threads know.
#[derive(Debug, Default)]
pub struct Directory {
    patterns: Patterns,
    /// Subscribers of channels on which keyspace events are published.
    event_channels: Patterns,
    tracking_count: AtomicUsize,
    /// Clients that have gone, while shards still hold their prefixes.
    departed: Mutex<Vec<Subscriber>>,
    has_departed: AtomicBool,
}

/// Whether keyspace events may be published on this channel.
fn is_for_events(channel: &[u8]) -> bool {
    channel.starts_with(b"__keyspace@") || channel.starts_with(b"__keyevent@")
}

/// Subscribers of patterns that match `channel`.
fn matching(patterns: &PatternMap, channel: &[u8]) -> impl Iterator<Item = Receiver> {
    let matching = patterns.iter().filter(move |(pattern, _)| ds::glob::matches(pattern, channel, false));
    matching.flat_map(|(pattern, subscribers)| {
        subscribers.iter().map(|&subscriber| Receiver { subscriber, pattern: Some(pattern.clone()) })
    })
}

impl Directory {
    /// The number of patterns that have subscribers.
    #[inline]
    pub fn pattern_count(&self) -> usize {
        self.patterns.len()
    }

    /// Adds subscribers of patterns that match `channel`.
    #[inline]
    pub(crate) fn add_matching(&self, channel: &[u8], to: &mut Vec<Receiver>) {
        if self.patterns.len() > 0 {
            to.extend(matching(&self.patterns.snapshot(), channel));
        }
    }

    /// Subscribes to a pattern.
    pub(crate) fn add_pattern(&self, pattern: &Arc<[u8]>, subscriber: Subscriber) {
        self.patterns.add(pattern, subscriber);
    }

    /// Unsubscribes from a pattern.
    pub(crate) fn remove_pattern(&self, pattern: &[u8], subscriber: Subscriber) {
        self.patterns.remove(pattern, subscriber);
    }

    /// Adds the subscription to a channel, if keyspace events are published there.
    pub(crate) fn add_channel(&self, scope: Scope, channel: &[u8], subscriber: Subscriber) {
        if scope == Scope::Global && is_for_events(channel) {
            self.event_channels.add(&channel.into(), subscriber);
        }
    }

    /// Removes such a subscription.
    pub(crate) fn remove_channel(&self, scope: Scope, channel: &[u8], subscriber: Subscriber) {
        if scope == Scope::Global && is_for_events(channel) {
            self.event_channels.remove(channel, subscriber);
        }
    }

    /// Removes all subscriptions of a client, except those in shards.
    pub fn forget(&self, subscriptions: &Subscriptions, subscriber: Subscriber) {
        for (scope, channel) in subscriptions.all_channels() {
            self.remove_channel(scope, channel, subscriber);
        }
        for pattern in subscriptions.patterns() {
            self.remove_pattern(pattern, subscriber);
        }
    }

    /// Takes keyspace events out of `outbox`, and sends those that have subscribers. To be called while the changed keys
    /// are locked, so that events of the same keys are sent in the order of the changes. They are held until slice
    /// `held_for` is durable.
    pub fn send_events(&self, outbox: &mut Vec<TxMessage>, held_for: Lsn, mut send: impl FnMut(Published)) {
        let events: Vec<TxMessage> =
            outbox.extract_if(.., |message| matches!(message, TxMessage::Event { .. })).collect();
        if events.is_empty() || self.patterns.len() + self.event_channels.len() == 0 {
            return;
        }
        let (channels, patterns) = (self.event_channels.snapshot(), self.patterns.snapshot());
        for event in events {
            let TxMessage::Event { channel, message } = event else { continue };
            let subscribed = channels.get(&*channel).into_iter().flatten();
            let mut to: Vec<Receiver> =
                subscribed.map(|&subscriber| Receiver { subscriber, pattern: None }).collect();
            to.extend(matching(&patterns, &channel));
            let medium = Medium::Channel(Scope::Global);
            send(Published::news(to, medium, (channel.into(), message.into()), held_for));
        }
    }

    /// The number of clients that track keys.
    #[inline]
    pub fn tracking_count(&self) -> usize {
        self.tracking_count.load(Ordering::Relaxed)
    }

    /// Counts a client that begins to track keys.
    pub fn begin_tracking(&self) {
        self.tracking_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a client that no longer tracks keys.
    pub fn end_tracking(&self) {
        self.tracking_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Adds a client that has gone and had prefixes.
    pub fn note_departed(&self, subscriber: Subscriber) {
        self.departed.lock().unwrap_or_else(PoisonError::into_inner).push(subscriber);
        self.has_departed.store(true, Ordering::Release);
    }

    /// Whether such clients have gone.
    #[inline]
    pub fn has_departed(&self) -> bool {
        self.has_departed.load(Ordering::Acquire)
    }

    /// Takes out the clients that have gone, sorted. The caller must remove their prefixes from the shards.
    pub fn take_departed(&self) -> Vec<Subscriber> {
        self.has_departed.store(false, Ordering::Relaxed);
        let mut departed = std::mem::take(&mut *self.departed.lock().unwrap_or_else(PoisonError::into_inner));
        departed.sort_unstable();
        departed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Subscriber = Subscriber { thread: 0, connection: 1 };
    const OTHER: Subscriber = Subscriber { thread: 1, connection: 1 };

    /// The receivers of an event on a channel: thread and pattern.
    fn sent(directory: &Directory, channel: &str) -> Vec<(u16, Option<String>)> {
        let event = TxMessage::Event { channel: channel.as_bytes().into(), message: (*b"set").into() };
        let mut outbox = vec![event, TxMessage::Flushed];
        let mut sent = Vec::new();
        directory.send_events(&mut outbox, Lsn::NONE, |published| sent.extend(published.to));
        assert!(matches!(outbox[..], [TxMessage::Flushed]));
        let shown = |receiver: &Receiver| {
            let pattern =
                receiver.pattern.as_deref().map(|pattern| String::from_utf8_lossy(pattern).into_owned());
            (receiver.subscriber.thread, pattern)
        };
        sent.iter().map(shown).collect()
    }

    #[test]
    fn events_reach_those_who_subscribed_to_their_channels_or_by_patterns() {
        let directory = Directory::default();
        let event = "__keyspace@0__:a";
        assert_eq!(sent(&directory, event), []);
        directory.add_channel(Scope::Global, event.as_bytes(), ONE);
        directory.add_channel(Scope::Shard, event.as_bytes(), OTHER);
        directory.add_channel(Scope::Global, b"other", OTHER);
        directory.add_pattern(&Arc::from(*b"__key*"), OTHER);
        assert_eq!(sent(&directory, event), [(0, None), (1, Some("__key*".to_owned()))]);
        assert_eq!(sent(&directory, "__keyspace@0__:b"), [(1, Some("__key*".to_owned()))]);

        let mut subscriptions = Subscriptions::default();
        subscriptions.add_channel(Scope::Global, event.as_bytes());
        directory.forget(&subscriptions, ONE);
        subscriptions.add_pattern(&Arc::from(*b"__key*"));
        directory.forget(&subscriptions, OTHER);
        assert_eq!((sent(&directory, event), directory.pattern_count()), (vec![], 0));
    }
}
