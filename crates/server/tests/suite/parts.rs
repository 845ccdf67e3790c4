//! Snapshots in Darter's own format: saved data is there after a restart with any number of threads, and damaged or
//! missing files are named.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use blackbox::{
    Batch, Client, Generator, Scratch, Server, SetAtEnd, Signal, StartError, check, eventually, sample_keys,
    samples, stream_state,
};
use ds::random::Random;
use engine::Table;

const LIBRARY: &str = "#!lua name=lib\\nredis.register_function('answer', function() return 42 end)";
const SHUTDOWN: &str = "SHUTDOWN SAVE";

/// Starts a server with this many threads and its snapshot in `scratch`, which must outlive the server.
fn start(scratch: &Scratch, threads: usize, more: &[&str]) -> Server {
    let directory = scratch.path("");
    let own = ["--dir", &directory, "--dbfilename", "dump.rdb", "--snapshot-format", "darter"];
    Server::start(threads, "auto", &[&own, more].concat())
}

/// Data of every kind, size and encoding, in two databases.
fn fill(client: &mut Client) {
    for db in [3, 0] {
        check(client, &format!("SELECT {db}"), "OK");
        for request in samples() {
            client.send_args(&request.iter().map(Vec::as_slice).collect::<Vec<_>>());
            client.receive();
        }
    }
    check(client, "DEBUG POPULATE 2000 key 300", "OK");
    let large = "for i = 1, 2000 do redis.call('RPUSH', 'large', i) redis.call('HSET', 'large:hash', i, i) \
                 redis.call('ZADD', 'large:zset', i, i) redis.call('SADD', 'large:set', 'm' .. i) end";
    check(client, &format!("EVAL \"{large}\" 4 large large:hash large:zset large:set"), "(nil)");
    client.send_args(&[b"SET", b"long", &vec![b'x'; 2_000_000]]);
    assert_eq!(client.receive().to_string(), "OK");
    check(client, &format!("FUNCTION LOAD REPLACE \"{LIBRARY}\""), "\"lib\"");
}

/// All data of the server.
fn state(client: &mut Client) -> Vec<String> {
    check(client, "FCALL answer 0", "(integer) 42");
    let mut state = vec![client.show("DEBUG DIGEST"), client.show("FUNCTION LIST WITHCODE")];
    for db in [3, 0] {
        check(client, &format!("SELECT {db}"), "OK");
        state.push(client.show("DBSIZE"));
        for key in sample_keys() {
            client.send_args(&[b"PEXPIRETIME", &key]);
            state.push(client.receive().to_string());
            state.push(stream_state(client, &key));
        }
    }
    state
}

/// Saves by `command`; the server is gone afterwards.
fn save_and_end(mut server: Server, client: &mut Client, command: &str) {
    client.send(command);
    if command == SHUTDOWN {
        client.expect_end();
    } else {
        client.receive();
        eventually("it is saved", || client.info("persistence", "rdb_bgsave_in_progress") == "0");
        assert_eq!(client.info("persistence", "rdb_last_bgsave_status"), "ok");
        server.signal(Signal::KILL);
    }
    server.wait();
}

/// The files in the directory, the names of parts without ids: these must be of one snapshot.
fn files(scratch: &Scratch) -> Vec<String> {
    let entries = fs::read_dir(scratch.path("")).expect("a directory");
    let names = entries.map(|entry| entry.expect("a readable directory").file_name());
    let names: Vec<String> = names.map(|name| name.into_string().expect("plain text")).collect();
    let mut ids: Vec<&str> = names.iter().filter_map(|name| name.split('.').nth(2)).collect();
    ids.sort_unstable();
    ids.dedup();
    assert!(ids.len() <= 1, "{names:?}");
    let without = |name: &String| match ids[..] {
        [id] => name.replace(&format!(".{id}."), ".#."),
        _ => name.clone(),
    };
    let mut files: Vec<String> = names.iter().map(without).collect();
    files.sort();
    files
}

