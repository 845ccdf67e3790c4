//! The operations on the folder of a journal: check, repair, copy, convert for Redis.

use std::fs;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use blackbox::{Client, Scratch, Server, check as check_reply, eventually, oracle, run, samples};
use resp::Value;
use rustix::process::Signal;

/// An empty folder.
fn folder(test: &str) -> (Scratch, String) {
    let scratch = Scratch::new(test);
    let data = scratch.path("data");
    fs::create_dir(&data).expect("the folder can be made");
    (scratch, data)
}

fn server(folder: &str, more: &[&str]) -> Server {
    Server::start(2, "auto", &[&["--appendonly", "yes", "--dir", folder], more].concat())
}

fn stop(mut server: Server) {
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

/// The output of the program, standard output before standard error, and its exit status.
fn told(args: &[&str]) -> (String, i32) {
    let Output { status, stdout, stderr } = run(&[], args);
    let text = [stdout, stderr].concat();
    (String::from_utf8(text).expect("it is text"), status.code().expect("it ends by itself"))
}

#[track_caller]
fn check(args: &[&str], status: i32, parts: &[&str]) -> String {
    let (text, found) = told(args);
    assert_eq!(found, status, "{args:?}: {text}");
    parts.iter().for_each(|part| assert!(text.contains(part), "{args:?}: no {part:?} in: {text}"));
    text
}

/// The path of the journal's only segment with slices.
fn segment(folder: &str) -> String {
    let mut names: Vec<String> = fs::read_dir(format!("{folder}/appendonlydir"))
        .expect("the folder can be read")
        .map(|entry| entry.expect("the folder can be read").path().display().to_string())
        .filter(|path| path.ends_with("-1.seg"))
        .collect();
    assert_eq!(names.len(), 1);
    names.remove(0)
}

#[test]
fn a_folder_is_checked_and_repaired() {
    let (_scratch, data) = folder("journal-check");
    let running = server(&data, &["--appendfsync", "always"]);
    let mut client = running.client();
    for number in 0..20 {
        assert_eq!(client.show(&format!("SET key:{number} {number}")), "OK");
    }
    let inner = format!("{data}/appendonlydir");
    for path in [&data, &inner] {
        check(
            &["--check-journal", path],
            0,
            &["incarnation 1, 16 databases", "base: no data", "a start loads "],
        );
    }
    let refused = check(
        &["--check_journal", &data, "--journal-repair=truncate"],
        1,
        &["another server uses this folder"],
    );
    assert_eq!(refused.lines().count(), 1, "{refused}");
    drop(client);
    stop(running);
    check(&["--check-journal", &data], 0, &["clean: the log ends behind slice "]);

    // Damage in the middle.
    let path = segment(&data);
    let mut bytes = fs::read(&path).unwrap();
    bytes[10 * 4096 + 95] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let place = format!("{path} at byte 40960");
    check(
        &["--check-journal", &data],
        2,
        &["damaged: ", &place, "a start is refused: ", "give up ", " slices ("],
    );
    let log = match Server::darter(&["--appendonly", "yes", "--dir", &data]) {
        Err(error) => error.to_string(),
        Ok(server) => panic!("{} starts", server.name()),
    };
    assert!(log.contains(&place) && log.contains("--journal-repair truncate"), "{log}");
    let parts =
        ["the log is cut behind slice 10; it loses ", "kept aside: ", ".cut-1", "a start loads 10 slices"];
    check(&["--journal-repair", "truncate", "--check-journal", &data], 0, &parts);
    assert_eq!(fs::read(format!("{path}.cut-1")).unwrap(), bytes);
    check(&["--journal-repair", "truncate", "--check-journal", &data], 0, &["nothing is cut"]);
    let repaired = server(&data, &[]);
    let mut client = repaired.client();
    let left: i64 = client.show("DBSIZE").trim_start_matches("(integer) ").parse().unwrap();
    assert!((1..20).contains(&left), "{left}");
}

#[test]
fn what_is_no_journal_is_told_in_a_line() {
    let scratch = Scratch::new("journal-none");
    let path = scratch.path("");
    let check = |args: &[&str], part: &str| {
        let text = check(args, 1, &[part]);
        assert_eq!(text.lines().count(), 1, "{text}");
    };
    check(&["--check-journal", &path], "there is no journal here (name the folder with journal.manifest");
    check(&["--check-journal", &path, "--journal-repair", "truncate"], "there is no journal here");
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "nothing is made");
    check(&["--check-journal", &scratch.path("none")], "there is no journal here");
    check(&["--check-journal"], "--check-journal needs a value");
    scratch.file("journal.manifest", "DARTER-JOURNAL 3\nid 1\n");
    check(
        &["--check-journal", &path],
        "journal.manifest at byte 0: a newer version of Darter wrote this journal",
    );
    scratch.file("journal.manifest", "DARTER-JOURNAL 1\nid 1\n");
    check(&["--check-journal", &path], "the manifest of the journal ends too soon (restore it from a copy");
    fs::remove_file(scratch.path("journal.manifest")).unwrap();
    scratch.file("appendonly.aof.manifest", "file appendonly.aof.1.incr.aof seq 1 type i\n");
    check(&["--check-journal", &path], "check them with redis-check-aof");
}

