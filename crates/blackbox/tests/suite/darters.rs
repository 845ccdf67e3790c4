//! Darters as replicas of Darters lose nothing, not even what Redis has no commands for: when fields of hashes expire, and what memcached's
//! clients attach to items. They keep it across restarts and when they take over.

use std::io::{Read, Write};
use std::net::TcpStream;

use blackbox::replication::{expect_same, follow, is_up, redis};
use blackbox::{PATIENCE, Scratch, Server, Signal, check, eventually, free_port};
use resp::Value;

/// The end of replies of memcached's protocol in these tests.
const END: &[u8] = b"MN\r\n";
const FIELDS: &str = "FIELDS 7 a b c d e f g";

/// A server that also accepts memcached's clients.
struct Darter {
    server: Server,
    memcached_port: u16,
}

impl std::ops::Deref for Darter {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Darter {
    fn start(threads: usize, io: &str, more: &[&str]) -> Darter {
        let memcached_port = free_port().expect("some port is free");
        let port = memcached_port.to_string();
        let own = ["--repl-diskless-sync-delay", "0", "--memcached-port", &port];
        Darter { server: Server::start(threads, io, &[&own, more].concat()), memcached_port }
    }

    /// Sends requests of memcached's protocol.
    fn ask(&self, requests: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.memcached_port)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("sockets have a timeout");
        stream.write_all(format!("{requests}mn\r\n").as_bytes()).expect("it reads");
        let (mut replies, mut byte) = (Vec::new(), [0]);
        while !replies.ends_with(END) {
            stream.read_exact(&mut byte).expect("it replies");
            replies.push(byte[0]);
        }
        String::from_utf8(replies).expect("it is text")
    }

    /// Writes data that only Darter supports, under keys that end with `name`.
    fn fill(&self, name: &str) {
        let mut client = self.client();
        for line in [
            "HSET small:{} a 1 b 2 c 3 d 4 e 5 f 6 g 7",
            "HPEXPIREAT small:{} 4000000000001 FIELDS 3 a b f",
            "HEXPIRE small:{} 100000 FIELDS 1 c",
            "HPERSIST small:{} FIELDS 1 b",
            "HSETEX small:{} KEEPTTL FIELDS 2 a kept g new",
            "HSETEX small:{} EX 50000 FIELDS 1 d later",
            "HGETEX small:{} PX 90000000 FIELDS 1 e",
            "HSET small:{} f again",
            "HSET gone:{} a 1 b 2",
            "HPEXPIRE gone:{} 1 FIELDS 1 a",
        ] {
            let reply = client.call(&line.replace("{}", name));
            assert!(!matches!(reply, Value::Error(_)), "{line}: {reply}");
        }
        let many: Vec<String> = (0..700).map(|number| format!("f{number} {number}")).collect();
        client.call(&format!("HSET large:{name} a 1 b 2 c 3 {}", many.join(" ")));
        client.call(&format!("HPEXPIREAT large:{name} 4000000000002 FIELDS 3 a f7 f699"));
        let replies = self.ask(
            &"set one:{} 77 0 3\r\nabc\r\nset two:{} 0 0 1\r\n2\r\nset three:{} 9 100000 2\r\n33\r\n\
             set four:{} 4 0 1\r\n4\r\nms five:{} 2 F1234 c\r\n55\r\n"
                .replace("{}", name),
        );
        assert_eq!(replies.matches("STORED\r\n").count(), 4, "{replies}");
        // These cas numbers were seen, so they must not be reused. One item is stale from now on.
        self.ask(&format!("gets one:{name} two:{name} three:{name}\r\nmd three:{name} I\r\n"));
        // An item that Redis' commands overwrite loses its marks.
        check(&mut client, &format!("SET four:{name} 4"), "OK");
    }

    /// The data that only Darter supports, of the keys that end with `name`.
    fn own(&self, name: &str) -> String {
        let mut client = self.client();
        let times: Vec<String> = ["small", "gone", "large"]
            .map(|key| client.show(&format!("HPEXPIRETIME {key}:{name} {FIELDS}")))
            .to_vec();
        let many = client.show(&format!("HPEXPIRETIME large:{name} FIELDS 3 f7 f8 f699"));
        let items = self.ask(&"gets one:{} two:{} three:{} five:{}\r\nget four:{}\r\n".replace("{}", name));
        format!("{}\n{many}\n{items}", times.join("\n"))
    }
}

