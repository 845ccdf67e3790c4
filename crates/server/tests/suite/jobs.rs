//! Leases and delays for real workers: jobs come back in time, even after their server was replaced.

use blackbox::replication::{expect_same, follow, redis};
use blackbox::{Client, Scratch, Server, Signal, check, eventually, text};
use resp::Value;

/// Checks that a worker which waits gets the job of this id, at this attempt.
#[track_caller]
fn expect_job(worker: &mut Client, id: &str, attempt: u64) {
    let taken = worker.receive().to_string();
    let begin = format!("1) 1) \"mail\"\n   2) \"{id}\"\n   3) (integer) {attempt}\n");
    assert!(taken.starts_with(&begin), "{taken}");
}

#[test]
fn a_worker_that_waits_gets_what_a_dead_one_had_and_what_is_due() {
    for options in [&[][..], &["--shard_entry=home"]] {
        for io in ["epoll", "auto"] {
            let server = Server::start(3, io, options);
            let (mut client, mut worker) = (server.client(), server.client());
            check(&mut client, "LPUSH mail '{\"id\":\"a\"}'", "(integer) 1");
            client.send("JOB.TAKE dead LEASE 50 FROM mail");
            expect_job(&mut client, "a", 1);
            worker.send("JOB.TAKE w LEASE 60000 WAIT 0 FROM mail");
            expect_job(&mut worker, "a", 2);
            worker.send("JOB.TAKE w LEASE 60000 WAIT 0 FROM none mail");
            check(&mut client, "JOB.PUT mail text ID b IN 50", "\"b\"");
            expect_job(&mut worker, "b", 1);
            // A delayed job that is not due soon.
            worker.send("JOB.TAKE w LEASE 60000 WAIT 0 FROM mail");
            check(&mut client, "JOB.PUT mail text ID c IN 2500", "\"c\"");
            expect_job(&mut worker, "c", 1);
            check(&mut client, "JOB.DONE mail a b c", "(integer) 3");
            check(&mut client, "DBSIZE", "(integer) 0");
        }
    }
}

/// A lease begins when it is given, even behind a slow command of the same turn, and even if a slow transaction
/// serves the waiting worker.
#[test]
fn leases_begin_when_they_are_given() {
    let server = Server::start(1, "auto", &["--enable-debug-command", "yes"]);
    let mut client = server.client();
    check(&mut client, "RPUSH mail '{\"id\":\"a\"}'", "(integer) 1");
    let commands =
        ["DEBUG SLEEP 0.1", "TIME", "JOB.TAKE w LEASE 1000000 FROM mail", "ZSCORE {mail}:jobs:active a"];
    client.send_bytes(commands.map(|line| format!("{line}\r\n")).concat().as_bytes());
    let replies = commands.map(|_| client.receive());
    let Value::Array(time) = &replies[1] else { panic!("{replies:?}") };
    let number = |value: &Value| text(value).parse::<i64>().expect("a number");
    let ms = |time: &[Value]| number(&time[0]) * 1000 + number(&time[1]) / 1000;
    let (after_ms, ends_ms) = (ms(time), number(&replies[3]));
    assert!(ends_ms >= after_ms + 1_000_000 - 1, "it ends at {ends_ms}, and it was {after_ms} before");

    let mut waiting = server.client();
    waiting.send("JOB.TAKE w LEASE 1000000 WAIT 0 FROM mail");
    eventually("it waits", || client.show("INFO clients").contains("blocked_clients:1"));
    let Value::Array(time) = client.call("TIME") else { panic!("no time") };
    for (line, reply) in
        [("MULTI", "OK"), ("DEBUG SLEEP 0.1", "QUEUED"), ("RPUSH mail '{\"id\":\"b\"}'", "QUEUED")]
    {
        check(&mut client, line, reply);
    }
    client.call("EXEC");
    waiting.receive();
    let (before_ms, ends_ms) = (ms(&time), number(&client.call("ZSCORE {mail}:jobs:active b")));
    assert!(
        ends_ms >= before_ms + 100 + 1_000_000 - 1,
        "it ends at {ends_ms}, and it was {before_ms} 100 ms before"
    );
}

