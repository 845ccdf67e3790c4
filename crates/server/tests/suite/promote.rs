//! Due jobs of Sidekiq join their queues without a poller: in time, across shards, and on one server only.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blackbox::replication::{expect_same, follow, redis};
use blackbox::{Client, Scratch, Server, Signal, check, eventually};

fn job(jid: &str, queue: &str) -> String {
    format!(r#"{{"class":"A","args":[],"jid":"{jid}","queue":"{queue}"}}"#)
}

/// The time `ms` from now in seconds since 1970, as Sidekiq writes it.
fn seconds_in(ms: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    format!("{:.4}", (now + Duration::from_millis(ms)).as_secs_f64())
}

fn schedule(client: &mut Client, set: &str, ms: u64, job: &str) {
    check(client, &format!("ZADD {set} {} '{job}'", seconds_in(ms)), "(integer) 1");
}

#[test]
fn a_worker_that_waits_gets_a_job_when_it_is_due() {
    for options in [&["--promote", "sidekiq"][..], &["--promote", "sidekiq", "--shard_entry=home"]] {
        for io in ["epoll", "auto"] {
            let server = Server::start(3, io, options);
            let (mut client, mut worker) = (server.client(), server.client());
            // Soon, and so late that it is found by looking.
            for (number, ms) in [0, 40, 1800].into_iter().enumerate() {
                let queue = format!("q{number}");
                worker.send(&format!("BRPOP queue:none queue:{queue} 0"));
                schedule(&mut client, if number == 1 { "retry" } else { "schedule" }, ms, &job("a", &queue));
                let got = worker.receive().to_string();
                assert!(got.starts_with(&format!("1) \"queue:{queue}\"")), "{got}");
                assert!(got.contains("\\\"enqueued_at\\\":"), "{got}");
            }
            check(&mut client, "SCARD queues", "(integer) 3");
            check(&mut client, "EXISTS schedule retry", "(integer) 0");
            assert_eq!(client.info("queues", "queue_jobs_promoted"), "3");
        }
    }
}

#[test]
fn it_is_turned_on_and_off_while_the_server_runs() {
    let server = Server::start(2, "auto", &[]);
    let mut client = server.client();
    schedule(&mut client, "schedule", 0, &job("a", "q"));
    check(&mut client, "CONFIG SET promote sidekiq", "OK");
    eventually("it moves", || client.show("LLEN queue:q") == "(integer) 1");
    check(&mut client, "CONFIG SET promote no", "OK");
    schedule(&mut client, "schedule", 0, &job("b", "q"));
    schedule(&mut client, "app:schedule", 0, &job("c", "q"));
    check(&mut client, "SADD app:queues q", "(integer) 1");
    check(&mut client, "CONFIG SET promote sidekiq", "OK");
    eventually("both move", || client.show("EXISTS schedule app:schedule") == "(integer) 0");
    check(&mut client, "LLEN queue:q", "(integer) 2");
    check(&mut client, "LLEN app:queue:q", "(integer) 1");
}

/// The rule of `promote sidekiq` as a QUEUE PROMOTE command.
const LIKE_SIDEKIQ: &str = "QUEUE PROMOTE mine FROM later TO queue:{$.queue} SADD queues STAMP enqueued_at";

#[test]
fn no_job_of_sidekiqs_is_lost_or_doubled_by_a_crash() {
    survive_crashes("schedule", &["--promote", "sidekiq"], "PING");
}

#[test]
fn no_job_of_any_set_is_lost_or_doubled_by_a_crash() {
    survive_crashes("later", &[], LIKE_SIDEKIQ);
}

/// Moves thousands of jobs while the server is killed: each is in the set or in its queue.
fn survive_crashes(set: &str, promoting: &[&str], begin: &str) {
    let scratch = Scratch::new(&format!("promote-crash-{set}"));
    let directory = scratch.path("");
    let options = ["--dir", &directory, "--appendonly", "yes", "--appendfsync", "always", "--save", ""];
    let promoting = [&options[..], promoting].concat();
    let count = 5000;
    let mut server = Server::darter(&options).expect("it starts");
    let mut client = server.client();
    for number in 0..count {
        client.send(&format!(
            "ZADD {set} {} '{}'",
            number + 1,
            job(&number.to_string(), &format!("q{}", number % 7))
        ));
    }
    for _ in 0..count {
        client.receive();
    }
    let exists = format!("EXISTS {set}");
    // The rule that `begin` states survives the crash.
    client.send(begin);
    client.receive();
    let mut unfinished = 0;
    for _ in 0..6 {
        server.signal(Signal::KILL);
        server.wait();
        server = Server::darter(&promoting).expect("it starts again");
        let mut client = server.client();
        let begun = || client.show("LLEN queue:q0") != "(integer) 0";
        eventually("it begins", begun);
        unfinished += u64::from(client.show(&exists) == "(integer) 1");
    }
    let mut client = server.client();
    eventually("all move", || client.show(&exists) == "(integer) 0");
    let number =
        |text: String| text.rsplit(' ').next().and_then(|word| word.parse::<usize>().ok()).unwrap_or(0);
    let sum: usize = (0..7).map(|queue| number(client.show(&format!("LLEN queue:q{queue}")))).sum();
    assert_eq!(sum, count, "{unfinished} kills came in between");
}

#[test]
fn replicas_move_nothing_until_they_lead() {
    let at_once = ["--repl-diskless-sync-delay", "0", "--promote", "sidekiq"];
    let (primary, replica) =
        (Server::start(2, "auto", &at_once), Server::start(2, "auto", &["--promote", "sidekiq"]));
    let of_redis = redis(&[]);
    follow(&replica, &primary);
    if let Some(redis) = &of_redis {
        follow(redis, &primary);
    }
    let mut client = primary.client();
    for number in 0..50 {
        schedule(&mut client, "schedule", number, &job(&number.to_string(), &format!("q{}", number % 3)));
    }
    schedule(&mut client, "schedule", 6000, &job("later", "q0"));
    eventually("they move", || client.show("ZCARD schedule") == "(integer) 1");
    expect_same(&replica, &primary);
    if let Some(redis) = &of_redis {
        eventually("redis-server has them", || redis.client().show("LLEN queue:q0") == "(integer) 17");
        assert_eq!(redis.client().show("LRANGE queue:q1 0 -1"), client.show("LRANGE queue:q1 0 -1"));
    }
    drop(primary);
    let mut client = replica.client();
    check(&mut client, "REPLICAOF NO ONE", "OK");
    eventually("the last one moves", || client.show("EXISTS schedule") == "(integer) 0");
    check(&mut client, "LLEN queue:q0", "(integer) 18");
}

#[test]
fn what_is_said_of_a_set_holds_over_shards_and_on_a_replica_that_leads() {
    let (primary, replica) =
        (Server::start(3, "auto", &["--repl-diskless-sync-delay", "0"]), Server::start(3, "auto", &[]));
    follow(&replica, &primary);
    let (mut client, mut worker) = (primary.client(), primary.client());
    check(&mut client, LIKE_SIDEKIQ, "OK");
    for (number, ms) in [0, 40, 1800].into_iter().enumerate() {
        let queue = format!("q{number}");
        worker.send(&format!("BRPOP queue:{queue} 0"));
        schedule(&mut client, "later", ms, &job("a", &queue));
        let got = worker.receive().to_string();
        assert!(got.contains("\\\"enqueued_at\\\":"), "{got}");
    }
    check(&mut client, "SCARD queues", "(integer) 3");
    schedule(&mut client, "later", 6000, &job("later", "q0"));
    expect_same(&replica, &primary);
    drop(primary);
    let mut client = replica.client();
    check(&mut client, "REPLICAOF NO ONE", "OK");
    eventually("the last one moves", || client.show("EXISTS later") == "(integer) 0");
    check(&mut client, "LLEN queue:q0", "(integer) 1");
    check(&mut client, "QUEUE PROMOTE DEL mine", "(integer) 1");
    schedule(&mut client, "later", 0, &job("b", "q0"));
    check(&mut client, "ZCARD later", "(integer) 1");
}
