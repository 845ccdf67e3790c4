//! Measures operations on a large sorted set of jobs, with and without packing: the memory of a member, or
//! the work of one operation under callgrind, as the difference of two runs:
//!
//! ```text
//! cargo build --release -p ds --example packed_set
//! valgrind --tool=callgrind target/release/examples/packed_set retry 131072 ZADD 0
//! valgrind --tool=callgrind target/release/examples/packed_set retry 131072 ZADD 20000
//! ```
//!
//! The arguments are the kind of jobs, `zset-compress-bytes-min`, the operation, and the number of operations.

mod jobs;

use std::hint::black_box;

use ds::random::Random;
use ds::zset::{ScoreBound, ZSet, ZSetLimits};
use jobs::KINDS;

/// Number of members of the set, and of others that are added to it.
const JOBS: usize = 20_000;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, pack_bytes_min, operation, count] = &args[..] else {
        panic!("KIND zset-compress-bytes-min OPERATION COUNT")
    };
    let (_, make) = KINDS.into_iter().find(|(name, _)| name == kind).expect("a kind of jobs");
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let limits = ZSetLimits { entries_max: 128, value_bytes_max: 64, pack_bytes_min: number(pack_bytes_min) };
    let mut random = Random::new(1);
    let mut job = || (make(&mut random), 1_700_000_000.0 + random.below(10_000_000_000) as f64 / 10_000.0);
    let [members, others] = [(); 2].map(|()| (0..JOBS).map(|_| job()).collect::<Vec<_>>());
    let mut set = ZSet::new();
    for (member, score) in &members {
        set.insert(member, *score, &limits);
    }
    if operation == "MEMORY" {
        println!("{:.1}", set.memory_bytes() as f64 / JOBS as f64);
    }
    let score_range = |set: &ZSet, score| {
        set.lend().score_range(ScoreBound::Inclusive(f64::NEG_INFINITY), ScoreBound::Inclusive(score))
    };
    for at in 0..number(count) {
        // Any order other than that of insertion.
        let (member, score) = &members[at * 7919 % JOBS];
        match &operation[..] {
            "ZADD" => _ = black_box(set.insert(&others[at].0, others[at].1, &limits)),
            "ZADD, other score" => _ = black_box(set.insert(member, score + 1.0, &limits)),
            "ZSCORE" => _ = black_box(set.lend().score(member)),
            "ZRANK" => _ = black_box(set.lend().rank(member)),
            "ZREM" => _ = black_box(set.remove(member)),
            "ZPOPMIN" => _ = black_box(set.pop_min()),
            "ZRANGE" => _ = black_box(set.lend().iter_from_rank(at, false).next()),
            "ZRANGEBYSCORE" => {
                let range = score_range(&set, *score);
                black_box(set.lend().iter_from_rank(range.end - 1, false).next());
            }
            other => panic!("{other} is none of the operations"),
        }
    }
}
