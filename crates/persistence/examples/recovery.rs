//! How long the slices of a journal take to be applied: `recovery EFFECTS THREADS [FILE]`.
//!
//! Half of the effects set new keys, half push to a thousand lists, 230 bytes each. With a file, the same
//! stream is written there, for redis-server to load it as its append-only file.
#![expect(clippy::disallowed_methods, reason = "an example reads files and clocks")]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ds::hashing::Seed;
use effectlog::{Lsn, Slice, StreamPosition};
use engine::{Command, Entry, Rule, Run, Table};
use keyspace::Config;
use persistence::{Extras, FoundSlice, Load, Names, Progress, Recovery, Role, Tuning};
use proactor::{Clock, Disk};
use shard::Placement;

#[global_allocator]
static ALLOCATOR: heap::Allocator = heap::Allocator;

const SELECT: Entry = Entry {
    name: "select",
    arity: 2,
    rules: &[Rule::SelectsDb],
    run: Run::Function(|_| Ok(())),
    ..Entry::DEFAULT
};
const VALUE_BYTES: usize = 230;
const EFFECTS_PER_SLICE: u64 = 16;

struct Nobody;

impl Extras for Nobody {
    fn field(&mut self, _: &[u8], _: &[u8]) {}

    fn library(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn change_libraries(&mut self, _: &Command, _: &[&[u8]]) -> Result<(), String> {
        Ok(())
    }
}

fn slices(effect_count: u64) -> Vec<Slice> {
    let value = "v".repeat(VALUE_BYTES);
    let (mut slices, mut position) = (Vec::new(), StreamPosition::START);
    for number in 1..=effect_count / EFFECTS_PER_SLICE {
        let mut payload = Vec::new();
        if number == 1 {
            resp::encode_request(&["SELECT", "0"], &mut payload);
        }
        for index in 0..EFFECTS_PER_SLICE {
            let effect = number * EFFECTS_PER_SLICE + index;
            match effect % 2 {
                0 => resp::encode_request(&["SET", &format!("key:{effect:012}"), &value], &mut payload),
                _ => resp::encode_request(
                    &["LPUSH", &format!("queue:{}", effect * 7919 % 1000), &value],
                    &mut payload,
                ),
            }
        }
        let slice = Slice { number: Lsn::new(number), position, db: (number > 1).then_some(0), payload };
        position = slice.end();
        slices.push(slice);
    }
    slices
}

/// Seconds of processors that the process has used.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("there is one");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("it has fields").split_whitespace().collect();
    let ticks = |index: usize| fields[index].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / 100.0
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, otherwise: u64| {
        args.get(index).map_or(otherwise, |arg| arg.parse().expect("a number"))
    };
    let (effect_count, thread_count) = (number(0, 1_000_000), number(1, 0) as usize);
    let slices = slices(effect_count);
    if let Some(file) = args.get(2) {
        let stream: Vec<u8> = slices.iter().flat_map(|slice| &slice.payload).copied().collect();
        std::fs::write(file, stream).expect("there is room");
    }
    let families: Vec<&'static [Entry]> = commands::FAMILIES.iter().copied().chain([&[SELECT][..]]).collect();
    let table = Table::new(&families);
    let role = |command: &Command| if command.full_name == "select" { Role::Select } else { Role::Data };
    let roles: Vec<Role> = table.all().iter().map(role).collect();
    let load = Load {
        names: &Names::new(&Disk::real(), "", "base.rdb"),
        placement: &Placement::new(Seed::random(), 64, None),
        db_count: 16,
        config: &Config::default(),
        queues: &Arc::default(),
        has_checksum: true,
        clock: &Clock::real(),
        progress: &Progress::default(),
        is_stopped: &AtomicBool::new(false),
        thread_count,
        memory_bytes_max: u64::MAX,
        tuning: Tuning::LARGE,
    };
    let slice_bytes = slices.iter().map(|slice| slice.payload.len() as u64).sum();
    let recovery = Recovery {
        name: "journal",
        base: None,
        slice: Lsn::NONE,
        position: StreamPosition::START,
        slice_bytes,
        table: &table,
        roles: &roles,
    };
    let file: Arc<str> = "segment".into();
    let mut left = slices.into_iter();
    let (begun, cpu_before) = (Instant::now(), cpu_seconds());
    let mut next = || Ok(left.next().map(|slice| FoundSlice { slice, unix_ms: 0, file: Arc::clone(&file) }));
    let loaded =
        load.journal(&recovery, &mut next, &mut Nobody).expect("it is right").expect("it is not stopped");
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu_seconds() - cpu_before);
    println!(
        "{effect_count} effects, {thread_count} threads: {seconds:.2} s, {cpu:.2} s of processors, {} keys, {:.0} ns of processors each",
        loaded.key_count,
        cpu * 1e9 / effect_count as f64
    );
    std::process::exit(0);
}
