//! The values in random requests: keys, numbers, texts.
//!
//! The pools are small, so that requests meet each other's data, and contain the limits of every type. Times are either
//! past or far in the future, timeouts are short, offsets are small or refused: see the head of `generate`.

use ds::random::{Random, mix};
use engine::Group;

use crate::generate::Request;

/// Scripts that call the command in their arguments.
pub(crate) const SCRIPTS: [&str; 4] = [
    "return redis.call(unpack(ARGV))",
    "return redis.pcall(unpack(ARGV))",
    "redis.setresp(3) return redis.call(unpack(ARGV))",
    "local reply = redis.pcall(unpack(ARGV)) return {type(reply), reply}",
];

/// Values that every option with a time or an offset refuses, though they are valid elsewhere. At the end are those that
/// are valid timeouts. Before them is one that the oracle accepts as a timeout in milliseconds, and that overflows when
/// added to the time.
const GARBAGE: [&str; 14] = [
    "",
    "abc",
    "-1",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775809",
    " 1",
    "1 ",
    "nan",
    "\u{ff}\0",
    "9223372036854775807",
    "1.5",
    "+1",
    "0x10",
];
/// How many at the end are timeouts: for most blocking commands, and for those on streams.
const TIMEOUTS_AMONG_GARBAGE: usize = 3;
const STREAM_TIMEOUTS_AMONG_GARBAGE: usize = 4;
const INTEGERS: [&str; 16] = [
    "0",
    "1",
    "2",
    "3",
    "5",
    "10",
    "-1",
    "-2",
    "-3",
    "100",
    "-100",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775806",
    "9223372036854775808",
    "4294967296",
];
const COUNTS: [&str; 12] =
    ["0", "1", "2", "3", "5", "10", "-1", "-2", "-5", "1000", "9223372036854775807", "-9223372036854775808"];
const OFFSETS: [&str; 12] =
    ["0", "1", "2", "7", "8", "31", "100", "1000", "-1", "4294967296", "9223372036854775807", "abc"];
const SECONDS: [&str; 8] = [
    "10000",
    "100000",
    "100000000",
    "0",
    "-1",
    "9223372036854775807",
    "9223372036854775",
    "-9223372036854775808",
];
const MILLISECONDS: [&str; 7] =
    ["10000000", "100000000", "100000000000", "0", "-1", "9223372036854775807", "-9223372036854775808"];
const UNIX_SECONDS: [&str; 6] = ["1", "4000000000", "0", "-1", "9223372036854775807", "9223372036854775"];
const UNIX_MILLISECONDS: [&str; 6] =
    ["1", "4000000000000", "0", "-1", "9223372036854775807", "99999999999999"];
const DATABASES: [&str; 9] = ["0", "1", "2", "1", "15", "16", "-1", "abc", "2147483648"];
const CURSORS: [&str; 12] =
    ["0", "0", "0", "0", "0", "0", "0", "0", "0", "abc", "-1", "18446744073709551616"];
const BITS: [&str; 6] = ["0", "1", "0", "1", "2", "-1"];
const TIMEOUTS: [&str; 6] = ["0.001", "0.002", "0.01", "-1", "abc", "nan"];
const DOUBLES: [&str; 24] = [
    "0",
    "-0",
    "1",
    "2",
    "-3",
    "0.1",
    "0.3",
    "1.5",
    "-2.25",
    "3.0e3",
    "1e20",
    "1e-7",
    "1.7976931348623157e308",
    "5e-324",
    "123456789012345678",
    "9007199254740993",
    "inf",
    "-inf",
    "+inf",
    "nan",
    "abc",
    "1 ",
    "0x10",
    "",
];
const LONGITUDES: [&str; 16] = [
    "13.361389",
    "15.087269",
    "13.5",
    "13",
    "0",
    "-0.5",
    "180",
    "-180",
    "179.9999999",
    "-122.4194155",
    "90",
    "1e-9",
    "180.1",
    "-181",
    "nan",
    "abc",
];
const LATITUDES: [&str; 16] = [
    "38.115556",
    "37.502669",
    "38",
    "37.5",
    "0",
    "-0.5",
    "85.05112878",
    "-85.05112878",
    "84.99",
    "37.7749295",
    "-67",
    "1e-9",
    "85.06",
    "-90",
    "inf",
    "",
];
const DISTANCES: [&str; 20] = [
    "0", "1", "50", "100", "166.2742", "200", "1000", "3000", "5000", "9000", "11000", "20000", "1e5", "1e6",
    "3e7", "0.5", "inf", "-1", "abc", "1e308",
];
const SCORE_BOUNDS: [&str; 14] =
    ["-inf", "+inf", "0", "1", "(1", "(0", "1.5", "(2", "-3", "(-inf", "(inf", "100", "nan", "("];
