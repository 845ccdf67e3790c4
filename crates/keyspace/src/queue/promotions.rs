//! The sorted sets that QUEUE PROMOTE names, whose due jobs the server moves to queues: the copy for all
//! threads.
//!
//! The rules are stored in a hash of each database ([`PROMOTIONS`]). The home thread of that hash updates
//! this copy every second, regardless of how the hash was changed. The copy says where to look; the thread
//! that moves a job reads the hash.

#![expect(
    clippy::disallowed_types,
    reason = "written when somebody says QUEUE PROMOTE, and read each second"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The key of the hash: name → rule.
///
/// There is one key, not one beside each set, because a user who may write it can have jobs pushed onto any
/// key. Users who may only write the keys of some queues cannot write this one.
pub const PROMOTIONS: &[u8] = b"darter:promotions";

/// A sorted set whose due jobs move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Promoted {
    /// The database.
    pub db: u32,
    /// The key of the set.
    pub set: Box<[u8]>,
    /// The name of the rule.
    pub name: Box<[u8]>,
    /// The rule as text.
    pub text: Box<[u8]>,
}

/// All promoted sets.
#[derive(Debug, Default)]
pub struct Promotions {
    are_any: AtomicBool,
    all: RwLock<Arc<[Promoted]>>,
}

impl Promotions {
    /// Whether there are any; quick.
    #[inline]
    pub fn are_any(&self) -> bool {
        self.are_any.load(Ordering::Relaxed)
    }

    /// All promoted sets.
    pub fn all(&self) -> Arc<[Promoted]> {
        Arc::clone(&self.all.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The rule of a set.
    pub fn of(&self, db: u32, set: &[u8]) -> Option<Promoted> {
        if !self.are_any() {
            return None;
        }
        self.all().iter().find(|known| known.db == db && *known.set == *set).cloned()
    }

    /// Replaces the promoted sets of a database.
    pub fn set(&self, db: u32, of_db: &[Promoted]) {
        let known = self.all();
        if known.iter().filter(|known| known.db == db).eq(of_db) {
            return;
        }
        let others = known.iter().filter(|known| known.db != db);
        let all: Arc<[Promoted]> = others.chain(of_db).cloned().collect();
        self.are_any.store(!all.is_empty(), Ordering::Relaxed);
        *self.all.write().unwrap_or_else(PoisonError::into_inner) = all;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_database_has_its_own() {
        let promotions = Promotions::default();
        let promoted = |db: u32, set: &[u8]| Promoted {
            db,
            set: set.into(),
            name: b"n"[..].into(),
            text: b"t"[..].into(),
        };
        assert!(!promotions.are_any() && promotions.of(0, b"a").is_none());
        promotions.set(0, &[promoted(0, b"a"), promoted(0, b"b")]);
        promotions.set(1, &[promoted(1, b"a")]);
        assert!(promotions.of(1, b"a").is_some() && promotions.of(1, b"b").is_none());
        promotions.set(0, &[promoted(0, b"b")]);
        assert!(promotions.of(0, b"a").is_none() && promotions.of(0, b"b").is_some());
        promotions.set(0, &[]);
        assert_eq!(promotions.all().len(), 1);
        promotions.set(1, &[]);
        assert!(!promotions.are_any());
    }
}
