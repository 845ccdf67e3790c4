//! What must hold for arbitrary bytes, used by the tests here and by the fuzz targets.
//!
//! - Requests: input in pieces means the same as input at once, and no more arguments are found than the bytes can hold.
//! - Requests of memcached's protocol: the same.
//! - Replies: a reply is found exactly when all of its bytes are there, and encoding and decoding it again gives the same.

use resp::memcached::{self, ItemLimits, MemcachedParser, MetaFlags, Verb, Words};
use resp::{Limits, Output, Parsed, Proto, ProtocolError, Reply, RequestParser, Value, decode};
use smallvec::SmallVec;

/// Small enough for short inputs to reach each limit.
const LIMITS: Limits = Limits { bulk_bytes_max: 40, inline_bytes_max: 24, args_max: 12, authenticated: true };

/// Result of parsing a connection's input: the requests, and the error that ended it.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Heard {
    /// Arguments of each request; an empty request has none.
    pub(crate) requests: Vec<Vec<Vec<u8>>>,
    /// Why the connection was closed, if it was.
    pub(crate) error: Option<ProtocolError>,
    /// Number of bytes left over.
    pub(crate) rest: usize,
}

/// Feeds `input` to one parser in pieces of these lengths, repeated cyclically.
pub(crate) fn listen(input: &[u8], limits: &Limits, pieces: &[usize]) -> Heard {
    let mut parser = RequestParser::new();
    let mut heard = Heard::default();
    let (mut consumed, mut received) = (0, 0);
    let mut pieces = pieces.iter().cycle();
    while received < input.len() {
        received = (received + pieces.next().map_or(1, |&length| length.max(1))).min(input.len());
        loop {
            let waiting = &input[consumed..received];
            match parser.parse(waiting, limits) {
                Ok(Parsed::Incomplete) => break,
                Ok(Parsed::Empty { consumed: length }) => {
                    assert!(length > 0);
                    heard.requests.push(Vec::new());
                    consumed += length;
                }
                Ok(Parsed::Request { consumed: length }) => {
                    let mut args = SmallVec::new();
                    parser.args(waiting, &mut args);
                    assert!(!args.is_empty() && args.len() == parser.arg_count());
                    heard.requests.push(args.iter().map(|arg| arg.to_vec()).collect());
                    consumed += length;
                }
                Err(error) => {
                    heard.error = Some(error);
                    return heard;
                }
            }
        }
    }
    heard.rest = input.len() - consumed;
    heard
}

/// Checks arbitrary bytes as requests: splitting them makes no difference, whatever the limits.
pub(crate) fn check_requests(input: &[u8]) {
    for limits in [LIMITS, Limits { authenticated: false, ..Limits::default() }, Limits::default()] {
        let whole = listen(input, &limits, &[input.len()]);
        assert!(whole.requests.iter().map(Vec::len).sum::<usize>() <= input.len());
        assert_eq!(listen(input, &limits, &[1]), whole);
        assert_eq!(listen(input, &limits, &[2, 1, 7]), whole);
    }
}

/// Checks arbitrary bytes as replies.
pub(crate) fn check_replies(input: &[u8]) {
    let mut rest = input;
    while let Ok(Some((value, length))) = decode(rest) {
        for end in (0..length).rev().take(300) {
            assert!(decode(&rest[..end]) == Ok(None), "found before its end");
        }
        let written = encode(&value);
        let (again, written_length) =
            decode(&written).expect("what is written decodes").expect("what is written is whole");
        assert_eq!(written_length, written.len());
        assert_eq!(again.to_string(), value.to_string());
        assert_eq!(encode(&again), written);
        rest = &rest[length..];
    }
}

/// Encodes `value` as a server does with RESP3.
pub(crate) fn encode(value: &Value) -> Vec<u8> {
    let mut out = Output::new();
    write(value, &mut Reply::new(&mut out, Proto::Resp3));
    out.to_vec()
}

