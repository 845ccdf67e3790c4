//! Values of every type, size and encoding, with and without an expiry, which must survive a dump and a load.

use ds::random::Random;

use resp::Value;

use crate::client::Client;
use crate::differences::NEWER_STREAM_FIELDS;
use crate::generate::Request;
use crate::values;

/// A time of expiry that is not reached during a test.
const FAR_MS: &str = "33177117420123";

/// The keys of the streams.
const STREAM_KEYS: [&str; 6] =
    ["stream:empty", "stream:cleared", "stream:small", "stream:holes", "stream:nodes", "stream:largest"];

/// Requests that create the samples.
pub fn samples() -> Vec<Request> {
    let mut requests = of_one_request();
    requests.extend(streams());
    for key in sample_keys().into_iter().step_by(3) {
        requests.push(vec![b"PEXPIREAT".to_vec(), key, FAR_MS.into()]);
    }
    requests
}

/// The keys of the samples.
pub fn sample_keys() -> Vec<Vec<u8>> {
    let keys = of_one_request().into_iter().map(|mut request| request.swap_remove(1));
    keys.chain(STREAM_KEYS.map(Into::into)).collect()
}

/// Samples that are created by one request, whose first argument is the key.
fn of_one_request() -> Vec<Request> {
    let mut requests = Vec::new();
    strings(&mut requests);
    lists(&mut requests);
    sets(&mut requests);
    sorted_sets(&mut requests);
    hashes(&mut requests);
    requests
}

/// Everything known about a stream and its groups, except what 7.0 does not know or counts differently; empty for other
/// values. A digest does not cover the groups.
pub fn stream_state(client: &mut Client, key: &[u8]) -> String {
    client.send_args(&[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"]);
    match client.receive() {
        Value::Error(error) if error.starts_with(b"WRONGTYPE") => String::new(),
        mut state => {
            // A node whose first entry is gone may be loaded as two.
            [&b"radix-tree-keys"[..], b"radix-tree-nodes", b"active-time"]
                .into_iter()
                .chain(NEWER_STREAM_FIELDS)
                .for_each(|field| drop_field(&mut state, field));
            state.to_string()
        }
    }
}

/// Removes a field and its value, at any depth.
fn drop_field(value: &mut Value, name: &[u8]) {
    let Value::Array(items) = value else { return };
    if let Some(at) = items.iter().position(|item| matches!(item, Value::Bulk(text) if text == name)) {
        items.drain(at..at + 2);
    }
    items.iter_mut().for_each(|item| drop_field(item, name));
}

fn add(requests: &mut Vec<Request>, command: &str, items: Vec<Vec<u8>>) {
    let key = format!("{}:{}", command.to_ascii_lowercase(), requests.len()).into_bytes();
    requests.push([vec![command.into(), key], items].concat());
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut random = Random::new(bytes as u64);
    (0..bytes).map(|_| random.next_u64() as u8).collect()
}

/// Numbers at the limits of the integer encodings.
fn edges() -> Vec<Vec<u8>> {
    let mut edges: Vec<i64> = vec![0, 1, -1, i64::MAX, i64::MIN];
    for bits in [7, 12, 13, 15, 23, 31] {
        let edge = 1 << bits;
        edges.extend([edge - 1, edge, -edge, -edge - 1]);
    }
    edges.iter().map(|number| number.to_string().into_bytes()).collect()
}

fn numbered(prefix: &str, count: usize) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(move |number| format!("{prefix}{number}").into_bytes())
}

fn strings(requests: &mut Vec<Request>) {
    let mut texts = edges();
    texts.extend(["", "hello", "007", "-0", "1.5", "9223372036854775808"].map(Into::into));
    texts.extend([20, 21, 45, 63, 64, 1000, 16_383, 16_384, 70_000].map(|length| b"ab".repeat(length)));
    texts.extend([20, 21, 264, 9000, 300_000].map(noise));
    texts.into_iter().for_each(|text| add(requests, "SET", vec![text]));
}

fn lists(requests: &mut Vec<Request>) {
    add(requests, "RPUSH", vec![b"one".to_vec()]);
    add(requests, "RPUSH", vec![Vec::new()]);
    add(requests, "RPUSH", edges());
    add(requests, "RPUSH", [63, 64, 4095, 4096].map(noise).to_vec());
    add(requests, "RPUSH", numbered("job ", 3000).collect());
    add(requests, "RPUSH", vec![b"before".to_vec(), noise(8200), b"x".repeat(100_000), b"after".to_vec()]);
}

fn sets(requests: &mut Vec<Request>) {
    let numbers =
        |step: i64, count: i64| (0..count).map(move |n| ((n - 5) * step).to_string().into_bytes()).collect();
    add(requests, "SADD", numbers(1, 20));
    add(requests, "SADD", numbers(10_000, 20));
    add(requests, "SADD", numbers(1 << 50, 20));
    add(requests, "SADD", numbers(3, 600));
    add(requests, "SADD", edges());
    add(requests, "SADD", numbered("m", 10).chain(edges()).collect());
    add(requests, "SADD", numbered("member ", 1000).collect());
    add(requests, "SADD", vec![noise(70), Vec::new()]);
}

fn sorted_sets(requests: &mut Vec<Request>) {
    let scores =
        ["-inf", "-1e300", "-3", "0", "0.1", "1", "2.5", "3.0000000000000004", "5e-324", "1e17", "inf"];
    let scored = |prefix: &str, count: usize| {
        let scores = scores.iter().cycle().map(|score| score.as_bytes().to_vec());
        scores.zip(numbered(prefix, count)).flat_map(|(score, member)| [score, member]).collect::<Vec<_>>()
    };
    add(requests, "ZADD", scored("m", 11));
    add(requests, "ZADD", scored("", 100));
    add(requests, "ZADD", scored("member ", 1000));
    add(requests, "ZADD", vec![b"1".to_vec(), noise(70)]);
    add(requests, "ZADD", jobs());
}

/// Jobs, each behind its number: enough of them to be packed.
fn jobs() -> Vec<Vec<u8>> {
    (0..1500).flat_map(|number| [number.to_string().into_bytes(), values::job(number)]).collect()
}

fn hashes(requests: &mut Vec<Request>) {
    let pairs = |prefix: &'static str, count| {
        numbered(prefix, count)
            .zip(numbered("value ", count))
            .flat_map(|(field, value)| [field, value])
            .collect()
    };
    add(requests, "HSET", pairs("f", 3));
    add(requests, "HSET", pairs("", 500));
    add(requests, "HSET", pairs("field ", 1000));
    add(requests, "HSET", vec![b"long".to_vec(), noise(70), Vec::new(), Vec::new()]);
    add(requests, "HSET", jobs());
}

