//! Replies to blocked clients: every reply to a blocking pop is nil, an error that such a command may return, or
//! elements in the client's protocol and the right shape. Each element was pushed by one client, and only this client
//! got it.
//!
//! Waiting clients send only blocking pops, also in scripts, and `HELLO`. Others do everything that ends, serves or disturbs a wait: they
//! push, delete, rename, swap and flush databases, let keys expire and change type, also within transactions and scripts, unblock and pause
//! clients, and save snapshots.
//!
//! A *lossless* world has nothing that removes elements, so each acknowledged element must be somewhere.

use std::collections::{BTreeMap, BTreeSet};

use resp::Value;
use sim::{Client, Departure, Request, Setup, World, for_each_seed, request};

/// Requests per world.
const REQUESTS: usize = 350;
/// Elements are numbers from here on. Nothing else is.
const FIRST_ELEMENT: u64 = 1_000_000;
/// Keys of each family, `z…` and `l…`.
const KEYS: usize = 3;
/// The score of an element in a sorted set is its remainder by this.
const SCORES: u64 = 5;
const DATABASES: usize = 2;

/// Moves the first element to the end.
const TURN: &str = "local popped = redis.call('BLPOP', KEYS[1], 0) \
    if popped then redis.call('RPUSH', KEYS[1], popped[2]) end";

/// The errors that may stand in the place of elements.
const ERRORS: &[&str] = &[
    "UNBLOCKED client unblocked via CLIENT UNBLOCK",
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    // A thread that is off its core in the middle of a script makes that a slow script.
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
];

/// How a reply contains the elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    /// `BZMPOP`: the key and pairs.
    Pairs,
    /// `BZPOPMIN` and `BZPOPMAX`: the key, the member, its score.
    Member,
    /// `BLMPOP`: the key and elements.
    Elements,
    /// `BLPOP` and `BRPOP`: the key and the element.
    Element,
    /// `BLMOVE`: the element, which is now in another list.
    Moved,
}

impl Shape {
    /// The type of the keys that it waits for.
    fn kind(self) -> &'static str {
        match self {
            Shape::Pairs | Shape::Member => "zset",
            Shape::Elements | Shape::Element | Shape::Moved => "list",
        }
    }
}

/// A blocking pop.
#[derive(Clone, Debug)]
struct Wait {
    shape: Shape,
    keys: Vec<String>,
    count_max: usize,
    /// Takes the highest scores, or the tail.
    reverse: bool,
    is_forever: bool,
    /// The protocol of its reply.
    proto: u8,
    db: usize,
}

/// The request, which determines the valid replies.
#[derive(Clone, Debug)]
enum Sent {
    Wait(Wait),
    /// If the reply is a number, these elements were added.
    Push(Vec<u64>),
    Hello,
    /// A status or an error.
    Status,
    /// An integer or an error.
    Number,
    Anything,
}

struct Actor {
    client: Client,
    sent: Vec<Sent>,
    answered: usize,
    proto: u8,
    db: usize,
    /// Whether it waits. Otherwise it disturbs.
    waits: bool,
    /// The only command that it sends, if it is restricted to one.
    only: Option<Shape>,
}

impl Actor {
    fn new(world: &mut World, waits: bool, only: Option<Shape>) -> Actor {
        let client = world.connect();
        if world.one_in(4) {
            client.set_window(16);
        }
        let mut actor = Actor { client, sent: Vec::new(), answered: 0, proto: 2, db: 0, waits, only };
        if world.one_in(4) {
            actor.db = 1;
            actor.send(&request("SELECT", ["1"]), Sent::Status);
        }
        actor
    }

    fn send(&mut self, request: &Request, sent: Sent) {
        self.client.send(request);
        self.sent.push(sent);
    }