/// Waits until Redis has the same data. Redis does not know which fields expire, and the digest includes that, so expiries are removed from
/// the keys with these names first.
fn expect_known_same(redis: &Server, primary: &Darter, names: &[&str]) {
    for name in names {
        for (key, fields) in [("small", FIELDS), ("large", "FIELDS 3 a f7 f699")] {
            primary.client().call(&format!("HPERSIST {key}:{name} {fields}"));
        }
    }
    // Redis only counts newlines in the stream once a command follows them.
    check(&mut primary.client(), "SET behind newlines", "OK");
    expect_same(redis, primary);
}

/// Writes more than the backlog keeps in memory.
fn push_out(primary: &Server) {
    let mut client = primary.client();
    for number in 0..40 {
        check(&mut client, &format!("SET pad:{number} {}", "x".repeat(1000)), "OK");
    }
}

/// Waits until both have the same data, then checks that what only Darter supports is the same.
fn expect_all_same(replica: &Darter, primary: &Darter, names: &[&str]) {
    expect_same(replica, primary);
    for name in names {
        let own = primary.own(name);
        assert!(own.contains("4000000000001") && own.contains("4000000000002"), "{own}");
        assert!(own.contains(&format!("VALUE one:{name} 77 3 ")), "{own}");
        assert_eq!(replica.own(name), own);
    }
}

#[test]
fn a_replica_has_everything_by_its_snapshot_and_by_the_stream() {
    for (threads, io, diskless) in [(1, "epoll", "yes"), (3, "auto", "no")] {
        let primary = Darter::start(2, "auto", &["--repl-diskless-sync", diskless]);
        let replica = Darter::start(threads, io, &[]);
        primary.fill("snapshot");
        follow(&replica, &primary);
        eventually("it follows", || is_up(&replica));
        primary.fill("stream");
        expect_all_same(&replica, &primary, &["snapshot", "stream"]);
        let own = ["snapshot", "stream"].map(|name| primary.own(name));
        // The replica takes over.
        drop(primary);
        check(&mut replica.client(), "REPLICAOF NO ONE", "OK");
        assert_eq!(["snapshot", "stream"].map(|name| replica.own(name)), own);
        let (stale, next) = ("VA 2 f9 X W\r\n33\r\n", "VA 2 f9 Z X\r\n33\r\n");
        for name in ["snapshot", "stream"] {
            let replies = replica.ask(&format!("mg three:{name} f v\r\nmg three:{name} f v\r\n"));
            assert_eq!(replies, format!("{stale}{next}MN\r\n"), "one client is told to fetch it anew");
        }
        // And it gets a replica itself.
        let next = Darter::start(2, "auto", &[]);
        follow(&next, &replica);
        eventually("it follows", || is_up(&next));
        replica.fill("taken-over");
        expect_all_same(&next, &replica, &["snapshot", "stream", "taken-over"]);
    }
}

#[test]
fn fields_past_their_time_are_hidden_and_go_when_a_replica_takes_over() {
    let (primary, replica) = (Darter::start(2, "auto", &[]), Darter::start(2, "epoll", &[]));
    let mut client = primary.client();
    check(&mut client, "HSET snapshot a 1 b 2", "(integer) 2");
    check(&mut client, "HPEXPIRE snapshot 2000 FIELDS 1 a", "1) (integer) 1");
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    check(&mut client, "HSET stream a 1 b 2", "(integer) 2");
    check(&mut client, "HPEXPIRE stream 2000 FIELDS 1 a", "1) (integer) 1");
    check(&mut client, "WAIT 1 0", "(integer) 1");
    // The primary says nothing any more, not even that the fields have expired.
    primary.signal(Signal::STOP);
    let mut client = replica.client();
    for key in ["snapshot", "stream"] {
        eventually("it is hidden", || client.show(&format!("HGET {key} a")) == "(nil)");
        check(&mut client, &format!("HLEN {key}"), "(integer) 1");
    }
    check(&mut client, "REPLICAOF NO ONE", "OK");
    for key in ["snapshot", "stream"] {
        check(&mut client, &format!("HGETALL {key}"), "1) \"b\"\n2) \"2\"");
    }
    primary.signal(Signal::CONT);
}

