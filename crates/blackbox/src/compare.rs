//! Compares the replies of the two servers to the same request.
//!
//! A [`Comparison`] follows the state of one connection. It knows what was queued since `MULTI`, so that each part of
//! the reply to `EXEC` is compared as its command requires, and finds the command that a script of `generate` calls.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use engine::{Command, Group, Table};
use resp::{DoubleBuffer, Value};
use transcript::{Runner, Socket};

use crate::differences::{Rule, rules_of, without_times};
use crate::functions;
use crate::generate::{Request, words};
use crate::values::SCRIPTS;

/// The state of one connection that comparisons need.
#[derive(Debug)]
pub(crate) struct Comparison<'t> {
    table: &'t Table,
    queued: Option<Vec<Request>>,
    /// The previous request and its reply. The current reply may be a sample of it.
    before: (Request, Value),
    /// How often each command was answered without an error, and how often it was sent with each of its words.
    pub(crate) answered: BTreeMap<String, u64>,
}

impl<'t> Comparison<'t> {
    /// The state of a new connection.
    pub(crate) fn new(table: &'t Table) -> Self {
        Comparison { table, queued: None, before: (Vec::new(), Value::Null), answered: BTreeMap::new() }
    }

    /// Compares the replies to `request`. The error is the name of the command whose replies differ.
    pub(crate) fn compare(&mut self, request: &Request, darter: &Value, redis: &Value) -> Result<(), String> {
        let name = request[0].to_ascii_lowercase();
        if let Ok(command) = self.table.named(&[&name])
            && ["multi", "exec"].contains(&command.entry.name)
            && !matches!(darter, Value::Error(_))
        {
            self.note(command, &[&name], false);
        }
        let is_queued = *darter == Value::Simple(b"QUEUED".to_vec()) && darter == redis;
        match &name[..] {
            b"multi" if darter == redis => {
                self.queued =
                    (*darter == Value::Simple(b"OK".to_vec())).then(Vec::new).or(self.queued.take());
                Ok(())
            }
            b"discard" => {
                self.queued = None;
                self.compare_one(request, darter, redis)
            }
            b"exec" => {
                let queued = self.queued.take().unwrap_or_default();
                match (darter, redis) {
                    (Value::Array(darter), Value::Array(redis))
                        if darter.len() == queued.len() && redis.len() == queued.len() =>
                    {
                        let replies = darter.iter().zip(redis);
                        let mut parts = queued.iter().zip(replies);
                        parts.try_for_each(|(part, (darter, redis))| self.compare_one(part, darter, redis))
                    }
                    _ => self.compare_one(request, darter, redis),
                }
            }
            _ if is_queued && self.queued.is_some() => {
                self.queued.get_or_insert_default().push(request.clone());
                Ok(())
            }
            _ => self.compare_one(request, darter, redis),
        }
    }

    fn compare_one(&mut self, request: &Request, darter: &Value, redis: &Value) -> Result<(), String> {
        let called = called_by_script(request);
        let (darter, redis) = match (items_of(darter), items_of(redis)) {
            ([_, darter], [_, redis]) if called.is_some() && request[1] == SCRIPTS[3].as_bytes() => {
                (darter, redis)
            }
            _ => (darter, redis),
        };
        let called_request = called.unwrap_or(request);
        let args: Vec<&[u8]> = called_request.iter().map(Vec::as_slice).collect();
        let command = self.table.resolve(&args).ok();
        let is_function = |command: &&Command| {
            command.full_name.starts_with("function|") || command.full_name.starts_with("fcall")
        };
        let same = match command.filter(|command| !is_function(command)) {
            Some(command) => self.is_same(command, &args, darter, redis),
            None => functions::is_same(&args, darter, redis),
        };
        if !matches!(darter, Value::Error(_)) {
            for kind in functions::kinds(&request.iter().map(Vec::as_slice).collect::<Vec<_>>()) {
                *self.answered.entry(kind.to_owned()).or_default() += 1;
            }
        }
        if let Some(command) = command {
            self.note(command, &args, matches!(darter, Value::Error(_)));
        }
        self.before = (called_request.to_vec(), darter.clone());
        match (same, command) {
            (true, _) => Ok(()),
            (false, Some(command)) => Err(command.full_name.clone()),
            (false, None) => {
                Err(String::from_utf8_lossy(&args.first().copied().unwrap_or_default().to_ascii_lowercase())
                    .into_owned())
            }
        }
    }

