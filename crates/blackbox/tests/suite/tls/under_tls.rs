//! Clients over TLS, with either driver: they wait, listen, run transactions, and transfer much data.

use blackbox::{check, eventually};
use resp::Value;

use super::fixture::{Authority, Identity, Secured, secured_on};

/// Runs a test on a server with each driver.
fn on_either_driver(name: &'static str, test: impl Fn(&Secured, &Identity)) {
    for io in ["auto", "epoll"] {
        let authority = Authority::new(name);
        authority.serve_as(&authority.issue("server"));
        let secured = secured_on(authority, io, &[]);
        let identity = secured.authority.issue("client");
        test(&secured, &identity);
    }
}

#[test]
fn clients_wait_and_are_served() {
    on_either_driver("tls-blocked", |secured, identity| {
        let mut admin = secured.server.client();
        let mut waiting: Vec<_> = (0..50).map(|_| secured.connect(Some(identity))).collect();
        for client in &mut waiting {
            client.send("BLPOP queue other 0");
        }
        eventually("they wait", || admin.info("clients", "blocked_clients") == "50");
        let mut pusher = secured.connect(Some(identity));
        for job in 0..50 {
            check(&mut pusher, &format!("RPUSH queue {job}"), "(integer) 1");
        }
        let mut jobs: Vec<String> = waiting.iter_mut().map(|client| client.receive().to_string()).collect();
        jobs.sort();
        jobs.dedup();
        assert_eq!(jobs.len(), 50);
        // A client that leaves while it waits takes nothing with it.
        let mut gone = waiting.pop().expect("there are fifty");
        gone.send("BLPOP queue 0");
        eventually("it waits", || admin.info("clients", "blocked_clients") == "1");
        drop(gone);
        eventually("it is gone", || admin.info("clients", "blocked_clients") == "0");
        check(&mut pusher, "RPUSH queue kept", "(integer) 1");
        check(&mut pusher, "LLEN queue", "(integer) 1");
    });
}

#[test]
fn transactions_and_messages_pass() {
    on_either_driver("tls-messages", |secured, identity| {
        let (mut one, mut other) = (secured.connect(Some(identity)), secured.connect(Some(identity)));
        for (line, reply) in [("WATCH k", "OK"), ("MULTI", "OK"), ("INCR k", "QUEUED"), ("INCR k", "QUEUED")]
        {
            check(&mut one, line, reply);
        }
        check(&mut one, "EXEC", "1) (integer) 1\n2) (integer) 2");
        check(&mut one, "WATCH k", "OK");
        check(&mut other, "SET k 9", "OK");
        check(&mut one, "MULTI", "OK");
        check(&mut one, "GET k", "QUEUED");
        check(&mut one, "EXEC", "(nil)");
        check(&mut one, "SUBSCRIBE news", "1) \"subscribe\"\n2) \"news\"\n3) (integer) 1");
        let payload = "n".repeat(20_000);
        for count in 0..200 {
            check(&mut other, &format!("PUBLISH news {count}:{payload}"), "(integer) 1");
        }
        for count in 0..200 {
            let message = one.receive().to_string();
            assert!(message.contains(&format!("\"{count}:nnn")), "{count}");
        }
    });
}

#[test]
fn a_large_value_passes_both_ways() {
    on_either_driver("tls-large", |secured, identity| {
        let mut client = secured.connect(Some(identity));
        // The period does not match the size of any record or buffer.
        let large: Vec<u8> = (0..64_u32 << 20).map(|index| (index % 251) as u8).collect();
        client.send_args(&[b"SET", b"large", &large]);
        assert_eq!(client.receive().to_string(), "OK");
        client.send("GET large");
        assert!(client.receive() == Value::Bulk(large), "it is as it was");
    });
}

#[test]
fn pipelines_keep_their_order() {
    on_either_driver("tls-pipelines", |secured, identity| {
        let mut clients: Vec<_> = (0..4).map(|_| secured.connect(Some(identity))).collect();
        let mut pipeline = Vec::new();
        for count in 0..20_000 {
            let word = count.to_string();
            resp::encode_request(&[b"ECHO", word.as_bytes()], &mut pipeline);
        }
        for client in &mut clients {
            client.send_bytes(&pipeline);
        }
        for client in &mut clients {
            for count in 0..20_000 {
                assert_eq!(client.receive(), Value::Bulk(count.to_string().into_bytes()));
            }
        }
        drop(clients);
        let mut plain = secured.server.client();
        eventually("they are gone", || plain.info("clients", "connected_clients") == "1");
    });
}
