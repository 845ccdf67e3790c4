//! A server answers while it loads its snapshot, and has all of it afterwards or nothing.
//!
//! The snapshot is a pipe, which ends when the test says so.

use std::fs::{self, File};
use std::io::Write;
use std::process::Command;

use blackbox::{
    Client, Scratch, Server, Signal, StartError, check, eventually, oracle, sample_keys, samples,
};
use ds::random::Random;

/// The requests that both servers get.
const ASKED: &str = "PING; ECHO a; GET a; SELECT 1; DBSIZE; NOTHING; GET; MULTI; SET a b; PING; EXEC; MULTI; \
    SELECT 0; EXEC; WATCH a; UNWATCH; EVAL 'return 1' 0; SCRIPT EXISTS a; FUNCTION LIST; \
    FUNCTION STATS; SAVE; BGSAVE; FLUSHALL; CONFIG GET maxmemory; CONFIG RESETSTAT; \
    OBJECT ENCODING a; MEMORY DOCTOR; PUBLISH a b; PUBSUB CHANNELS; LASTSAVE x; ROLE; WAIT 0 0; \
    XADD a * b c; BLPOP a 1; CLIENT GETNAME; CLIENT NO-EVICT on; COMMAND COUNT x; SLOWLOG LEN; \
    LATENCY RESET; ACL WHOAMI; RANDOMKEY; SCAN 0; DUMP a; SWAPDB 0 1; REPLICAOF NO ONE; HELLO 4; \
    GET a; SUBSCRIBE a; GET a; RESET";

const LOADING: &str = "(error) LOADING Redis is loading the dataset in memory";

fn options<'a>(directory: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["--proactor-threads=3", "--dir", directory, "--dbfilename", "dump.rdb"], more].concat()
}

/// A server that loads what is written to the pipe.
fn start_loading(scratch: &Scratch, more: &[&str]) -> (Server, File) {
    let path = scratch.path("dump.rdb");
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo is there").success());
    let server = Server::loading(&options(&scratch.path(""), more)).unwrap_or_else(|error| panic!("{error}"));
    (server, File::options().write(true).open(path).expect("the server opens it, too"))
}

/// Makes the samples, and a list that is longer than what is handed over at once.
fn fill(client: &mut Client) {
    for request in samples() {
        client.send_args(&request.iter().map(Vec::as_slice).collect::<Vec<_>>());
        client.receive();
    }
    check(
        client,
        "EVAL \"for i = 1, 30000 do redis.call('RPUSH', 'large', 'element ' .. i) end\" 1 large",
        "(nil)",
    );
}

/// A snapshot of the samples, and their digest, for a test of this name.
fn snapshot(test: &str) -> (Vec<u8>, String) {
    let scratch = Scratch::new(&format!("of-{test}"));
    let server = Server::darter(&options(&scratch.path(""), &[])).unwrap_or_else(|error| panic!("{error}"));
    let mut client = server.client();
    fill(&mut client);
    check(&mut client, "SAVE", "OK");
    (fs::read(scratch.path("dump.rdb")).expect("it was saved"), client.show("DEBUG DIGEST"))
}

#[test]
fn what_needs_no_data_is_served_meanwhile() {
    let (content, digest) = snapshot("meanwhile");
    let scratch = Scratch::new("meanwhile");
    let (server, mut pipe) = start_loading(&scratch, &["--maxmemory", "1"]);
    let (mut client, mut watcher) = (server.client(), server.client());
    check(&mut watcher, "WATCH large", "OK");
    check(&mut watcher, "MULTI", "OK");
    for line in [
        "SET key value",
        "GET key",
        "PING",
        "EVAL 'return 1' 0",
        "BGSAVE",
        "DEBUG RELOAD",
        "DEBUG POPULATE 1",
    ] {
        check(&mut client, line, LOADING);
    }
    check(&mut client, "ECHO word", "\"word\"");
    let middle = content.len() / 2;
    pipe.write_all(&content[..middle]).expect("the server reads");
    let read =
        |client: &mut Client| client.info("persistence", "loading_loaded_bytes").parse::<usize>().unwrap();
    eventually("some of it is read", || read(&mut client) > middle - 70_000);
    assert!(read(&mut client) <= middle);
    assert_eq!(client.info("persistence", "loading"), "1");
    assert_eq!(client.info("persistence", "loading_total_bytes"), "0", "nobody knows how long a pipe is");
    assert_ne!(client.info("persistence", "loading_rdb_used_mem"), "0");
    check(&mut client, "CONFIG SET maxmemory 0", "OK");
    check(&mut client, "EXISTS large", LOADING);
    pipe.write_all(&content[middle..]).expect("the server reads");
    eventually("all is loaded", || client.show("PING") == "PONG");
    assert_eq!(client.show("DEBUG DIGEST"), digest);
    assert_eq!(client.info("persistence", "loading"), "0");
    assert!(!client.show("INFO persistence").contains("loading_"));
    assert_eq!(client.info("persistence", "rdb_changes_since_last_save"), "0");
    let key_count = sample_keys().len() + 1;
    assert_eq!(client.info("persistence", "rdb_last_load_keys_loaded"), key_count.to_string());
    // The key is there now.
    check(&mut watcher, "EXEC", "(nil)");
    assert!(server.log().contains("DB loaded from dump.rdb"));
}

