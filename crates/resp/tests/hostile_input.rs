//! Random and damaged bytes through both decoders: the fuzz targets' checks, for seconds and without a fuzzer.

mod checks;

use checks::{check_memcached, check_replies, check_requests, encode, listen};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use resp::memcached::{ItemLimits, MemcachedParser, Parsed, Words};
use resp::{Limits, Proto, Value, decode, encode_request};

/// Pieces of both protocols, so that random sequences get past the first line.
const FRAGMENTS: &[&str] = &[
    "*1\r\n",
    "*2\r\n",
    "*3\r\n",
    "*0\r\n",
    "*-1\r\n",
    "*13\r\n",
    "*2147483647\r\n",
    "$0\r\n\r\n",
    "$1\r\na\r\n",
    "$4\r\nPING\r\n",
    "$-1\r\n",
    "$41\r\n",
    "$5\r\na\r\nb\0\r\n",
    "PING",
    "\r\n",
    "\n",
    "\r",
    " ",
    "\"",
    "'",
    "\\x4",
    "\\",
    "+OK\r\n",
    "-ERR x\r\n",
    ":1\r\n",
    ":-1\r\n",
    "_\r\n",
    ",1.5\r\n",
    ",nan\r\n",
    "#t\r\n",
    "(12\r\n",
    "!3\r\na\rb\r\n",
    "=5\r\ntxt:a\r\n",
    "%1\r\n",
    "~2\r\n",
    ">1\r\n",
    "|1\r\n",
    "9",
    "0123456789012345678901234",
    "\0",
    "x",
];

fn fragments() -> impl Strategy<Value = Vec<u8>> {
    vec(select(FRAGMENTS), 0..40).prop_map(|parts| parts.concat().into_bytes())
}

/// Pieces of memcached's protocol.
const MEMCACHED_FRAGMENTS: &[&str] = &[
    "get ",
    "set ",
    "cas ",
    "ms ",
    "mg ",
    "me ",
    "delete ",
    "incr ",
    "touch ",
    "gat ",
    "flush_all ",
    "k ",
    "0 ",
    "1 ",
    "3 ",
    "-1 ",
    "99 ",
    "2147483647 ",
    "noreply",
    "b ",
    "q ",
    "T5 ",
    "O1 ",
    "Zm9v ",
    "\r\n",
    "\n",
    "\0",
    " ",
    "abc\r\n",
    "xxxxxxxxxxxxxxxxxxxxxxxx",
];

/// Overwrites, drops and cuts bytes.
fn damage(mut bytes: Vec<u8>, changes: &[(usize, u8, u8)]) -> Vec<u8> {
    for &(place, byte, kind) in changes {
        if bytes.is_empty() {
            break;
        }
        let place = place % bytes.len();
        match kind % 4 {
            0 => drop(bytes.remove(place)),
            1 => bytes.truncate(place),
            2 => bytes.insert(place, byte),
            _ => bytes[place] = byte,
        }
    }
    bytes
}

fn values() -> impl Strategy<Value = Value> {
    let bytes = || vec(any::<u8>(), 0..20);
    let text = || "[ -~]{0,12}".prop_map(String::into_bytes);
    let leaf = prop_oneof![
        text().prop_map(Value::Simple),
        bytes()
            .prop_map(Value::Error)
            .prop_filter("a line", |v| !matches!(v, Value::Error(t) if t.contains(&b'\n'))),
        any::<i64>().prop_map(Value::Int),
        bytes().prop_map(Value::Bulk),
        Just(Value::Null),
        any::<f64>().prop_filter("equal to itself", |value| !value.is_nan()).prop_map(Value::Double),
        any::<bool>().prop_map(Value::Bool),
        "-?[0-9]{1,30}".prop_map(|digits| Value::BigNumber(digits.into_bytes())),
        bytes().prop_map(|text| Value::Verbatim { format: *b"txt", text }),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Value::Array),
            vec(inner.clone(), 0..8).prop_map(Value::Set),
            vec(inner.clone(), 0..8).prop_map(Value::Push),
            vec((inner.clone(), inner), 0..5).prop_map(Value::Map),
        ]
    })
}

