//! Real redis-servers as replicas: they have the same data, continue after a lost connection, and hold up nothing if they stop reading.

use std::io::{Read, Write};
use std::process::Command;

use blackbox::replication::{expect_same, follow, is_up, redis, while_writing};
use blackbox::{Client, PATIENCE, Scratch, Server, Signal, check, eventually};
use resp::Value;

/// A primary whose replicas do not wait for others.
fn primary(threads: usize, io: &str, more: &[&str]) -> Server {
    Server::start(threads, io, &[&["--repl-diskless-sync-delay", "0"], more].concat())
}

#[test]
fn replicas_have_the_same_data() {
    for (round, (threads, io)) in [(1, "epoll"), (2, "auto"), (4, "epoll")].into_iter().enumerate() {
        for diskless in ["yes", "no"] {
            let primary = primary(threads, io, &["--repl-diskless-sync", diskless]);
            let load = if diskless == "yes" { "swapdb" } else { "disabled" };
            let replicas = [redis(&["--repl-diskless-load", load]), redis(&[])];
            let [Some(first), Some(second)] = replicas else { return };
            let seed = 1000 * (round as u64 + 1);
            check(
                &mut primary.client(),
                "FUNCTION LOAD \"#!lua name=l\\nredis.register_function('f', function() return 1 end)\"",
                "\"l\"",
            );
            while_writing(&primary, seed, || {
                follow(&first, &primary);
                eventually("the first one follows", || is_up(&first));
                follow(&second, &primary);
                eventually("the second one follows", || is_up(&second));
            });
            expect_same(&first, &primary);
            expect_same(&second, &primary);
            assert_eq!(primary.client().info("replication", "connected_slaves"), "2");
        }
    }
}

#[test]
fn what_is_published_comes_to_clients_of_replicas() {
    let scratch = Scratch::new("replicas-publish");
    let folder = scratch.path("");
    let primary = primary(2, "auto", &["--dir", &folder, "--appendonly", "yes"]);
    let Some(redis) = redis(&[]) else { return };
    let darter = Server::start(2, "epoll", &[]);
    let replicas = [&*redis, &darter];
    let mut subscribers: Vec<Client> = replicas.iter().map(|replica| replica.client()).collect();
    for (replica, subscriber) in replicas.into_iter().zip(&mut subscribers) {
        follow(replica, &primary);
        eventually("it follows", || is_up(replica));
        subscriber.send("SUBSCRIBE news");
        subscriber.receive();
        subscriber.send("SSUBSCRIBE shard");
        subscriber.receive();
        // Messages published on a replica stay there.
        check(&mut replica.client(), "PUBLISH news own", "(integer) 1");
        assert!(subscriber.receive().to_string().contains("own"));
    }
    let mut client = primary.client();
    for (line, reply) in [
        ("PUBLISH news one", "(integer) 0"),
        ("SPUBLISH shard two", "(integer) 0"),
        ("EVAL \"return redis.call('PUBLISH', 'news', 'three')\" 0", "(integer) 0"),
        ("MULTI", "OK"),
        ("SET a 1", "QUEUED"),
        ("PUBLISH news four", "QUEUED"),
    ] {
        check(&mut client, line, reply);
    }
    assert!(client.show("EXEC").contains("OK"));
    for subscriber in &mut subscribers {
        for expected in ["one", "two", "three", "four"] {
            let message = subscriber.receive().to_string();
            assert!(message.contains(expected), "{message} instead of {expected}");
        }
    }
    expect_same(&redis, &primary);
    expect_same(&darter, &primary);
    // It is in the journal, but is not data.
    check(&mut client, "DEBUG LOADAOF", "OK");
    check(&mut client, "GET a", "\"1\"");
}

#[test]
fn replicas_that_come_together_share_a_snapshot() {
    let primary = Server::start(2, "auto", &["--repl-diskless-sync-delay", "1"]);
    let replicas = [redis(&[]), redis(&[])];
    let [Some(first), Some(second)] = replicas else { return };
    primary.client().call("DEBUG POPULATE 1000 key 100");
    follow(&first, &primary);
    follow(&second, &primary);
    expect_same(&first, &primary);
    expect_same(&second, &primary);
    assert!(primary.log().contains("starting a snapshot for 2 replicas"), "{}", primary.log());
    assert_eq!(primary.client().info("stats", "sync_full"), "2");
}