#[test]
fn a_job_of_a_client_that_is_gone_goes_back() {
    let server = Server::start(2, "auto", &[]);
    let mut client = server.client();
    for _ in 0..20 {
        let mut worker = server.client();
        worker.send("JOB.TAKE w LEASE 60000 WAIT 0 FROM mail");
        eventually("it waits", || client.info("clients", "blocked_clients") == "1");
        client.send("LPUSH mail '{\"id\":\"a\"}'");
        drop(worker);
        assert_eq!(client.receive().to_string(), "(integer) 1");
        // Either the worker got the job and never ends it, or the job is still in the list.
        eventually("it is somewhere", || {
            ["LLEN mail", "ZCARD {mail}:jobs:active"].iter().any(|line| client.show(line) == "(integer) 1")
        });
        check(&mut client, "DEL mail {mail}:jobs:active", "(integer) 1");
        client.send("DEL {mail}:jobs");
        client.receive();
    }
}

#[test]
fn leases_survive_a_crash_and_end_then() {
    let scratch = Scratch::new("jobs-crash");
    let directory = scratch.path("");
    let options = ["--dir", &directory, "--appendonly", "yes", "--appendfsync", "always", "--save", ""];
    let mut server = Server::darter(&options).expect("it starts");
    let mut client = server.client();
    check(&mut client, "LPUSH mail '{\"id\":\"a\"}'", "(integer) 1");
    check(&mut client, "JOB.PUT mail text ID b IN 300", "\"b\"");
    client.send("JOB.TAKE w LEASE 300 FROM mail");
    expect_job(&mut client, "a", 1);
    server.signal(Signal::KILL);
    server.wait();
    let server = Server::darter(&options).expect("it starts again");
    let mut worker = server.client();
    let mut ids = Vec::new();
    for _ in 0..2 {
        worker.send("JOB.TAKE w LEASE 60000 WAIT 0 FROM mail");
        let taken = worker.receive().to_string();
        ids.push(["a", "b"].into_iter().find(|id| taken.contains(&format!("2) \"{id}\"\n"))));
    }
    ids.sort_unstable();
    assert_eq!(ids, [Some("a"), Some("b")]);
    check(&mut worker, "JOB.DONE mail a b", "(integer) 2");
}

#[test]
fn replicas_have_the_same_and_end_leases_when_they_lead() {
    let at_once = ["--repl-diskless-sync-delay", "0"];
    let (primary, replica) = (Server::start(2, "auto", &at_once), Server::start(2, "auto", &[]));
    let of_redis = redis(&[]);
    follow(&replica, &primary);
    let mut client = primary.client();
    check(&mut client, "RPUSH mail '{\"id\":\"c\"}' '{\"id\":\"b\"}' '{\"id\":\"a\"}'", "(integer) 3");
    client.send("JOB.TAKE w LEASE 200 FROM mail");
    expect_job(&mut client, "a", 1);
    client.send("JOB.TAKE w LEASE 60000 FROM mail");
    expect_job(&mut client, "b", 1);
    check(&mut client, "JOB.FAIL mail b IN 100 WHY it", "delayed");
    client.send("JOB.TAKE w LEASE 8000 FROM mail");
    expect_job(&mut client, "c", 1);
    if let Some(redis) = &of_redis {
        follow(redis, &primary);
    }
    eventually("they are back", || client.show("LLEN mail") == "(integer) 2");
    expect_same(&replica, &primary);
    if let Some(redis) = &of_redis {
        eventually("redis-server has them", || redis.client().show("LLEN mail") == "(integer) 2");
        assert_eq!(
            redis.client().show("HGETALL {mail}:jobs").len(),
            client.show("HGETALL {mail}:jobs").len()
        );
    }
    drop(primary);
    let mut client = replica.client();
    check(&mut client, "REPLICAOF NO ONE", "OK");
    eventually("the last lease ends", || client.show("LLEN mail") == "(integer) 3");
}

