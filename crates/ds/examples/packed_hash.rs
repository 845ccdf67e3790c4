//! Measures operations on a large hash, with and without packing of its values: the memory of a field, or the
//! work of one operation under callgrind, as the difference of two runs:
//!
//! ```text
//! cargo build --release -p ds --example packed_hash
//! valgrind --tool=callgrind target/release/examples/packed_hash random 65536 HSET 0
//! valgrind --tool=callgrind target/release/examples/packed_hash random 65536 HSET 100000
//! ```
//!
//! The arguments are the kind of values, `hash-compress-bytes-min`, the operation, and the number of operations: on other
//! fields of the hash each, in any order. `HSET new` fills another hash.

mod jobs;

use std::hint::black_box;

use ds::hash::{CollectionLimits, Hash};
use ds::random::Random;

/// Number of fields of the hash.
const FIELDS: usize = 100_000;

/// A value of this kind.
fn value(kind: &str, random: &mut Random) -> Vec<u8> {
    match kind {
        "numbers" => random.below(1_000_000).to_string().into_bytes(),
        "random" => (0..200).map(|_| random.next_u64() as u8).collect(),
        "json" => format!(
            r#"{{"id":{},"name":"user{}","email":"user{}@example.com","visits":{},"last_seen":"2026-11-{:02}T10:00:00Z","plan":"{}"}}"#,
            random.below(1_000_000),
            random.below(1_000_000),
            random.below(1_000_000),
            random.below(1000),
            random.below(28) + 1,
            ["free", "team", "business"][random.below(3) as usize],
        )
        .into_bytes(),
        name => {
            let (_, job) = jobs::KINDS.into_iter().find(|(kind, _)| *kind == name).expect("a kind of values");
            job(random)
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, pack_bytes_min, operation, count] = &args[..] else {
        panic!("KIND hash-compress-bytes-min OPERATION COUNT")
    };
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let limits =
        CollectionLimits { entries_max: 512, value_bytes_max: 64, pack_bytes_min: number(pack_bytes_min) };
    let mut random = Random::new(1);
    let field = |number: usize| format!("field:{number:08}").into_bytes();
    let fields: Vec<Vec<u8>> = (0..FIELDS).map(field).collect();
    let [values, others] =
        [(); 2].map(|()| (0..FIELDS).map(|_| value(kind, &mut random)).collect::<Vec<_>>());
    let (mut hash, mut new) = (Hash::new(), Hash::new());
    for (field, value) in fields.iter().zip(&values) {
        hash.set(field, value, &limits);
    }
    if operation == "MEMORY" {
        println!("{:.1}", hash.memory_bytes() as f64 / FIELDS as f64);
    }
    for at in 0..number(count) {
        let (field, other) = (&fields[at * 7919 % FIELDS], &others[at % FIELDS]);
        match &operation[..] {
            "HSET new" => _ = black_box(new.set(field, other, &limits)),
            "HSET" => _ = black_box(hash.set(field, other, &limits)),
            "HGET" => _ = black_box(hash.lend().get(field).map(|value| value.bytes().len())),
            "HDEL" => _ = black_box(hash.remove(field)),
            "HKEYS" => hash.lend().iter().for_each(|(field, _)| _ = black_box(field)),
            "HGETALL" => hash.lend().visit_ahead(|bytes, len| _ = black_box((bytes, len))),
            "MEMORY" => {}
            other => panic!("{other} is none of the operations"),
        }
    }
}
