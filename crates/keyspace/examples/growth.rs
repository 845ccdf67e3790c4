//! Measures how long single operations hold up a shard while its data grows to millions of items and shrinks
//! again.
//!
//! `make bench growth`, or `growth [millions [what …]]`. Uses the server's allocator, but without the huge pages that
//! the server uses for its data (`MIMALLOC_ALLOW_THP=0`): clearing one may take the kernel longer than anything here.
//!
//! Prints for each phase the percentiles of the operations' times, and the longest ones with the length at
//! that time. Machines have pauses of their own, some of them tens of milliseconds, but these do not hit the
//! same operation again. So everything is done [`ROUNDS`] times, and among the longest, each operation counts
//! with its shortest time.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it measures time, and collects what it measured"
)]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ds::hash::Hash;
use ds::hashing::{self, Seed};
use ds::list::End;
use ds::random::{Random, mix};
use ds::set::Set;
use ds::zset::ZSet;
use keyspace::List;
use keyspace::{Config, Db, Str, Value};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often everything is done.
const ROUNDS: usize = 3;
/// Longer operations are candidates for the longest.
const LONG: Duration = Duration::from_micros(20);
/// Number of the longest operations that are shown.
const SHOWN_COUNT: usize = 3;
/// Lengths of list elements: a small one, and one like a job.
const ELEMENT_BYTES: [usize; 2] = [20, 400];
/// How often a collection is converted.
const CONVERSIONS: u64 = 2000;

/// The times of the operations of one phase.
struct Times {
    phase: &'static str,
    /// Number of operations in all rounds, by tenths of microseconds; the last count includes all longer ones.
    counts: Vec<u64>,
    /// The operations that were long in every round so far, by number: shortest time, and length.
    long: HashMap<u64, (Duration, usize)>,
    round_count: usize,
}

impl Times {
    /// Times another round of `count` operations, each called with its number; `len` returns the length of `target`.
    fn round<T>(
        &mut self,
        count: u64,
        target: &mut T,
        len: fn(&T) -> usize,
        mut operation: impl FnMut(&mut T, u64),
    ) {
        let last = self.counts.len() - 1;
        let mut long = HashMap::new();
        for number in 0..count {
            let length = len(target);
            let start = Instant::now();
            operation(target, number);
            let taken = start.elapsed();
            self.counts[(taken.as_nanos() as usize / 100).min(last)] += 1;
            if taken > LONG {
                let before = self.long.get(&number).map(|(taken, _)| *taken);
                if before.is_some() || self.round_count == 0 {
                    long.insert(number, (before.map_or(taken, |before| before.min(taken)), length));
                }
            }
        }
        self.long = long;
        self.round_count += 1;
    }

    fn print(&self) {
        let total: u64 = self.counts.iter().sum();
        print!("{:16}{:>10}", self.phase, total / ROUNDS as u64);
        for share in [0.5, 0.999, 0.99999] {
            let mut left = (total as f64 * share) as u64;
            let at = self.counts.iter().position(|count| {
                let is_it = *count > left;
                left = left.saturating_sub(*count);
                is_it
            });
            print!("{:>9.1}", at.unwrap_or(self.counts.len()) as f64 / 10.0);
        }
        let mut longest: Vec<_> = self.long.values().collect();
        longest.sort_unstable_by(|left, right| right.cmp(left));
        for (taken, len) in longest.into_iter().take(SHOWN_COUNT) {
            print!("{:>10.1} @ {len:<9}", taken.as_nanos() as f64 / 1000.0);
        }
        println!();
    }
}

/// Runs the phases of one type once, with this many items.
type Scenario = fn(&mut Report, u64);

/// All phases so far, in order.
#[derive(Default)]
struct Report(Vec<Times>);

impl Report {
    fn phase(&mut self, phase: &'static str) -> &mut Times {
        let at = self.0.iter().position(|times| times.phase == phase).unwrap_or_else(|| {
            let (counts, long) = (vec![0; 100_000], HashMap::new());
            self.0.push(Times { phase, counts, long, round_count: 0 });
            self.0.len() - 1
        });
        &mut self.0[at]
    }
}

