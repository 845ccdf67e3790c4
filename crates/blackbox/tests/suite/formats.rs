//! Files of earlier builds are read: journals, snapshots and payloads of `DUMP`, in `tests/golden`.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use blackbox::{Scratch, Server, check, eventually, run};
use rustix::process::Signal;

/// The bytes that the digits stand for.
fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// Makes the files that the text describes, in a folder that exists.
fn restore(text: &str, folder: &Path) {
    let mut file: Option<File> = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["file", name, bytes] => {
                let made = OpenOptions::new().create_new(true).write(true).open(folder.join(name));
                let made = made.expect("it is not there");
                made.set_len(bytes.parse().expect("a number")).expect("a hole takes no room");
                file = Some(made);
            }
            ["at", offset, hex] => {
                let file = file.as_ref().expect("a file comes before its blocks");
                file.write_all_at(&bytes(hex), offset.parse().expect("a number")).expect("there is room");
            }
            _ => panic!("{line}"),
        }
    }
}

#[test]
fn a_journal_of_the_first_format_is_continued() {
    let scratch = Scratch::new("journal-format-1");
    let data = scratch.path("data");
    let folder = Path::new(&data).join("appendonlydir");
    fs::create_dir_all(&folder).expect("files can be made");
    restore(include_str!("../golden/journal-1.txt"), &folder);
    let check = |expected: &str| {
        let output = run(&[], &["--check-journal", &data]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains(expected), "{text}");
    };
    check("a start loads the base and 8 slices behind it");
    let manifest = || fs::read_to_string(folder.join("journal.manifest")).expect("it is there");
    assert!(manifest().starts_with("DARTER-JOURNAL 1\n"));
    let options = ["--appendonly", "yes", "--appendfsync", "always", "--dir", &data];
    for life in 0..2 {
        let mut server = Server::start(2, "auto", &options);
        let mut client = server.client();
        for (line, expected) in [
            ("GET key:1", "\"value-1\""),
            ("GET key:5", "\"value-5\""),
            ("LRANGE list 0 -1", "1) \"6\"\n2) \"7\"\n3) \"8\"\n4) \"9\""),
            ("MGET a last", "1) \"1\"\n2) \"one\""),
            ("GET later", ["(nil)", "\"yes\""][life]),
            ("SET later yes", "OK"),
            ("SELECT 3", "OK"),
            ("HGET hash f", "\"v\""),
        ] {
            assert_eq!(client.show(line), expected, "{line}");
        }
        assert!(manifest().starts_with("DARTER-JOURNAL 2\n"), "it is continued in the present format");
        server.signal(Signal::KILL);
        server.wait();
        check("a start loads the base and");
    }
    let server = Server::start(2, "auto", &options);
    assert_eq!(server.client().show("BGREWRITEAOF"), "Background append only file rewriting started");
    eventually("it has a new base", || !manifest().contains(" base-0b231b5bb5628ff8-6.rdb"));
    check("a start loads the base");
}

/// The present build writes the same data as the earlier one if both have the same digest.
#[test]
fn a_native_snapshot_of_an_earlier_build_is_loaded() {
    let scratch = Scratch::new("snapshot-1");
    let data = scratch.path("");
    let text = include_str!("../golden/snapshot-1.txt");
    restore(text, Path::new(&data));
    let digest = text.lines().find_map(|line| line.strip_prefix("# Their digest: ")).expect("it is there");
    let options = ["--dir", &data, "--dbfilename", "dump.darter", "--enable-debug-command", "yes"];
    let server = Server::start(2, "auto", &options);
    let client = &mut server.client();
    check(client, "DEBUG DIGEST", digest);
    check(client, "FCALL f 0", "(integer) 7");
    check(client, "LPOP queue:default", "(nil)");
    check(client, "QUEUE RESUME queue:default", "(integer) 1");
    check(client, "LPOP queue:default", "\"{\\\"jid\\\":\\\"2\\\"}\"");
    check(
        client,
        "QUEUE LIMIT queue:limited",
        "1) \"rate\"\n2) (integer) 5\n3) \"per_ms\"\n4) (integer) 1000",
    );
    check(client, "SELECT 9", "OK");
    check(client, "GET nine", "\"9\"");
}

#[test]
fn payloads_of_an_earlier_build_are_restored() {
    let server = Server::start(2, "auto", &["--enable-debug-command", "yes"]);
    let client = &mut server.client();
    let lines = include_str!("../golden/dumps-1.txt").lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let [key, digest, hex] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        client.send_args(&[b"RESTORE", key.as_bytes(), b"0", &bytes(hex)]);
        assert_eq!(client.receive().to_string(), "OK", "{key}");
        assert!(client.show(&format!("DEBUG DIGEST-VALUE {key}")).contains(digest), "{key}");
    }
}
