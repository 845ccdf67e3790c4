//! How well a command on all shards gets through a stream of commands on one shard each.
//!
//! The figures are printed: tries and events for an MSET on every shard, while other clients keep every shard busy from
//! every thread. The test asserts a bound on the tries, far above what is seen: a command that has failed often enough
//! gets the patience token, and succeeds with it.

use resp::Value;
use shard::PATIENCE_AFTER;
use sim::{Client, ENTRIES, Setup, World, for_each_seed, request};

/// Commands on all shards per world.
const WIDE_COMMANDS: usize = 30;
/// Commands that each of the other clients has in progress.
const PIPELINE: usize = 8;
/// More tries than this are starvation.
const TRIES_MAX: u64 = PATIENCE_AFTER as u64 + 4;

#[derive(Default)]
struct Figures {
    commands: u64,
    tries: u64,
    tries_max: u64,
    events: u64,
    events_max: u64,
}

/// One key for each shard.
fn key_of_each_shard(world: &World) -> Vec<String> {
    let keys: Vec<String> = (0..2_000).map(|number| format!("key:{number}")).collect();
    let on = |shard| keys.iter().find(|key| world.server().shard_of(key.as_bytes()) == shard).cloned();
    (0..world.server().shard_count()).map(|shard| on(shard).expect("there are keys enough")).collect()
}

/// Keeps the pipelines full of commands on one shard each.
fn keep_busy(world: &mut World, others: &mut [Client], keys: &[String]) {
    for other in others {
        world.pump(other);
        while other.unanswered() < PIPELINE {
            other.send(&request("INCR", [&keys[world.below(keys.len())]]));
        }
    }
}

#[test]
fn wide_commands_get_through() {
    let mut figures = Figures::default();
    for_each_seed("starvation", 20, |mut entropy| {
        let mut setup = Setup::any(&mut entropy);
        let entry = ENTRIES[entropy.below(3) as usize];
        setup = setup.with(3 + entropy.below(2), [2, 16][entropy.below(2) as usize], entry);
        setup.interrupt_one_in = [1, 2, 5][entropy.below(3) as usize];
        setup.net.latency_ns_max = 1;
        let mut world = World::new(entropy, &setup);
        let keys = key_of_each_shard(&world);
        // More clients than a thread drains at a time; in some worlds they meet on few shards.
        let mut others: Vec<Client> = (0..24).map(|_| world.connect()).collect();
        let mut client = world.connect();
        let words = keys.iter().flat_map(|key| [key.clone(), "0".to_owned()]);
        let wide = request("MSET", words);
        for _ in 0..WIDE_COMMANDS {
            let (retries, event) = (world.server().retries(), world.event);
            client.send(&wide);
            let reply = loop {
                if let Some(reply) = world.pump(&mut client).pop() {
                    break reply;
                }
                keep_busy(&mut world, &mut others, &keys);
                world.step();
            };
            assert_eq!(reply, Value::Simple(b"OK".to_vec()));
            let (tries, events) = (1 + world.server().retries() - retries, world.event - event);
            assert!(tries <= TRIES_MAX, "{tries} tries, {events} events in {setup:?}");
            figures.commands += 1;
            figures.tries += tries;
            figures.tries_max = figures.tries_max.max(tries);
            figures.events += events;
            figures.events_max = figures.events_max.max(events);
        }
    });
    let Figures { commands, tries, tries_max, events, events_max } = figures;
    println!(
        "{commands} commands on 2 or 16 shards: {:.2} tries, {tries_max} at most",
        tries as f64 / commands as f64
    );
    println!("events of the world for one: {}, {events_max} at most", events / commands);
}
