//! A script that cannot get a shard runs again, alone or within EXEC. Its first run must leave no trace.
//!
//! Scripts here publish a unique message, then touch undeclared keys. Every message must arrive once. The EXEC around
//! them changes the database: its commands must run in the same databases again.

use std::collections::BTreeMap;

use resp::Value;
use sim::{Client, Request, Setup, World, for_each_seed, request};

const CALLS: usize = 60;
const CHANNEL: &str = "news";

/// Each call is a different script, so the server does not know yet that it roams.
fn script(number: usize) -> String {
    let reads = "for i = 1, 6 do redis.call('GET', 'busy:' .. i) end";
    format!("redis.call('PUBLISH', '{CHANNEL}', '{number}') {reads} return {number}")
}

/// A transaction that also publishes itself, and reads a key of two databases.
fn transaction(number: usize) -> Vec<Request> {
    let (other, none) = (format!("{number}b"), [""; 0]);
    vec![
        request("MULTI", none),
        request("GET", ["database"]),
        request("PUBLISH", [CHANNEL, &other]),
        request("SELECT", ["1"]),
        request("GET", ["database"]),
        request("EVAL", [&script(number), "0"]),
        request("SELECT", ["0"]),
        request("EXEC", none),
    ]
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

/// Removes the replies of the current call and checks them; false if some are still missing.
fn is_answered(replies: &mut Vec<Value>, count: usize, number: usize) -> bool {
    if replies.len() < count {
        return false;
    }
    match replies.last() {
        Some(Value::Int(answer)) => assert_eq!(*answer, number as i64),
        Some(Value::Array(answers)) => {
            assert_eq!((&answers[0], &answers[3]), (&bulk("zero"), &bulk("one")), "{answers:?}");
        }
        other => panic!("{other:?}"),
    }
    replies.clear();
    true
}

fn make_noise(world: &mut World, noise: &mut [Client]) {
    for client in noise {
        world.pump(client);
        if client.unanswered() < 4 {
            let key = format!("busy:{}", 1 + world.below(6));
            client.send(&request("INCR", [key]));
        }
    }
}

#[test]
fn what_runs_again_is_done_once() {
    for_each_seed("again", 40, |mut entropy| {
        let mut setup = Setup::any(&mut entropy);
        setup.threads += 1;
        let mut world = World::new(entropy, &setup);
        let (mut caller, mut subscriber) = (world.connect(), world.connect());
        for (database, name) in [("1", "one"), ("0", "zero")] {
            world.call(&mut caller, &request("SELECT", [database]));
            world.call(&mut caller, &request("SET", ["database", name]));
        }
        world.call(&mut subscriber, &request("SUBSCRIBE", [CHANNEL]));
        let mut noise: Vec<Client> = (0..4).map(|_| world.connect()).collect();
        let mut heard: BTreeMap<String, usize> = BTreeMap::new();
        let mut expected: Vec<String> = Vec::new();
        for number in 0..CALLS {
            expected.push(number.to_string());
            let requests = if world.one_in(2) {
                expected.push(format!("{number}b"));
                transaction(number)
            } else {
                vec![request("EVAL", [&script(number), "0"])]
            };
            requests.iter().for_each(|request| caller.send(request));
            let mut replies = Vec::new();
            while !is_answered(&mut replies, requests.len(), number) {
                world.step();
                make_noise(&mut world, &mut noise);
                replies.extend(world.pump(&mut caller));
                hear(&mut world, &mut subscriber, &mut heard);
            }
        }
        world.settle(|world| hear(world, &mut subscriber, &mut heard));
        let once: BTreeMap<String, usize> = expected.into_iter().map(|message| (message, 1)).collect();
        assert_eq!(heard, once, "{setup:?}");
    });
}

/// Counts the messages that have arrived.
fn hear(world: &mut World, subscriber: &mut Client, heard: &mut BTreeMap<String, usize>) {
    for reply in world.pump(subscriber) {
        match reply {
            Value::Array(parts) if parts[0] == bulk("message") => {
                let Value::Bulk(message) = &parts[2] else { panic!("{parts:?}") };
                *heard.entry(String::from_utf8_lossy(message).into_owned()).or_default() += 1;
            }
            other => panic!("{other}"),
        }
    }
}
