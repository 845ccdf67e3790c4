//! Tests compressed hashes: they keep their contents through all operations, and take less memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use ds::hash::{CollectionLimits, Hash};
use ds::hashing::{self, Seed};
use ds::random::Random;
use ds::zset::{ZSet, ZSetLimits};
use keyspace::compression::PATTERNS_MAX;
use keyspace::{Config, Db, HashCompression, Type, UnixMs, Value, ValueRef};

const NOW: UnixMs = 1_700_000_000_000;
const LIMITS: CollectionLimits =
    CollectionLimits { entries_max: 128, value_bytes_max: 64, pack_bytes_min: 0 };

type Model = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>;

struct World {
    db: Db,
    seed: Arc<Seed>,
    model: Model,
    config: Config,
    random: Random,
}

fn hex(random: &mut Random, len: usize) -> String {
    (0..len).map(|_| char::from(b"0123456789abcdef"[random.below(16) as usize])).collect()
}

/// The fields of a job. If `is_long`, some values are too long for the small form.
fn job(random: &mut Random, is_long: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let id = random.below(3_000_000);
    let mut data =
        format!(r#"{{"to":"user{id}@example.com","template":"welcome","requestId":"{}"}}"#, hex(random, 8));
    if !is_long {
        data.truncate(60);
    }
    let opts = if is_long {
        r#"{"attempts":3,"delay":0,"backoff":{"delay":1000,"type":"exponential"},"removeOnComplete":{"age":3600}}"#
    } else {
        r#"{"attempts":3,"delay":0}"#
    };
    let pairs = [
        ("name", "sendEmail".to_owned()),
        ("data", data),
        ("opts", opts.to_owned()),
        ("timestamp", (1_700_000_000_000 + random.below(300_000_000)).to_string()),
        ("delay", "0".to_owned()),
        ("priority", "0".to_owned()),
        ("processedOn", (1_700_000_000_000 + random.below(300_000_000)).to_string()),
    ];
    pairs.into_iter().map(|(field, value)| (field.into(), value.into_bytes())).collect()
}

fn noise(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.below(256) as u8).collect()
}

impl World {
    fn new() -> World {
        let seed = Arc::new(Seed::new(1));
        let config = Config {
            hash_compression: HashCompression { bytes_min: 4096, idle_seconds: 0 },
            ..Config::default()
        };
        let (db, model, random) = (Db::new(Arc::clone(&seed)), Model::new(), Random::new(7));
        World { db, seed, model, config, random }
    }

    fn hash(&self, key: &[u8]) -> u64 {
        hashing::hash(&self.seed, key)
    }

    fn put(&mut self, key: &[u8], pairs: Vec<(Vec<u8>, Vec<u8>)>) {
        self.remove(key);
        let mut hash = Hash::new();
        for (field, value) in &pairs {
            hash.set(field, value, &LIMITS);
        }
        let access = keyspace::access::lru_clock(NOW);
        self.db.insert(self.hash(key), key, Value::Hash(Box::new(hash))).set_access(access);
        self.model.insert(key.into(), pairs.into_iter().collect());
    }

    fn remove(&mut self, key: &[u8]) {
        let removed = self.db.remove(self.hash(key), key).map(|record| record.into_value());
        let expected = self.model.remove(key);
        assert_eq!(removed.map(|value| fields(value.lend())), expected);
    }

    /// Does the same as HSET of one field.
    fn set(&mut self, key: &[u8], field: &[u8], value: &[u8]) {
        let hash = self.hash(key);
        let Some(record) = self.db.find_mut(hash, key) else { return };
        Hash::of_mut(record).expect("it is a hash").set(field, value, &LIMITS);
        self.model.get_mut(key).expect("it is there").insert(field.into(), value.into());
    }

    fn compress(&mut self) -> u64 {
        self.db.compress_all_hashes(&self.config, NOW)
    }

    fn check(&self) {
        assert_eq!(self.db.len(), self.model.len());
        for (key, expected) in &self.model {
            let record = self.db.find(self.hash(key), key).expect("it is there");
            assert_eq!(fields(record.value()), *expected);
            let plain = record.value().to_value();
            assert_eq!(plain.lend().encoding(), record.value().encoding());
            assert_eq!(record.value().len(), expected.len());
        }
    }

