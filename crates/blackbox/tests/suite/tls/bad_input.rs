//! Clients that do not speak TLS properly at the port for TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use blackbox::{Client, check, eventually};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::fixture::{Authority, Secured, dial_plain, read_to_end, secured, secured_on};

/// Half a hello: the first bytes of a record of 512 bytes.
const HALF_HELLO: &[u8] = &[22, 3, 1, 2, 0, 1];

fn half_handshakes(secured: &Secured, count: usize) -> Vec<TcpStream> {
    let begin = |_| {
        let mut stream = secured.tcp();
        // The connection may have been closed, because there are too many.
        let _ = stream.write_all(HALF_HELLO);
        stream
    };
    (0..count).map(begin).collect()
}

fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, all).expect("the soft limit may be raised to the hard one");
}

fn used_bytes(client: &mut Client) -> u64 {
    client.info("memory", "used_memory").parse().expect("it is a number")
}

#[test]
fn thousands_of_half_handshakes_end_and_leave_nothing() {
    raise_descriptors();
    let secured = secured("tls-half", &["--tls-handshakes-max", "1000"]);
    let client = secured.authority.issue("client");
    let mut admin = secured.server.client();
    let mut old = secured.connect(Some(&client));
    check(&mut old, "PING", "PONG");
    let is_alone = |admin: &mut Client| admin.info("clients", "connected_clients") == "2";
    let empty = used_bytes(&mut admin);
    let mut before = None;
    for round in 1..=2 {
        // None of them ends before all have come, however long that takes.
        check(&mut admin, "CONFIG SET tls-handshake-timeout 0", "OK");
        let mut crowd = half_handshakes(&secured, 900);
        // A proper client is still served.
        check(&mut secured.connect(Some(&client)), "PING", "PONG");
        crowd.extend(half_handshakes(&secured, 1100));
        check(&mut old, "PING", "PONG");
        eventually("what exceeds the limit is rejected", || {
            let rejected: u64 = admin.info("stats", "rejected_connections").parse().expect("it is a number");
            rejected >= 1000 * round
        });
        check(&mut admin, "CONFIG SET tls-handshake-timeout 1", "OK");
        for stream in &mut crowd {
            assert_eq!(read_to_end(stream), b"");
        }
        check(&mut secured.connect(Some(&client)), "PING", "PONG");
        eventually("they are gone", || is_alone(&mut admin));
        // Two thousand sessions would take 10 MiB or more. Only buffers that threads keep may remain of the first
        // ones.
        let bound = before.map_or(empty + (6 << 20), |before| before + (1 << 20));
        eventually("their memory is back", || used_bytes(&mut admin) < bound);
        before.get_or_insert(used_bytes(&mut admin));
    }
}

#[test]
fn garbage_after_the_handshake_ends_the_connection() {
    for (name, io) in [("tls-garbage-uring", "auto"), ("tls-garbage-epoll", "epoll")] {
        let authority = Authority::new(name);
        authority.serve_as(&authority.issue("server"));
        let secured = secured_on(authority, io, &[]);
        let identity = secured.authority.issue("client");
        let too_long = [&[23, 3, 3, 0xff, 0xff][..], &[0; 1000]].concat();
        let forged = [&[23, 3, 3, 1, 0][..], &[7; 256]].concat();
        for garbage in
            [&b"*1\r\n$4\r\nPING\r\n"[..], &too_long, &forged, &[22, 3, 3, 0, 4, 0, 0, 0, 0], &[0; 70_000]]
        {
            let mut client = secured.connect(Some(&identity));
            check(&mut client, "SET k v", "OK");
            let stream = client.stream();
            // The server may hang up before everything is sent.
            let _ = stream.sock.write_all(garbage);
            assert!(stream.read(&mut [0; 100]).map_or(true, |count| count == 0), "{garbage:?}");
        }
        let mut client = secured.connect(Some(&identity));
        check(&mut client, "GET k", "\"v\"");
        eventually("they are gone", || client.info("clients", "connected_clients") == "1");
    }
}

