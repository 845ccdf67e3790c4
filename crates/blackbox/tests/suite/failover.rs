//! `FAILOVER`: servers that hand over to each other while clients write, and the errors for requests that cannot succeed.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use blackbox::replication::{Redis, expect_same, follow, is_up, redis};
use blackbox::{Client, Scratch, Server, Signal, check, eventually, text};
use resp::Value;

const CLIENTS: usize = 4;
/// How often each hands over to the other.
const ROUNDS: usize = 3;
/// The backlog is large, so no replica needs a snapshot.
const OPTIONS: [&str; 4] = ["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb"];

fn darter(threads: usize, more: &[&str]) -> Server {
    Server::start(threads, "auto", &[&OPTIONS, more].concat())
}

/// The increments of a counter by one client.
#[derive(Default)]
struct Counted {
    acknowledged: i64,
    /// How often the connection was closed instead of a reply.
    unanswered: i64,
    /// The longest time between two acknowledgements.
    longest: Duration,
}

/// Increments a counter on whichever server allows it, until told to stop.
fn count_up(servers: [&Server; 2], is_over: &AtomicBool) -> Counted {
    let (mut counted, mut place) = (Counted::default(), 0);
    let mut clients = servers.map(Server::client);
    let mut start = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        clients[place].send("INCR counter");
        match clients[place].try_receive() {
            Some(Value::Int(_)) => {
                counted.acknowledged += 1;
                counted.longest = counted.longest.max(start.elapsed());
                start = Instant::now();
            }
            Some(refused) if text(&refused).contains("READONLY") => place = 1 - place,
            // Its replica is about to follow.
            Some(refused) => assert!(text(&refused).contains("NOREPLICAS"), "{refused:?}"),
            None => {
                counted.unanswered += 1;
                clients[place] = servers[place].client();
            }
        }
    }
    counted
}

/// Makes `primary` hand over to `replica` and follow it.
fn hand_over(primary: &Server, replica: &Server, more: &str) {
    let order = format!("FAILOVER TO 127.0.0.1 {}{more}", replica.port());
    eventually("it begins", || primary.client().show(&order) == "OK");
    eventually("they have changed places", || {
        primary.client().info("replication", "role") == "slave" && is_up(primary)
    });
    assert_eq!(replica.client().info("replication", "role"), "master");
    assert_eq!(primary.client().info("replication", "master_failover_state"), "no-failover");
}

/// Ends the clients when dropped, even if the test has failed.
struct EndsWith<'a>(&'a AtomicBool);

impl Drop for EndsWith<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The servers hand over to each other while clients write. Nothing is lost, nothing is done twice, and no snapshot
/// is needed. `may_close`: connections may be closed without a reply.
fn change_places(first: &Server, second: &Server, may_close: bool) {
    follow(second, first);
    eventually("it follows", || is_up(second));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = EndsWith(&is_over);
        let clients: Vec<_> =
            (0..CLIENTS).map(|_| scope.spawn(|| count_up([first, second], &is_over))).collect();
        for round in 0..ROUNDS {
            hand_over(first, second, " TIMEOUT 20000");
            hand_over(second, first, if round == 0 { " TIMEOUT 20000 FORCE" } else { "" });
        }
        drop(end);
        let counted: Vec<Counted> =
            clients.into_iter().map(|client| client.join().expect("it ends")).collect();
        let acknowledged: i64 = counted.iter().map(|counted| counted.acknowledged).sum();
        let unanswered: i64 = counted.iter().map(|counted| counted.unanswered).sum();
        assert!(may_close || unanswered == 0, "{unanswered} connections were closed");
        let value: i64 = text(&first.client().call("GET counter")).parse().expect("a number");
        let possible = acknowledged..=acknowledged + unanswered;
        assert!(possible.contains(&value), "{value} of {possible:?}");
        let longest = counted.iter().map(|counted| counted.longest).max();
        println!("{acknowledged} writes, {unanswered} without an answer; the longest took {longest:?}");
    });
    expect_same(second, first);
    let syncs = [first, second].map(|server| server.client().info("stats", "sync_full"));
    assert_eq!(syncs, ["1", "0"]);
}