#[test]
fn a_replica_whose_connection_was_cut_goes_on_where_it_was() {
    let primary = primary(2, "auto", &["--repl-backlog-size", "64mb"]);
    let Some(replica) = redis(&[]) else { return };
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    while_writing(&primary, 7, || {
        let mut client = primary.client();
        for cut in 1..4 {
            assert_eq!(client.call("CLIENT KILL TYPE replica"), Value::Int(1));
            eventually("it is back", || client.info("stats", "sync_partial_ok") == cut.to_string());
        }
    });
    expect_same(&replica, &primary);
    let mut client = primary.client();
    assert_eq!(client.info("stats", "sync_full"), "1");
    assert!(client.show("CLIENT LIST TYPE replica").contains("flags=S"));
}

#[test]
fn no_replica_goes_on_with_a_stream_that_has_another_id() {
    let primary = primary(2, "auto", &["--enable-debug-command", "yes"]);
    let Some(replica) = redis(&[]) else { return };
    follow(&replica, &primary);
    expect_same(&replica, &primary);
    let mut client = primary.client();
    let before = client.info("replication", "master_replid");
    check(&mut client, "DEBUG CHANGE-REPL-ID", "OK");
    assert_ne!(client.info("replication", "master_replid"), before);
    assert_eq!(client.info("replication", "master_replid2"), "0".repeat(40));
    assert_eq!(client.info("replication", "second_repl_offset"), "-1");
    assert_eq!(client.call("CLIENT KILL TYPE replica"), Value::Int(1));
    eventually("it is sent a snapshot", || client.info("stats", "sync_full") == "2");
    expect_same(&replica, &primary);
}

#[test]
fn a_journal_comes_and_goes_while_replicas_follow() {
    let scratch = Scratch::new("replicas-journal");
    let folder = scratch.path("");
    let primary = primary(2, "epoll", &["--dir", &folder, "--appendonly", "yes"]);
    let Some(replica) = redis(&[]) else { return };
    while_writing(&primary, 70, || {
        follow(&replica, &primary);
        eventually("it follows", || is_up(&replica));
        let mut client = primary.client();
        let rewrites = |client: &mut Client| {
            client.info("persistence", "aof_rewrites").parse::<u64>().expect("a number")
        };
        let is_done = |client: &mut Client, before: u64| {
            rewrites(client) > before && client.info("persistence", "aof_rewrite_in_progress") == "0"
        };
        for round in 1..3 {
            let before = rewrites(&mut client);
            client.call("BGREWRITEAOF");
            eventually("it is rewritten", || is_done(&mut client, before));
            check(&mut client, "CONFIG SET appendonly no", "OK");
            eventually("it is off", || primary.log().matches("the journal is closed").count() == round);
            let before = rewrites(&mut client);
            check(&mut client, "CONFIG SET appendonly yes", "OK");
            eventually("it is on", || is_done(&mut client, before));
        }
    });
    expect_same(&replica, &primary);
    assert_eq!(primary.client().info("stats", "sync_full"), "1", "it never lost its place");
}

#[test]
fn a_replica_that_stops_reading_is_cut_off_and_holds_nothing_up() {
    let limit = "replica 8mb 0 0";
    let primary = primary(2, "auto", &["--client-output-buffer-limit", limit, "--repl-backlog-size", "1mb"]);
    let Some(replica) = redis(&[]) else { return };
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    replica.signal(Signal::STOP);
    let mut client = primary.client();
    let value = "x".repeat(1 << 20);
    let before = primary.resident_bytes();
    for _ in 0..200 {
        check(&mut client, &format!("SET key {value}"), "OK");
    }
    eventually("it is cut off", || client.info("replication", "connected_slaves") == "0");
    let grown = primary.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "the primary grew by {grown} bytes");
    replica.signal(Signal::CONT);
    expect_same(&replica, &primary);
}

