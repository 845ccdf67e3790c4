//! Watched keys: the sessions to be told that a key has changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::fast::FixedState;

use crate::db_key::{DbKey, DbKeyMap, DbKeyRef};
use crate::figures::Figures;

/// Raised when a key that a session watches has changed. One per session and round of `WATCH … EXEC`.
#[derive(Clone, Debug, Default)]
pub struct WatchFlag(Arc<AtomicBool>);

impl WatchFlag {
    /// Whether a watched key was changed.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// A watched key has changed.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_same(&self, other: &WatchFlag) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A session that watches a key.
#[derive(Debug)]
struct Watch {
    flag: WatchFlag,
    /// The key had expired but was not deleted yet when the watch began. To the session it did not exist, so its
    /// deletion is not a change.
    is_of_gone: bool,
}

/// The watched keys of one shard.
#[derive(Debug)]
pub struct Watches {
    by_key: DbKeyMap<Vec<Watch>>,
    figures: Arc<Figures>,
}

impl Watches {
    /// No watches. `seed` keeps clients from making keys collide; `figures` shows how many keys are watched.
    pub fn new(seed: u64, figures: &Arc<Figures>) -> Self {
        Watches { by_key: DbKeyMap::with_hasher(FixedState::with_seed(seed)), figures: figures.clone() }
    }

    /// Whether no session watches anything here: the common case, checked on every change.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Watches `key` of `db`. `is_gone`: it has expired but is not deleted.
    pub fn add(&mut self, db: u32, key: &[u8], flag: &WatchFlag, is_gone: bool) {
        let watches = self.by_key.entry(DbKey { db, key: key.into() }).or_default();
        if !watches.iter().any(|watch| watch.flag.is_same(flag)) {
            watches.push(Watch { flag: flag.clone(), is_of_gone: is_gone });
        }
        self.figures.watched_keys.set(self.by_key.len() as u64);
    }

    /// Stops watching `key` of `db` for the session of `flag`.
    pub fn remove(&mut self, db: u32, key: &[u8], flag: &WatchFlag) {
        let place = DbKeyRef { db, key };
        if let Some(watches) = self.by_key.get_mut(&place) {
            watches.retain(|watch| !watch.flag.is_same(flag));
            if watches.is_empty() {
                self.by_key.remove(&place);
                self.figures.watched_keys.set(self.by_key.len() as u64);
            }
        }
    }

    /// Whether `key` had expired when the session of `flag` began to watch it, and has not changed since.
    pub fn was_gone(&self, db: u32, key: &[u8], flag: &WatchFlag) -> bool {
        let watches = self.by_key.get(&DbKeyRef { db, key });
        watches
            .is_some_and(|watches| watches.iter().any(|watch| watch.is_of_gone && watch.flag.is_same(flag)))
    }

    /// `key` of `db` has changed and now exists or not: raises the flags of all sessions that watch it.
    pub fn touch(&mut self, db: u32, key: &[u8], exists: bool) {
        let Some(watches) = self.by_key.get_mut(&DbKeyRef { db, key }) else { return };
        for watch in watches {
            let was_gone = std::mem::take(&mut watch.is_of_gone);
            if exists || !was_gone {
                watch.flag.raise();
            }
        }
    }

    /// The data of `db` have been replaced by others (when databases are flushed or swapped): raises the
    /// flags of the watched keys that this changed. `contents` returns the content of a key before and now.
    pub fn replaced(&mut self, db: u32, mut contents: impl FnMut(&[u8]) -> (Content, Content)) {
        for (place, watches) in self.by_key.iter_mut().filter(|(place, _)| place.db == db) {
            let (before, now) = contents(&place.key);
            for watch in watches {
                match (before, now) {
                    (Content::Nothing, Content::Nothing) => {}
                    // Neither is there for the session.
                    (_, Content::Nothing) if watch.is_of_gone => watch.is_of_gone = false,
                    (_, Content::Expired) if watch.is_of_gone => {}
                    (Content::Nothing, Content::Expired) => watch.is_of_gone = true,
                    _ => watch.flag.raise(),
                }
            }
        }
    }
}

/// The content of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// No value.
    Nothing,
    /// A value that has expired but is not deleted yet.
    Expired,
    /// A value.
    Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_a_key_is_deleted_is_no_change_for_who_found_it_past_its_time() {
        let mut watches = Watches::new(1, &Arc::default());
        let [early, late, forgetful] = [(); 3].map(|()| WatchFlag::default());
        watches.add(0, b"k", &early, false);
        watches.add(0, b"k", &late, true);
        watches.add(0, b"k", &forgetful, true);
        watches.remove(0, b"k", &forgetful);
        assert!(watches.was_gone(0, b"k", &late) && !watches.was_gone(0, b"k", &early));
        watches.touch(0, b"k", false);
        assert!(early.is_raised() && !late.is_raised());
        assert!(!watches.was_gone(0, b"k", &late));
        watches.touch(0, b"k", false);
        assert!(late.is_raised() && !forgetful.is_raised());
    }

    #[test]
    fn that_a_key_past_its_time_lives_again_is_a_change() {
        let (mut watches, flag) = (Watches::new(1, &Arc::default()), WatchFlag::default());
        watches.add(3, b"k", &flag, true);
        watches.touch(2, b"k", true);
        assert!(!flag.is_raised());
        watches.touch(3, b"k", true);
        assert!(flag.is_raised());
    }

    #[test]
    fn that_data_are_replaced_is_a_change_where_something_came_or_went() {
        use Content::{Expired, Nothing, Value};
        // Whether the key had expired when the watch began; whether the flag is raised, and it counts as expired then.
        for (was_gone, before, now, raises, is_gone) in [
            (false, Nothing, Nothing, false, false),
            (false, Nothing, Expired, false, true),
            (false, Nothing, Value, true, false),
            (false, Expired, Nothing, true, false),
            (false, Value, Nothing, true, false),
            (false, Value, Expired, true, false),
            (true, Expired, Nothing, false, false),
            (true, Expired, Expired, false, true),
            (true, Expired, Value, true, true),
        ] {
            let (mut watches, flag) = (Watches::new(1, &Arc::default()), WatchFlag::default());
            watches.add(3, b"k", &flag, was_gone);
            watches.replaced(2, |_| (Nothing, Value));
            watches.replaced(3, |_| (before, now));
            let seen = (flag.is_raised(), watches.was_gone(3, b"k", &flag));
            assert_eq!(seen, (raises, is_gone), "{was_gone} {before:?} {now:?}");
        }
    }
}
