//! Back-pressure: a log thread hangs in a write, and the changes acknowledged meanwhile are limited. The threads that
//! commit hold commands back, since the log thread cannot; reads are served.

use proactor::{Entropy, Fault};
use sim::{Client, Death, Journal, Setup, Sync, World, for_each_seed, request};

/// How long the disk hangs: longer than a test looks.
const HANG_NS: u64 = 60_000_000_000;
/// `journal-pending-ms`
const AGE_MS_MAX: u64 = 100;
/// How long a request may be on its way, and a turn may take.
const SLACK_MS: u64 = 20;
/// The bytes that each thread commits between two looks at the amount that waits.
const LOOK_BYTES: usize = 256 * 1024;

/// A world whose log has written something, and hangs in its next write.
fn hanging(mut entropy: Entropy, sync: Sync) -> (World, u64) {
    let mut setup = Setup::any(&mut entropy);
    setup.net.latency_ns_max = 1;
    setup.stalls_take_time = false;
    let journal = Journal::any(&mut entropy, sync);
    setup.journal = Some(Journal { rewrite_percentage: 0, pending_bytes_max: 1 << 20, ..journal });
    let threads = setup.threads;
    let mut world = World::new(entropy, &setup);
    let mut client = world.connect();
    world.call(&mut client, &request("RPUSH", ["list", "0"]));
    world.run_for(3_000, |_| {});
    world.disk().plan(0, Fault::Hang(HANG_NS));
    (world, threads)
}

/// Sends a request whenever the last one was answered, for a given time. Returns how many were answered, and when the
/// last one was.
fn push(world: &mut World, clients: &mut [Client], ms: u64) -> (usize, u64) {
    let (mut count, mut last_ns) = (0, world.now_ns());
    world.run_to(last_ns + ms * 1_000_000, |world| {
        for client in &mut *clients {
            let answered = world.pump(client).len();
            if answered > 0 {
                (count, last_ns) = (count + answered, world.now_ns());
            }
            if client.unanswered() == 0 {
                client.send(&request("RPUSH", ["list", "1"]));
            }
        }
    });
    (count, last_ns)
}

/// A kill loses only changes acknowledged within a tenth of a second, however long the write has hung.
#[test]
fn a_write_that_hangs_stops_what_would_be_lost() {
    for_each_seed("a write that hangs", 15, |mut entropy| {
        let sync = [Sync::EverySecond, Sync::Never][entropy.below(2) as usize];
        let (mut world, _) = hanging(entropy, sync);
        let mut clients = [world.connect(), world.connect(), world.connect()];
        let began_ns = world.now_ns();
        let end_ns = began_ns + 1_000_000_000;
        let (mut count, mut last_ns) = (0, 0);
        // The world waits for what hangs, so it is not run to a moment.
        while world.now_ns() < end_ns {
            for client in &mut clients {
                let answered = world.pump(client).len();
                if answered > 0 {
                    (count, last_ns) = (count + answered, world.now_ns());
                }
                if client.unanswered() == 0 {
                    client.send(&request("RPUSH", ["list", "1"]));
                }
            }
            world.step();
        }
        let age_ms = last_ns.saturating_sub(began_ns) / 1_000_000;
        assert!(
            count > 0 && age_ms <= AGE_MS_MAX + SLACK_MS,
            "{count} are acknowledged, the last after {age_ms} ms"
        );
        let mut reader = world.connect();
        reader.send(&request("LLEN", ["list"]));
        let end_ns = world.now_ns() + 100_000_000;
        let mut replies = Vec::new();
        while world.now_ns() < end_ns {
            world.step();
            replies.extend(world.pump(&mut reader));
        }
        assert_eq!(replies.len(), 1, "reads are served");
        world.restart(Death::Process);
        let mut client = world.connect();
        assert_eq!(world.call(&mut client, &request("LLEN", ["list"])).to_string(), "(integer) 1");
        let (count, _) = push(&mut world, &mut [client], 300);
        assert!(count > 100, "{count}: nothing is held back any more");
    });
}

/// A client that continues to send finds the limit under every policy, even where replies wait for the disk anyway.
#[test]
fn a_write_that_hangs_bounds_what_waits() {
    for_each_seed("what waits for a write that hangs", 12, |mut entropy| {
        let sync = [Sync::Always, Sync::EverySecond, Sync::Never][entropy.below(3) as usize];
        let (mut world, threads) = hanging(entropy, sync);
        let mut clients = [world.connect(), world.connect()];
        let value = "v".repeat(20_000);
        for client in &mut clients {
            (0..200).for_each(|_| client.send(&request("RPUSH", ["large", &value])));
        }
        let end_ns = world.now_ns() + 2_000_000_000;
        while world.now_ns() < end_ns {
            clients.iter_mut().for_each(|client| drop(world.pump(client)));
            world.step();
        }
        let mut admin = world.connect();
        admin.send(&request("INFO", ["persistence"]));
        let mut replies = Vec::new();
        while replies.is_empty() {
            world.step();
            replies = world.pump(&mut admin);
        }
        let text = replies[0].to_string();
        let number = |name: &str| -> usize {
            let (_, rest) = text.split_once(&format!("{name}:")).expect("it is there");
            rest.split("\\r\\n").next().and_then(|number| number.trim().parse().ok()).expect("it is a number")
        };
        let (waits, most) = (number("aof_buffer_length"), (1 << 20) + (threads as usize + 1) * LOOK_BYTES);
        assert!(waits > value.len() && waits < most, "{waits} bytes wait, of at most {most}");
        // If clients are not read on because their replies wait, nothing else has to hold them back.
        assert!(number("journal_delayed_writes") > 0 || waits < 1 << 20);
    });
}
