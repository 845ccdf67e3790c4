//! The subscriptions of one client.
//!
//! Not here: the subscribers of a channel (`shard::Subscribers`) or a pattern (`directory.rs`). The commands keep both
//! sides equal.

use std::collections::BTreeSet;
use std::sync::Arc;

use shard::Scope;

/// The channels and patterns of a client.
#[derive(Debug, Default)]
pub struct Subscriptions {
    /// By [`Scope`].
    channels: [BTreeSet<Arc<[u8]>>; 2],
    patterns: BTreeSet<Arc<[u8]>>,
    /// The memory of all subscriptions, here and where messages are delivered.
    memory_bytes: usize,
}

/// The memory of a subscription beside the name.
const SUBSCRIPTION_BYTES: usize = 128;

impl Subscriptions {
    /// Whether the client has no subscriptions.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.channels.iter().all(BTreeSet::is_empty) && self.patterns.is_empty()
    }

    /// The memory of all subscriptions, here and where messages are delivered.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// The channels of this scope.
    pub fn channels(&self, scope: Scope) -> &BTreeSet<Arc<[u8]>> {
        &self.channels[scope as usize]
    }

    /// The channels of both scopes.
    pub fn all_channels(&self) -> impl Iterator<Item = (Scope, &Arc<[u8]>)> {
        let of = |scope| self.channels(scope).iter().map(move |channel| (scope, channel));
        of(Scope::Global).chain(of(Scope::Shard))
    }

    /// The patterns.
    pub fn patterns(&self) -> &BTreeSet<Arc<[u8]>> {
        &self.patterns
    }

    /// The number that replies report: patterns are counted with the channels of `PUBLISH`.
    pub fn count(&self, scope: Scope) -> usize {
        let patterns = if scope == Scope::Global { self.patterns.len() } else { 0 };
        self.channels(scope).len() + patterns
    }

    /// Whether the client is subscribed to `pattern`, or if that is `None`, to `channel`.
    pub fn has(&self, scope: Scope, channel: &[u8], pattern: Option<&[u8]>) -> bool {
        match pattern {
            Some(pattern) => self.patterns.contains(pattern),
            None => self.channels(scope).contains(channel),
        }
    }

    /// Adds a channel; false if it was there.
    pub(crate) fn add_channel(&mut self, scope: Scope, channel: &[u8]) -> bool {
        let is_new = self.channels[scope as usize].insert(channel.into());
        self.note_added(is_new, channel)
    }

    /// Removes a channel; false if it was not there.
    pub(crate) fn remove_channel(&mut self, scope: Scope, channel: &[u8]) -> bool {
        let was_there = self.channels[scope as usize].remove(channel);
        self.note_removed(was_there, channel)
    }

    /// Adds a pattern; false if it was there.
    pub fn add_pattern(&mut self, pattern: &Arc<[u8]>) -> bool {
        let is_new = self.patterns.insert(pattern.clone());
        self.note_added(is_new, pattern)
    }

    /// Removes a pattern; false if it was not there.
    pub(crate) fn remove_pattern(&mut self, pattern: &[u8]) -> bool {
        let was_there = self.patterns.remove(pattern);
        self.note_removed(was_there, pattern)
    }

    fn note_added(&mut self, is_new: bool, name: &[u8]) -> bool {
        if is_new {
            self.memory_bytes += bytes_of(name);
        }
        is_new
    }

    fn note_removed(&mut self, was_there: bool, name: &[u8]) -> bool {
        if was_there {
            self.memory_bytes -= bytes_of(name);
        }
        was_there
    }
}

/// The memory of a subscription. The name is stored twice: here and where messages are delivered.
fn bytes_of(name: &[u8]) -> usize {
    2 * name.len() + SUBSCRIPTION_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_of_both_kinds_and_patterns_are_apart() {
        let mut subscriptions = Subscriptions::default();
        assert!(subscriptions.is_empty());
        assert!(subscriptions.add_channel(Scope::Shard, b"a"));
        assert!(!subscriptions.add_channel(Scope::Shard, b"a"));
        assert!(subscriptions.add_pattern(&Arc::from(*b"a")));
        assert_eq!([Scope::Global, Scope::Shard].map(|scope| subscriptions.count(scope)), [1, 1]);
        assert!(!subscriptions.has(Scope::Global, b"a", None));
        assert!(
            subscriptions.has(Scope::Shard, b"a", None) && subscriptions.has(Scope::Global, b"x", Some(b"a"))
        );
        assert_eq!(subscriptions.all_channels().collect::<Vec<_>>(), [(Scope::Shard, &Arc::from(*b"a"))]);
        assert!(subscriptions.remove_pattern(b"a") && !subscriptions.remove_channel(Scope::Global, b"a"));
        assert!(subscriptions.memory_bytes() > 0);
        assert!(subscriptions.remove_channel(Scope::Shard, b"a") && subscriptions.is_empty());
        assert_eq!(subscriptions.memory_bytes(), 0);
    }
}
