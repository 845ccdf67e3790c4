//! Darter and the oracle side by side: both start with an empty store and get the same requests.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use engine::Table;
use resp::Value;
use transcript::{Runner, Socket};

use crate::compare::{Comparison, contents};
use crate::generate::{Batch, Request, is_iteration, value_count};
use crate::server::Server;
use crate::shapes::Shapes;

/// The databases that random requests may select.
const DATABASES: [&str; 4] = ["0", "1", "2", "15"];
/// Settings for both servers, so that short runs cover both forms of a HyperLogLog, and the memory limit of an aborted batch
/// is removed.
const SETTING: [&str; 6] = ["CONFIG", "SET", "hll-sparse-max-bytes", "300", "maxmemory", "0"];
/// If Darter is started with this option, it compresses all hashes that it can between two batches.
pub const COMPRESSES_HASHES: &str = "--hash-compress-bytes-min=1";
/// The name in [`Answered`] that counts compressed hashes.
pub const HASHES_COMPRESSED: &str = "hashes compressed";
/// Most steps of an iteration with a cursor, far more than the data needs.
const WALK_STEPS_MAX: usize = 100_000;

/// Two servers that should give the same replies.
#[derive(Debug)]
pub struct Pair<'a> {
    /// The server under test. If it dies, it is restarted, so that the sequence that killed it can be shrunk.
    pub darter: RefCell<Server>,
    /// The options that it is started with.
    pub options: &'a [&'a str],
    /// The reference server.
    pub redis: &'a Server,
    /// Darter's commands.
    pub table: &'a Table,
}

/// The first difference.
#[derive(Clone, PartialEq, Debug)]
pub struct Mismatch {
    /// The command with the difference, or `contents` for the stores at the end.
    pub command: String,
    /// The actual and the expected reply.
    pub text: String,
    /// Number of batches that had been sent.
    pub batches: usize,
}

/// How often each command was answered without an error.
pub type Answered = BTreeMap<String, u64>;

