//! Import of Redis' append-only files: all of their data is there afterwards, older data never replaces newer data,
//! and a damaged file is never loaded in part.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use blackbox::{Client, Scratch, Server, Signal, StartError, check, oracle, samples, text};
use resp::Value;

/// Puts what belongs to a server behind its directory.
fn options<'a>(directory: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["--dir", directory, "--dbfilename", "dump.rdb", "--save", "3600 1"], more].concat()
}

fn start(scratch: &Scratch, more: &[&str]) -> Result<Server, String> {
    match Server::darter(&options(&scratch.path(""), &[&["--proactor-threads=2"], more].concat())) {
        Ok(server) => Ok(server),
        Err(StartError::Failed { log, .. }) => Err(log),
        Err(error) => panic!("{error}"),
    }
}

fn import(scratch: &Scratch) -> Server {
    start(scratch, &["--import-aof", "yes"]).unwrap_or_else(|log| panic!("{log}"))
}

fn start_redis(scratch: &Scratch, more: &[&str]) -> Server {
    let more = [&["--enable-debug-command", "yes"], more].concat();
    Server::redis_with(&options(&scratch.path(""), &more)).unwrap_or_else(|error| panic!("{error}"))
}

fn stop(mut server: Server) {
    server.signal(Signal::TERM);
    server.wait();
}

#[track_caller]
fn refused(scratch: &Scratch, more: &[&str], expected: &str) {
    let log = start(scratch, more).map(|_| ()).expect_err(expected);
    assert!(log.contains(expected), "{expected}\n{log}");
}

/// All files below a directory, with what is in them.
fn files(directory: &str) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("the directory is there").flatten() {
        let path = entry.path();
        let name = path.display().to_string();
        if path.is_dir() {
            found.extend(files(&name))
        } else {
            _ = found.insert(name, fs::read(path).expect("the file is there"))
        }
    }
    found
}

