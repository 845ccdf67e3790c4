//! Values of every type, size and encoding, with and without an expiry: what has to survive a way through a dump.

use ds::random::Random;

use crate::generate::Request;

/// What is not to expire during a test.
const FAR_MS: &str = "33177117420123";

/// Requests that make the samples, each key once.
pub fn samples() -> Vec<Request> {
    let mut requests = Vec::new();
    strings(&mut requests);
    lists(&mut requests);
    sets(&mut requests);
    sorted_sets(&mut requests);
    hashes(&mut requests);
    let keys: Vec<Vec<u8>> = requests.iter().map(|request| request[1].clone()).collect();
    for key in keys.into_iter().step_by(3) {
        requests.push(vec![b"PEXPIREAT".to_vec(), key, FAR_MS.into()]);
    }
    requests
}

/// The keys of the samples.
pub fn sample_keys() -> Vec<Vec<u8>> {
    let made = samples().into_iter().filter(|request| request[0] != b"PEXPIREAT");
    made.map(|request| request[1].clone()).collect()
}

fn add(requests: &mut Vec<Request>, command: &str, items: Vec<Vec<u8>>) {
    let key = format!("{}:{}", command.to_ascii_lowercase(), requests.len()).into_bytes();
    requests.push([vec![command.into(), key], items].concat());
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut random = Random::new(bytes as u64);
    (0..bytes).map(|_| random.next_u64() as u8).collect()
}

/// The edges of the forms that integers have.
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
}