#[test]
fn redis_cli_reads_what_replicas_are_sent() {
    let scratch = Scratch::new("replicas-cli");
    let primary = primary(2, "auto", &[]);
    let mut client = primary.client();
    client.call("DEBUG POPULATE 20000 key 200");
    check(
        &mut client,
        "FUNCTION LOAD \"#!lua name=l\\nredis.register_function('f', function() return 1 end)\"",
        "\"l\"",
    );
    let digest = client.show("DEBUG DIGEST");
    for (option, expected) in [("--rdb", digest), ("--functions-rdb", "0".repeat(40))] {
        let file = scratch.path("read.rdb");
        let port = primary.port().to_string();
        let Ok(ran) = Command::new("redis-cli").args(["-p", &port, option, &file]).output() else { return };
        assert!(ran.status.success(), "{option}: {ran:?}");
        let Some(loaded) = redis(&["--dir", &scratch.path(""), "--dbfilename", "read.rdb"]) else {
            return;
        };
        let mut theirs = loaded.client();
        assert!(theirs.show("DEBUG DIGEST").contains(&expected), "{option}");
        assert_eq!(theirs.show("FUNCTION LIST"), client.show("FUNCTION LIST"), "{option}");
    }
    eventually("they are gone", || client.info("replication", "connected_slaves") == "0");
}

#[test]
fn what_redis_does_not_know_is_left_out() {
    let primary = primary(2, "auto", &["--memcached-port", "0"]);
    let Some(replica) = redis(&[]) else { return };
    let mut client = primary.client();
    client.call("SADD early a b");
    client.call("SEXPIRE early 1000 MEMBERS 1 a");
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    for line in [
        "SPERSIST early MEMBERS 1 a",
        "SADD s a b c",
        "SADDEX s PX 100 MEMBERS 2 a d",
        "SEXPIRE s 1000 MEMBERS 1 b",
        "SPERSIST s MEMBERS 1 b",
        "HSET h f 1 g 2 i 3",
        "HPEXPIRE h 100 FIELDS 1 f",
        "HEXPIRE h 1000 FIELDS 1 g",
        "HSETEX h KEEPTTL FIELDS 1 g 5",
        "HINCRBY h g 1",
        "HPERSIST h FIELDS 1 g",
    ] {
        client.call(line);
    }
    eventually("the field expires", || client.show("HEXISTS h f") == "(integer) 0");
    eventually("the members expire", || client.show("SCARD s") == "(integer) 2");
    let mut theirs = replica.client();
    eventually("there, too", || theirs.show("HGETALL h") == client.show("HGETALL h"));
    eventually("there, too", || theirs.show("SCARD s") == "(integer) 2");
    expect_same(&replica, &primary);
    assert_eq!(client.info("replication", "repl_unsupported_effects"), "7");
    assert!(primary.log().contains("does not speak Darter's protocol"), "{}", primary.log());
}

/// By the snapshot and by the stream.
#[test]
fn redis_has_released_entries_for_a_consumer_without_a_name() {
    for has_snapshot in [false, true] {
        let primary = primary(2, "auto", &[]);
        let (Some(redis), darter) = (redis(&[]), Server::start(1, "epoll", &[])) else { return };
        let begin = |replica: &Server| {
            follow(replica, &primary);
            eventually("it follows", || is_up(replica));
        };
        let replicas = [&*redis, &darter];
        if !has_snapshot {
            replicas.into_iter().for_each(begin);
        }
        let mut client = primary.client();
        for line in [
            "XADD s 1-1 f v",
            "XADD s 2-1 f v",
            "XADD s 3-1 f v",
            "XGROUP CREATE s g 0",
            "XREADGROUP GROUP g c COUNT 2 STREAMS s >",
            "XNACK s g FATAL IDS 1 1-1",
            "XNACK s g FAIL IDS 1 3-1 FORCE RETRYCOUNT 12",
            "XADD s IDMP p m * f v",
        ] {
            client.call(line);
        }
        if has_snapshot {
            replicas.into_iter().for_each(begin);
        }
        let mut theirs = redis.client();
        let expected = "1) (integer) 3\n2) \"1-1\"\n3) \"3-1\"\n4) 1) 1) \"\"\n      2) \"2\"\n   2) 1) \"c\"\n      2) \"1\"";
        eventually("it has all", || {
            theirs.show("XPENDING s g") == expected && theirs.show("XLEN s") == "(integer) 4"
        });
        assert!(theirs.show("XPENDING s g 1 1 1").ends_with("(integer) 9223372036854775807"));
        // Whoever claims there gets them; here they have their own way.
        let mut ours = darter.client();
        let pending = client.show("XPENDING s g 1 1 1");
        assert!(pending.contains("2) \"\"\n   3) (integer) -1"), "{pending}");
        eventually("it has all", || ours.show("XPENDING s g 3 3 1").contains("(integer) 12"));
        assert_eq!(ours.show("XPENDING s g 1 1 1"), pending);
        eventually("it has all", || ours.show("XINFO STREAM s") == client.show("XINFO STREAM s"));
        client.call("XREADGROUP GROUP g d CLAIM 3600000 COUNT 2 STREAMS s >");
        let expected = "1) (integer) 3\n2) \"1-1\"\n3) \"3-1\"\n4) 1) 1) \"c\"\n      2) \"1\"\n   2) 1) \"d\"\n      2) \"2\"";
        for client in [&mut client, &mut theirs, &mut ours] {
            eventually("all have it", || client.show("XPENDING s g") == expected);
        }
        if !has_snapshot {
            assert_eq!(client.info("replication", "repl_unsupported_effects"), "1");
        }
    }
}

