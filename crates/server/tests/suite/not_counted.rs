//! Memory that does not count against `maxmemory`: the server's own needs, and memory that grows because keys are
//! evicted. Each test fills a server nearly to its limit, and makes such memory grow beyond it. `DARTER_SCALE` makes
//! that more.

use blackbox::replication::{follow, is_up};
use blackbox::{Client, Server, Signal, check, eventually, scale};
use resp::Value;

const KIB: usize = 1024;
/// Keys that must stay, and the size of their values.
const KEYS: usize = 1000;
const VALUE_BYTES: usize = 10 * KIB;
/// The most requests of a client that are not answered.
const PIPELINE: usize = 10;
/// Values that change all the time, and how large they are.
const HOT_BYTES: usize = 100 * KIB;
/// The room below the limit. Input counts, as in Redis: a buffer may be twice as large as what a client has sent,
/// there are three clients, and each of two threads keeps a MiB for the next one. So does the value of each, and as
/// much again as arguments that wait, and as what is replaced but not yet freed.
const ROOM_BYTES: u64 = 3 * (2 * PIPELINE + 3) as u64 * HOT_BYTES as u64 + (2 << 20);

fn number(client: &mut Client, section: &str, field: &str) -> u64 {
    client.info(section, field).parse().expect("a number")
}

fn memory(client: &mut Client, field: &str) -> u64 {
    number(client, "memory", field)
}

/// The bytes that count against `maxmemory`.
fn counted(client: &mut Client) -> u64 {
    let text = blackbox::text(&client.call("INFO memory"));
    let field = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.expect("it is there").parse().expect("a number")
    };
    field("used_memory").saturating_sub(field("mem_not_counted_for_evict"))
}

/// Sends requests in pipelines; how many were not answered with OK.
fn refused(client: &mut Client, requests: impl IntoIterator<Item = [Vec<u8>; 3]>) -> usize {
    let (mut count, mut refused) = (0, 0);
    let mut take = |client: &mut Client, count: &mut usize| {
        let is_ok = |reply: Value| reply.to_string() == "OK";
        refused += (0..std::mem::take(count)).filter(|_| !is_ok(client.receive())).count();
    };
    for [name, key, value] in requests {
        client.send_args(&[&name, &key, &value]);
        count += 1;
        if count == PIPELINE {
            take(client, &mut count);
        }
    }
    take(client, &mut count);
    refused
}

fn set(key: String, bytes: usize) -> [Vec<u8>; 3] {
    [b"SET".to_vec(), key.into_bytes(), vec![b'x'; bytes]]
}

/// Fills a server with keys that must stay, and sets a limit that leaves some room.
fn fill(client: &mut Client) -> u64 {
    let expire = |key: usize| [b"EXPIRE".to_vec(), format!("k{key}").into_bytes(), b"100000".to_vec()];
    assert_eq!(refused(client, (0..KEYS).map(|key| set(format!("k{key}"), VALUE_BYTES))), 0);
    refused(client, (0..KEYS).map(expire));
    let limit = counted(client) + ROOM_BYTES;
    check(client, &format!("CONFIG SET maxmemory {limit}"), "OK");
    limit
}

/// All keys are there, and writes are served.
#[track_caller]
fn all_stayed(client: &mut Client, limit: u64, what: &str) {
    let kept = (0..KEYS).filter(|key| client.show(&format!("EXISTS k{key}")) == "(integer) 1").count();
    assert_eq!((kept, client.info("stats", "evicted_keys").as_str()), (KEYS, "0"), "{what}");
    check(client, "SET one more", "OK");
    assert!(counted(client) <= limit, "{what}");
}

#[test]
fn what_a_stopped_replica_lacks() {
    for policy in ["allkeys-lru", "noeviction", "volatile-ttl"] {
        let limits = ["--client-output-buffer-limit", "replica 4gb 4gb 60", "--repl-timeout", "600"];
        let sync = ["--repl-diskless-sync-delay", "0", "--maxmemory-policy", policy];
        let primary = Server::start(2, "auto", &[&limits[..], &sync].concat());
        let replica = Server::start(1, "auto", &[]);
        let client = &mut primary.client();
        let limit = fill(client);
        follow(&replica, &primary);
        eventually("it follows", || is_up(&replica));
        replica.signal(Signal::STOP);
        let bytes = scale() * 48 * KIB * KIB;
        let writes = (0..bytes / HOT_BYTES).map(|number| set(format!("hot{}", number % 3), HOT_BYTES));
        assert_eq!(refused(client, writes), 0, "{policy}");
        all_stayed(client, limit, policy);
        // The kernel has taken some, and the log thread takes the rest when it gets a core.
        eventually("it waits", || memory(client, "mem_clients_slaves") > bytes as u64 / 8);
        let waiting = memory(client, "mem_clients_slaves");
        assert!(memory(client, "mem_total_replication_buffers") >= waiting, "{policy}");
        assert_eq!(memory(client, "mem_replication_backlog"), 1 << 20, "{policy}");
        assert!(memory(client, "mem_not_counted_for_evict") >= waiting, "{policy}");
        replica.signal(Signal::CONT);
        // The bytes kept for the replica are dropped when the stream goes on.
        eventually("it has everything", || {
            refused(client, [set("hot0".to_owned(), HOT_BYTES)]) == 0
                && memory(client, "mem_clients_slaves") < 3 << 20
        });
    }
}

