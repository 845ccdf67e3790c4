//! Everything that a server contains.

use std::collections::BTreeMap;
use std::io;

use resp::Value;
use transcript::{Runner, Socket};

use super::model::{Body, Bytes, Contents, Model, empty_body};
use super::plan::now_ms;

/// The databases that clients use.
pub(crate) const DATABASES: [u32; 3] = [0, 1, 9];
/// Keys that are read at once.
const KEYS_AT_ONCE: usize = 64;

/// The contents of a server, by database.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The keys of each database.
    pub databases: BTreeMap<u32, Model>,
    /// Start and end of the reading, in milliseconds since 1970.
    pub read_ms: (u64, u64),
}

impl Found {
    /// Reads all keys of a server that is not changed meanwhile.
    pub fn read(socket: &mut Socket) -> io::Result<Found> {
        let begin = now_ms();
        let mut databases = BTreeMap::new();
        for db in DATABASES {
            call(socket, &["SELECT", &db.to_string()])?;
            let Value::Array(names) = call(socket, &["KEYS", "*"])? else {
                return Err(strange("KEYS", &Value::Null));
            };
            let names: Vec<String> = names.iter().map(text).collect::<io::Result<_>>()?;
            let mut model = Model::new();
            for names in names.chunks(KEYS_AT_ONCE) {
                read_keys(socket, names, &mut model)?;
            }
            databases.insert(db, model);
        }
        Ok(Found { databases, read_ms: (begin, now_ms()) })
    }

    /// The contents of a key.
    pub fn get(&self, db: u32, key: &str) -> Option<&Contents> {
        self.databases.get(&db)?.get(key)
    }

    /// The items of a list, from its head.
    pub fn list(&self, db: u32, key: &str) -> Vec<Bytes> {
        match self.get(db, key).map(|contents| &contents.body) {
            Some(Body::List(items)) => items.iter().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// The number in a string; 0 if the key has no number.
    pub fn number(&self, db: u32, key: &str) -> u64 {
        match self.get(db, key).map(|contents| &contents.body) {
            Some(Body::Text(text)) => String::from_utf8_lossy(text).parse().unwrap_or(0),
            _ => 0,
        }
    }
}

fn read_keys(socket: &mut Socket, names: &[String], model: &mut Model) -> io::Result<()> {
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let mut requests = Vec::new();
    for name in names {
        requests.push(words(&["PEXPIRETIME", name]));
        requests.push(match empty_body(name) {
            Body::Text(_) => words(&["GET", name]),
            Body::List(_) => words(&["LRANGE", name, "0", "-1"]),
            Body::Hash(_) => words(&["HGETALL", name]),
            Body::Scores(_) => words(&["ZRANGE", name, "0", "-1", "WITHSCORES"]),
            Body::Set(_) => words(&["SMEMBERS", name]),
            Body::Stream(_) => words(&["XRANGE", name, "-", "+"]),
        });
    }
    socket.send(&requests)?;
    for name in names {
        let expires_at = match socket.receive()? {
            Value::Int(-2) => None,
            Value::Int(-1) => Some(None),
            Value::Int(at) => Some(Some(at as u64)),
            other => return Err(strange(name, &other)),
        };
        let body = body(name, socket.receive()?)?;
        // The key has expired if either reply says so.
        if let (Some(expires_at), Some(body)) = (expires_at, body) {
            model.insert(name.clone(), Contents { body, expires_at });
        }
    }
    Ok(())
}

fn body(name: &str, reply: Value) -> io::Result<Option<Body>> {
    let items = match (empty_body(name), reply) {
        (Body::Text(_), Value::Bulk(text)) => return Ok(Some(Body::Text(text))),
        (_, Value::Null | Value::NullArray) => return Ok(None),
        (_, Value::Array(items)) => items,
        (_, other) => return Err(strange(name, &other)),
    };
    let pairs = || {
        items
            .chunks_exact(2)
            .map(|pair| Ok((bytes(&pair[0])?, bytes(&pair[1])?)))
            .collect::<io::Result<Vec<_>>>()
    };
    let members = || items.iter().map(bytes).collect::<io::Result<Vec<Bytes>>>();
    let number = |bytes: &Bytes| String::from_utf8_lossy(bytes).parse::<f64>().unwrap_or(f64::NAN) as i64;
    Ok(Some(match empty_body(name) {
        Body::Text(_) => return Err(strange(name, &Value::Array(items))),
        Body::List(_) => Body::List(members()?.into()),
        Body::Set(_) => Body::Set(members()?.into_iter().collect()),
        Body::Hash(_) => Body::Hash(pairs()?.into_iter().collect()),
        Body::Scores(_) => {
            Body::Scores(pairs()?.into_iter().map(|(member, score)| (member, number(&score))).collect())
        }
        Body::Stream(_) => {
            Body::Stream(items.iter().map(|entry| stream_entry(name, entry)).collect::<io::Result<_>>()?)
        }
    }))
}

/// Parses `[id, [field, value]]`, with an id `n-0`.
fn stream_entry(name: &str, entry: &Value) -> io::Result<(u64, Bytes)> {
    let Value::Array(parts) = entry else { return Err(strange(name, entry)) };
    let [id, Value::Array(fields)] = &parts[..] else { return Err(strange(name, entry)) };
    let id = text(id)?;
    let number = id.strip_suffix("-0").and_then(|id| id.parse().ok());
    let number = number.ok_or_else(|| strange(name, entry))?;
    Ok((number, bytes(fields.last().ok_or_else(|| strange(name, entry))?)?))
}

fn bytes(value: &Value) -> io::Result<Bytes> {
    match value {
        Value::Bulk(bytes) => Ok(bytes.clone()),
        other => Err(strange("an element", other)),
    }
}

fn text(value: &Value) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&bytes(value)?).into_owned())
}

/// Sends words and waits for the reply. An error reply is an error.
pub(crate) fn call(socket: &mut Socket, words: &[&str]) -> io::Result<Value> {
    let request: Vec<Bytes> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    match socket.call(&request)? {
        Value::Error(text) => Err(strange(words[0], &Value::Error(text))),
        value => Ok(value),
    }
}

fn strange(what: &str, value: &Value) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what}: unexpected {value}"))
}
