//! What one client has subscribed to.
//!
//! Not here: who has subscribed to a channel (`shard::Subscribers`) or a pattern (`directory.rs`). The commands keep the two
//! sides the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use shard::Scope;

/// The channels and patterns of a client.
#[derive(Debug, Default)]
pub struct Subscriptions {
    /// By [`Scope`].
    channels: [BTreeSet<Arc<[u8]>>; 2],
    patterns: BTreeSet<Arc<[u8]>>,
}

impl Subscriptions {
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.channels.iter().all(BTreeSet::is_empty) && self.patterns.is_empty()
    }

    /// The channels of this kind.
    pub fn channels(&self, scope: Scope) -> &BTreeSet<Arc<[u8]>> {
        &self.channels[scope as usize]
    }

    /// The channels of both kinds.
    pub fn all_channels(&self) -> impl Iterator<Item = (Scope, &Arc<[u8]>)> {
        let of = |scope| self.channels(scope).iter().map(move |channel| (scope, channel));
        of(Scope::Global).chain(of(Scope::Shard))
    }

    /// The patterns.
    pub fn patterns(&self) -> &BTreeSet<Arc<[u8]>> {
        &self.patterns
    }

    /// How many there are: a client counts patterns with the channels of `PUBLISH`.
    pub fn count(&self, scope: Scope) -> usize {
        let patterns = if scope == Scope::Global { self.patterns.len() } else { 0 };
        self.channels(scope).len() + patterns
    }

    /// Whether `channel` is among them, or, of a message that comes by a pattern, this pattern.
    pub fn has(&self, scope: Scope, channel: &[u8], pattern: Option<&[u8]>) -> bool {
        match pattern {
            Some(pattern) => self.patterns.contains(pattern),
            None => self.channels(scope).contains(channel),
        }
    }

    /// Adds a channel; false if it was there.
    pub(crate) fn add_channel(&mut self, scope: Scope, channel: &[u8]) -> bool {
        self.channels[scope as usize].insert(channel.into())
    }

    /// Removes a channel; false if it was not there.
    pub(crate) fn remove_channel(&mut self, scope: Scope, channel: &[u8]) -> bool {
        self.channels[scope as usize].remove(channel)
    }

    /// Adds a pattern; false if it was there.
    pub fn add_pattern(&mut self, pattern: &Arc<[u8]>) -> bool {
        self.patterns.insert(pattern.clone())
    }

    /// Removes a pattern; false if it was not there.
    pub(crate) fn remove_pattern(&mut self, pattern: &[u8]) -> bool {
        self.patterns.remove(pattern)
    }
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
        assert!(subscriptions.remove_channel(Scope::Shard, b"a") && subscriptions.is_empty());
    }
}
