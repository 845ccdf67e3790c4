//! Keys that clients cache, so that the clients can be told when one changes (`CLIENT TRACKING`).
//!
//! A key that a client has read stays here until its first change. Clients in broadcasting mode track all keys with a
//! prefix. All shards share these [`Prefixes`], which change only while all shards are entered. Reading and changing a
//! key both happen under the shard's baton: every client that read the old value is told, and has got its reply before.
//!
//! Keys are identified by name, in any database. A client that is gone is noticed when it has to be told.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::figures::Figures;
use crate::subscribers::Subscriber;

/// A client to be told about changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tracker {
    /// `CLIENT ID`.
    pub client: u64,
    /// Its connection.
    pub subscriber: Subscriber,
}

/// The clients to be told that a key has changed.
#[derive(Debug, Default)]
pub struct Told {
    /// Clients that have read it.
    pub readers: Vec<Subscriber>,
    /// Clients that track all keys with a prefix, and the prefix.
    pub listeners: Vec<(Arc<[u8]>, Subscriber)>,
}

/// Tracked prefixes, and the clients that track each.
#[derive(Clone, Debug, Default)]
pub struct Prefixes(BTreeMap<Arc<[u8]>, Vec<Tracker>>);

impl Prefixes {
    /// Whether no prefix is tracked.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A client tracks all keys with a prefix.
    pub fn add(&mut self, prefix: &[u8], tracker: Tracker) {
        match self.0.get_mut(prefix) {
            Some(trackers) if trackers.iter().any(|known| known.client == tracker.client) => {}
            Some(trackers) => trackers.push(tracker),
            None => _ = self.0.insert(prefix.into(), vec![tracker]),
        }
    }

    /// Removes these clients, which are sorted.
    pub fn remove(&mut self, gone: &[Subscriber]) {
        let is_gone = |of: &Tracker| gone.binary_search(&of.subscriber).is_ok();
        self.0.retain(|_, trackers| {
            trackers.retain(|of| !is_gone(of));
            !trackers.is_empty()
        });
    }

    /// The prefixes of a key, shortest first. If there are more prefixes than bytes in the key, each possible prefix is
    /// looked up instead: every change calls this, and one client may register many prefixes.
    fn of<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = (&'a Arc<[u8]>, &'a Vec<Tracker>)> {
        let few = self.0.len() <= key.len();
        let all = few.then(|| self.0.iter().filter(|(prefix, _)| key.starts_with(prefix)));
        let ends = if few { 0..0 } else { 0..key.len() + 1 };
        all.into_iter().flatten().chain(ends.filter_map(|end| self.0.get_key_value(&key[..end])))
    }
}

/// The tracked keys of one shard, and the prefixes.
#[derive(Debug)]
pub struct Tracking {
    by_key: HashMap<Box<[u8]>, Vec<Tracker>, FixedState>,
    /// The tracked prefixes, which all shards share; `None` if no prefix is tracked.
    prefixes: Option<Arc<Prefixes>>,
    /// The number of clients, summed over all keys.
    item_count: usize,
    figures: Arc<Figures>,
}

impl Tracking {
    /// No tracked keys. `seed` keeps clients from making keys collide; `figures` shows how much is tracked.
    pub fn new(seed: u64, figures: &Arc<Figures>) -> Self {
        let by_key = HashMap::with_hasher(FixedState::with_seed(seed));
        Tracking { by_key, prefixes: None, item_count: 0, figures: figures.clone() }
    }

    fn note_keys(&self) {
        self.figures.tracked_keys.set(self.by_key.len() as u64);
        self.figures.tracked_items.set(self.item_count as u64);
    }

    pub(crate) fn set_prefixes(&mut self, prefixes: Option<Arc<Prefixes>>) {
        self.figures.tracked_prefixes.set(prefixes.as_ref().map_or(0, |prefixes| prefixes.0.len() as u64));
        self.prefixes = prefixes;
    }

    pub(crate) fn take_prefixes(&mut self) -> Option<Arc<Prefixes>> {
        self.prefixes.take()
    }

