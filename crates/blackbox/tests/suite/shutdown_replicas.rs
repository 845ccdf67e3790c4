//! A primary that shuts down leaves its replicas everything that it has acknowledged.

use std::sync::atomic::{AtomicU64, Ordering};

use blackbox::replication::{follow, is_up, redis};
use blackbox::{Server, Signal, check, eventually};

const OPTIONS: [&str; 2] = ["--repl-diskless-sync-delay", "0"];

/// Lets clients increment a counter while `end` ends the primary. Returns how many of their requests were
/// answered.
fn answered_until(primary: Server, end: impl FnOnce(&Server)) -> u64 {
    let mut primary = primary;
    let answered = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let mut client = primary.client();
            let answered = &answered;
            scope.spawn(move || {
                while client.try_show("INCR counter").is_some_and(|reply| reply.starts_with("(integer)")) {
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        eventually("they count", || answered.load(Ordering::Relaxed) > 300);
        end(&primary);
        assert!(primary.wait().success(), "{}", primary.log());
    });
    answered.into_inner()
}

#[test]
fn what_was_answered_is_on_replicas() {
    for round in 0..4 {
        let primary = Server::start(2, "auto", &OPTIONS);
        let Some(of_redis) = redis(&OPTIONS) else { return };
        let of_darter = Server::start(1, "epoll", &OPTIONS);
        for replica in [&*of_redis, &of_darter] {
            follow(replica, &primary);
            eventually("it follows", || is_up(replica));
        }
        let answered = answered_until(primary, |primary| match round % 2 {
            0 => primary.signal(Signal::TERM),
            _ => primary.client().send("SHUTDOWN NOSAVE"),
        });
        for replica in [&*of_redis, &of_darter] {
            let counter: u64 =
                replica.client().show("GET counter").trim_matches('"').parse().expect("a number");
            assert!(counter >= answered, "{answered} were answered, {} has {counter}", replica.name());
        }
    }
}

#[test]
fn nobody_waits_for_ever() {
    let primary = Server::start(2, "auto", &[&OPTIONS[..], &["--shutdown-timeout", "60"]].concat());
    let replica = Server::start(1, "epoll", &OPTIONS);
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    replica.signal(Signal::STOP);
    let (mut client, mut asker) = (primary.client(), primary.client());
    check(&mut client, "SET a 1", "OK");
    asker.send("SHUTDOWN NOSAVE");
    eventually("it waits", || primary.log().contains("Waiting for replicas before shutting down"));
    let left_ms = client.info("server", "shutdown_in_milliseconds").parse().expect("it is a number");
    assert!((1..=60_000).contains(&left_ms), "{left_ms}");
    let mut writer = primary.client();
    writer.send("SET b 1");
    check(&mut client, "GET b", "(nil)");
    check(&mut client, "SHUTDOWN ABORT", "OK");
    eventually("it goes on", || !client.show("INFO server").contains("shutdown_in_milliseconds"));
    assert_eq!(writer.receive().to_string(), "OK", "it has waited");
    assert_eq!(asker.receive().to_string(), "(error) ERR Errors trying to SHUTDOWN. Check logs.");
    check(&mut client, "CONFIG SET shutdown-timeout 1", "OK");
    let mut primary = primary;
    primary.signal(Signal::TERM);
    assert!(primary.wait().success());
    assert!(primary.log().contains("Lagging replica 127.0.0.1:"), "{}", primary.log());
    replica.signal(Signal::CONT);
}

/// The reply of a shutdown that is refused.
const REFUSED: &str = "(error) ERR Errors trying to SHUTDOWN. Check logs.";

#[test]
fn a_safe_shutdown_keeps_data_that_are_nowhere_else() {
    let alone = &["--save", ""][..];
    let mut primary = Server::start(2, "auto", &[&OPTIONS[..], alone].concat());
    let mut client = primary.client();
    for request in ["SHUTDOWN SAFE", "SHUTDOWN SAFE NOSAVE", "SHUTDOWN NOW SAFE"] {
        check(&mut client, request, REFUSED);
    }
    check(&mut client, "CONFIG SET shutdown-on-sigterm safe", "OK");
    let refused = || primary.log().matches("SHUTDOWN SAFE: neither a disk nor a replica").count();
    primary.signal(Signal::TERM);
    eventually("the signal is refused, too", || refused() == 4);
    check(&mut client, "SET key value", "OK");
    let replica = Server::start(1, "epoll", &[&OPTIONS[..], alone].concat());
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    check(&mut client, "SHUTDOWN NOW SAFE", REFUSED);
    primary.client().send("SHUTDOWN SAFE");
    assert!(primary.wait().success(), "{}", primary.log());
    check(&mut replica.client(), "GET key", "\"value\"");
    // What a replica without its primary has may be nowhere else.
    eventually("it has noticed", || !is_up(&replica));
    check(&mut replica.client(), "SHUTDOWN SAFE", REFUSED);
    let mut replica = replica;
    replica.client().send("SHUTDOWN SAFE FORCE");
    assert!(replica.wait().success(), "{}", replica.log());
}

#[test]
fn a_shutdown_hands_over_first() {
    let mut primary = Server::start(2, "auto", &OPTIONS);
    let mut client = primary.client();
    check(&mut client, "SHUTDOWN NOSAVE FAILOVER", REFUSED);
    assert!(
        primary.log().contains("SHUTDOWN FAILOVER: ERR FAILOVER requires connected replicas."),
        "{}",
        primary.log()
    );
    let replica = Server::start(1, "epoll", &OPTIONS);
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    check(&mut client, "SET key value", "OK");
    primary.client().send("SHUTDOWN NOSAVE FAILOVER SAFE");
    assert!(primary.wait().success(), "{}", primary.log());
    assert!(primary.log().contains("Failover completed"), "{}", primary.log());
    let mut client = replica.client();
    assert_eq!(client.info("replication", "role"), "master");
    check(&mut client, "APPEND key s", "(integer) 6");
}

#[test]
fn a_shutdown_that_cannot_hand_over_goes_on_serving() {
    let primary = Server::start(2, "auto", &[&OPTIONS[..], &["--shutdown-timeout", "1"]].concat());
    let replica = Server::start(1, "epoll", &OPTIONS);
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    let (mut client, mut asker) = (primary.client(), primary.client());
    replica.signal(Signal::STOP);
    check(&mut client, "SET key value", "OK");
    asker.send("SHUTDOWN NOSAVE FAILOVER");
    assert_eq!(asker.receive().to_string(), REFUSED);
    assert!(primary.log().contains("SHUTDOWN FAILOVER: no replica took over"), "{}", primary.log());
    check(&mut client, "APPEND key s", "(integer) 6");
    assert_eq!(client.info("replication", "role"), "master");
    replica.signal(Signal::CONT);
}
