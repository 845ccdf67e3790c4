//! The next step of a client: random changes of its own keys, which must be applied completely or not at all.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use ds::random::Random;

use super::deed::Deed;
use super::model::{Body, Bytes, Model};

/// Names, after the client's prefix, of the keys that are created again whenever they have expired: a counter and a list.
const MORTAL: [&str; 2] = ["e1", "l2"];
/// From this size on, more elements of a collection are removed than added.
const ELEMENTS_MANY: usize = 24;
/// Runs the commands in its arguments, each preceded by its length.
const SCRIPT: &str = "local i = 1 while i <= #ARGV do local n = tonumber(ARGV[i]) \
                      redis.call(unpack(ARGV, i + 1, i + n)) i = i + n + 1 end return 'OK'";

/// How the commands of a step are made atomic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// There is only one command.
    Alone,
    /// `MULTI` … `EXEC`.
    Transaction,
    /// A script.
    Script {
        /// Whether its keys are declared.
        declared: bool,
    },
}

/// An atomic step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Its commands, in order.
    pub deeds: Vec<Deed>,
    /// How they are sent.
    pub form: Form,
}

impl Step {
    /// The requests. The reply to the last one is the acknowledgement.
    pub fn requests(&self) -> Vec<Vec<Bytes>> {
        let word = |word: &str| word.as_bytes().to_vec();
        let deeds = self.deeds.iter().map(Deed::request);
        match self.form {
            Form::Alone => deeds.collect(),
            Form::Transaction => {
                let (first, last) = (vec![word("MULTI")], vec![word("EXEC")]);
                std::iter::once(first).chain(deeds).chain(std::iter::once(last)).collect()
            }
            Form::Script { declared } => {
                let keys: BTreeSet<&str> = self.deeds.iter().flat_map(Deed::keys).collect();
                let keys: Vec<&str> = keys.into_iter().filter(|_| declared).collect();
                let mut request = vec![word("EVAL"), word(SCRIPT), word(&keys.len().to_string())];
                request.extend(keys.into_iter().map(word));
                for deed in deeds {
                    request.push(word(&deed.len().to_string()));
                    request.extend(deed);
                }
                vec![request]
            }
        }
    }

    /// Applies the step to the model.
    pub fn apply(&self, model: &mut Model) {
        self.deeds.iter().for_each(|deed| deed.apply(model));
    }
}

/// Makes steps for one client.
#[derive(Debug)]
pub struct Planner {
    /// Prefix of its keys.
    name: String,
    /// Whether it has a database of its own, which it flushes now and then.
    flushes: bool,
    /// Number of commands that it has made, so that no value occurs twice.
    number: u64,
    /// The contents of its keys after all steps that it has made.
    ahead: Model,
}

impl Planner {
    /// The planner of the client `name`.
    pub fn new(name: &str, flushes: bool) -> Planner {
        Planner { name: name.to_owned(), flushes, number: 0, ahead: Model::new() }
    }

    /// Continues from the data that was found on a server.
    pub fn resume(&mut self, model: &Model) {
        self.ahead.clone_from(model);
    }

    /// The next step.
    pub fn step(&mut self, random: &mut Random) -> Step {
        if self.flushes && random.below(60) == 0 {
            self.ahead.clear();
            return Step { deeds: vec![Deed::Flush], form: Form::Alone };
        }
        let form = match random.below(10) {
            0..6 => Form::Alone,
            6..8 => Form::Transaction,
            8 => Form::Script { declared: true },
            _ => Form::Script { declared: false },
        };
        let count = if form == Form::Alone { 1 } else { 2 + random.below(5) };
        let mut deeds: Vec<Deed> = (0..count).map(|_| self.deed(random)).collect();
        // Other clients read the number of atomic steps, and must never see a step that is then lost.
        if form != Form::Alone {
            let deed = Deed::Increment(version_key(&self.name), 1);
            deed.apply(&mut self.ahead);
            deeds.push(deed);
        }
        Step { deeds, form }
    }

    fn key(&self, kind: &str) -> String {
        format!("{}:{kind}", self.name)
    }

    /// One command that can run now, already applied to the model.
    fn deed(&mut self, random: &mut Random) -> Deed {
        self.number += 1;
        let deed = match random.below(13) {
            0..3 => self.string(random),
            3..5 => self.list(random),
            11 => self.expiry(random),
            12 => self.mortal(random),
            _ => self.member(random),
        };
        deed.apply(&mut self.ahead);
        deed
    }

