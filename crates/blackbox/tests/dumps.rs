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
