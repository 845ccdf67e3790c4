//! The journal in the world: threads continue while it is written, no reply waits longer than the disk takes, and
//! written changes are there when the server starts again.

use proactor::Fault;
use resp::Value;
use sim::{Client, Journal, Setup, Sync, World, for_each_seed, request};

const SYNCS: [Sync; 3] = [Sync::Always, Sync::EverySecond, Sync::Never];

/// A world with a journal in which nothing is slow: threads, network and disk act at once.
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

/// A reply that waits for the disk is sent when the disk is done: nothing else would wake its thread so soon. The values
/// fill segments, so commands also wait until the disk thread has prepared the next one.
#[test]
fn a_reply_waits_for_the_disk_and_nothing_else() {
    for_each_seed("replies of a journal", 300, |mut entropy| {
        let sync = SYNCS[entropy.below(3) as usize];
        let setup = quick(&mut entropy, sync);
        let mut world = World::new(entropy, &setup);
        let mut client = world.connect();
        for number in 0..30 {
            let sent_ns = world.now_ns();
            let args = [format!("key:{number}"), "x".repeat(1 + world.below(400))];
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

/// The first start with a journal of a server that only had snapshots: whatever happens at that start, it has the data of the snapshot,
/// and from then on what is written.
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

/// Lets some time pass, during which what hangs continues to hang. Returns the replies that arrive for `client`.
fn wait(world: &mut World, client: &mut Client) -> Vec<Value> {
    let end_ns = world.now_ns() + 1_000_000_000;
    let mut replies = world.pump(client);
    while world.now_ns() < end_ns {
        world.step();
        replies.extend(world.pump(client));
    }
    replies
}

/// Sends a request of a new client, and lets some time pass. Returns the reply, if there is one by then.
fn soon(world: &mut World, line: &str) -> Option<String> {
    let mut client = world.connect();
    let mut words = line.split(' ');
    let name = words.next().expect("there is a word");
    client.send(&request(name, words));
    wait(world, &mut client).pop().map(|reply| reply.to_string())
}

/// A world in which files are only written when a test causes it.
fn steady(entropy: &mut proactor::Entropy, sync: Sync) -> Setup {
    let mut setup = quick(entropy, sync);
    let journal = setup.journal.expect("it has a journal");
    setup.journal = Some(Journal { rewrite_percentage: 0, ..journal });
    setup
}

/// A world in which a client has written something, and the disk hangs on it.
fn hanging(mut entropy: proactor::Entropy) -> (World, Client) {
    let setup = steady(&mut entropy, Sync::Always);
    let mut world = World::new(entropy, &setup);
    let mut writer = world.connect();
    world.call(&mut writer, &request("SET", ["a", "1"]));
    world.settle(|_| {});
    world.disk().plan(0, Fault::Hang(20_000_000_000));
    writer.send(&request("SET", ["b", "1"]));
    assert_eq!(wait(&mut world, &mut writer), [], "what was written waits");
    (world, writer)
}

/// The reply that a checkpoint or a snapshot has begun reveals nothing of the data.
#[test]
fn who_begins_a_checkpoint_or_a_snapshot_does_not_wait_for_the_disk() {
    for_each_seed("begun while the disk hangs", 300, |entropy| {
        let (mut world, _writer) = hanging(entropy);
        assert_eq!(soon(&mut world, "GET b"), None);
        let begins = ["BGREWRITEAOF", "BGSAVE"][world.below(2)];
        let answer = soon(&mut world, begins).unwrap_or_else(|| panic!("{begins}"));
        assert!(answer.ends_with("started"), "{answer}");
    });
}

/// In a transaction, the other replies do reveal data, and all are sent together.
#[test]
fn a_transaction_that_begins_a_snapshot_waits_for_the_disk() {
    for_each_seed("begun in a transaction", 15, |entropy| {
        let (mut world, _writer) = hanging(entropy);
        let mut client = world.connect();
        for line in ["MULTI", "FLUSHALL", "BGSAVE", "EXEC"] {
            let words: Vec<&str> = line.split(' ').collect();
            client.send(&request(words[0], words[1..].iter().copied()));
        }
        let replies = wait(&mut world, &mut client);
        assert!(replies.len() < 4, "{replies:?}");
    });
}

/// DBSIZE enters no shard, but its reply is held all the same.
#[test]
fn what_a_count_of_all_keys_tells_is_durable() {
    for_each_seed("counted while the disk hangs", 15, |entropy| {
        let (mut world, _writer) = hanging(entropy);
        assert_eq!(soon(&mut world, "DBSIZE"), None);
    });
}

/// A client that wrote nothing does not wait for the writes of others. One that wrote something, in whatever way, waits for that.
#[test]
fn waitaof_waits_for_what_its_client_wrote() {
    type Lines = &'static [&'static [&'static str]];
    const BLOCKED: Lines = &[&["BLPOP", "list", "0"]];
    const WAYS: [(Lines, Lines); 4] = [
        (&[], &[&["SET", "b", "1"]]),
        (&[], &[&["EVAL", "return redis.call('SET', KEYS[1], 1)", "1", "b"]]),
        (&[], &[&["MULTI"], &["SET", "b", "1"], &["SET", "c", "1"], &["EXEC"]]),
        (BLOCKED, &[&["RPUSH", "list", "1"]]),
    ];
    for_each_seed("asked while the disk hangs", 40, |mut entropy| {
        let (first, then) = WAYS[entropy.below(4) as usize];
        let setup = steady(&mut entropy, Sync::EverySecond);
        let mut world = World::new(entropy, &setup);
        world.settle(|_| {});
        world.disk().plan(0, Fault::Hang(20_000_000_000));
        let [mut writer, mut popper] = [(); 2].map(|()| world.connect());
        let send = |world: &mut World, client: &mut Client, lines: &[&[&str]]| {
            lines.iter().for_each(|words| client.send(&request(words[0], words[1..].iter().copied())));
            wait(world, client).pop().map(|reply| reply.to_string())
        };
        let waits: &[&[&str]] = &[&["WAITAOF", "1", "0", "0"]];
        assert_eq!(send(&mut world, &mut popper, first), None);
        assert!(send(&mut world, &mut writer, then).is_some());
        assert_eq!(send(&mut world, &mut writer, waits), None);
        let answer = send(&mut world, &mut popper, waits);
        let kept = "1) (integer) 1\n2) (integer) 0".to_owned();
        if first.is_empty() {
            assert_eq!(answer, Some(kept));
        } else {
            assert_eq!(answer.as_deref(), Some("1) \"list\"\n2) \"1\""), "it has what it popped");
        }
    });
}
