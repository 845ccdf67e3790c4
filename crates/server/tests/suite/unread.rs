//! Clients that do not read what they are sent: their memory is bounded, and other clients do not wait for them.

use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::Duration;

use blackbox::{Server, Witness, check, eventually, on_each_server};
use resp::Value;

#[test]
fn a_reader_of_nothing_is_disconnected() {
    for (limit, io) in [("normal 4mb 0 0", "epoll"), ("normal 0 1mb 1", "auto")] {
        let server = Server::start(2, io, &[]);
        let client = &mut server.client();
        check(client, &format!("CONFIG SET client-output-buffer-limit \"{limit}\""), "OK");
        client.send_args(&[b"SET", b"large", &vec![b'x'; 1 << 20]]);
        assert_eq!(client.receive().to_string(), "OK");
        let greedy = &mut server.client();
        let id = greedy.id();
        let mut bytes = Vec::new();
        (0..64).for_each(|_| resp::encode_request(&[&b"GET"[..], b"large"], &mut bytes));
        greedy.send_bytes(&bytes);
        eventually("disconnected", || client.field_of(id, "id").is_empty());
        let mut rest = Vec::new();
        let _ = greedy.stream().read_to_end(&mut rest);
        assert!(rest.len() < 64 << 20);
        // A client that reads gets all of it.
        let patient = &mut server.client();
        for _ in 0..8 {
            assert!(matches!(patient.call("GET large"), Value::Bulk(value) if value.len() == 1 << 20));
        }
    }
}

#[test]
fn a_stranger_that_reads_nothing_is_disconnected() {
    for io in ["epoll", "auto"] {
        let server = Server::start(2, io, &["--requirepass", "secret"]);
        let (mut stranger, pings) = (server.client(), b"PING\r\n".repeat(200_000));
        let stream = stranger.stream();
        // The kernel by itself would end what it sends after a minute.
        stream.set_write_timeout(Some(Duration::from_secs(30))).expect("it is open");
        let ended = (0..60).find_map(|_| stream.write_all(&pings).err()).expect("it is disconnected");
        assert!(matches!(ended.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{io}: {ended}");
    }
}

#[test]
fn requests_far_ahead_wait_outside() {
    for io in ["epoll", "auto"] {
        let server = Server::start(2, io, &[]);
        let (admin, client) = (&mut server.client(), &mut server.client());
        let (id, mut stream) = (client.id(), client.stream().try_clone().expect("it is open"));
        let writer = thread::spawn(move || stream.write_all(&b"PING\r\n".repeat(8_000_000)));
        let mut most = 0;
        while !writer.is_finished() {
            most = most.max(admin.field_of(id, "qbuf").parse().expect("a number"));
        }
        writer.join().expect("no panic").expect("it is taken");
        assert!(most < 12_000_000, "{most} bytes");
        let mut replies = vec![0; 7 * 8_000_000];
        client.stream().read_exact(&mut replies).expect("all are answered");
        assert!(replies.ends_with(b"+PONG\r\n"));
    }
}

#[test]
fn a_subscriber_that_never_reads_is_disconnected() {
    on_each_server(|server| {
        let (idle, publisher) = (&mut server.client(), &mut server.client());
        let id = idle.id();
        idle.send("SUBSCRIBE flood");
        idle.receive();
        let message = "x".repeat(1 << 20);
        // 32 MiB are its limit; the sockets in between take some.
        let sent = (0..80)
            .take_while(|_| publisher.call(&format!("PUBLISH flood {message}")) == Value::Int(1))
            .count();
        assert!(sent >= 32, "{sent}");
        eventually("disconnected", || publisher.field_of(id, "id").is_empty());
        check(publisher, "PUBLISH flood x", "(integer) 0");
        let mut rest = Vec::new();
        let _ = idle.stream().read_to_end(&mut rest);
    });
}

#[test]
fn a_subscriber_that_is_slow_for_long_is_disconnected() {
    let server = Server::start(2, "auto", &[]);
    let mut witness = Witness::new(&server);
    check(witness.client(), "CONFIG SET client-output-buffer-limit \"pubsub 0 1mb 1\"", "OK");
    let (mut idle, mut monitor) = (server.client(), server.client());
    let ids = [idle.id(), monitor.id()];
    idle.call("SUBSCRIBE flood");
    check(&mut monitor, "MONITOR", "OK");
    // More than the sockets in between take.
    let message = "x".repeat(1 << 20);
    for _ in 0..16 {
        witness.client().call(&format!("PUBLISH flood {message}"));
    }
    for id in ids {
        eventually("disconnected", || witness.client().field_of(id, "id").is_empty());
    }
    witness.look();
}

#[test]
fn without_a_limit_a_client_is_served_when_it_reads() {
    for io in ["epoll", "auto"] {
        let server = Server::start(2, io, &["--client-unread-bytes-max", "4mb"]);
        let mut witness = Witness::new(&server);
        let (value, count) = (vec![b'x'; 1 << 20], 60);
        witness.client().send_args(&[b"SET", b"large", &value]);
        assert_eq!(witness.client().receive().to_string(), "OK");
        let mut lazy = server.client();
        let id = lazy.id();
        let mut bytes = Vec::new();
        for number in 0..count {
            resp::encode_request(&["GET", "large"], &mut bytes);
            resp::encode_request(&["RPUSH", "served", &number.to_string()], &mut bytes);
        }
        lazy.send_bytes(&bytes);
        let served = |witness: &mut Witness| witness.client().show("LLEN served");
        eventually("it is held back", || {
            let before = served(&mut witness);
            witness.look();
            let waiting: usize = witness.client().field_of(id, "omem").parse().unwrap();
            // A turn of output, and what was there before it.
            assert!(waiting <= 10 << 20, "{waiting}");
            // It is served again when less than half of the limit is left.
            waiting > 1 << 20 && before == served(&mut witness)
        });
        assert_ne!(served(&mut witness), format!("(integer) {count}"));
        for number in 0..count {
            assert!(matches!(lazy.receive(), Value::Bulk(received) if received == value));
            assert_eq!(lazy.receive(), Value::Int(number + 1));
        }
        witness.look();
    }
}