#[test]
fn a_replica_of_which_nothing_is_heard_is_disconnected() {
    let primary = primary(1, "epoll", &["--repl-timeout", "1"]);
    let mut replica = primary.client();
    check(&mut replica, "REPLCONF capa eof capa psync2", "OK");
    replica.send("PSYNC ? -1");
    // This replica reads everything and sends nothing.
    replica.stream().set_read_timeout(Some(PATIENCE)).expect("sockets have a timeout");
    std::io::copy(replica.stream(), &mut std::io::sink()).expect("the server closes it");
    assert!(primary.log().contains("repl-timeout"), "{}", primary.log());
}

#[test]
fn replicas_go_on_after_their_primary_was_killed() {
    let scratch = Scratch::new("replicas-killed");
    let (folder, former) = (scratch.path("now"), scratch.path("former"));
    std::fs::create_dir(&folder).expect("there is room");
    let options =
        ["--dir", &folder, "--appendonly", "yes", "--appendfsync", "always", "--repl-backlog-size", "64kb"];
    let mut primary = primary(2, "auto", &options);
    let Some(replica) = redis(&[]) else { return };
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    let kill = |primary: &mut Server| {
        primary.signal(Signal::KILL);
        primary.wait();
    };
    let syncs = |primary: &Server, expected: [&str; 2]| {
        let mut client = primary.client();
        let found = ["sync_full", "sync_partial_ok"].map(|field| client.info("stats", field));
        assert_eq!(found, expected);
    };
    while_writing(&primary, 80, || {});
    expect_same(&replica, &primary);
    syncs(&primary, ["1", "0"]);
    kill(&mut primary);

    // It has everything, or lacks more than is kept in memory.
    primary = self::primary(2, "auto", &options);
    follow(&replica, &primary);
    expect_same(&replica, &primary);
    syncs(&primary, ["0", "1"]);
    replica.signal(Signal::STOP);
    while_writing(&primary, 90, || {});
    let mut client = primary.client();
    let value = "x".repeat(1 << 20);
    for number in 0..32 {
        check(&mut client, &format!("SET large:{} {value}", number % 3), "OK");
    }
    kill(&mut primary);
    replica.signal(Signal::CONT);
    primary = self::primary(2, "auto", &options);
    follow(&replica, &primary);
    expect_same(&replica, &primary);
    syncs(&primary, ["0", "1"]);

    // The primary starts on an older copy of its folder, which lacks data of the replica, so the replica
    // resynchronizes.
    kill(&mut primary);
    let copied = Command::new("cp").args(["-r", &folder, &former]).status().expect("cp is everywhere");
    assert!(copied.success());
    primary = self::primary(2, "auto", &options);
    follow(&replica, &primary);
    while_writing(&primary, 100, || {});
    expect_same(&replica, &primary);
    syncs(&primary, ["0", "1"]);
    kill(&mut primary);
    primary = self::primary(2, "auto", &[&["--dir", &former], &options[2..]].concat());
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    expect_same(&replica, &primary);
    syncs(&primary, ["1", "0"]);
}

