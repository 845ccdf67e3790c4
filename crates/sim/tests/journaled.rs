//! The journal in the world: threads go on while it is written, nobody waits for longer than the disk takes, and what was
//! written is there when the server starts again.

use sim::{Client, Journal, Setup, Sync, World, for_each_seed, request};

const SYNCS: [Sync; 3] = [Sync::Always, Sync::EverySecond, Sync::Never];

/// A world with a journal that is nowhere slow: threads, network and disk do all at once.
fn quick(entropy: &mut proactor::Entropy, sync: Sync) -> Setup {
    let mut setup = Setup::any(entropy);
    setup.journal = Some(Journal::any(entropy, sync));
    setup.net.latency_ns_max = 1;
    setup.stalls_take_time = false;
    setup
}

fn digest(world: &mut World, client: &mut Client) -> String {
    world.call(client, &request("DEBUG", ["DIGEST"])).to_string()
}

/// A reply that waits for the disk leaves when the disk is done: nothing else wakes its thread so soon.
#[test]
fn a_reply_waits_for_the_disk_and_nothing_else() {
    for_each_seed("replies of a journal", 30, |mut entropy| {
        let sync = SYNCS[entropy.below(3) as usize];
        let setup = quick(&mut entropy, sync);
        let mut world = World::new(entropy, &setup);
        let mut client = world.connect();
        for number in 0..30 {
            let sent_ns = world.now_ns();
            let args = [format!("key:{number}"), number.to_string()];
            world.call(&mut client, &request(["SET", "RPUSH"][number % 2], args));
            let took_us = (world.now_ns() - sent_ns) / 1000;
            assert!(took_us < 5_000, "{took_us} us");
        }
    });
}

#[test]
fn what_was_written_is_there_after_a_crash() {
    let mut rewrites = 0;
    for_each_seed("restarts of a journal", 30, |mut entropy| {
        let sync = SYNCS[entropy.below(2) as usize];
        let mut setup = Setup::any(&mut entropy);
        setup.journal = Some(Journal::any(&mut entropy, sync));
        let mut world = World::new(entropy, &setup);
        for _ in 0..3 {
            let mut client = world.connect();
            for _ in 0..30 {
                let (key, value) = (world.below(20).to_string(), world.below(1000).to_string());
                world.call(&mut client, &request("RPUSH", [format!("list:{key}"), value.clone()]));
                world.call(&mut client, &request("SET", [format!("string:{key}"), value]));
            }
            let before = digest(&mut world, &mut client);
            world.settle(|_| {});
            rewrites += world.info(&mut client)["aof_rewrites"];
            world.crash();
            let mut client = world.connect();
            assert_eq!(digest(&mut world, &mut client), before, "{setup:?}");
        }
    });
    println!("{rewrites} checkpoints");
}

/// A server that had snapshots only is to keep a journal: whatever happens at that start, it has what the snapshot has, and from then on
/// what was written.
#[test]
fn a_journal_takes_the_place_of_a_snapshot() {
    let mut deaths_in_start = 0;
    for_each_seed("first bases", 40, |mut entropy| {
        let mut setup = Setup::any(&mut entropy);
        setup.has_own_format = entropy.one_in(2);
        let journal = Journal::any(&mut entropy, Sync::Always);
        let mut world = World::new(entropy, &setup);
        let mut client = world.connect();
        for number in 0..40 {
            world.call(&mut client, &request("RPUSH", [format!("list:{}", number % 7), number.to_string()]));
        }
        world.call(&mut client, &request("SAVE", [""; 0]));
        let saved = digest(&mut world, &mut client);
        world.change_setup(|setup| (setup.journal, setup.dies_in_start_one_in) = (Some(journal), 2));
        world.crash();
        let mut client = world.connect();
        assert_eq!(digest(&mut world, &mut client), saved, "{setup:?}");
        world.call(&mut client, &request("SET", ["later", "1"]));
        let later = digest(&mut world, &mut client);
        world.crash();
        let mut client = world.connect();
        assert_eq!(digest(&mut world, &mut client), later, "{setup:?}");
        deaths_in_start += world.deaths_in_start;
    });
    println!("{deaths_in_start} crashes while it started");
}