fn fill(client: &mut Client) {
    for db in ["0", "9"] {
        check(client, &format!("SELECT {db}"), "OK");
        for request in samples() {
            client.send_args(&request.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let reply = client.receive();
            assert!(!matches!(reply, Value::Error(_)), "{reply}");
        }
    }
    check(client, "SELECT 0", "OK");
}

/// Writes a transaction, the effects of a script, and a library.
fn fill_more(client: &mut Client) {
    for line in ["MULTI", "SET from-a-transaction 1", "SELECT 3", "SADD elsewhere a b", "EXEC", "SELECT 0"] {
        client.call(line);
    }
    client.call("EVAL \"redis.call('SET', KEYS[1], 1); redis.call('INCR', KEYS[1])\" 1 from-a-script");
    client.call(
        "FUNCTION LOAD \"#!lua name=lib\\nredis.register_function('answer', function() return 42 end)\"",
    );
    client.call("FUNCTION LOAD \"#!lua name=gone\\nredis.register_function('no', function() return 0 end)\"");
    client.call("FUNCTION DELETE gone");
    client.call("XADD stream 1-1 f v");
    client.call("XGROUP CREATE stream group 0");
    client.call("XREADGROUP GROUP group reader STREAMS stream >");
    client.call("SET expires-late 1 EX 100000");
    client.call("RPUSH moved a b c");
    client.call("BLMOVE moved moved-to LEFT RIGHT 1");
    client.call("PFADD counted a b c");
    client.call("PFCOUNT counted");
    client.call("SWAPDB 1 9");
}

fn state(client: &mut Client) -> Vec<String> {
    [
        "DEBUG DIGEST",
        "FUNCTION LIST WITHCODE",
        "XPENDING stream group",
        "PEXPIRETIME expires-late",
        "FCALL answer 0",
    ]
    .map(|line| client.show(line))
    .to_vec()
}

/// Makes redis-server rewrite its append-only file.
fn rewrite(client: &mut Client) {
    client.call("BGREWRITEAOF");
    blackbox::eventually("it is rewritten", || {
        client.info("persistence", "aof_rewrite_in_progress") == "0"
            && client.info("persistence", "aof_rewrite_scheduled") == "0"
    });
}

#[test]
fn what_redis_left_is_there() {
    if oracle().is_none() {
        return;
    }
    // A base as a snapshot and as commands, what is in it and what came later.
    for preamble in ["yes", "no"] {
        let scratch = Scratch::new(&format!("aof-{preamble}"));
        let aof =
            ["--appendonly", "yes", "--aof-timestamp-enabled", "yes", "--aof-use-rdb-preamble", preamble];
        let redis = start_redis(&scratch, &[&aof, &["--save", ""][..]].concat());
        let mut client = redis.client();
        fill(&mut client);
        rewrite(&mut client);
        fill_more(&mut client);
        let expected = state(&mut client);
        stop(redis);
        let before = files(&scratch.path("appendonlydir"));
        refused(
            &scratch,
            &[],
            "--import-aof yes loads it once instead of the snapshot; --import-aof no ignores it",
        );
        refused(&scratch, &["--import-aof", "yes", "--save", ""], "save is empty");
        let server = import(&scratch);
        assert_eq!(state(&mut server.client()), expected);
        stop(server);
        // From now on no option is needed, and nothing is imported again.
        for more in [&[][..], &["--import-aof", "yes"], &["--import-aof", "no"]] {
            let server = start(&scratch, more).unwrap_or_else(|log| panic!("{log}"));
            assert_eq!(state(&mut server.client()), expected);
            check(&mut server.client(), "DBSIZE", &server.client().show("DBSIZE"));
            stop(server);
        }
        assert_eq!(files(&scratch.path("appendonlydir")), before, "files of Redis stay as they are");
    }
}

#[test]
fn the_single_file_of_older_versions_is_loaded() {
    if oracle().is_none() {
        return;
    }
    let scratch = Scratch::new("aof-single");
    let redis = start_redis(&scratch, &["--appendonly", "yes", "--save", ""]);
    let mut client = redis.client();
    fill(&mut client);
    rewrite(&mut client);
    fill_more(&mut client);
    let expected = state(&mut client);
    stop(redis);
    let parts = files(&scratch.path("appendonlydir"));
    let part = |word: &str| {
        let found = parts.iter().filter(|(name, _)| name.contains(word));
        found.map(|(_, content)| content.clone()).collect::<Vec<_>>().concat()
    };
    fs::remove_dir_all(scratch.path("appendonlydir")).unwrap();
    for (threads, whole) in
        [("1", [part(".base."), part(".incr.")].concat()), ("3", [part(".base."), part(".incr.")].concat())]
    {
        fs::write(scratch.path("old.aof"), &whole).unwrap();
        let more = ["--import-aof", "yes", "--appendfilename", "old.aof", "--proactor-threads", threads];
        let server = start(&scratch, &more).unwrap_or_else(|log| panic!("{log}"));
        assert_eq!(state(&mut server.client()), expected);
        stop(server);
        assert_eq!(fs::read(scratch.path("old.aof")).unwrap(), whole);
        fs::remove_file(scratch.path("dump.rdb")).unwrap();
    }
}

/// The jobs in the queue.
fn jobs(client: &mut Client) -> Vec<String> {
    match client.call("LRANGE jobs 0 -1") {
        Value::Array(jobs) => jobs.iter().map(text).collect(),
        other => panic!("{other}"),
    }
}

/// The server that runs on the directory for a while.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Turn {
    /// Redis with an append-only file.
    Journal,
    /// Redis with both.
    Both,
    /// Redis with snapshots.
    Snapshots,
    Darter,
    /// Darter with a journal.
    Kept,
}

/// The way in which a user starts Darter.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Habit {
    /// Without options, and then as the error advises.
    Reads,
    /// Always with this option.
    Always(&'static str),
}

