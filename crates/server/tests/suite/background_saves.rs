//! Snapshots saved in the background: clients are served meanwhile, the snapshot has the data at the cut, and a
//! failure leaves the old snapshot.
//!
//! Where a save has to be under way for as long as a test wants, the file that the writer opens is a pipe: it accepts
//! only as much as the test reads.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use blackbox::{
    Batch, Client, Generator, Scratch, Server, SetAtEnd, Signal, check, eventually, oracle, samples,
};
use ds::random::Random;
use engine::Table;
use resp::Value;

const IN_PROGRESS: &str = "(error) ERR Background save already in progress";

/// A server of three threads with its snapshot in `scratch`, which must exist for as long.
fn start(scratch: &Scratch, more: &[&str]) -> Server {
    let directory = scratch.path("");
    Server::start(3, "auto", &[&["--dir", &directory, "--dbfilename", "dump.rdb"], more].concat())
}

fn field(client: &mut Client, name: &str) -> String {
    client.info("persistence", name)
}

fn call(client: &mut Client, args: &[&[u8]]) -> Value {
    client.send_args(args);
    client.receive()
}

/// Waits for the end of the save; how it ended.
fn saved(client: &mut Client) -> String {
    eventually("it saves", || field(client, "rdb_bgsave_in_progress") == "0");
    field(client, "rdb_last_bgsave_status")
}

fn kill(mut server: Server) {
    server.signal(Signal::KILL);
    server.wait();
}

/// Data of every kind, size and encoding, in two databases.
fn fill(client: &mut Client) {
    for db in [3, 0] {
        check(client, &format!("SELECT {db}"), "OK");
        for request in samples() {
            let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            assert!(!matches!(call(client, &args), Value::Error(_)));
        }
    }
    check(client, "DEBUG POPULATE 3000 key 300", "OK");
    let large = "for i = 1, 3000 do redis.call('RPUSH', 'large', i) redis.call('HSET', 'large:hash', i, i) \
                 redis.call('ZADD', 'large:zset', i, i) redis.call('SADD', 'large:set', 'm' .. i) end";
    check(client, &format!("EVAL \"{large}\" 4 large large:hash large:zset large:set"), "(nil)");
    let long = vec![b'x'; 1_000_000];
    assert_eq!(call(client, &[b"SET", b"long", &long]), Value::Simple(b"OK".to_vec()));
}

/// A digest of the data, which only deliberate changes change.
fn state(client: &mut Client) -> [String; 3] {
    let mut size_of = |db: &str| {
        check(client, &format!("SELECT {db}"), "OK");
        client.show("DBSIZE")
    };
    let sizes = [size_of("3"), size_of("0")].concat();
    [client.show("DEBUG DIGEST"), sizes, client.show("XINFO STREAM stream:nodes")]
}

/// The pipe in the place of the file that the server will write.
fn pipe(scratch: &Scratch, server: &Server) -> String {
    let path = scratch.path(&format!("temp-{}.0.rdb", server.process_id()));
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo is there").success());
    path
}

/// Does whatever there is for as long as `goes_on`, on connections that come and go.
fn disturb(server: &Server, table: &Table, seed: u64, goes_on: &AtomicBool) {
    let mut generator = Generator::new(seed, table);
    let mut random = Random::new(seed);
    let special = [
        "FLUSHDB",
        "SWAPDB 0 3",
        "RENAME large other",
        "LPOP large 5",
        "HSET large:hash 5 x",
        "ZPOPMIN large:zset 4",
        "SPOP large:set 9",
        "APPEND long y",
        "BRPOPLPUSH large large 1",
        "SORT large STORE large:sorted",
        "XTRIM stream:nodes MAXLEN 3",
        "EVAL \"for i = 1, 500 do redis.call('SET', 'grow:' .. i, i) end\" 0",
        "EVAL \"redis.call('DEL', 'large', 'large:set')\" 0",
    ];
    while goes_on.load(Ordering::Relaxed) {
        let mut client = server.client();
        let mut reader = client.stream().try_clone().expect("a socket");
        let sink = std::thread::spawn(move || drop(std::io::copy(&mut reader, &mut std::io::sink())));
        for _ in 0..20 {
            let Batch { requests, .. } = generator.batch();
            let mut bytes = Vec::new();
            for request in requests {
                resp::encode_request(&request, &mut bytes);
            }
            if random.below(3) == 0 {
                let line = special[random.below(special.len() as u64) as usize];
                resp::encode_request(&resp::split_args(line.as_bytes()).expect("words"), &mut bytes);
            }
            // Some requests end the connection.
            let _ = client.stream().write_all(&bytes);
        }
        let _ = client.stream().shutdown(Shutdown::Write);
        let _ = client.stream().shutdown(Shutdown::Both);
        sink.join().expect("it only reads");
    }
}

