//! Snapshots: saved data is there after a restart, here and on redis-server, and a failure never loses the old
//! snapshot.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};

use blackbox::{
    Client, Scratch, Server, Signal, StartError, check, eventually, oracle, sample_keys, samples,
    stream_state,
};
use ds::random::Random;
use resp::Value;

const DATABASES: [&str; 2] = ["0", "9"];
const LIBRARY: &str = "#!lua name=lib\\nredis.register_function('answer', function() return 42 end)";

/// Starts a server with this many threads and its snapshot in `scratch`, which must outlive the server.
fn start(scratch: &Scratch, threads: usize, more: &[&str]) -> Server {
    let directory = scratch.path("");
    let options = [&["--dir", &directory, "--dbfilename", "dump.rdb"], more].concat();
    Server::start(threads, "auto", &options)
}

fn start_redis(scratch: &Scratch) -> Server {
    let directory = scratch.path("");
    Server::redis_with(&["--dir", &directory, "--dbfilename", "dump.rdb"]).expect("it is there")
}

fn call(client: &mut Client, args: &[&[u8]]) -> Value {
    client.send_args(args);
    client.receive()
}

/// Makes the samples in two databases.
fn fill(client: &mut Client) {
    for db in DATABASES {
        check(client, &format!("SELECT {db}"), "OK");
        for request in samples() {
            let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            let reply = call(client, &args);
            assert!(!matches!(reply, Value::Error(_)), "{reply}");
        }
    }
    check(client, "SET only-here yes", "OK");
    check(client, &format!("FUNCTION LOAD REPLACE \"{LIBRARY}\""), "\"lib\"");
    check(client, "SELECT 0", "OK");
}

/// Digest and expiries of all data, and what the digest leaves out.
fn state(client: &mut Client) -> Vec<String> {
    let mut state = vec![client.show("DEBUG DIGEST"), client.show("FUNCTION LIST WITHCODE")];
    // The function can be called, and is not just listed.
    check(client, "FCALL answer 0", "(integer) 42");
    for db in DATABASES {
        check(client, &format!("SELECT {db}"), "OK");
        state.push(client.show("DBSIZE"));
        for key in sample_keys() {
            state.push(call(client, &[b"PEXPIRETIME", &key]).to_string());
            state.push(stream_state(client, &key));
        }
    }
    check(client, "SELECT 0", "OK");
    state
}

fn kill(mut server: Server) {
    server.signal(Signal::KILL);
    server.wait();
}

#[test]
fn what_is_saved_is_there_after_a_restart() {
    let scratch = Scratch::new("restart");
    let server = start(&scratch, 2, &[]);
    let mut client = server.client();
    fill(&mut client);
    assert_ne!(client.info("persistence", "rdb_changes_since_last_save"), "0");
    check(&mut client, "SAVE", "OK");
    for (field, value) in
        [("rdb_changes_since_last_save", "0"), ("rdb_saves", "1"), ("rdb_last_bgsave_status", "ok")]
    {
        assert_eq!(client.info("persistence", field), value);
    }
    assert_eq!(
        client.show("LASTSAVE"),
        format!("(integer) {}", client.info("persistence", "rdb_last_save_time"))
    );
    let saved = state(&mut client);
    check(&mut client, "SET not-saved 1", "OK");
    kill(server);
    for (threads, more) in [(1, &[][..]), (4, &["--num-shards=3"])] {
        let server = start(&scratch, threads, more);
        let mut client = server.client();
        assert_eq!(state(&mut client), saved);
        assert_eq!(client.info("persistence", "rdb_changes_since_last_save"), "0");
        let key_count = DATABASES.len() * sample_keys().len() + 1;
        assert_eq!(client.info("persistence", "rdb_last_load_keys_loaded"), key_count.to_string());
    }
    let names: Vec<_> =
        fs::read_dir(scratch.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["dump.rdb"]);
}

