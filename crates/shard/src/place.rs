//! A key of one database, owned or borrowed, as the key of a map.

use std::hash::{Hash, Hasher};

use foldhash::fast::FixedState;
use hashbrown::{Equivalent, HashMap};

/// A map by database and key. Each store has its own seed, so that clients cannot make entries collide.
pub(crate) type PlaceMap<V> = HashMap<Place, V, FixedState>;

/// A database and a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) db: u32,
    pub(crate) key: Box<[u8]>,
}

/// A borrowed [`Place`], for look-ups.
pub(crate) struct PlaceRef<'a> {
    pub(crate) db: u32,
    pub(crate) key: &'a [u8],
}

impl Hash for Place {
    fn hash<H: Hasher>(&self, state: &mut H) {
        PlaceRef { db: self.db, key: &self.key }.hash(state);
    }
}

impl Hash for PlaceRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.db);
        state.write(self.key);
    }
}

impl Equivalent<Place> for PlaceRef<'_> {
    fn equivalent(&self, place: &Place) -> bool {
        self.db == place.db && *self.key == *place.key
    }
}