#[test]
fn redis_and_darter_hand_over_to_each_other() {
    let Some(first) = redis(&OPTIONS) else { return };
    change_places(&first, &darter(2, &[]), false);
}

#[test]
fn two_darters_hand_over_to_each_other() {
    change_places(&darter(3, &[]), &darter(2, &[]), false);
}

#[test]
fn two_darters_with_journals_hand_over_to_each_other() {
    let scratches = ["failover-first", "failover-second"].map(Scratch::new);
    let [first, second] = scratches.each_ref().map(|scratch| {
        let folder = scratch.path("");
        darter(2, &["--dir", &folder, "--appendonly", "yes", "--appendfsync", "always"])
    });
    change_places(&first, &second, false);
}

/// Replies that wait for a replica arrive when it has everything, or their connection is closed.
#[test]
fn two_darters_that_wait_for_each_other_hand_over_to_each_other() {
    let sync = ["--repl-sync-replicas", "1"];
    change_places(&darter(3, &sync), &darter(2, &sync), true);
}

/// The third server continues with the new primary's stream where it was.
#[test]
fn the_other_replicas_go_on() {
    let (first, second, third) = (darter(2, &[]), darter(2, &[]), darter(1, &[]));
    for replica in [&second, &third] {
        follow(replica, &first);
        eventually("it follows", || is_up(replica));
    }
    check(&mut first.client(), "SET k 1", "OK");
    hand_over(&first, &second, "");
    check(&mut second.client(), "SET k 2", "OK");
    for replica in [&first, &third] {
        expect_same(replica, &second);
    }
    assert_eq!(third.client().info("replication", "master_port"), first.port().to_string(), "a chain");
    assert_eq!(third.client().info("stats", "sync_full"), "0");
    assert_eq!(first.client().info("stats", "sync_full"), "2");
    let mut client = third.client();
    assert_eq!(
        client.info("replication", "master_replid"),
        second.client().info("replication", "master_replid")
    );
}

/// A redis-server and Darter, which get the same requests.
struct Both {
    servers: (Redis, Server),
    clients: [Client; 2],
}

impl Both {
    fn new() -> Option<Both> {
        let servers = (redis(&OPTIONS)?, darter(2, &[]));
        let clients = [&*servers.0, &servers.1].map(Server::client);
        Some(Both { servers, clients })
    }

    fn same(&mut self, call: &str) {
        let [theirs, ours] = self.clients.each_mut().map(|client| client.show(call));
        assert_eq!(ours, theirs, "{call}");
    }

    fn check(&mut self, call: &str, expected: &str) {
        self.clients.iter_mut().for_each(|client| check(client, call, expected));
    }

    fn expect_state(&mut self, expected: &str) {
        for client in &mut self.clients {
            assert_eq!(client.info("replication", "master_failover_state"), expected);
        }
    }

    /// A Redis replica for each, which has been stopped.
    fn silent_replicas(&self) -> [Redis; 2] {
        [&*self.servers.0, &self.servers.1].map(|server| {
            let replica = redis(&OPTIONS).expect("there was one");
            follow(&replica, server);
            eventually("it follows", || is_up(&replica));
            let mut client = server.client();
            eventually("it is online", || client.info("replication", "slave0").contains("state=online"));
            let error = "(error) ERR FAILOVER is not valid when server is a replica.";
            check(&mut replica.client(), "FAILOVER", error);
            replica.signal(Signal::STOP);
            replica
        })
    }
}

/// Requests that are refused with or without a replica.
const REFUSED: [&str; 13] = [
    "FAILOVER ABORT",
    "FAILOVER ABORT NOW",
    "FAILOVER TIMEOUT",
    "FAILOVER TIMEOUT x",
    "FAILOVER TIMEOUT 0",
    "FAILOVER TIMEOUT 1 TIMEOUT 2",
    "FAILOVER TO 127.0.0.1",
    "FAILOVER TO 127.0.0.1 x",
    "FAILOVER TO 127.0.0.1 1",
    "FAILOVER TO 127.0.0.1 1 FORCE",
    "FAILOVER FORCE FORCE",
    "FAILOVER FORCE",
    "FAILOVER TO 127.0.0.1 99999999",
];