proptest! {
    #[test]
    fn random_bytes(input in vec(any::<u8>(), 0..300)) {
        check_requests(&input);
        check_replies(&input);
    }

    #[test]
    fn random_fragments(input in fragments()) {
        check_requests(&input);
        check_replies(&input);
    }

    #[test]
    fn random_memcached_requests(
        fragments in vec(select(MEMCACHED_FRAGMENTS), 0..40),
        changes in vec((any::<usize>(), any::<u8>(), any::<u8>()), 0..4),
    ) {
        check_memcached(&damage(fragments.concat().into_bytes(), &changes));
    }

    #[test]
    fn damaged_requests(
        requests in vec(vec(vec(any::<u8>(), 0..50), 1..14), 1..4),
        changes in vec((any::<usize>(), any::<u8>(), any::<u8>()), 0..4),
    ) {
        let mut input = Vec::new();
        requests.iter().for_each(|args| encode_request(args, &mut input));
        check_requests(&damage(input, &changes));
    }

    #[test]
    fn damaged_replies(value in values(), changes in vec((any::<usize>(), any::<u8>(), any::<u8>()), 1..4)) {
        check_replies(&damage(encode(&value), &changes));
    }

    #[test]
    fn requests_read_back_at_every_split(requests in vec(vec(vec(any::<u8>(), 0..40), 1..20), 1..4)) {
        let mut input = Vec::new();
        requests.iter().for_each(|args| encode_request(args, &mut input));
        for split in 0..=input.len() {
            let heard = listen(&input, &Limits::default(), &[split, input.len()]);
            prop_assert_eq!(&heard.requests, &requests);
            prop_assert_eq!((heard.error, heard.rest), (None, 0));
        }
    }

    #[test]
    fn replies_read_back(value in values()) {
        let written = encode(&value);
        prop_assert_eq!(decode(&written), Ok(Some((value, written.len()))));
        check_replies(&written);
    }
}

#[test]
fn a_trickle_costs_what_the_whole_costs() {
    // If bytes were examined repeatedly, a line of 64 KiB and a bulk of 4 MiB would take minutes byte by byte.
    let limits = Limits::default();
    let line = vec![b'x'; 65_536];
    assert_eq!(listen(&line, &limits, &[1]).rest, line.len());
    let bulk = [b"*1\r\n$4194304\r\n".to_vec(), vec![b'x'; 4 << 20], b"\r\n".to_vec()].concat();
    assert_eq!(listen(&bulk, &limits, &[1]).requests.len(), 1);
    let many = [b"*300000\r\n".to_vec(), b"$0\r\n\r\n".repeat(300_000)].concat();
    assert_eq!(listen(&many, &limits, &[1]).requests[0].len(), 300_000);
}

#[test]
fn a_long_line_and_a_long_value_of_memcached_cost_what_they_cost_at_once() {
    let limits = ItemLimits { item_bytes_max: 4 << 20, takes_long_lines: true };
    let keys = [b"get".to_vec(), b" key".repeat(200_000), b"\r\n".to_vec()].concat();
    let value = [b"set k 0 0 2000000\r\n".to_vec(), vec![b'x'; 2_000_000], b"\r\n".to_vec()].concat();
    for (input, word_count) in [(keys, 200_001), (value, 6)] {
        let mut parser = MemcachedParser::default();
        for end in 0..input.len() {
            assert_eq!(parser.parse(&input[..end], limits, &mut Words::new()), Parsed::Incomplete);
        }
        let mut words = Words::new();
        assert!(matches!(parser.parse(&input, limits, &mut words), Parsed::Request { .. }));
        assert_eq!(words.len(), word_count);
    }
}

#[test]
fn resp2_replies_are_read_too() {
    let mut out = resp::Output::new();
    let mut reply = resp::Reply::new(&mut out, Proto::Resp2);
    reply.array(4);
    reply.null();
    reply.null_array();
    reply.double(0.5);
    reply.bool(true);
    let expected =
        Value::Array(vec![Value::Null, Value::NullArray, Value::Bulk(b"0.5".into()), Value::Int(1)]);
    assert_eq!(decode(&out.to_vec()), Ok(Some((expected, out.len()))));
}
