//! The commands that build a value from scratch: the effect of a command that might have another result when
//! it is replayed.

use ds::zset::ZSetRef;
use engine::Store;
use keyspace::{UnixMs, ValueRef};

/// The most elements that one command adds.
const ELEMENTS_PER_COMMAND_MAX: usize = 64;

/// Records the commands that build the value of `key`, and replace the previous one, as effects: for
/// `Store::changed_with`.
pub fn record(store: &mut Store, key: &[u8]) {
    let Some(record) = store.peek(key) else { return };
    let commands = commands(key, record.value(), record.expiry());
    store.effect(&[b"DEL", key]);
    for command in &commands {
        let args: Vec<&[u8]> = command.iter().map(|arg| &**arg).collect();
        store.effect(&args);
    }
}

/// The commands that create `key`, which must not exist, with this value and this expiry.
pub fn commands(key: &[u8], value: ValueRef<'_>, expiry: Option<UnixMs>) -> Vec<Vec<Box<[u8]>>> {
    let mut buffer = Vec::new();
    let mut commands = match value.expanded(&mut buffer) {
        ValueRef::Compressed(_) => unreachable!("it was expanded"),
        ValueRef::Str(string) => vec![vec![b"SET"[..].into(), key.into(), string.bytes().as_ref().into()]],
        ValueRef::List(list) => {
            chunked(b"RPUSH", key, 1, list.iter(0, false).map(|element| Box::from(&*element)))
        }
        ValueRef::Set(set) => {
            let mut commands = chunked(b"SADD", key, 1, set.iter().map(|member| Box::from(&*member)));
            commands.extend(set.expiries().map(|(member, at_ms)| {
                let at_ms = at_ms.to_string().into_bytes();
                let words: [&[u8]; 6] = [b"SPEXPIREAT", key, &at_ms, b"MEMBERS", b"1", member];
                words.map(Box::from).into()
            }));
            commands
        }
        ValueRef::ZSet(zset) => chunked(b"ZADD", key, 2, scored_members(zset)),
        ValueRef::Hash(hash) => {
            let pairs = hash.iter().flat_map(|(field, value)| [Box::from(field), Box::from(value.bytes())]);
            let mut commands = chunked(b"HSET", key, 2, pairs);
            commands.extend(hash.expiries().map(|(field, at_ms)| {
                let at_ms = at_ms.to_string().into_bytes();
                let words: [&[u8]; 6] = [b"HPEXPIREAT", key, &at_ms, b"FIELDS", b"1", field];
                words.map(Box::from).into()
            }));
            commands
        }
        ValueRef::Stream(stream) => crate::stream::rebuild::commands(key, stream),
        ValueRef::Sketch(_) => {
            let payload = engine::dump::payload(value, true).into();
            vec![vec![b"RESTORE"[..].into(), key.into(), b"0"[..].into(), payload]]
        }
    };
    if let Some(expiry) = expiry {
        commands.push(vec![b"PEXPIREAT"[..].into(), key.into(), expiry.to_string().into_bytes().into()]);
    }
    commands
}

fn scored_members(zset: ZSetRef<'_>) -> impl Iterator<Item = Box<[u8]>> {
    zset.iter().flat_map(|(member, score)| {
        let mut text = Vec::new();
        resp::format_double(score, &mut text);
        [text.into(), member.into_owned().into()]
    })
}

/// Repeats `name key arg …` until all `args` are used; each element takes `args_per_element` of them.
fn chunked(
    name: &[u8],
    key: &[u8],
    args_per_element: usize,
    args: impl Iterator<Item = Box<[u8]>>,
) -> Vec<Vec<Box<[u8]>>> {
    let mut commands: Vec<Vec<Box<[u8]>>> = Vec::new();
    for (index, arg) in args.enumerate() {
        if index % (ELEMENTS_PER_COMMAND_MAX * args_per_element) == 0 {
            commands.push(vec![name.into(), key.into()]);
        }
        commands.last_mut().expect("the first round adds one").push(arg);
    }
    commands
}