/// Starts Redis; its append-only file is begun with what there is, as one has to.
fn redis_turn(scratch: &Scratch, turn: Turn) -> Server {
    let has_journal = Path::new(&scratch.path("appendonlydir/appendonly.aof.manifest")).exists();
    let journal = ["--appendonly", if turn != Turn::Snapshots && has_journal { "yes" } else { "no" }];
    let save = ["--save", if turn == Turn::Journal { "" } else { "3600 1" }];
    let redis = start_redis(scratch, &[journal, save].concat());
    if turn != Turn::Snapshots && !has_journal {
        let mut client = redis.client();
        check(&mut client, "CONFIG SET appendonly yes", "OK");
        blackbox::eventually("there is an append-only file", || {
            client.info("persistence", "aof_rewrite_in_progress") == "0"
                && client.info("persistence", "aof_rewrite_scheduled") == "0"
        });
    }
    redis
}

/// Starts Darter with or without a journal, as the errors say.
fn kept_turn(scratch: &Scratch, turn: Turn, last: Turn) -> Server {
    let mut options: &[&str] = if turn == Turn::Kept { &["--appendonly", "yes"] } else { &[] };
    loop {
        let log = match start(scratch, options) {
            Ok(server) => return server,
            Err(log) => log,
        };
        if log.contains("--appendonly yes continues with the journal") && options.is_empty() {
            options = &["--appendonly", "yes"];
        } else if log.contains("Move one of them elsewhere") {
            move_unwanted(scratch, last, log.contains("the journal"));
        } else {
            let is_aof = matches!(last, Turn::Journal | Turn::Both);
            assert!(log.contains("--import-aof") && options.is_empty(), "{turn:?} behind {last:?}: {log}");
            options = if is_aof { &["--import-aof", "yes"] } else { &["--import-aof", "no"] };
        }
    }
}

/// Moves away what is older than what the last server left.
fn move_unwanted(scratch: &Scratch, last: Turn, is_journal: bool) {
    let away =
        |name: &str| fs::rename(scratch.path(name), scratch.path(&format!("old-{}", name.replace('/', "-"))));
    match last {
        Turn::Snapshots | Turn::Darter => away("appendonlydir"),
        Turn::Journal | Turn::Both if !is_journal => away("dump.rdb"),
        Turn::Journal | Turn::Both => away("appendonlydir/journal.manifest"),
        Turn::Kept => away("appendonlydir/appendonly.aof.manifest"),
    }
    .expect("it is there");
}

#[test]
fn a_journal_takes_part_and_no_job_is_lost() {
    if oracle().is_none() {
        return;
    }
    use Turn::*;
    let redis = [Journal, Both, Snapshots];
    let mut orders = Vec::new();
    for first in redis {
        orders.extend([
            vec![first, Kept, Kept],
            vec![first, Kept, Darter],
            vec![first, Darter, Kept, Darter],
        ]);
        orders.extend(redis.map(|third| vec![first, Kept, third, Kept, Kept]));
        orders.push(vec![first, Kept, Snapshots, Darter]);
    }
    for (number, order) in orders.into_iter().enumerate() {
        let scratch = Scratch::new(&format!("kept-order-{number}"));
        let (mut last, mut left) = (order[0], Vec::new());
        for (job, turn) in order.iter().copied().enumerate() {
            let is_ours = matches!(turn, Darter | Kept);
            let server = if is_ours { kept_turn(&scratch, turn, last) } else { redis_turn(&scratch, turn) };
            let mut client = server.client();
            let mut there = jobs(&mut client);
            if is_ours {
                assert_eq!(there, left, "{order:?}, turn {job}");
            }
            client.call(&format!("RPUSH jobs {job}"));
            there.push(job.to_string());
            (last, left) = (turn, there);
            stop(server);
        }
    }
}

/// Starts Darter as the errors advise, to continue with the data of the server that ran last.
fn darter_turn(scratch: &Scratch, habit: Habit, last: Turn) -> Option<Server> {
    let wants_journal = matches!(last, Turn::Journal | Turn::Both);
    let wanted = if wants_journal { "yes" } else { "no" };
    match habit {
        Habit::Always(option) => start(scratch, &["--import-aof", option]).ok(),
        Habit::Reads => match start(scratch, &[]) {
            Ok(server) => Some(server),
            Err(log) if log.contains("Move one of them elsewhere") => {
                let unwanted = if wants_journal { "dump.rdb" } else { "appendonlydir" };
                fs::rename(scratch.path(unwanted), scratch.path(&format!("old-{unwanted}")))
                    .expect("it is there");
                Some(start(scratch, &["--import-aof", wanted]).unwrap_or_else(|log| panic!("{log}")))
            }
            Err(_) => Some(start(scratch, &["--import-aof", wanted]).unwrap_or_else(|log| panic!("{log}"))),
        },
    }
}

