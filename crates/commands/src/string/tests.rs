//! Tests that transcripts cannot cover, because they see only bytes: large values are sent from the keyspace
//! without a copy, and replies that wait to be sent do not change.

use engine::{Client, Local, Post};
use keyspace::SHARED_BYTES_MIN;
use resp::{Output, Proto};

use crate::FAMILIES;

const VALUE: [u8; SHARED_BYTES_MIN] = [b'x'; SHARED_BYTES_MIN];

fn run(store: &mut Local, args: &[&[u8]]) -> Output {
    let mut out = Output::new();
    store.run(Client::internal(0, Proto::Resp2), args, &mut (), &mut out);
    out
}

/// A store with the value under `key`, and the address of the value.
fn store_with_value() -> (Local, *const u8) {
    let mut store = Local::new(FAMILIES);
    run(&mut store, &[b"SET", b"key", &VALUE]);
    let address = address(&run(&mut store, &[b"GET", b"key"]));
    (store, address)
}

/// The address of the value in a queued reply.
fn address(out: &Output) -> *const u8 {
    out.slices().find(|slice| *slice == VALUE).expect("the value waits in one piece").as_ptr()
}

#[test]
fn replies_share_a_large_value() {
    let reads: [&[&[u8]]; 8] = [
        &[b"GET", b"key"],
        &[b"MGET", b"none", b"key"],
        &[b"GETRANGE", b"key", b"0", b"-1"],
        &[b"GETEX", b"key", b"PERSIST"],
        &[b"GETDEL", b"key"],
        &[b"GETSET", b"key", &VALUE],
        &[b"SET", b"key", &VALUE, b"GET"],
        &[b"SET", b"key", b"small", b"GET"],
    ];
    for args in reads {
        let (mut store, value) = store_with_value();
        assert_eq!(address(&run(&mut store, args)), value, "{}", String::from_utf8_lossy(args[0]));
    }
}

#[test]
fn what_waits_to_be_sent_does_not_change() {
    let writes: [&[&[u8]]; 6] = [
        &[b"APPEND", b"key", b"y"],
        &[b"SETRANGE", b"key", b"5", b"y"],
        &[b"SETBIT", b"key", b"0", b"1"],
        &[b"BITFIELD", b"key", b"SET", b"u8", b"0", b"1"],
        &[b"SET", b"key", &[b'y'; VALUE.len()]],
        &[b"DEL", b"key"],
    ];
    for args in writes {
        let (mut store, _) = store_with_value();
        let waiting = run(&mut store, &[b"GET", b"key"]);
        run(&mut store, args);
        let name = String::from_utf8_lossy(args[0]);
        address(&waiting);
        assert!(!run(&mut store, &[b"GET", b"key"]).slices().any(|slice| slice == VALUE), "{name}");
    }
}

#[test]
fn what_takes_long_to_free_is_freed_later() {
    let mut store = Local::new(FAMILIES);
    let long = vec![b'x'; 2 << 20];
    for (make, is_large) in [
        ([b"SET", b"key".as_slice(), b"short"], false),
        ([b"SET", b"key", &long], true),
        ([b"RPUSH", b"key", b"short"], false),
        ([b"RPUSH", b"key", &long], true),
    ] {
        run(&mut store, &make);
        store.posts.clear();
        run(&mut store, &[b"DEL", b"key"]);
        let is_posted = store.posts.iter().any(|post| matches!(post, Post::Free(_)));
        assert_eq!(is_posted, is_large, "{:?} of {} bytes", make[0], make[2].len());
    }
}