fn name(number: u64) -> [u8; 16] {
    let mut name = *b"key:000000000000";
    let mut rest = number;
    for byte in name[4..].iter_mut().rev() {
        *byte = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    name
}

fn keys(report: &mut Report, count: u64) {
    let seed = Arc::new(Seed::new(1));
    let mut db = Db::new(Arc::clone(&seed));
    report.phase("keys: insert").round(count, &mut db, Db::len, |db, n| {
        let key = name(n);
        db.insert(hashing::hash(&seed, &key), &key, Value::Str(Str::new(b"a value")));
    });
    report.phase("keys: remove").round(count, &mut db, Db::len, |db, n| {
        let key = name(n);
        drop(db.remove(hashing::hash(&seed, &key), &key));
    });
}

fn lists(report: &mut Report, count: u64) {
    for bytes in ELEMENT_BYTES {
        let mut list = List::new();
        let element = vec![b'x'; bytes];
        let names =
            if bytes < 100 { ["list: push", "list: pop"] } else { ["list: push job", "list: pop job"] };
        report.phase(names[0]).round(
            count,
            &mut list,
            |list| list.len(),
            |list, _| list.push(End::Head, &element),
        );
        report.phase(names[1]).round(
            count,
            &mut list,
            |list| list.len(),
            |list, _| {
                list.pop_with(End::Tail, |_| ());
            },
        );
    }
}

fn hashes(report: &mut Report, count: u64) {
    let limits = Config::default().hash;
    let mut hash = Hash::new();
    report.phase("hash: set").round(
        count,
        &mut hash,
        |hash| hash.lend().len(),
        |hash, n| {
            hash.set(&name(n), b"a value", &limits);
        },
    );
    report.phase("hash: remove").round(
        count,
        &mut hash,
        |hash| hash.lend().len(),
        |hash, n| {
            hash.remove(&name(n));
        },
    );
}

fn sets(report: &mut Report, count: u64) {
    let limits = Config::default().set;
    let mut set = Set::new();
    report.phase("set: insert").round(
        count,
        &mut set,
        |set| set.lend().len(),
        |set, n| {
            set.insert(&name(n), &limits);
        },
    );
    report.phase("set: remove").round(
        count,
        &mut set,
        |set| set.lend().len(),
        |set, n| {
            set.remove(&name(n));
        },
    );
}

fn zsets(report: &mut Report, count: u64) {
    let limits = Config::default().zset;
    let mut zset = ZSet::new();
    report.phase("zset: insert").round(
        count,
        &mut zset,
        |zset| zset.lend().len(),
        |zset, n| {
            zset.insert(&name(n), (mix(n) >> 20) as f64, &limits);
        },
    );
    report.phase("zset: remove").round(
        count,
        &mut zset,
        |zset| zset.lend().len(),
        |zset, n| {
            zset.remove(&name(n));
        },
    );
    for n in 0..count {
        zset.insert(&name(n), n as f64, &limits);
    }
    report.phase("zset: pop").round(
        count,
        &mut zset,
        |zset| zset.lend().len(),
        |zset, _| {
            zset.pop_min();
        },
    );
}

/// Many collections that outgrow their small form: the longest operations are the conversions.
fn conversions(report: &mut Report, _: u64) {
    let config = Config::default();
    let mut random = Random::new(1);
    let mut text = [b'x'; 64];
    let mut next = move || {
        text[..8].copy_from_slice(&random.next_u64().to_le_bytes());
        text
    };
    let entries = config.hash.entries_max as u64 + 1;
    let mut hash = Hash::new();
    report.phase("hash: convert").round(
        CONVERSIONS * entries,
        &mut hash,
        |hash| hash.lend().len(),
        |hash, n| {
            if n % entries == 0 {
                *hash = Hash::new();
            }
            hash.set(&next(), &next(), &config.hash);
        },
    );
    let entries = config.set.listpack_entries_max as u64 + 1;
    let mut set = Set::new();
    report.phase("set: convert").round(
        CONVERSIONS * entries,
        &mut set,
        |set| set.lend().len(),
        |set, n| {
            if n % entries == 0 {
                *set = Set::new();
            }
            set.insert(&next(), &config.set);
        },
    );
    let entries = config.set.intset_entries_max as u64 + 1;
    report.phase("intset: convert").round(
        CONVERSIONS * entries,
        &mut set,
        |set| set.lend().len(),
        |set, n| {
            if n % entries == 0 {
                *set = Set::new();
            }
            set.insert(mix(n).to_string().as_bytes(), &config.set);
        },
    );
    let entries = config.zset.entries_max as u64 + 1;
    let mut zset = ZSet::new();
    report.phase("zset: convert").round(
        CONVERSIONS * entries,
        &mut zset,
        |zset| zset.lend().len(),
        |zset, n| {
            if n % entries == 0 {
                *zset = ZSet::new();
            }
            zset.insert(&next(), mix(n) as f64, &config.zset);
        },
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let millions: f64 = args.next().map_or(10.0, |arg| arg.parse().expect("the first argument is a number"));
    let wanted: Vec<String> = args.collect();
    let all: [(&str, Scenario); 6] = [
        ("keys", keys),
        ("lists", lists),
        ("hashes", hashes),
        ("sets", sets),
        ("zsets", zsets),
        ("conversions", conversions),
    ];
    println!(
        "microseconds         count      50%    99.9%  99.999%   the longest, and the length at that time"
    );
    for (name, run) in all {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            let mut report = Report::default();
            for _ in 0..ROUNDS {
                run(&mut report, (millions * 1e6) as u64);
            }
            report.0.iter().for_each(Times::print);
        }
    }
}