#[test]
fn no_order_of_starts_and_stops_loses_a_job() {
    if oracle().is_none() {
        return;
    }
    use Turn::*;
    let mut orders = Vec::new();
    for first in [Journal, Both, Snapshots] {
        orders.extend(
            [Journal, Both, Snapshots].map(|second| (Habit::Reads, vec![first, second, Darter, Darter])),
        );
        for habit in [Habit::Reads, Habit::Always("yes"), Habit::Always("no")] {
            if first != Snapshots && habit == Habit::Always("no") {
                continue;
            }
            for third in [Journal, Both, Snapshots, Darter] {
                orders.push((habit, vec![first, Darter, third, Darter]));
            }
            orders.push((habit, vec![first, Darter, Journal, Snapshots, Darter]));
        }
    }
    for (number, (habit, order)) in orders.into_iter().enumerate() {
        let scratch = Scratch::new(&format!("order-{number}"));
        let (mut last, mut left) = (None, Vec::new());
        for (job, turn) in order.iter().copied().enumerate() {
            let server = match (turn, last) {
                (Darter, Some(last)) => darter_turn(&scratch, habit, last),
                _ => Some(redis_turn(&scratch, turn)),
            };
            // The server refused to start, which loses nothing. The test of this habit ends here.
            let Some(server) = server else { break };
            let mut client = server.client();
            let mut there = jobs(&mut client);
            if turn == Darter {
                assert_eq!(there, left, "{habit:?} {order:?}, turn {job}");
            }
            client.call(&format!("RPUSH jobs {job}"));
            there.push(job.to_string());
            (last, left) = (Some(turn), there);
            stop(server);
        }
    }
}

/// The replies of a server that has imported these commands.
fn imported(test: &str, commands: &[&str], asked: &[(&str, &str)]) {
    let scratch = Scratch::new(test);
    let words = |line: &&str| {
        let words: Vec<&str> = line.split(' ').collect();
        let args = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        format!("*{}\r\n{}", words.len(), args.collect::<String>())
    };
    scratch.file("appendonly.aof", &commands.iter().map(words).collect::<String>());
    let server = import(&scratch);
    for (line, expected) in asked {
        check(&mut server.client(), line, expected);
    }
}

#[test]
fn what_was_over_stays_over() {
    let long_ago = "1000";
    imported(
        "aof-expiry",
        &[
            &format!("SET lock 1 PXAT {long_ago}"),
            "INCR lock",
            "SET other 1",
            &format!("PEXPIREAT other {long_ago}"),
            "APPEND other 2",
            &format!("SET let-go 1 PXAT {long_ago}"),
            "DEL let-go",
            "SET let-go 2",
            "SET relative 1",
            "EXPIRE relative 1000",
        ],
        &[
            ("EXISTS lock other", "(integer) 0"),
            ("GET let-go", "\"2\""),
            ("TTL let-go", "(integer) -1"),
            ("EXISTS relative", "(integer) 1"),
            ("PERSIST relative", "(integer) 1"),
        ],
    );
}

const SET: &str = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n";
const INCR: &str = "*2\r\n$4\r\nINCR\r\n$1\r\na\r\n";
const MULTI: &str = "*1\r\n$5\r\nMULTI\r\n";

