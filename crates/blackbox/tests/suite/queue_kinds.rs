//! Queues that are not lists: streams that groups read, and sorted sets of scheduled jobs. Tests what is shown of them, and that a
//! pause holds readers of a stream, also across a restart.

use blackbox::{Client, Scratch, Server, Signal, check, eventually, text};
use resp::Value;

const MINUTE_MS: i64 = 60_000;

/// A field of a queue in QUEUE LIST; -1 if it is null or the queue does not exist.
fn field(client: &mut Client, queue: &str, name: &str) -> i64 {
    let Value::Array(rows) = client.call(&format!("QUEUE LIST MATCH {queue}")) else { panic!("no list") };
    let Some(Value::Array(row)) = rows.first() else { return -1 };
    let at = row.chunks_exact(2).find(|pair| text(&pair[0]) == name).expect("all queues have it");
    if let Value::Int(number) = at[1] { number } else { -1 }
}

#[track_caller]
fn expect(client: &mut Client, queue: &str, depth: i64, age_ms: std::ops::Range<i64>) {
    eventually(&format!("{queue} has {depth} that are {age_ms:?} old"), || {
        field(client, queue, "depth") == depth && age_ms.contains(&field(client, queue, "oldest_ms"))
    });
}

fn now_ms(client: &mut Client) -> i64 {
    let Value::Array(parts) = client.call("TIME") else { panic!("no time") };
    text(&parts[0]).parse::<i64>().expect("these are seconds") * 1000
}

/// Nothing is lost in a restart, and streams `events:*` are queues.
fn with_journal(folder: &str) -> [&str; 8] {
    ["--dir", folder, "--appendonly", "yes", "--appendfsync", "always", "--queue-pattern", "events:*"]
}

fn restart(mut server: Server, options: &[&str]) -> Server {
    server.signal(Signal::KILL);
    server.wait();
    let server = Server::start(2, "auto", options);
    let mut client = server.client();
    eventually("it has loaded", || client.info("persistence", "loading") == "0");
    server
}

/// Number of entries of a stream that a group gets without waiting.
fn taken(client: &mut Client, stream: &str, count: usize) -> usize {
    match client.call(&format!("XREADGROUP GROUP g c COUNT {count} STREAMS {stream} >")) {
        Value::Array(streams) => match &streams[0] {
            Value::Array(parts) => match &parts[1] {
                Value::Array(entries) => entries.len(),
                other => panic!("{other}"),
            },
            other => panic!("{other}"),
        },
        _ => 0,
    }
}

#[test]
fn a_stream_has_what_its_groups_have_not_got_yet() {
    let scratch = Scratch::new("streams");
    let folder = scratch.path("");
    let options = with_journal(&folder);
    let server = Server::start(2, "auto", &options);
    let mut client = server.client();
    let came_ms = now_ms(&mut client) - 2 * MINUTE_MS;
    for number in 1..=10 {
        client.call(&format!("XADD events:a {}-{number} n {number}", came_ms + number / 6 * MINUTE_MS));
    }
    let old = 2 * MINUTE_MS - 1000..3 * MINUTE_MS;
    expect(&mut client, "events:a", 10, old.clone());
    // Redis cannot tell the lag of a group that begins in the middle.
    check(&mut client, &format!("XGROUP CREATE events:a g {came_ms}-3"), "OK");
    expect(&mut client, "events:a", 7, old.clone());
    check(&mut client, "XGROUP CREATE events:a behind 0", "OK");
    expect(&mut client, "events:a", 10, old.clone());
    check(&mut client, "XGROUP DESTROY events:a behind", "(integer) 1");
    // Pending entries are with a worker.
    assert_eq!(taken(&mut client, "events:a", 2), 2);
    expect(&mut client, "events:a", 5, MINUTE_MS - 1000..2 * MINUTE_MS);
    check(&mut client, &format!("XDEL events:a {}-8", came_ms + MINUTE_MS), "(integer) 1");
    expect(&mut client, "events:a", 4, MINUTE_MS - 1000..2 * MINUTE_MS);
    let server = restart(server, &options);
    let mut client = server.client();
    expect(&mut client, "events:a", 4, MINUTE_MS - 1000..2 * MINUTE_MS);
    assert_eq!(taken(&mut client, "events:a", 9), 4);
    expect(&mut client, "events:a", 0, -1..0);
}

