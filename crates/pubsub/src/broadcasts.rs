//! Collects the changed keys that a thread reports at the end of its turn to clients that track prefixes.
//!
//! Not here: which clients are told (`shard`), and the form of the messages (`news.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use heap::{Exempt, Exemption};
use shard::Subscriber;

/// Keys that have changed.
pub type Keys = Arc<[Arc<[u8]>]>;

/// The memory of a key in a set, beside the key itself.
const ENTRY_BYTES: usize = 32;

/// The changed keys, in order, by thread, connection and prefix.
#[derive(Debug)]
pub struct Broadcasts {
    keys: BTreeMap<Listener, BTreeSet<Arc<[u8]>>>,
    /// It does not count against `maxmemory`, since evicted keys are among them.
    memory: Exemption,
}

/// Thread, connection and prefix.
type Listener = (u16, u64, Arc<[u8]>);

impl Default for Broadcasts {
    fn default() -> Broadcasts {
        Broadcasts { keys: BTreeMap::new(), memory: Exemption::none(Exempt::News) }
    }
}

/// The memory of such keys in bytes.
pub fn memory_bytes(keys: &Keys) -> usize {
    keys.iter().map(|key| key.len() + ENTRY_BYTES).sum()
}

impl Broadcasts {
    /// Adds a changed key.
    pub fn add(&mut self, to: Vec<(Arc<[u8]>, Subscriber)>, key: &Arc<[u8]>) {
        for (prefix, subscriber) in to {
            let listener = (subscriber.thread, subscriber.connection, prefix);
            if self.keys.entry(listener).or_default().insert(key.clone()) {
                self.memory.resize(self.memory.bytes() + key.len() + ENTRY_BYTES);
            }
        }
    }

    /// Whether there are no messages to send.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Takes out the message for one client: its thread, its connection, and the changed keys.
    #[inline]
    pub fn pop_first(&mut self) -> Option<(u16, u64, Keys)> {
        let ((thread, connection, _), keys) = self.keys.pop_first()?;
        if self.keys.is_empty() {
            self.memory.resize(0);
        }
        Some((thread, connection, keys.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_prefix_gets_one_message_with_every_key_once() {
        let (one, other) = (Subscriber { thread: 0, connection: 7 }, Subscriber { thread: 1, connection: 2 });
        let (jobs, all): (Arc<[u8]>, Arc<[u8]>) = (Arc::from(*b"job:"), Arc::from(*b""));
        let mut broadcasts = Broadcasts::default();
        for key in [b"job:2", b"job:1", b"job:2"] {
            let to = vec![(jobs.clone(), one), (all.clone(), other), (all.clone(), one)];
            broadcasts.add(to, &Arc::from(*key));
        }
        let told: Vec<_> = std::iter::from_fn(|| broadcasts.pop_first()).collect();
        assert_eq!(told.iter().map(|told| (told.0, told.1)).collect::<Vec<_>>(), [(0, 7), (0, 7), (1, 2)]);
        assert!(told.iter().all(|(_, _, keys)| **keys == [Arc::from(*b"job:1"), Arc::from(*b"job:2")]));
    }
}