#[test]
fn a_torn_end_is_left_out() {
    let whole = [SET, INCR].concat();
    let unfinished = [&whole, MULTI, INCR, INCR].concat();
    for (number, content) in
        [&whole[..whole.len() - 1], &whole[..SET.len() + 5], &unfinished].into_iter().enumerate()
    {
        let scratch = Scratch::new(&format!("torn-{number}"));
        let path = scratch.file("appendonly.aof", content);
        let value = if number == 2 { "\"2\"" } else { "\"1\"" };
        let from = if number == 2 { whole.len() } else { SET.len() };
        let place = format!(
            "transaction that begins at offset {from}, {} bytes before its end",
            content.len() - from
        );
        refused(&scratch, &["--import-aof", "yes", "--aof-load-truncated", "no"], &place);
        let server = import(&scratch);
        check(&mut server.client(), "GET a", value);
        let log = server.log();
        assert!(log.contains(&format!("the last {} bytes are ignored", content.len() - from)), "{log}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
}

#[test]
fn bad_files_are_refused() {
    let base = "file a.base seq 1 type b\n";
    let empty_snapshot = "REDIS0009\u{0}";
    let bulk = "*1\r\n$400\r\nPING\r\n";
    for (number, (manifest, parts, expected)) in [
        ("file a.base seq 1 type b\n", &[][..], "its manifest names a.base, which is missing"),
        (&format!("{base}{base}"), &[], "a second base file in line 2"),
        ("file ../../x seq 1 type b\n", &[], "a file that is a path: it must be a name in line 1"),
        ("", &[], "an empty manifest in line 1"),
        ("what is this\n", &[], "not a line of a manifest in line 1"),
        (base, &[("a.base", "SET a 1\r\n")], "a.base: a byte that begins no command at offset 0"),
        (base, &[("a.base", empty_snapshot)], "a.base: unexpected end at offset"),
        (base, &[("a.base", &[SET, "\0\0\0", INCR].concat())], "a.base: a byte that begins no command at offset 27"),
        (base, &[("a.base", &[SET, bulk, INCR].concat())], "a length that reaches over the commands behind it at offset 31"),
        (base, &[("a.base", "*1\r\n$7\r\nNOTHING\r\n")], "the command NOTHING at offset 0: ERR unknown command"),
        (base, &[("a.base", "*2\r\n$6\r\nSELECT\r\n$3\r\n999\r\n")], "the command SELECT at offset 0: more databases"),
        (base, &[("a.base", "*3\r\n$4\r\nEVAL\r\n$1\r\nx\r\n$1\r\n0\r\n")], "it has scripts instead of their effects"),
        (base, &[("a.base", "*1\r\n$8\r\nSHUTDOWN\r\n")], "it is not a command that changes data"),
        (base, &[("a.base", "*1\r\n$4\r\nEXEC\r\n")], "the end of a transaction that was never begun"),
        (base, &[("a.base", &[SET, "*2\r\n$4\r\nLLEN\r\n$1\r\na\r\n"].concat())], "the command LLEN at offset 27: WRONGTYPE"),
        (
            "file a.1 seq 1 type i\nfile a.2 seq 2 type i\n",
            &[("a.1", &SET[..20]), ("a.2", INCR)],
            "a.1: it ends in the middle of a command or a transaction that begins at offset 0, 20 bytes before its end, and other",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let scratch = Scratch::new(&format!("bad-aof-{number}"));
        fs::create_dir(scratch.path("appendonlydir")).unwrap();
        scratch.file("appendonlydir/appendonly.aof.manifest", manifest);
        for (name, content) in parts {
            scratch.file(&format!("appendonlydir/{name}"), content);
        }
        let before = files(&scratch.path(""));
        refused(&scratch, &["--import-aof", "yes"], expected);
        assert_eq!(files(&scratch.path("")), before);
    }
}

#[test]
fn a_folder_that_is_not_ours_is_no_matter() {
    let scratch = Scratch::new("not-ours");
    fs::create_dir(scratch.path("appendonlydir")).unwrap();
    scratch.file("appendonlydir/notes.txt", "hello");
    stop(start(&scratch, &[]).unwrap_or_else(|log| panic!("{log}")));
    refused(
        &scratch,
        &["--import-aof", "yes"],
        "import-aof is yes, but there is no append-only file to load: neither",
    );
    scratch.file("appendonlydir/appendonly.aof.1.base.rdb", "REDIS");
    refused(&scratch, &[], "appendonly.aof.1.base.rdb exists, but no appendonly.aof.manifest names it");
}
