//! Snapshots of databases that change: in the end, the witness has seen exactly the records of the cut, each once.

#![expect(clippy::disallowed_types, reason = "a test looks at what its witness has seen")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use ds::hashing::{Seed, hash};
use ds::list::End;
use ds::random::Random;
use keyspace::List;
use keyspace::{Db, Record, RecordRef, Str, Taken, UnixMs, Value, ValueRef, Witness};

/// The state of a record: value and expiry.
type State = (Vec<Vec<u8>>, Option<UnixMs>);
type Model = BTreeMap<Vec<u8>, State>;

fn state_of(record: RecordRef<'_>) -> State {
    let elements = match record.value() {
        ValueRef::Str(string) => vec![string.bytes().into_owned()],
        ValueRef::List(list) => list.iter(0, false).map(|element| element.to_vec()).collect(),
        other => panic!("{other:?}"),
    };
    (elements, record.expiry())
}

/// The records that the witnesses of all databases have seen, by database number at the cut.
#[derive(Default)]
struct Seen {
    models: BTreeMap<usize, Model>,
    ended: BTreeSet<usize>,
}

struct Note {
    db: usize,
    seen: Arc<Mutex<Seen>>,
    random: Random,
    /// The record that is partly captured.
    amid: Option<Vec<u8>>,
}

impl Witness for Note {
    fn take(&mut self, record: RecordRef<'_>, at_once: bool) -> Taken {
        let key = record.key().to_vec();
        if !at_once {
            assert!(
                self.amid.as_ref().is_none_or(|amid| *amid == key),
                "another record comes between two parts"
            );
            match self.random.below(6) {
                0 => return if self.amid.is_some() { Taken::Part } else { Taken::Nothing },
                1 => {
                    self.amid = Some(key);
                    return Taken::Part;
                }
                _ => {}
            }
        }
        if self.amid.as_ref() == Some(&key) {
            self.amid = None;
        }
        let mut seen = self.seen.lock().expect("no test panicked with it");
        let model = seen.models.entry(self.db).or_default();
        assert!(model.insert(key, state_of(record)).is_none(), "a record was shown twice");
        Taken::All
    }

    fn is_full(&self) -> bool {
        false
    }

    fn is_large(&self, record: RecordRef<'_>) -> bool {
        record.value().len() > 3
    }

    fn end(self: Box<Self>) {
        assert!(self.amid.is_none());
        assert!(self.seen.lock().expect("no test panicked with it").ended.insert(self.db));
    }
}

const DBS: usize = 3;

struct World {
    seed: Arc<Seed>,
    random: Random,
    dbs: Vec<Db>,
    models: Vec<Model>,
    /// Flushed databases whose snapshot has not seen all records yet.
    flushed: Vec<Db>,
}

