//! MIGRATE between Darter and real servers, Redis among them, both ways.

use std::io::Write;
use std::net::TcpListener;

use blackbox::{Client, Server, check, eventually, oracle};

/// Keys of every type.
const KEYS: &[&str] = &[
    "SET string text",
    "SET number 12345",
    "RPUSH list a b c",
    "SADD set a b 1",
    "ZADD zset 1 a 2.5 b",
    "HSET hash f v g w",
    "XADD stream 1-1 f v",
    "XGROUP CREATE stream g 0",
];
const NAMES: &str = "string number list set zset hash stream";

fn fill(client: &mut Client) {
    for line in KEYS {
        client.call(line);
    }
    check(client, "PEXPIRE number 100000000", "(integer) 1");
}

fn digest(client: &mut Client) -> String {
    client.show("DEBUG DIGEST")
}

#[test]
fn keys_of_every_type_go_to_another_server_and_come_back() {
    let Some(redis) = oracle() else { return };
    for darter in [Server::start(4, "auto", &[]), Server::start(2, "epoll", &["--shard-entry=home"])] {
        let other = Server::start(1, "auto", &[]);
        for target in [&redis, &other] {
            let (ours, theirs) = (&mut darter.client(), &mut target.client());
            fill(ours);
            let before = digest(ours);
            let (here, there) = (darter.port(), target.port());
            check(ours, &format!("MIGRATE 127.0.0.1 {there} \"\" 3 5000 KEYS none {NAMES}"), "OK");
            check(ours, "DBSIZE", "(integer) 0");
            check(theirs, "SELECT 3", "OK");
            check(theirs, "XINFO GROUPS stream", &ours_groups(&darter));
            let back = format!("MIGRATE 127.0.0.1 {here} \"\" 0 5000 KEYS {NAMES}");
            check(theirs, &back, "OK");
            check(theirs, "DBSIZE", "(integer) 0");
            assert_eq!(digest(ours), before);
            check(ours, "FLUSHALL", "OK");
        }
    }
}

/// The reply of `XINFO GROUPS` about the group in [`KEYS`].
fn ours_groups(darter: &Server) -> String {
    let client = &mut darter.client();
    client.call("XADD groups 1-1 f v");
    client.call("XGROUP CREATE groups g 0");
    let shown = client.show("XINFO GROUPS groups");
    client.call("DEL groups");
    shown
}

#[test]
fn options_are_minded() {
    let Some(redis) = oracle() else { return };
    let darter = Server::start(2, "auto", &[]);
    let (ours, theirs, port) = (&mut darter.client(), &mut redis.client(), redis.port());
    check(ours, &format!("MIGRATE 127.0.0.1 {port} k 0 1000"), "NOKEY");
    check(ours, "SET k new", "OK");
    check(theirs, "SET k old", "OK");
    let busy = "(error) ERR Target instance replied with error: BUSYKEY Target key name already exists.";
    check(ours, &format!("MIGRATE 127.0.0.1 {port} k 0 1000"), busy);
    check(ours, "GET k", "\"new\"");
    check(ours, &format!("MIGRATE 127.0.0.1 {port} k 0 1000 COPY REPLACE"), "OK");
    check(ours, "GET k", "\"new\"");
    check(theirs, "GET k", "\"new\"");
    // With several keys, those that the target accepts are moved.
    check(ours, "MSET k again l text", "OK");
    check(ours, &format!("MIGRATE 127.0.0.1 {port} \"\" 0 1000 KEYS k l"), busy);
    check(ours, "EXISTS k", "(integer) 1");
    check(ours, "EXISTS l", "(integer) 0");
    check(theirs, "GET l", "\"text\"");
    // A key of this name, and one twice.
    check(ours, "MSET KEYS 1 b 2", "OK");
    check(ours, &format!("MIGRATE 127.0.0.1 {port} \"\" 0 1000 REPLACE KEYS b KEYS b"), "OK");
    check(theirs, "MGET KEYS b", "1) \"1\"\n2) \"2\"");
    check(ours, "EXISTS KEYS b", "(integer) 0");
    let out_of_range = "(error) ERR Target instance replied with error: ERR DB index is out of range";
    check(ours, &format!("MIGRATE 127.0.0.1 {port} k 999 1000"), out_of_range);
}

#[test]
fn credentials_are_sent() {
    let Some(redis) = oracle() else { return };
    let target = Server::redis_with(&["--requirepass", "secret"]).expect("redis-server starts");
    drop(redis);
    let darter = Server::start(2, "auto", &[]);
    let (ours, port) = (&mut darter.client(), target.port());
    check(ours, "SET k v", "OK");
    let error = |text: &str| format!("(error) ERR Target instance replied with error: {text}");
    for (options, expected) in [
        ("", error("NOAUTH Authentication required.")),
        ("AUTH wrong", error("WRONGPASS invalid username-password pair or user is disabled.")),
        ("AUTH2 default wrong", error("WRONGPASS invalid username-password pair or user is disabled.")),
        ("COPY AUTH secret", "OK".to_owned()),
        ("REPLACE AUTH2 default secret", "OK".to_owned()),
        ("AUTH secret", "NOKEY".to_owned()),
    ] {
        check(ours, &format!("MIGRATE 127.0.0.1 {port} k 0 1000 {options}"), &expected);
    }
}

