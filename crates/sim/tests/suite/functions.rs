//! Libraries that change while several threads call their functions: a call sees the last acknowledged library or one that
//! was being loaded, and a transaction sees only one.
//!
//! The library's function returns the version of its code, and that of a key that is set in the same transaction.

use resp::Value;
use sim::{Client, Request, Setup, World, for_each_seed, request};

const VERSIONS: usize = 12;

/// A library whose function returns the version of its code, and the value of the key.
fn library(version: usize) -> String {
    format!(
        "#!lua name=lib\nredis.register_function('version', function(keys, args) return {{{version}, redis.call('GET', args[1])}} end)"
    )
}

/// Loads the library of this version, and sets the key to it.
fn load(version: usize) -> Vec<Request> {
    vec![
        request("MULTI", [""; 0]),
        request("FUNCTION", ["LOAD", "REPLACE", &library(version)]),
        request("SET", ["key", &version.to_string()]),
        request("EXEC", [""; 0]),
    ]
}

/// A call with or without a declared key, alone or several in a transaction.
fn calls(world: &mut World) -> Vec<Request> {
    let call = if world.one_in(2) {
        request("FCALL", ["version", "0", "key"])
    } else {
        request("FCALL", ["version", "1", "key", "key"])
    };
    if world.one_in(2) {
        return vec![call];
    }
    let mut requests = vec![request("MULTI", [""; 0])];
    requests.extend((0..1 + world.below(3)).map(|_| call.clone()));
    requests.push(request("EXEC", [""; 0]));
    requests
}

/// The version that a call has seen, which must be the same for the code and the key.
fn version(reply: &Value) -> usize {
    let Value::Array(parts) = reply else { panic!("{reply}") };
    let [Value::Int(of_code), Value::Bulk(of_key)] = &parts[..] else { panic!("{reply}") };
    assert_eq!(of_code.to_string().as_bytes(), of_key, "code and key belong together");
    *of_code as usize
}

struct Caller {
    client: Client,
    /// Number of replies before the one with the versions.
    before: usize,
    /// The version that had been acknowledged when it asked.
    least: usize,
    is_waiting: bool,
}

impl Caller {
    fn act(&mut self, world: &mut World, acknowledged: usize, sent: usize, seen: &mut usize) {
        for reply in world.pump(&mut self.client) {
            if self.before > 0 {
                self.before -= 1;
                continue;
            }
            self.is_waiting = false;
            let versions: Vec<usize> = match &reply {
                Value::Array(items) if matches!(items[0], Value::Array(_)) => {
                    items.iter().map(version).collect()
                }
                _ => vec![version(&reply)],
            };
            *seen += versions.len();
            assert!(versions.iter().all(|one| *one == versions[0]), "{versions:?}");
            assert!((self.least..=sent).contains(&versions[0]), "{versions:?}: {} to {sent}", self.least);
        }
        if !self.is_waiting && world.one_in(3) {
            let requests = calls(world);
            (self.before, self.least, self.is_waiting) = (requests.len() - 1, acknowledged, true);
            requests.iter().for_each(|request| self.client.send(request));
        }
    }
}

#[test]
fn a_call_sees_the_library_of_its_time() {
    for_each_seed("functions", 40, |mut entropy| {
        let mut setup = Setup::any(&mut entropy);
        setup.threads += 1;
        let mut world = World::new(entropy, &setup);
        let mut loader = world.connect();
        let mut callers: Vec<Caller> = (0..4)
            .map(|_| Caller { client: world.connect(), before: 0, least: 0, is_waiting: false })
            .collect();
        for request in load(0) {
            world.call(&mut loader, &request);
        }
        let (mut sent, mut acknowledged, mut replies, mut seen) = (0, 0, 0, 0);
        while acknowledged < VERSIONS || seen < 4 * VERSIONS {
            world.step();
            replies += world.pump(&mut loader).len();
            acknowledged = if replies == 4 * sent { sent } else { acknowledged };
            if acknowledged == sent && sent < VERSIONS && world.one_in(5) {
                sent += 1;
                load(sent).iter().for_each(|request| loader.send(request));
            }
            for caller in &mut callers {
                caller.act(&mut world, acknowledged, sent, &mut seen);
            }
        }
    });
}