    fn wait(&mut self, world: &mut World) {
        if world.one_in(12) {
            self.proto = 2 + world.below(2) as u8;
            return self.send(&request("HELLO", [self.proto.to_string()]), Sent::Hello);
        }
        if self.only.is_none() && world.one_in(10) {
            // A pop in a script does not wait, and is not undone if its client leaves: scripts are atomic.
            let key = key(world, "list");
            return self.send(&request("EVAL", [TURN, "1", &key]), Sent::Anything);
        }
        let all = [Shape::Pairs, Shape::Pairs, Shape::Member, Shape::Elements, Shape::Element, Shape::Moved];
        let shape = self.only.unwrap_or_else(|| all[world.below(all.len())]);
        let timeout = ["0", "0", "0.001", "0.002", "0.05"][world.below(5)];
        let mut keys: Vec<String> = (0..=world.below(3)).map(|_| key(world, shape.kind())).collect();
        let (reverse, count) = (world.one_in(2), [1, 2, 100][world.below(3)]);
        let (number, count_text) = (keys.len().to_string(), count.to_string());
        let end = match (shape.kind(), reverse) {
            ("zset", false) => "MIN",
            ("zset", _) => "MAX",
            (_, false) => "LEFT",
            _ => "RIGHT",
        };
        let mut args: Vec<String> = Vec::new();
        let mut count_max = 1;
        let command = match shape {
            Shape::Pairs | Shape::Elements => {
                args.extend([timeout.to_owned(), number]);
                args.extend(keys.iter().cloned());
                args.extend([end.to_owned(), "COUNT".to_owned(), count_text]);
                count_max = count;
                if shape == Shape::Pairs { "BZMPOP" } else { "BLMPOP" }
            }
            Shape::Member | Shape::Element => {
                args.extend(keys.iter().cloned().chain([timeout.to_owned()]));
                match (shape, reverse) {
                    (Shape::Member, false) => "BZPOPMIN",
                    (Shape::Member, true) => "BZPOPMAX",
                    (_, false) => "BLPOP",
                    (_, true) => "BRPOP",
                }
            }
            Shape::Moved => {
                keys.truncate(1);
                args.extend([keys[0].clone(), key(world, "list")]);
                args.extend([end, "LEFT", timeout].map(str::to_owned));
                "BLMOVE"
            }
        };
        let (proto, db, is_forever) = (self.proto, self.db, timeout == "0");
        let wait = Wait { shape, keys, count_max, reverse, is_forever, proto, db };
        self.send(&request(command, args), Sent::Wait(wait));
    }
}

/// A key of this type's family. Requests that remove elements also store values of one family under keys of the other.
fn key(world: &mut World, kind: &str) -> String {
    format!("{}{}", &kind[..1], world.below(KEYS))
}

/// The commands that disturb the waiting clients.
struct Load {
    next_element: u64,
    is_lossless: bool,
    /// Whether elements may be in two places.
    has_copies: bool,
}

impl Load {
    fn elements(&mut self, world: &mut World) -> Vec<u64> {
        let first = self.next_element;
        self.next_element += 1 + world.below(4) as u64;
        (first..self.next_element).collect()
    }

    /// A push of `elements`.
    fn push(world: &mut World, elements: &[u64]) -> String {
        let is_list = world.one_in(3);
        let key = key(world, if is_list { "list" } else { "zset" });
        let texts = elements.iter().map(|element| match is_list {
            true => format!(" {element}"),
            false => format!(" {} {element}", element % SCORES),
        });
        let command = if is_list { "RPUSH" } else { "ZADD" };
        texts.fold(format!("{command} {key}"), |line, text| line + &text)
    }

    /// A request that removes or replaces elements.
    fn loss(&self, world: &mut World) -> (String, Sent) {
        let from = [key(world, "zset"), key(world, "list")];
        let (from, to) = (&from[world.below(2)], [key(world, "zset"), key(world, "list")]);
        let to = &to[world.below(2)];
        match world.below(if self.has_copies { 9 } else { 7 }) {
            0 | 1 => (format!("DEL {from}"), Sent::Number),
            2 => (format!("RENAME {from} {to}"), Sent::Status),
            3 => ("FLUSHDB".to_owned(), Sent::Status),
            4 => (format!("PEXPIRE {from} {}", world.below(4)), Sent::Number),
            5 => (format!("SET {from} text PX {}", 1 + world.below(20)), Sent::Status),
            6 => (format!("ZREMRANGEBYRANK {from} 0 -1"), Sent::Number),
            7 => (format!("COPY {from} {to} REPLACE"), Sent::Number),
            _ => (format!("ZRANGESTORE {to} {from} 0 1"), Sent::Number),
        }
    }

