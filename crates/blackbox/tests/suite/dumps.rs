//! What one server dumps, the other one restores.

use blackbox::{Client, Server, oracle, sample_keys, samples, stream_state};
use resp::Value;

fn call(client: &mut Client, args: &[&[u8]]) -> Value {
    client.send_args(args);
    client.receive()
}

fn digest(client: &mut Client, key: &[u8]) -> Value {
    call(client, &[b"DEBUG", b"DIGEST-VALUE", key])
}

/// Dumps every sample on `from` and restores it on `to`.
fn carry_over(from: &mut Client, to: &mut Client, direction: &str) {
    assert_eq!(to.show("FLUSHALL"), "OK");
    for key in sample_keys() {
        let Value::Bulk(payload) = call(from, &[b"DUMP", &key]) else { panic!("{direction}: no dump") };
        let Value::Int(expiry) = call(from, &[b"PEXPIRETIME", &key]) else { panic!("{direction}: no time") };
        let expiry = expiry.max(0).to_string();
        let restored = call(to, &[b"RESTORE", &key, expiry.as_bytes(), &payload, b"ABSTTL"]);
        let key_text = key.escape_ascii();
        assert_eq!(
            restored,
            Value::Simple(b"OK".into()),
            "{direction}: {key_text} {}",
            payload.escape_ascii()
        );
        assert_eq!(digest(from, &key), digest(to, &key), "{direction}: {key_text}");
        assert_eq!(stream_state(from, &key), stream_state(to, &key), "{direction}: {key_text}");
    }
    assert_eq!(from.show("DEBUG DIGEST"), to.show("DEBUG DIGEST"), "{direction}");
}

#[test]
fn each_restores_what_the_other_dumps() {
    let Some(redis) = oracle() else { return };
    let darter = Server::start(2, "auto", &[]);
    let (mut ours, mut theirs) = (darter.client(), redis.client());
    for compression in ["yes", "no"] {
        for client in [&mut ours, &mut theirs] {
            assert_eq!(client.show(&format!("CONFIG SET rdbcompression {compression}")), "OK");
            assert_eq!(client.show("FLUSHALL"), "OK");
        }
        for request in samples() {
            let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            let reply = call(&mut theirs, &args);
            assert!(!matches!(reply, Value::Error(_)), "{reply}");
        }
        carry_over(&mut theirs, &mut ours, "Redis to Darter");
        carry_over(&mut ours, &mut theirs, "Darter to Redis");
        carry_over(&mut theirs, &mut ours, "Redis to Darter and back");
        carry_over(&mut ours, &mut theirs, "there and back twice");
    }
}

/// Libraries of functions: a short one, and one that is worth compressing.
#[test]
fn each_restores_the_libraries_that_the_other_dumps() {
    let Some(redis) = oracle() else { return };
    let darter = Server::start(2, "auto", &[]);
    let (mut ours, mut theirs) = (darter.client(), redis.client());
    let long = "-- A comment that is there again and again.\n".repeat(200);
    let codes = [
        "#!lua name=short\nredis.register_function('f', function() return 'short' end)".to_owned(),
        format!(
            "#!lua name=long\n{long}redis.register_function{{function_name = 'g', description = 'text', flags = {{'no-writes'}}, callback = function(keys, args) return args end}}"
        ),
    ];
    for compression in ["yes", "no"] {
        for client in [&mut ours, &mut theirs] {
            assert_eq!(client.show(&format!("CONFIG SET rdbcompression {compression}")), "OK");
            assert_eq!(client.show("FUNCTION FLUSH"), "OK");
        }
        for code in &codes {
            assert!(matches!(call(&mut theirs, &[b"FUNCTION", b"LOAD", code.as_bytes()]), Value::Bulk(_)));
        }
        for direction in ["Redis to Darter", "and back", "and there again"] {
            let Value::Bulk(payload) = call(&mut theirs, &[b"FUNCTION", b"DUMP"]) else { panic!("no dump") };
            assert_eq!(payload.len() < long.len(), compression == "yes", "{direction}");
            let restored = call(&mut ours, &[b"FUNCTION", b"RESTORE", &payload, b"FLUSH"]);
            assert_eq!(restored, Value::Simple(b"OK".into()), "{direction}");
            for line in [
                "FUNCTION LIST LIBRARYNAME s* WITHCODE",
                "FUNCTION LIST LIBRARYNAME l* WITHCODE",
                "FCALL f 0",
                "FCALL_RO G 1 a b",
            ] {
                assert_eq!(ours.show(line), theirs.show(line), "{direction}: {line}");
            }
            (ours, theirs) = (theirs, ours);
        }
        (ours, theirs) = (theirs, ours);
    }
}
