//! HTTP requests to ports of other protocols: nothing of the body is run, the connection ends, without a reply on
//! Redis' port, and the log reports it once.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use blackbox::{PATIENCE, Server, check, eventually, free_port, oracle};

const BODY: &str = "FLUSHALL\r\nSET pwned 1\r\n";
const WARNING: &str = "Possible SECURITY ATTACK detected";

/// A request as a browser sends it, with `BODY`.
fn page(method: &str, host: &str) -> String {
    let head = format!("{method} / HTTP/1.1\r\n{host} 127.0.0.1:6379\r\nContent-Type: text/plain\r\n");
    format!("{head}Content-Length: {}\r\n\r\n{BODY}", BODY.len())
}

/// The answer up to the end of the connection.
#[track_caller]
fn answer(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("sockets have a timeout");
    // It may hang up before all is sent.
    let _ = stream.write_all(request.as_bytes());
    let mut received = Vec::new();
    match stream.read_to_end(&mut received) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => panic!("{request:?}: {error}"),
        _ => String::from_utf8_lossy(&received).into_owned(),
    }
}

#[track_caller]
fn check_unharmed(server: &Server, auth: Option<&str>) {
    let mut client = server.client();
    if let Some(auth) = auth {
        check(&mut client, auth, "OK");
    }
    check(&mut client, "MGET kept pwned", "1) \"1\"\n2) (nil)");
}

/// Darter with commands that run at home and that are delegated, with both drivers; and redis-server.
fn servers() -> Vec<Server> {
    let kinds: [(usize, &str, &[&str]); 3] =
        [(1, "epoll", &[]), (4, "auto", &[]), (4, "epoll", &["--shard-entry=home"])];
    let darters = kinds.map(|(threads, io, options)| Server::start(threads, io, options));
    darters.into_iter().chain(oracle()).collect()
}

#[test]
fn a_page_runs_no_command() {
    for server in servers() {
        check(&mut server.client(), "SET kept 1", "OK");
        for request in [
            page("POST", "Host:"),
            page("post", "X:"),
            page("GET", "Host:"),
            page("OPTIONS", "hOST:"),
            // Behind commands, which are no longer answered; in a transaction; in any form; and from a subscriber.
            ["INCR a\r\nINCR b\r\nINCR c\r\nLPUSH d 1\r\n", &page("POST", "Host:")].concat(),
            ["MULTI\r\n", &page("POST", "Host:"), "EXEC\r\n"].concat(),
            ["*1\r\n$4\r\nPOST\r\n", BODY].concat(),
            ["*2\r\n$5\r\nhost:\r\n$1\r\nx\r\n", BODY].concat(),
            ["CLIENT REPLY OFF\r\n", &page("POST", "Host:")].concat(),
            ["SUBSCRIBE channel\r\n", &page("POST", "Host:")].concat(),
        ] {
            let answer = answer(server.port(), &request);
            // Replies may have gone before the rest was read.
            let is_early = answer.starts_with(':') || answer.starts_with("+OK") || answer.starts_with('*');
            let is_early = is_early && !request.starts_with("*1") && !request.starts_with("*2");
            assert!(answer.is_empty() || is_early, "{request:?} to {}: {answer:?}", server.name());
            check_unharmed(&server, None);
        }
        let told = server.log().matches(WARNING).count();
        assert_eq!(told, 1, "{}: {}", server.name(), server.log());
    }
}

#[test]
fn a_page_runs_no_command_however_it_is_cut() {
    let server = Server::start(2, "auto", &[]);
    check(&mut server.client(), "SET kept 1", "OK");
    let request = page("POST", "Host:");
    for length in [1, 4, 5, 18, 19, 30] {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
        stream.set_nodelay(true).expect("TCP can do this");
        stream.set_read_timeout(Some(PATIENCE)).expect("sockets have a timeout");
        let (first, rest) = request.split_at(length);
        for piece in [first, rest] {
            let _ = stream.write_all(piece.as_bytes());
        }
        let mut received = Vec::new();
        let _ = stream.read_to_end(&mut received);
        assert_eq!(received, b"", "cut after {length}");
        check_unharmed(&server, None);
    }
}