#[test]
fn what_is_wrong_is_said_as_by_redis() {
    let Some(redis) = oracle() else { return };
    let darter = Server::start(2, "auto", &[]);
    let (ours, theirs) = (&mut darter.client(), &mut redis.client());
    for client in [&mut *ours, &mut *theirs] {
        client.call("SET k v");
    }
    let closed = blackbox::free_port().expect("there are ports");
    for line in [
        "MIGRATE h 1 k 0",
        "MIGRATE h 1 k x 1",
        "MIGRATE h 1 k 0 x",
        "MIGRATE h 1 k 0 1 NONSENSE",
        "MIGRATE h 1 k 0 1 AUTH",
        "MIGRATE h 1 k 0 1 AUTH2 a",
        "MIGRATE h 1 k 0 1 KEYS k",
        "MIGRATE h 1 none 0 1",
        "MIGRATE h 1 \"\" 0 1 KEYS",
        "MIGRATE h 1 \"\" 0 1 AUTH KEYS KEYS none",
        "COMMAND GETKEYS MIGRATE h 1 k 0 1",
        "COMMAND GETKEYS MIGRATE h 1 \"\" 0 1 COPY KEYS a b",
    ] {
        assert_eq!(ours.show(line), theirs.show(line), "{line}");
    }
    // To Redis a refused connection is one that does not take what is written.
    let connecting = "(error) IOERR error or timeout connecting to the client";
    check(ours, &format!("MIGRATE 127.0.0.1 {closed} k 0 1000"), connecting);
    check(ours, "MULTI", "OK");
    let refused = "(error) ERR Command not allowed inside a transaction";
    check(ours, "MIGRATE h 1 k 0 1", refused);
    check(ours, "DISCARD", "OK");
    let refused = ours.show("EVAL \"return redis.call('MIGRATE', 'h', 1, 'k', 0, 1)\" 0");
    assert!(refused.contains("not allowed from script"), "{refused}");
}

/// A target that takes connections and says what it is told to, no more.
fn silent_target() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let port = listener.local_addr().expect("it is bound").port();
    (listener, port)
}

#[test]
fn a_target_that_says_nothing_times_out_and_nothing_is_lost() {
    let darter = Server::start(2, "auto", &[]);
    let ours = &mut darter.client();
    let (_listener, port) = silent_target();
    check(ours, "MSET a 1 b 2", "OK");
    let reading = "(error) IOERR error or timeout reading to target instance";
    check(ours, &format!("MIGRATE 127.0.0.1 {port} \"\" 0 20 KEYS a b"), reading);
    check(ours, "MGET a b", "1) \"1\"\n2) \"2\"");
    assert_eq!(ours.info("commandstats", "cmdstat_migrate").split(',').next(), Some("calls=1"));
}

#[test]
fn others_are_served_meanwhile_and_what_they_change_is_sent_again() {
    let darter = Server::start(1, "auto", &[]);
    let (mover, other) = (&mut darter.client(), &mut darter.client());
    let (listener, port) = silent_target();
    check(other, "MSET a 1 b 2 c 3", "OK");
    mover.send(&format!("MIGRATE 127.0.0.1 {port} \"\" 0 20000 KEYS a b c"));
    let mut first = Client::over(listener.accept().expect("it comes").0);
    for expected in ["[SELECT 0]", "[RESTORE a 0", "[RESTORE b 0", "[RESTORE c 0"] {
        expect_request(&mut first, expected);
    }
    // The keys are not held meanwhile.
    check(other, "APPEND a x", "(integer) 2");
    check(other, "DEL b", "(integer) 1");
    first.stream().write_all(b"+OK\r\n+OK\r\n+OK\r\n+OK\r\n").expect("it listens");
    let mut second = Client::over(listener.accept().expect("it comes again").0);
    for expected in ["[SELECT 0]", "[RESTORE a 0", "[DEL b]"] {
        expect_request(&mut second, expected);
    }
    check(other, "EXISTS a c", "(integer) 2");
    second.stream().write_all(b"+OK\r\n+OK\r\n:1\r\n").expect("it listens");
    assert_eq!(mover.receive().to_string(), "OK");
    check(other, "EXISTS a b c", "(integer) 0");
}

#[test]
fn the_keys_of_a_client_that_is_gone_stay() {
    let darter = Server::start(2, "auto", &[]);
    let mut mover = darter.client();
    let other = &mut darter.client();
    let (listener, port) = silent_target();
    check(other, "SET a 1", "OK");
    let id = mover.id();
    mover.send(&format!("MIGRATE 127.0.0.1 {port} a 0 20000"));
    let mut target = Client::over(listener.accept().expect("it comes").0);
    expect_request(&mut target, "[SELECT 0]");
    mover.reset();
    eventually("the client is gone", || other.field_of(id, "id").is_empty());
    target.stream().write_all(b"+OK\r\n+OK\r\n").expect("it listens");
    check(other, "GET a", "\"1\"");
}

/// Reads a request, shown as words in brackets, which must begin with `beginning`.
#[track_caller]
fn expect_request(target: &mut Client, beginning: &str) {
    let resp::Value::Array(words) = target.receive() else { panic!("no request") };
    let words: Vec<String> = words.iter().map(blackbox::text).collect();
    let shown = format!("[{}]", words.join(" "));
    assert!(shown.starts_with(beginning), "{shown} for {beginning}");
}
