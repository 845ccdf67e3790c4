//! What an operator does with the folder of a journal: checks, repairs.

use std::fs;
use std::process::Output;

use blackbox::{Scratch, Server, run};
use rustix::process::Signal;

/// A folder for a journal; `None` if servers keep none.
fn folder(test: &str) -> Option<(Scratch, String)> {
    let scratch = Scratch::new(test);
    let probe = scratch.path("probe");
    fs::create_dir(&probe).unwrap();
    if !Server::darter_keeps_a_journal(&probe) {
        println!("SKIPPED: there is no journal yet");
        return None;
    }
    let data = scratch.path("data");
    fs::create_dir(&data).unwrap();
    Some((scratch, data))
}

fn server(folder: &str, more: &[&str]) -> Server {
    Server::start(2, "auto", &[&["--appendonly", "yes", "--dir", folder], more].concat())
}

fn stop(mut server: Server) {
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

/// What the program prints on standard output and standard error, and its exit status.
fn told(args: &[&str]) -> (String, i32) {
    let Output { status, stdout, stderr } = run(&[], args);
    let text = [stdout, stderr].concat();
    (String::from_utf8(text).unwrap(), status.code().expect("it ends by itself"))
}

#[track_caller]
fn check(args: &[&str], status: i32, parts: &[&str]) -> String {
    let (text, found) = told(args);
    assert_eq!(found, status, "{args:?}: {text}");
    parts.iter().for_each(|part| assert!(text.contains(part), "{args:?}: no {part:?} in: {text}"));
    text
}

/// The path of the journal's only segment that has slices.
fn segment(folder: &str) -> String {
    let mut names: Vec<String> = fs::read_dir(format!("{folder}/appendonlydir"))
        .unwrap()
        .map(|entry| entry.unwrap().path().display().to_string())
        .filter(|path| path.ends_with("-1.seg"))
        .collect();
    assert_eq!(names.len(), 1);
    names.remove(0)
}

#[test]
fn a_folder_is_checked_and_repaired() {
    let Some((_scratch, data)) = folder("journal-check") else { return };
    let running = server(&data, &["--appendfsync", "always"]);
    let mut client = running.client();
    for number in 0..20 {
        assert_eq!(client.show(&format!("SET key:{number} {number}")), "OK");
    }
    let inner = format!("{data}/appendonlydir");
    for path in [&data, &inner] {
        check(&["--check-journal", path], 0, &["term 1, 16 databases", "base: no data", "a start loads "]);
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

    // Something in the middle.
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
    scratch.file("journal.manifest", "DARTER-JOURNAL 2\nid 1\n");
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
