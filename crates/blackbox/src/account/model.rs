//! The contents of one client's keys, as far as the client knows: a small model of the server's data.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A string of the client's.
pub type Bytes = Vec<u8>;

/// A value by its type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// A string.
    Text(Bytes),
    /// A list, from its head.
    List(VecDeque<Bytes>),
    /// The fields of a hash.
    Hash(BTreeMap<Bytes, Bytes>),
    /// The members of a sorted set, with whole numbers as scores.
    Scores(BTreeMap<Bytes, i64>),
    /// The members of a set.
    Set(BTreeSet<Bytes>),
    /// The entries of a stream, by the first part of their ids. The second part is 0.
    Stream(BTreeMap<u64, Bytes>),
}

/// The contents of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contents {
    /// The value.
    pub body: Body,
    /// When it expires, in milliseconds since 1970.
    pub expires_at: Option<u64>,
}

/// Keys and their contents.
pub type Model = BTreeMap<String, Contents>;

/// An empty value of the key's type, which never changes: the letter after the last colon names it.
pub(crate) fn empty_body(key: &str) -> Body {
    match key.rsplit(':').next().unwrap_or_default().as_bytes().first() {
        Some(b'l') => Body::List(VecDeque::new()),
        Some(b'h') => Body::Hash(BTreeMap::new()),
        Some(b'z') => Body::Scores(BTreeMap::new()),
        Some(b't') => Body::Set(BTreeSet::new()),
        Some(b'x') => Body::Stream(BTreeMap::new()),
        _ => Body::Text(Vec::new()),
    }
}

impl Body {
    /// Whether the key has disappeared: collections disappear with their last element, strings and streams do
    /// not.
    fn is_gone(&self) -> bool {
        match self {
            Body::Text(_) | Body::Stream(_) => false,
            Body::List(items) => items.is_empty(),
            Body::Hash(fields) => fields.is_empty(),
            Body::Scores(members) => members.is_empty(),
            Body::Set(members) => members.is_empty(),
        }
    }

    /// Number of elements; 1 for a string.
    pub(crate) fn count(&self) -> usize {
        match self {
            Body::Text(_) => 1,
            Body::List(items) => items.len(),
            Body::Hash(fields) => fields.len(),
            Body::Scores(members) => members.len(),
            Body::Set(members) => members.len(),
            Body::Stream(entries) => entries.len(),
        }
    }
}

/// Changes the value of a key. Creates the key if it is missing, and removes it if nothing is left.
pub(crate) fn change<T>(model: &mut Model, key: &str, make: impl FnOnce(&mut Body) -> T) -> T {
    let empty = || Contents { body: empty_body(key), expires_at: None };
    let contents = model.entry(key.to_owned()).or_insert_with(empty);
    let made = make(&mut contents.body);
    if contents.body.is_gone() {
        model.remove(key);
    }
    made
}

/// A value for display, truncated.
pub(crate) fn shown(contents: Option<&Contents>) -> String {
    let Some(Contents { body, expires_at }) = contents else { return "nothing".to_owned() };
    let text = |bytes: &Bytes| {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
        if bytes.len() > 40 { format!("{text}… ({} bytes)", bytes.len()) } else { text }
    };
    let pairs = |items: Vec<String>| format!("{} of [{}]", items.len(), items.join(" "));
    let body = match body {
        Body::Text(bytes) => text(bytes),
        Body::List(items) => pairs(items.iter().map(text).collect()),
        Body::Set(members) => pairs(members.iter().map(text).collect()),
        Body::Hash(fields) => pairs(fields.iter().map(|(f, v)| format!("{}={}", text(f), text(v))).collect()),
        Body::Scores(members) => pairs(members.iter().map(|(m, s)| format!("{}={s}", text(m))).collect()),
        Body::Stream(entries) => pairs(entries.iter().map(|(id, v)| format!("{id}={}", text(v))).collect()),
    };
    match expires_at {
        Some(at) => format!("{body}, until {at}"),
        None => body,
    }
}
