//! Keys that clients keep in caches of their own, so that they can be told when one changes (`CLIENT TRACKING`).
//!
//! A key that a client has read stands here until it changes for the first time; clients in broadcasting mode want to
//! hear of every key with a prefix, and are registered at every shard. Both happens under the shard's baton: whoever
//! read the old value is told, and whoever is told has got the reply before.
//!
//! Keys are known by name, whatever their database. Clients that are gone are noticed when they are to be told.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::figures::Figures;
use crate::subscribers::Subscriber;

/// A client that is to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tracker {
    /// `CLIENT ID`.
    pub client: u64,
    /// Its connection.
    pub subscriber: Subscriber,
    /// It does not want to hear of its own changes.
    pub no_loop: bool,
}

/// Who is to be told that a key has changed.
#[derive(Debug, Default)]
pub struct Told {
    /// Those who have read it.
    pub readers: Vec<Subscriber>,
    /// Those who want to hear of all keys with a prefix, and the prefix.
    pub listeners: Vec<(Arc<[u8]>, Subscriber)>,
}

/// The tracked keys and prefixes of one shard.
#[derive(Debug)]
pub struct Tracking {
    by_key: HashMap<Box<[u8]>, Vec<Tracker>, FixedState>,
    prefixes: BTreeMap<Arc<[u8]>, Vec<Tracker>>,
    /// Clients at all keys together.
    item_count: usize,
    figures: Arc<Figures>,
}

impl Tracking {
    /// Nobody tracks anything; `seed` keeps clients from making keys collide. How much is tracked is said in `figures`.
    pub fn new(seed: u64, figures: &Arc<Figures>) -> Self {
        let by_key = HashMap::with_hasher(FixedState::with_seed(seed));
        Tracking { by_key, prefixes: BTreeMap::new(), item_count: 0, figures: figures.clone() }
    }

    fn note_keys(&self) {
        self.figures.tracked_keys.set(self.by_key.len() as u64);
        self.figures.tracked_items.set(self.item_count as u64);
    }

    fn note_prefixes(&self) {
        self.figures.tracked_prefixes.set(self.prefixes.len() as u64);
    }

