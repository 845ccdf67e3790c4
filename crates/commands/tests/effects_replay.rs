//! A store rebuilt from its effects holds the same data.
//!
//! Random requests, generated from the declared arguments of each command, run against one store. Now and
//! then their effects are run on a second store, at a time long past, and both must have the same digest. So
//! an effect must not depend on the clock or on randomness, or be missing. Commands of every family take part
//! as soon as they are declared. The parts of streams that the digest omits are compared in addition: their
//! groups and counters, but no times.

use std::collections::{BTreeMap, BTreeSet};

use commands::{FAMILIES, keys};
use ds::random::Random;
use engine::{Arg, ArgKind, Client, Command, Group, Local, OwnedEffect, Run};
use resp::{Output, Proto, Value};

const SEEDS: u64 = 8;
const REQUESTS_PER_SEED: usize = 1500;
/// The most requests between two comparisons.
const ROUND_MAX: u64 = 24;
/// Keeps `SETRANGE` and similar commands small.
const STRING_BYTES_MAX: u64 = 2000;
const DB_COUNT: u64 = 2;
const KEY_GROUPS: [&str; 13] = [
    "string",
    "list",
    "hash",
    "set",
    "sorted-set",
    "stream",
    "hyperloglog",
    "geo",
    "bf",
    "cf",
    "cms",
    "topk",
    "tdigest",
];

/// The replies of `DUMP` for a string, for two hashes, one of them with an expired field, and for a stream
/// with a group.
const PAYLOADS: [&[u8]; 4] = [
    b"\x00\x05hello\n\x00cr\xdfve4 \n",
    b"\x10\x11\x11\x00\x00\x00\x04\x00\x81f\x02\x81v\x02\x01\x01\x02\x01\xff\n\x00\x1aM\xf2\x17^\x0b\xff\x9b",
    b"\x18\xe8\x03\0\0\x10\0\0\0\x02\x01\x01f\x01v\0\x01g\x01w\x0a\0\xe1\xb5\x031\xf2+\xcd\x1f",
    b"\x13\x01\x10\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01@RR\0\0\0\x19\0\x02\x01\x01\x01\x02\x01\x85field\x06\
        \x86number\x07\0\x01\x02\x01\0\x01\0\x01\x85value\x06\x0c\x01\x05\x01\x03\x01\0\x01\x01\x01\x85other\
        \x06\xdc\x18\x02\x05\x01\0\x01\x01\x01\xdf\xff\x02\x01\x01\x81a\x02\x81b\x02\x06\x01\xff\x02\x02\0\
        \x01\x01\x01\x02\x03\x01\x01g\x02\0\x03\x03\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01i\x84M\xff\xa1\x01\0\
        \0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02i\x84M\xff\xa1\x01\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\
        \0i\x84M\xff\xa1\x01\0\0\x01\x02\x03onei\x84M\xff\xa1\x01\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\
        \x01\x03twoi\x84M\xff\xa1\x01\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x02\0\0\0\0\
        \0\0\0\0\x0a\0\x188{N\xec\x20\x87\xc9",
];

/// Generates requests.
struct Workload {
    random: Random,
    now: i64,
    /// The value of the argument `numkeys`.
    key_count: Option<u64>,
    /// The value of the argument `numfields`.
    field_count: Option<u64>,
}

impl Workload {
    fn percent(&mut self, chance: u64) -> bool {
        self.random.below(100) < chance
    }

    fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.random.below(choices.len() as u64) as usize]
    }

    fn request(&mut self, command: &Command) -> Vec<Vec<u8>> {
        let mut request: Vec<Vec<u8>> =
            command.full_name.split('|').map(|part| part.as_bytes().to_vec()).collect();
        (self.key_count, self.field_count) = (None, None);
        for arg in command.entry.args {
            self.add(arg, command.entry.group, &mut request);
        }
        request
    }

    fn add(&mut self, arg: &Arg, group: Group, request: &mut Vec<Vec<u8>>) {
        if arg.optional && self.percent(60) {
            return;
        }
        let count = match (arg.multiple, arg.kind) {
            // The same number of ids follows as there are streams: usually one, because all streams must have
            // the group.
            (true, ArgKind::Key) if group == Group::Stream => {
                *self.key_count.insert(1 + self.random.below(5) / 4)
            }
            (true, _) if arg.name == "id" => self.key_count.unwrap_or_else(|| 1 + self.random.below(3)),
            (true, ArgKind::Block) if arg.args[0].kind == ArgKind::Key => {
                self.key_count.take().unwrap_or_else(|| 1 + self.random.below(3))
            }
            (true, ArgKind::Key) => self.key_count.take().unwrap_or_else(|| 1 + self.random.below(3)),
            (true, _) => self.field_count.take().unwrap_or_else(|| 1 + self.random.below(3)),
            (false, _) => 1,
        };
        for index in 0..count {
            if let Some(token) = arg.token
                && (index == 0 || arg.multiple_token)
            {
                request.push(token.into());
            }
            match arg.kind {
                ArgKind::PureToken => {}
                // Use ids that other requests name, too, and that are often larger than the last one.
                ArgKind::OneOf if arg.args[0].name == "auto-id" && self.percent(70) => {
                    request.push(format!("{}-*", 1 + self.random.below(3)).into_bytes());
                }
                ArgKind::OneOf if arg.args[0].name == "auto-id" && self.percent(90) => {
                    request.push(self.string("id"));
                }
                ArgKind::OneOf => {
                    let choice = &arg.args[self.random.below(arg.args.len() as u64) as usize];
                    self.add(choice, group, request);
                }
                ArgKind::Block => arg.args.iter().for_each(|part| self.add(part, group, request)),
                ArgKind::Key => request.push(self.key(group)),
                ArgKind::Integer => request.push(self.integer(arg.name)),
                ArgKind::UnixTime => request.push(self.time(arg.name)),
                ArgKind::Double => request.push(self.double()),
                ArgKind::Pattern => request.push(self.pick(&["*", "*1*", "[a-c]"]).into()),
                ArgKind::String => request.push(self.string(arg.name)),
            }
        }
    }

    /// A key, usually of the command's group, so that types fit; some keys are on the same shard.
    fn key(&mut self, group: Group) -> Vec<u8> {
        let groups = KEY_GROUPS;
        let own = if group == Group::Bitmap { "string" } else { group.name() };
        let group = if groups.contains(&own) && self.percent(90) { own } else { self.pick(&groups) };
        let tag = self.pick(&["", "", "{tag}"]);
        format!("{tag}{group}:{}", self.random.below(3)).into_bytes()
    }

    fn integer(&mut self, name: &str) -> Vec<u8> {
        if name == "numkeys" {
            let count = 1 + self.random.below(3);
            self.key_count = Some(count);
            return count.to_string().into_bytes();
        }
        if matches!(name, "numfields" | "num-members") {
            let count = 1 + self.random.below(3);
            self.field_count = Some(count);
            return count.to_string().into_bytes();
        }
        match self.random.below(20) {
            0 => self.pick(&["9223372036854775807", "-9223372036854775808", "4294967295", "x", ""]).into(),
            1 => self.random.below(5000).to_string().into_bytes(),
            _ => (self.random.below(14) as i64 - 3).to_string().into_bytes(),
        }
    }

    fn time(&mut self, name: &str) -> Vec<u8> {
        let ms = self.now + self.random.below(20_000) as i64 - 2_000;
        let time = if name.contains("milliseconds") { ms } else { ms / 1000 };
        time.to_string().into_bytes()
    }

    fn double(&mut self) -> Vec<u8> {
        self.pick(&["0", "1", "-1.5", "0.1", "3", "1e10", "-0.3", "inf", "-inf", "nan", "x"]).into()
    }

    fn string(&mut self, name: &str) -> Vec<u8> {
        match name {
            "subcommand" => self.pick(&["TODENSE", "GETREG", "DECODE"]).into(),
            "encoding" => self.pick(&["u1", "i5", "u8", "i64", "u63", "i8"]).into(),
            "serialized-value" => self.pick(&PAYLOADS).to_vec(),
            "min" | "max" if self.percent(80) => self.pick(&["-", "+", "(a", "[b", "-inf", "(1", "2"]).into(),
            "min-idle-time" => self.pick(&["0", "0", "100", "x"]).into(),
            "group" => self.pick(&["g", "g", "g", "h"]).into(),
            "consumer" => self.pick(&["alice", "bob"]).into(),
            "threshold" => self.pick(&["0", "3", "5", "2-1"]).into(),
            "start" | "end" if self.percent(30) => self.pick(&["-", "+"]).into(),
            "id" if self.key_count.is_some() && self.percent(60) => b">".into(),
            "id" | "last-id" | "lastid" | "max-deleted-id" | "start" | "end" => {
                let special = self.pick(&["0", "$", ">", ">", "9-*"]);
                let id = format!("{}-{}", 1 + self.random.below(3), self.random.below(5));
                if self.percent(25) { special.into() } else { id.into_bytes() }
            }
            _ if self.percent(3) => vec![b'x'; 100],
            _ => self.pick(&["a", "b", "c", "1", "2", "-7", "1.5", "", "value", "\0\u{ff}", "10"]).into(),
        }
    }
}