#[test]
fn a_replica_that_lacks_more_than_memory_has_reads_the_journal() {
    let scratch = Scratch::new("replicas-behind");
    let folder = scratch.path("");
    let options = ["--dir", &folder, "--appendonly", "yes", "--repl-backlog-size", "16kb"];
    let primary = primary(2, "epoll", &options);
    let Some(replica) = redis(&[]) else { return };
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    let mut client = primary.client();
    for round in 1..=3 {
        check(&mut replica.client(), "REPLICAOF 127.0.0.1 1", "OK");
        eventually("it is away", || client.info("replication", "connected_slaves") == "0");
        while_writing(&primary, 110 + round, || {});
        // The replica reconnects while clients write.
        while_writing(&primary, 120 + round, || {
            follow(&replica, &primary);
            eventually("it follows", || is_up(&replica));
        });
        expect_same(&replica, &primary);
        assert_eq!(client.info("stats", "sync_full"), "1");
        assert_eq!(client.info("stats", "sync_partial_ok"), round.to_string());
    }
    // Only the stream after the base is certainly available.
    check(&mut replica.client(), "REPLICAOF 127.0.0.1 1", "OK");
    eventually("it is away", || client.info("replication", "connected_slaves") == "0");
    while_writing(&primary, 130, || {});
    client.call("BGREWRITEAOF");
    eventually("it is rewritten", || client.info("persistence", "aof_base_size") != "0");
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    expect_same(&replica, &primary);
}

/// A client that gets the stream like a replica, and sends nothing.
fn silent_replica(primary: &Server) -> Client {
    let mut replica = primary.client();
    check(&mut replica, "REPLCONF capa psync2", "OK");
    replica.send("PSYNC ? -1");
    let stream = replica.stream();
    let mut line = || {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while line.last() != Some(&b'\n') {
            stream.read_exact(&mut byte).expect("the server is there");
            line.push(byte[0]);
        }
        String::from_utf8(line).expect("it is a line of text").trim().to_owned()
    };
    // Newlines say that the server is alive.
    let mut next = || loop {
        let line = line();
        if !line.is_empty() {
            return line;
        }
    };
    assert!(next().starts_with("+FULLRESYNC"));
    let bytes: usize = next().strip_prefix('$').and_then(|number| number.parse().ok()).expect("a length");
    stream.read_exact(&mut vec![0; bytes]).expect("the snapshot comes");
    replica
}

/// The end of this server's stream.
fn offset(client: &mut Client) -> u64 {
    client.info("replication", "master_repl_offset").parse().expect("a number")
}

#[test]
fn clients_wait_until_replicas_have_what_they_wrote() {
    for (threads, io) in [(1, "epoll"), (5, "auto")] {
        let primary = primary(threads, io, &[]);
        let client = &mut primary.client();
        check(client, "SET a 1", "OK");
        check(client, "WAIT 0 0", "(integer) 0");
        check(client, "WAIT 1 20", "(integer) 0");
        let replicas = [redis(&[]), redis(&[])];
        let [Some(first), Some(second)] = replicas else { return };
        follow(&first, &primary);
        check(client, "WAIT 1 0", "(integer) 1");
        follow(&second, &primary);
        expect_same(&first, &primary);
        expect_same(&second, &primary);
        let mut clients: Vec<Client> = (0..2 * threads).map(|_| primary.client()).collect();
        for round in 0..20 {
            for client in &mut clients {
                client.send(&format!("INCR round-{round}"));
                client.send("WAIT 2 0");
            }
            for client in &mut clients {
                client.receive();
                assert_eq!(client.receive(), Value::Int(2));
            }
            let (mut first, mut second) = (first.client(), second.client());
            let expected = format!("\"{}\"", clients.len());
            assert_eq!(first.show(&format!("GET round-{round}")), expected);
            assert_eq!(second.show(&format!("GET round-{round}")), expected);
        }
        second.signal(Signal::STOP);
        check(client, "SET a 2", "OK");
        check(client, "WAIT 1 0", "(integer) 1");
        check(client, "WAIT 2 50", "(integer) 1");
        check(client, "MULTI", "OK");
        ["SET a 3", "WAIT 2 0"].iter().for_each(|line| check(client, line, "QUEUED"));
        assert_eq!(client.show("EXEC"), "1) OK\n2) (integer) 1");
        let id = client.id();
        client.send("WAIT 2 0");
        eventually("it waits", || clients[0].field_of(id, "flags") == "b");
        check(&mut clients[0], &format!("CLIENT UNBLOCK {id} ERROR"), "(integer) 1");
        let unblocked = "(error) UNBLOCKED client unblocked via CLIENT UNBLOCK";
        assert_eq!(client.receive().to_string(), unblocked);
        client.send("WAIT 2 0");
        eventually("it waits", || clients[0].field_of(id, "flags") == "b");
        second.signal(Signal::CONT);
        assert_eq!(client.receive(), Value::Int(2));
        // A replica that has gone no longer counts.
        drop(second);
        eventually("it is gone", || clients[0].info("replication", "connected_slaves") == "1");
        check(client, "WAIT 2 20", "(integer) 1");
        assert_eq!(client.info("clients", "blocked_clients"), "0");
    }
}