#[test]
fn a_database_that_is_emptied_and_then_flushed_is_saved() {
    let scratch = Scratch::new("emptied");
    let server = Server::start(1, "auto", &["--dir", &scratch.path(""), "--dbfilename", "dump.rdb"]);
    let mut client = server.client();
    check(&mut client, "SET key value", "OK");
    // In one turn, so that the traversal does not come between.
    client.send_bytes(b"BGSAVE\r\nDEL key\r\nFLUSHDB\r\n");
    (0..3).for_each(|_| drop(client.receive()));
    assert_eq!(saved(&mut client), "ok");
    kill(server);
    let server = Server::start(1, "auto", &["--dir", &scratch.path(""), "--dbfilename", "dump.rdb"]);
    check(&mut server.client(), "GET key", "\"value\"");
}

#[test]
fn a_save_goes_where_settings_said_when_it_began() {
    let (scratch, other) = (Scratch::new("begun"), Scratch::new("later"));
    let server = start(&scratch, &["--enable-debug-command", "yes", "--enable-protected-configs", "yes"]);
    let mut client = server.client();
    check(&mut client, "DEBUG POPULATE 20000 key 300", "OK");
    let change = format!("CONFIG SET dir {} dbfilename other.rdb", other.path(""));
    client.send_bytes(format!("BGSAVE\r\n{change}\r\n").as_bytes());
    assert_eq!(client.receive(), Value::Simple(b"Background saving started".to_vec()));
    assert_eq!(client.receive(), Value::Simple(b"OK".to_vec()));
    assert_eq!(saved(&mut client), "ok");
    assert!(Path::new(&scratch.path("dump.rdb")).exists());
    check(&mut client, "SAVE", "OK");
    assert!(Path::new(&other.path("other.rdb")).exists());
}

#[test]
fn what_is_saved_is_what_there_was_at_the_cut() {
    let table = Table::new(commands::FAMILIES);
    let first: u64 = std::env::var("DARTER_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    for seed in first..first + 4 {
        println!("DARTER_SEED={seed}");
        let scratch = Scratch::new("cut");
        let compression = if seed % 2 == 0 { "yes" } else { "no" };
        let server = start(&scratch, &["--rdbcompression", compression]);
        let mut client = server.client();
        fill(&mut client);
        let at_cut = state(&mut client);
        let path = pipe(&scratch, &server);
        check(&mut client, "BGSAVE", "Background saving started");
        let goes_on = AtomicBool::new(true);
        let mut content = Vec::new();
        std::thread::scope(|scope| {
            let _end = SetAtEnd(&goes_on, false);
            (0..3).for_each(|number| {
                let (server, table, goes_on) = (&server, &table, &goes_on);
                scope.spawn(move || disturb(server, table, seed * 10 + number, goes_on));
            });
            let mut pipe = File::open(&path).expect("the server has opened it");
            let mut random = Random::new(seed);
            let mut buffer = vec![0; 100_000];
            loop {
                // Others write, as far as they may, while nothing is read.
                check(&mut client, "PING", "PONG");
                let some = 1 + random.below(buffer.len() as u64) as usize;
                match pipe.read(&mut buffer[..some]).expect("a pipe") {
                    0 => break,
                    len => content.extend_from_slice(&buffer[..len]),
                }
            }
        });
        // A pipe cannot be made durable, so this is no snapshot yet.
        assert_eq!(saved(&mut client), "err");
        assert_ne!(state(&mut client), at_cut);
        assert!(!Path::new(&scratch.path("dump.rdb")).exists());
        kill(server);
        fs::write(scratch.path("dump.rdb"), content).unwrap();
        let server = start(&scratch, &[]);
        let mut client = server.client();
        assert_eq!(state(&mut client), at_cut);
    }
}