fn store() -> Local {
    let mut local = Local::new(&[FAMILIES, sketching::FAMILIES].concat());
    local.config.string_bytes_max = STRING_BYTES_MAX;
    local
}

/// The digest of `local` at the time `now`.
fn digest_at(local: &mut Local, now: i64) -> keys::digest::Digest {
    let before = std::mem::replace(&mut local.now, now);
    let digest = local.with_store(Client::internal(0, Proto::Resp2), |store| keys::digest::digest(store));
    local.now = before;
    digest
}

/// The content of a shard, by database and key; `None`: time is about to change it.
type Contents = BTreeMap<(u32, Vec<u8>), Option<keys::digest::Digest>>;

/// The content of each shard of `local`, and the slice of the last record that noted a change there.
fn shards_of(local: &mut Local) -> Vec<(Contents, u64)> {
    let mut shards: Vec<(Contents, u64)> = Vec::new();
    for db in 0..DB_COUNT as u32 {
        local.with_store(Client::internal(db, Proto::Resp2), |store| {
            for (index, id) in store.entered().into_iter().enumerate() {
                let shard = store.tx.hold.shard(id);
                if shards.len() <= index {
                    shards.push((BTreeMap::new(), shard.last_slice.get()));
                }
                for record in shard.dbs[db as usize].iter() {
                    let is_due = record.value().first_element_expiry().is_some_and(|at| at < store.now());
                    let digest = keys::digest::digest_value(store, record.key());
                    if digest != keys::digest::Digest::default() {
                        shards[index].0.insert((db, record.key().to_vec()), (!is_due).then_some(digest));
                    }
                }
            }
        });
    }
    shards
}

/// The parts of the streams of `local`, at the time `now`, that the digest omits.
fn streams_at(local: &mut Local, now: i64) -> Vec<Value> {
    let before = std::mem::replace(&mut local.now, now);
    let mut found = Vec::new();
    for (db, tag, number) in (0..DB_COUNT as u32)
        .flat_map(|db| ["", "{tag}"].map(|tag| (db, tag)))
        .flat_map(|(db, tag)| (0..3).map(move |number| (db, tag, number)))
    {
        for group in KEY_GROUPS {
            let key = format!("{tag}{group}:{number}");
            let request: [&[u8]; 6] = [b"XINFO", b"STREAM", key.as_bytes(), b"FULL", b"COUNT", b"0"];
            let mut out = Output::new();
            local.run(Client::internal(db, Proto::Resp3), &request, &mut (), &mut out);
            let reply = resp::decode(&out.to_vec()).expect("well-formed").expect("complete").0;
            found.push(without_times(reply));
        }
    }
    local.now = before;
    found
}