    fn disturb(&mut self, world: &mut World, actor: &mut Actor) {
        let send = |actor: &mut Actor, line: &str, sent: Sent| {
            actor.send(&resp::split_args(line.as_bytes()).expect("words"), sent);
        };
        let loss = if self.is_lossless { None } else { Some(self.loss(world)) };
        match world.below(16) {
            0..=5 => {
                let elements = self.elements(world);
                send(actor, &Load::push(world, &elements), Sent::Push(elements));
            }
            6 => {
                // Makes a key ready and takes that away again, in one transaction.
                send(actor, "MULTI", Sent::Status);
                for _ in 0..1 + world.below(3) {
                    let elements = self.elements(world);
                    send(actor, &Load::push(world, &elements), Sent::Status);
                    if let Some((line, _)) = Some(self.loss(world)).filter(|_| !self.is_lossless) {
                        send(actor, &line, Sent::Status);
                    }
                }
                send(actor, "EXEC", Sent::Anything);
            }
            7 => {
                let mut script = String::new();
                for _ in 0..1 + world.below(3) {
                    let elements = self.elements(world);
                    let mut lines = vec![Load::push(world, &elements)];
                    lines.extend(Some(self.loss(world).0).filter(|_| !self.is_lossless && world.one_in(2)));
                    for line in lines {
                        let words: Vec<String> = line.split(' ').map(|word| format!("'{word}'")).collect();
                        script += &format!("redis.pcall({}) ", words.join(","));
                    }
                }
                send(actor, &format!("EVAL \"{script}\" 0"), Sent::Anything);
            }
            8 | 9 => {
                let word = ["ERROR", "TIMEOUT"][world.below(2)];
                send(actor, &format!("CLIENT UNBLOCK {} {word}", 1 + world.below(16)), Sent::Number);
            }
            10 => {
                let kind = ["ALL", "WRITE"][world.below(2)];
                send(actor, &format!("CLIENT PAUSE {} {kind}", world.below(30)), Sent::Status);
            }
            11 => send(actor, ["CLIENT UNPAUSE", "BGSAVE"][world.below(2)], Sent::Status),
            12 => send(actor, ["SWAPDB 0 1", "SWAPDB 1 0"][world.below(2)], Sent::Status),
            13 => {
                let kind = ["zset", "list"][world.below(2)];
                let (from, to) = (key(world, kind), key(world, kind));
                let move_to = 1 - actor.db;
                let line = [format!("RENAMENX {from} {to}"), format!("MOVE {from} {move_to}")];
                send(actor, &line[world.below(2)], Sent::Number);
            }
            _ => {
                let ping = ("PING".to_owned(), Sent::Status);
                let (line, sent) = loss.unwrap_or(ping);
                send(actor, &line, sent);
            }
        }
    }
}

/// The number of an element; `None` for other values.
fn element(value: &Value) -> Option<u64> {
    let Value::Bulk(text) = value else { return None };
    let number = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number >= FIRST_ELEMENT).then_some(number)
}

/// A member with its score, in this protocol.
fn member(member: &Value, score: &Value, proto: u8) -> Option<u64> {
    let number = element(member)?;
    let expected = number % SCORES;
    let is_right = match score {
        Value::Bulk(text) => proto == 2 && *text == expected.to_string().into_bytes(),
        Value::Double(score) => proto == 3 && *score == expected as f64,
        _ => false,
    };
    is_right.then_some(number)
}

