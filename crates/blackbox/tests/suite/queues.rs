//! Queues while operators act: they pause them, flush and swap databases, kill the server, and replicate it with a real redis-server.
//!
//! How exact ages, rates and waiting times are: `scripts/queue-account`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use blackbox::replication::{expect_same, follow, is_up, redis};
use blackbox::{Client, Scratch, Server, SetAtEnd, Signal, check, eventually, text};
use resp::Value;

const QUEUES: [&str; 3] = ["queue:a", "queue:b", "queue:c"];
/// Number of elements that each producer pushes.
const ELEMENTS: usize = 1500;
/// The last element. Each worker puts it back and ends.
const END: &str = "end";

/// One line for each queue of the client's database: name, depth, waiting clients, and 1 if it is paused.
fn queues(client: &mut Client) -> Vec<String> {
    let script = "local rows = {} for i, row in ipairs(redis.call('QUEUE', 'LIST')) do local of = {} \
                  for j = 1, #row, 2 do of[row[j]] = row[j + 1] end \
                  rows[i] = table.concat({of.name, of.depth, of.waiters, of.paused}, ' ') end return rows";
    match client.call(&format!("EVAL \"{script}\" 0")) {
        Value::Array(rows) => rows.iter().map(text).collect(),
        other => panic!("{other}"),
    }
}

/// Pauses and resumes in every way until it is over.
fn pause_and_resume(server: &Server, is_over: &AtomicBool) {
    let mut client = server.client();
    let mut round = 0;
    while !is_over.load(Ordering::Relaxed) {
        let (one, other) = (QUEUES[round % 3], QUEUES[round / 3 % 3]);
        match round % 4 {
            0 => check(&mut client, "MULTI", "OK"),
            1 => _ = client.call(&format!("EVAL \"return redis.call('QUEUE', 'PAUSE', KEYS[1])\" 1 {one}")),
            _ => _ = client.call(&format!("QUEUE PAUSE {one} {other}")),
        }
        _ = client.call(&format!("QUEUE RESUME {other}"));
        if round.is_multiple_of(4) {
            _ = client.call(&format!("QUEUE PAUSE {one}"));
            _ = client.call("EXEC");
        }
        round += 1;
    }
    for queue in QUEUES {
        _ = client.call(&format!("QUEUE RESUME {queue}"));
    }
}

/// Pushes in every way. Some ways also pause the queue.
fn produce(server: &Server, producer: usize) {
    let mut client = server.client();
    for number in 0..ELEMENTS {
        let (queue, element) = (QUEUES[number % 3], format!("{producer}:{number}"));
        let push = format!("redis.call('LPUSH', '{queue}', '{element}')");
        match number % 5 {
            0 => _ = client.call(&format!("EVAL \"redis.call('QUEUE', 'PAUSE', '{queue}') {push}\" 0")),
            1 => _ = client.call(&format!("EVAL \"{push} redis.call('QUEUE', 'PAUSE', '{queue}')\" 0")),
            2 => {
                for line in ["MULTI", &format!("LPUSH {queue} {element}"), &format!("QUEUE PAUSE {queue}")] {
                    client.call(line);
                }
                client.call("EXEC");
            }
            _ => _ = client.call(&format!("LPUSH {queue} {element}")),
        }
    }
}

/// Takes elements until the end appears. Returns them.
fn work(server: &Server, worker: usize) -> Vec<String> {
    let mut client = server.client();
    let [a, b, c] = QUEUES;
    let takes = [
        format!("BRPOP {a} {b} {c} 0"),
        format!("BLMPOP 0 3 {b} {c} {a} RIGHT"),
        format!("BLPOP {c} {a} {b} 0"),
        format!("BLMPOP 0 3 {c} {b} {a} LEFT"),
    ];
    let mut taken = Vec::new();
    loop {
        let Value::Array(reply) = client.call(&takes[worker % takes.len()]) else {
            panic!("it waits for ever")
        };
        let element = match &reply[1] {
            Value::Array(elements) => text(&elements[0]),
            element => text(element),
        };
        if element == END {
            client.call(&format!("LPUSH {a} {END}"));
            return taken;
        }
        taken.push(element);
    }
}

#[test]
fn pauses_lose_no_element_and_leave_nobody_waiting() {
    let server = Server::start(2, "auto", &[]);
    let is_over = AtomicBool::new(false);
    let taken: Vec<String> = std::thread::scope(|scope| {
        let end = SetAtEnd(&is_over, true);
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                scope.spawn({
                    let server = &server;
                    move || work(server, worker)
                })
            })
            .collect();
        let pauser = scope.spawn(|| pause_and_resume(&server, &is_over));
        let producers: Vec<_> = (0..2)
            .map(|producer| {
                scope.spawn({
                    let server = &server;
                    move || produce(server, producer)
                })
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().expect("it pushes"));
        drop(end);
        pauser.join().expect("it pauses");
        let mut client = server.client();
        eventually("all was taken", || {
            QUEUES.iter().all(|queue| client.call(&format!("LLEN {queue}")) == Value::Int(0))
        });
        client.call(&format!("LPUSH {} {END}", QUEUES[0]));
        workers.into_iter().flat_map(|worker| worker.join().expect("it works")).collect()
    });
    assert_eq!(taken.len(), 2 * ELEMENTS);
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), 2 * ELEMENTS);
    assert_eq!(queues(&mut server.client()), ["queue:a 1 0 0", "queue:b 0 0 0", "queue:c 0 0 0"]);
}