fn write(value: &Value, reply: &mut Reply<'_>) {
    // Texts may contain any bytes, but `Reply` takes characters.
    let mut line = |kind: &[u8], text: &[u8]| {
        for part in [kind, text, b"\r\n"] {
            reply.out().extend_from_slice(part);
        }
    };
    match value {
        Value::Simple(text) => line(b"+", text),
        Value::Error(text) if text.iter().any(|byte| b"\r\n".contains(byte)) => {
            line(format!("!{}\r\n", text.len()).as_bytes(), text);
        }
        Value::Error(text) => line(b"-", text),
        Value::BigNumber(digits) => line(b"(", digits),
        Value::Verbatim { format, text } => {
            line(format!("={}\r\n", text.len() + 4).as_bytes(), &[format.as_slice(), b":", text].concat());
        }
        Value::Int(number) => reply.int(*number),
        Value::Bulk(bytes) => reply.bulk(bytes),
        Value::Null | Value::NullArray => reply.null(),
        Value::Double(value) => reply.double(*value),
        Value::Bool(value) => reply.bool(*value),
        Value::Array(items) => {
            reply.array(items.len());
            items.iter().for_each(|item| write(item, reply));
        }
        Value::Set(items) => {
            let mark = reply.deferred();
            items.iter().for_each(|item| write(item, reply));
            reply.finish_set(mark, items.len());
        }
        Value::Push(items) => {
            let mark = reply.deferred();
            items.iter().for_each(|item| write(item, reply));
            reply.finish_push(mark, items.len());
        }
        Value::Map(pairs) => {
            let mark = reply.deferred();
            for (key, value) in pairs {
                write(key, reply);
                write(value, reply);
            }
            reply.finish_map(mark, pairs.len());
        }
    }
}

/// Result of parsing memcached input: requests with their words, and replies of refused ones.
fn listen_as_memcached(input: &[u8], piece: usize) -> (Vec<Vec<Vec<u8>>>, usize) {
    let limits = ItemLimits { item_bytes_max: 100, takes_long_lines: true };
    let (mut parser, mut heard) = (MemcachedParser::default(), Vec::new());
    let (mut from, mut to) = (0, 0);
    while to < input.len() {
        to = (to + piece).min(input.len());
        loop {
            let mut words = Words::new();
            let (consumed, skipped) = match parser.parse(&input[from..to], limits, &mut words) {
                memcached::Parsed::Request { verb, consumed, skipped } => {
                    assert!(
                        !words.is_empty() && words.iter().map(|word| word.len()).sum::<usize>() < consumed
                    );
                    let mut request: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
                    request.push(format!("{verb:?}").into_bytes());
                    request.extend(meta_flags(verb, &words));
                    request.extend(parser.binary_key().map(<[u8]>::to_vec));
                    heard.push(request);
                    (consumed, skipped)
                }
                memcached::Parsed::Refused { reply, consumed, skipped } => {
                    heard.push(vec![reply.as_bytes().to_vec()]);
                    (consumed, skipped)
                }
                memcached::Parsed::Skipped { consumed } => (consumed, 0),
                memcached::Parsed::Incomplete => break,
                ended @ (memcached::Parsed::Broken | memcached::Parsed::Http) => {
                    heard.push(vec![format!("{ended:?}").into_bytes()]);
                    return (heard, from);
                }
            };
            assert!(consumed > 0 && consumed <= to - from);
            from += consumed;
            if skipped > 0 {
                parser.skip(skipped);
            }
        }
    }
    (heard, from)
}

/// The parsed flags of a meta command, or the error.
fn meta_flags(verb: Verb, words: &[&[u8]]) -> Option<Vec<u8>> {
    let has_flags = matches!(verb, Verb::MetaGet | Verb::MetaSet | Verb::MetaDelete | Verb::MetaArithmetic);
    has_flags.then(|| format!("{:?}", MetaFlags::parse(verb, words)).into_bytes())
}

/// Checks arbitrary bytes as requests of memcached's protocol: splitting them makes no difference.
pub(crate) fn check_memcached(input: &[u8]) {
    let whole = listen_as_memcached(input, input.len().max(1));
    for piece in [1, 2, 3, 7, 64] {
        assert_eq!(listen_as_memcached(input, piece), whole, "in pieces of {piece}");
    }
}