#[test]
fn redis_loads_our_snapshots_and_we_load_theirs() {
    if oracle().is_none() {
        return;
    }
    for options in [&[][..], &["--rdbcompression", "no", "--rdbchecksum", "no"]] {
        let scratch = Scratch::new("exchange");
        let ours = start(&scratch, 2, options);
        let mut client = ours.client();
        fill(&mut client);
        let saved = state(&mut client);
        client.send("SHUTDOWN SAVE");
        client.expect_end();
        let checked = Command::new("redis-check-rdb").arg(scratch.path("dump.rdb")).output().unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        let theirs = start_redis(&scratch);
        let mut client = theirs.client();
        assert_eq!(state(&mut client), saved);
        check(&mut client, "SET from-redis yes", "OK");
        for option in options.chunks(2).filter(|option| option[0] != "--rdbchecksum") {
            check(&mut client, &format!("CONFIG SET {} {}", &option[0][2..], option[1]), "OK");
        }
        check(&mut client, "SAVE", "OK");
        let saved = state(&mut client);
        kill(theirs);
        let ours = start(&scratch, 2, options);
        assert_eq!(state(&mut ours.client()), saved);
    }
}

/// Values for which newer versions of Redis have other encodings.
#[test]
fn newer_versions_are_written_if_wanted() {
    for (version, saves, active) in
        [("10", "SAVE", false), ("11", "SAVE", true), ("12", "BGSAVE", true), ("11", "BGSAVE", true)]
    {
        let scratch = Scratch::new("version");
        let server = start(&scratch, 2, &["--rdb-version", version]);
        let mut client = server.client();
        fill(&mut client);
        check(&mut client, "SADD packed a b c", "(integer) 3");
        check(&mut client, "XADD log 1-1 field value", "\"1-1\"");
        check(&mut client, "XGROUP CREATE log group 0", "OK");
        check(&mut client, "XGROUP CREATECONSUMER log group idle", "(integer) 1");
        let saved = state(&mut client);
        client.call(saves);
        eventually("it is saved", || client.info("persistence", "rdb_changes_since_last_save") == "0");
        let payload = call(&mut client, &[b"DUMP", b"packed"]);
        kill(server);
        let content = fs::read(scratch.path("dump.rdb")).unwrap();
        assert_eq!(content[..9], *format!("REDIS00{version}").as_bytes());
        let has = |part: &[u8]| content.windows(part.len()).any(|window| window == part);
        assert_eq!(has(b"\x14\x06packed"), active, "a set in a listpack");
        assert_eq!(has(b"\x15\x03log"), active, "a stream with all that it knows");
        let server = start(&scratch, 2, &[]);
        let mut client = server.client();
        assert_eq!(state(&mut client), saved);
        check(&mut client, "SMEMBERS packed", "1) \"a\"\n2) \"b\"\n3) \"c\"");
        assert_eq!(call(&mut client, &[b"DUMP", b"packed"]), payload, "that is not about DUMP");
        // A consumer that was never active is not known as one where there is no room for it.
        let inactive = client.show("XINFO CONSUMERS log group").contains("(integer) -1");
        assert_eq!(inactive, active, "version {version}");
    }
}

#[test]
fn how_much_keys_are_used_is_saved_where_it_counts() {
    let has_oracle = oracle().is_some();
    for (policy, reader, saved) in [
        ("allkeys-lru", "OBJECT IDLETIME", 5000),
        ("volatile-lfu", "OBJECT FREQ", 200),
        ("noeviction", "OBJECT IDLETIME", 0),
    ] {
        let scratch = Scratch::new("used");
        let server = start(&scratch, 2, &["--maxmemory-policy", policy]);
        let mut client = server.client();
        let options = if reader == "OBJECT FREQ" { "FREQ 200" } else { "IDLETIME 5000" };
        check(
            &mut client,
            &format!("RESTORE key 0 \"\\x00\\x05hello\\n\\x00cr\\xdfve4 \\n\" {options}"),
            "OK",
        );
        check(&mut client, "SAVE", "OK");
        kill(server);
        // The clock may go on, and counters decay by the minute.
        let is_saved = |client: &mut Client| match client.call(&format!("{reader} key")) {
            Value::Int(number) => assert!(number.abs_diff(saved) < 60, "{policy}: {number}"),
            other => panic!("{policy}: {other}"),
        };
        is_saved(&mut start(&scratch, 1, &["--maxmemory-policy", policy]).client());
        if has_oracle {
            let directory = scratch.path("");
            let options = ["--dir", &directory, "--dbfilename", "dump.rdb", "--maxmemory-policy", policy];
            is_saved(&mut Server::redis_with(&options).expect("it is there").client());
        }
    }
}