#[test]
fn the_journal_of_a_replica_has_everything() {
    let scratch = Scratch::new("darters-journal");
    let folder = scratch.path("");
    let options = ["--dir", &folder, "--appendonly", "yes"];
    let primary = Darter::start(2, "auto", &[]);
    let mut replica = Darter::start(3, "auto", &options);
    primary.fill("base");
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    eventually("what comes has a base", || {
        replica.client().info("persistence", "aof_rewrite_in_progress") == "0"
            && replica.client().info("persistence", "aof_enabled") == "1"
    });
    primary.fill("journal");
    expect_all_same(&replica, &primary, &["base", "journal"]);
    eventually("it is written", || replica.client().info("persistence", "aof_buffer_length") == "0");
    replica.server.signal(Signal::KILL);
    replica.server.wait();
    let again = Darter::start(1, "epoll", &options);
    eventually("it has loaded", || again.client().info("persistence", "loading") == "0");
    for name in ["base", "journal"] {
        assert_eq!(again.own(name), primary.own(name));
    }
}

#[test]
fn a_link_that_was_cut_goes_on_with_everything() {
    let primary = Darter::start(2, "auto", &["--repl-backlog-size", "64mb"]);
    let replica = Darter::start(2, "epoll", &[]);
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    let mut client = primary.client();
    for (round, name) in ["one", "two"].into_iter().enumerate() {
        check(&mut replica.client(), "REPLICAOF 127.0.0.1 1", "OK");
        eventually("it is away", || client.info("replication", "connected_slaves") == "0");
        primary.fill(name);
        follow(&replica, &primary);
        eventually("it is back", || is_up(&replica));
        assert_eq!(client.info("stats", "sync_partial_ok"), (round + 1).to_string());
    }
    expect_all_same(&replica, &primary, &["one", "two"]);
    assert_eq!(client.info("stats", "sync_full"), "1");
}

#[test]
fn what_comes_from_the_journal_of_the_primary_has_everything() {
    let scratch = Scratch::new("darters-behind");
    let folder = scratch.path("");
    let options = ["--dir", &folder, "--appendonly", "yes", "--repl-backlog-size", "16kb"];
    let (primary, replica) = (Darter::start(2, "epoll", &options), Darter::start(2, "auto", &[]));
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    let mut client = primary.client();
    check(&mut replica.client(), "REPLICAOF 127.0.0.1 1", "OK");
    eventually("it is away", || client.info("replication", "connected_slaves") == "0");
    primary.fill("away");
    push_out(&primary);
    let number = |text: String| text.parse::<u64>().expect("a number");
    let behind = number(replica.client().info("replication", "master_repl_offset"));
    eventually("memory has it no more", || {
        number(client.info("replication", "repl_backlog_first_byte_offset")) > behind + 1
    });
    follow(&replica, &primary);
    eventually("it is back", || is_up(&replica));
    expect_all_same(&replica, &primary, &["away"]);
    assert_eq!(client.info("stats", "sync_partial_ok"), "1");
    assert_eq!(client.info("stats", "sync_full"), "1");
}

/// A replica in the middle passes on what Redis supports, at the same offsets: both what it has copied and its own changes.
#[test]
fn redis_behind_a_replica_has_what_it_knows() {
    let scratch = Scratch::new("darters-chain");
    let folder = scratch.path("");
    let options = ["--dir", &folder, "--appendonly", "yes", "--repl-backlog-size", "16kb"];
    let (primary, middle) = (Darter::start(2, "auto", &[]), Darter::start(2, "epoll", &options));
    let Some(last) = redis(&[]) else { return };
    primary.fill("before");
    follow(&middle, &primary);
    eventually("the middle follows", || is_up(&middle));
    // Its journal is restarted with the data that it was sent.
    eventually("it has a base", || {
        middle.log().contains("append only file rewriting terminated with success")
    });
    follow(&last, &middle);
    eventually("the last one follows", || is_up(&last));
    primary.fill("stream");
    expect_all_same(&middle, &primary, &["before", "stream"]);
    expect_known_same(&last, &primary, &["before", "stream"]);
    // The last one lacks more than the middle one has in memory.
    let mut client = middle.client();
    check(&mut last.client(), "REPLICAOF 127.0.0.1 1", "OK");
    eventually("it is away", || client.info("replication", "connected_slaves") == "0");
    primary.fill("away");
    push_out(&primary);
    expect_all_same(&middle, &primary, &["away"]);
    follow(&last, &middle);
    expect_known_same(&last, &primary, &["away"]);
    expect_same(&middle, &primary);
    assert_eq!(client.info("stats", "sync_full"), "1");
    // The middle one takes over.
    drop(primary);
    check(&mut client, "REPLICAOF NO ONE", "OK");
    middle.fill("taken-over");
    expect_known_same(&last, &middle, &["taken-over"]);
    assert_eq!(client.info("stats", "sync_full"), "1");
}