    /// Counts the words of its command that a request had and, unless the reply is an error, the command.
    fn note(&mut self, command: &Command, args: &[&[u8]], is_error: bool) {
        if !is_error {
            *self.answered.entry(command.full_name.clone()).or_default() += 1;
        }
        for word in words(command) {
            if args[1..].iter().any(|arg| arg.eq_ignore_ascii_case(word.as_bytes())) {
                *self.answered.entry(format!("{} {word}", command.full_name)).or_default() += 1;
            }
        }
    }

    /// The reply to the previous request, if that was `reader`, for the same key.
    fn whole(&self, reader: &str, command: &Command, args: &[&[u8]]) -> Option<&Value> {
        let (request, reply) = &self.before;
        let name = reader.split(' ').next().unwrap_or(reader);
        let same_key =
            command.entry.keys.is_empty() || request.get(1).map(Vec::as_slice) == args.get(1).copied();
        (request.first()?.eq_ignore_ascii_case(name.as_bytes()) && same_key).then_some(reply)
    }

    fn is_same(&self, command: &Command, args: &[&[u8]], darter: &Value, redis: &Value) -> bool {
        let is_error = |value| matches!(value, &Value::Error(_));
        let allows = |rule| match rule {
            _ if darter == redis => true,
            Rule::Differs(allowed) => allowed(darter, redis),
            Rule::Newer(_) | Rule::Unsent(_) => false,
            _ if is_error(darter) || is_error(redis) => false,
            Rule::Sample { reader } => is_sample(darter, redis, self.whole(reader, command, args)),
            Rule::Tied(open) => open(args) && is_reordered(darter, redis, args, command),
            Rule::Near(tolerance) => is_near(darter, redis, tolerance),
            Rule::Walk => {
                let (darter, redis) = (items_of(darter), items_of(redis));
                // From a cursor that no server has returned, an iteration may find anything.
                let from_start = args.get(1 + command.entry.keys.len()).is_some_and(|cursor| *cursor == b"0");
                !from_start || walked(&darter[1], command) == walked(&redis[1], command)
            }
        };
        let in_any_order = command.entry.tips.contains(&"nondeterministic_output_order");
        rules_of(&command.full_name).any(allows)
            || canonical(darter, in_any_order, command) == canonical(redis, in_any_order, command)
    }
}

/// Whether both have the same items in some order. For parts of a whole, only their lengths are compared.
fn is_reordered(darter: &Value, redis: &Value, args: &[&[u8]], command: &Command) -> bool {
    let is_part = args.iter().any(|arg| arg.eq_ignore_ascii_case(b"LIMIT"));
    items_of(darter).len() == items_of(redis).len()
        && (is_part || canonical(darter, true, command) == canonical(redis, true, command))
}

fn is_near(darter: &Value, redis: &Value, tolerance: i64) -> bool {
    match (darter, redis) {
        (Value::Int(darter), Value::Int(redis)) => {
            (*darter < 0) == (*redis < 0) && darter.abs_diff(*redis) <= tolerance.unsigned_abs()
        }
        _ => false,
    }
}

/// The command that the request calls, if it runs one of the scripts, or a function that calls its arguments.
fn called_by_script(request: &Request) -> Option<&[Vec<u8>]> {
    let [name, script, count, rest @ ..] = &request[..] else { return None };
    let is_script =
        name.eq_ignore_ascii_case(b"eval") && SCRIPTS.iter().any(|known| known.as_bytes() == script);
    let is_function = name.eq_ignore_ascii_case(b"fcall") && functions::is_caller(script);
    if !is_script && !is_function {
        return None;
    }
    rest.get(std::str::from_utf8(count).ok()?.parse().ok()?..)
}

fn items_of(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        _ => &[],
    }
}

/// The canonical form of replies that mean the same: sorted if the order is free, numbers in their shortest form.
fn canonical(value: &Value, in_any_order: bool, command: &Command) -> Value {
    let sub = |items: &[Value]| -> Vec<Value> {
        items.iter().map(|item| canonical(item, false, command)).collect()
    };
    match value {
        Value::Array(items) if in_any_order && answers_map(command) && items.len() % 2 == 0 => {
            let mut pairs: Vec<Value> = items.chunks(2).map(|pair| Value::Array(sub(pair))).collect();
            pairs.sort_by_cached_key(Value::to_string);
            Value::Array(pairs)
        }
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            let mut items = sub(items);
            if in_any_order {
                items.sort_by_cached_key(Value::to_string);
            }
            match value {
                Value::Set(_) => Value::Set(items),
                Value::Push(_) => Value::Push(items),
                _ => Value::Array(items),
            }
        }
        Value::Map(pairs) => {
            let mut pairs = pairs.clone();
            pairs.sort_by_cached_key(|(key, _)| key.to_string());
            Value::Map(pairs)
        }
        Value::Bulk(bytes) if command.entry.group == Group::SortedSet => shortest(bytes),
        other => other.clone(),
    }
}