const RANGE_ENDS: [&str; 20] = [
    "-",
    "+",
    "[a",
    "(a",
    "[b",
    "(m1",
    "[",
    "(",
    "0",
    "-1",
    "1",
    "2",
    "-2",
    "(1",
    "-inf",
    "+inf",
    "5",
    "abc",
    "9223372036854775807",
    "-9223372036854775808",
];
const ENCODINGS: [&str; 16] =
    ["u8", "i8", "u1", "i1", "i64", "u63", "u64", "i65", "i0", "x8", "u16", "i5", "u", "i32", "u32", "U8"];
const TYPES: [&str; 8] = ["string", "list", "set", "zset", "hash", "stream", "STRING", "nothing"];
const PFDEBUG_WORDS: [&str; 6] = ["ENCODING", "DECODE", "GETREG", "TODENSE", "decode", "nothing"];
const PATTERNS: [&str; 14] =
    ["*", "s*", "{t}*", "?1", "[a-h]?", "[^s]*", "", "\\*", "*[", "m1*", "*1*", "[z-a]*", "a\\", "**0"];
const LOOK_UPS: [&str; 14] = [
    "s*", "{t}s*", "h*->1", "h*->a", "#", "nosort", "*", "s*->", "l*", "z*->a", "*1", "h1->*", "{t}h*->1", "",
];
const GROUPS: [&str; 4] = ["g", "g", "h", ""];
const CONSUMERS: [&str; 3] = ["alice", "bob", "\u{e9}"];
const SPECIAL_IDS: [&str; 20] = [
    "$",
    ">",
    "-",
    "+",
    "0",
    "0-0",
    "0-*",
    "7",
    "(1-1",
    "(3",
    "(",
    "(0-0",
    "(18446744073709551615-18446744073709551615",
    "18446744073709551615-18446744073709551615",
    "1000000-*",
    "18446744073709551616-0",
    "1-18446744073709551615",
    "1-1-1",
    "007-01",
    "abc",
];
const THRESHOLDS: [&str; 10] = ["0", "1", "3", "50", "100", "2-1", "3-0", "4", "-1", "abc"];
const IDLE_TIMES: [&str; 5] = ["0", "0", "1000000000", "-1", "abc"];
/// Small enough that counting on does not overflow, and the oracle does not run out of memory.
const STREAM_COUNTS: [&str; 10] = ["0", "1", "2", "3", "5", "10", "-1", "-5", "1000", "1000000"];
const BLOCK_MILLISECONDS: [&str; 5] = ["1", "2", "3", "-1", "abc"];
const IDLE_MILLISECONDS: [&str; 5] = ["0", "1000000", "1000000000000", "-1", "abc"];
const TEXTS: [&str; 26] = [
    "a",
    "b",
    "c",
    "d",
    "aa",
    "m1",
    "m2",
    "1",
    "2",
    "3",
    "10",
    "-1",
    "0",
    "007",
    "",
    "1.5",
    "-0",
    "inf",
    "nan",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "1e3",
    "hello world",
    "\r\n\0\u{1}\u{ff}\"\\",
    "3.14159265358979",
];

/// The oracle's DUMP of a value of each type. The last ones are damaged.
const PAYLOADS: [&[u8]; 10] = [
    b"\x00\x05hello\n\x00cr\xdfve4 \n",
    b"\x00\xc0\x05\n\x00c/_f\x83/\xb3Q",
    b"\x12\x01\x02\x0f\x0f\x00\x00\x00\x03\x00\x81a\x02\x01\x01\x81b\x02\xff\n\x00\x90C\xa3L\xeb\x8e\x1b\x1c",
    b"\x0b\x0e\x02\x00\x00\x00\x03\x00\x00\x00\x01\x00\x02\x00,\x01\n\x00\xe5\x10\xb2\x8e{\x95)\xaa",
    b"\x02\x02\x01a\x01b\n\x00\xfed!%\xeb\x03=\r",
    b"\x11\x14\x14\x00\x00\x00\x04\x00\x81a\x02\x01\x01\x81b\x02\x832.5\x04\xff\n\x00\xd4Ln\xa4\xf6D\xd9\xd7",
    b"\x10\x11\x11\x00\x00\x00\x04\x00\x81f\x02\x81v\x02\x01\x01\x02\x01\xff\n\x00\x1aM\xf2\x17^\x0b\xff\x9b",
    b"\x00\x05jello\n\x00cr\xdfve4 \n",
    b"\x63\x01a\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    b"",
];