    fn memory_bytes(&self) -> usize {
        self.db.iter().map(|record| record.memory_bytes()).sum::<usize>() + self.db.compression_bytes()
    }

    fn compressed_count(&self) -> usize {
        self.db.iter().filter(|record| matches!(record.value(), ValueRef::Compressed(_))).count()
    }
}

fn fields(value: ValueRef<'_>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut buffer = Vec::new();
    let ValueRef::Hash(hash) = value.expanded(&mut buffer) else { panic!("it is a hash") };
    hash.iter().map(|(field, value)| (field.to_vec(), value.bytes().into_owned())).collect()
}

#[test]
fn jobs_take_a_fraction_and_stay_what_they_are() {
    for is_long in [false, true] {
        let mut world = World::new();
        for number in 0..1000 {
            let pairs = job(&mut world.random, is_long);
            world.put(format!("bull:mail:{number}").as_bytes(), pairs);
        }
        let before = world.memory_bytes();
        assert_eq!(world.compress(), 1000);
        let after = world.memory_bytes();
        assert!(after * 2 < before, "{before} bytes became {after}");
        world.check();
        assert_eq!(world.compress(), 0, "nothing is left to do");
        // A write expands a hash for good, until it is idle again.
        world.set(b"bull:mail:17", b"finishedOn", b"1700000000001");
        assert_eq!(world.compressed_count(), 999);
        world.check();
        assert_eq!(world.compress(), 1);
        world.check();
        for number in 0..1000 {
            world.remove(format!("bull:mail:{number}").as_bytes());
        }
        world.compress();
        assert_eq!(world.db.compression_bytes(), 0, "nothing stays of dictionaries that nobody uses");
    }
}

#[test]
fn hashes_in_use_are_left_alone() {
    let mut world = World::new();
    world.config.hash_compression.idle_seconds = 60;
    for number in 0..200 {
        let pairs = job(&mut world.random, true);
        world.put(format!("bull:mail:{number}").as_bytes(), pairs);
    }
    assert_eq!(world.compress(), 0);
    let pass = |world: &mut World, now_s: i64| {
        let config = world.config.clone();
        world.db.compress_all_hashes(&config, NOW + now_s * 1000)
    };
    assert_eq!(pass(&mut world, 59), 0);
    let (key, hash) = (b"bull:mail:17", world.hash(b"bull:mail:17"));
    let read_at = keyspace::access::lru_clock(NOW + 30_000);
    world.db.find_to_touch(hash, key).expect("it is there").set_read(read_at);
    assert_eq!(pass(&mut world, 61), 199);
    assert_eq!(pass(&mut world, 80), 0);
    assert_eq!(pass(&mut world, 91), 1);
    // Reading leaves it compressed.
    let read_at = keyspace::access::lru_clock(NOW + 92_000);
    world.db.find_to_touch(hash, key).expect("it is there").set_read(read_at);
    assert_eq!(world.compressed_count(), 200);
    world.check();
}

#[test]
fn values_without_a_pattern_cost_nothing() {
    let mut world = World::new();
    for number in 0..500 {
        let key = format!("noise:{number}");
        let pairs = (0..4_u8).map(|field| (vec![field], noise(&mut world.random, 60))).collect();
        world.put(key.as_bytes(), pairs);
    }
    let before = world.memory_bytes();
    assert_eq!(world.compress(), 0);
    assert!(world.memory_bytes() < before + 8192, "no dictionary is kept for it");
    world.check();
    // Attempts to learn become rare.
    let mut attempts = 0;
    for _ in 0..100 {
        let config = world.config.clone();
        attempts += world.db.compress_hashes(&config, NOW, &mut || true).attempts;
    }
    assert!(attempts < 1500, "{attempts} attempts in 100 passes");
}