/// Streams with everything that belongs to them: deleted entries, groups, consumers and pending entries.
fn streams() -> Vec<Request> {
    let mut lines: Vec<String> = [
        "XGROUP CREATE stream:empty group $ MKSTREAM",
        "XGROUP CREATECONSUMER stream:empty group idle",
        "XADD stream:cleared 5-5 f v",
        "XGROUP CREATE stream:cleared group 0",
        "XREADGROUP GROUP group one STREAMS stream:cleared >",
        "XDEL stream:cleared 5-5",
        "XADD stream:small 1-1 field value number 12",
        "XADD stream:small 1-2 field other number -1000",
        "XADD stream:small 2-0 field 007 more 1 number 18446744073709551615",
        "XADD stream:largest 0-18446744073709551615 f v",
        "XADD stream:largest 1-0 f v",
        "XADD stream:largest 18446744073709551615-18446744073709551614 f v",
        "XADD stream:largest 18446744073709551615-18446744073709551615 f v",
        "XGROUP CREATE stream:largest group $",
        "XGROUP CREATE stream:largest unknown 7-7",
        "XGROUP CREATE stream:largest counted 1-0 ENTRIESREAD 9223372036854775807",
        "XSETID stream:largest 18446744073709551615-18446744073709551615 ENTRIESADDED 9223372036854775807",
    ]
    .map(Into::into)
    .to_vec();
    for entry in 0..40 {
        lines.push(format!("XADD stream:holes {}-{} f {entry} g {}", 10 + entry / 7, entry + 1, entry % 3));
    }
    lines.push("XTRIM stream:holes MAXLEN 35".into());
    lines.push("XDEL stream:holes 10-6 12-20 15-40 15-39".into());
    for entry in 0..1000 {
        let more = if entry % 5 == 0 { " more fields" } else { "" };
        lines.push(format!("XADD stream:nodes {entry}-1 field number-{entry}{more}"));
    }
    for (group, last) in [("first", "0"), ("second", "500")] {
        lines.push(format!("XGROUP CREATE stream:nodes {group} {last}"));
        lines.push(format!("XREADGROUP GROUP {group} one COUNT 70 STREAMS stream:nodes >"));
        lines.push(format!("XREADGROUP GROUP {group} two COUNT 300 STREAMS stream:nodes >"));
        lines.push(format!(
            "XCLAIM stream:nodes {group} three 0 501-1 510-1 RETRYCOUNT 70000 TIME 1700000000123"
        ));
        lines.push(format!("XACK stream:nodes {group} 3-1 520-1"));
    }
    lines.push("XDEL stream:nodes 0-1 10-1 511-1".into());
    lines.iter().map(|line| line.split(' ').map(Into::into).collect()).collect()
}