impl Wait {
    /// The elements in the reply; none for nil and errors. `None` if the reply is invalid.
    fn elements(&self, reply: &Value) -> Option<Vec<u64>> {
        let items = match (reply, self.proto, self.shape) {
            (Value::NullArray, 2, _) | (Value::Null, 3, _) => return Some(Vec::new()),
            (Value::Error(text), ..) => {
                let is_known = ERRORS.iter().any(|known| known.as_bytes() == text);
                return is_known.then(Vec::new);
            }
            (moved, _, Shape::Moved) => return element(moved).map(|element| vec![element]),
            (Value::Array(items), ..) => items,
            _ => return None,
        };
        let Value::Bulk(from) = items.first()? else { return None };
        if !self.keys.iter().any(|key| key.as_bytes() == from) {
            return None;
        }
        let elements: Vec<u64> = match (&items[1..], self.shape) {
            ([Value::Array(pairs)], Shape::Pairs) => {
                let pair = |pair: &Value| match pair {
                    Value::Array(pair) if pair.len() == 2 => member(&pair[0], &pair[1], self.proto),
                    _ => None,
                };
                pairs.iter().map(pair).collect::<Option<_>>()?
            }
            ([name, score], Shape::Member) => vec![member(name, score, self.proto)?],
            ([Value::Array(items)], Shape::Elements) => items.iter().map(element).collect::<Option<_>>()?,
            ([item], Shape::Element) => vec![element(item)?],
            _ => return None,
        };
        let scores: Vec<u64> = elements.iter().map(|element| element % SCORES).collect();
        let is_ordered = self.shape.kind() != "zset"
            || if self.reverse { scores.is_sorted_by(|a, b| a >= b) } else { scores.is_sorted() };
        ((1..=self.count_max).contains(&elements.len()) && is_ordered).then_some(elements)
    }
}

/// Checks a reply by itself. Returns the elements that the client got.
fn check(sent: &Sent, reply: &Value) -> Vec<u64> {
    let is_error = matches!(reply, Value::Error(_));
    let is_right = match sent {
        Sent::Wait(wait) => {
            let elements = wait.elements(reply);
            let elements = elements.unwrap_or_else(|| panic!("{wait:?} was answered {reply}, {reply:?}"));
            return if wait.shape == Shape::Moved { Vec::new() } else { elements };
        }
        Sent::Push(_) | Sent::Number => is_error || matches!(reply, Value::Int(_)),
        Sent::Status => is_error || matches!(reply, Value::Simple(_)),
        Sent::Hello => matches!(reply, Value::Array(_) | Value::Map(_)),
        Sent::Anything => true,
    };
    assert!(is_right, "{sent:?} was answered {reply}, {reply:?}");
    Vec::new()
}

/// Runs the load. Returns all clients that have left.
fn run(world: &mut World, load: &mut Load, actors: &mut [Actor], goes_one_in: u64) -> Vec<Actor> {
    let mut gone = Vec::new();
    let pipeline_max = 1 + world.below(3);
    let mut sent = 0;
    while sent < REQUESTS {
        world.step();
        for actor in &mut *actors {
            actor.answered += world.pump(&mut actor.client).len();
            if world.one_in(8) && actor.client.unanswered() < pipeline_max {
                sent += 1;
                if actor.waits { actor.wait(world) } else { load.disturb(world, actor) }
            }
            if actor.waits && world.one_in(goes_one_in) {
                let how = [Departure::Reset, Departure::Close, Departure::Finish][world.below(3)];
                actor.client.depart(how);
                let next = Actor::new(world, true, actor.only);
                gone.push(std::mem::replace(actor, next));
            }
        }
    }
    gone
}

/// The type and the elements of every existing key in every database.
fn contents(world: &mut World, observer: &mut Client) -> BTreeMap<(usize, String), (String, Vec<u64>)> {
    let mut all = BTreeMap::new();
    for db in 0..DATABASES {
        world.call(observer, &request("SELECT", [db.to_string()]));
        for key in ["z", "l"].iter().flat_map(|name| (0..KEYS).map(move |number| format!("{name}{number}"))) {
            let kind = world.call(observer, &request("TYPE", [&key])).to_string();
            let range = if kind == "zset" { "ZRANGE" } else { "LRANGE" };
            let elements = match world.call(observer, &request(range, [&key, "0", "-1"])) {
                Value::Array(items) => items.iter().filter_map(element).collect(),
                _ => Vec::new(),
            };
            all.insert((db, key), (kind, elements));
        }
    }
    all
}

