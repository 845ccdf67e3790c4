//! `maxmemory` and `maxmemory-clients`: which keys and clients are evicted and which never are, which clients are
//! told, and that the limits hold.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use blackbox::replication::{follow, is_up};
use blackbox::{Client, Server, SetAtEnd, check, eventually, on_each_server};
use ds::random::Random;
use resp::Value;

const POLICIES: [&str; 9] = [
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-lrm",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-lrm",
    "volatile-random",
    "volatile-ttl",
];
/// The memory that reading the figure takes itself.
const SLACK: u64 = 64 * 1024;
/// Requests that are sent at once.
const PIPELINE: usize = 200;

/// Sends requests, many at a time; the replies.
fn call_all(client: &mut Client, requests: &[Vec<String>]) -> Vec<Value> {
    let mut replies = Vec::with_capacity(requests.len());
    for some in requests.chunks(PIPELINE) {
        let mut bytes = Vec::new();
        for request in some {
            let args: Vec<&[u8]> = request.iter().map(String::as_bytes).collect();
            resp::encode_request(&args, &mut bytes);
        }
        client.send_bytes(&bytes);
        replies.extend(some.iter().map(|_| client.receive()));
    }
    replies
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// The bytes that count against the limit.
fn used(client: &mut Client) -> u64 {
    let memory = blackbox::text(&client.call("INFO memory"));
    let field = |name: &str| -> u64 {
        let line = memory.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.expect("it is there").parse().expect("a number")
    };
    field("used_memory").saturating_sub(field("mem_not_counted_for_evict"))
}

fn number(client: &mut Client, section: &str, field: &str) -> u64 {
    client.info(section, field).parse().expect("a number")
}

/// Sets the limit to this much more than what is used.
fn leave_room(client: &mut Client, bytes: u64) -> u64 {
    let limit = used(client) + bytes;
    check(client, &format!("CONFIG SET maxmemory {limit}"), "OK");
    limit
}

fn exist(client: &mut Client, keys: impl Iterator<Item = String>) -> Vec<bool> {
    let requests: Vec<_> = keys.map(|key| words(&format!("EXISTS {key}"))).collect();
    call_all(client, &requests).iter().map(|reply| *reply == Value::Int(1)).collect()
}

#[test]
fn every_policy_evicts_what_it_may_and_no_more_than_it_must() {
    const COUNT: usize = 20_000;
    on_each_server(|server| {
        let client = &mut server.client();
        for policy in POLICIES {
            check(client, "FLUSHALL", "OK");
            check(client, &format!("CONFIG SET maxmemory 0 maxmemory-policy {policy}"), "OK");
            eventually("all is freed", || client.info("memory", "lazyfree_pending_objects") == "0");
            let empty = used(client);
            let value = "x".repeat(100);
            let expiring =
                |number: usize| words(&format!("SET v{number} {value} PX {}", 1_000_000 + number * 100));
            let fill: Vec<_> = (0..COUNT)
                .flat_map(|number| [words(&format!("SET p{number} {value}")), expiring(number)])
                .collect();
            assert!(call_all(client, &fill).iter().all(|reply| reply.to_string() == "OK"));
            // The limit requires that most of the keys that expire are evicted.
            let limit = empty + (used(client) - empty) * 6 / 10;
            let evicted = number(client, "stats", "evicted_keys");
            check(client, &format!("CONFIG SET maxmemory {limit}"), "OK");
            eventually("there is room", || used(client) <= limit + SLACK);
            check(client, "CONFIG SET maxmemory 0", "OK");
            // All threads have answered, so no thread evicts any more.
            client.call("CLIENT LIST");
            let persistent = exist(client, (0..COUNT).map(|number| format!("p{number}")));
            let volatile = exist(client, (0..COUNT).map(|number| format!("v{number}")));
            let counted = |alive: &[bool]| alive.iter().filter(|alive| **alive).count();
            let left = counted(&persistent) + counted(&volatile);
            let evicted = number(client, "stats", "evicted_keys") - evicted;
            assert_eq!(evicted as usize, 2 * COUNT - left, "{policy}");
            assert!((COUNT..COUNT * 13 / 10).contains(&left), "{policy} left {left}");
            if policy.starts_with("volatile") {
                assert_eq!(counted(&persistent), COUNT, "{policy}");
            } else {
                let share = counted(&persistent) * 100 / left;
                assert!((45..55).contains(&share), "{policy} left {share} % of one kind");
            }
            if policy == "volatile-ttl" {
                let late = counted(&volatile[COUNT / 2..]) * 100 / counted(&volatile);
                assert!(late > 85, "{late} % of those left expire late");
            }
        }
    });
}

#[test]
fn what_is_used_stays() {
    const COUNT: usize = 10_000;
    for policy in ["allkeys-lfu", "volatile-lfu"] {
        let server = Server::start(2, "auto", &["--maxmemory-policy", policy, "--lfu-log-factor", "1"]);
        let client = &mut server.client();
        let value = "x".repeat(100);
        let fill: Vec<_> =
            (0..COUNT).map(|number| words(&format!("SET k{number} {value} EX 10000"))).collect();
        call_all(client, &fill);
        let use_some: Vec<_> = (0..COUNT / 10).map(|number| words(&format!("GET k{number}"))).collect();
        for _ in 0..10 {
            call_all(client, &use_some);
        }
        let limit = used(client) - COUNT as u64 * 70;
        check(client, &format!("CONFIG SET maxmemory {limit}"), "OK");
        eventually("there is room", || used(client) <= limit + SLACK);
        check(client, "CONFIG SET maxmemory 0", "OK");
        client.call("CLIENT LIST");
        let alive = exist(client, (0..COUNT).map(|number| format!("k{number}")));
        let counted = |alive: &[bool]| alive.iter().filter(|alive| **alive).count();
        assert!(counted(&alive) < COUNT * 6 / 10, "{policy}");
        let kept = counted(&alive[..COUNT / 10]);
        assert!(kept > COUNT / 10 * 98 / 100, "{policy} kept {kept} of those used");
    }
}

#[test]
fn whoever_cares_for_a_key_hears_that_it_was_evicted() {
    on_each_server(|server| {
        let client = &mut server.client();
        check(client, "CONFIG SET notify-keyspace-events Ee maxmemory-policy allkeys-lru", "OK");
        check(client, "SET watched x", "OK");
        let (watcher, tracker, subscriber) =
            (&mut server.client(), &mut server.client(), &mut server.client());
        check(watcher, "WATCH watched", "OK");
        tracker.call("HELLO 3");
        check(tracker, "CLIENT TRACKING ON", "OK");
        check(tracker, "GET watched", "\"x\"");
        subscriber.call("SUBSCRIBE __keyevent@0__:evicted");
        check(client, "CONFIG SET maxmemory 1", "OK");
        eventually("it is gone", || client.show("DBSIZE") == "(integer) 0");
        let event = "1) \"message\"\n2) \"__keyevent@0__:evicted\"\n3) \"watched\"";
        assert_eq!(subscriber.receive().to_string(), event);
        assert!(matches!(tracker.receive(), Value::Push(_)));
        check(client, "CONFIG SET maxmemory 0", "OK");
        check(watcher, "MULTI", "OK");
        check(watcher, "SET a 1", "QUEUED");
        check(watcher, "EXEC", "(nil)");
        assert_eq!(number(client, "stats", "evicted_keys"), 1);
        // A waiting client is served as usual.
        watcher.send("BLPOP list 0");
        eventually("it waits", || client.info("clients", "blocked_clients") == "1");
        check(client, "RPUSH list v", "(integer) 1");
        assert_eq!(watcher.receive().to_string(), "1) \"list\"\n2) \"v\"");
    });
}

#[test]
fn without_a_key_to_evict_writes_are_refused_at_once() {
    let server = Server::start(2, "auto", &["--maxmemory-policy", "volatile-lru"]);
    let client = &mut server.client();
    check(client, "DEBUG POPULATE 300000", "OK");
    check(client, "CONFIG SET maxmemory 1", "OK");
    eventually("refused", || client.show("SET a b").contains("OOM"));
    client.call("DEL a");
    let refused: Vec<_> = (0..2000).map(|_| words("SET a b")).collect();
    let started = Instant::now();
    let replies = call_all(client, &refused);
    // A request is served if another thread is looking where there might be a key to evict.
    let refused_count = replies.iter().filter(|reply| reply.to_string().contains("OOM")).count();
    assert!(refused_count > 1000, "{refused_count}");
    // To look at all keys again and again would take minutes.
    assert!(started.elapsed().as_secs() < 10);
    check(client, "DEL a", &format!("(integer) {}", i64::from(refused_count < 2000)));
    check(client, "DBSIZE", "(integer) 300000");
    let exceeded = |client: &mut Client, field| number(client, "stats", field);
    assert!(exceeded(client, "current_eviction_exceeded_time") > 0);
    // A single one among them is found.
    check(client, "EXPIRE key:7 10000", "(integer) 1");
    eventually("found", || client.show("EXISTS key:7") == "(integer) 0");
    check(client, "CONFIG SET maxmemory 0", "OK");
    check(client, "SET a b", "OK");
    eventually("over", || exceeded(client, "current_eviction_exceeded_time") == 0);
    assert!(exceeded(client, "total_eviction_exceeded_time") > 0);
    check(client, "CONFIG RESETSTAT", "OK");
    for field in ["total_eviction_exceeded_time", "evicted_keys", "evicted_clients"] {
        assert_eq!(exceeded(client, field), 0, "{field}");
    }
}

/// Beyond the limit is at most what each thread may have allocated since it last looked, and what commands hold meanwhile.
#[test]
fn many_who_fill_at_once_keep_below_the_limit() {
    const ROOM: u64 = 8 << 20;
    for (threads, policy) in
        [(1, "allkeys-lru"), (4, "allkeys-lfu"), (4, "allkeys-random"), (4, "volatile-ttl")]
    {
        let server = Server::start(threads, "auto", &["--maxmemory-policy", policy]);
        let mut fillers: Vec<Client> = (0..8).map(|_| server.client()).collect();
        fillers.iter_mut().for_each(|filler| check(filler, "PING", "PONG"));
        let client = &mut server.client();
        let limit = leave_room(client, ROOM);
        let is_over = AtomicBool::new(false);
        let most = std::thread::scope(|scope| {
            let end = SetAtEnd(&is_over, true);
            for (seed, filler) in (0..).zip(&mut fillers) {
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    for _ in 0..100 {
                        let some: Vec<_> = (0..PIPELINE)
                            .map(|_| {
                                let value = "x".repeat(random.below(600) as usize);
                                words(&format!("SET {} {value}- EX 1000", random.next_u64() % 1_000_000))
                            })
                            .collect();
                        assert!(call_all(filler, &some).iter().all(|reply| reply.to_string() == "OK"));
                    }
                });
            }
            let looker = scope.spawn(|| {
                let mut most = 0;
                while !is_over.load(Ordering::Relaxed) {
                    most = most.max(used(client));
                }
                most
            });
            let filled = |client: &mut Client| number(client, "stats", "evicted_keys");
            let other = &mut server.client();
            eventually("much was evicted", || filled(other) > 50_000);
            drop(end);
            looker.join().unwrap()
        });
        // 16 KiB for each thread, the input and output of eight clients, and a table that grows.
        let beyond = most.saturating_sub(limit);
        assert!(
            beyond < (threads as u64) * 16 * 1024 + 8 * 256 * 1024,
            "{threads} {policy}: {beyond} beyond"
        );
        eventually("there is room", || used(&mut server.client()) <= limit + SLACK);
    }
}

