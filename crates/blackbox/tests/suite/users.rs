//! Random users on Darter and on redis-server: the same rules are accepted and refused, and random calls are allowed and
//! denied for the same reasons.
//!
//! `DARTER_SEED` replays a run, `DARTER_SCALE` makes it longer.

use std::time::SystemTime;

use acl::merge_selectors;
use blackbox::{Client, Generator, Request, Server, is_known_to_oracle, oracle, scale, text};
use ds::random::Random;
use engine::{Command, Table};
use resp::Value;

/// Number of users.
const USERS: usize = 300;
/// Batches of calls that are tried with each user.
const BATCHES: usize = 30;

const WORDS: [&str; 36] = [
    "on",
    "OFF",
    "nopass",
    "resetpass",
    ">p",
    ">q",
    "<p",
    "#p",
    "!p",
    "#148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940",
    "allkeys",
    "resetkeys",
    "resetkeys",
    "~*",
    "%R~*",
    "~s*",
    "~{t}*",
    "%R~l*",
    "%rW~h*",
    "%W~z?",
    "%W~[a-p]*",
    "~",
    "%~x",
    "%Q~x",
    "allchannels",
    "resetchannels",
    "&c*",
    "&*",
    "clearselectors",
    "reset",
    "allcommands",
    "nocommands",
    "nonsense",
    "(",
    "x)",
    "",
];
const CATEGORIES: [&str; 15] = [
    "all",
    "read",
    "write",
    "string",
    "list",
    "hash",
    "set",
    "sortedset",
    "stream",
    "fast",
    "slow",
    "blocking",
    "Keyspace",
    "dangerous",
    "nope",
];
const NAMES: [&str; 9] = [
    "config|get",
    "config|nope",
    "xinfo|stream",
    "OBJECT|encoding",
    "object",
    "xgroup",
    "select|1",
    "get|s1",
    "nope",
];

fn one_of<'a>(random: &mut Random, words: &[&'a str]) -> &'a str {
    words[random.below(words.len() as u64) as usize]
}

/// A rule about commands or keys, which may also be inside a selector.
fn inner_rule(random: &mut Random, table: &Table) -> String {
    let sign = one_of(random, &["+", "+", "-"]);
    match random.below(6) {
        0 => format!("{sign}@{}", one_of(random, &CATEGORIES)),
        1 => format!("{sign}{}", one_of(random, &NAMES)),
        2 | 3 => {
            let commands: Vec<_> = table.all().iter().filter(|command| is_known_to_oracle(command)).collect();
            format!("{sign}{}", commands[random.below(commands.len() as u64) as usize].full_name)
        }
        _ => {
            one_of(random, &["~s*", "~l*", "%R~*", "%R~h*", "%W~{t}*", "~z1", "%W~x*", "allkeys"]).to_owned()
        }
    }
}

fn rule(random: &mut Random, table: &Table) -> String {
    match random.below(8) {
        0..2 => one_of(random, &WORDS).to_owned(),
        2 => {
            let rules: Vec<String> = (0..random.below(4)).map(|_| inner_rule(random, table)).collect();
            format!("({})", rules.join(" "))
        }
        _ => inner_rule(random, table),
    }
}

