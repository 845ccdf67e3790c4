//! The power fails while snapshots are saved. The server starts with one of them, complete: the last one that was acknowledged, or one that
//! was begun later.
//!
//! In each round, data change, their digest is taken, and a save begins: `SAVE`, or `BGSAVE` while clients continue to write. The save may
//! be interrupted. The disk may be slow, write less than requested, fail, or be full. Then the power fails, or the next round begins.

use std::collections::BTreeSet;

use proactor::{DiskFaults, Fault};
use resp::Value;
use sim::{Client, Setup, World, for_each_seed, request};

const ROUNDS: usize = 5;
/// More events than a save needs in any world.
const EVENTS_MAX: u64 = 400_000;

fn call(world: &mut World, client: &mut Client, line: &str) -> String {
    let reply = world.call(client, &resp::split_args(line.as_bytes()).expect("words"));
    match reply {
        Value::Bulk(text) => String::from_utf8(text).expect("text"),
        reply => reply.to_string(),
    }
}

/// A random change of the data, on keys that never expire.
fn change(world: &mut World) -> String {
    let (key, number) = (world.below(30), world.below(1_000));
    match world.below(8) {
        0 => format!("SET string:{key} {number}"),
        1 => format!("RPUSH list:{key} {number} {key} x{number}"),
        2 => format!("LPOP list:{key}"),
        3 => format!("HSET hash:{key} field:{number} {number}"),
        4 => format!("SADD set:{key} {number} m{number}"),
        5 => format!("ZADD zset:{key} {number} {key}"),
        6 => format!("XADD stream:{key} * field {number}"),
        _ => format!("DEL string:{key} list:{key} set:{key}"),
    }
}

fn send_changes(world: &mut World, client: &mut Client, count: usize) {
    for _ in 0..count {
        let line = change(world);
        client.send(&resp::split_args(line.as_bytes()).expect("words"));
    }
}

/// Adds collections large enough to be saved in parts.
fn add_large(world: &mut World, client: &mut Client) {
    let numbers = (0..400).map(|number| number.to_string());
    let args = ["large".to_owned()].into_iter().chain(numbers);
    world.call(client, &request("RPUSH", args));
    call(world, client, &format!("SETRANGE long 9000 {}", world.event));
}

/// How a save ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Acknowledged,
    Failed,
    /// The reply did not arrive.
    Unknown,
}

/// A random fault for a save.
fn some_fault(world: &mut World) -> Option<Fault> {
    let fault = match world.below(8) {
        0 => Fault::WriteError,
        1 => Fault::SyncError,
        2 => Fault::NoRoom,
        _ => return None,
    };
    let spared = world.below(12) as u64;
    world.disk().plan(spared, fault);
    Some(fault)
}

/// When the power fails, as a number of disk operations; `u64::MAX` if it does not fail during the save.
fn crash_at(world: &mut World) -> u64 {
    let operations = match world.below(3) {
        0 => return u64::MAX,
        1 => world.below(8),
        _ => world.below(50),
    };
    world.disk().operations() + operations as u64
}

/// Runs SAVE, up to a crash.
fn save(world: &mut World, main: &mut Client, crash_at: u64) -> End {
    main.send(&request("SAVE", [""; 0]));
    while world.disk().operations() < crash_at {
        match world.pump(main).pop() {
            Some(Value::Simple(_)) => return End::Acknowledged,
            Some(Value::Error(_)) => return End::Failed,
            Some(other) => panic!("SAVE answered {other}"),
            None => world.step(),
        }
    }
    End::Unknown
}

