//! Offsets of replication as operators use them: stop the writers, compare the offsets of the primary and the replica,
//! and promote the replica. Nothing that was acknowledged is lost.

use std::sync::atomic::{AtomicBool, Ordering};

use blackbox::replication::{expect_same, follow, is_up};
use blackbox::{Client, Scratch, Server, SetAtEnd, Signal, check, eventually, scale, text};
use resp::Value;

const OPTIONS: [&str; 4] = ["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb"];
/// Clients that write at the same time, each its own counter.
const WRITERS: usize = 4;
/// How often servers change places.
const ROUNDS: usize = 5;
/// Writes of each client before it is stopped.
const WRITES_MIN: u64 = 50;

/// A primary and its replica.
fn pair(more: &[&str]) -> [Server; 2] {
    let options = [&OPTIONS[..], more].concat();
    let servers = [4, 2].map(|threads| Server::start(threads, "auto", &options));
    follow(&servers[1], &servers[0]);
    eventually("it follows", || is_up(&servers[1]));
    servers
}

fn offset(client: &mut Client, field: &str) -> u64 {
    client.info("replication", field).parse().expect("a number")
}

/// Every command that shows an offset right after an acknowledged write shows one that includes it.
#[test]
fn an_offset_includes_what_was_acknowledged_before() {
    let [primary, _replica] = pair(&[]);
    let mut client = primary.client();
    let mut before = offset(&mut client, "master_repl_offset");
    let of_info = |info: &Value| {
        let text = text(info);
        let found = text.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
        found.expect("it is shown").parse::<u64>().expect("a number")
    };
    for number in 0..200 {
        // All requests use one connection, so they are handled in one turn.
        let ways = ["INFO replication", "ROLE", "EVAL \"return redis.call('INFO','replication')\" 0", "EXEC"];
        let way = ways[number % ways.len()];
        client.send(&format!("SET key:{} {}", number % 7, "x".repeat(number + 1)));
        if way == "EXEC" {
            ["MULTI", "INFO replication"].iter().for_each(|line| client.send(line));
        }
        client.send(way);
        assert_eq!(client.receive().to_string(), "OK");
        if way == "EXEC" {
            (0..2).for_each(|_| drop(client.receive()));
        }
        let after = match client.receive() {
            Value::Array(items) if way == "ROLE" => match items[1] {
                Value::Int(offset) => offset as u64,
                ref other => panic!("{other}"),
            },
            Value::Array(items) => of_info(&items[0]),
            info => of_info(&info),
        };
        assert!(after >= before + number as u64, "{way}: {before}, and {after} behind {number} bytes more");
        before = after;
    }
}

/// Increments a counter until told to stop, or until the server refuses or closes. Returns what was acknowledged.
fn count_up(server: &Server, number: usize, from: u64, is_over: &AtomicBool) -> u64 {
    let (mut client, mut acknowledged) = (server.client(), from);
    while !is_over.load(Ordering::Relaxed) || acknowledged < from + WRITES_MIN {
        client.send(&format!("INCR counter:{number}"));
        match client.try_receive() {
            Some(Value::Int(count)) => acknowledged = count as u64,
            Some(_) | None => break,
        }
    }
    acknowledged
}

/// Waits until the replica has what the primary shows, and promotes it. The former primary follows it.
fn hand_over(primary: &Server, replica: &Server) {
    let (mut ours, mut theirs) = (primary.client(), replica.client());
    let end = offset(&mut ours, "master_repl_offset");
    eventually("the offsets are equal", || offset(&mut theirs, "slave_repl_offset") >= end);
    check(&mut theirs, "REPLICAOF NO ONE", "OK");
    follow(primary, replica);
}

#[track_caller]
fn check_counters(server: &Server, acknowledged: &[u64]) {
    let mut client = server.client();
    for (number, count) in acknowledged.iter().enumerate() {
        let shown = client.show(&format!("GET counter:{number}"));
        // A writer that was stopped before its first write has no counter.
        let found = shown.trim_matches('"').parse::<u64>().unwrap_or(0);
        assert!(found >= *count, "counter {number} is {shown}, and {count} was acknowledged");
    }
}

