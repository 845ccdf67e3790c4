//! Jobs of Sidekiq processes that died go back to their queues, for real workers and across restarts and failovers.

use blackbox::replication::{expect_same, follow};
use blackbox::{Client, Scratch, Server, Signal, check, eventually};

const ON: [&str; 2] = ["--job-recovery", "sidekiq"];

fn job(jid: &str) -> String {
    format!(r#"{{"class":"A","args":[],"jid":"{jid}","queue":"q"}}"#)
}

/// Sends the heartbeat of the Sidekiq process `identity`, with the job that it is running, if any.
fn beat(client: &mut Client, identity: &str, running: Option<&str>) {
    for line in [
        format!("UNLINK {identity}:work"),
        running.map_or("PING".to_owned(), |jid| {
            let payload = job(jid).replace('"', "\\\"");
            format!("HSET {identity}:work t '{{\"queue\":\"q\",\"payload\":\"{payload}\",\"run_at\":1}}'")
        }),
        format!("EXPIRE {identity}:work 60"),
        format!("SADD processes {identity}"),
        format!("HSET {identity} info x"),
        format!("EXPIRE {identity} 60"),
    ] {
        client.show(&line);
    }
}

fn pop(client: &mut Client, worker: &mut Client, jid: &str) {
    worker.send("BRPOP queue:q 0");
    check(client, &format!("LPUSH queue:q '{}'", job(jid)), "(integer) 1");
    assert!(worker.receive().to_string().contains(jid));
}

/// Closes connections, and returns when the server has noticed.
fn close(client: &mut Client, closed: Vec<Client>) {
    let count =
        |client: &mut Client| client.info("clients", "connected_clients").parse::<usize>().expect("a number");
    let left = count(client) - closed.len();
    drop(closed);
    eventually("they are closed", || count(client) == left);
}

#[test]
fn what_a_dead_process_had_goes_back_and_nothing_else() {
    for options in [&ON[..], &["--job-recovery", "sidekiq", "--shard_entry=home"]] {
        let server = Server::start(3, "auto", options);
        let (mut client, mut beats, mut worker) = (server.client(), server.client(), server.client());
        let (mut other_beats, mut other) = (server.client(), server.client());
        pop(&mut client, &mut worker, "running");
        beat(&mut beats, "h:1:a", Some("running"));
        beat(&mut other_beats, "h:2:b", None);
        pop(&mut client, &mut worker, "since");
        pop(&mut client, &mut other, "of-another");
        close(&mut client, vec![beats, worker]);
        check(&mut client, "PEXPIRE h:1:a 1", "(integer) 1");
        eventually("they are back", || client.show("LLEN queue:q") == "(integer) 2");
        let waiting = client.show("LRANGE queue:q 0 -1");
        assert!(waiting.contains("running") && waiting.contains("since"), "{waiting}");
        check(&mut client, "EXISTS h:1:a:work h:2:b", "(integer) 1");
        check(&mut client, "SMEMBERS processes", "1) \"h:2:b\"");
        assert_eq!(client.info("queues", "queue_jobs_recovered"), "2");
        assert_eq!(client.info("queues", "queue_processes_dead"), "1");
        assert_ne!(client.info("queues", "queue_last_recovery_ms"), "0");
        assert_ne!(client.info("queues", "queue_pops_kept_bytes"), "0");
        check(&mut client, "CONFIG SET job-recovery no", "OK");
        eventually("they are forgotten", || client.info("queues", "queue_pops_kept_bytes") == "0");
    }
}

#[test]
fn processes_that_die_together_have_their_jobs_returned_once() {
    let server = Server::start(3, "auto", &ON);
    let mut client = server.client();
    let mut workers: Vec<Client> = (0..4).map(|_| server.client()).collect();
    for (number, identity) in ["h:1:a", "h:2:b"].into_iter().enumerate() {
        beat(&mut workers[2 * number], identity, None);
        pop(&mut client, &mut workers[2 * number + 1], identity);
    }
    close(&mut client, workers);
    check(&mut client, "PEXPIRE h:1:a 1", "(integer) 1");
    check(&mut client, "PEXPIRE h:2:b 1500", "(integer) 1");
    eventually("both are returned", || client.info("queues", "queue_processes_dead") == "2");
    check(&mut client, "LLEN queue:q", "(integer) 2");
    assert_eq!(client.info("queues", "queue_jobs_recovered"), "2");
}

#[test]
fn a_pop_that_finds_a_paused_or_limited_queue_is_none() {
    let server = Server::start(2, "auto", &ON);
    let (mut client, mut beats, mut worker) = (server.client(), server.client(), server.client());
    for queue in ["queue:paused", "queue:limited"] {
        client.show(&format!("LPUSH {queue} '{}' '{}'", job("x"), job("y")));
    }
    check(&mut client, "QUEUE PAUSE queue:paused", "(integer) 1");
    check(&mut client, "QUEUE LIMIT queue:limited RATE 1 PER 100000", "OK");
    beat(&mut beats, "h:1:a", None);
    check(&mut worker, "RPOP queue:paused", "(nil)");
    worker.show("RPOP queue:limited 5");
    check(&mut worker, "RPOP queue:limited", "(nil)");
    close(&mut client, vec![beats, worker]);
    check(&mut client, "PEXPIRE h:1:a 1", "(integer) 1");
    eventually("it is found", || client.info("queues", "queue_processes_dead") == "1");
    check(&mut client, "LLEN queue:paused", "(integer) 2");
    check(&mut client, "LLEN queue:limited", "(integer) 2");
    assert_eq!(client.info("queues", "queue_jobs_recovered"), "1");
}

#[test]
fn what_it_reported_survives_the_server() {
    let scratch = Scratch::new("recovery-crash");
    let directory = scratch.path("");
    let options = ["--dir", &directory, "--appendonly", "yes", "--appendfsync", "always", "--save", ""];
    let options = [&options[..], &ON].concat();
    let mut server = Server::darter(&options).expect("it starts");
    let mut beats = server.client();
    beat(&mut beats, "h:1:a", Some("running"));
    eventually("it is kept for longer", || {
        let text = beats.show("TTL h:1:a:work");
        text.rsplit(' ').next().and_then(|word| word.parse::<u64>().ok()).is_some_and(|seconds| seconds > 60)
    });
    check(&mut beats, "PEXPIRE h:1:a 1", "(integer) 1");
    server.signal(Signal::KILL);
    server.wait();
    let server = Server::darter(&options).expect("it starts again");
    let mut client = server.client();
    // A process that waited for the server sends a heartbeat. Processes not heard of yet have a while to send one.
    beat(&mut client, "h:2:b", None);
    eventually("the job is somewhere", || {
        client.show("LLEN queue:q") == "(integer) 1" || client.show("EXISTS h:1:a:work") == "(integer) 1"
    });
}

#[test]
fn a_replica_returns_nothing_and_follows() {
    let at_once = [&["--repl-diskless-sync-delay", "0"][..], &ON].concat();
    let (primary, replica) = (Server::start(2, "auto", &at_once), Server::start(2, "auto", &ON));
    follow(&replica, &primary);
    let (mut client, mut beats) = (primary.client(), primary.client());
    beat(&mut beats, "h:1:a", Some("running"));
    drop(beats);
    check(&mut client, "PEXPIRE h:1:a 1", "(integer) 1");
    eventually("it is back", || client.show("LLEN queue:q") == "(integer) 1");
    expect_same(&replica, &primary);
}