/// The seconds in which a schedule that comes each second has pushed.
fn seconds(client: &mut Client) -> Vec<u64> {
    let elements = client.show("LRANGE q 0 -1");
    let times = elements.split('"').filter_map(|text| text.parse::<u64>().ok());
    times.map(|ms| ms / 1000).collect()
}

#[test]
fn a_schedule_goes_on_after_crash_and_failover_and_never_comes_twice() {
    let scratch = Scratch::new("jobs-cron");
    let directory = scratch.path("");
    let mut options =
        vec!["--dir", &directory, "--appendonly", "yes", "--appendfsync", "always", "--save", ""];
    options.extend(["--repl-diskless-sync-delay", "0"]);
    let mut server = Server::darter(&options).expect("it starts");
    let mut client = server.client();
    client.send("CRON SET q each '* * * * * *' '%{time_ms}'");
    client.receive();
    eventually("it has come", || seconds(&mut client).len() >= 2);
    server.signal(Signal::KILL);
    server.wait();
    let server = Server::darter(&options).expect("it starts again");
    let mut client = server.client();
    let before = seconds(&mut client).len();
    eventually("it goes on", || seconds(&mut client).len() >= before + 2);
    let replica = Server::start(2, "auto", &[]);
    follow(&replica, &server);
    expect_same(&replica, &server);
    drop(server);
    let mut client = replica.client();
    let before = seconds(&mut client).len();
    check(&mut client, "REPLICAOF NO ONE", "OK");
    eventually("it goes on there", || seconds(&mut client).len() >= before + 2);
    let mut seconds = seconds(&mut client);
    seconds.reverse();
    assert!(seconds.is_sorted_by(|one, next| one < next), "{seconds:?}");
}

/// Checks that a worker which waits gets one job.
#[track_caller]
fn expect_any(worker: &mut Client) {
    let taken = worker.receive().to_string();
    assert!(taken.starts_with("1) 1) \"mail\"\n"), "{taken}");
}

#[test]
fn who_waits_for_a_limited_queue_gets_a_job_when_it_opens() {
    for options in [&[][..], &["--shard_entry=home"]] {
        for io in ["epoll", "auto"] {
            let server = Server::start(3, io, options);
            let (mut client, mut worker, mut popper) = (server.client(), server.client(), server.client());
            check(&mut client, "QUEUE LIMIT mail RATE 2 PER 150", "OK");
            check(&mut client, "RPUSH mail f e d c b a", "(integer) 6");
            check(&mut client, "RPOP mail 5", "1) \"a\"\n2) \"b\"");
            worker.send("JOB.TAKE w LEASE 60000 WAIT 0 FROM none mail");
            expect_any(&mut worker);
            popper.send("BRPOP mail 0");
            assert!(popper.receive().to_string().contains("\"d\""));
            // A limit that opens later than soon.
            check(&mut client, "QUEUE LIMIT mail RATE 2 PER 2500", "OK");
            worker.send("JOB.TAKE w LEASE 60000 WAIT 0 FROM mail");
            expect_any(&mut worker);
            // A limit that is changed while they wait.
            check(&mut client, "QUEUE LIMIT mail ACTIVE 2", "OK");
            worker.send("JOB.TAKE w LEASE 60000 WAIT 0 FROM mail");
            eventually("it waits", || client.info("clients", "blocked_clients") == "1");
            check(&mut client, "LLEN mail", "(integer) 1");
            check(&mut client, "QUEUE LIMIT mail ACTIVE 3", "OK");
            expect_any(&mut worker);
            check(&mut client, "LPUSH mail g", "(integer) 1");
            worker.send("JOB.TAKE w LEASE 60000 WAIT 0 FROM mail");
            eventually("it waits", || client.info("clients", "blocked_clients") == "1");
            let listed = client.show("ZRANGE {mail}:jobs:active 0 0");
            check(&mut client, &format!("JOB.DONE mail {}", listed.trim_start_matches("1) ")), "(integer) 1");
            expect_any(&mut worker);
        }
    }
}

