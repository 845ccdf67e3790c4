//! `darter --queues` shows the queues of a running server on the terminal.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use blackbox::{Server, check, free_port, oracle, run};

/// Runs `darter --queues` on a server with `more` flags; what it prints, what it complains of, and its exit status.
fn queues(launcher: &[&str], port: u16, more: &[&str]) -> (String, String, i32) {
    let port = port.to_string();
    let args = [&["--queues", "-p", &port], more].concat();
    let output = run(launcher, &args);
    let text = |bytes| String::from_utf8(bytes).expect("it is ASCII");
    (text(output.stdout), text(output.stderr), output.status.code().expect("it ends by itself"))
}

#[test]
fn the_queues_of_a_server_are_shown() {
    let server = Server::start(2, "auto", &[]);
    let mut client = server.client();
    assert_eq!(queues(&[], server.port(), &[]), ("database 0 has no queues\n".to_owned(), String::new(), 0));
    check(&mut client, "LPUSH queue:mail a b", "(integer) 2");
    check(&mut client, "QUEUE PAUSE \"queue:\\x1b[31m\\n\"", "(integer) 1");
    check(&mut client, "SELECT 1", "OK");
    check(&mut client, "ZADD schedule 1 a", "(integer) 1");
    let (text, complaint, status) = queues(&[], server.port(), &["-h", "localhost"]);
    assert_eq!((&*complaint, status), ("", 0));
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert_eq!(lines[0][..4], ["queue", "system", "state", "depth"]);
    assert_eq!(lines[1][..4], ["queue:mail", "sidekiq", "waiting", "2"]);
    assert_eq!(lines[2][..4], ["queue:\\x1b[31m\\n", "sidekiq", "waiting", "0"]);
    assert!(lines[2].contains(&"paused"), "{text}");
    assert_eq!(lines[4][..4], ["2", "queues", "waiting", "2"]);
    let (text, ..) = queues(&[], server.port(), &["-n", "1"]);
    assert!(text.contains("\nschedule  sidekiq  scheduled"), "{text}");
}

#[test]
fn who_may_not_look_is_told_so() {
    let server = Server::start(1, "auto", &["--requirepass", "secret", "--user", "eve", "on", ">e", "+ping"]);
    let port = server.port();
    for (launcher, more, status, told) in [
        (&[][..], &[][..], 3, "requires a password: set REDISCLI_AUTH"),
        (&[], &["--pass", "wrong"], 3, "refuses: WRONGPASS"),
        (&[], &["--user", "eve", "--pass", "e"], 3, "refuses: NOPERM"),
        (&[], &["--pass", "secret", "-n", "99"], 1, "answers with an error: ERR DB index is out of range"),
        (&[], &["--pass", "secret"], 0, ""),
        (&["env", "REDISCLI_AUTH=secret"], &["--user", "default"], 0, ""),
    ] {
        let (text, complaint, found) = queues(launcher, port, more);
        assert_eq!(found, status, "{more:?}: {complaint}");
        assert!(complaint.contains(told), "{more:?}: {complaint}");
        assert_eq!(text.is_empty(), status != 0, "{more:?}: {text}");
    }
}

#[test]
fn what_is_no_darter_is_named() {
    if let Some(redis) = oracle() {
        let (_, complaint, status) = queues(&[], redis.port(), &[]);
        let expected = format!(
            "darter: 127.0.0.1:{} is not a Darter with QUEUE LIST: ERR unknown command 'QUEUE'",
            redis.port()
        );
        assert!(complaint.starts_with(&expected), "{complaint}");
        assert_eq!(status, 4);
    }
    let port = free_port().expect("there is a free port");
    let (_, complaint, status) = queues(&[], port, &[]);
    assert!(complaint.contains("cannot connect to 127.0.0.1:"), "{complaint}");
    assert_eq!(status, 2);
}

#[test]
fn a_stranger_that_never_ends_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let port = listener.local_addr().expect("it is bound").port();
    let stranger = thread::spawn(move || {
        for reply in ["SSH-2.0-OpenSSH\r\n", "*9999999999\r\n*0\r\n", "$9999999999\r\n"] {
            let mut stream = listener.accept().expect("somebody connects").0;
            let mut written = stream.write_all(reply.as_bytes());
            while written.is_ok() {
                written = stream.write_all(&[b'a'; 1 << 16]);
            }
            let _ = stream.read(&mut [0; 64]);
        }
    });
    for why in
        ["unknown reply type 0x53", "its reply about queues has an unknown form", "the reply is too long"]
    {
        let (_, complaint, status) = queues(&[], port, &[]);
        assert!(complaint.contains(why), "{complaint}");
        assert_eq!(status, 4);
    }
    stranger.join().expect("it ends");
}

#[test]
fn the_host_and_help_have_the_same_letter() {
    let help = run(&[], &["-h"]);
    assert!(String::from_utf8_lossy(&help.stdout).contains("--queues"), "{help:?}");
    let asked = run(&[], &["--queues", "--help"]);
    assert_eq!(asked.stdout, help.stdout);
    let wrong = run(&[], &["--queues", "-h"]);
    assert_eq!(String::from_utf8_lossy(&wrong.stderr), "darter: -h needs a value\n");
    assert_eq!(wrong.status.code(), Some(1));
}

#[test]
fn a_reader_that_has_seen_enough_ends_it() {
    let server = Server::start(1, "auto", &[]);
    let launcher = ["bash", "-c", "set -o pipefail; \"$0\" \"$@\" | head -n 3"];
    let (text, complaint, status) = queues(&launcher, server.port(), &["-i", "0.05"]);
    assert_eq!(text, "database 0 has no queues\n\ndatabase 0 has no queues\n");
    assert_eq!((&*complaint, status), ("", 0));
}