/// The file has a key that has expired, a list without elements, and entries of unknown kinds; it has no checksum.
#[test]
fn what_cannot_be_kept_is_left_out() {
    let scratch = Scratch::new("left-out");
    let parts: [&[u8]; 7] = [
        b"REDIS0012",
        b"\xfa\x05other\x05thing",
        b"\xfe\x00\xf4\x01\x02\x03",
        b"\xfc\x01\0\0\0\0\0\0\0\x00\x04over\x01v",
        b"\xf9\x07\x01\x05empty\x00",
        b"\xf8\x10\x00\x04idle\x01v",
        b"\xff\0\0\0\0\0\0\0\0",
    ];
    fs::write(scratch.path("dump.rdb"), parts.concat()).unwrap();
    let server = start(&scratch, 2, &[]);
    let mut client = server.client();
    check(&mut client, "KEYS *", "1) \"idle\"");
    let idle_seconds = client.call("OBJECT IDLETIME idle");
    assert!(matches!(idle_seconds, Value::Int(16..600)), "{idle_seconds}");
    assert_eq!(client.info("persistence", "rdb_last_load_keys_loaded"), "1");
    assert_eq!(client.info("persistence", "rdb_last_load_keys_expired"), "1");
}

#[test]
fn fields_of_hashes_expire_after_a_restart_too() {
    let scratch = Scratch::new("fields");
    let server = start(&scratch, 2, &[]);
    let mut client = server.client();
    check(&mut client, "DEBUG SET-ACTIVE-EXPIRE 0", "OK");
    check(&mut client, "HSET hash soon 1 late 2 never 3", "(integer) 3");
    check(&mut client, "HPEXPIREAT hash 33177117420123 FIELDS 1 late", "1) (integer) 1");
    check(&mut client, "HPEXPIRE hash 1 FIELDS 1 soon", "1) (integer) 1");
    check(&mut client, "SAVE", "OK");
    kill(server);
    let server = start(&scratch, 2, &[]);
    let mut client = server.client();
    eventually("it expires unasked", || client.info("stats", "expired_subkeys") == "1");
    check(&mut client, "HGETALL hash", "1) \"late\"\n2) \"2\"\n3) \"never\"\n4) \"3\"");
    check(&mut client, "HPEXPIRETIME hash FIELDS 1 late", "1) (integer) 33177117420123");
}

/// Options, how the server is ended, whether that saves.
#[test]
fn a_server_saves_at_its_end_if_it_is_to() {
    let points = &["--save", "3600 1"][..];
    for (options, end, saves) in [
        (&[][..], "SHUTDOWN", false),
        (&[], "SHUTDOWN SAVE", true),
        (&[], "SHUTDOWN SAVE FORCE", true),
        (&[], "TERM", false),
        (points, "SHUTDOWN", true),
        (points, "SHUTDOWN NOSAVE", false),
        (points, "TERM", true),
    ] {
        let scratch = Scratch::new("end");
        let mut server = start(&scratch, 2, options);
        let mut client = server.client();
        check(&mut client, "SET key value", "OK");
        match end {
            "TERM" => server.signal(Signal::TERM),
            line => client.send(line),
        }
        client.expect_end();
        assert_eq!(server.wait().code(), Some(0));
        assert_eq!(Path::new(&scratch.path("dump.rdb")).exists(), saves, "{options:?} {end}");
        let server = start(&scratch, 2, &[]);
        check(&mut server.client(), "GET key", if saves { "\"value\"" } else { "(nil)" });
    }
}

