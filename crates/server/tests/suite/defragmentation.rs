//! Active defragmentation: after most values in memory were deleted, here and there, the remaining ones move
//! together. They may be of any type, and are read, written and saved meanwhile; none of them changes.

use blackbox::{Client, Scratch, Server, check, eventually};
use ds::random::Random;

/// One key in this many is left.
const LEFT: u64 = 10;
/// Requests that are sent at once.
const PIPELINE: usize = 500;
/// As eager as can be.
const EAGER: &str = "CONFIG SET active-defrag-ignore-bytes 1 active-defrag-threshold-lower 1 active-defrag-cycle-min 60 active-defrag-cycle-max 60";

/// How something is made, by number, and how it is deleted.
struct Kind {
    name: &'static str,
    count: usize,
    make: fn(usize, &str) -> String,
    delete: fn(usize) -> String,
}

const KINDS: &[Kind] = &[
    Kind { name: "string", count: 60_000, make: |n, text| format!("SET k{n} {text}"), delete: key },
    Kind {
        name: "long string",
        count: 6_000,
        make: |n, text| format!("SET k{n} {}", text.repeat(30)),
        delete: key,
    },
    Kind { name: "grown string", count: 30_000, make: |n, text| format!("APPEND k{n} {text}"), delete: key },
    Kind { name: "list", count: 30_000, make: |n, text| format!("RPUSH k{n} {text} {text}"), delete: key },
    Kind { name: "small hash", count: 30_000, make: |n, text| format!("HSET k{n} f {text}"), delete: key },
    Kind { name: "small set", count: 30_000, make: |n, text| format!("SADD k{n} {text} {n}"), delete: key },
    Kind {
        name: "set of integers",
        count: 30_000,
        make: |n, _| format!("SADD k{n} {n} 1 2 3 4 5 6 7 8 9"),
        delete: key,
    },
    Kind {
        name: "small sorted set",
        count: 30_000,
        make: |n, text| format!("ZADD k{n} 5 {text}"),
        delete: key,
    },
    Kind {
        name: "stream",
        count: 10_000,
        make: |n, text| format!("XADD k{n} 1-1 f {}", text.repeat(3)),
        delete: key,
    },
    Kind {
        name: "hash",
        count: 60_000,
        make: |n, text| format!("HSET h f{n} {text}"),
        delete: |n| format!("HDEL h f{n}"),
    },
    Kind {
        name: "set",
        count: 60_000,
        make: |n, text| format!("SADD s {n}{text}"),
        delete: |n| format!("SPOP s {}", n % 2),
    },
    Kind {
        name: "sorted set",
        count: 60_000,
        make: |n, text| format!("ZADD z {n} {n}:{text}"),
        delete: |n| format!("ZREMRANGEBYSCORE z {n} {n}"),
    },
];

fn key(n: usize) -> String {
    format!("DEL k{n}")
}

fn call_all(client: &mut Client, requests: impl Iterator<Item = String>) {
    let requests: Vec<String> = requests.collect();
    for some in requests.chunks(PIPELINE) {
        some.iter().for_each(|request| client.send(request));
        for request in some {
            let reply = client.receive().to_string();
            assert!(!reply.starts_with("ERR") && !reply.contains("WRONGTYPE"), "{request}: {reply}");
        }
    }
}

fn unused(client: &mut Client) -> u64 {
    client.info("memory", "allocator_frag_bytes").parse().expect("a number")
}

/// Makes `kind.count` of a kind, and deletes most of them.
fn scatter(client: &mut Client, kind: &Kind) {
    let text = "t".repeat(50);
    call_all(client, (0..kind.count).map(|number| (kind.make)(number, &text)));
    let mut random = Random::new(7);
    call_all(client, (0..kind.count).filter(|_| random.below(LEFT) > 0).map(kind.delete));
}

#[test]
fn whatever_is_left_moves_together() {
    for threads in [1, 2] {
        let server = Server::start(threads, "auto", &["--activedefrag", "no"]);
        let client = &mut server.client();
        check(client, EAGER, "OK");
        for kind in KINDS {
            check(client, "CONFIG SET activedefrag no", "OK");
            check(client, "FLUSHALL", "OK");
            let is_freed = || client.info("memory", "lazyfree_pending_objects") == "0";
            eventually("all is freed", is_freed);
            // Otherwise what the kind before has left for a moment is taken for what this one leaves.
            check(client, "MEMORY PURGE", "OK");
            let before = unused(client);
            scatter(client, kind);
            let digest = client.show("DEBUG DIGEST");
            let scattered = unused(client);
            let gain = scattered.saturating_sub(before);
            assert!(gain > 500_000, "{}: {before}, then {scattered}", kind.name);
            check(client, "CONFIG SET activedefrag yes", "OK");
            let name = kind.name;
            eventually(name, || unused(client) < before + gain / 3);
            assert_eq!(client.show("DEBUG DIGEST"), digest, "{name}");
        }
        assert_ne!(client.info("stats", "active_defrag_hits"), "0");
        assert_ne!(client.info("stats", "active_defrag_key_hits"), "0");
    }
}

#[test]
fn clients_and_snapshots_go_on_meanwhile() {
    let scratch = Scratch::new("defragmentation");
    let directory = scratch.path("");
    let file = ["--dir", &directory, "--dbfilename", "dump.rdb"];
    let server = Server::start(2, "auto", &[&["--activedefrag", "no"], &file[..]].concat());
    let client = &mut server.client();
    check(client, EAGER, "OK");
    for kind in KINDS.iter().filter(|kind| (kind.delete)(0) == key(0)) {
        let name = kind.name.replace(' ', "-");
        let others = (0..2000).map(|number| (kind.make)(number, "text").replace(" k", &format!(" {name}")));
        call_all(client, others);
    }
    scatter(client, &KINDS[0]);
    let digest = client.show("DEBUG DIGEST");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let writer = &mut server.client();
            check(writer, "SELECT 1", "OK");
            for kind in KINDS.iter().chain(KINDS) {
                call_all(writer, (0..2000).map(|number| (kind.make)(number, "written meanwhile")));
                call_all(writer, (0..2000).map(kind.delete));
                check(writer, "FLUSHDB", "OK");
            }
        });
        check(client, "CONFIG SET activedefrag yes", "OK");
        while !writer.is_finished() {
            check(client, "BGSAVE", "Background saving started");
            eventually("it is saved", || client.info("persistence", "rdb_bgsave_in_progress") == "0");
        }
    });
    let moved = |client: &mut Client| client.info("stats", "active_defrag_key_hits").parse::<usize>();
    eventually("most keys are moved", || moved(client).expect("a number") > KINDS[0].count / 20);
    assert_eq!(client.show("DEBUG DIGEST"), digest);
    check(client, "SELECT 1", "OK");
    check(client, "DBSIZE", "(integer) 0");
    let loaded = Server::start(1, "auto", &file);
    let loaded = &mut loaded.client();
    // The snapshot has what the writer had at its cut, too.
    check(loaded, "SELECT 1", "OK");
    check(loaded, "FLUSHDB", "OK");
    assert_eq!(loaded.show("DEBUG DIGEST"), digest);
}
