//! A key of one database, owned or borrowed, as the key of a map.

use std::hash::{Hash, Hasher};

use foldhash::fast::FixedState;
use hashbrown::{Equivalent, HashMap};

/// A map by database and key. Each store has its own seed, so that clients cannot make entries collide.
pub(crate) type DbKeyMap<V> = HashMap<DbKey, V, FixedState>;

/// A database and a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DbKey {
    pub(crate) db: u32,
    pub(crate) key: Box<[u8]>,
}

/// A borrowed [`DbKey`], for look-ups.
pub(crate) struct DbKeyRef<'a> {
    pub(crate) db: u32,
    pub(crate) key: &'a [u8],
}

impl Hash for DbKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        DbKeyRef { db: self.db, key: &self.key }.hash(state);
    }
}

impl Hash for DbKeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.db);
        state.write(self.key);
    }
}

impl Equivalent<DbKey> for DbKeyRef<'_> {
    fn equivalent(&self, place: &DbKey) -> bool {
        self.db == place.db && *self.key == *place.key
    }
}