/// redis-server waits a moment after each key, so that it loads for as long as it is asked.
#[test]
fn redis_answers_the_same() {
    if oracle().is_none() {
        return;
    }
    let scratch = Scratch::new("slow");
    let theirs = scratch.path("theirs");
    fs::create_dir(&theirs).expect("a directory");
    let keys: Vec<u8> =
        (0..60_000).flat_map(|number| format!("\0\x05{number:05}\x3f{:63}", "v").into_bytes()).collect();
    let content = [b"REDIS0010", &keys[..], b"\xff\0\0\0\0\0\0\0\0"].concat();
    fs::write(format!("{theirs}/dump.rdb"), content).expect("a file");
    let slow = ["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"];
    let redis = Server::redis_loading(&[&["--dir", &theirs, "--dbfilename", "dump.rdb"], &slow[..]].concat());
    let redis = redis.unwrap_or_else(|error| panic!("{error}"));
    let (darter, _pipe) = start_loading(&scratch, &[]);
    let (mut ours, mut theirs) = (darter.client(), redis.client());
    for line in ASKED.split("; ") {
        assert_eq!(ours.show(line), theirs.show(line), "{line}");
    }
}

/// How it is ended, and whether it saves as it ends.
#[test]
fn an_end_meanwhile_saves_nothing() {
    for end in ["TERM", "SHUTDOWN", "SHUTDOWN SAVE"] {
        let (content, _) = snapshot("end");
        let scratch = Scratch::new("end");
        let (mut server, mut pipe) = start_loading(&scratch, &["--save", "3600 1"]);
        pipe.write_all(&content[..content.len() / 2]).expect("the server reads");
        let mut client = server.client();
        check(&mut client, "PING", LOADING);
        match end {
            "TERM" => server.signal(Signal::TERM),
            line => client.send(line),
        }
        client.expect_end();
        drop(pipe);
        assert_eq!(server.wait().code(), Some(0), "{end}");
        let names: Vec<_> =
            fs::read_dir(scratch.path("")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(names.len(), 1, "{end}: {names:?}");
        assert!(!names[0].metadata().unwrap().is_file(), "the pipe is still there");
    }
}

/// Clients are sent away, and the process says why it ends.
#[test]
fn what_is_damaged_ends_the_server() {
    let (content, _) = snapshot("broken");
    let scratch = Scratch::new("broken");
    let (mut server, mut pipe) = start_loading(&scratch, &[]);
    let mut client = server.client();
    check(&mut client, "GET large", LOADING);
    pipe.write_all(&content[..content.len() / 3]).expect("the server reads");
    drop(pipe);
    client.expect_end();
    assert_eq!(server.wait().code(), Some(1));
    let place = format!("dump.rdb: unexpected end at offset {}", content.len() / 3);
    assert!(server.log().contains(&place), "{}", server.log());
}

/// A bit changed anywhere, or the end missing.
#[test]
fn damage_is_found_and_its_place_is_named() {
    let seed = std::env::var("DARTER_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("DARTER_SEED={seed}");
    let mut random = Random::new(seed);
    let (content, _) = snapshot("damage");
    let scratch = Scratch::new("damage");
    for round in 0..40 {
        let at = random.below(content.len() as u64) as usize;
        let mut damaged = content.clone();
        if round % 2 == 0 {
            damaged[at] ^= 1 << random.below(8);
        } else {
            damaged.truncate(at);
        }
        fs::write(scratch.path("dump.rdb"), damaged).expect("a file");
        match Server::darter(&options(&scratch.path(""), &[])) {
            Err(StartError::Failed { log, .. }) => {
                assert!(log.contains("dump.rdb: ") && log.contains(" at offset "), "{at}: {log}");
            }
            Err(error) => panic!("{error}"),
            // A checksum of zero means that there is no checksum.
            Ok(_) => panic!("{at}: it starts"),
        }
    }
}