/// Writes while the server saves and ends: those that were answered must be there.
#[test]
fn what_was_answered_before_the_end_is_saved() {
    for end in ["SHUTDOWN SAVE", "TERM"] {
        let scratch = Scratch::new("answered");
        let mut server = start(&scratch, 3, &["--save", "3600 1"]);
        let answered = [const { AtomicI64::new(0) }; 4];
        std::thread::scope(|scope| {
            for (number, answered) in answered.iter().enumerate() {
                let mut client = server.client();
                scope.spawn(move || {
                    while let Some(reply) = client.try_show(&format!("INCR counter:{number}")) {
                        let count = reply.trim_start_matches("(integer) ").parse().expect("a number");
                        answered.store(count, Ordering::Relaxed);
                    }
                });
            }
            eventually("they write", || answered.iter().all(|count| count.load(Ordering::Relaxed) > 100));
            match end {
                "TERM" => server.signal(Signal::TERM),
                line => server.client().send(line),
            }
            assert_eq!(server.wait().code(), Some(0));
        });
        let server = start(&scratch, 1, &[]);
        let mut client = server.client();
        for (number, answered) in answered.iter().enumerate() {
            let count: i64 = client.show(&format!("INCR counter:{number}"))[10..].parse().unwrap();
            assert!(count > answered.load(Ordering::Relaxed), "{end}: {count} of {answered:?}");
        }
    }
}

#[test]
fn a_server_that_cannot_save_says_so_and_goes_on() {
    let scratch = Scratch::new("unwritable");
    let mut server = start(&scratch, 2, &["--enable-protected-configs", "yes", "--save", "1 1"]);
    let mut client = server.client();
    check(&mut client, "SET key value", "OK");
    check(&mut client, "SAVE", "OK");
    check(&mut client, "SET key other", "OK");
    let path_refused = "(error) ERR CONFIG SET failed (possibly related to argument 'dbfilename') - dbfilename can't be a path, just a filename";
    check(&mut client, "CONFIG SET dbfilename a/b", path_refused);
    // A directory cannot be replaced by a file.
    fs::create_dir(scratch.path("directory")).unwrap();
    check(&mut client, "CONFIG SET dbfilename directory", "OK");
    check(&mut client, "SAVE", "(error) ERR cannot save directory: Is a directory (os error 21)");
    assert_eq!(client.info("persistence", "rdb_last_bgsave_status"), "ok", "that is about BGSAVE alone");
    assert_eq!(client.info("persistence", "rdb_changes_since_last_save"), "1");
    let refused = "(error) ERR Errors trying to SHUTDOWN. Check logs.";
    check(&mut client, "SHUTDOWN", refused);
    check(&mut client, "SHUTDOWN SAVE", refused);
    check(&mut client, "DEBUG RELOAD", "(error) ERR cannot save directory: Is a directory (os error 21)");
    check(&mut client, "BGSAVE", "Background saving started");
    eventually("it fails", || client.info("persistence", "rdb_bgsave_in_progress") == "0");
    assert_eq!(client.info("persistence", "rdb_last_bgsave_status"), "err");
    assert!(server.log().contains("Background saving error: Is a directory"));
    let refused = client.show("SET key refused");
    assert!(refused.starts_with("(error) MISCONF Redis is configured to save RDB snapshots"), "{refused}");
    assert_eq!(client.show("PING"), refused);
    check(&mut client, "GET key", "\"other\"");
    check(&mut client, "CONFIG SET stop-writes-on-bgsave-error no", "OK");
    check(&mut client, "SET key other", "OK");
    assert_eq!(client.show("PING"), "PONG");
    assert_eq!(fs::read_dir(scratch.path("")).unwrap().count(), 2, "no half-written file is left");
    client.send("SHUTDOWN FORCE");
    client.expect_end();
    server.wait();
    check(&mut start(&scratch, 2, &[]).client(), "GET key", "\"value\"");
}

