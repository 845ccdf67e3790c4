//! A shard's parts of all databases. Each is created when it is first used, because most shards have keys in
//! at most one database.
//!
//! Their sizes are in [`Tallies`], which readers see without holding the shard. A database keeps its tally
//! when its contents are swapped with those of another.

use std::cell::OnceCell;
use std::ops::{Index, IndexMut};
use std::sync::{Arc, OnceLock};

use ds::hashing::Seed;

use crate::db::Db;
use crate::queue::Known;
use crate::tally::Tally;

/// See the head of this file.
pub struct Dbs {
    parts: Box<[OnceCell<Box<Db>>]>,
    seed: Arc<Seed>,
    known: Arc<Known>,
    /// Whether clients are served from them, see [`Db::with_queues`].
    is_listed: bool,
    tallies: Arc<Tallies>,
}

/// The sizes of the databases that were ever used.
#[derive(Debug)]
pub struct Tallies(Box<[OnceLock<Arc<Tally>>]>);

impl Tallies {
    /// The size of the database `number`, if it was ever used.
    pub fn get(&self, number: u32) -> Option<&Tally> {
        self.0.get(number as usize)?.get().map(Arc::as_ref)
    }
}

impl Dbs {
    /// Creates `count` empty databases; the arguments are those of [`Db::new`] and [`Db::with_queues`].
    pub fn new(count: u32, seed: &Arc<Seed>, known: &Arc<Known>, is_listed: bool) -> Dbs {
        Dbs {
            parts: (0..count).map(|_| OnceCell::new()).collect(),
            seed: Arc::clone(seed),
            known: Arc::clone(known),
            is_listed,
            tallies: Arc::new(Tallies((0..count).map(|_| OnceLock::new()).collect())),
        }
    }

    /// The number of databases, used or not.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "there is always a database")]
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Their sizes.
    pub fn tallies(&self) -> &Arc<Tallies> {
        &self.tallies
    }

    /// A database, if it was used; unused ones are empty.
    #[inline]
    pub fn used(&self, number: usize) -> Option<&Db> {
        self.parts.get(number)?.get().map(Box::as_ref)
    }

    /// A database for changes, if it was used.
    #[inline]
    pub fn used_mut(&mut self, number: usize) -> Option<&mut Db> {
        self.parts.get_mut(number)?.get_mut().map(Box::as_mut)
    }

    /// The databases that were used, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Db)> {
        (0..).zip(&self.parts).filter_map(|(number, part)| Some((number, &**part.get()?)))
    }

    /// The databases that were used, for changes, with their numbers.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Db)> {
        (0..).zip(&mut self.parts).filter_map(|(number, part)| Some((number, &mut **part.get_mut()?)))
    }

    /// Swaps the contents of two databases, or does nothing if one of the numbers is too large.
    pub fn swap(&mut self, one: usize, other: usize) {
        if one >= self.len() || other >= self.len() || self.used(one).is_none() && self.used(other).is_none()
        {
            return;
        }
        for number in [one, other] {
            self.create(number);
        }
        let parts = self.parts.get_disjoint_mut([one, other]).ok();
        if let Some([Some(one), Some(other)]) = parts.map(|parts| parts.map(OnceCell::get_mut)) {
            one.swap(other);
        }
    }

    /// Exchanges all databases with those of `others`, which must have as many. Databases that are created
    /// later belong to the exchanged ones.
    pub fn exchange(&mut self, others: &mut Dbs) {
        assert_eq!(self.len(), others.len(), "all shards have the same databases");
        std::mem::swap(self, others);
    }

    #[cold]
    #[inline(never)]
    fn create(&self, number: usize) -> &Db {
        self.parts[number].get_or_init(|| {
            let tally = self.tallies.0[number].get_or_init(Arc::default);
            // An empty database does not count as data, either.
            heap::as_fixed(|| {
                let db = Db::new(Arc::clone(&self.seed)).with_tally(tally);
                Box::new(db.with_queues(&self.known, number as u32, self.is_listed))
            })
        })
    }
}

impl Index<usize> for Dbs {
    type Output = Db;

    #[inline]
    fn index(&self, number: usize) -> &Db {
        match self.parts[number].get() {
            Some(db) => db,
            None => self.create(number),
        }
    }
}

impl IndexMut<usize> for Dbs {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut Db {
        if self.parts[number].get().is_none() {
            self.create(number);
        }
        self.parts[number].get_mut().expect("it was just created")
    }
}

impl std::fmt::Debug for Dbs {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Dbs").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_used_is_there_and_sizes_stay_with_numbers() {
        let (seed, known) = (Arc::new(Seed::new(1)), Arc::default());
        let mut dbs = Dbs::new(16, &seed, &known, true);
        let (tallies, hash) = (Arc::clone(dbs.tallies()), ds::hashing::hash(&seed, b"key"));
        dbs.swap(3, 4);
        dbs.swap(3, 99);
        assert!(dbs.len() == 16 && dbs.iter().next().is_none() && tallies.get(3).is_none());
        assert!(dbs[3].find(hash, b"key").is_none() && dbs.used(4).is_none());
        let value = || crate::Value::List(Box::new(crate::List::new()));
        dbs[3].find_or_insert(hash, b"key", |key, _| crate::Record::new(key, value()));
        let keys = |number| tallies.get(number).map(|tally| tally.keys.get());
        assert_eq!((keys(3), keys(4)), (Some(1), None));
        dbs.swap(3, 4);
        assert_eq!((keys(3), keys(4)), (Some(0), Some(1)));
        assert_eq!(dbs.iter().map(|(number, db)| (number, db.len())).collect::<Vec<_>>(), [(3, 0), (4, 1)]);
        let mut others = Dbs::new(16, &seed, &known, false);
        dbs.exchange(&mut others);
        assert!(dbs.iter_mut().next().is_none() && others.used_mut(4).is_some_and(|db| db.len() == 1));
    }
}