impl Pair<'_> {
    /// Sends `batches` to both on new connections. Compares every reply and, at the end, the data.
    pub fn play(&self, resp3: bool, batches: &[Batch]) -> Result<Answered, Mismatch> {
        let broken = |batches: usize| {
            move |error: io::Error| {
                let log = self.darter.borrow().log_end();
                let text = format!("{error}\n{log}");
                Mismatch { command: "connection".to_owned(), text, batches }
            }
        };
        let mut darter = self.reach_darter().map_err(broken(0))?;
        let mut redis = self.redis.connect().map_err(broken(0))?;
        darter.begin(resp3).map_err(broken(0))?;
        redis.begin(resp3).map_err(broken(0))?;
        for server in [&mut darter, &mut redis] {
            server.call(&SETTING.map(|word| word.as_bytes().to_vec())).map_err(broken(0))?;
        }
        let mut comparison = Comparison::new(self.table);
        let mut shapes = Shapes::new(resp3);
        let compresses = self.options.contains(&COMPRESSES_HASHES);
        let mut aside =
            if compresses { Some(self.darter.borrow().connect().map_err(broken(0))?) } else { None };
        for (index, batch) in batches.iter().enumerate() {
            let lost = |name: &'static str| {
                move |error: io::Error| {
                    let sent: Vec<String> = batch.requests.iter().map(shown).collect();
                    let log = self.darter.borrow().log_end();
                    let text = format!("> {}\n{name}: {error}\n{log}", sent.join("\n> "));
                    Mismatch { command: name.to_owned(), text, batches: index + 1 }
                }
            };
            if let Some(aside) = &mut aside {
                let reply = aside.call(&[b"DEBUG".to_vec(), b"COMPRESS-HASHES".to_vec()]);
                if let Value::Int(count @ 1..) = reply.map_err(lost("DEBUG COMPRESS-HASHES"))? {
                    *comparison.answered.entry(HASHES_COMPRESSED.to_owned()).or_default() += count as u64;
                }
            }
            if batch.is_pipelined {
                darter.send(&batch.requests).map_err(lost("darter"))?;
                redis.send(&batch.requests).map_err(lost("redis"))?;
            }
            let from_darter = self.replies(&mut darter, batch).map_err(lost("darter"))?;
            let from_redis = self.replies(&mut redis, batch).map_err(lost("redis"))?;
            for (request, (darter, redis)) in batch.requests.iter().zip(from_darter.iter().zip(&from_redis)) {
                let mismatch = |command, text| Mismatch { command, text, batches: index + 1 };
                comparison.compare(request, darter, redis).map_err(|command| {
                    mismatch(command, format!("> {}\ndarter: {darter}\nredis:  {redis}", shown(request)))
                })?;
                shapes.check(request, darter).map_err(|text| mismatch("shape".to_owned(), text))?;
            }
        }
        drop((darter, redis));
        self.same_data().map_err(broken(batches.len()))?.map_err(|text| Mismatch {
            command: "contents".to_owned(),
            text,
            batches: batches.len(),
        })?;
        Ok(comparison.answered)
    }

    /// A connection to Darter, which is restarted if it has died.
    fn reach_darter(&self) -> io::Result<Socket> {
        if !self.darter.borrow_mut().is_running()? {
            self.darter.replace(Server::darter(self.options).map_err(io::Error::other)?);
        }
        self.darter.borrow().connect()
    }

    /// The replies to a batch. A pipelined batch has been sent already; the others are sent here.
    fn replies(&self, socket: &mut Socket, batch: &Batch) -> io::Result<Vec<Value>> {
        if batch.is_pipelined {
            return batch.requests.iter().map(|request| self.receive(socket, request)).collect();
        }
        batch.requests.iter().map(|request| self.call(socket, request)).collect()
    }

    /// The reply to `request`. If there are several, an array of them.
    fn receive(&self, socket: &mut Socket, request: &Request) -> io::Result<Value> {
        let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        match value_count(self.table.resolve(&args).ok(), request) {
            0 | 1 => socket.receive(),
            count => {
                let first = socket.receive()?;
                if matches!(&first, Value::Error(_)) || first == Value::Simple(b"QUEUED".to_vec()) {
                    return Ok(first);
                }
                let rest = (1..count).map(|_| socket.receive());
                std::iter::once(Ok(first)).chain(rest).collect::<io::Result<_>>().map(Value::Array)
            }
        }
    }

    /// Sends one request. An iteration with a cursor is continued to its end.
    fn call(&self, socket: &mut Socket, request: &Request) -> io::Result<Value> {
        let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        let cursor = match self.table.resolve(&args) {
            Ok(command) if is_iteration(command) => 1 + command.entry.keys.len(),
            _ => {
                socket.send(std::slice::from_ref(request))?;
                return self.receive(socket, request);
            }
        };
        let mut request = request.clone();
        let mut met = Vec::new();
        for _ in 0..WALK_STEPS_MAX {
            let reply = socket.call(&request)?;
            let Value::Array(parts) = reply else { return Ok(reply) };
            let [Value::Bulk(next), Value::Array(items)] = &parts[..] else { return Ok(Value::Array(parts)) };
            met.extend_from_slice(items);
            if next == b"0" {
                return Ok(Value::Array(vec![Value::Bulk(next.clone()), Value::Array(met)]));
            }
            request[cursor].clone_from(next);
        }
        Err(io::Error::other("a walk without end"))
    }

    /// Checks that both stores have the same data. The error is the difference.
    fn same_data(&self) -> io::Result<Result<(), String>> {
        let (mut darter, mut redis) = (self.darter.borrow().connect()?, self.redis.connect()?);
        for db in DATABASES {
            let select = [b"SELECT".to_vec(), db.as_bytes().to_vec()];
            darter.call(&select)?;
            redis.call(&select)?;
            let (ours, theirs) = (contents(&mut darter)?, contents(&mut redis)?);
            for key in ours.keys().chain(theirs.keys()) {
                let (ours, theirs) = (ours.get(key), theirs.get(key));
                if ours != theirs {
                    let show = |held: Option<&String>| held.map_or("nothing", String::as_str).to_owned();
                    let (ours, theirs) = (show(ours), show(theirs));
                    return Ok(Err(format!("database {db}, key {key}:\ndarter: {ours}\nredis:  {theirs}")));
                }
            }
        }
        let digest = [b"DEBUG".to_vec(), b"DIGEST".to_vec()];
        let (ours, theirs) = (darter.call(&digest)?, redis.call(&digest)?);
        if ours != theirs {
            return Ok(Err(format!("DEBUG DIGEST\ndarter: {ours}\nredis:  {theirs}")));
        }
        Ok(Ok(()))
    }

    /// A shorter sequence that fails at the same command, found within `plays_max` attempts.
    pub fn shrink(
        &self,
        resp3: bool,
        mut batches: Vec<Batch>,
        command: &str,
        plays_max: usize,
    ) -> Vec<Batch> {
        let mut plays_left = plays_max;
        let mut still_fails = |candidate: &[Batch]| {
            if plays_left == 0 {
                return false;
            }
            plays_left -= 1;
            self.play(resp3, candidate).is_err_and(|mismatch| mismatch.command == command)
        };
        drop_parts(&mut batches, &mut still_fails);
        for batch in 0..batches.len() {
            let mut request = 0;
            while request < batches[batch].requests.len() {
                let mut candidate = batches.clone();
                candidate[batch].requests.remove(request);
                if still_fails(&candidate) {
                    batches = candidate;
                } else {
                    request += 1;
                }
            }
        }
        let mut single: Vec<Batch> = batches
            .iter()
            .flat_map(|batch| &batch.requests)
            .map(|request| Batch { requests: vec![request.clone()], is_pipelined: false })
            .collect();
        if still_fails(&single) {
            drop_parts(&mut single, &mut still_fails);
            batches = single;
        }
        batches
    }

    /// The sequence as a block of a transcript, with the oracle's replies.
    pub fn transcript(&self, resp3: bool, batches: &[Batch]) -> io::Result<String> {
        let mut redis = self.redis.connect()?;
        redis.begin(resp3)?;
        let mut text = String::from(if resp3 { "! resp3\n" } else { "" });
        for batch in batches {
            for request in &batch.requests {
                let reply = self.call(&mut redis, request)?;
                text.push_str(&format!("> {}\n{reply}\n", shown(request)));
            }
        }
        Ok(text)
    }
}

/// Removes parts of `items`, large ones first, as long as it still fails.
fn drop_parts(items: &mut Vec<Batch>, still_fails: &mut impl FnMut(&[Batch]) -> bool) {
    let mut part = items.len().div_ceil(2);
    while part > 0 {
        let mut start = 0;
        while start < items.len() {
            let end = (start + part).min(items.len());
            let candidate: Vec<Batch> = [&items[..start], &items[end..]].concat();
            if still_fails(&candidate) {
                *items = candidate;
            } else {
                start = end;
            }
        }
        part /= 2;
    }
}

/// A request as in a transcript: quoted only where necessary.
fn shown(request: &Request) -> String {
    let plain = |arg: &&Vec<u8>| !arg.is_empty() && arg.iter().all(|byte| byte.is_ascii_graphic());
    let quoted = |arg: &Vec<u8>| match Some(arg).filter(plain).and_then(|arg| std::str::from_utf8(arg).ok()) {
        Some(text) if !text.contains(['"', '\'', '\\']) => text.to_owned(),
        _ => Value::Bulk(arg.clone()).to_string(),
    };
    request.iter().map(quoted).collect::<Vec<_>>().join(" ")
}