/// The reply of `XINFO STREAM` without times and the data about nodes.
fn without_times(reply: Value) -> Value {
    match reply {
        Value::Map(pairs) => {
            let is_kept = |name: &Value| {
                let name = name.to_string();
                !name.contains("-time") && !name.contains("radix")
            };
            let kept = pairs.into_iter().filter(|(name, _)| is_kept(name));
            Value::Map(kept.map(|(name, value)| (name, without_times(value))).collect())
        }
        Value::Array(mut items) => {
            // A pending entry ends with the time and the number of its deliveries.
            if let [Value::Bulk(_), .., Value::Int(_), Value::Int(_)] = items[..] {
                items.remove(items.len() - 2);
            }
            Value::Array(items.into_iter().map(without_times).collect())
        }
        other => other,
    }
}

fn shown(db: u32, request: &[impl AsRef<[u8]>]) -> String {
    let words = request.iter().map(|word| format!(" \"{}\"", word.as_ref().escape_ascii()));
    format!("[{db}]{}", words.collect::<String>())
}

fn fail(seed: u64, problem: &str, requests: &[String], effects: &[String]) -> ! {
    let (requests, effects) = (requests.join("\n"), effects.join("\n"));
    panic!("seed {seed}: {problem}\n{requests}\neffects:\n{effects}");
}

/// Whether a shard changed from `before` to `after`, but a reader there would not wait for the change.
fn hides_a_change(before: Vec<(Contents, u64)>, after: Vec<(Contents, u64)>) -> bool {
    before.into_iter().zip(after).any(|((was, last_slice), (is, slice))| {
        let differs = |(key, digest): (_, &Option<_>)| digest.is_some() && is.get(key) != Some(digest);
        let is_changed = was.iter().any(differs) || is.keys().any(|key| !was.contains_key(key));
        is_changed && last_slice == slice
    })
}

/// Runs the commands for which `takes_part` returns true, and `always` again and again. Adds those that had
/// effects to `noted`.
fn run(seed: u64, always: &[&str], noted: &mut BTreeSet<String>, takes_part: impl Fn(&Command) -> bool) {
    let (mut original, mut replayed) = (store(), store());
    original.record_effects();
    replayed.now = 0;
    let mut workload =
        Workload { random: Random::new(seed), now: original.now, key_count: None, field_count: None };
    let names: Vec<String> = original
        .table()
        .all()
        .iter()
        .filter(|command| matches!(command.entry.run, Run::Function(_)) && takes_part(command))
        .map(|command| command.full_name.clone())
        .collect();
    let mut done = 0;
    while done < REQUESTS_PER_SEED {
        let mut round = Vec::new();
        let mut effects: Vec<OwnedEffect> = Vec::new();
        for line in always {
            original.line(line);
            round.push((*line).to_owned());
        }
        for _ in 0..=workload.random.below(ROUND_MAX) {
            let name = &names[workload.random.below(names.len() as u64) as usize];
            if ["flushall", "flushdb"].contains(&&**name) && workload.percent(80) {
                continue;
            }
            let command = original.table().by_full_name(name.as_bytes()).expect("it is listed");
            let request = workload.request(command);
            let db = if workload.percent(10) { workload.random.below(DB_COUNT) as u32 } else { 0 };
            round.push(shown(db, &request));
            let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            let mut out = Output::new();
            let before = workload.percent(20).then(|| shards_of(&mut original));
            original.run(Client::internal(db, Proto::Resp2), &args, &mut (), &mut out);
            if before.is_some_and(|before| hides_a_change(before, shards_of(&mut original))) {
                fail(seed, "a shard was changed, and who reads there does not wait", &round, &[]);
            }
            let had = original.take_effects();
            if !had.is_empty() {
                noted.insert(name.clone());
            }
            effects.extend(had);
            if workload.percent(20) {
                original.now += workload.random.below(1500) as i64;
                workload.now = original.now;
            }
        }
        done += round.len();
        original.outbox.clear();
        let replayed_effects: Vec<String> =
            effects.iter().map(|effect| shown(effect.db, &effect.args)).collect();
        if let Err(error) = replayed.replay(&effects) {
            fail(seed, &error.to_string(), &round, &replayed_effects);
        }
        let now = original.now;
        if digest_at(&mut original, now) != digest_at(&mut replayed, now) {
            fail(seed, "the digests differ", &round, &replayed_effects);
        }
        for (ours, theirs) in streams_at(&mut original, now).into_iter().zip(streams_at(&mut replayed, now)) {
            if ours != theirs {
                fail(seed, &format!("{ours}\nbecame\n{theirs}"), &round, &replayed_effects);
            }
        }
    }
}