#[test]
fn a_page_is_no_client_that_has_to_say_its_password() {
    for server in servers() {
        let mut client = server.client();
        check(&mut client, "SET kept 1", "OK");
        check(&mut client, "CONFIG SET requirepass secret", "OK");
        assert_eq!(answer(server.port(), &page("POST", "Host:")), "", "{}", server.name());
        assert_eq!(answer(server.port(), &page("GET", "Host:")), "", "{}", server.name());
        check_unharmed(&server, Some("AUTH secret"));
    }
}

#[test]
fn a_page_runs_no_command_while_a_script_is_slow() {
    let server = Server::start(1, "auto", &["--lua-time-limit", "20"]);
    let (mut script, mut other) = (server.client(), server.client());
    check(&mut other, "SET kept 1", "OK");
    script.send("EVAL 'while true do end' 0");
    eventually("the script is slow", || other.show("PING").starts_with("(error) BUSY"));
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("sockets have a timeout");
    stream
        .write_all(page("POST", "Host:").replace(BODY, "SHUTDOWN NOSAVE\r\n").as_bytes())
        .expect("it is open");
    eventually("it is noticed", || server.log().contains(WARNING));
    check(&mut other, "SCRIPT KILL", "OK");
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    assert_eq!(received, b"");
    check_unharmed(&server, None);
}

#[test]
fn a_page_runs_no_command_of_memcached() {
    for password in [&[][..], &["--requirepass", "secret"]] {
        let port = free_port().expect("some port is free");
        let server = Server::start(2, "auto", &[&["--memcached-port", &port.to_string()], password].concat());
        let body = "flush_all\r\nset pwned 0 0 1\r\n1\r\n";
        let mut client = server.client();
        if !password.is_empty() {
            check(&mut client, "AUTH secret", "OK");
        }
        check(&mut client, "SET kept 1", "OK");
        // Each line gets an error, up to the one that reveals HTTP. Earlier requests are answered.
        let (one, two) = ("ERROR\r\n", "ERROR\r\nERROR\r\n");
        for (method, expected) in [("POST", one), ("GET", two), ("PUT", two)] {
            let request = page(method, "Host:").replace(BODY, body);
            assert_eq!(answer(port, &request), expected, "{method}");
            if password.is_empty() {
                assert_eq!(
                    answer(port, &format!("mn\r\n{request}")),
                    format!("MN\r\n{expected}"),
                    "{method}"
                );
            }
        }
        // The words are ordinary ones where they are no command.
        let set = "set POST 0 0 7\r\nHost: x\r\nget POST\r\nquit\r\n";
        if password.is_empty() {
            assert_eq!(answer(port, set), "STORED\r\nVALUE POST 0 7\r\nHost: x\r\nEND\r\n");
        }
        check(&mut client, "MGET kept pwned", "1) \"1\"\n2) (nil)");
        assert_eq!(server.log().matches(WARNING).count(), 1, "{}", server.log());
    }
}

#[test]
fn curl_gets_no_reply() {
    /// The exit codes of curl if a server sends nothing, resets the connection, or sends something other than HTTP.
    const NOTHING_RECEIVED: [i32; 3] = [1, 52, 56];
    let port = free_port().expect("some port is free");
    let server = Server::start(2, "auto", &["--memcached-port", &port.to_string()]);
    check(&mut server.client(), "SET kept 1", "OK");
    for port in [server.port(), port] {
        for more in [&["-X", "POST", "--data-binary", BODY][..], &["-T", "/etc/hostname"], &[]] {
            let url = format!("http://127.0.0.1:{port}/");
            let curl = Command::new("curl").args(["-s", "--noproxy", "*"]).args(more).arg(url).output();
            let output = curl.expect("curl is installed (scripts/setup)");
            let status = output.status.code();
            assert!(status.is_some_and(|status| NOTHING_RECEIVED.contains(&status)), "{more:?}: {output:?}");
            assert_eq!(output.stdout, b"", "{more:?}");
        }
    }
    check_unharmed(&server, None);
}