#[test]
fn clients_wait_until_the_disks_of_replicas_have_what_they_wrote() {
    let scratch = Scratch::new("replicas-waitaof");
    let folder = scratch.path("");
    let primary = primary(3, "auto", &["--dir", &folder, "--appendonly", "yes"]);
    let client = &mut primary.client();
    let mut replicas = [silent_replica(&primary), silent_replica(&primary)];
    check(client, "SET a 1", "OK");
    assert_eq!(client.show("WAITAOF 1 0 0"), "1) (integer) 1\n2) (integer) 0");
    assert_eq!(client.show("WAITAOF 1 1 20"), "1) (integer) 1\n2) (integer) 0");
    let end = offset(client);
    for (durable, replica) in [(end, 0), (1, 1)] {
        replicas[replica].send(&format!("REPLCONF ACK {end} FACK {durable}"));
    }
    assert_eq!(client.show("WAITAOF 1 1 0"), "1) (integer) 1\n2) (integer) 1");
    assert_eq!(client.show("WAITAOF 0 2 20"), "1) (integer) 1\n2) (integer) 1");
    check(client, "WAIT 2 0", "(integer) 2");
    client.send("WAITAOF 0 2 0");
    replicas[1].send(&format!("REPLCONF ACK {end} FACK {end}"));
    assert_eq!(client.receive().to_string(), "1) (integer) 1\n2) (integer) 2");
    // The questions to replicas are in the journal.
    check(client, "DEBUG LOADAOF", "OK");
    check(client, "GET a", "\"1\"");
    for (line, error) in [
        ("WAIT x 0", "ERR value is not an integer or out of range"),
        ("WAIT 1 x", "ERR timeout is not an integer or out of range"),
        ("WAIT 1 -1", "ERR timeout is negative"),
        ("WAITAOF 2 0 0", "ERR value is out of range, value must between 0 and 1"),
        ("WAITAOF 0 -1 0", "ERR value is out of range, must be positive"),
    ] {
        check(client, line, &format!("(error) {error}"));
    }
}

#[test]
fn writes_are_refused_while_too_few_replicas_follow() {
    let asks = ["--min-replicas-to-write", "1", "--min-slaves-max-lag", "1"];
    let primary = primary(3, "auto", &asks);
    let client = &mut primary.client();
    let refused = "(error) NOREPLICAS Not enough good replicas to write.";
    let in_script = "EVAL \"return redis.call('set', KEYS[1], 1)\" 1 a";
    let expect_refused = |client: &mut Client| {
        check(client, "SET c 1", refused);
        check(client, "GET c", "(nil)");
        assert!(client.show(in_script).contains(&refused[8..]), "{}", client.show(in_script));
        check(client, "EVAL \"return redis.call('get', KEYS[1])\" 1 c", "(nil)");
        check(client, "EVAL \"#!lua\\nreturn 1\" 0", refused);
        check(client, "EVAL \"#!lua flags=no-writes\\nreturn 1\" 0", "(integer) 1");
        check(client, "MULTI", "OK");
        check(client, "DEL a", refused);
        check(client, "EXEC", "(error) EXECABORT Transaction discarded because of previous errors.");
        check(client, "PING", "PONG");
        assert_eq!(client.info("replication", "min_slaves_good_slaves"), "0");
    };
    expect_refused(client);
    let Some(replica) = redis(&[]) else { return };
    follow(&replica, &primary);
    let is_taken = |client: &mut Client| client.show("SET a 1") == "OK";
    eventually("it follows", || is_taken(client));
    assert_eq!(client.info("replication", "min_slaves_good_slaves"), "1");
    check(client, in_script, "OK");
    check(client, "WAIT 1 0", "(integer) 1");
    check(client, "MULTI", "OK");
    check(client, "INCR b", "QUEUED");
    replica.signal(Signal::STOP);
    let other = &mut primary.client();
    eventually("it is late", || other.show("DEL nothing") == refused);
    let aborted = "(error) EXECABORT Transaction discarded because of: ";
    check(client, "EXEC", &format!("{aborted}{}", &refused[8..]));
    expect_refused(client);
    check(client, "CONFIG SET min-slaves-to-write 0", "OK");
    check(client, "SET b 1", "OK");
    check(client, "CONFIG SET min-replicas-to-write 1", "OK");
    expect_refused(client);
    replica.signal(Signal::CONT);
    eventually("it follows again", || is_taken(client));
    drop(replica);
    eventually("it is gone", || client.show("DEL nothing") == refused);
    check(client, "CONFIG SET min-replicas-max-lag 0", "OK");
    check(client, "DEL b", "(integer) 1");
}