/// Servers change places while clients write, who are stopped by their end or by `CLIENT PAUSE`.
fn change_places(more: &[&str], pauses: bool) {
    let [one, other] = pair(more);
    let mut acknowledged = vec![0; WRITERS];
    for round in 0..ROUNDS * scale() {
        let (primary, replica) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _end = SetAtEnd(&is_over, true);
            let start = |(number, from): (usize, &u64)| {
                let (from, is_over) = (*from, &is_over);
                scope.spawn(move || count_up(primary, number, from, is_over))
            };
            let writers: Vec<_> = acknowledged.iter().enumerate().map(start).collect();
            let mut client = primary.client();
            let first = acknowledged[0] + WRITES_MIN;
            // The counter is not there before the first write.
            eventually("they write", || {
                let count = client.show("GET counter:0");
                count.trim_matches('"').parse::<u64>().is_ok_and(|count| count > first)
            });
            is_over.store(!pauses, Ordering::Relaxed);
            let join = |writers: Vec<std::thread::ScopedJoinHandle<'_, u64>>| -> Vec<u64> {
                writers.into_iter().map(|writer| writer.join().expect("it ends")).collect()
            };
            if pauses {
                check(&mut client, "CLIENT PAUSE 1000000 WRITE", "OK");
                hand_over(primary, replica);
                // Writes that waited are refused.
                check(&mut primary.client(), "CLIENT UNPAUSE", "OK");
                acknowledged = join(writers);
            } else {
                acknowledged = join(writers);
                hand_over(primary, replica);
            }
        });
        check_counters(replica, &acknowledged);
        eventually("they have changed places", || is_up(primary));
    }
    expect_same(&one, &other);
}

#[test]
fn a_hand_over_by_offsets_loses_nothing() {
    change_places(&[], false);
}

#[test]
fn a_hand_over_by_offsets_behind_a_pause_loses_nothing() {
    change_places(&[], true);
}