/// On a file system of its own that has room for little, where the system lets a test have one.
#[test]
fn a_full_disk_leaves_the_old_snapshot() {
    for format in ["rdb", "darter"] {
        let scratch = Scratch::new(&format!("full-{format}"));
        let mount = format!("mount -t tmpfs -o size=256k tmpfs '{}' && exec \"$@\"", scratch.path(""));
        let launcher = ["unshare", "--mount", "--map-root-user", "sh", "-c", &mount, "sh"];
        let tried = Command::new(launcher[0]).args(&launcher[1..]).arg("true").status();
        if !tried.is_ok_and(|status| status.success()) {
            return println!("SKIPPED: no file systems for tests here");
        }
        leaves_the_old_snapshot(&launcher, &scratch, format, "No space left on device");
    }
}

#[test]
fn a_file_that_cannot_grow_leaves_the_old_snapshot() {
    let limit = "trap '' XFSZ; ulimit -f 256; exec \"$@\"";
    for format in ["rdb", "darter"] {
        let scratch = Scratch::new(&format!("limited-{format}"));
        leaves_the_old_snapshot(&["sh", "-c", limit, "sh"], &scratch, format, "File too large");
    }
}

/// The files that `launcher` lets a server write to hold less than 400 kB.
fn leaves_the_old_snapshot(launcher: &[&str], scratch: &Scratch, format: &str, why: &str) {
    let options = ["--proactor-threads=2", "--snapshot-format", format, "--dir", &scratch.path("")];
    let server = Server::launch(launcher, &options).unwrap_or_else(|error| panic!("{error}"));
    let mut client = server.client();
    check(&mut client, "SET key old", "OK");
    check(&mut client, "SAVE", "OK");
    check(&mut client, "SET key new", "OK");
    let mut random = Random::new(1);
    let noise: Vec<u8> = (0..400_000).map(|_| random.next_u64() as u8).collect();
    call(&mut client, &[b"SET", b"noise", &noise]);
    let reply = client.show("SAVE");
    assert!(reply.contains(why), "{reply}");
    check(&mut client, "BGSAVE", "Background saving started");
    eventually("it fails", || client.info("persistence", "rdb_bgsave_in_progress") == "0");
    assert_eq!(client.info("persistence", "rdb_last_bgsave_status"), "err");
    assert!(server.log().contains(why));
    check(&mut client, "GET key", "\"new\"");
    check(&mut client, "DEL noise", "(integer) 1");
    check(&mut client, "DEBUG RELOAD NOSAVE", "OK");
    check(&mut client, "GET key", "\"old\"");
    check(&mut client, "SAVE", "OK");
}

/// At moments that depend on how far the new file has grown.
#[test]
fn a_server_killed_while_it_saves_leaves_a_whole_snapshot() {
    let seed = std::env::var("DARTER_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("DARTER_SEED={seed}");
    let mut random = Random::new(seed);
    let scratch = Scratch::new("killed");
    let (mut old_count, mut killed_count) = (0, 0);
    for round in 1..=6_u64 {
        let server = start(&scratch, 2, &["--rdbcompression", "no"]);
        let mut client = server.client();
        let count: u64 = client.show("DBSIZE").trim_start_matches("(integer) ").parse().unwrap();
        assert!([old_count, (round - 1) * 20_000].contains(&count), "round {round}: {count} keys");
        old_count = count;
        check(&mut client, &format!("DEBUG POPULATE {} key 200", round * 20_000), "OK");
        let (command, lane) = if round % 2 == 0 { ("SAVE", "") } else { ("BGSAVE", ".0") };
        let temporary = scratch.path(&format!("temp-{}{lane}.rdb", server.process_id()));
        let enough = random.below(round * 20_000 * 200);
        let file_number = || fs::metadata(scratch.path("dump.rdb")).map_or(0, |metadata| metadata.ino());
        let before = file_number();
        client.send(command);
        // The loop ends at the latest with the save, when the file gets its final name.
        while file_number() == before {
            if fs::metadata(&temporary).is_ok_and(|metadata| metadata.len() > enough) {
                killed_count += 1;
                break;
            }
        }
        kill(server);
    }
    drop(start(&scratch, 2, &[]));
    let names = fs::read_dir(scratch.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| name == "dump.rdb"), "something is left beside the snapshot");
    assert!(killed_count > 0);
}