impl World {
    fn new(seed: u64) -> World {
        let table_seed = Arc::new(Seed::new(seed));
        let dbs = (0..DBS).map(|_| Db::new(Arc::clone(&table_seed))).collect();
        let models = vec![Model::new(); DBS];
        World { seed: table_seed, random: Random::new(seed), dbs, models, flushed: Vec::new() }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn key(&mut self, keys: usize) -> (u64, Vec<u8>) {
        let key = format!("key:{}", self.below(keys)).into_bytes();
        (hash(&self.seed, &key), key)
    }

    fn text(&mut self) -> Vec<u8> {
        let len = [3, 30, 300][self.below(3)];
        (0..len).map(|_| self.below(256) as u8).collect()
    }

    /// Makes a change, if the snapshot allows it.
    fn change(&mut self, keys: usize) {
        let db = self.below(DBS);
        let ((hash, key), text) = (self.key(keys), self.text());
        // Some changes ask first, some do not.
        if self.below(2) == 0 && self.dbs[db].holds_back(hash, &key) {
            return;
        }
        let (chance, other, expiry) = (self.below(20), self.below(DBS), self.below(100) as UnixMs);
        let (dbs, models) = (&mut self.dbs, &mut self.models);
        let (base, model) = (&mut dbs[db], &mut models[db]);
        match chance {
            0..=5 => {
                if let Some(mut record) = base.find_mut(hash, &key) {
                    record.set_string(&text);
                    model.get_mut(&key).expect("it is there").0 = vec![text];
                } else {
                    base.insert(hash, &key, Value::Str(Str::new(&text)));
                    model.insert(key, (vec![text], None));
                }
            }
            6..=9 => {
                assert_eq!(base.remove(hash, &key).is_some(), model.remove(&key).is_some());
            }
            10..=13 => {
                let make =
                    |key: &[u8], _: Option<Record>| Record::new(key, Value::List(Box::new(List::new())));
                let (record, is_new) = base.find_or_insert(hash, &key, make);
                let entry = model.entry(key.clone()).or_default();
                if let Value::List(list) = record.into_value() {
                    list.push(End::Tail, &text);
                    entry.0.push(text);
                } else {
                    assert!(!is_new);
                }
            }
            14..=16 => {
                let expiry = (expiry > 20).then_some(expiry);
                assert_eq!(base.set_expiry(hash, &key, expiry), model.contains_key(&key));
                model.entry(key).and_modify(|state| state.1 = expiry);
            }
            17 if expiry == 0 => {
                let flushed = base.take();
                model.clear();
                if flushed.is_cut() {
                    self.flushed.push(flushed);
                }
            }
            18 => {
                dbs.swap(db, other);
                models.swap(db, other);
            }
            17 => _ = base.defragment(&mut self.random),
            _ => {
                base.find_to_touch(hash, &key).into_iter().for_each(|mut record| record.set_access(7));
                base.find_expired(0, 3, 10, &mut Vec::new(), &mut Vec::new());
            }
        }
    }

    fn check(&self) {
        for (db, model) in self.dbs.iter().zip(&self.models) {
            let there: Model = db.iter().map(|record| (record.key().to_vec(), state_of(record))).collect();
            assert_eq!(&there, model);
            assert_eq!(db.tally().keys.get(), db.len() as u64);
            assert_eq!(db.tally().volatile_keys.get(), db.volatile_len() as u64);
        }
    }

    /// Takes a snapshot from cut to end, with this many changes between slices.
    fn snapshot(&mut self, keys: usize, changes: usize) {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let at_cut: BTreeMap<usize, Model> = self.models.iter().cloned().enumerate().collect();
        for (number, db) in self.dbs.iter_mut().enumerate() {
            let random = Random::new(self.random.next_u64());
            db.begin_cut(Box::new(Note { db: number, seen: Arc::clone(&seen), random, amid: None }));
        }
        while self.dbs.iter().any(Db::is_cut) || !self.flushed.is_empty() {
            for _ in 0..self.below(changes + 1) {
                self.change(keys);
            }
            let number = self.below(DBS);
            self.dbs[number].continue_cut(&mut || true);
            self.flushed.retain_mut(|db| !db.continue_cut(&mut || true));
        }
        let mut seen = seen.lock().expect("no test panicked with it");
        assert_eq!(seen.ended.len(), DBS);
        let models: BTreeMap<usize, Model> =
            (0..DBS).map(|db| (db, seen.models.remove(&db).unwrap_or_default())).collect();
        for db in 0..DBS {
            assert!(models[&db] == at_cut[&db], "database {db} was seen otherwise than it was at the cut");
        }
        self.check();
    }
}

#[test]
fn the_witness_sees_what_there_was_at_the_cut() {
    for seed in 1..=40 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        let (keys, changes) = ([5, 300, 4000][world.below(3)], [0, 3, 200][world.below(3)]);
        (0..keys * 2).for_each(|_| world.change(keys));
        for _ in 0..3 {
            world.snapshot(keys, changes);
        }
    }
}
