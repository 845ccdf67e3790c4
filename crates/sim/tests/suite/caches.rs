//! Clients that cache what they read (`CLIENT TRACKING`): when all is quiet, each cached value matches the store. An old
//! value that arrived after its invalidation would stay in the cache for ever.

use std::collections::{BTreeMap, VecDeque};

use resp::Value;
use sim::{Client, Request, Setup, World, for_each_seed, request};

const KEYS: usize = 6;
/// Reads per world.
const READS: usize = 300;
/// Most requests that a client has in progress.
const PIPELINE: usize = 4;
const SCRIPT: &str = "return redis.call('GET', KEYS[1])";

fn key(number: usize) -> String {
    format!("key:{number}")
}

/// A client that caches what it reads.
struct Cache {
    client: Client,
    /// Keys of reads without a reply.
    asked: VecDeque<usize>,
    held: BTreeMap<String, Value>,
    told: usize,
}

impl Cache {
    fn new(world: &mut World, options: &[&str]) -> Cache {
        let mut client = world.connect();
        world.call(&mut client, &request("HELLO", ["3"]));
        let tracking = world.call(&mut client, &request("CLIENT", [&["TRACKING", "ON"], options].concat()));
        assert_eq!(tracking, Value::Simple(b"OK".to_vec()));
        Cache { client, asked: VecDeque::new(), held: BTreeMap::new(), told: 0 }
    }

    fn ask(&mut self, world: &mut World) {
        let number = world.below(KEYS);
        let words = match world.below(3) {
            0 => request("EVAL", [SCRIPT, "1", &key(number)]),
            _ => request("GET", [key(number)]),
        };
        self.client.send(&words);
        self.asked.push_back(number);
    }

    fn pump(&mut self, world: &World) {
        for value in world.pump(&mut self.client) {
            match value {
                Value::Push(items) => {
                    self.told += 1;
                    match &items[1] {
                        Value::Array(keys) => keys.iter().for_each(|key| self.forget(key)),
                        Value::Null => self.held.clear(),
                        other => panic!("told of {other}"),
                    }
                }
                reply => {
                    let number = self.asked.pop_front().expect("a reply belongs to a read");
                    self.held.insert(key(number), reply);
                }
            }
        }
    }

    fn forget(&mut self, key: &Value) {
        let Value::Bulk(key) = key else { panic!("told of the key {key}") };
        self.held.remove(&*String::from_utf8_lossy(key));
    }
}

fn change(world: &mut World) -> Request {
    let (one, other) = (key(world.below(KEYS)), key(world.below(KEYS)));
    match world.below(20) {
        0 => request("FLUSHALL", [""; 0]),
        1..4 => request("MSET", [&one[..], "1", &other, "2"]),
        4..7 => request("RENAME", [&one, &other]),
        7..10 => request("DEL", [&one]),
        10 => request("EVAL", ["redis.call('INCR', KEYS[1]) return redis.call('INCR', KEYS[1])", "1", &one]),
        _ => request("INCR", [&one]),
    }
}

#[test]
fn no_cache_holds_what_is_old() {
    let (mut told, mut delegated) = (0, 0);
    for_each_seed("caches", 60, |mut entropy| {
        let setup = Setup::any(&mut entropy);
        let mut world = World::new(entropy, &setup);
        world.stop_cuts();
        let modes: [&[&str]; 3] = [&[], &[], &["BCAST", "PREFIX", "key:"]];
        let mut caches: Vec<Cache> = modes.iter().map(|options| Cache::new(&mut world, options)).collect();
        let mut writers: Vec<Client> = (0..3).map(|_| world.connect()).collect();
        let mut reads = 0;
        while reads < READS || caches.iter().any(|cache| !cache.asked.is_empty()) {
            world.step();
            for cache in &mut caches {
                cache.pump(&world);
                if reads < READS && cache.asked.len() < PIPELINE && world.one_in(4) {
                    cache.ask(&mut world);
                    reads += 1;
                }
            }
            for writer in &mut writers {
                world.pump(writer);
                if reads < READS && writer.unanswered() < PIPELINE && world.one_in(8) {
                    writer.send(&change(&mut world));
                }
            }
        }
        world.settle(|world| {
            caches.iter_mut().for_each(|cache| cache.pump(world));
            writers.iter_mut().for_each(|writer| drop(world.pump(writer)));
        });
        let mut observer = world.connect();
        for cache in &caches {
            for (key, held) in &cache.held {
                let stored = world.call(&mut observer, &request("GET", [key]));
                let same = held == &stored
                    || matches!((held, &stored), (Value::Null, Value::Null | Value::NullArray));
                assert!(same, "{setup:?}: {key} is {stored}, and held as {held}");
            }
            told += cache.told;
        }
        delegated += world.info(&mut observer)["tx_delegated"];
    });
    println!("{told} times told, {delegated} commands delegated");
    assert!(sim::are_seeds_chosen() || told > 1000 && delegated > 0, "caches were told little");
}