/// Runs BGSAVE while another client writes, up to a crash.
fn save_in_background(world: &mut World, main: &mut Client, other: &mut Client, crash_at: u64) -> End {
    assert_eq!(call(world, main, "BGSAVE"), "Background saving started");
    let first_event = world.event;
    loop {
        main.send(&request("INFO", ["persistence"]));
        let info = loop {
            if world.disk().operations() >= crash_at {
                return End::Unknown;
            }
            assert!(world.event < first_event + EVENTS_MAX, "the save comes to no end");
            if other.unanswered() < 10 {
                send_changes(world, other, 1);
            }
            world.pump(other);
            match world.pump(main).pop() {
                Some(Value::Bulk(text)) => break String::from_utf8(text).expect("text"),
                Some(other) => panic!("INFO answered {other}"),
                None => world.step(),
            }
        };
        if info.contains("rdb_bgsave_in_progress:0") {
            let is_well = info.contains("rdb_last_bgsave_status:ok");
            return if is_well { End::Acknowledged } else { End::Failed };
        }
    }
}

#[derive(Default, Debug)]
struct Totals {
    acknowledged: usize,
    failed: usize,
    crashes: usize,
    /// Crashes during a save after which the previous snapshot, or the new one, was loaded.
    kept_old: usize,
    kept_new: usize,
}

/// One save, perhaps with a crash. `possible` are the digests of the snapshots that may be on the disk. One of them must be.
fn round(world: &mut World, main: &mut Client, possible: &mut BTreeSet<String>, totals: &mut Totals) {
    let mut other = world.connect();
    let count = world.below(40);
    send_changes(world, &mut other, count);
    if world.one_in(3) {
        add_large(world, main);
    }
    world.settle(|world| drop(world.pump(&mut other)));
    let at_cut = call(world, main, "DEBUG DIGEST");
    if world.one_in(2) {
        world.disk().set_faults(DiskFaults {
            short_write_one_in: 3,
            hang_one_in: 10,
            hang_ns_max: 50_000_000,
            ..DiskFaults::default()
        });
    }
    let before = possible.clone();
    let (fault, crash_at) = (some_fault(world), crash_at(world));
    let is_background = world.one_in(2);
    let end = match is_background {
        true => save_in_background(world, main, &mut other, crash_at),
        false => save(world, main, crash_at),
    };
    let was_hit = fault.is_some() && world.disk().planned() == 0;
    match end {
        End::Acknowledged => {
            assert!(!was_hit, "{fault:?} was not reported");
            totals.acknowledged += 1;
            possible.clear();
            possible.insert(at_cut.clone());
        }
        End::Failed => {
            assert!(was_hit, "a save failed for no reason");
            totals.failed += 1;
            // The sync that failed may have been the one that makes the name durable.
            if fault == Some(Fault::SyncError) {
                possible.insert(at_cut.clone());
            }
        }
        End::Unknown => {
            possible.insert(at_cut.clone());
        }
    }
    world.disk().heal();
    if end != End::Unknown && world.one_in(2) {
        return world.settle(|world| drop(world.pump(&mut other)));
    }
    world.crash();
    totals.crashes += 1;
    *main = world.connect();
    let loaded = call(world, main, "DEBUG DIGEST");
    assert!(
        possible.contains(&loaded),
        "{loaded} is neither the last snapshot nor the new one: {end:?}, {fault:?}"
    );
    if end == End::Unknown && !before.contains(&at_cut) {
        if loaded == at_cut { totals.kept_new += 1 } else { totals.kept_old += 1 }
    }
    possible.clear();
    possible.insert(loaded);
}

#[test]
fn a_crash_leaves_the_last_snapshot_or_the_new_one() {
    let mut totals = Totals::default();
    for_each_seed("crashes of saves", 60, |mut entropy| {
        let mut setup = Setup::any(&mut entropy);
        setup.has_own_format = entropy.one_in(2);
        let mut world = World::new(entropy, &setup);
        let mut main = world.connect();
        let nothing = call(&mut world, &mut main, "DEBUG DIGEST");
        let mut possible = BTreeSet::from([nothing]);
        for _ in 0..ROUNDS {
            round(&mut world, &mut main, &mut possible, &mut totals);
        }
        world.settle(|_| {});
    });
    println!("{totals:?}");
    let Totals { acknowledged, failed, crashes, kept_old, kept_new } = totals;
    assert!([acknowledged, failed, crashes, kept_old, kept_new].iter().all(|count| *count > 0));
}
