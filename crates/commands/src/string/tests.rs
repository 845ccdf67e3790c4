//! Tests that transcripts cannot cover, because they see only bytes: large values are sent from the keyspace
//! without a copy, replies that wait to be sent do not change, and the effects and events of conditional commands.

use engine::{Class, Client, Local, TxMessage};
use keyspace::SHARED_BYTES_MIN;
use resp::{Output, Proto};

use crate::FAMILIES;
use crate::clients::Clients;

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
        store.outbox.clear();
        run(&mut store, &[b"DEL", b"key"]);
        let is_posted = store.outbox.iter().any(|message| matches!(message, TxMessage::Free(_)));
        assert_eq!(is_posted, is_large, "{:?} of {} bytes", make[0], make[2].len());
    }
}

#[test]
fn conditional_commands_have_plain_effects() {
    let mut clients = Clients::new();
    clients.notify(&[Class::String, Class::Generic]);
    clients.check("SET a 1", "+OK");
    for (line, reply, effects, events) in [
        ("SET a 2 IFEQ 1", "+OK", &["SET a 2"][..], &["set"][..]),
        ("SET a 3 IFNE 2", "$-1", &[], &[]),
        (
            "SET a 3 IFEQ 2 GET PXAT 4000000000000",
            "$1 2",
            &["SET a 3 PXAT 4000000000000"],
            &["set", "expire"],
        ),
        ("SET a 4 IFEQ 3 KEEPTTL", "+OK", &["SET a 4 PXAT 4000000000000"], &["set"]),
        ("DELEX a IFEQ 3", ":0", &[], &[]),
        ("DELEX a IFEQ 4", ":1", &["DEL a"], &["del"]),
        ("DELEX a", ":0", &[], &[]),
        ("DELIFEQ a 4", ":0", &[], &[]),
        ("MSETEX 2 a 1 b 2 NX", ":1", &["SET a 1", "SET b 2"], &["set", "set"]),
        ("MSETEX 2 c 1 b 2 NX", ":0", &[], &[]),
        ("MSETEX 1 b 3 EXAT 4000000000", ":1", &["SET b 3 PXAT 4000000000000"], &["set", "expire"]),
        ("MSETEX 2 a 3 b 4 XX KEEPTTL", ":1", &["SET a 3", "SET b 4 PXAT 4000000000000"], &["set", "set"]),
        ("DELIFEQ a 3", ":1", &["DEL a"], &["del"]),
    ] {
        clients.check_change(line, reply, effects, events);
    }
}

#[test]
fn the_effect_of_increx_is_the_value_that_it_stored() {
    let mut clients = Clients::new();
    clients.notify(&[Class::String, Class::Generic]);
    for (line, reply, effects, events) in [
        ("INCREX k BYINT 7", "*2 :7 :7", &["SET k 7 KEEPTTL"][..], &["incrby"][..]),
        ("INCREX k BYFLOAT 0.5", "*2 $3 7.5 $3 0.5", &["SET k 7.5 KEEPTTL"], &["incrbyfloat"]),
        ("INCREX k BYFLOAT 9 UBOUND 8", "*2 $3 7.5 $1 0", &[], &[]),
        ("INCREX k BYFLOAT 9 UBOUND 8 SATURATE", "*2 $1 8 $3 0.5", &["SET k 8 KEEPTTL"], &["incrbyfloat"]),
        ("INCREX k EXAT 4000000000", "*2 :9 :1", &["SET k 9 PXAT 4000000000000"], &["incrby", "expire"]),
        ("INCREX k EXAT 4100000000 ENX", "*2 :10 :1", &["SET k 10 KEEPTTL"], &["incrby"]),
        ("INCREX k PERSIST", "*2 :11 :1", &["SET k 11"], &["incrby", "persist"]),
        ("INCREX k PERSIST", "*2 :12 :1", &["SET k 12 KEEPTTL"], &["incrby"]),
        ("INCREX k NX", "$-1", &[], &[]),
        ("INCREX k PXAT 1", "*2 :13 :1", &["DEL k"], &["del"]),
        ("INCREX k PXAT 1", "*2 :1 :1", &[], &[]),
        ("INCREX k XX", "$-1", &[], &[]),
    ] {
        clients.check_change(line, reply, effects, events);
    }
}

#[test]
fn new_operations_on_bits_have_their_result_as_the_effect() {
    let mut clients = Clients::new();
    clients.notify(&[Class::String, Class::Generic]);
    clients.check("MSET a abc b ab", "+OK");
    let effects: &[&str] = &["DEL d", "SET d \0\0c"];
    clients.check_change("BITOP DIFF d a b", ":3", effects, &["set"]);
    clients.check_change("BITOP ONE d a b", ":3", effects, &["set"]);
    clients.check_change("BITOP XOR d a b", ":3", &["BITOP XOR d a b"], &["set"]);
    clients.check_change("BITOP ANDOR d none other", ":0", &["DEL d"], &["del"]);
}

/// A million pairs are set in one piece, or not at all.
#[test]
fn very_many_keys_are_set_at_once() {
    let mut store = Local::new(FAMILIES);
    let count = 1_000_000;
    let keys: Vec<String> = (0..count).map(|number| format!("k{number}")).collect();
    let mut args: Vec<&[u8]> = vec![b"MSETEX", b"1000000"];
    args.extend(keys.iter().flat_map(|key| [key.as_bytes(), b"v"]));
    args.push(b"NX");
    let set = |store: &mut Local| store.reply(Proto::Resp2, &args);
    assert_eq!(set(&mut store), b":1\r\n");
    assert_eq!(store.line("DBSIZE"), format!(":{count}\r\n"));
    store.line(&format!("DEL {}", keys[..1000].join(" ")));
    assert_eq!(set(&mut store), b":0\r\n");
    assert_eq!(store.line("DBSIZE"), format!(":{}\r\n", count - 1000));
}