    /// Whether no client tracks anything.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.prefixes.is_none()
    }

    /// A client has read `key`.
    pub fn remember(&mut self, key: &[u8], tracker: Tracker) {
        let trackers = self.by_key.entry(key.into()).or_default();
        if trackers.iter().all(|known| known.client != tracker.client) {
            trackers.push(tracker);
            self.item_count += 1;
        }
        self.note_keys();
    }

    /// Forgets the readers of `key`, which has changed, and returns the clients to be told. The client
    /// `deaf`, which made the change and does not want to hear of its own changes, is left out. Each reader
    /// is told once.
    pub fn changed(&mut self, key: &[u8], deaf: Option<u64>) -> Told {
        let readers = self.by_key.remove(key).unwrap_or_default();
        self.item_count -= readers.len();
        self.note_keys();
        let hears = |tracker: &Tracker| deaf != Some(tracker.client);
        let readers = readers.iter().filter(|tracker| hears(tracker)).map(|tracker| tracker.subscriber);
        let of_prefix = |(prefix, trackers): (&Arc<[u8]>, &Vec<Tracker>)| {
            let trackers = trackers.iter().filter(|tracker| hears(tracker));
            trackers.map(|tracker| (prefix.clone(), tracker.subscriber)).collect::<Vec<_>>()
        };
        let listeners =
            self.prefixes.iter().flat_map(|prefixes| prefixes.of(key)).flat_map(of_prefix).collect();
        Told { readers: readers.collect(), listeners }
    }

    /// Removes some key, and returns the clients that have to be told.
    pub fn evict(&mut self) -> Option<(Box<[u8]>, Vec<Subscriber>)> {
        let key = self.by_key.keys().next()?.clone();
        let readers = self.by_key.remove(&key)?;
        self.item_count -= readers.len();
        self.note_keys();
        Some((key, readers.iter().map(|tracker| tracker.subscriber).collect()))
    }

    /// Removes all keys, when every client is told that all have changed.
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

    fn tracker(client: u64) -> Tracker {
        Tracker { client, subscriber: Subscriber { thread: 0, connection: client } }
    }

    fn with_prefixes(tracking: &mut Tracking, change: impl FnOnce(&mut Prefixes)) {
        let mut prefixes = tracking.take_prefixes().unwrap_or_default();
        change(Arc::make_mut(&mut prefixes));
        tracking.set_prefixes(Some(prefixes));
    }

    #[test]
    fn readers_are_told_once_and_listeners_always() {
        let figures = Arc::default();
        let mut tracking = Tracking::new(1, &figures);
        tracking.remember(b"key", tracker(1));
        tracking.remember(b"key", tracker(1));
        tracking.remember(b"key", tracker(2));
        with_prefixes(&mut tracking, |prefixes| {
            prefixes.add(b"ke", tracker(3));
            prefixes.add(b"ke", tracker(3));
            prefixes.add(b"other", tracker(4));
        });
        assert_eq!((figures.tracked_keys.get(), figures.tracked_items.get()), (1, 2));
        assert_eq!(figures.tracked_prefixes.get(), 2);
        let told = |tracking: &mut Tracking, deaf| -> Vec<u64> {
            let told = tracking.changed(b"key", deaf);
            let listeners = told.listeners.into_iter().map(|(_, to)| to);
            told.readers.into_iter().chain(listeners).map(|to| to.connection).collect()
        };
        assert_eq!(told(&mut tracking, Some(2)), [1, 3]);
        assert_eq!(told(&mut tracking, None), [3]);
        with_prefixes(&mut tracking, |prefixes| prefixes.remove(&[tracker(3).subscriber]));
        assert!(tracking.changed(b"key", None).listeners.is_empty());
        assert_eq!((figures.tracked_keys.get(), figures.tracked_items.get()), (0, 0));
        assert_eq!(figures.tracked_prefixes.get(), 1);
    }

    #[test]
    fn the_prefixes_of_a_key_are_found_among_few_and_among_many() {
        let mut prefixes = Prefixes::default();
        let key = b"key:1";
        for (count, prefix) in ["", "k", "ke", "key:1", "key:12", "kez", "l"].into_iter().enumerate() {
            prefixes.add(prefix.as_bytes(), tracker(1));
            let found: Vec<&[u8]> = prefixes.of(key).map(|(prefix, _)| &**prefix).collect();
            let expected: [&[u8]; 4] = [b"", b"k", b"ke", b"key:1"];
            assert_eq!(found, expected[..(count + 1).min(4)], "{prefix}");
        }
    }
}