/// The time just before the first flush, as the check suggests it.
fn before_flush(data: &str) -> String {
    let text = check(&["--check-journal", data], 0, &["FLUSHALL in slice "]);
    let (_, rest) = text.split_once("--journal-until ").expect("it says how to come back");
    rest.split(' ').next().expect("there is a word").to_owned()
}

#[test]
fn a_flush_by_mistake_is_taken_back_in_a_copy() {
    let (scratch, data) = folder("journal-until");
    let running = server(&data, &["--appendfsync", "always"]);
    let mut client = running.client();
    assert_eq!(client.show("SET before 1"), "OK");
    assert_eq!(client.show("BGREWRITEAOF"), "Background append only file rewriting started");
    let manifest = format!("{data}/appendonlydir/journal.manifest");
    eventually("it has a base", || fs::read_to_string(&manifest).unwrap().contains(".rdb"));
    for number in 0..50 {
        assert_eq!(client.show(&format!("RPUSH list {number}")), format!("(integer) {}", number + 1));
    }
    let digest = client.show("DEBUG DIGEST");
    // Acknowledged writes are in the file. The flush is in a millisecond of its own.
    assert_eq!(client.show("DEBUG SLEEP 0.01"), "OK");
    assert_eq!(client.show("FLUSHALL"), "OK");
    assert_eq!(client.show("SET after 1"), "OK");
    let until = before_flush(&data);
    let copy = scratch.path("copy");
    let parts = ["copied: ", "left out: ", "start it with: darter --appendonly yes --dir "];
    check(&["--journal-until", &until, "--copy-journal", &data, "--to", &copy], 0, &parts);
    let refused = check(&["--copy-journal", &data, "--to", &copy], 1, &["copy is not empty: name a folder"]);
    assert_eq!(refused.lines().count(), 1, "{refused}");
    check(
        &["--copy-journal", &data, "--to", &scratch.path("early"), "--journal-until", "1000"],
        1,
        &["the journal begins at unix ms ", "its base has everything before", "looks like seconds"],
    );
    let restored = server(&copy, &[]);
    assert_eq!(restored.client().show("DEBUG DIGEST"), digest);
    assert_eq!(client.show("KEYS *"), "1) \"after\"", "the original is as it was");
}

/// Before the first change of a journal without a base there is nothing, which cannot be copied.
#[test]
fn a_time_before_the_first_thing_is_refused() {
    let (scratch, data) = folder("journal-before");
    let running = server(&data, &[]);
    let mut client = running.client();
    assert_eq!(client.show("SET a 1"), "OK");
    assert_eq!(client.show("WAITAOF 1 0 0"), "1) (integer) 1\n2) (integer) 0");
    let text = check(&["--check-journal", &data], 0, &["base: no data"]);
    let (_, rest) = text.split_once("unix ms ").expect("it says when it begins");
    let begin: u64 = rest.split(' ').next().expect("there is a word").parse().expect("it is a number");
    for (target, flag) in [("copy", "--copy-journal"), ("aof", "--export-aof")] {
        let to = scratch.path(target);
        let until = |ms: u64| ms.to_string();
        let begins = format!("the journal begins at unix ms {begin} (");
        for (until, hint) in
            [(begin - 1, "ask for that time, in milliseconds"), (begin / 1000, "add three digits")]
        {
            let until = until.to_string();
            let text = check(&[flag, &data, "--to", &to, "--journal-until", &until], 1, &[&begins, hint]);
            assert_eq!(text.lines().count(), 1, "{text}");
        }
        check(&[flag, &data, "--to", &to, "--journal-until", &until(begin)], 0, &["start it with: "]);
    }
}