fn simulate(mut entropy: proactor::Entropy, only: Option<Shape>, totals: &mut BTreeMap<&'static str, usize>) {
    let setup = Setup::any(&mut entropy);
    let mut world = World::new(entropy, &setup);
    let kind = world.below(3);
    let mut load = Load { next_element: FIRST_ELEMENT, is_lossless: kind == 0, has_copies: kind == 1 };
    let goes_one_in = [100, 1_000, 1_000_000][world.below(3)];
    let waiting_count = 2 + world.below(6);
    let mut actors: Vec<Actor> =
        (0..waiting_count + 3).map(|number| Actor::new(&mut world, number < waiting_count, only)).collect();
    let mut gone = run(&mut world, &mut load, &mut actors, goes_one_in);
    world.settle(|world| {
        for actor in actors.iter_mut().chain(&mut gone) {
            actor.answered += world.pump(&mut actor.client).len();
        }
    });
    let mut observer = world.connect();
    let left = contents(&mut world, &mut observer);
    for actor in &mut actors {
        let Some(pending) = actor.sent.get(actor.answered) else { continue };
        let Sent::Wait(Wait { is_forever: true, db, keys, shape, .. }) = pending else {
            panic!("no reply to {pending:?}");
        };
        for key in keys {
            let (kind, elements) = &left[&(*db, key.clone())];
            assert!(kind != shape.kind(), "{pending:?} goes on, and {key} holds {elements:?}");
        }
    }
    for mut actor in actors {
        actor.client.depart(Departure::Close);
        gone.push(actor);
    }
    world.settle(|_| {});
    let left = contents(&mut world, &mut observer);
    let rest: Vec<u64> = left.values().flat_map(|(_, elements)| elements.iter().copied()).collect();
    account(&gone, &rest, &load, totals);
    *totals.entry("moves").or_default() += world.server().moved() as usize;
}

/// Checks that each element that a client got was pushed, and that no other client got it; in a lossless world also that each pushed
/// element is somewhere.
fn account(actors: &[Actor], rest: &[u64], load: &Load, totals: &mut BTreeMap<&'static str, usize>) {
    let (mut pushed, mut taken) = (Vec::new(), BTreeSet::new());
    for actor in actors {
        let replies = actor.client.all_replies();
        assert!(replies.len() <= actor.sent.len(), "replies to nothing: {replies:?}");
        for (sent, reply) in actor.sent.iter().zip(&replies) {
            if let (Sent::Push(elements), Value::Int(_)) = (sent, reply) {
                pushed.extend(elements);
            }
            for element in check(sent, reply) {
                assert!(element < load.next_element, "nobody pushed {element}");
                let is_new = taken.insert(element);
                assert!(is_new || load.has_copies, "two clients got {element}, one by {sent:?}");
            }
            if let Sent::Wait(_) = sent {
                let name = match reply {
                    Value::Error(_) => "errors",
                    Value::Null | Value::NullArray => "nils",
                    _ => "served",
                };
                *totals.entry(name).or_default() += 1;
            }
        }
    }
    if load.is_lossless {
        let there: BTreeSet<u64> = rest.iter().copied().chain(taken.iter().copied()).collect();
        assert_eq!(there.len(), rest.len() + taken.len(), "an element is in two places");
        let lost: Vec<&u64> = pushed.iter().filter(|element| !there.contains(element)).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
    }
    *totals.entry("clients").or_default() += actors.len();
}

#[test]
fn clients_that_only_call_bzmpop_read_what_it_may_answer() {
    let mut totals = BTreeMap::new();
    for_each_seed("replies to BZMPOP", 100, |entropy| {
        simulate(entropy, Some(Shape::Pairs), &mut totals);
    });
    println!("{totals:?}");
}

#[test]
fn blocked_clients_read_what_their_commands_may_answer() {
    let mut totals = BTreeMap::new();
    for_each_seed("replies to blocked clients", 100, |entropy| {
        simulate(entropy, None, &mut totals);
    });
    println!("{totals:?}");
    assert!(sim::are_seeds_chosen() || totals["moves"] > 0, "connections move between threads");
}