#[test]
fn a_paused_stream_gives_its_readers_nothing_new() {
    let scratch = Scratch::new("paused-streams");
    let folder = scratch.path("");
    let options = with_journal(&folder);
    let server = Server::start(2, "auto", &options);
    let (mut client, mut waiting, mut late) = (server.client(), server.client(), server.client());
    check(&mut client, "XGROUP CREATE events:a g $ MKSTREAM", "OK");
    client.call("XADD events:a 1-1 n 1");
    assert_eq!(taken(&mut client, "events:a", 9), 1);
    waiting.send("XREADGROUP GROUP g c BLOCK 0 STREAMS events:a >");
    eventually("one waits", || field(&mut client, "events:a", "waiters") == 1);
    check(&mut client, "QUEUE PAUSE events:a", "(integer) 1");
    client.call("XADD events:a 1-2 n 2");
    assert_eq!(field(&mut client, "events:a", "waiters"), 1, "it goes on waiting");
    assert_eq!(taken(&mut client, "events:a", 9), 0);
    late.send("XREADGROUP GROUP g c BLOCK 0 STREAMS events:a >");
    eventually("two wait", || field(&mut client, "events:a", "waiters") == 2);
    // Reading a consumer's own entries takes nothing from the queue, and neither does reading without a group.
    assert!(client.show("XREADGROUP GROUP g c STREAMS events:a 0").contains("\"1-1\""));
    check(&mut client, "QUEUE RESUME events:a", "(integer) 1");
    assert!(waiting.receive().to_string().contains("\"1-2\""), "the first that came is served");
    check(&mut client, "QUEUE PAUSE events:a", "(integer) 1");
    client.call("XADD events:a 1-3 n 3");
    assert_eq!(field(&mut client, "events:a", "waiters"), 1);
    let server = restart(server, &options);
    let mut client = server.client();
    assert_eq!(field(&mut client, "events:a", "paused"), 1);
    assert_eq!(taken(&mut client, "events:a", 9), 0);
    let mut waiting = server.client();
    waiting.send("XREADGROUP GROUP g c BLOCK 0 STREAMS events:a >");
    eventually("one waits", || field(&mut client, "events:a", "waiters") == 1);
    check(&mut client, "QUEUE RESUME events:a", "(integer) 1");
    assert!(waiting.receive().to_string().contains("\"1-3\""));
}

#[test]
fn a_sorted_set_is_as_old_as_its_first_job_is_late() {
    let scratch = Scratch::new("due");
    let folder = scratch.path("");
    let options = ["--dir", &folder, "--appendonly", "yes", "--appendfsync", "always"];
    let server = Server::start(2, "auto", &options);
    let mut client = server.client();
    let now_ms = now_ms(&mut client);
    let (late_s, later_s) =
        ((now_ms - 5 * MINUTE_MS) as f64 / 1000.0 + 0.25, (now_ms + 60 * MINUTE_MS) / 1000);
    client.call(&format!("ZADD schedule {late_s} late {later_s} later"));
    client.call(&format!("ZADD retry {later_s} later"));
    client.call(&format!("ZADD bull:q:delayed {} late", (now_ms - 3 * MINUTE_MS) * 4096));
    client.call(&format!("ZADD dead {} old", now_ms / 1000 - 86_400));
    client.call("LPUSH queue:a job");
    let expect_all = |client: &mut Client| {
        expect(client, "schedule", 2, 5 * MINUTE_MS - 1000..6 * MINUTE_MS);
        expect(client, "bull:q:delayed", 1, 3 * MINUTE_MS - 1000..4 * MINUTE_MS);
        expect(client, "dead", 1, 86_400_000 - 1000..86_460_000);
        expect(client, "retry", 1, -1..0);
        let Value::Array(rows) = client.call("QUEUE LIST") else { panic!("no list") };
        let name = |row: &Value| if let Value::Array(row) = row { text(&row[1]) } else { panic!("{row}") };
        let names: Vec<String> = rows.iter().map(name).collect();
        assert_eq!(names, ["queue:a", "schedule", "bull:q:delayed", "retry", "dead"]);
    };
    expect_all(&mut client);
    let server = restart(server, &options);
    let mut client = server.client();
    expect_all(&mut client);
    check(&mut client, "ZREM schedule late", "(integer) 1");
    expect(&mut client, "schedule", 1, -1..0);
    // No client can take from a paused queue. Everything else continues.
    check(&mut client, "QUEUE PAUSE retry", "(integer) 1");
    check(&mut client, "ZPOPMIN retry", "(empty array)");
    check(&mut client, "ZRANGEBYSCORE retry -inf +inf", "1) \"later\"");
}