#[test]
fn replies_wait_for_replicas() {
    for fsync in ["no", "always"] {
        let scratch = Scratch::new(&format!("replicas-sync-{fsync}"));
        let folder = scratch.path("");
        let journal = if fsync == "always" { "yes" } else { "no" };
        let args = ["--dir", &folder, "--appendonly", journal, "--appendfsync", fsync];
        let primary = primary(3, "auto", &[&args[..], &["--repl-sync-replicas", "1"]].concat());
        let other = &mut primary.client();
        let refused = "(error) NOREPLICAS Not enough good replicas to write.";
        check(other, "SET a 1", refused);
        let mut replica = silent_replica(&primary);
        eventually("commands that write are run", || other.show("DEL nothing") == "(integer) 0");
        let before = offset(other);
        let mut writer = primary.client();
        writer.send("SET a 1");
        eventually("it is written", || offset(other) > before);
        let mut reader = primary.client();
        reader.send("GET a");
        let mut transaction = primary.client();
        ["MULTI", "GET a", "CLIENT UNPAUSE"].iter().for_each(|line| _ = transaction.call(line));
        transaction.send("EXEC");
        // The replica is asked. It has sent nothing so far.
        let (question, mut came) = (b"GETACK", Vec::new());
        while !came.ends_with(question) {
            let mut byte = [0];
            replica.stream().read_exact(&mut byte).expect("the stream goes on");
            came.push(byte[0]);
        }
        for client in [&mut writer, &mut reader, &mut transaction] {
            client.stream().set_nonblocking(true).expect("sockets can");
            let read = client.stream().read(&mut [0; 1]);
            assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "it tells nothing");
            client.stream().set_nonblocking(false).expect("sockets can");
        }
        check(other, "PING", "PONG");
        replica.send(&format!("REPLCONF ACK {}", offset(other)));
        assert_eq!(writer.receive().to_string(), "OK");
        assert_eq!(reader.receive().to_string(), "\"1\"");
        assert_eq!(transaction.receive().to_string(), "1) \"1\"\n2) OK");
        check(other, "GET a", "\"1\"");
        // A client that still waits when no replicas are required any more gets its reply.
        let before = offset(other);
        writer.send("SET a 2");
        eventually("it is written", || offset(other) > before);
        drop(replica);
        eventually("it is gone", || other.info("replication", "connected_slaves") == "0");
        check(other, "SET b 1", refused);
        check(other, "CONFIG SET repl-sync-replicas 0", "OK");
        assert_eq!(writer.receive().to_string(), "OK");
        check(other, "INCR a", "(integer) 3");
    }
}

