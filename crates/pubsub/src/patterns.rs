//! Pattern subscriptions of all threads.
//!
//! `PUBLISH` must match every pattern, so they are kept in one map behind one lock. Nearly always the map is empty,
//! and a publisher reads one number; otherwise it copies the pointer to the map and matches without the
//! lock. A change copies the map only if a publisher is matching at that moment: `PSUBSCRIBE` is rare, and no data
//! command uses this.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shard::Subscriber;

/// Subscribers by pattern.
pub(crate) type PatternMap = BTreeMap<Arc<[u8]>, Vec<Subscriber>>;

/// All patterns.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    count: AtomicUsize,
    map: Mutex<Arc<PatternMap>>,
}

impl Patterns {
    /// The number of patterns that have subscribers.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// The current patterns.
    pub(crate) fn snapshot(&self) -> Arc<PatternMap> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Subscribes to a pattern.
    pub(crate) fn add(&self, pattern: &Arc<[u8]>, subscriber: Subscriber) {
        self.change(|map| map.entry(pattern.clone()).or_default().push(subscriber));
    }

    /// Unsubscribes from a pattern.
    pub(crate) fn remove(&self, pattern: &[u8], subscriber: Subscriber) {
        self.change(|map| {
            if let Some(subscribers) = map.get_mut(pattern) {
                subscribers.retain(|known| *known != subscriber);
                if subscribers.is_empty() {
                    map.remove(pattern);
                }
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut PatternMap)) {
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        let map = Arc::make_mut(&mut map);
        change(map);
        self.count.store(map.len(), Ordering::Release);
    }
}
