//! Random requests about libraries of functions, which the declarations of the data commands do not cover.
//!
//! There are few names of libraries and functions, so that requests refer to each other's. Functions are called in any
//! case. No library has two functions whose names differ only in case: the oracle accepts such a library, and crashes
//! when it is deleted.

use ds::random::Random;
use rdb::{Encoder, seal_payload};
use resp::Value;

use crate::generate::Request;

/// The subcommands and options that are sent. Each must be answered without an error at least once.
pub const FUNCTION_REQUESTS: [&str; 16] = [
    "fcall",
    "fcall_ro",
    "function delete",
    "function dump",
    "function flush",
    "function flush async",
    "function flush sync",
    "function list",
    "function list libraryname",
    "function list withcode",
    "function load",
    "function load replace",
    "function restore",
    "function restore append",
    "function restore flush",
    "function restore replace",
];

/// Functions that call the command in their arguments, with their bodies.
const CALLERS: [(&str, &str); 3] = [
    ("call", "return redis.call(unpack(args))"),
    ("pcall", "return redis.pcall(unpack(args))"),
    ("call3", "redis.setresp(3) return redis.call(unpack(args))"),
];
const LIBRARIES: [&str; 4] = ["l", "m", "L", "long_name"];
const FUNCTIONS: [&str; 4] = ["f", "g", "h", "I"];
const BODIES: [&str; 9] = [
    "return {keys, args}",
    "return redis.call('SET', keys[1], args[1])",
    "return redis.call('GET', keys[1])",
    "return redis.pcall('LPUSH', keys[1], unpack(args))",
    "return redis.status_reply(args[1])",
    "error(args[1])",
    "error({err = 'of a table'})",
    "return nothing",
    "redis.setresp(3) return {map = {a = {double = 1.5}}}",
];
const EXTRAS: [&str; 6] = [
    "",
    "flags = {'no-writes'}",
    "flags = {'no-writes', 'allow-stale'}, description = 'text'",
    "description = 'text'",
    "flags = {'nonsense'}",
    "nonsense = 1",
];
const NOT_LIBRARIES: [&str; 8] = [
    "",
    "return 1",
    "#!lua name=l",
    "#!lua\n",
    "#!js name=l\n",
    "#!lua name=l\n",
    "#!lua name=l\nx = 1",
    "#!lua name=l\nlocal x =",
];
const PATTERNS: [&str; 5] = ["*", "l", "L*", "[lm]", "nothing"];

fn one_of<'a>(random: &mut Random, items: &[&'a str]) -> &'a str {
    items[random.below(items.len() as u64) as usize]
}

fn words(line: &str) -> Request {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn code(random: &mut Random) -> Vec<u8> {
    if random.below(8) == 0 {
        return one_of(random, &NOT_LIBRARIES).into();
    }
    let mut code = format!("#!lua name={}\n", one_of(random, &LIBRARIES));
    let first = random.below(FUNCTIONS.len() as u64) as usize;
    for name in FUNCTIONS.iter().cycle().skip(first).take(1 + random.below(2) as usize) {
        let (body, extra) = (one_of(random, &BODIES), one_of(random, &EXTRAS));
        code += &format!(
            "redis.register_function{{function_name = '{name}', callback = function(keys, args) {body} end, {extra}}}\n"
        );
    }
    code.into_bytes()
}

/// A payload, now and then an invalid one.
fn payload(random: &mut Random) -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::new(), random.below(2) == 0);
    for _ in 0..random.below(3) {
        encoder.function(&code(random)).expect("memory takes all that is written");
    }
    let mut payload = encoder.finish().expect("memory takes all that is written");
    if random.below(10) == 0 {
        payload.extend_from_slice(b"\x00\x01v");
    }
    seal_payload(&mut payload);
    if random.below(10) == 0 {
        payload.pop();
    }
    payload
}