/// The reply of GETUSER without what 7.2 shows differently.
fn shown(user: &Value) -> String {
    let Value::Array(fields) = user else { return user.to_string() };
    let pairs = fields.chunks(2).filter(|pair| !["commands", "selectors"].contains(&&text(&pair[0])[..]));
    let payload = Value::Bulk(b"sanitize-payload".into());
    pairs
        .map(|pair| match &pair[1] {
            Value::Array(items) => items
                .iter()
                .filter(|item| **item != payload)
                .map(Value::to_string)
                .collect::<Vec<_>>()
                .join(" "),
            other => other.to_string(),
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// The replies of both to a call.
#[track_caller]
fn call(servers: &mut [Client; 2], request: &[&[u8]], context: &str) -> [Value; 2] {
    servers.each_mut().map(|server| {
        server.send_args(request);
        server.try_receive().unwrap_or_else(|| panic!("{context}: the connection ended"))
    })
}

#[track_caller]
fn same(servers: &mut [Client; 2], request: &[&[u8]], context: &str) -> bool {
    let [ours, theirs] = call(servers, request, context);
    let line: Vec<String> = request.iter().map(|word| word.escape_ascii().to_string()).collect();
    assert_eq!(
        ours.to_string(),
        theirs.to_string().replace("This user has", "User x has"),
        "{context}: {}",
        line.join(" ")
    );
    ours == Value::Simple(b"OK".into())
}

/// Whether a call cannot be compared: 7.0 shows a key only up to its first zero byte, and checks only the first of
/// several targets. If the command itself refuses the arguments, the ACL check may take other words for keys.
fn is_odd(table: &Table, request: &Request) -> bool {
    let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
    let has_keys = |command: &Command| {
        command.entry.keys.is_empty() || command.keys(&words).is_some_and(|keys| !keys.is_empty())
    };
    let is_target =
        |word: &&Vec<u8>| word.eq_ignore_ascii_case(b"STORE") || word.eq_ignore_ascii_case(b"STOREDIST");
    request.iter().filter(is_target).count() > 1
        || words.iter().any(|word| word.contains(&0))
        || table.named(&words).is_ok_and(|command| !has_keys(command))
}

#[test]
fn random_users_may_do_what_they_may_do_in_redis() {
    let Some(redis) = oracle() else { return };
    let darter = Server::darter(&[]).unwrap_or_else(|error| panic!("{error}"));
    let servers = &mut [darter.client(), redis.client()];
    let fresh =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    let seed =
        std::env::var("DARTER_SEED").map_or(fresh, |seed| seed.parse().expect("DARTER_SEED is a number"));
    println!("DARTER_SEED={seed}");
    let table = Table::new(commands::FAMILIES);
    let mut random = Random::new(seed);
    let mut generator = Generator::new(seed, &table);
    let (mut accepted, mut allowed, mut denied) = (0, 0, 0);
    for user in 0..USERS * scale() {
        let context = format!("DARTER_SEED={seed}, user {user}");
        let first = one_of(&mut random, &["+@all", "~*", "+@all ~s* %R~l* %W~h*", "+@read ~{t}*", ""]);
        let words = ["ACL", "SETUSER", "x", "reset"].into_iter().chain(first.split(' '));
        same(servers, &words.map(str::as_bytes).collect::<Vec<_>>(), &context);
        let mut applied = vec![first.to_owned()];
        for _ in 0..1 + random.below(6) {
            let rules: Vec<String> = (0..1 + random.below(4)).map(|_| rule(&mut random, &table)).collect();
            let rules: Vec<&[u8]> = rules.iter().map(String::as_bytes).collect();
            // With an empty rule inside a selector, 7.0 reads before its beginning.
            if merge_selectors(&rules).is_err() && rules.contains(&&b""[..]) {
                continue;
            }
            let request = [&[b"ACL", b"SETUSER".as_slice(), b"x"], &rules[..]].concat();
            if same(servers, &request, &format!("{context} after {applied:?}")) {
                accepted += 1;
                applied.extend(rules.iter().map(|rule| String::from_utf8_lossy(rule).into_owned()));
            }
        }
        let context = format!("{context}: {applied:?}");
        let [ours, theirs] = call(servers, &[b"ACL", b"GETUSER", b"x"], &context);
        assert_eq!(shown(&ours), shown(&theirs), "{context}");
        for request in (0..BATCHES).flat_map(|_| generator.batch().requests) {
            if is_odd(&table, &request) {
                continue;
            }
            let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            match same(servers, &[&[b"ACL", b"DRYRUN".as_slice(), b"x"], &words[..]].concat(), &context) {
                true => allowed += 1,
                false => denied += 1,
            }
        }
    }
    println!("{accepted} rules accepted, {allowed} calls allowed, {denied} not");
    assert!(accepted > USERS && allowed > USERS && denied > USERS);
}
