//! Pattern subscriptions of all threads.
//!
//! `PUBLISH` must match every pattern, so they are kept in one immutable list that is replaced as a whole. While
//! there are none, which is nearly always, a publisher reads one number. The lock is held to copy a pointer or to
//! replace the list: `PSUBSCRIBE` is rare, and no data command comes here.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shard::Subscriber;

/// A pattern with those who subscribed to it.
pub(crate) type PatternList = Vec<(Arc<[u8]>, Vec<Subscriber>)>;

/// All patterns.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    count: AtomicUsize,
    list: Mutex<Arc<PatternList>>,
}

impl Patterns {
    /// Number of patterns that somebody subscribed to.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// The patterns as they are now.
    pub(crate) fn snapshot(&self) -> Arc<PatternList> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Subscribes to a pattern.
    pub(crate) fn add(&self, pattern: &Arc<[u8]>, subscriber: Subscriber) {
        self.change(|list| match list.iter_mut().find(|(known, _)| known == pattern) {
            Some((_, subscribers)) => subscribers.push(subscriber),
            None => list.push((pattern.clone(), vec![subscriber])),
        });
    }

    /// Unsubscribes from a pattern.
    pub(crate) fn remove(&self, pattern: &[u8], subscriber: Subscriber) {
        self.change(|list| {
            if let Some((_, subscribers)) = list.iter_mut().find(|(known, _)| **known == *pattern) {
                subscribers.retain(|known| *known != subscriber);
            }
        });
    }

    /// Unsubscribes from all patterns.
    pub(crate) fn remove_all(&self, subscriber: Subscriber) {
        self.change(|list| {
            for (_, subscribers) in list {
                subscribers.retain(|known| *known != subscriber);
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut PatternList)) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let mut copy = PatternList::clone(&list);
        change(&mut copy);
        copy.retain(|(_, subscribers)| !subscribers.is_empty());
        self.count.store(copy.len(), Ordering::Release);
        *list = Arc::new(copy);
    }
}