#[test]
fn who_waits_is_counted_wherever_the_queue_goes() {
    let server = Server::start(2, "auto", &["--enable-debug-command", "yes"]);
    let (mut client, mut worker, mut other) = (server.client(), server.client(), server.client());
    worker.send("BRPOP queue:a jobs 0");
    check(&mut other, "SELECT 1", "OK");
    let expect = |client: &mut Client, rows: &[&str]| {
        eventually("they are counted", || queues(client) == rows);
    };
    expect(&mut client, &["queue:a 0 1 0"]);
    check(&mut client, "CONFIG SET queue-pattern jobs", "OK");
    expect(&mut client, &["jobs 0 1 0", "queue:a 0 1 0"]);
    for command in ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "DEBUG RELOAD", "SWAPDB 1 0"] {
        check(&mut client, command, "OK");
        expect(&mut client, &["jobs 0 1 0", "queue:a 0 1 0"]);
    }
    assert!(queues(&mut other).iter().all(|row| row.ends_with(" 0 0 0")));
    client.call("LPUSH queue:a job");
    assert_eq!(worker.receive().to_string(), "1) \"queue:a\"\n2) \"job\"");
    expect(&mut client, &["jobs 0 0 0", "queue:a 0 0 0"]);
}

#[test]
fn paused_queues_stay_so_over_restarts() {
    let scratch = Scratch::new("paused");
    let folder = scratch.path("");
    let options = ["--dir", &folder, "--appendonly", "yes", "--appendfsync", "always"];
    let mut server = Server::start(2, "auto", &options);
    let mut client = server.client();
    eventually("the journal has its base", || client.info("persistence", "aof_rewrite_in_progress") == "0");
    for number in 0..300 {
        check(&mut client, &format!("SELECT {}", number % 2), "OK");
        check(&mut client, &format!("QUEUE PAUSE queue:{number}"), "(integer) 1");
        check(&mut client, &format!("LPUSH queue:{number} x"), "(integer) 1");
    }
    check(&mut client, "SWAPDB 0 1", "OK");
    check(&mut client, "SELECT 0", "OK");
    check(&mut client, "QUEUE RESUME queue:1", "(integer) 1");
    for command in ["PING", "BGREWRITEAOF", "PING"] {
        client.call(command);
        eventually("it is written", || client.info("persistence", "aof_rewrite_in_progress") == "0");
        server.signal(Signal::KILL);
        server.wait();
        server = Server::start(2, "auto", &options);
        client = server.client();
        eventually("it has loaded", || client.info("persistence", "loading") == "0");
        for number in 0..300 {
            check(&mut client, &format!("SELECT {}", (number + 1) % 2), "OK");
            let element = if number == 1 { "\"x\"" } else { "(nil)" };
            check(&mut client, &format!("RPOP queue:{number}"), element);
        }
        check(&mut client, "SELECT 0", "OK");
        check(&mut client, "LPUSH queue:1 x", "(integer) 1");
    }
}

#[test]
fn redis_follows_a_server_that_pauses_queues() {
    let Some(replica) = redis(&[]) else { return };
    let primary = Server::start(2, "auto", &["--repl-diskless-sync-delay", "0"]);
    let mut client = primary.client();
    check(&mut client, "QUEUE PAUSE queue:a queue:b", "(integer) 2");
    check(&mut client, "LPUSH queue:a 1 2 3", "(integer) 3");
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    for line in [
        "QUEUE RESUME queue:a",
        "RPOP queue:a",
        "QUEUE PAUSE queue:a queue:c",
        "MULTI",
        "QUEUE PAUSE queue:d",
        "LPUSH queue:d 1",
        "QUEUE RESUME queue:b",
        "EXEC",
        "EVAL \"redis.call('QUEUE', 'PAUSE', KEYS[1]) redis.call('LPUSH', KEYS[1], 2)\" 1 queue:b",
        "LMOVE queue:d queue:a LEFT LEFT",
    ] {
        client.call(line);
    }
    expect_same(&replica, &primary);
    check(&mut replica.client(), "LRANGE queue:b 0 -1", "1) \"2\"");
    assert_eq!(primary.client().info("stats", "sync_full"), "1");
}