#[test]
fn redis_loads_what_was_saved_in_the_background() {
    let Some(_) = oracle() else { return };
    for options in
        [&[][..], &["--rdbcompression", "no", "--rdbchecksum", "no", "--rdb-save-incremental-fsync", "no"]]
    {
        let scratch = Scratch::new("background-exchange");
        let server = start(&scratch, options);
        let mut client = server.client();
        fill(&mut client);
        let at_cut = state(&mut client);
        check(&mut client, "BGSAVE SCHEDULE", "Background saving started");
        assert_eq!(saved(&mut client), "ok");
        assert_eq!(field(&mut client, "rdb_changes_since_last_save"), "0");
        assert_eq!(field(&mut client, "rdb_saves"), "1");
        let names: Vec<_> =
            fs::read_dir(scratch.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["dump.rdb"]);
        kill(server);
        let checked = Command::new("redis-check-rdb").arg(scratch.path("dump.rdb")).output().unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        let redis = Server::redis_with(&["--dir", &scratch.path(""), "--dbfilename", "dump.rdb"]).unwrap();
        assert_eq!(state(&mut redis.client())[..2], at_cut[..2]);
        assert_eq!(state(&mut start(&scratch, &[]).client()), at_cut);
    }
}

#[test]
fn one_save_at_a_time() {
    let scratch = Scratch::new("one");
    let mut server = start(&scratch, &["--rdbcompression", "no"]);
    let mut client = server.client();
    check(&mut client, "BGSAVE x", "(error) ERR syntax error");
    fill(&mut client);
    check(&mut client, "SAVE", "OK");
    let path = pipe(&scratch, &server);
    check(&mut client, "BGSAVE", "Background saving started");
    for line in ["BGSAVE", "BGSAVE SCHEDULE", "SAVE"] {
        check(&mut client, line, IN_PROGRESS);
    }
    assert_eq!(field(&mut client, "rdb_bgsave_in_progress"), "1");
    assert_ne!(field(&mut client, "current_save_keys_total"), "0");
    assert_eq!(
        field(&mut client, "rdb_current_bgsave_time_sec").parse::<i64>().map(|seconds| seconds >= 0),
        Ok(true)
    );
    // New keys do not concern the save. A writer whose key must be saved first waits; other clients do not.
    check(&mut client, "SET new 1", "OK");
    let mut writer = server.client();
    writer.send("LPOP large");
    check(&mut client, "LINDEX large 0", "\"1\"");
    check(&mut client, "MULTI", "OK");
    check(&mut client, "BGSAVE", "QUEUED");
    check(&mut client, "EXEC", &format!("1) {IN_PROGRESS}"));
    let mut pipe = File::open(path).expect("the server has opened it");
    let mut content = Vec::new();
    pipe.read_to_end(&mut content).expect("a pipe");
    assert_eq!(writer.receive().to_string(), "\"1\"");
    assert_eq!(saved(&mut client), "err");
    check(&mut client, "MULTI", "OK");
    check(&mut client, "BGSAVE", "QUEUED");
    check(&mut client, "EXEC", "1) Background saving scheduled");
    eventually("it saves", || field(&mut client, "rdb_saves") == "2");
    client.send("SHUTDOWN NOSAVE");
    client.expect_end();
    server.wait();
}

/// Ways to end the server, whether what was new is on disk then.
#[test]
fn a_server_may_end_while_it_saves() {
    for (end, saves) in
        [("SHUTDOWN NOSAVE", false), ("SHUTDOWN SAVE", true), ("TERM", false), ("KILL", false)]
    {
        let scratch = Scratch::new("end-while");
        let mut server = start(&scratch, &["--rdbcompression", "no"]);
        let mut client = server.client();
        fill(&mut client);
        check(&mut client, "SET key old", "OK");
        check(&mut client, "SAVE", "OK");
        check(&mut client, "SET key new", "OK");
        check(&mut client, "CONFIG SET stop-writes-on-bgsave-error no", "OK");
        let path = pipe(&scratch, &server);
        check(&mut client, "BGSAVE", "Background saving started");
        let mut pipe = File::open(path).expect("the server has opened it");
        match end {
            "TERM" => server.signal(Signal::TERM),
            "KILL" => server.signal(Signal::KILL),
            line => client.send(line),
        }
        let _ = pipe.read_to_end(&mut Vec::new());
        client.expect_end();
        server.wait();
        let server = start(&scratch, &[]);
        let mut client = server.client();
        check(&mut client, "GET key", if saves { "\"new\"" } else { "\"old\"" });
        let names: Vec<_> =
            fs::read_dir(scratch.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["dump.rdb"], "{end} leaves files");
    }
}