#[test]
fn a_large_value_is_freed_in_slices_and_counts() {
    // With another thread, that one could need room while this one, which frees the value, has no core.
    let server = Server::start(1, "auto", &["--maxmemory-policy", "allkeys-random"]);
    let client = &mut server.client();
    let adds: Vec<_> = (0..1000)
        .map(|part| {
            let members: Vec<String> = (0..300).map(|number| format!("member:{part}:{number}")).collect();
            words(&format!("SADD large {}", members.join(" ")))
        })
        .collect();
    call_all(client, &adds);
    let before = used(client);
    // Evicting one key is enough: a key that is written meanwhile must stay.
    check(client, &format!("CONFIG SET maxmemory {}", before - 1000), "OK");
    eventually("gone", || client.show("EXISTS large") == "(integer) 0");
    check(client, "SET small x", "OK");
    eventually("freed", || used(client) < before / 2);
    check(client, "GET small", "\"x\"");
    assert_eq!(client.info("stats", "evicted_keys"), "1");
}

#[test]
fn a_transaction_that_needs_room_is_discarded_when_it_is_run() {
    let server = Server::start(2, "auto", &[]);
    let (client, other) = (&mut server.client(), &mut server.client());
    for (queued, replies) in [
        (
            "SET a b",
            "(error) EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.",
        ),
        (
            "EVAL \"#!lua\\nreturn 1\" 0",
            "(error) EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.",
        ),
        (
            "EVAL \"return redis.pcall('SET', 'a', 'b')\" 0",
            "1) (error) OOM command not allowed when used memory > 'maxmemory'.",
        ),
        ("GET a", "1) (nil)"),
    ] {
        check(client, "MULTI", "OK");
        check(client, queued, "QUEUED");
        check(other, "CONFIG SET maxmemory 1", "OK");
        check(client, "EXEC", replies);
        check(other, "CONFIG SET maxmemory 0", "OK");
    }
}

