//! A crash leaves a report in the log, and the process ends with the signal.

use std::os::unix::process::ExitStatusExt;

use blackbox::{Scratch, Server, Signal};

/// Crashes a server by what `crash` does; what its log says, and which signal ended it.
fn crashed(more: &[&str], crash: impl FnOnce(&Server)) -> (String, Option<i32>) {
    let scratch = Scratch::new("crash");
    let path = scratch.path("log");
    let options = [&["--logfile", &path, "--enable-debug-command", "yes"], more].concat();
    let mut server = Server::start(2, "auto", &options);
    crash(&server);
    let signal = server.wait().signal();
    (std::fs::read_to_string(path).expect("the server wrote its log"), signal)
}

#[track_caller]
fn check(word: &str, expected: Signal, lines: &[&str]) {
    let (log, signal) = crashed(&[], |server| {
        let mut client = server.client();
        client.send(&format!("DEBUG {word}"));
        client.expect_end();
    });
    assert_eq!(signal, Some(expected.as_raw()), "{word}");
    let common = [
        "=== DARTER BUG REPORT START",
        &format!("crashed by signal: {}", expected.as_raw()),
        "Current command: debug (its arguments are not shown), client id=",
        "ops::debug::crash",
        "redis_git_sha1:",
        "connected_clients:",
        "=== DARTER BUG REPORT END",
    ];
    for line in common.iter().chain(lines) {
        assert!(log.contains(line), "{line}: {log}");
    }
    assert_eq!(log.matches("REPORT START").count(), 1, "{log}");
}

#[test]
fn a_crash_says_what_happened() {
    check("SEGFAULT", Signal::SEGV, &["Accessing address: 0x", "Thread: darter-"]);
    check("PANIC", Signal::ABORT, &["panicked at ", "called by DEBUG PANIC", "Thread: darter-"]);
    check("ASSERT", Signal::ABORT, &["assertion failed"]);
    check("OOM", Signal::ABORT, &["Thread: darter-"]);
}

#[test]
fn a_signal_that_somebody_sent_is_reported_too() {
    for signal in [Signal::SEGV, Signal::BUS, Signal::FPE, Signal::ILL, Signal::ABORT] {
        let (log, ended) = crashed(&[], |server| server.signal(signal));
        assert_eq!(ended, Some(signal.as_raw()));
        let sender = format!("Sent by process: {}", std::process::id());
        assert!(log.contains(&sender) && log.contains("REPORT END"), "{log}");
    }
}

#[test]
fn secrets_are_not_in_the_report() {
    let (log, _) = crashed(&["--requirepass", "hush-hush"], |server| {
        let mut client = server.client();
        assert_eq!(client.show("AUTH hush-hush"), "OK");
        client.show("SET secret-key secret-value");
        client.send("DEBUG SEGFAULT");
        client.expect_end();
    });
    assert!(log.contains("REPORT END"), "{log}");
    assert!(!log.contains("hush-hush") && !log.contains("secret-"), "{log}");
}

#[test]
fn without_a_report_the_signal_does_what_it_does() {
    let (log, ended) = crashed(&["--crash-log-enabled", "no"], |server| server.signal(Signal::SEGV));
    assert_eq!(ended, Some(Signal::SEGV.as_raw()));
    assert!(!log.contains("REPORT"), "{log}");
}

#[test]
fn the_build_says_which_commit_it_is_of() {
    let server = Server::start(1, "auto", &[]);
    let mut client = server.client();
    let sha = client.info("server", "redis_git_sha1");
    assert!(sha.len() >= 8 && sha.bytes().all(|byte| byte.is_ascii_hexdigit()), "{sha}");
    let dirty = client.info("server", "redis_git_dirty");
    let version = String::from_utf8(blackbox::run(&[], &["--version"]).stdout).unwrap();
    assert!(version.contains(&format!(" sha={sha}:{dirty} ")), "{version}");
    assert!(version.contains(&format!(" build={} ", client.info("server", "redis_build_id"))), "{version}");
    assert!(version.contains(&format!(" malloc={} ", client.info("memory", "mem_allocator"))), "{version}");
}