/// Large writes between the moment of a snapshot and that at which it is sent, beside a small backlog.
#[test]
fn a_snapshot_is_sent_however_much_is_written_meanwhile() {
    let primary =
        Server::start(2, "auto", &["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "16kb"]);
    let (value, mut writer) = ("x".repeat(1 << 20), primary.client());
    for round in 0..5 {
        // Do not wait for the replies.
        (0..40).for_each(|number| writer.send(&format!("SET large:{} {value}", number % 4)));
        let mut copy = primary.client();
        check(&mut copy, "REPLCONF rdb-only 1", "OK");
        copy.send("SYNC");
        (0..40).for_each(|_| assert_eq!(writer.receive().to_string(), "OK"));
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n") {
            let mut byte = [0];
            std::io::Read::read_exact(copy.stream(), &mut byte).expect("the snapshot comes");
            if head.is_empty() && byte[0] == b'\n' {
                continue;
            }
            head.push(byte[0]);
        }
        assert_eq!(head[0], b'$', "round {round}: {}", head.escape_ascii());
        let length = String::from_utf8_lossy(&head[1..]).trim().parse::<u64>().expect("a length");
        let read = std::io::copy(&mut std::io::Read::take(copy.stream(), length), &mut std::io::sink());
        assert_eq!(read.expect("the snapshot comes"), length);
    }
    assert!(!primary.log_end().contains("is disconnected"), "{}", primary.log_end());
}

/// Data that no replica has is not read after a restart, until a replica has it.
#[test]
fn what_was_never_acknowledged_is_not_read_after_a_restart() {
    let scratch = Scratch::new("offsets-doubt");
    let folder = scratch.path("one");
    std::fs::create_dir(&folder).expect("there is room");
    let more = ["--repl-sync-replicas", "1", "--dir", &folder, "--appendonly", "yes"];
    let mut primary = Server::start(2, "auto", &[&OPTIONS[..], &more].concat());
    let replica = Server::start(1, "auto", &OPTIONS);
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    eventually("a replica has it", || primary.client().show("SET known 1") == "OK");
    replica.signal(Signal::STOP);
    let mut unanswered = primary.client();
    unanswered.send("SET unknown 1");
    let mut client = primary.client();
    // In this order: the offset that is read before it has run is not yet its own.
    eventually("it has run", || client.info("commandstats", "cmdstat_set").starts_with("calls=2"));
    let end = offset(&mut client, "master_repl_offset");
    eventually("it is in the journal", || {
        client.info("persistence", "journal_position").parse::<u64>().expect("a number") >= end
    });
    primary.signal(Signal::KILL);
    primary.wait();
    let port = primary.port().to_string();
    primary = Server::start(2, "auto", &[&OPTIONS[..], &more, &["--port", &port]].concat());
    let mut client = primary.client();
    for line in ["GET unknown", "GET known", "SET known 2", "EVAL \"return redis.call('GET','unknown')\" 0"] {
        let refused = client.show(line);
        assert!(refused.contains("MASTERDOWN") || refused.contains("NOREPLICAS"), "{line}: {refused}");
    }
    assert_eq!(client.info("replication", "repl_sync_in_doubt"), "1");
    replica.signal(Signal::CONT);
    eventually("the replica has it", || client.show("GET unknown") == "\"1\"");
    check(&mut replica.client(), "GET unknown", "\"1\"");
    check(&mut client, "SET known 3", "OK");
    assert!(!client.show("INFO replication").contains("repl_sync_in_doubt"));
}

/// Data that no replica has is not read from a server that has become a replica, until the server has its primary's
/// data.
#[test]
fn what_was_never_acknowledged_is_not_read_after_a_demotion() {
    let [primary, replica] = pair(&["--repl-sync-replicas", "1"]);
    let other = Server::start(1, "auto", &OPTIONS);
    eventually("a replica has it", || primary.client().show("SET known 1") == "OK");
    replica.signal(Signal::STOP);
    let mut unanswered = primary.client();
    unanswered.send("SET unknown 1");
    let mut client = primary.client();
    eventually("it is written", || client.info("commandstats", "cmdstat_set").starts_with("calls=2"));
    // There is no server.
    check(&mut client, "REPLICAOF 127.0.0.1 1", "OK");
    let mut client = primary.client();
    for key in ["unknown", "known"] {
        let refused = client.show(&format!("GET {key}"));
        assert!(refused.contains("MASTERDOWN"), "{refused}");
    }
    check(&mut other.client(), "SET known 2", "OK");
    follow(&primary, &other);
    eventually("it has what that has", || client.show("GET known") == "\"2\"");
    check(&mut client, "GET unknown", "(nil)");
    replica.signal(Signal::CONT);
}

/// A replica on which commands failed says so, and is not handed over to by itself.
#[test]
fn a_replica_that_lacks_something_says_so_and_is_not_handed_over_to() {
    let [primary, replica] = pair(&[]);
    assert_eq!(replica.client().info("replication", "master_link_divergence"), "0");
    // A second replica, which has diverged.
    let mut diverged = primary.client();
    for line in ["REPLCONF listening-port 1", "REPLCONF capa psync2"] {
        check(&mut diverged, line, "OK");
    }
    let (mut client, id) = (primary.client(), primary.client().info("replication", "master_replid"));
    let end = offset(&mut client, "master_repl_offset");
    diverged.send(&format!("PSYNC {id} {}", end + 1));
    assert!(diverged.receive().to_string().starts_with("CONTINUE"));
    diverged.send(&format!("REPLCONF ACK {end} DIVERGENCE 2"));
    eventually("it is known", || client.show("INFO replication").contains("divergence=2"));
    let refused = client.show("FAILOVER TO 127.0.0.1 1 TIMEOUT 100000");
    assert!(refused.contains("failed there"), "{refused}");
    check(&mut client, "FAILOVER TO 127.0.0.1 1 FORCE TIMEOUT 100000", "OK");
    check(&mut client, "FAILOVER ABORT", "OK");
    check(&mut client, &format!("FAILOVER TO 127.0.0.1 {}", replica.port()), "OK");
    eventually("it has handed over", || primary.client().info("replication", "role") == "slave");
}