#[test]
fn a_damaged_snapshot_is_refused() {
    let scratch = Scratch::new("damaged");
    let server = start(&scratch, 2, &[]);
    let mut client = server.client();
    fill(&mut client);
    check(&mut client, "SAVE", "OK");
    kill(server);
    let path = scratch.path("dump.rdb");
    let whole = fs::read(&path).unwrap();
    let refused = |bytes: &[u8], expected: &str| {
        fs::write(&path, bytes).unwrap();
        let options = ["--dir", &scratch.path(""), "--dbfilename", "dump.rdb"];
        match Server::darter(&options) {
            Err(StartError::Failed { log, .. }) => assert!(log.contains(expected), "{expected}: {log}"),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("{expected}: it starts"),
        }
    };
    let mut changed = whole.clone();
    *changed.last_mut().unwrap() ^= 1;
    let place = format!("dump.rdb: wrong checksum at offset {}", whole.len() - 8);
    refused(&changed, &place);
    refused(&whole[..whole.len() / 2], &format!("unexpected end at offset {}", whole.len() / 2));
    refused(b"", "dump.rdb: unexpected end at offset 0");
    refused(b"something else", "dump.rdb: not a dump of a known version at offset 0");
    refused(b"REDIS0010\xfe\x20", "more databases than the setting databases allows at offset 11");
    refused(b"REDIS0010\xfe\x00\x00\x01k\x01a\x00\x01k\x01b", "a key occurs twice at offset 16");
    refused(b"REDIS0015", "a dump of version 15: Darter reads up to 14 at offset 0");
    refused(b"VALKEY081", "a dump of version 81 of Valkey: Darter reads up to 80 at offset 0");
    refused(
        b"REDIS0014\x00\x01k\x01a\x1c\x04list\x00\xff",
        "arrays are not supported (type 28 of the key 'list') at offset 14",
    );
    let library = "a library of functions cannot be loaded: ERR";
    refused(b"REDIS0010\xf5\x08return 1", &format!("{library} Missing library metadata at offset 9"));
    let code = LIBRARY.replace("\\n", "\n");
    let item = [b"\xf5\x40", &[code.len() as u8][..], code.as_bytes()].concat();
    let twice = [b"REDIS0010", &item[..], &item].concat();
    refused(&twice, &format!("{library} Library 'lib' already exists at offset {}", 9 + item.len()));
    fs::write(&path, &whole).unwrap();
    check(&mut start(&scratch, 2, &[]).client(), "GET only-here", "(nil)");
}

#[test]
fn newer_formats_are_read() {
    let hash = b"\x01h\x02\x01a\x01b\xff\xff\xff\xff\xff\xff\xff\xff\x01c\x01d\xff\xff\xff\xff\xff\x1f\0\0";
    for threads in [1, 3] {
        let scratch = Scratch::new(&format!("newer-{threads}"));
        let file = [&b"VALKEY080\xfe\0\x16"[..], hash, b"\xff", &[0; 8]].concat();
        fs::write(scratch.path("dump.rdb"), file).unwrap();
        let server = start(&scratch, threads, &[]);
        let mut client = server.client();
        check(&mut client, "HGET h a", "\"b\"");
        check(&mut client, "HPEXPIRETIME h FIELDS 2 a c", "1) (integer) -1\n2) (integer) 35184372088831");
        fs::write(scratch.path("dump.rdb"), b"REDIS0013\xfe\0\0\x01k\x01v\xff\0\0\0\0\0\0\0\0").unwrap();
        check(&mut start(&scratch, threads, &[]).client(), "GET k", "\"v\"");
    }
}