fn one_of<'a>(random: &mut Random, items: &[&'a str]) -> &'a str {
    items[random.below(items.len() as u64) as usize]
}

/// A key, usually of a type that the commands of `group` work on.
pub(crate) fn key(random: &mut Random, group: Group) -> Vec<u8> {
    let any = ['s', 'l', 'h', 'e', 'z', 'p', 'g', 'x'];
    let kind = match group {
        _ if random.below(12) == 0 => any[random.below(8) as usize],
        Group::Bitmap | Group::String => 's',
        Group::List => 'l',
        Group::Hash => 'h',
        Group::Geo => 'g',
        Group::HyperLogLog => 'p',
        Group::Set => 'e',
        Group::SortedSet if random.below(10) == 0 => 'e',
        Group::SortedSet => 'z',
        Group::Stream => 'x',
        Group::Bloom => 'b',
        Group::Cuckoo => 'c',
        Group::CountMin => 'm',
        Group::TopK => 'k',
        Group::TDigest => 'd',
        Group::Cluster
        | Group::Connection
        | Group::Generic
        | Group::PubSub
        | Group::Queue
        | Group::Scripting
        | Group::Server
        | Group::Transactions => any[random.below(8) as usize],
    };
    match random.below(60) {
        0 => b"".to_vec(),
        1 => b"\x00\xff\r\n".to_vec(),
        2..20 => format!("{{t}}{kind}{}", random.below(2)).into_bytes(),
        _ => format!("{kind}{}", random.below(3)).into_bytes(),
    }
}

/// Number of jobs in a backlog.
pub(crate) const BACKLOG_JOBS: u64 = 150;

/// One of many similar jobs.
pub(crate) fn job(number: u64) -> Vec<u8> {
    let id = mix(number);
    let args = ["", "\"eu\",", "{\"user\":[1,2]},"][number as usize % 3];
    format!(
        r#"{{"retry":true,"queue":"low","class":"Worker","args":[{args}{number}],"jid":"{id:024x}","created_at":17{}.25}}"#,
        id % 100_000_000
    )
    .into_bytes()
}

/// Fields and values of a hash that is a job, in one of several forms. Some values are too long for a small hash.
pub(crate) fn job_fields(random: &mut Random) -> Request {
    let number = random.below(1_000_000);
    let job = job(number);
    let options: &[u8] = match random.below(3) {
        0 => br#"{"attempts":3,"delay":0,"removeOnComplete":true}"#,
        1 => br#"{"attempts":3,"delay":0,"backoff":{"delay":1000,"type":"exponential"},"removeOnComplete":true}"#,
        _ => br#"{"attempts":3,"delay":0,"backoff":{"delay":1000}}"#,
    };
    let data = if random.below(2) == 0 { &job[..60] } else { &job };
    let number = number.to_string().into_bytes();
    let fields: [&[u8]; 12] = [
        b"name",
        b"sendEmail",
        b"a",
        data,
        b"b",
        options,
        b"1",
        &number,
        b"timestamp",
        b"1700000000000",
        b"c",
        b"",
    ];
    fields.map(<[u8]>::to_vec).into()
}

/// A request that changes what is watched, or is harmless.
pub(crate) fn session(random: &mut Random) -> Request {
    let line = match random.below(6) {
        0 => "UNWATCH",
        1 => "DISCARD",
        2 => "EXEC",
        3 => "PING",
        _ => "WATCH",
    };
    let mut request = vec![line.as_bytes().to_vec()];
    if line == "WATCH" {
        request.extend((0..=random.below(2)).map(|_| key(random, Group::Generic)));
    }
    request
}

/// A request to send before `SORT`: if an earlier command met a number out of range, the oracle reports that again
/// unless another number was parsed in between.
pub(crate) fn clear_range_error() -> Request {
    ["GEORADIUS_RO", "", "0", "0", "0", "m"].map(|word| word.as_bytes().to_vec()).into()
}

/// An invalid value. For commands that `may_wait`, none that is a timeout.
pub(crate) fn garbage(random: &mut Random, may_wait: bool, group: Group) -> Vec<u8> {
    let left_out = match (may_wait, group) {
        (false, _) => 0,
        (true, Group::Stream) => STREAM_TIMEOUTS_AMONG_GARBAGE,
        (true, _) => TIMEOUTS_AMONG_GARBAGE,
    };
    one_of(random, &GARBAGE[..GARBAGE.len() - left_out]).as_bytes().to_vec()
}