    /// A value that was never sent before. One in forty is large.
    fn value(&self, random: &mut Random) -> Bytes {
        let mut value = format!("{}-{}-", self.name, self.number).into_bytes();
        let padding = match random.below(40) {
            0 => random.below(60_000),
            1..8 => random.below(700),
            _ => random.below(20),
        };
        value.extend((0..padding).map(|at| b'a' + ((self.number + at) % 26) as u8));
        value
    }

    fn string(&self, random: &mut Random) -> Deed {
        let key = self.key(["s0", "s1", "s2"][random.below(3) as usize]);
        match random.below(9) {
            0..4 => Deed::Set(key, self.value(random)),
            4 | 5 => Deed::Increment(self.key("n0"), 1 + random.below(9) as i64),
            6 => Deed::SetUntil(self.key("e0"), self.value(random), now_ms() + 20 + random.below(3000)),
            7 => Deed::Delete(vec![key, self.key("h0"), self.key("e0"), self.key("x0")]),
            _ if self.ahead.contains_key(&key) => Deed::Rename(key, self.key("s3")),
            _ => Deed::Set(key, self.value(random)),
        }
    }

    fn list(&self, random: &mut Random) -> Deed {
        let (key, other) = (self.key("l0"), self.key("l1"));
        let (key, other) = if random.below(2) == 0 { (key, other) } else { (other, key) };
        let is_full = self.count(&key) > ELEMENTS_MANY;
        match random.below(7) {
            0 | 1 if !is_full => Deed::PushHead(key, self.value(random)),
            2 | 3 if !is_full => Deed::PushTail(key, self.value(random)),
            4 => Deed::Move(key, other),
            5 => Deed::PopTail(key),
            _ => Deed::PopHead(key),
        }
    }

    fn member(&self, random: &mut Random) -> Deed {
        let name = format!("m{}", random.below(ELEMENTS_MANY as u64)).into_bytes();
        match random.below(9) {
            0 | 1 => Deed::SetField(self.key("h0"), name, self.value(random)),
            2 => Deed::DeleteField(self.key("h0"), name),
            3 => Deed::SetScore(self.key("z0"), name, random.below(1 << 40) as i64),
            4 => Deed::RemoveScore(self.key("z0"), name),
            5 => Deed::Add(self.key("t0"), name),
            6 => Deed::Remove(self.key("t0"), name),
            7 if self.count(&self.key("x0")) > ELEMENTS_MANY => Deed::Trim(self.key("x0"), self.number - 9),
            _ => Deed::Append(self.key("x0"), self.number, self.value(random)),
        }
    }

    fn expiry(&self, random: &mut Random) -> Deed {
        let key = self.key(["s0", "l0", "h0", "z0", "x0"][random.below(5) as usize]);
        if random.below(3) == 0 {
            return Deed::Persist(key);
        }
        Deed::Expire(key, now_ms() + 1_000_000_000 + self.number)
    }

    /// Changes a key that is to expire soon, and does not touch it from then on, because its contents cannot be
    /// predicted.
    fn mortal(&self, random: &mut Random) -> Deed {
        let name = MORTAL[random.below(2) as usize];
        let key = self.key(name);
        let expires_at = self.ahead.get(&key).map(|contents| contents.expires_at);
        match (expires_at, name) {
            (Some(Some(_)), _) => Deed::Increment(self.key("n0"), 1),
            (Some(None), _) if random.below(3) == 0 => Deed::Expire(key, now_ms() + random.below(100)),
            (_, "e1") => Deed::Increment(key, 1 + random.below(9) as i64),
            _ => Deed::PushTail(key, self.value(random)),
        }
    }

    /// The command for a key that should have expired. The server decides whether it has.
    pub fn due(&self) -> Option<Deed> {
        let now_ms = now_ms();
        let is_due = |key: &String| {
            self.ahead.get(key).and_then(|contents| contents.expires_at).is_some_and(|at| at <= now_ms)
        };
        MORTAL.map(|name| self.key(name)).into_iter().find(is_due).map(Deed::SeeExpired)
    }

    /// Records a command that was done outside the steps.
    pub fn note(&mut self, deed: &Deed) {
        deed.apply(&mut self.ahead);
    }

    fn count(&self, key: &str) -> usize {
        self.ahead.get(key).map_or(0, |contents| match &contents.body {
            Body::Text(_) => 1,
            body => body.count(),
        })
    }
}

/// The key that counts the atomic steps of client `name`.
pub(crate) fn version_key(name: &str) -> String {
    format!("{name}:v")
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