#[test]
fn debug_reload_gives_back_the_same_data() {
    let scratch = Scratch::new("reload");
    let server = start(&scratch, 2, &[]);
    let (mut client, mut other) = (server.client(), server.client());
    fill(&mut client);
    let before = state(&mut client);
    check(&mut other, "WATCH set:0", "OK");
    check(&mut client, "DEBUG RELOAD", "OK");
    assert_eq!(state(&mut client), before);
    check(&mut other, "MULTI", "OK");
    check(&mut other, "EXEC", "(nil)");
    // A client that waits for a key is served when the key comes with the file.
    check(&mut client, "RPUSH queue job", "(integer) 1");
    check(&mut client, "SAVE", "OK");
    check(&mut client, "FLUSHALL", "OK");
    other.send("BLPOP queue 0");
    eventually("it waits", || client.info("clients", "blocked_clients") == "1");
    check(&mut client, "DEBUG RELOAD NOSAVE", "OK");
    assert_eq!(other.receive().to_string(), "1) \"queue\"\n2) \"job\"");
    check(&mut client, "EXISTS queue", "(integer) 0");
    check(&mut client, "DEBUG RELOAD WHATEVER", "(error) ERR syntax error");
    fs::write(scratch.path("dump.rdb"), "REDIS0010").unwrap();
    let reply = client.show("DEBUG RELOAD NOSAVE");
    assert!(reply.contains("unexpected end at offset 9"), "{reply}");
    check(&mut client, "EXISTS set:0", "(integer) 1");
}

/// How many members of a sorted set, or values of a hash, are packed.
fn packed_members(client: &mut Client, key: &[u8]) -> u64 {
    let text = call(client, &[b"DEBUG", b"OBJECT", key]).to_string();
    let (_, figures) = text.split_once("_packed:").unwrap_or_else(|| panic!("nothing is packed: {text}"));
    let (members, _) = figures.split_once(' ').expect("the dictionary's bytes follow");
    members.parse().expect("a number")
}

#[test]
fn a_backlog_is_packed_again_where_it_is_loaded_or_restored() {
    let scratch = Scratch::new("packed");
    let server = start(&scratch, 2, &[]);
    let mut client = server.client();
    let largest = ["ZADD", "HSET"].map(|command| {
        let of_it = samples().into_iter().filter(|request| request[0] == command.as_bytes());
        of_it.max_by_key(Vec::len).expect("there are some")
    });
    let keys = largest.each_ref().map(|jobs| &jobs[1][..]);
    for jobs in &largest {
        call(&mut client, &jobs.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    let count = (largest[0].len() as u64 - 2) / 2;
    let are_packed =
        |client: &mut Client| keys.map(|key| packed_members(client, key) > count / 2) == [true; 2];
    assert!(are_packed(&mut client));
    let digest = client.show("DEBUG DIGEST");
    for format in ["rdb", "darter"] {
        check(&mut client, &format!("CONFIG SET snapshot-format {format}"), "OK");
        check(&mut client, "DEBUG RELOAD", "OK");
        assert_eq!(client.show("DEBUG DIGEST"), digest);
        assert!(are_packed(&mut client), "{format}");
    }
    for key in keys {
        let Value::Bulk(payload) = call(&mut client, &[b"DUMP", key]) else { panic!("it is there") };
        call(&mut client, &[b"RESTORE", key, b"0", &payload, b"REPLACE"]);
    }
    assert_eq!(client.show("DEBUG DIGEST"), digest);
    assert!(are_packed(&mut client), "restored");
    for key in keys {
        call(&mut client, &[b"COPY", key, b"copy", b"REPLACE"]);
        let packed = packed_members(&mut client, b"copy");
        assert_eq!(packed, packed_members(&mut client, key), "a copy has the dictionary, too");
        let digest = |client: &mut Client, key| call(client, &[b"DEBUG", b"DIGEST-VALUE", key]);
        assert_eq!(digest(&mut client, b"copy"), digest(&mut client, key));
    }
}