#[test]
fn refusals_are_those_of_redis() {
    let Some(mut both) = Both::new() else { return };
    both.same("FAILOVER");
    REFUSED.iter().for_each(|call| both.same(call));
    let _replicas = both.silent_replicas();
    REFUSED.iter().for_each(|call| both.same(call));
}

#[test]
fn what_waits_goes_on_when_it_is_over() {
    let Some(mut both) = Both::new() else { return };
    let replicas = both.silent_replicas();
    let mut writers = [&*both.servers.0, &both.servers.1].map(Server::client);
    both.check("SET past 1 PX 500", "OK");
    both.check("FAILOVER", "OK");
    for client in &mut both.clients {
        eventually("it is past its time", || client.show("GET past") == "(nil)");
    }
    writers.iter_mut().for_each(|writer| writer.send("INCR counter"));
    for client in &mut both.clients {
        eventually("it waits", || client.info("clients", "blocked_clients") == "1");
    }
    for call in [
        "FAILOVER",
        "FAILOVER ABORT NOW",
        "REPLICAOF NO ONE",
        "REPLICAOF 127.0.0.1 1",
        "PSYNC ? -1",
        "SYNC",
        "CLIENT UNPAUSE",
        "GET counter",
        "GET past",
        "DBSIZE",
    ] {
        both.same(call);
    }
    both.expect_state("waiting-for-sync");
    both.check("FAILOVER ABORT", "OK");
    both.expect_state("no-failover");
    writers.iter_mut().for_each(|writer| assert_eq!(writer.receive(), Value::Int(1)));
    both.same("FAILOVER ABORT");
    // A failover that does not end by itself.
    both.check("FAILOVER TIMEOUT 100", "OK");
    writers.iter_mut().for_each(|writer| check(writer, "INCR counter", "(integer) 2"));
    both.expect_state("no-failover");
    replicas.iter().for_each(|replica| replica.signal(Signal::CONT));
    eventually("its replica is back", || is_up(&replicas[1]));
    expect_same(&replicas[1], &both.servers.1);
}

/// Redis would hand over to it and wait for it.
#[test]
fn nobody_hands_over_to_a_replica_that_has_everything_and_hangs() {
    let (first, second) = (darter(2, &[]), darter(1, &[]));
    follow(&second, &first);
    eventually("it follows", || is_up(&second));
    let mut client = first.client();
    check(&mut client, "SET k 1", "OK");
    check(&mut client, "WAIT 1 0", "(integer) 1");
    second.signal(Signal::STOP);
    // A report that it sent before it stopped may still be on its way.
    let has_stopped = || {
        fs::read_to_string(format!("/proc/{}/stat", second.process_id()))
            .is_ok_and(|stat| stat.contains(") T "))
    };
    eventually("it has stopped", has_stopped);
    check(&mut client, "FAILOVER TIMEOUT 300", "OK");
    check(&mut client, "SET k 2", "OK");
    assert_eq!(client.info("replication", "role"), "master");
    second.signal(Signal::CONT);
    hand_over(&first, &second, "");
}