#[test]
fn what_is_made_is_no_part_of_what_it_is_made_of() {
    let (scratch, data) = folder("journal-inside");
    stop(server(&data, &["--appendfsync", "always"]));
    let (inner, link) = (format!("{data}/appendonlydir"), scratch.path("link"));
    std::os::unix::fs::symlink(&inner, &link).expect("a link can be made");
    let names = || fs::read_dir(&data).expect("the folder can be read").count();
    let before = names();
    for flag in ["--copy-journal", "--export-aof"] {
        for to in [&data, &inner, &format!("{data}/new"), &format!("{link}/new/er")] {
            let text = check(&[flag, &data, "--to", to], 1, &["which is only read: name a folder"]);
            assert_eq!(text.lines().count(), 1, "{text}");
        }
        check(&[flag, &inner, "--to", &format!("{inner}/new")], 1, &["which is only read"]);
        check(&[flag, &link, "--to", &scratch.path(&flag[2..])], 0, &["start it with: "]);
    }
    assert_eq!((names(), fs::exists(format!("{inner}/new")).expect("it can be looked at")), (before, false));
}

/// A check of the original, a check of the copy, and the copying itself report the same slices in the same words.
#[test]
fn a_copy_is_told_in_the_words_of_a_check() {
    let (scratch, data) = folder("journal-words");
    let running = server(&data, &["--appendfsync", "always"]);
    assert_eq!(running.client().show("SET a 1"), "OK");
    stop(running);
    let last = |text: &str, start: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(start)).expect("the line is there");
        line.split([',', ';']).next().expect("there is a word").to_owned()
    };
    let text = check(&["--check-journal", &data], 0, &["spare segments: ", "made in advance for what comes"]);
    let loads = last(&text, "a start loads ");
    let copy = scratch.path("copy");
    let text = check(&["--copy-journal", &data, "--to", &copy], 0, &[]);
    assert_eq!(last(&text, "copied: "), loads, "{text}");
    if !text.contains("which is empty and confirms it") {
        assert_eq!(last(&text, "a start loads "), loads, "{text}");
    }
}

/// Lets one client write while `work` runs, which gets the number of the last round that was answered.
fn under_load(running: &Server, work: impl FnOnce(&AtomicU64)) {
    let (is_over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = running.client();
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                assert_eq!(client.show(&format!("MSET first {number} second {number}")), "OK");
                assert_eq!(client.show(&format!("RPUSH list {number}")), format!("(integer) {number}"));
                answered.store(number, Ordering::Relaxed);
            }
        });
        let end = EndOnDrop(&is_over);
        work(&answered);
        drop(end);
    });
}

/// Ends the load, even if the test fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Starts a server in this folder. Returns its number of rounds of [`under_load`], and checks that no round is torn.
fn rounds(copy: &str) -> u64 {
    let restored = server(copy, &[]);
    let mut client = restored.client();
    let number = |text: String| text.trim_matches('"').trim_start_matches("(integer) ").parse().unwrap_or(0);
    let (first, second) = (number(client.show("GET first")), number(client.show("GET second")));
    let length = number(client.show("LLEN list"));
    assert!(first == second && (first == length || first == length + 1), "{first}, {second}, {length}");
    first
}

#[test]
fn copies_that_are_taken_while_a_server_writes_are_prefixes() {
    let (scratch, data) = folder("journal-copies");
    // The journal keeps getting new bases.
    let running =
        server(&data, &["--auto-aof-rewrite-min-size", "1", "--auto-aof-rewrite-percentage", "100"]);
    let (mut client, mut last) = (running.client(), 0);
    under_load(&running, |answered| {
        for round in 0..2 {
            // Changes in the file must be in the copy, and the progress of the load is known.
            eventually("the load goes on", || answered.load(Ordering::Relaxed) > last);
            last = answered.load(Ordering::Relaxed);
            check_reply(&mut client, "SET mark 1", "OK");
            check_reply(&mut client, "WAITAOF 1 0 0", "1) (integer) 1\n2) (integer) 0");
            let copy = scratch.path(&format!("copy-{round}"));
            check(&["--copy-journal", &data, "--to", &copy], 0, &["clean: the log ends behind slice "]);
            check(&["--check-journal", &data], 0, &["a start loads "]);
            let found = rounds(&copy);
            assert!(found >= last, "{found}, and {last} was written");
            last = found;
            fs::remove_dir_all(&copy).unwrap();
        }
    });
}