#[test]
fn what_waits_for_the_journal() {
    let scratch = blackbox::Scratch::new("journal");
    let options = ["--appendonly", "yes", "--maxmemory-policy", "allkeys-lru", "--dir", &scratch.path("")];
    let server = Server::start(2, "auto", &options);
    let client = &mut server.client();
    let limit = fill(client);
    let others: Vec<Client> = (0..3).map(|_| server.client()).collect();
    std::thread::scope(|scope| {
        for (index, mut other) in others.into_iter().enumerate() {
            let writes = (0..300 * scale()).map(move |_| set(format!("hot{index}"), HOT_BYTES));
            scope.spawn(move || assert_eq!(refused(&mut other, writes), 0));
        }
    });
    all_stayed(client, limit, "overwritten");
    eventually("all is written", || memory(client, "mem_aof_buffer") == 0);
}

/// A client that is told of every key, and reads nothing.
fn told_of_all(server: &Server, how: &str, keys: &[String]) -> Client {
    let mut client = server.client();
    client.call("HELLO 3");
    match how {
        "events" => _ = client.call("SUBSCRIBE __keyevent@0__:evicted"),
        "prefixes" => check(&mut client, "CLIENT TRACKING ON BCAST", "OK"),
        _ => {
            check(&mut client, "CLIENT TRACKING ON", "OK");
            for some in keys.chunks(100) {
                client.send(&format!("MGET {}", some.join(" ")));
                client.receive();
            }
        }
    }
    client
}

#[test]
fn what_clients_are_told_of_evicted_keys() {
    let long = "k".repeat(990);
    let keys: Vec<String> = (0..12_000).map(|number| format!("{long}{number}")).collect();
    for how in ["keys", "prefixes", "events"] {
        let options = ["--maxmemory-policy", "allkeys-random", "--notify-keyspace-events", "Ee"];
        let server = Server::start(2, "auto", &options);
        let client = &mut server.client();
        assert_eq!(refused(client, keys.iter().map(|key| set(key.clone(), 1))), 0);
        let told: Vec<Client> = (0..10).map(|_| told_of_all(&server, how, &keys)).collect();
        let limit = counted(client) - (KIB * KIB) as u64;
        check(client, &format!("CONFIG SET maxmemory {limit}"), "OK");
        eventually("there is room", || counted(client) <= limit);
        // Some thousand are enough: buffers for the news count, what is in them does not.
        let evicted = number(client, "stats", "evicted_keys");
        assert!((200..6000).contains(&evicted), "{how}: {evicted}");
        drop(told);
    }
}

#[test]
fn who_reads_no_news_is_disconnected() {
    let options = ["--client-output-buffer-limit", "pubsub 256kb 0 0"];
    let server = Server::start(2, "auto", &options);
    let client = &mut server.client();
    let long = "k".repeat(10_000);
    let keys: Vec<String> = (0..1000).map(|number| format!("{long}{number}")).collect();
    let _told = told_of_all(&server, "prefixes", &keys);
    assert_eq!(client.info("clients", "tracking_clients"), "1");
    // The kernel takes some megabytes.
    for key in keys.iter().cycle().take(100_000) {
        check(client, &format!("SET {key} v"), "OK");
        if client.info("clients", "tracking_clients") == "0" {
            break;
        }
    }
    assert_eq!(client.info("clients", "tracking_clients"), "0");
    assert!(server.log_end().contains("it exceeds client-output-buffer-limit"));
    // A client that reads gets all news.
    let mut reader = told_of_all(&server, "prefixes", &keys);
    for key in &keys {
        check(client, &format!("SET {key} v"), "OK");
        assert!(matches!(reader.receive(), Value::Push(_)));
    }
}

/// An instance of 64 MB on a machine with many processors.
#[test]
fn what_many_threads_need() {
    let Some(redis) =
        blackbox::replication::redis(&["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"])
    else {
        return;
    };
    let held = |server: &Server| {
        let mut clients: Vec<Client> = (0..16).map(|_| server.client()).collect();
        check(&mut clients[0], "SET a b", "OK");
        let mut key = 0;
        while number(&mut clients[0], "stats", "evicted_keys") == 0 {
            for client in &mut clients {
                let writes = (key..key + 500).map(|key| set(format!("key:{key:08}"), 100));
                assert_eq!(refused(client, writes), 0);
                key += 500;
            }
        }
        key
    };
    let expected = held(&redis);
    for elastic in ["yes", "no"] {
        let options =
            ["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru", "--threads-elastic", elastic];
        let server = Server::start(64, "auto", &options);
        let keys = held(&server);
        println!("64 threads (elastic {elastic}) hold {keys} keys, redis-server {expected}");
        assert!(keys >= expected, "{keys} keys, redis-server {expected}");
    }
}