/// The replica that was told to take over regardless has gone meanwhile. The order can be aborted, and this server is the primary again.
#[test]
fn an_order_that_cannot_be_carried_out_is_taken_back() {
    let (first, second, other) = (darter(2, &[]), darter(2, &[]), darter(1, &[]));
    for replica in [&second, &other] {
        follow(replica, &first);
        eventually("it follows", || is_up(replica));
    }
    let mut client = first.client();
    check(&mut client, "SET k 1", "OK");
    second.signal(Signal::STOP);
    check(&mut client, "SET k 2", "OK");
    let mut writer = first.client();
    check(&mut client, &format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 500 FORCE", second.port()), "OK");
    writer.send("SET k 3");
    eventually("it is under way", || {
        client.info("replication", "master_failover_state") == "failover-in-progress"
    });
    assert_eq!(client.info("replication", "role"), "slave");
    check(&mut client, "SET k 4", "(error) READONLY You can't write against a read only replica.");
    check(&mut client, "REPLICAOF NO ONE", "(error) ERR REPLICAOF not allowed while failing over.");
    check(&mut client, "PSYNC ? -1", "(error) NOMASTERLINK Can't SYNC while failing over");
    check(&mut client, "FAILOVER ABORT", "OK");
    assert_eq!(client.info("replication", "role"), "master");
    assert_eq!(text(&writer.receive()), "OK");
    second.signal(Signal::CONT);
    for replica in [&second, &other] {
        expect_same(replica, &first);
    }
    check(&mut client, "GET k", "\"3\"");
    assert_eq!(client.info("stats", "sync_full"), "2", "its replicas went on where they were");
}

/// A replica with a new copy whose journal has no base yet would load older data after a restart. It is not promoted
/// by mistake; if an operator insists, it waits for the base before it acknowledges anything.
/// Writes until a journal has its spares and has been marked since: then the thread that writes its manifest has written
/// it whole. A folder that goes away while it is replaced makes a journal fail for good.
fn await_idle_disk_thread(folder: &str, client: &mut Client) {
    let marked = || {
        let manifest = format!("{folder}/journal.manifest");
        let text = fs::read_to_string(&manifest).ok()?;
        let has_spares = text.lines().filter(|line| line.starts_with("spare ")).count() == 2;
        let mut names = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let mark = names.find(|path| path.extension().is_some_and(|end| end == "durable"))?;
        let written = |path: &std::path::Path| fs::metadata(path).ok()?.modified().ok();
        Some(has_spares && written(&mark)? > written(manifest.as_ref())?)
    };
    eventually("its disk thread rests", || client.show("SET k old") == "OK" && marked() == Some(true));
}

#[test]
fn a_copy_that_is_in_no_journal_yet_is_not_promoted() {
    let scratch = Scratch::new("failover-base");
    let first = darter(2, &["--repl-sync-replicas", "0"]);
    check(&mut first.client(), "SET k new", "OK");
    let data = scratch.path("data");
    fs::create_dir(&data).expect("the folder can be made");
    let durable = ["--appendonly", "yes", "--appendfsync", "always", "--dir", &data];
    let mut second = darter(2, &durable);
    check(&mut second.client(), "SET k old", "OK");
    let mut client = second.client();
    await_idle_disk_thread(&format!("{data}/appendonlydir"), &mut client);
    // Nothing can be created in there.
    let (folder, away) = (format!("{data}/appendonlydir"), format!("{data}/away"));
    fs::rename(&folder, &away).expect("it can be renamed");
    fs::write(&folder, "").expect("a file can be written");
    follow(&second, &first);
    eventually("it has the copy", || client.show("GET k") == "\"new\"");
    let facts = ["slave_priority", "master_link_status", "master_sync_in_progress"];
    assert_eq!(facts.map(|fact| client.info("replication", fact)), ["0", "down", "1"]);
    check(&mut first.client(), &format!("FAILOVER TO 127.0.0.1 {}", second.port()), "OK");
    eventually("it is refused", || {
        first.client().info("replication", "master_failover_state") == "no-failover"
    });
    assert_eq!(first.client().info("replication", "role"), "master");
    check(&mut client, "REPLICAOF NO ONE", "OK");
    let refused = client.show("SET k newer");
    assert!(refused.starts_with("(error) MISCONF"), "{refused}");
    fs::remove_file(&folder).expect("it can be removed");
    fs::rename(&away, &folder).expect("it can be renamed");
    eventually("it is written", || client.show("SET k newer") == "OK");
    second.signal(Signal::KILL);
    second.wait();
    let again = darter(2, &durable);
    check(&mut again.client(), "GET k", "\"newer\"");
}