#[test]
fn what_tells_only_of_channels_waits_for_no_replicas() {
    // One thread: a later reply has been sent later.
    let primary = primary(1, "auto", &["--repl-sync-replicas", "1"]);
    let mut replica = silent_replica(&primary);
    let other = &mut primary.client();
    eventually("commands that write are run", || other.show("DEL nothing") == "(integer) 0");
    // A Sentinel announces itself on a channel, over the connection on which it checks whether the server is alive. If that reply waited,
    // the Sentinel would consider the server down.
    let mut writer = primary.client();
    writer.send("SET {news}key 1");
    eventually("it is written", || other.show("INFO commandstats").contains("cmdstat_set:calls=1,"));
    let mut subscriber = primary.client();
    subscriber.send("SUBSCRIBE {news}");
    assert!(subscriber.receive().to_string().contains("subscribe"));
    check(other, "PUBLISH {news} first", "(integer) 1");
    assert!(subscriber.receive().to_string().contains("first"));
    check(other, "PUBSUB NUMSUB {news}", "1) \"{news}\"\n2) (integer) 1");
    // A client that reads in the same batch waits, and so does what it then publishes.
    let mut readers = [
        "PUBLISH {news} second\r\nGET {news}key\r\n",
        "GET {news}key\r\nPUBLISH {news} third\r\n",
        "MULTI\r\nGET {news}key\r\nPUBLISH {news} fourth\r\nEXEC\r\n",
    ]
    .map(|requests| {
        let mut reader = primary.client();
        reader.stream().write_all(requests.as_bytes()).expect("the server is there");
        reader
    });
    eventually("all have read", || other.show("INFO commandstats").contains("cmdstat_get:calls=3,"));
    check(other, "PING", "PONG");
    for client in readers.iter_mut().chain([&mut subscriber]) {
        client.stream().set_nonblocking(true).expect("sockets can");
        let read = client.stream().read(&mut [0; 1]);
        assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "it tells nothing");
        client.stream().set_nonblocking(false).expect("sockets can");
    }
    replica.send(&format!("REPLCONF ACK {}", offset(other)));
    assert_eq!(writer.receive().to_string(), "OK");
    let [first, second, third] = &mut readers;
    assert_eq!([first.receive(), first.receive()].map(|reply| reply.to_string()), ["(integer) 1", "\"1\""]);
    assert_eq!([second.receive(), second.receive()].map(|reply| reply.to_string()), ["\"1\"", "(integer) 1"]);
    (0..3).for_each(|_| drop(third.receive()));
    assert_eq!(third.receive().to_string(), "1) \"1\"\n2) (integer) 1");
    for message in ["second", "third", "fourth"] {
        assert!(subscriber.receive().to_string().contains(message));
    }
}

#[test]
fn who_waits_for_replicas_of_a_server_that_is_one_by_now_is_told_nothing() {
    let primary = primary(3, "auto", &["--repl-sync-replicas", "1"]);
    let _replica = silent_replica(&primary);
    let other = &mut primary.client();
    eventually("commands that write are run", || other.show("DEL nothing") == "(integer) 0");
    let mut writers = [(); 4].map(|()| primary.client());
    writers.iter_mut().for_each(|writer| writer.send("INCR held"));
    let counted = |client: &mut Client| client.show("INFO commandstats").contains("cmdstat_incr:calls=4,");
    eventually("all have written", || counted(other));
    check(other, "REPLICAOF 127.0.0.1 1", "OK");
    writers.iter_mut().for_each(Client::expect_end);
    check(other, "PING", "PONG");
}

#[test]
fn what_was_acknowledged_is_on_as_many_replicas() {
    let mut primary = primary(3, "auto", &["--repl-sync-replicas", "2"]);
    let replicas = [redis(&[]), redis(&[])];
    let [Some(first), Some(second)] = replicas else { return };
    follow(&first, &primary);
    follow(&second, &primary);
    let client = &mut primary.client();
    eventually("commands that write are run", || client.show("DEL nothing") == "(integer) 0");
    let clients: Vec<Client> = (0..4).map(|_| primary.client()).collect();
    let counts: Vec<i64> = std::thread::scope(|scope| {
        let count = |(key, mut client): (usize, Client)| {
            scope.spawn(move || {
                let mut last = 0;
                let request = format!("INCR count-{key}\r\n");
                while client.stream().write_all(request.as_bytes()).is_ok() {
                    match client.try_receive() {
                        Some(Value::Int(number)) => last = number,
                        Some(other) => panic!("no number: {other}"),
                        None => break,
                    }
                }
                last
            })
        };
        let counting: Vec<_> = clients.into_iter().enumerate().map(count).collect();
        let counted = |client: &mut Client| client.show("GET count-3").trim_matches('"').parse().unwrap_or(0);
        eventually("they count", || counted(client) > 50);
        primary.signal(Signal::KILL);
        counting.into_iter().map(|thread| thread.join().expect("it counts")).collect()
    });
    primary.wait();
    for replica in [&first, &second] {
        for (key, count) in counts.iter().enumerate() {
            let found = replica.client().show(&format!("GET count-{key}"));
            let found: i64 = found.trim_matches('"').parse().expect("a number");
            assert!(found >= *count, "{found} of {count}");
        }
    }
}
