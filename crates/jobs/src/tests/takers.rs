//! Every command that takes elements heeds pauses and limits, is noted for `job-recovery`, has an effect, and leaves no
//! empty key. Which commands these are is found by running all that there are: one takes if its reply has an element
//! that is no longer where it was.

use ds::list::End;

use engine::{ArgKind, Change, Class, Command};
use keyspace::List;

use super::*;

const QUEUE: &str = "queue:q";
const OTHER: &str = "queue:other";
const ELEMENTS: [&str; 3] = ["job-1", "job-2", "job-3"];
/// The client that takes.
const TAKER: u64 = 7;

/// `bypass key`: pops without asking anything.
const BYPASS: Entry = Entry {
    name: "bypass",
    keys: &[KeySpec::one(1, &[])],
    args: &[engine::key("key", 0)],
    run: Run::Function(bypass),
    ..Entry::DEFAULT
};

fn bypass(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    match ctx.store.write_as::<List>(key)?.and_then(|list| list.pop(End::Tail)) {
        None => ctx.reply.null(),
        Some(element) => {
            ctx.store.changed(key, Change::new(Class::List, "rpop"), &[b"RPOP", key]);
            ctx.store.delete_if_empty(key);
            ctx.reply.bulk(&element);
        }
    }
    Ok(())
}

/// The type of the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    List,
    ZSet,
}

/// A store with a queue from which one command takes.
struct Taking {
    world: World,
    kind: Kind,
    request: Vec<String>,
}

impl Taking {
    fn new(kind: Kind, request: &[String]) -> Taking {
        let mut local =
            Local::new(&[commands::FAMILIES, &[ENTRIES, &[FIRE, LIMIT, BYPASS]]].concat()).with_rates(RATES);
        local.record_effects();
        (local.now, local.config.recovers) = (1_700_000_000_000, true);
        Taking { world: World(local), kind, request: request.to_vec() }
    }

    fn with_elements(kind: Kind, request: &[String]) -> Taking {
        let mut taking = Taking::new(kind, request);
        taking.fill();
        taking
    }

    fn fill(&mut self) {
        let [one, two, three] = ELEMENTS;
        self.world.check(
            &match self.kind {
                Kind::List => format!("RPUSH {QUEUE} {one} {two} {three}"),
                Kind::ZSet => format!("ZADD {QUEUE} 1 {one} 2 {two} 3 {three}"),
            },
            ":3",
        );
    }

    /// Runs the command. Its reply, or `None` if it waits.
    fn run(&mut self) -> Option<String> {
        let client = Client { id: TAKER, deny_blocking: false, ..Client::internal(0, Proto::Resp2) };
        let args: Vec<&[u8]> = self.request.iter().map(String::as_bytes).collect();
        let mut out = Output::new();
        match self.world.0.run(client, &args, &mut (), &mut out) {
            Outcome::Blocked(_) => None,
            _ => Some(String::from_utf8_lossy(&out.to_vec()).into_owned()),
        }
    }

    fn left(&mut self) -> Vec<&'static str> {
        let line = match self.kind {
            Kind::List => format!("LRANGE {QUEUE} 0 -1"),
            Kind::ZSet => format!("ZRANGE {QUEUE} 0 -1"),
        };
        let reply = self.world.say(&line);
        ELEMENTS.into_iter().filter(|element| reply.contains(element)).collect()
    }

    /// Runs the command; returns the elements that it took.
    fn take(&mut self) -> Vec<&'static str> {
        let before = self.left();
        let reply = self.run().unwrap_or_default();
        let left = self.left();
        let mut gone = before;
        gone.retain(|element| !left.contains(element) && reply.contains(element));
        gone
    }

    /// The clients that waited and were served since the last call.
    fn served(&mut self) -> usize {
        let outbox = std::mem::take(&mut self.world.0.outbox);
        outbox.iter().filter(|message| matches!(message, TxMessage::Served { .. })).count()
    }

    /// Whether the element is somewhere in the store, or noted as popped by the client.
    fn is_kept(&mut self, element: &str) -> bool {
        let keys = self.world.say("KEYS *");
        for key in keys.split(' ').filter(|word| !word.starts_with(['*', '$'])) {
            let found = ["LRANGE {} 0 -1", "ZRANGE {} 0 -1", "HGETALL {}"];
            if found.iter().any(|line| self.world.say(&line.replace("{}", key)).contains(element)) {
                return true;
            }
        }
        let client = Client::internal(0, Proto::Resp2);
        self.world.0.with_store(client, |store| {
            let (shard, _) = store.locate(QUEUE.as_bytes());
            let mut is_noted = false;
            if let Some(popped) = store.db(shard).queues().popped() {
                popped.read(0, 0, usize::MAX, |_, pop| {
                    is_noted |= pop.client == TAKER
                        && pop.queue == QUEUE.as_bytes()
                        && pop.element == element.as_bytes();
                });
            }
            is_noted
        })
    }

    /// Whether a store that runs the effects has the same.
    fn is_repeated(&mut self) -> bool {
        let effects = self.world.effects();
        let mut replica = Taking::new(self.kind, &self.request);
        replica.world.0.keeps_due = true;
        replica.world.0.replay(&effects).is_ok() && replica.left() == self.left()
    }
}