    /// Whether nobody tracks anything.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.prefixes.is_empty()
    }

    /// Notes that a client has read `key`.
    pub fn remember(&mut self, key: &[u8], tracker: Tracker) {
        let trackers = self.by_key.entry(key.into()).or_default();
        match trackers.iter_mut().find(|known| known.client == tracker.client) {
            Some(known) => *known = tracker,
            None => {
                trackers.push(tracker);
                self.item_count += 1;
            }
        }
        self.note_keys();
    }

    /// Notes that a client wants to hear of all keys with a prefix.
    pub fn add_prefix(&mut self, prefix: &Arc<[u8]>, tracker: Tracker) {
        let trackers = self.prefixes.entry(prefix.clone()).or_default();
        trackers.retain(|known| known.client != tracker.client);
        trackers.push(tracker);
        self.note_prefixes();
    }

    /// Forgets the prefixes of a client.
    pub fn remove_prefixes(&mut self, subscriber: Subscriber) {
        self.prefixes.retain(|_, trackers| {
            trackers.retain(|of| of.subscriber != subscriber);
            !trackers.is_empty()
        });
        self.note_prefixes();
    }

    /// Whom to tell that the client `writer` has changed `key`. Those who read it are told once.
    pub fn changed(&mut self, key: &[u8], writer: u64) -> Told {
        let readers = self.by_key.remove(key).unwrap_or_default();
        self.item_count -= readers.len();
        self.note_keys();
        let hears = |tracker: &Tracker| !(tracker.no_loop && tracker.client == writer);
        let readers = readers.iter().filter(|tracker| hears(tracker)).map(|tracker| tracker.subscriber);
        let of_prefix = |(prefix, trackers): (&Arc<[u8]>, &Vec<Tracker>)| {
            let trackers = trackers.iter().filter(|tracker| hears(tracker));
            trackers.map(|tracker| (prefix.clone(), tracker.subscriber)).collect::<Vec<_>>()
        };
        let listeners = self.prefixes_of(key).flat_map(of_prefix).collect();
        Told { readers: readers.collect(), listeners }
    }

    /// The registered prefixes of a key, the shortest first. Where there are more of them than bytes in the key, each that it could have is
    /// looked up: every change asks for this, and one client may register many.
    fn prefixes_of<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = (&'a Arc<[u8]>, &'a Vec<Tracker>)> {
        let few = self.prefixes.len() <= key.len();
        let all = few.then(|| self.prefixes.iter().filter(|(prefix, _)| key.starts_with(prefix)));
        let ends = if few { 0..0 } else { 0..key.len() + 1 };
        all.into_iter().flatten().chain(ends.filter_map(|end| self.prefixes.get_key_value(&key[..end])))
    }

    /// Forgets some key, and tells whom to tell.
    pub fn evict(&mut self) -> Option<(Box<[u8]>, Vec<Subscriber>)> {
        let key = self.by_key.keys().next()?.clone();
        let readers = self.by_key.remove(&key)?;
        self.item_count -= readers.len();
        self.note_keys();
        Some((key, readers.iter().map(|tracker| tracker.subscriber).collect()))
    }

    /// Forgets all keys: everyone is told that all have changed.
    pub fn clear_keys(&mut self) {
        self.by_key.clear();
        self.item_count = 0;
        self.note_keys();
    }

    /// Number of keys.
    pub fn key_count(&self) -> usize {
        self.by_key.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracker(client: u64, no_loop: bool) -> Tracker {
        Tracker { client, subscriber: Subscriber { thread: 0, connection: client }, no_loop }
    }

    #[test]
    fn readers_are_told_once_and_listeners_always() {
        let figures = Arc::default();
        let mut tracking = Tracking::new(1, &figures);
        tracking.remember(b"key", tracker(1, false));
        tracking.remember(b"key", tracker(1, false));
        tracking.remember(b"key", tracker(2, true));
        tracking.add_prefix(&Arc::from(*b"ke"), tracker(3, false));
        tracking.add_prefix(&Arc::from(*b"ke"), tracker(3, false));
        tracking.add_prefix(&Arc::from(*b"other"), tracker(4, false));
        assert_eq!((figures.tracked_keys.get(), figures.tracked_items.get()), (1, 2));
        assert_eq!(figures.tracked_prefixes.get(), 2);
        let mut told = |writer| -> Vec<u64> {
            let told = tracking.changed(b"key", writer);
            let listeners = told.listeners.into_iter().map(|(_, to)| to);
            told.readers.into_iter().chain(listeners).map(|to| to.connection).collect()
        };
        assert_eq!(told(2), [1, 3]);
        assert_eq!(told(2), [3]);
        tracking.remove_prefixes(tracker(3, false).subscriber);
        assert!(tracking.changed(b"key", 0).listeners.is_empty());
        assert_eq!((figures.tracked_keys.get(), figures.tracked_items.get()), (0, 0));
        assert_eq!(figures.tracked_prefixes.get(), 1);
    }

    #[test]
    fn the_prefixes_of_a_key_are_found_among_few_and_among_many() {
        let mut tracking = Tracking::new(1, &Arc::default());
        let key = b"key:1";
        for (count, prefix) in ["", "k", "ke", "key:1", "key:12", "kez", "l"].into_iter().enumerate() {
            tracking.add_prefix(&Arc::from(prefix.as_bytes()), tracker(1, false));
            let told = tracking.changed(key, 0).listeners;
            let told: Vec<&[u8]> = told.iter().map(|(prefix, _)| &**prefix).collect();
            let expected: [&[u8]; 4] = [b"", b"k", b"ke", b"key:1"];
            assert_eq!(told, expected[..(count + 1).min(4)], "{prefix}");
        }
    }
}