pub(crate) fn pattern(random: &mut Random, name: &str) -> Vec<u8> {
    let pool: &[&str] = if matches!(name, "by-pattern" | "get-pattern") { &LOOK_UPS } else { &PATTERNS };
    one_of(random, pool).as_bytes().to_vec()
}

pub(crate) fn integer(random: &mut Random, name: &str, group: Group) -> Vec<u8> {
    let pool: &[&str] = match name {
        "milliseconds" if group == Group::Stream => &BLOCK_MILLISECONDS,
        "ms" => &IDLE_MILLISECONDS,
        "min-idle-time" => &IDLE_TIMES,
        "count" | "entriesread" | "entries-added" if group == Group::Stream => &STREAM_COUNTS,
        "seconds" => &SECONDS,
        "milliseconds" | "ttl" => &MILLISECONDS,
        "unix-time-seconds" => &UNIX_SECONDS,
        "unix-time-milliseconds" => &UNIX_MILLISECONDS,
        "offset" if group == Group::Bitmap && random.below(4) > 0 => &OFFSETS[..8],
        "offset" => &OFFSETS,
        "cursor" => &CURSORS,
        "db" | "index1" | "index2" | "destination-db" => &DATABASES,
        "bit" => &BITS,
        "value" if group == Group::Bitmap && random.below(2) == 0 => &BITS,
        "weight" => &DOUBLES,
        "count" | "limit" | "len" | "min-match-len" | "num-matches" => &COUNTS,
        _ => &INTEGERS,
    };
    let text = one_of(random, pool);
    if name == "offset" && group == Group::Bitmap && random.below(4) == 0 {
        return format!("#{text}").into_bytes();
    }
    text.as_bytes().to_vec()
}

pub(crate) fn double(random: &mut Random, name: &str) -> Vec<u8> {
    let pool: &[&str] = match name {
        "timeout" => &TIMEOUTS,
        "min" | "max" => &SCORE_BOUNDS,
        "longitude" => &LONGITUDES,
        "latitude" => &LATITUDES,
        "radius" | "width" | "height" => &DISTANCES,
        _ => &DOUBLES,
    };
    // A strange value makes the whole request fail, so usually one of the plain values at the front is chosen.
    let plain = match name {
        "timeout" => 3,
        "longitude" | "latitude" => pool.len() - 4,
        _ => 16.min(pool.len()),
    };
    let pool = if random.below(4) > 0 { &pool[..plain] } else { pool };
    one_of(random, pool).as_bytes().to_vec()
}

/// The id of an entry. Ids are small, so that they exist, and later ones can be added.
fn id(random: &mut Random) -> Vec<u8> {
    let ms = 1 + random.below(4);
    match random.below(10) {
        0 => one_of(random, &SPECIAL_IDS).into(),
        1..5 => format!("{ms}-*").into_bytes(),
        _ => format!("{ms}-{}", random.below(6)).into_bytes(),
    }
}

/// A text of any other kind. If there are `many`, they differ.
pub(crate) fn string(random: &mut Random, name: &str, group: Group, many: bool) -> Vec<u8> {
    if name == "serialized-value" {
        return PAYLOADS[random.below(PAYLOADS.len() as u64) as usize].to_vec();
    }
    if many {
        return format!("m{}", random.below(100_000)).into_bytes();
    }
    let pool: &[&str] = match name {
        "group" => &GROUPS,
        "consumer" => &CONSUMERS,
        "min-idle-time" => &IDLE_TIMES,
        "threshold" => &THRESHOLDS,
        "start" | "end" if group == Group::Stream && random.below(2) == 0 => &["-", "+"],
        "id" | "start" | "end" | "last-id" | "lastid" | "max-deleted-id" if group == Group::Stream => {
            return id(random);
        }
        // A request with several encodings is refused if one is wrong.
        "encoding" if random.below(4) > 0 => &ENCODINGS[..6],
        "encoding" => &ENCODINGS,
        "type" => &TYPES,
        "subcommand" => &PFDEBUG_WORDS,
        "min" | "max" | "start" | "stop" if group == Group::SortedSet => &RANGE_ENDS,
        _ => &TEXTS,
    };
    match random.below(300) {
        0 => vec![b'x'; 9000],
        1 => (0..=255).collect(),
        // Just too long for a listpack, and for an embedded string.
        2..5 => vec![b'y'; 65],
        5..8 => vec![b'z'; 45],
        8..40 if pool.len() == TEXTS.len() => random.below(1000).to_string().into_bytes(),
        _ => one_of(random, pool).as_bytes().to_vec(),
    }
}