#[test]
fn what_is_saved_is_there_whatever_the_number_of_threads() {
    for (threads, others, command) in [(3, 1, "SAVE"), (1, 4, "BGSAVE"), (2, 2, SHUTDOWN)] {
        let scratch = Scratch::new(&format!("own-{threads}"));
        let server = start(&scratch, threads, &["--num-shards=5"]);
        let mut client = server.client();
        fill(&mut client);
        let saved = state(&mut client);
        save_and_end(server, &mut client, command);
        let names = files(&scratch);
        let mains: Vec<String> = (0..threads).map(|number| format!("dump.rdb.#.{number:04}")).collect();
        assert!(names[0] == "dump.rdb" && names[1..].starts_with(&mains), "{names:?}");
        assert!(fs::read(scratch.path("dump.rdb")).unwrap().starts_with(b"DARTER-SNAPSHOT 1\n"));
        // A server with the other format loads this one and saves in its own.
        let server = start(&scratch, others, &["--snapshot-format", "rdb"]);
        let mut client = server.client();
        assert_eq!(state(&mut client), saved, "{command}");
        assert_eq!(client.info("persistence", "rdb_changes_since_last_save"), "0");
        check(&mut client, "DEBUG RELOAD NOSAVE", "OK");
        assert_eq!(state(&mut client), saved, "{command}");
        save_and_end(server, &mut client, "BGSAVE");
        assert_eq!(files(&scratch), ["dump.rdb"]);
        let server = start(&scratch, 2, &[]);
        let mut client = server.client();
        assert_eq!(state(&mut client), saved, "{command}");
        // The parts before are gone.
        check(&mut client, "SAVE", "OK");
        check(&mut client, "DEBUG RELOAD", "OK");
        assert_eq!(state(&mut client), saved, "{command}");
        assert_eq!(files(&scratch), ["dump.rdb", "dump.rdb.#.0000", "dump.rdb.#.0001"]);
    }
}

/// Others write while it is saved.
#[test]
fn what_is_saved_is_what_there_was_at_the_cut() {
    let table = Table::new(commands::FAMILIES);
    let first: u64 = std::env::var("DARTER_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    for seed in first..first + 2 {
        println!("DARTER_SEED={seed}");
        let scratch = Scratch::new("own-cut");
        let server = start(&scratch, 3, &[]);
        let mut client = server.client();
        fill(&mut client);
        let at_cut = state(&mut client);
        check(&mut client, "BGSAVE", "Background saving started");
        let goes_on = AtomicBool::new(true);
        std::thread::scope(|scope| {
            let _end = SetAtEnd(&goes_on, false);
            (0..2).for_each(|number| {
                let (server, table, goes_on) = (&server, &table, &goes_on);
                scope.spawn(move || write(server, table, seed * 10 + number, goes_on));
            });
            eventually("it is saved", || client.info("persistence", "rdb_bgsave_in_progress") == "0");
        });
        assert_eq!(client.info("persistence", "rdb_last_bgsave_status"), "ok");
        assert_ne!(client.show("DEBUG DIGEST"), at_cut[0]);
        save_and_end(server, &mut client, "INFO");
        assert_eq!(state(&mut start(&scratch, 2, &[]).client()), at_cut);
    }
}

/// Changes what there is for as long as `goes_on`.
fn write(server: &Server, table: &Table, seed: u64, goes_on: &AtomicBool) {
    let mut generator = Generator::new(seed, table);
    let mut client = server.client();
    let lines =
        ["LPOP large 5", "HSET large:hash 5 x", "ZPOPMIN large:zset 4", "SPOP large:set 9", "APPEND long y"];
    for line in lines.iter().cycle().take_while(|_| goes_on.load(Ordering::Relaxed)) {
        client.call(line);
        let Batch { requests, .. } = generator.batch();
        for request in requests.iter().filter(|request| request[0].eq_ignore_ascii_case(b"set")) {
            client.send_args(&request.iter().map(Vec::as_slice).collect::<Vec<_>>());
            client.receive();
        }
    }
}

/// At moments that depend on how many bytes there are in the directory.
#[test]
fn a_server_killed_while_it_saves_leaves_a_whole_snapshot() {
    let seed = std::env::var("DARTER_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("DARTER_SEED={seed}");
    let mut random = Random::new(seed);
    let scratch = Scratch::new("own-killed");
    let (mut old_count, mut killed_count) = (0, 0);
    for round in 1..=8_u64 {
        let mut server = start(&scratch, 2, &["--rdbcompression", "no"]);
        let mut client = server.client();
        let count: u64 = client.show("DBSIZE").trim_start_matches("(integer) ").parse().unwrap();
        assert!([old_count, (round - 1) * 10_000].contains(&count), "round {round}: {count} keys");
        old_count = count;
        check(&mut client, &format!("DEBUG POPULATE {} key 200", round * 10_000), "OK");
        let manifest = || fs::read(scratch.path("dump.rdb")).unwrap_or_default();
        let bytes = || -> u64 {
            let entries = fs::read_dir(scratch.path("")).unwrap();
            entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).sum()
        };
        let (before, enough) = (manifest(), bytes() + random.below(round * 10_000 * 220));
        client.send(if round % 2 == 0 { "SAVE" } else { "BGSAVE" });
        // The loop ends at the latest with the save.
        while manifest() == before {
            if bytes() > enough {
                killed_count += 1;
                break;
            }
        }
        server.signal(Signal::KILL);
        server.wait();
    }
    let server = start(&scratch, 2, &[]);
    check(&mut server.client(), "SAVE", "OK");
    // A thread without keys has no part.
    let known = ["dump.rdb", "dump.rdb.#.0000", "dump.rdb.#.0001"];
    let left = files(&scratch);
    assert!(left.iter().all(|file| known.contains(&file.as_str())), "nothing is left: {left:?}");
    assert!(killed_count > 0);
}