#[test]
fn limits_hold_after_a_crash_and_on_a_replica_that_leads() {
    let scratch = Scratch::new("jobs-limits");
    let directory = scratch.path("");
    let options = ["--dir", &directory, "--appendonly", "yes", "--appendfsync", "always", "--save", ""];
    let mut server = Server::darter(&options).expect("it starts");
    let mut client = server.client();
    check(&mut client, "QUEUE LIMIT mail RATE 2 PER 3600000", "OK");
    check(&mut client, "QUEUE LIMIT letters ACTIVE 1", "OK");
    check(&mut client, "RPUSH mail c b a", "(integer) 3");
    check(&mut client, "RPUSH letters b a", "(integer) 2");
    check(&mut client, "RPOP mail", "\"a\"");
    client.send("JOB.TAKE w LEASE 3600000 FROM letters");
    client.receive();
    server.signal(Signal::KILL);
    server.wait();
    let server = Server::darter(&options).expect("it starts again");
    let replica = Server::start(2, "auto", &[]);
    follow(&replica, &server);
    let mut client = server.client();
    check(&mut client, "RPOP mail", "\"b\"");
    check(&mut client, "RPOP mail", "(nil)");
    check(&mut client, "JOB.TAKE w LEASE 1000 FROM mail letters", "(nil)");
    expect_same(&replica, &server);
    drop(server);
    let mut client = replica.client();
    check(&mut client, "REPLICAOF NO ONE", "OK");
    check(&mut client, "RPOP mail", "(nil)");
    check(&mut client, "JOB.TAKE w LEASE 1000 FROM mail letters", "(nil)");
    check(&mut client, "QUEUE LIMIT letters ACTIVE 2", "OK");
    client.send("JOB.TAKE w LEASE 1000 FAIR FROM mail letters");
    assert!(client.receive().to_string().starts_with("1) 1) \"letters\"\n"));
    check(&mut client, "QUEUE LIMIT mail OFF", "OK");
    check(&mut client, "RPOP mail", "\"c\"");
}

#[test]
fn groups_take_turns_also_after_a_crash_and_on_a_replica() {
    let scratch = Scratch::new("jobs-groups");
    let directory = scratch.path("");
    let options = ["--dir", &directory, "--appendonly", "yes", "--appendfsync", "always", "--save", ""];
    let mut server = Server::darter(&options).expect("it starts");
    let mut client = server.client();
    check(&mut client, "QUEUE LIMIT mail PER GROUP 2", "OK");
    let (mut worker, mut popper) = (server.client(), server.client());
    popper.send("BRPOP mail 0");
    eventually("it waits", || client.info("clients", "blocked_clients") == "1");
    worker.send("JOB.TAKE w LEASE 3600000 WAIT 0 FROM mail");
    eventually("both wait", || client.info("clients", "blocked_clients") == "2");
    check(&mut client, "JOB.PUT mail text ID a1 GROUP a", "\"a1\"");
    expect_job(&mut worker, "a1", 1);
    for (id, group) in [("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b"), ("c1", "c")] {
        check(&mut client, &format!("JOB.PUT mail text ID {id} GROUP {group}"), &format!("\"{id}\""));
    }
    client.send("JOB.TAKE w LEASE 3600000 FROM mail");
    expect_job(&mut client, "a2", 1);
    server.signal(Signal::KILL);
    server.wait();
    let server = Server::darter(&options).expect("it starts again");
    let replica = Server::start(2, "auto", &[]);
    follow(&replica, &server);
    let mut client = server.client();
    client.send("JOB.TAKE w LEASE 3600000 FROM mail");
    expect_job(&mut client, "b1", 1);
    expect_same(&replica, &server);
    drop(server);
    let mut client = replica.client();
    check(&mut client, "REPLICAOF NO ONE", "OK");
    for id in ["c1", "b2"] {
        client.send("JOB.TAKE w LEASE 3600000 FROM mail");
        expect_job(&mut client, id, 1);
    }
    check(&mut client, "JOB.TAKE w LEASE 1000 FROM mail", "(nil)");
    let mut worker = replica.client();
    worker.send("JOB.TAKE w LEASE 3600000 WAIT 0 FROM mail");
    eventually("it waits", || client.info("clients", "blocked_clients") == "1");
    check(&mut client, "JOB.DONE mail a1", "(integer) 1");
    expect_job(&mut worker, "a3", 1);
    check(&mut client, "JOB.DONE mail a2 a3 b1 b2 c1", "(integer) 5");
    check(&mut client, "QUEUE LIMIT mail OFF", "OK");
    check(&mut client, "DBSIZE", "(integer) 0");
}