/// This is not a backup, because the files are from different moments. But a server that starts from it has a prefix of the data, and
/// one that does not start says why in one line.
#[test]
fn files_that_are_copied_one_by_one_while_a_server_writes_are_a_prefix_or_refused() {
    let (scratch, data) = folder("journal-cp");
    let running =
        server(&data, &["--auto-aof-rewrite-min-size", "1", "--auto-aof-rewrite-percentage", "100"]);
    under_load(&running, |_| {
        for round in 0..3 {
            let copy = scratch.path(&format!("copy-{round}"));
            fs::create_dir_all(format!("{copy}/appendonlydir")).unwrap();
            for entry in fs::read_dir(format!("{data}/appendonlydir")).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                // Some files have been removed meanwhile.
                let _ =
                    fs::copy(format!("{data}/appendonlydir/{name}"), format!("{copy}/appendonlydir/{name}"));
            }
            let (text, status) = told(&["--check-journal", &copy]);
            if status == 0 {
                rounds(&copy);
            } else {
                let line = text.lines().last().unwrap_or_default();
                assert!(line.contains(&copy) || line.starts_with("a start is refused: "), "{text}");
                assert!(Server::darter(&["--appendonly", "yes", "--dir", &copy]).is_err(), "{text}");
            }
            fs::remove_dir_all(&copy).unwrap();
        }
    });
}

#[test]
fn redis_loads_what_is_exported() {
    let Some(redis) = oracle() else { return };
    drop(redis);
    let (scratch, data) = folder("journal-export");
    let running = server(&data, &[]);
    let mut client = running.client();
    let samples = samples();
    let (first, second) = samples.split_at(samples.len() / 2);
    let write = |client: &mut Client, requests: &[Vec<Vec<u8>>]| {
        for request in requests {
            client.send_args(&request.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let reply = client.receive();
            assert!(!matches!(reply, Value::Error(_)), "{reply}");
        }
    };
    write(&mut client, first);
    assert_eq!(client.show("BGREWRITEAOF"), "Background append only file rewriting started");
    let manifest = format!("{data}/appendonlydir/journal.manifest");
    eventually("it has a base", || fs::read_to_string(&manifest).unwrap().contains(".rdb"));
    write(&mut client, second);
    for line in
        ["SELECT 9", "SET other 1 EX 100000", "MULTI", "LPUSH queue 1 2 3", "RPOPLPUSH queue taken", "EXEC"]
    {
        assert!(!client.show(line).starts_with("(error)"), "{line}");
    }
    client.send_args(&[
        b"FUNCTION",
        b"LOAD",
        b"#!lua name=lib\nredis.register_function('answer', function() return 42 end)",
    ]);
    assert_eq!(client.receive(), Value::Bulk(b"lib".to_vec()));
    let digest = client.show("DEBUG DIGEST");
    // Data that Redis 7.0 does not support.
    for line in ["HSET expiring field 1", "HEXPIRE expiring 1000 FIELDS 1 field"] {
        assert!(!client.show(line).starts_with("(error)"), "{line}");
    }
    drop(client);
    stop(running);

    let aof = scratch.path("aof");
    let parts = [
        "exported: ",
        "1 libraries",
        "the expiry of 1 fields",
        "start it with: redis-server --appendonly yes --dir ",
    ];
    check(&["--export-aof", &data, "--to", &aof], 0, &parts);
    let redis =
        Server::redis_with(&["--appendonly", "yes", "--dir", &aof]).unwrap_or_else(|error| panic!("{error}"));
    let mut theirs = redis.client();
    assert_eq!(theirs.show("SELECT 9"), "OK");
    assert_eq!(
        (theirs.show("HGET expiring field"), theirs.show("DEL expiring")),
        ("\"1\"".to_owned(), "(integer) 1".to_owned())
    );
    assert_eq!(theirs.show("DEBUG DIGEST"), digest);
    assert_eq!(theirs.show("FCALL answer 0"), "(integer) 42");
    assert_ne!(theirs.show("TTL other"), "(integer) -1");
    // It continues from there.
    assert_eq!(theirs.show("SET more 1"), "OK");
}
