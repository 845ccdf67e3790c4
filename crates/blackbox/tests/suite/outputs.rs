//! Outputs that take nothing: standard output and error that are closed or full, and a limit of the size of files.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use blackbox::{Scratch, Server, binary, eventually};

/// A server that refuses to start ends with status 1, whether or not it can say why.
#[test]
fn an_error_that_cannot_be_printed_ends_the_start_all_the_same() {
    let scratch = Scratch::new("outputs");
    let log = scratch.path("log");
    let refused = ["--port", "no-number"];
    let unusable = ["--dir", "/dev/null/nothing"];
    let logged =
        ["--dir", scratch.path("").as_str(), "--logfile", &log, "--appendonly", "yes", "--bind", "192.0.2.1"]
            .map(str::to_owned);
    for redirection in ["2>&-", "2>/dev/full", ">&- 2>&-", ">/dev/full 2>/dev/full"] {
        for options in
            [refused.map(str::to_owned).to_vec(), unusable.map(str::to_owned).to_vec(), logged.to_vec()]
        {
            let script = format!("exec \"$@\" {redirection}");
            let mut command = Command::new("sh");
            command.args(["-c", &script, "sh"]).arg(binary().expect("it is built")).args(&options);
            let status = command.status().expect("it can be run");
            assert_eq!((status.code(), status.signal()), (Some(1), None), "{redirection} {options:?}");
        }
    }
}

/// A file that may not become longer is like a full disk: the server goes on without it, and says so.
#[test]
fn a_limit_of_file_sizes_is_like_a_full_disk() {
    let scratch = Scratch::new("file-size");
    let folder = scratch.path("");
    // 1 MiB: less than the first segment of a journal.
    let launcher = ["sh", "-c", "ulimit -f 2048 && exec \"$@\"", "sh"];
    let options = ["--appendonly", "yes", "--save", "", "--dir", &folder];
    let server = Server::launch(&launcher, &options).unwrap_or_else(|error| panic!("{error}"));
    let mut client = server.client();
    let answer = client.show("SET key value");
    assert!(answer.contains("MISCONF") && answer.contains("File too large"), "{answer}");
    assert_eq!(client.show("GET key"), "(nil)");
    // And so for a snapshot.
    assert_eq!(client.show("CONFIG SET appendonly no"), "OK");
    eventually("writes are accepted", || client.show("SET key value") == "OK");
    for number in 0..6 {
        let script = format!(
            "EVAL \"return redis.call('SET', KEYS[1], string.rep('v', 1000000) .. KEYS[1])\" 1 {number}"
        );
        assert_eq!(client.show(&script), "OK");
    }
    assert!(client.show("CONFIG SET rdbcompression no") == "OK" && client.show("SAVE").contains("(error)"));
    assert_eq!(client.show("EXISTS 5"), "(integer) 1", "it goes on");
}