#[test]
fn the_largest_clients_go_when_all_are_too_large() {
    on_each_server(|server| {
        let client = &mut server.client();
        let large: Vec<Client> = (0..4)
            .map(|index| {
                let mut large = server.client();
                let id = large.id();
                check(&mut large, &format!("CLIENT SETNAME large{index}"), "OK");
                if index == 0 {
                    check(&mut large, "CLIENT NO-EVICT ON", "OK");
                }
                // A request that is not all there.
                let bytes = (4 - index) << 20;
                large.send_bytes(b"*2\r\n$3\r\nGET\r\n$50000000\r\n");
                large.send_bytes(&vec![b'x'; bytes]);
                let received = |client: &mut Client| client.field_of(id, "qbuf").parse::<usize>().unwrap();
                eventually("it has come", || received(client) > bytes);
                large
            })
            .collect();
        let list = blackbox::text(&client.call("CLIENT LIST"));
        let sizes = list.split(' ').filter_map(|field| field.strip_prefix("tot-mem="));
        let total: u64 = sizes.map(|bytes| bytes.parse::<u64>().unwrap()).sum();
        // Without a limit, each thread sums up its clients once a second.
        eventually("all threads know", || {
            number(client, "memory", "mem_clients_normal") > total - (64 << 10)
        });
        check(client, &format!("CONFIG SET maxmemory-clients {}", total - (1 << 20)), "OK");
        eventually("one is gone", || number(client, "stats", "evicted_clients") > 0);
        eventually("it is enough", || number(client, "memory", "mem_clients_normal") < total - (1 << 20));
        let list = blackbox::text(&client.call("CLIENT LIST"));
        let is_there: Vec<bool> = (0..4).map(|index| list.contains(&format!("name=large{index} "))).collect();
        assert_eq!(is_there, [true, false, true, true], "{list}");
        drop(large);
        check(client, "CONFIG SET maxmemory-clients 0", "OK");
    });
}

