//! A store that runs the commands of this crate on one thread and records the changes, and a second store
//! that applies them, as a replica does.

use engine::{Client, CommandResult, Host, Keys, Local, Outcome, OwnCall, function_of};
use jobs::queues::{Entry, Label, Progress, QueueWork};
use resp::{Output, Proto, Value};

/// The thread of a client. Each read of its clock takes a while.
pub(crate) struct Thread {
    now_ns: u64,
    pub(crate) tick_ns: u64,
    progress: Option<Box<Progress>>,
    pub(crate) slices: usize,
    /// A key that the client may not change.
    pub(crate) forbidden: Option<String>,
}

impl Host for Thread {
    fn run_own(&mut self, call: OwnCall<'_, '_>) -> CommandResult {
        let forbidden = self.forbidden.as_deref().map(str::as_bytes);
        let mut work = QueueWork {
            progress: Some(&mut self.progress),
            goes_on_with: None,
            label: &|_| Label::default(),
            may_change: &|_, _, keys| forbidden.is_none_or(|forbidden| Keys::One(forbidden) != keys),
            now_ns: &mut || {
                self.now_ns += self.tick_ns;
                self.now_ns
            },
        };
        function_of(jobs::queues::ENTRIES, call.command)(&mut call.on(&mut work))
    }
}

/// A store that records, its thread, and a store that follows it.
pub(crate) struct Server {
    pub(crate) local: Local,
    pub(crate) replica: Local,
    pub(crate) thread: Thread,
}

fn local() -> Local {
    let own: Vec<engine::Entry> = jobs::queues::ENTRIES.iter().map(Entry::of_host).collect();
    let mut local = Local::new(&[commands::FAMILIES, &[own.leak()]].concat());
    local.config.list = ds::list::ListLimits { nodes_min: 8, plain_nodes: 2, plain_part: 1 };
    local
}

impl Server {
    pub(crate) fn new() -> Server {
        let mut primary = local();
        primary.record_effects();
        let thread = Thread { now_ns: 0, tick_ns: 1, progress: None, slices: 0, forbidden: None };
        Server { local: primary, replica: local(), thread }
    }

    /// Runs a command; `between` is what other clients do between two of its slices.
    pub(crate) fn call(&mut self, args: &[&[u8]], mut between: impl FnMut(&mut Local)) -> Value {
        let client = Client { deny_blocking: false, ..Client::internal(0, Proto::Resp3) };
        loop {
            let mut out = Output::new();
            self.thread.slices += 1;
            match self.local.run(client, args, &mut self.thread, &mut out) {
                Outcome::Again(shards) => {
                    assert!(shards.is_empty() && out.is_empty() && self.thread.progress.is_some());
                    between(&mut self.local);
                }
                _ => {
                    assert!(self.thread.progress.is_none());
                    return decoded(&out.to_vec());
                }
            }
        }
    }

    pub(crate) fn line(&mut self, line: &str) -> Value {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.call(&args, |_| ())
    }

    /// The elements of a list, after checking that its replica has the same.
    pub(crate) fn list(&mut self, key: &str) -> Vec<String> {
        let effects = self.local.take_effects();
        self.replica.replay(&effects).expect("effects run again");
        let of_replica = elements(&mut self.replica, key);
        let list = elements(&mut self.local, key);
        assert!(list == of_replica, "the replica has {} of {} in {key}", of_replica.len(), list.len());
        list
    }
}

fn elements(local: &mut Local, key: &str) -> Vec<String> {
    match decoded(&local.reply(Proto::Resp3, &[b"LRANGE", key.as_bytes(), b"0", b"-1"])) {
        Value::Array(elements) => elements.iter().map(text).collect(),
        other => panic!("{other}"),
    }
}

pub(crate) fn decoded(reply: &[u8]) -> Value {
    resp::decode(reply).expect("it is a reply").expect("it is complete").0
}

pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8(bytes.clone()).expect("the test writes letters"),
        other => panic!("{other}"),
    }
}