#[test]
fn a_save_that_fails_leaves_the_old_snapshot_and_stops_writes() {
    let scratch = Scratch::new("fails");
    let server = start(&scratch, &["--save", "3600 1000000"]);
    let mut client = server.client();
    fill(&mut client);
    check(&mut client, "BGSAVE", "Background saving started");
    assert_eq!(saved(&mut client), "ok");
    let before = fs::read(scratch.path("dump.rdb")).unwrap();
    let temporary = scratch.path(&format!("temp-{}.0.rdb", server.process_id()));
    // The file cannot be opened, or what a large value needs.
    for path in [temporary.clone(), temporary.replace(".0.", ".1.")] {
        fs::create_dir(&path).unwrap();
        check(&mut client, "BGSAVE", "Background saving started");
        assert_eq!(saved(&mut client), "err");
        assert!(server.log().contains("Background saving error: Is a directory"));
        fs::remove_dir(&path).unwrap();
        let refused = client.show("SET key value");
        assert!(
            refused.starts_with("(error) MISCONF Redis is configured to save RDB snapshots, but"),
            "{refused}"
        );
        assert_eq!(client.show("PING"), refused);
        check(&mut client, "MULTI", "OK");
        assert_eq!(client.show("SET key value"), refused);
        let aborted = client.show("EXEC");
        assert!(aborted.starts_with("(error) EXECABORT"), "{aborted}");
        let in_script = client.show("EVAL \"return redis.call('SET', KEYS[1], 1)\" 1 key");
        assert!(in_script.contains("MISCONF"), "{in_script}");
        check(&mut client, "GET key", "(nil)");
        check(&mut client, "BGSAVE", "Background saving started");
        assert_eq!(saved(&mut client), "ok");
        check(&mut client, "SET key value", "OK");
        check(&mut client, "DEL key", "(integer) 1");
    }
    assert!(before.len().abs_diff(fs::read(scratch.path("dump.rdb")).unwrap().len()) < 200);
    assert_eq!(fs::read_dir(scratch.path("")).unwrap().count(), 1);
}

#[test]
fn save_points_save_unasked() {
    let scratch = Scratch::new("points");
    let server = start(&scratch, &["--save", "1 2"]);
    let mut client = server.client();
    check(&mut client, "CONFIG GET save", "1) \"save\"\n2) \"1 2\"");
    check(&mut client, "MSET a 1 b 2 c 3", "OK");
    eventually("it saves", || field(&mut client, "rdb_saves") == "1");
    assert_eq!(field(&mut client, "rdb_changes_since_last_save"), "0");
    assert!(server.log().contains("3 changes in 1 seconds. Saving..."));
    // With save points, what is deleted with all else is gone from the disk at once.
    check(&mut client, "FLUSHALL", "OK");
    assert_eq!(field(&mut client, "rdb_saves"), "2");
    kill(server);
    check(&mut start(&scratch, &[]).client(), "DBSIZE", "(integer) 0");
}

#[test]
fn schedules_and_names_with_times() {
    let scratch = Scratch::new("names");
    fs::write(scratch.path("temp-4194305.0.rdb"), "left").unwrap();
    let options = ["--dbfilename", "of-{timestamp}.rdb", "--snapshot-cron", "* * * * *"];
    let server = start(&scratch, &options);
    let mut client = server.client();
    assert!(!Path::new(&scratch.path("temp-4194305.0.rdb")).exists(), "what a dead server left is removed");
    eventually("it saves", || field(&mut client, "rdb_saves") == "1");
    check(&mut client, "SET key value", "OK");
    fs::write(scratch.path("of-2000-01-01T00-00-00.rdb"), "no snapshot").unwrap();
    fs::write(scratch.path("of-other.rdb"), "no snapshot").unwrap();
    // In another second than the other.
    eventually("it has another name", || {
        check(&mut client, "SAVE", "OK");
        fs::read_dir(scratch.path("")).unwrap().count() == 4
    });
    kill(server);
    check(&mut start(&scratch, &options).client(), "GET key", "\"value\"");
    let server = start(&scratch, &[]);
    let mut client = server.client();
    check(&mut client, "DBSIZE", "(integer) 0");
    let refused = client.show("CONFIG SET snapshot-cron x");
    assert!(refused.contains("five fields are needed"), "{refused}");
}
