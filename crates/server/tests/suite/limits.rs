//! The limits of clients: the commands that they may not run, and the bounds of the memory that they can fill.

use std::io::Write;
use std::net::UdpSocket;

use blackbox::{Client, Server, check, eventually, text};
use resp::Value;

#[test]
fn without_the_password_there_is_little_to_do() {
    let server = Server::start(2, "auto", &["--requirepass", "secret"]);
    let client = &mut server.client();
    for line in ["GET a", "PING", "CLIENT ID", "MULTI"] {
        check(client, line, "(error) NOAUTH Authentication required.");
    }
    check(client, "nonsense", "(error) ERR unknown command 'nonsense', with args beginning with: ");
    assert!(
        client.show("HELLO 3").starts_with("(error) NOAUTH HELLO must be called with the client already")
    );
    let wrong = "(error) WRONGPASS invalid username-password pair or user is disabled.";
    check(client, "AUTH wrong", wrong);
    check(client, "AUTH other secret", wrong);
    check(client, "HELLO 3 AUTH default wrong", wrong);
    check(client, "GET a", "(error) NOAUTH Authentication required.");
    check(client, "AUTH secret", "OK");
    check(client, "GET a", "(nil)");
    check(client, "RESET", "RESET");
    check(client, "GET a", "(error) NOAUTH Authentication required.");
    assert!(matches!(client.call("HELLO 3 AUTH default secret"), Value::Map(_)));
    // A request that follows AUTH in the same packet is that of an authenticated client.
    let other = &mut server.client();
    let large = "x".repeat(100_000);
    let mut bytes = Vec::new();
    resp::encode_request(&[&b"AUTH"[..], b"secret"], &mut bytes);
    resp::encode_request(&[&b"SET"[..], b"large", large.as_bytes()], &mut bytes);
    other.stream().write_all(&bytes).unwrap();
    assert_eq!((other.receive().to_string(), other.receive().to_string()), ("OK".into(), "OK".into()));
    // Large requests of strangers are refused before they have come.
    let stranger = &mut server.client();
    stranger.stream().write_all(b"*2\r\n$4\r\nAUTH\r\n$100000\r\n").unwrap();
    assert_eq!(stranger.receive().to_string(), "(error) ERR Protocol error: unauthenticated bulk length");
    stranger.expect_end();
}

#[test]
fn there_are_only_so_many_clients() {
    let server = Server::start(2, "auto", &[]);
    let client = &mut server.client();
    check(client, "CONFIG SET maxclients 5", "OK");
    let mut others: Vec<Client> = (0..4).map(|_| server.client()).collect();
    others.iter_mut().for_each(|other| check(other, "PING", "PONG"));
    for _ in 0..3 {
        let refused = &mut server.client();
        assert_eq!(refused.receive().to_string(), "(error) ERR max number of clients reached");
        refused.expect_end();
    }
    let stats = text(&client.call("INFO stats"));
    assert!(stats.contains("rejected_connections:3\r\n"), "{stats}");
    others.pop();
    eventually("a place", || server.client().try_show("PING").as_deref() == Some("PONG"));
}

#[test]
fn without_a_password_strangers_are_sent_away() {
    let server = Server::start(2, "auto", &["--bind", "0.0.0.0"]);
    // The machine's own address is not the loopback interface; nothing is sent to find it.
    let probe = UdpSocket::bind("0.0.0.0:0").unwrap();
    let Some(address) = probe.connect("192.0.2.1:9").and_then(|()| probe.local_addr()).ok() else { return };
    if address.ip().is_loopback() {
        return;
    }
    let mut stranger = server.client_at(address.ip());
    let refusal = stranger.receive().to_string();
    assert!(refusal.starts_with("(error) DENIED Redis is running in protected mode because"), "{refusal}");
    stranger.expect_end();
    let client = &mut server.client();
    check(client, "CONFIG SET protected-mode no", "OK");
    check(&mut server.client_at(address.ip()), "PING", "PONG");
    check(client, "CONFIG SET protected-mode yes requirepass secret", "OK");
    check(&mut server.client_at(address.ip()), "PING", "(error) NOAUTH Authentication required.");
}

#[test]
fn idle_clients_are_disconnected() {
    let server = Server::start(2, "epoll", &[]);
    let (client, idle, subscriber, blocked) =
        (&mut server.client(), &mut server.client(), &mut server.client(), &mut server.client());
    check(idle, "PING", "PONG");
    subscriber.call("SUBSCRIBE news");
    blocked.send("BLPOP list 0");
    check(client, "CONFIG SET timeout 1", "OK");
    idle.expect_end();
    let client = &mut server.client();
    check(client, "PUBLISH news x", "(integer) 1");
    check(client, "RPUSH list v", "(integer) 1");
    assert_eq!(blocked.receive().to_string(), "1) \"list\"\n2) \"v\"");
}

#[test]
fn a_request_may_only_be_so_long() {
    let server = Server::start(2, "auto", &[]);
    let (client, chatty) = (&mut server.client(), &mut server.client());
    let id = chatty.id();
    check(client, "CONFIG SET client-query-buffer-limit 1mb", "OK");
    let _ = chatty.stream().write_all(b"*2\r\n$3\r\nGET\r\n$4000000\r\n");
    let _ = chatty.stream().write_all(&vec![b'x'; 3_000_000]);
    eventually("disconnected", || client.field_of(id, "id").is_empty());
}