/// The families whose commands need each other to have effects.
const FAMILIES_ALONE: [Group; 11] = [
    Group::Generic,
    Group::Geo,
    Group::Hash,
    Group::List,
    Group::Set,
    Group::SortedSet,
    Group::Bloom,
    Group::Cuckoo,
    Group::CountMin,
    Group::TopK,
    Group::TDigest,
];

#[test]
fn effects_replay() {
    let mut noted = BTreeSet::new();
    for seed in 0..SEEDS {
        run(seed, &[], &mut noted, |_| true);
        for group in FAMILIES_ALONE {
            let makes_keys = |command: &Command| ["zadd", "hset", "hexpire"].contains(&command.entry.name);
            run(seed, &[], &mut noted, |command| command.entry.group == group || makes_keys(command));
        }
    }
    run_streams(&mut noted);
    let local = store();
    let writes = local.table().all().iter().filter(|command| command.is_write());
    let missing: Vec<&str> = writes
        .filter(|command| {
            matches!(command.entry.run, Run::Function(_)) && !noted.contains(&command.full_name)
        })
        .map(|command| &*command.full_name)
        .collect();
    assert!(missing.is_empty(), "these write commands never had an effect: {missing:?}");
}

#[test]
fn who_reads_waits_only_for_what_was_written() {
    let mut local = store();
    local.record_effects();
    for (line, key, is_written) in [
        ("SADD from a b", "from", true),
        ("SADD also b c", "also", true),
        ("SINTERSTORE to from also", "to", true),
        ("SINTERSTORE to from also", "from", false),
        ("SINTERSTORE to from also", "also", false),
        ("RENAME from other", "from", true),
        ("RENAME other from", "from", true),
        ("RPUSH list a b", "list", true),
        ("LMOVE list to2 LEFT LEFT", "list", true),
        ("LMOVE list to2 LEFT LEFT", "to2", true),
        ("SCARD from", "from", false),
        ("FLUSHALL", "from", true),
    ] {
        let slice = |local: &mut Local| {
            local.with_store(Client::internal(0, Proto::Resp2), |store| {
                let (id, _) = store.locate(key.as_bytes());
                store.tx.hold.shard(id).last_slice
            })
        };
        let before = slice(&mut local);
        local.line(line);
        assert_eq!(slice(&mut local) > before, is_written, "{line}: {key}");
        if key == "list" && line.starts_with("LMOVE") {
            local.line("RPUSH list c");
        }
    }
}

/// Runs only commands of streams, and some on keys: it takes several of them to get pending entries.
fn run_streams(noted: &mut BTreeSet<String>) {
    for seed in 0..SEEDS * 8 {
        let always = ["stream:0", "stream:1", "{tag}stream:0", "{tag}stream:1"]
            .map(|key| format!("XGROUP CREATE {key} g 0 MKSTREAM"));
        run(seed, &always.each_ref().map(String::as_str), noted, |command| {
            command.entry.group == Group::Stream
                || ["copy", "del", "move", "rename"].contains(&command.entry.name)
        });
    }
}