/// One random request.
pub(crate) fn request(random: &mut Random) -> Request {
    let mut request = match random.below(20) {
        0..6 => {
            let mut request = words(one_of(random, &["FUNCTION LOAD", "function load replace"]));
            request.push(code(random));
            request
        }
        6..12 => {
            let mut request = words(one_of(random, &["FCALL", "FCALL_RO"]));
            let name = one_of(random, &FUNCTIONS);
            request.push(if random.below(2) == 0 { name.to_lowercase() } else { name.to_uppercase() }.into());
            request.extend(words(one_of(
                random,
                &["0", "1 s0", "1 l0 a", "2 s0 s1 b", "3 s0", "-1", "x", "0 a b"],
            )));
            request
        }
        12 => words(&format!("FUNCTION DELETE {}", one_of(random, &LIBRARIES))),
        13 => words(one_of(
            random,
            &["FUNCTION FLUSH", "FUNCTION FLUSH ASYNC", "function flush sync", "FUNCTION FLUSH x"],
        )),
        14 => {
            let mut request = words("FUNCTION LIST");
            if random.below(2) == 0 {
                request.extend(words(&format!("LIBRARYNAME {}", one_of(random, &PATTERNS))));
            }
            request.extend(words("WITHCODE").into_iter().filter(|_| random.below(2) == 0));
            request
        }
        15 => words("FUNCTION DUMP"),
        16..19 => {
            let mut request = words("FUNCTION RESTORE");
            request.push(payload(random));
            request.extend(words(one_of(random, &["APPEND", "replace", "FLUSH", "x"])));
            request.truncate(3 + usize::from(random.below(4) > 0));
            request
        }
        _ => words(one_of(random, &["FUNCTION STATS", "FUNCTION KILL", "FUNCTION", "FUNCTION x", "FCALL f"])),
    };
    if random.below(30) == 0 {
        request.push(one_of(random, &["x", "REPLACE", ""]).into());
    }
    request
}

/// The request as the only call of a function, preceded by the request that loads the function.
pub(crate) fn in_function(random: &mut Random, called: Request, declared: Vec<Vec<u8>>) -> [Request; 2] {
    let mut code = "#!lua name=callers\n".to_owned();
    for (name, body) in CALLERS {
        code += &format!("redis.register_function('{name}', function(keys, args) {body} end)\n");
    }
    let mut load = words("FUNCTION LOAD REPLACE");
    load.push(code.into_bytes());
    let mut call = words(&format!("FCALL {} {}", CALLERS[random.below(3) as usize].0, declared.len()));
    call.extend(declared);
    call.extend(called);
    [load, call]
}

/// Whether the function with this name calls the command in its arguments.
pub(crate) fn is_caller(name: &[u8]) -> bool {
    CALLERS.iter().any(|(caller, _)| caller.as_bytes() == name)
}

/// Which of [`FUNCTION_REQUESTS`] a request is.
pub(crate) fn kinds(request: &[&[u8]]) -> impl Iterator<Item = &'static str> {
    let is_word = |index: usize, word: &str| {
        request.get(index).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    };
    let found: Vec<&'static str> = FUNCTION_REQUESTS
        .into_iter()
        .filter(|kind| {
            let mut words = kind.split(' ').enumerate();
            let is_restore = is_word(1, "restore");
            words.all(|(index, word)| match index {
                2 if is_restore => is_word(3, word),
                2 => request.iter().skip(2).any(|arg| arg.eq_ignore_ascii_case(word.as_bytes())),
                index => is_word(index, word),
            })
        })
        .collect();
    found.into_iter()
}

/// Whether both servers' replies about functions mean the same: libraries may be listed in any order, and dumped
/// differently.
pub(crate) fn is_same(request: &[&[u8]], darter: &Value, redis: &Value) -> bool {
    let is = |word: &str| request.get(1).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    match (darter, redis) {
        _ if darter == redis => true,
        (Value::Bulk(_), Value::Bulk(_)) => is("dump"),
        // If several names are taken, either may be reported.
        (Value::Error(darter), Value::Error(redis)) => {
            [&b"ERR Library "[..], b"ERR Function "].iter().any(|start| {
                let is_taken = |text: &[u8]| text.starts_with(start) && text.ends_with(b" already exists");
                is_taken(darter) && is_taken(redis)
            })
        }
        (Value::Array(_), Value::Array(_)) if is("list") => {
            let lines = |value: &Value| {
                let mut texts = Vec::new();
                crate::compare::leaves(value, &mut texts);
                texts.sort();
                texts
            };
            lines(darter) == lines(redis)
        }
        _ => false,
    }
}