/// The error of a server that does not start with the files as they are.
fn refused(scratch: &Scratch) -> String {
    match Server::darter(&["--dir", &scratch.path(""), "--dbfilename", "dump.rdb", "--proactor-threads=3"]) {
        Err(StartError::Failed { log, .. }) => log,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it starts"),
    }
}

#[test]
fn damage_is_found_and_its_place_is_named() {
    let seed = std::env::var("DARTER_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("DARTER_SEED={seed}");
    let mut random = Random::new(seed);
    let scratch = Scratch::new("own-damage");
    let server = start(&scratch, 2, &[]);
    let mut client = server.client();
    fill(&mut client);
    let saved = state(&mut client);
    save_and_end(server, &mut client, "BGSAVE");
    let names: Vec<_> = fs::read_dir(scratch.path("")).unwrap().map(|entry| entry.unwrap().path()).collect();
    for round in 0..60 {
        let path = &names[random.below(names.len() as u64) as usize];
        let whole = fs::read(path).unwrap();
        let at = random.below(whole.len() as u64) as usize;
        let mut damaged = whole.clone();
        match round % 3 {
            0 => damaged[at] ^= 1 << random.below(8),
            1 => damaged.truncate(at),
            _ => damaged.insert(at, random.next_u64() as u8),
        }
        if damaged != whole {
            fs::write(path, damaged).unwrap();
            let (log, place) = (refused(&scratch), format!("cannot load {}: ", path.display()));
            assert!(log.contains(&place) && log.contains(" at offset "), "{at}: {log}");
            fs::write(path, whole).unwrap();
        }
    }
    let part = |number: u32| {
        names.iter().find(|path| path.to_string_lossy().ends_with(&format!(".{number:04}"))).unwrap()
    };
    let first = fs::read(part(0)).unwrap();
    // Another part in its place, and a missing part.
    fs::copy(part(1), part(0)).unwrap();
    let log = refused(&scratch);
    assert!(
        log.contains(&format!("{}: not this part of this snapshot at offset 0", part(0).display())),
        "{log}"
    );
    fs::remove_file(part(0)).unwrap();
    let log = refused(&scratch);
    assert!(log.contains(&format!("{}: No such file or directory", part(0).display())), "{log}");
    fs::write(part(0), first).unwrap();
    assert_eq!(state(&mut start(&scratch, 3, &[]).client()), saved);
}

/// A directory cannot be replaced by a manifest, whose parts are there by then.
#[test]
fn a_save_that_fails_at_its_end_leaves_nothing() {
    let scratch = Scratch::new("own-fails");
    let server = start(&scratch, 2, &["--enable-protected-configs", "yes"]);
    let mut client = server.client();
    check(&mut client, "SET key old", "OK");
    check(&mut client, "SAVE", "OK");
    check(&mut client, "SET key new", "OK");
    fs::create_dir(scratch.path("directory")).unwrap();
    check(&mut client, "CONFIG SET dbfilename directory", "OK");
    check(&mut client, "SAVE", "(error) ERR cannot save directory: Is a directory (os error 21)");
    check(&mut client, "BGSAVE", "Background saving started");
    eventually("it fails", || client.info("persistence", "rdb_bgsave_in_progress") == "0");
    assert_eq!(client.info("persistence", "rdb_last_bgsave_status"), "err");
    // A thread without keys has no part.
    let known = ["directory", "dump.rdb", "dump.rdb.#.0000", "dump.rdb.#.0001"];
    let left = files(&scratch);
    assert!(left.iter().all(|file| known.contains(&file.as_str())), "{left:?}");
    check(&mut client, "CONFIG SET dbfilename dump.rdb", "OK");
    check(&mut client, "DEBUG RELOAD NOSAVE", "OK");
    check(&mut client, "GET key", "\"old\"");
}

#[test]
fn names_may_have_times() {
    let scratch = Scratch::new("own-times");
    let options = ["--dbfilename", "dump-{timestamp}.own"];
    let mut server = start(&scratch, 2, &options);
    let mut client = server.client();
    check(&mut client, "SET key old", "OK");
    check(&mut client, "SAVE", "OK");
    let first = files(&scratch);
    assert!(first[0].starts_with("dump-2") && first[1] == format!("{}.#.0000", first[0]), "{first:?}");
    // A name of another time, as if it had been saved then.
    let manifest = fs::read(scratch.path(&first[0])).unwrap();
    fs::write(scratch.path("dump-1999-12-31T23-59-59.own"), manifest).unwrap();
    check(&mut client, "SET key new", "OK");
    check(&mut client, "SAVE", "OK");
    server.signal(Signal::KILL);
    server.wait();
    check(&mut start(&scratch, 1, &options).client(), "GET key", "\"new\"");
}
