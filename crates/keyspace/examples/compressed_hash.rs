//! Operations on hashes that are jobs, compressed or not, so that callgrind can count them.
//!
//! ```text
//! cargo build --release -p keyspace --example compressed_hash
//! valgrind --tool=callgrind target/release/examples/compressed_hash bullmq compressed all 20000
//! ```
//!
//! Arguments: the kind of jobs, `plain` or `compressed`, the operation (`one` field, `all` fields, `set` one,
//! or `none`), and how often. To get the cost of an operation, divide the difference from `none` by their
//! number. Up to 20,000, each uses another hash.

#[path = "../../ds/examples/jobs/mod.rs"]
mod jobs;

use std::hint::black_box;
use std::sync::Arc;

use ds::hash::{CollectionLimits, FieldValue, Hash, HashRef};
use ds::hashing::{self, Seed};
use ds::packed::Packed;
use ds::random::Random;
use keyspace::{Config, Db, Type, Value, ValueRef};

const COUNT: usize = 20_000;
const LIMITS: CollectionLimits =
    CollectionLimits { entries_max: 128, value_bytes_max: 64, pack_bytes_min: 0 };

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The hash with the items in `run`.
fn hash_of(run: &[u8]) -> Hash {
    // An item has at least its prefix, so there are no more items than bytes.
    let (mut hash, packed) = (Hash::new(), Packed { form: 0, count: run.len(), bytes: run });
    for (field, value) in HashRef::of(packed).iter() {
        hash.set(field, &value.bytes(), &LIMITS);
    }
    hash
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, form, operation, count] = &args[..] else { panic!("KIND plain|compressed OPERATION COUNT") };
    let make = jobs::KINDS.iter().find(|(name, _)| name == kind).expect("a kind of jobs").1;
    let (seed, mut random) = (Arc::new(Seed::new(1)), Random::new(1));
    let mut db = Db::new(Arc::clone(&seed));
    let keys: Vec<(u64, Vec<u8>)> = (0..COUNT)
        .map(|number| {
            let key = format!("bull:mail:{number}").into_bytes();
            (hashing::hash(&seed, &key), key)
        })
        .collect();
    for (hash, key) in &keys {
        db.insert(*hash, key, Value::Hash(Box::new(hash_of(&make(&mut random)))));
    }
    let bytes = |db: &Db| db.iter().map(|record| record.memory_bytes()).sum::<usize>() / COUNT;
    let plain_bytes = bytes(&db);
    if form == "compressed" {
        let mut config = Config::default();
        config.hash_compression.idle_seconds = 0;
        db.compress_all_hashes(&config, 0);
    }
    let first = db.find(keys[0].0, &keys[0].1).expect("it is there").value().to_value();
    let field = match first.lend() {
        ValueRef::Hash(hash) => hash.iter().next().expect("it has fields").0.to_vec(),
        _ => panic!("it is a hash"),
    };
    let mut buffer = Vec::new();
    for number in 0..count.parse().expect("a number") {
        let (hash, key) = &keys[number % COUNT];
        match operation.as_str() {
            "none" => {}
            "set" => {
                let record = db.find_mut(*hash, key).expect("it is there");
                Hash::of_mut(record).expect("it is a hash").set(b"state", b"active", &LIMITS);
            }
            reads => {
                let value = db.find_to_touch(*hash, key).expect("it is there").into_ref().value();
                let Some(hash) = Hash::of(value.expanded(&mut buffer)) else { panic!("it is a hash") };
                if reads == "one" {
                    black_box(hash.get(&field).map(FieldValue::bytes));
                } else {
                    hash.visit_ahead(|item, len| _ = black_box((item, len)));
                }
            }
        }
    }
    println!("{plain_bytes} bytes each, {} now", bytes(&db));
}