#[test]
fn replicas_that_want_the_same_share_a_snapshot() {
    let primary = Darter::start(2, "auto", &["--repl-diskless-sync-delay", "1"]);
    let Some(redis) = redis(&[]) else { return };
    let darters = [Darter::start(2, "auto", &[]), Darter::start(1, "epoll", &[])];
    primary.fill("snapshot");
    for replica in [&darters[0].server, &redis, &darters[1].server] {
        follow(replica, &primary);
    }
    for replica in &darters {
        expect_all_same(replica, &primary, &["snapshot"]);
    }
    expect_known_same(&redis, &primary, &["snapshot"]);
    let log = primary.log();
    assert!(log.contains("starting a snapshot for 2 replicas"), "{log}");
    assert!(log.contains("starting a snapshot for 1 replicas"), "{log}");
}

const NO_DISKS: &str = "(error) NOREPLICAS Not enough good replicas to write: repl-sync-ack is durable, so only replicas count that sync a journal (appendfsync is not no) to a disk that keeps up.";

#[test]
fn replies_wait_until_it_is_on_the_disks_of_replicas() {
    for (threads, fsync) in [(1, "always"), (3, "everysec")] {
        let scratch = Scratch::new(&format!("darters-durable-{fsync}"));
        let folder = scratch.path("");
        let primary =
            Darter::start(threads, "auto", &["--repl-sync-replicas", "1", "--repl-sync-ack", "durable"]);
        let journal = ["--dir", &folder, "--appendonly", "yes", "--appendfsync", fsync];
        let (without, mut with) = (Darter::start(2, "epoll", &[]), Darter::start(2, "auto", &journal));
        let mut client = primary.client();
        check(&mut client, "SET a 1", "(error) NOREPLICAS Not enough good replicas to write.");
        follow(&without, &primary);
        eventually("it follows", || is_up(&without));
        // The replica has no journal, and no client waits for one.
        eventually("it is told why", || client.show("SET a 1") == NO_DISKS);
        assert!(primary.ask("set item 0 0 1\r\n1\r\n").contains(&NO_DISKS["(error) ".len()..]));
        assert_eq!(client.info("replication", "repl_sync_good_replicas"), "0");
        check(&mut client, "CONFIG SET repl-sync-ack applied", "OK");
        check(&mut client, "SET a 1", "OK");
        assert_eq!(client.info("replication", "repl_sync_good_replicas"), "1");
        check(&mut client, "CONFIG SET repl-sync-ack durable", "OK");
        check(&mut client, "SET a 2", NO_DISKS);
        check(&mut client, "GET a", "\"1\"");
        follow(&with, &primary);
        eventually("it has a disk", || client.show("SET a 2") == "OK");
        assert_eq!(client.info("replication", "repl_sync_good_replicas"), "1");
        assert!(client.info("replication", "slave1").contains(",durable_offset="));
        assert!(!client.info("replication", "slave0").contains("durable"));
        // Acknowledged elements survive on the replica.
        for number in 0..20 {
            check(&mut client, &format!("RPUSH list {number}"), &format!("(integer) {}", number + 1));
            if fsync == "everysec" && number > 0 {
                break;
            }
        }
        check(&mut client, "WAITAOF 0 1 0", "1) (integer) 0\n2) (integer) 1");
        with.server.signal(Signal::KILL);
        with.server.wait();
        let length = client.show("LLEN list");
        // No replica is left whose disk could have it.
        eventually("it is told why", || client.show("DEL nothing") == NO_DISKS);
        let again = Darter::start(1, "epoll", &journal);
        eventually("it has loaded", || again.client().info("persistence", "loading") == "0");
        check(&mut again.client(), "LLEN list", &length);
        follow(&again, &primary);
        eventually("it has a disk", || client.show("SET a 3") == "OK");
        // A journal that is not synced, and one that is turned off.
        check(&mut again.client(), "CONFIG SET appendfsync no", "OK");
        eventually("it is told why", || client.show("DEL nothing") == NO_DISKS);
        check(&mut again.client(), "CONFIG SET appendfsync everysec", "OK");
        eventually("it has a disk", || client.show("SET a 4") == "OK");
        check(&mut again.client(), "CONFIG SET appendonly no", "OK");
        eventually("it is told why", || client.show("DEL nothing") == NO_DISKS);
    }
}