/// Darter cannot know how well the allocator fills its pages: some bytes of each record. Besides, the kernel may take
/// pages of an idle process away.
#[test]
fn what_is_reported_is_what_the_process_grew_by() {
    const COUNT: u64 = 400_000;
    for (value_bytes, percent_min) in [(16, 72), (256, 94), (550, 94)] {
        let server = Server::start(2, "auto", &[]);
        let client = &mut server.client();
        let before = (used(client), server.resident_bytes());
        check(client, &format!("DEBUG POPULATE {COUNT} key {value_bytes}"), "OK");
        let (used, resident) = (used(client) - before.0, server.resident_bytes() - before.1);
        let percent = used as f64 * 100.0 / resident as f64;
        println!("{value_bytes} bytes: {} and {} a key", used / COUNT, resident / COUNT);
        assert!(percent > f64::from(percent_min) && percent < 106.0, "{value_bytes} bytes: {percent:.1} %");
    }
}

#[test]
fn a_limit_below_what_is_used_is_told() {
    let server = Server::start(1, "auto", &["--maxmemory", "1000"]);
    let client = &mut server.client();
    eventually("told", || server.log_end().contains("You specified a maxmemory value that is less than 1MB"));
    check(client, "CONFIG SET maxmemory 2000", "OK");
    eventually("told", || {
        server.log_end().contains("the new maxmemory value set via CONFIG SET (2000) is smaller than")
    });
}