#[test]
fn only_so_many_wrong_passwords_are_looked_at() {
    let server = Server::start(2, "auto", &["--requirepass", "secret", "--auth-failures-max", "3"]);
    let (early, client, other) = (&mut server.client(), &mut server.client(), &mut server.client());
    check(early, "AUTH secret", "OK");
    let wrong = "(error) WRONGPASS invalid username-password pair or user is disabled.";
    check(client, "AUTH wrong", wrong);
    check(client, "HELLO 3 AUTH nobody wrong", wrong);
    check(other, "AUTH wrong", wrong);
    // A right one would stand out.
    let too_many = "(error) ERR too many wrong passwords from this address; try again in ten seconds";
    for client in [&mut *client, other, &mut server.client()] {
        check(client, "AUTH secret", too_many);
        client.expect_end();
    }
    assert_eq!(early.info("stats", "rejected_connections"), "3");
    check(early, "CONFIG SET auth-failures-max 0", "OK");
    let client = &mut server.client();
    (0..10).for_each(|_| check(client, "AUTH wrong", wrong));
    check(client, "AUTH secret", "OK");
}

#[test]
fn a_user_has_only_so_many_connections() {
    let server = Server::start(2, "auto", &["--maxclients-per-user", "2"]);
    let client = &mut server.client();
    check(client, "ACL SETUSER tenant on nopass ~* +@all", "OK");
    check(client, "ACL SETUSER other on nopass ~* +@all", "OK");
    let [first, second, third, fourth] = &mut [0; 4].map(|_| server.client());
    check(first, "AUTH tenant x", "OK");
    check(first, "AUTH tenant x", "OK");
    assert!(matches!(second.call("HELLO 3 AUTH tenant x"), Value::Map(_)));
    let too_many = "(error) ERR max number of clients of this user reached";
    check(third, "AUTH tenant x", too_many);
    check(third, "HELLO 3 AUTH tenant x", too_many);
    check(third, "ACL WHOAMI", "\"default\"");
    check(third, "AUTH other x", "OK");
    check(third, "AUTH tenant x", too_many);
    check(third, "ACL WHOAMI", "\"other\"");
    // A change of the user changes nothing about that, and places come back in several ways.
    check(client, "ACL SETUSER tenant -flushall", "OK");
    check(fourth, "AUTH tenant x", too_many);
    check(first, "RESET", "RESET");
    check(fourth, "AUTH tenant x", "OK");
    check(second, "AUTH other x", "OK");
    check(first, "AUTH tenant x", "OK");
    check(third, "AUTH tenant x", too_many);
    assert_eq!(client.info("stats", "rejected_connections"), "5");
    check(fourth, "QUIT", "OK");
    eventually("a place", || third.show("AUTH tenant x") == "OK");
    check(client, "CONFIG SET maxclients-per-user 0", "OK");
    check(&mut server.client(), "AUTH tenant x", "OK");
}

#[test]
fn what_a_client_listens_to_and_watches_counts_as_its_memory() {
    let server = Server::start(2, "auto", &[]);
    let (client, witness) = (&mut server.client(), &mut server.client());
    let id = client.id();
    assert!(matches!(client.call("HELLO 3"), Value::Map(_)));
    let mut bytes = || witness.field_of(id, "tot-mem").parse::<u64>().expect("it is a number");
    let finish = |client: &mut Client, line: &str| {
        client.send(line);
        client.send("ECHO done");
        while client.receive().to_string() != "\"done\"" {}
    };
    // In pieces, so that its buffers stay small.
    let pieces: Vec<Vec<String>> =
        (0..20).map(|piece| (0..5).map(|number| format!("{piece:02}{number:0>998}")).collect()).collect();
    let idle = bytes();
    for (more, before_each, less) in [
        ("SUBSCRIBE", "", "UNSUBSCRIBE"),
        ("SSUBSCRIBE", "", "SUNSUBSCRIBE"),
        ("PSUBSCRIBE", "", "PUNSUBSCRIBE"),
        ("WATCH", "", "UNWATCH"),
        ("CLIENT TRACKING ON BCAST", "PREFIX ", "CLIENT TRACKING OFF"),
    ] {
        for names in &pieces {
            let words: Vec<String> = names.iter().map(|name| format!("{before_each}{name}")).collect();
            finish(client, &format!("{more} {}", words.join(" ")));
        }
        let grown = bytes();
        assert!(grown > idle + 100_000, "{more}: {grown} {idle}");
        finish(client, less);
        let shrunk = bytes();
        assert!(shrunk < idle + 50_000, "{less}: {shrunk} {idle}");
    }
}

#[test]
fn a_pipeline_of_slow_commands_lets_others_in_between() {
    const COMMANDS: u64 = 250;
    for io in ["auto", "epoll"] {
        let server = Server::start(1, io, &[]);
        let (mut slow, mut other) = (server.client(), server.client());
        check(&mut other, "PING", "PONG");
        let script = b"for i = 1, 1000000 do end return redis.call('INCR', KEYS[1])";
        for _ in 0..COMMANDS {
            slow.send_args(&[b"EVAL", script, b"1", b"count"]);
        }
        assert_eq!(slow.receive(), Value::Int(1));
        other.send("GET count");
        let Value::Bulk(count) = other.receive() else { panic!("it is a number") };
        let count: u64 = String::from_utf8_lossy(&count).parse().expect("it is a number");
        assert!(count < COMMANDS, "all of them came first");
    }
}