#[test]
fn the_log_says_that_a_client_speaks_without_tls() {
    let secured = secured("tls-plain", &[]);
    let mut stream = secured.tcp();
    stream.write_all(b"*1\r\n$4\r\nPING\r\n").expect("it is connected");
    read_to_end(&mut stream);
    let log = secured.server.log();
    assert!(
        log.contains("Error accepting a client connection: it does not speak TLS (addr=127.0.0.1:"),
        "{log}"
    );
}

#[test]
fn nothing_is_negotiated_anew() {
    let secured = secured("tls-renegotiation", &["--tls-auth-clients", "no"]);
    let address = format!("127.0.0.1:{}", secured.port);
    let authority = secured.authority.scratch.path("ca.pem");
    let began = Command::new("openssl")
        .args(["s_client", "-connect", &address, "-tls1_2", "-CAfile", &authority, "-verify_return_error"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut openssl) = began else { return };
    let mut input = openssl.stdin.take().expect("it is a pipe");
    input.write_all(b"PING\n").expect("it runs");
    let (mut output, mut received) = (openssl.stdout.take().expect("it is a pipe"), Vec::new());
    while !received.windows(5).any(|window| window == b"+PONG") {
        let mut bytes = [0; 4096];
        let count = output.read(&mut bytes).expect("it is a pipe");
        assert!(count > 0, "{}", String::from_utf8_lossy(&received));
        received.extend_from_slice(&bytes[..count]);
    }
    input.write_all(b"R\n").expect("it runs");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("it is text");
    drop(input);
    let ended = openssl.wait_with_output().expect("it ends");
    let words = String::from_utf8_lossy(&ended.stderr);
    assert!(words.contains("RENEGOTIATING") && words.contains("no renegotiation"), "{rest} {words}");
    check(&mut secured.connect(None), "PING", "PONG");
}

#[test]
fn the_limit_of_clients_is_told_over_tls() {
    let secured = secured("tls-maxclients", &["--maxclients", "2"]);
    let identity = secured.authority.issue("client");
    let mut admin = secured.server.client();
    let mut one = secured.connect(Some(&identity));
    check(&mut one, "PING", "PONG");
    let mut refused = secured.connect(Some(&identity));
    refused.stream().flush().expect("it is open");
    assert_eq!(refused.receive().to_string(), "(error) ERR max number of clients reached");
    refused.expect_end();
    eventually("it was counted", || admin.info("stats", "rejected_connections") == "1");
    check(&mut one, "PING", "PONG");
}

#[test]
fn protected_mode_holds_over_tls() {
    // Nothing is sent. The system only chooses the local address.
    let probe = std::net::UdpSocket::bind("0.0.0.0:0").expect("there are ports");
    let address = probe.connect("192.0.2.1:9").and_then(|()| probe.local_addr());
    let Some(address) = address.ok().filter(|address| !address.ip().is_loopback()) else { return };
    let secured = secured("tls-protected", &["--bind", "* -::*"]);
    let identity = secured.authority.issue("client");
    let from_outside = || {
        let tcp = TcpStream::connect((address.ip(), secured.port)).expect("it listens");
        tcp.set_read_timeout(Some(blackbox::PATIENCE)).expect("it is a socket");
        secured.over(tcp, &identity)
    };
    let mut stranger = from_outside();
    stranger.stream().flush().expect("it is open");
    let refusal = stranger.receive().to_string();
    assert!(refusal.starts_with("(error) DENIED Redis is running in protected mode because"), "{refusal}");
    stranger.expect_end();
    check(&mut secured.server.client(), "CONFIG SET protected-mode no", "OK");
    check(&mut from_outside(), "PING", "PONG");
}

#[test]
fn what_is_sent_before_the_handshake_is_bounded() {
    let secured = secured("tls-flood", &[]);
    let identity = secured.authority.issue("client");
    let mut flood = dial_plain(secured.port);
    // Records of a handshake message that never ends. The server may hang up before all are sent.
    let record = [&[22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff][..], &[0; (1 << 14) - 4]].concat();
    let _ = (0..1000).try_for_each(|_| flood.write_all(&record));
    let said = read_to_end(&mut flood);
    assert!(said.first().is_none_or(|kind| *kind == 21), "an alert, if anything: {said:?}");
    let mut client = secured.connect(Some(&identity));
    eventually("it is gone", || client.info("clients", "connected_clients") == "1");
}