#[test]
fn a_replica_evicts_only_if_it_is_asked_to() {
    let options = ["--maxmemory-policy", "allkeys-random", "--repl-diskless-sync-delay", "0"];
    let [primary, replica] = [0, 1].map(|_| Server::start(2, "auto", &options));
    let (client, reader) = (&mut primary.client(), &mut replica.client());
    let value = "x".repeat(1000);
    let fill: Vec<_> = (0..3000).map(|key| words(&format!("SET key:{key} {value}"))).collect();
    call_all(client, &fill);
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    let limit = used(reader) - 1_000_000;
    check(reader, &format!("CONFIG SET maxmemory {limit}"), "OK");
    for _ in 0..100 {
        check(reader, "PING", "PONG");
    }
    assert_eq!(reader.info("stats", "evicted_keys"), "0", "its primary says what goes");
    check(reader, "CONFIG SET replica-ignore-maxmemory no", "OK");
    eventually("there is room", || used(reader) <= limit + SLACK);
    let evicted = number(reader, "stats", "evicted_keys");
    assert!((500..2000).contains(&evicted), "{evicted}");
    // The replica still follows, and stays below its limit.
    call_all(client, &fill);
    check(client, "SET last one", "OK");
    eventually("the stream has come", || {
        reader.info("replication", "slave_repl_offset") == client.info("replication", "master_repl_offset")
    });
    assert!(is_up(&replica));
    eventually("there is room", || used(reader) <= limit + SLACK);
    check(client, "DBSIZE", "(integer) 3001");
}

#[test]
fn queues_and_blessed_keys_are_not_evicted() {
    for policy in ["allkeys-lru", "allkeys-random"] {
        let server =
            Server::start(2, "auto", &["--maxmemory-policy", policy, "--notify-keyspace-events", "Eg"]);
        let client = &mut server.client();
        let listener = &mut server.client();
        listener.call("SUBSCRIBE __keyevent@0__:bless __keyevent@0__:unbless");
        listener.receive();
        let value = "x".repeat(1000);
        check(client, &format!("LPUSH queue:mail {value}"), "(integer) 1");
        check(client, &format!("ZADD schedule 7 {value}"), "(integer) 1");
        check(client, &format!("SET session {value}"), "OK");
        check(client, "BLESS SET session NO-EVICT", "(integer) 1");
        assert!(listener.receive().to_string().contains("session"), "bless");
        let limit = leave_room(client, 200_000);
        let fill: Vec<_> = (0..2000).map(|number| words(&format!("SET k{number} {value}"))).collect();
        // Few at a time: requests that wait count as memory, too.
        for some in fill.chunks(50) {
            assert!(call_all(client, some).iter().all(|reply| reply.to_string() == "OK"), "{policy}");
        }
        eventually("there is room", || used(client) <= limit + SLACK);
        check(client, "EXISTS queue:mail schedule session", "(integer) 3");
        // With nothing else left, writes are refused, and room is found again when there may be some.
        check(client, "CONFIG SET maxmemory 1", "OK");
        eventually("all else is evicted", || client.show("DBSIZE") == "(integer) 3");
        eventually("there is no room", || client.show("SET k v").starts_with("(error) OOM"));
        check(
            client,
            "BLESS SET queue:mail NO-EVICT",
            "(error) OOM command not allowed when used memory > 'maxmemory'.",
        );
        check(client, "BLESS CLEAR session NO-EVICT", "(integer) 1");
        assert!(listener.receive().to_string().contains("session"), "unbless");
        eventually("it is evicted", || client.show("DBSIZE") == "(integer) 2");
        check(client, "CONFIG SET queue-eviction yes", "OK");
        eventually("queues are evicted", || client.show("DBSIZE") == "(integer) 0");
    }
}

#[test]
fn reads_do_not_count_where_changes_do() {
    let server = Server::start(1, "auto", &["--maxmemory-policy", "allkeys-lrm"]);
    let client = &mut server.client();
    for key in ["read", "written"] {
        check(client, &format!("SET {key} v"), "OK");
        let Value::Bulk(dumped) = client.call(&format!("DUMP {key}")) else { panic!("a payload") };
        client.send_args(&[b"RESTORE", key.as_bytes(), b"0", &dumped, b"REPLACE", b"IDLETIME", b"1000"]);
        assert_eq!(client.receive().to_string(), "OK");
    }
    check(client, "GET read", "\"v\"");
    check(client, "APPEND written s", "(integer) 2");
    let idle = |client: &mut Client, key: &str| match client.call(&format!("OBJECT IDLETIME {key}")) {
        Value::Int(seconds) => seconds,
        other => panic!("{other}"),
    };
    assert!(idle(client, "read") >= 1000, "a read does not count");
    assert!(idle(client, "written") < 1000, "a change does");
    check(client, "CONFIG SET maxmemory-policy allkeys-lru", "OK");
    check(client, "GET read", "\"v\"");
    assert!(idle(client, "read") < 1000, "a read counts again");
}