const PAUSE: &str = "takes from a paused queue";
const LIMITED: &str = "takes more than the limit allows";
const NOTED: &str = "takes what nothing else has, and it is not noted";
const REPEATED: &str = "has no effect that does the same";
const EMPTY: &str = "leaves an empty key";
const WAITS: &str = "is served from a paused queue";
const WAITS_LIMITED: &str = "is served more than the limit allows";

/// What the command does wrong.
fn faults(kind: Kind, request: &[String]) -> Vec<&'static str> {
    let mut faults = Vec::new();
    let mut check = |is_right: bool, fault: &'static str| {
        if !is_right {
            faults.push(fault);
        }
    };
    let mut taking = Taking::with_elements(kind, request);
    taking.world.check(&format!("DARTER.PAUSE {QUEUE} 1"), ":1");
    taking.take();
    check(taking.left() == ELEMENTS, PAUSE);
    if kind == Kind::List {
        let mut taking = Taking::with_elements(kind, request);
        taking.world.check(&format!("limit {QUEUE} RATE 2 PER 60000"), "+OK");
        (0..3).for_each(|_| _ = taking.take());
        check(taking.left().len() == 1, LIMITED);
        let mut taking = Taking::with_elements(kind, request);
        let taken = taking.take();
        check(taken.into_iter().all(|element| taking.is_kept(element)), NOTED);
    }
    let mut taking = Taking::with_elements(kind, request);
    taking.take();
    check(taking.is_repeated(), REPEATED);
    (0..ELEMENTS.len()).for_each(|_| _ = taking.take());
    check(taking.world.say(&format!("EXISTS {QUEUE}")) == ":0" && taking.is_repeated(), EMPTY);
    // As one that waits.
    let mut taking = Taking::new(kind, request);
    if taking.run().is_none() {
        taking.world.check(&format!("DARTER.PAUSE {QUEUE} 1"), ":1");
        taking.fill();
        check(taking.served() == 0 && taking.left() == ELEMENTS, WAITS);
        taking.world.check(&format!("DARTER.PAUSE {QUEUE} 0"), ":1");
        check(taking.served() == 1 && taking.left().len() == 2 && taking.is_repeated(), WAITS);
        if kind == Kind::List {
            let mut taking = Taking::new(kind, request);
            taking.world.check(&format!("limit {QUEUE} RATE 2 PER 60000"), "+OK");
            (0..3).for_each(|_| assert_eq!(taking.run(), None));
            taking.fill();
            check(taking.served() == 2 && taking.left().len() == 1, WAITS_LIMITED);
            let left = taking.left();
            let taken = ELEMENTS.into_iter().filter(|element| !left.contains(element));
            check(taken.into_iter().all(|element| taking.is_kept(element)), NOTED);
        }
    }
    faults
}

/// Appends words for these arguments: each alternative number `choice`, and with optional ones if `is_full`.
fn add_words(args: &[engine::Arg], choice: usize, is_full: bool, words: &mut Vec<String>) {
    for arg in args.iter().filter(|arg| !arg.optional || is_full) {
        words.extend(arg.token.map(str::to_owned));
        match arg.kind {
            ArgKind::Key => words.push(if arg.key_spec == Some(0) { QUEUE } else { OTHER }.to_owned()),
            ArgKind::PureToken => {}
            ArgKind::OneOf => add_words(&[arg.args[choice % arg.args.len()]], choice, is_full, words),
            ArgKind::Block => add_words(arg.args, choice, is_full, words),
            ArgKind::Double if arg.name.ends_with("max") => words.push("9".to_owned()),
            ArgKind::Integer | ArgKind::Double | ArgKind::UnixTime => words.push("1".to_owned()),
            ArgKind::String | ArgKind::Pattern => words.push("w".to_owned()),
        }
    }
}

/// Requests of this command on the queue.
fn requests(command: &Command) -> Vec<Vec<String>> {
    let name: Vec<String> = command.full_name.split('|').map(str::to_owned).collect();
    let mut requests = Vec::new();
    for (choice, is_full) in [(0, false), (1, false), (0, true), (1, true), (2, true)] {
        let mut words = name.clone();
        add_words(command.entry.args, choice, is_full, &mut words);
        if words.iter().any(|word| word == QUEUE) && !requests.contains(&words) {
            requests.push(words);
        }
    }
    requests
}

#[test]
fn no_command_takes_without_asking_and_telling() {
    let all = Taking::new(Kind::List, &[]).world.0;
    let (mut takers, mut bypass_faults) = (Vec::new(), Vec::new());
    for command in all.table().all() {
        for (request, kind) in
            requests(command).iter().flat_map(|request| [(request, Kind::List), (request, Kind::ZSet)])
        {
            if Taking::with_elements(kind, request).take().is_empty() {
                continue;
            }
            let faults = faults(kind, request);
            if command.full_name == BYPASS.name {
                bypass_faults = faults;
            } else {
                assert!(faults.is_empty(), "{} {faults:?}", request.join(" "));
                takers.push((command.full_name.clone(), kind));
            }
        }
    }
    takers.dedup();
    let count = |of: Kind| takers.iter().filter(|(_, kind)| *kind == of).count();
    assert!(count(Kind::List) >= 11 && count(Kind::ZSet) >= 6, "the words for arguments fit: {takers:?}");
    assert_eq!(bypass_faults, [PAUSE, LIMITED, NOTED], "the test notices a command that asks nothing");
}