/// Collections that stop growing while they learn what their members have in common.
#[test]
fn samples_of_idle_collections_are_freed() {
    const MEMBERS: u64 = 40;
    let mut world = World::new();
    let (hash_limits, set_limits) = (
        CollectionLimits { pack_bytes_min: 1, ..LIMITS },
        ZSetLimits { entries_max: 8, value_bytes_max: 64, pack_bytes_min: 1 },
    );
    let (mut hash, mut set) = (Hash::new(), ZSet::new());
    for number in 0..MEMBERS {
        let member = noise(&mut world.random, 1000);
        hash.set(&number.to_le_bytes(), &member, &hash_limits);
        set.insert(&member, number as f64, &set_limits);
    }
    for (key, value) in [(&b"hash"[..], Value::Hash(Box::new(hash))), (b"set", Value::ZSet(Box::new(set)))] {
        let before = value.memory_bytes();
        assert!(before > 60_000, "{before} bytes, of which 40,000 are the members");
        world.db.insert(world.hash(key), key, value).set_access(keyspace::access::lru_clock(NOW));
        world.compress();
        let after = world.db.find(world.hash(key), key).expect("it is there").memory_bytes();
        assert!(after < before - 20_000, "{after} bytes, {before} before");
    }
}

#[test]
fn it_learns_again_when_jobs_change() {
    let mut world = World::new();
    for number in 0..300 {
        let pairs = job(&mut world.random, true);
        world.put(format!("bull:mail:{number}").as_bytes(), pairs);
    }
    world.compress();
    for number in 300..2000 {
        let padding = hex(&mut world.random, 16);
        let text = format!(
            "Entirely different: order {padding} was shipped to the customer by express courier on Monday"
        );
        let pairs = vec![
            (b"subject".to_vec(), text.clone().into_bytes()),
            (b"zz".to_vec(), text.to_uppercase().into_bytes()),
        ];
        world.put(format!("bull:mail:{number}").as_bytes(), pairs);
        if number % 100 == 0 {
            world.compress();
        }
    }
    world.compress();
    assert!(world.compressed_count() > 1900, "{} are compressed", world.compressed_count());
    world.check();
}

#[test]
fn no_more_patterns_are_told_apart_than_may_be() {
    let mut world = World::new();
    for number in 0..20_000 {
        let letters: String =
            hex(&mut world.random, 6).bytes().map(|digit| char::from(b'g' + digit % 16)).collect();
        let pairs = job(&mut world.random, false);
        world.put(format!("{letters}:{number}").as_bytes(), pairs.into_iter().take(3).collect());
    }
    let before = world.memory_bytes();
    world.compress();
    assert!(world.memory_bytes() < before + PATTERNS_MAX * 256 + (128 << 10));
    // A pattern that is common among them is found.
    for number in 0..5000 {
        let pairs = job(&mut world.random, true);
        world.put(format!("bull:mail:{number}").as_bytes(), pairs);
    }
    world.compress();
    assert!(world.compressed_count() >= 4990, "{} are compressed", world.compressed_count());
    world.check();
}

#[test]
fn whatever_happens_values_stay() {
    let mut world = World::new();
    world.config.hash_compression.bytes_min = 1;
    for step in 0..20_000 {
        let number = world.random.below(200);
        let pattern = ["bull:mail:", "rq:job:", "x", "a:1:b:"][number as usize % 4];
        let key = format!("{pattern}{number}");
        let key = key.as_bytes();
        match world.random.below(12) {
            0..4 => {
                let is_long = world.random.below(2) == 0;
                let pairs = job(&mut world.random, is_long);
                world.put(key, pairs);
            }
            4 => world.remove(key),
            5..8 => {
                let len = world.random.below(90) as usize;
                let value = noise(&mut world.random, len);
                world.set(key, b"data", &value);
            }
            8 => {
                let len = world.random.below(3000) as usize;
                let value = hex(&mut world.random, len);
                world.set(key, b"more", value.as_bytes());
            }
            9 => {
                let expiry = (world.random.below(3) > 0).then_some([5, -5, NOW][number as usize % 3]);
                let hash = world.hash(key);
                world.db.set_expiry(hash, key, expiry);
            }
            10 => {
                let mut budget = world.random.below(40);
                let config = world.config.clone();
                world.db.compress_hashes(&config, NOW, &mut || {
                    budget = budget.saturating_sub(1);
                    budget > 0
                });
            }
            _ => {
                let mut mover = Random::new(step);
                world.db.defragment(&mut mover);
            }
        }
        if step % 500 == 0 {
            world.check();
            world.compress();
            world.check();
        }
    }
    assert!(world.compressed_count() > 50, "{} are compressed", world.compressed_count());
}