fn answers_map(command: &Command) -> bool {
    matches!(command.entry.reply, engine::Shape::Map(..))
}

/// A number as 7.2 writes it, where 7.0 may write all its 17 digits.
fn shortest(bytes: &[u8]) -> Value {
    let number = std::str::from_utf8(bytes).ok().filter(|text| text.len() >= 17);
    match number.and_then(|text| text.parse::<f64>().ok()) {
        Some(number) => Value::Bulk(DoubleBuffer::new().format(number).as_bytes().to_vec()),
        None => Value::Bulk(bytes.to_vec()),
    }
}

/// Whether both have the same size, and `darter` consists of elements of `whole`, if that is known.
fn is_sample(darter: &Value, redis: &Value, whole: Option<&Value>) -> bool {
    let (mut drawn, mut other, mut known) = (Vec::new(), Vec::new(), Vec::new());
    leaves(darter, &mut drawn);
    leaves(redis, &mut other);
    whole.inspect(|whole| leaves(whole, &mut known));
    let known: BTreeSet<String> = known.into_iter().collect();
    std::mem::discriminant(darter) == std::mem::discriminant(redis)
        && drawn.len() == other.len()
        && (whole.is_none() || drawn.iter().all(|leaf| known.contains(leaf)))
}

pub(crate) fn leaves(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            items.iter().for_each(|item| leaves(item, found));
        }
        Value::Map(pairs) => pairs.iter().for_each(|(key, value)| {
            leaves(key, found);
            leaves(value, found);
        }),
        Value::Null | Value::NullArray => {}
        leaf => found.push(leaf.to_string()),
    }
}

/// The result of an iteration: elements, or pairs of them.
fn walked(value: &Value, command: &Command) -> BTreeSet<String> {
    let step = if matches!(command.entry.name, "hscan" | "zscan") { 2 } else { 1 };
    let text = |item: &Value| canonical(item, false, command).to_string();
    items_of(value).chunks(step).map(|part| part.iter().map(text).collect::<Vec<_>>().join(" => ")).collect()
}

/// The contents of the database: each key with its type, its value in a canonical form, and whether it expires.
pub(crate) fn contents(socket: &mut Socket) -> io::Result<BTreeMap<String, String>> {
    let mut held = BTreeMap::new();
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Request>();
    // SCAN removes expired keys, which KEYS only skips. That also takes them out of the digest.
    socket.call(&words("SCAN 0 COUNT 100000"))?;
    let keys = socket.call(&words("KEYS *"))?;
    for key in items_of(&keys) {
        let Value::Bulk(name) = key else { continue };
        let mut ask = |line: &str| {
            let mut request = words(line);
            // The key comes after the command's name, which for XINFO is two words.
            request.insert(if line.starts_with("XINFO ") { 2 } else { 1 }, name.clone());
            socket.call(&request)
        };
        let kind = ask("TYPE")?.to_string();
        let reply = match &kind[..] {
            "string" => ask("GET")?,
            "list" => ask("LRANGE 0 -1")?,
            "set" => ask("SMEMBERS")?,
            "zset" => ask("ZRANGE 0 -1 WITHSCORES")?,
            "hash" => ask("HGETALL")?,
            "stream" => without_times(&ask("XINFO STREAM FULL COUNT 0")?),
            _ => Value::Null,
        };
        let mut items: Vec<String> =
            items_of(&reply).chunks(if kind == "hash" { 2 } else { 1 }).map(show_all).collect();
        match &kind[..] {
            "set" | "hash" => items.sort(),
            "string" => items.push(reply.to_string()),
            _ => {}
        }
        let expires = ask("PTTL")? != Value::Int(-1);
        held.insert(key.to_string(), format!("{kind} expires: {expires} [{}]", items.join(", ")));
    }
    Ok(held)
}

fn show_all(items: &[Value]) -> String {
    let show = |item: &Value| match item {
        Value::Bulk(bytes) => shortest(bytes).to_string(),
        other => other.to_string(),
    };
    items.iter().map(show).collect::<Vec<_>>().join(" => ")
}
