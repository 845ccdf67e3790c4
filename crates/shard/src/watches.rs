//! Watched keys: who is to be told that a key changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::fast::FixedState;

use crate::figures::Figures;
use crate::place::{Place, PlaceMap, PlaceRef};

/// Raised when a key that a session watches was changed. One per session and `WATCH … EXEC` round.
#[derive(Clone, Debug, Default)]
pub struct WatchFlag(Arc<AtomicBool>);

impl WatchFlag {
    /// Whether a watched key was changed.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Says that a watched key was changed.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_same(&self, other: &WatchFlag) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The watched keys of one shard.
#[derive(Debug)]
pub struct Watches {
    by_key: PlaceMap<Vec<WatchFlag>>,
    figures: Arc<Figures>,
}

impl Watches {
    /// Nothing is watched; `seed` keeps clients from making keys collide. How many keys are is said in `figures`.
    pub fn new(seed: u64, figures: &Arc<Figures>) -> Self {
        Watches { by_key: PlaceMap::with_hasher(FixedState::with_seed(seed)), figures: figures.clone() }
    }

    /// Whether nobody watches anything here: the common case, checked on every change.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Watches `key` of `db`.
    pub fn add(&mut self, db: u32, key: &[u8], flag: &WatchFlag) {
        let flags = self.by_key.entry(Place { db, key: key.into() }).or_default();
        if !flags.iter().any(|known| known.is_same(flag)) {
            flags.push(flag.clone());
        }
        self.figures.watched_keys.set(self.by_key.len() as u64);
    }

    /// Stops watching `key` of `db` for the session of `flag`.
    pub fn remove(&mut self, db: u32, key: &[u8], flag: &WatchFlag) {
        let place = PlaceRef { db, key };
        if let Some(flags) = self.by_key.get_mut(&place) {
            flags.retain(|known| !known.is_same(flag));
            if flags.is_empty() {
                self.by_key.remove(&place);
                self.figures.watched_keys.set(self.by_key.len() as u64);
            }
        }
    }

    /// Raises the flags of everyone who watches `key` of `db`.
    pub fn touch(&self, db: u32, key: &[u8]) {
        if !self.by_key.is_empty()
            && let Some(flags) = self.by_key.get(&PlaceRef { db, key })
        {
            flags.iter().for_each(WatchFlag::raise);
        }
    }

    /// Raises the flags of all watched keys of `db` for which `changed` holds (flush and swap of databases).
    pub fn touch_all(&self, db: u32, mut changed: impl FnMut(&[u8]) -> bool) {
        for (place, flags) in &self.by_key {
            if place.db == db && changed(&place.key) {
                flags.iter().for_each(WatchFlag::raise);
            }
        }
    }
}
