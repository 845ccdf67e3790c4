//! Memory at its limit, with threads that are interrupted while they hold shards: every request gets a reply, the limit holds
//! within the bounds below, and what a policy must not evict is there at the end.
//!
//! The memory is the whole process', including the world and its clients. So this file has only this test, which runs one world at
//! a time.

use std::collections::BTreeSet;

use resp::Value;
use sim::{Client, Entry, Request, Setup, World, for_each_seed, request};

/// Requests per world.
const REQUESTS: usize = 3000;
const CLIENTS: usize = 6;
/// Most requests that a client has in progress.
const PIPELINE: usize = 4;
const VALUE_BYTES: usize = 3000;
/// Memory that may be used in addition to that before the first request: for buffers, what is in transit, and some of the values.
const ROOM_BYTES: u64 = 800_000;
/// Memory that may be used beyond the limit: for what is in transit, as requests and as values, and for the world itself. The
/// requests write more than ten times as much.
const BEYOND_BYTES_MAX: u64 = 600_000;

const POLICIES: [&str; 4] = ["volatile-lru", "volatile-ttl", "allkeys-random", "allkeys-lfu"];

/// Writes a key that may be evicted or (`k…`) one that only some policies may evict.
fn write(world: &mut World, number: usize) -> (Option<String>, Request) {
    let value = "x".repeat(VALUE_BYTES);
    let key = format!("v{number}");
    match world.below(12) {
        0 => (Some(format!("k{number}")), request("SET", [&format!("k{number}"), "kept"])),
        1 => (
            None,
            request("EVAL", ["return redis.call('SET', ARGV[1], ARGV[2], 'EX', 999)", "0", &key, &value]),
        ),
        2 => (None, request("MSET", [&format!("k{number}"), "kept", &format!("k{}", number + 1), "kept"])),
        // The world remembers every reply, so these are short.
        3 => (None, request("STRLEN", [&format!("v{}", world.below(number + 1))])),
        _ => (None, request("SET", [&key, &value, "EX", &(1000 + world.below(1000)).to_string()])),
    }
}

struct Writer {
    client: Client,
    /// The key that each open request creates if it succeeds.
    under_way: std::collections::VecDeque<Option<String>>,
}

/// Reads the replies that have arrived.
fn read(world: &World, writer: &mut Writer, kept: &mut BTreeSet<String>, refused: &mut usize) {
    for reply in world.pump(&mut writer.client) {
        let key = writer.under_way.pop_front().unwrap_or_else(|| panic!("{reply} has no request"));
        match reply {
            Value::Error(text) => {
                assert!(text.starts_with(b"OOM "), "{}", text.escape_ascii());
                *refused += 1;
            }
            _ => kept.extend(key),
        }
    }
}

#[test]
fn the_limit_holds_and_everybody_is_answered() {
    for_each_seed("memory_limit", 24, |mut entropy| {
        let mut setup = Setup::any(&mut entropy);
        let entry = [Entry::Roam, Entry::Roam, Entry::HomeOneHop][entropy.below(3) as usize];
        setup = setup.with(1 + entropy.below(4), [1, 4, 16][entropy.below(3) as usize], entry);
        setup.net.latency_ns_max = 1;
        setup.net.window_bytes = 64 * 1024;
        let mut world = World::new(entropy, &setup);
        let policy = POLICIES[world.below(POLICIES.len())];
        let mut client = world.connect();
        let mut writers: Vec<Writer> =
            (0..CLIENTS).map(|_| Writer { client: world.connect(), under_way: Default::default() }).collect();
        let used = world.server().used_bytes();
        let limit = (used + ROOM_BYTES).to_string();
        let set = request("CONFIG", ["SET", "maxmemory-policy", policy, "maxmemory", &limit]);
        assert_eq!(world.call(&mut client, &set), Value::Simple(b"OK".to_vec()));
        let (mut kept, mut refused, mut most, mut sent) = (BTreeSet::new(), 0, 0, 0);
        while sent < REQUESTS || writers.iter().any(|writer| !writer.under_way.is_empty()) {
            for writer in &mut writers {
                read(&world, writer, &mut kept, &mut refused);
                while sent < REQUESTS && writer.under_way.len() < PIPELINE {
                    let (key, request) = write(&mut world, sent);
                    writer.client.send(&request);
                    writer.under_way.push_back(key);
                    sent += 1;
                }
            }
            world.step();
            most = most.max(world.server().used_bytes());
        }
        let beyond = most.saturating_sub(used + ROOM_BYTES);
        assert!(beyond < BEYOND_BYTES_MAX, "{beyond} beyond with {policy} in {setup:?}");
        world.settle(|_| {});
        let info = world.info(&mut client);
        assert!(info["evicted_keys"] > 300, "{} evicted with {policy}", info["evicted_keys"]);
        assert!(refused < REQUESTS / 2, "{refused} refused with {policy} in {setup:?}");
        if policy.starts_with("volatile") {
            for key in &kept {
                let there = world.call(&mut client, &request("EXISTS", [key]));
                assert_eq!(there, Value::Int(1), "{key} is gone with {policy}");
            }
        }
    });
}
