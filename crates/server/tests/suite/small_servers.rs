//! Small servers on large machines: threads, shards and databases that are not in use take next to nothing, in memory
//! and on the disk.

use blackbox::{Client, Scratch, Server, check, eventually};
use resp::Value;

const MB: u64 = 1_000_000;
const MIB: u64 = 1 << 20;
/// The most bytes that an empty server may count.
const EMPTY_BYTES_MAX: u64 = 2 * MB;

fn used(client: &mut Client) -> u64 {
    client.info("memory", "used_memory").parse().expect("a number")
}

#[test]
fn an_empty_server_counts_little_with_any_number_of_threads() {
    for io in ["io_uring", "epoll"] {
        for threads in [1, 2, 32, 64] {
            let io = format!("--io={io}");
            let Ok(server) = Server::darter(&[&format!("--proactor-threads={threads}"), &io]) else {
                continue;
            };
            let used = used(&mut server.client());
            assert!(used < EMPTY_BYTES_MAX, "{used} bytes with {threads} threads and {io}");
        }
    }
}

#[test]
fn many_threads_leave_a_small_maxmemory_to_the_data() {
    let server = Server::darter(&["--proactor-threads=64", "--maxmemory=8mb"]).expect("it starts");
    let mut client = server.client();
    let value = "x".repeat(1_000);
    let taken = (0..).find(|number| {
        let reply = client.call(&format!("SET key:{number} {value}"));
        !matches!(reply, Value::Simple(_))
    });
    assert!(taken > Some(3_000), "{taken:?} values of 1,000 bytes fit into 8 MB");
}

/// How many values of 4,000 bytes a server takes before it refuses or evicts.
fn filled(server: &Server) -> u64 {
    let mut client = server.client();
    let value = "x".repeat(4_000);
    let evicted = |client: &mut Client| client.info("stats", "evicted_keys") != "0";
    let takes = |client: &mut Client, number: u64| {
        let reply = client.call(&format!("SET key:{number} {value}"));
        matches!(reply, Value::Simple(_)) && (!number.is_multiple_of(50) || !evicted(client))
    };
    (0..).find(|number| !takes(&mut client, *number)).expect("there is a limit")
}

#[test]
fn as_many_keys_fit_into_maxmemory_as_into_that_of_redis() {
    for policy in ["noeviction", "allkeys-lru"] {
        let limits = ["--maxmemory", "64mb", "--maxmemory-policy", policy];
        let Some(redis) = blackbox::replication::redis(&limits) else { return };
        let expected = filled(&redis);
        let server =
            Server::darter(&[&limits[..], &["--proactor-threads", "64"]].concat()).expect("it starts");
        let found = filled(&server);
        assert!(found >= expected, "{found} keys, and {expected} in redis-server, under {policy}");
    }
}

#[test]
fn a_thread_gives_back_what_it_needed_for_its_clients() {
    let server = Server::darter(&["--proactor-threads=8", "--threads-elastic=no"]).expect("it starts");
    let mut client = server.client();
    let before = used(&mut client);
    let value = "x".repeat(300_000);
    let mut clients: Vec<Client> = (0..32).map(|_| server.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        check(client, &format!("SET key:{number} {value}"), "OK");
    }
    assert!(used(&mut client) > before + 32 * 300_000);
    drop(clients);
    check(&mut client, "FLUSHALL", "OK");
    eventually("the memory of eight threads", || used(&mut client) < before + 2 * MIB);
}

/// The space that the journal in a server's folder takes on the disk.
fn disk_bytes(folder: &str) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let journal = std::path::Path::new(folder).join("appendonlydir");
    let files = std::fs::read_dir(journal).expect("it can be read").flatten();
    files.map(|file| file.metadata().map_or(0, |found| found.blocks() * 512)).sum()
}

#[test]
fn an_empty_journal_takes_little_and_grows_with_what_is_written() {
    for policy in ["everysec", "always"] {
        let scratch = Scratch::new("small_journal");
        let folder = scratch.path("");
        let options = ["--dir", &folder, "--appendonly", "yes", "--appendfsync", policy];
        let start = || Server::darter(&options).expect("it starts");
        let server = start();
        check(&mut server.client(), "SET key value", "OK");
        assert!(disk_bytes(&folder) <= 8 * MIB, "{}", disk_bytes(&folder));
        let value = "x".repeat(100_000);
        let mut client = server.client();
        for number in 0..300 {
            check(&mut client, &format!("SET key:{number} {value}"), "OK");
        }
        let written = disk_bytes(&folder);
        assert!((30 * MB..6 * 30 * MB).contains(&written), "{written} bytes for 30 MB");
        eventually("all is written", || client.info("persistence", "aof_buffer_length") == "0");
        drop(client);
        drop(server);
        let server = start();
        check(&mut server.client(), "DBSIZE", "(integer) 301");
        assert!(disk_bytes(&folder) < 6 * 30 * MB);
    }
}
