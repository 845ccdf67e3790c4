//! Each server restores the payloads that the other one dumps.

use blackbox::{Client, Server, oracle, sample_keys, samples, scale, stream_state};
use ds::random::Random;
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

/// A ziplist of these texts, as Redis wrote it before version 7, with its length before it.
fn ziplist(texts: &[&[u8]]) -> Vec<u8> {
    let (mut elements, mut previous, mut last) = (Vec::new(), 0, 10);
    for text in texts {
        last = 10 + elements.len();
        elements.extend_from_slice(&[previous as u8, text.len() as u8]);
        elements.extend_from_slice(text);
        previous = 2 + text.len();
    }
    let (all, last) = ((11 + elements.len()) as u32, last as u32);
    let count = texts.len() as u16;
    let head = [&all.to_le_bytes()[..], &last.to_le_bytes(), &count.to_le_bytes()].concat();
    [&[all as u8][..], &head, &elements, b"\xff"].concat()
}

/// Values in the encodings that Redis no longer dumps: type and value.
fn old_values() -> Vec<Vec<u8>> {
    let pairs = ziplist(&[b"a", b"1", b"b", b"22"]);
    let (one, other) = (ziplist(&[b"x"]), ziplist(&[b"y", b"zz", b""]));
    vec![
        [&[10][..], &ziplist(&[b"a", b"bb", b"", b"a"])].concat(),
        [&[12][..], &pairs].concat(),
        [&[13][..], &pairs].concat(),
        [&[14, 2][..], &one, &other].concat(),
        b"\x09\x11\x02\x01a\x01\0b\x03foo\x02\x02ba..\xff".to_vec(),
    ]
}

/// Changes a byte or two of a value, behind its type.
fn damage(value: &mut [u8], random: &mut Random) {
    for _ in 0..=random.below(2) {
        let index = 1 + random.below(value.len() as u64 - 1) as usize;
        let byte = value[index];
        value[index] = match random.below(4) {
            0 => byte.wrapping_add(1),
            1 => byte.wrapping_sub(1),
            2 => byte ^ 1 << random.below(8),
            _ => [0, 1, 0x7f, 0x80, 0xc0, 0xf0, 0xfe, 0xff][random.below(8) as usize],
        };
    }
}

#[test]
fn what_redis_calls_damaged_is_not_restored() {
    let Some(redis) = oracle() else { return };
    let darter = Server::start(2, "auto", &[]);
    let (mut ours, mut theirs) = (darter.client(), redis.client());
    assert_eq!(theirs.show("CONFIG SET sanitize-dump-payload yes"), "OK");
    for line in
        ["HSET h a 1 b xx c -300", "ZADD z 1 a 2 b 300 ccc", "RPUSH l a 70000 bb", "SADD s 1 -2 70000"]
    {
        theirs.call(line);
    }
    let mut values = old_values();
    for key in [b"h", b"z", b"l", b"s"] {
        let Value::Bulk(payload) = call(&mut theirs, &[b"DUMP", key]) else { panic!("no dump") };
        values.push(rdb::open_payload(&payload).expect("it is whole").to_vec());
    }
    let seed: u64 = std::env::var("DARTER_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let mut random = Random::new(seed);
    let mut restored = 0;
    for round in 0..2000 * scale() {
        let mut payload = values[round % values.len()].clone();
        if round >= values.len() {
            damage(&mut payload, &mut random);
        }
        rdb::seal_payload(&mut payload);
        let [mine, other] = [&mut ours, &mut theirs]
            .map(|client| call(client, &[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]));
        let is_ok = mine == Value::Simple(b"OK".into());
        assert!(is_ok || round >= values.len(), "seed {seed}: {mine} to {}", payload.escape_ascii());
        if is_ok {
            restored += 1;
            assert_eq!(mine, other, "seed {seed}, {}", payload.escape_ascii());
            assert_eq!(digest(&mut ours, b"k"), digest(&mut theirs, b"k"), "{}", payload.escape_ascii());
        }
    }
    assert!(restored > 200, "only {restored} were whole");
}