#[test]
fn names_made_up_beside_queues_of_other_shards_do_no_harm() {
    let server = Server::start(2, "auto", &[]);
    let mut client = server.client();
    for (number, key) in ["active", "delayed", "dead", "cron", "rate"].into_iter().enumerate() {
        for tag in ["a", "b", "c"] {
            check(&mut client, &format!("ZADD {{{tag}}}:x{number}:jobs:{key} 1 1-1"), "(integer) 1");
        }
    }
    check(&mut client, "HSET {a}:x:jobs f v", "(integer) 1");
    // Long enough for each thread to look.
    check(&mut client, "JOB.PUT mail text ID c IN 2500", "\"c\"");
    check(
        &mut client,
        "JOB.TAKE w LEASE 1000 WAIT 0 FROM mail",
        "1) 1) \"mail\"\n   2) \"c\"\n   3) (integer) 1\n   4) \"text\"",
    );
}

#[test]
fn queues_without_a_list_are_shown_also_after_a_restart() {
    let scratch = Scratch::new("jobs-shown");
    let directory = scratch.path("");
    let options = ["--dir", &directory, "--appendonly", "yes", "--appendfsync", "always", "--save", ""];
    let mut server = Server::darter(&options).expect("it starts");
    let mut client = server.client();
    check(&mut client, "JOB.PUT grouped text ID 1 GROUP a", "\"1\"");
    check(&mut client, "JOB.PUT delayed text ID 1 IN 1000000", "\"1\"");
    check(&mut client, "JOB.PUT waiting '{\"id\":\"1\"}'", "\"1\"");
    check(&mut client, "LPUSH leased '{\"id\":\"1\"}' '{\"id\":\"2\"}'", "(integer) 2");
    client.send("JOB.TAKE w LEASE 1000000 FROM leased");
    client.receive();
    let line = |info: &str, name: &str, end: &str| {
        let begin = format!("name={name},db=0,system=jobs,state=waiting,");
        info.lines().any(|line| line.contains(&begin) && line.contains(end))
    };
    for is_new in [true, false] {
        let mut client = server.client();
        eventually("all are shown", || {
            let info = client.show("INFO queues");
            let info = info.replace("\\r\\n", "\n").replace("\r\n", "\n");
            line(&info, "grouped", ",grouped=1,groups=1,")
                && line(&info, "delayed", ",delayed=1,")
                && line(&info, "leased", "depth=1,")
                && line(&info, "leased", ",active=1,")
                && (line(&info, "waiting", "depth=1,") || !is_new)
        });
        server.signal(Signal::KILL);
        server.wait();
        server = Server::darter(&options).expect("it starts again");
    }
}
