//! Queues under stress: every pushed element is popped once or is still there, whichever clients leave. At the end,
//! no client waits for a key that has something for it.
//!
//! Elements are unique numbers. An element counts as popped when the server has *queued* the reply, even if the
//! client did not read it, as with Redis. If the server never sent the reply, it must have put the element back.
//! Clients that may leave only pop with blocking commands: if a client leaves during a plain pop, the element is
//! lost, as with Redis.

use std::collections::{BTreeMap, BTreeSet};

use resp::Value;
use sim::{Client, Departure, Request, Setup, World, for_each_seed, request};

/// Requests per world.
const REQUESTS: usize = 250;
/// Elements are numbers from here on. Nothing else in a reply is.
const FIRST_ELEMENT: u64 = 1_000_000;
const LISTS: usize = 6;
const SORTED_SETS: usize = 2;

const PUSH_SCRIPT: &str = "for i = 1, #ARGV, 2 do redis.call('RPUSH', ARGV[i], ARGV[i + 1]) end return #ARGV";
const POP_SCRIPT: &str = "return {redis.call('LPOP', ARGV[1]), redis.call('BRPOP', ARGV[2], 0)}";

/// The meaning of a request for the account.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Meaning {
    /// Pushes these elements.
    Push(Vec<u64>),
    /// Pops the elements in its reply.
    Pop,
    /// Waits for these keys. The elements in its reply were popped or, with `moves`, moved.
    Wait { keys: Vec<String>, is_forever: bool, moves: bool },
    /// The elements in its reply stayed where they were, or were moved.
    Neutral,
}

struct Actor {
    client: Client,
    sent: Vec<Meaning>,
    answered: usize,
    /// Whether it never leaves, so that it may use plain pops.
    is_steady: bool,
}

struct Load {
    next_element: u64,
    /// All clients that have left.
    gone: Vec<Actor>,
    has_plain_pops: bool,
    /// How often a client leaves.
    goes_one_in: u64,
}

fn list(number: usize) -> String {
    format!("q{number}")
}

fn words<const N: usize>(command: &str, words: [&str; N]) -> Request {
    request(command, words)
}

impl Load {
    fn element(&mut self) -> u64 {
        self.next_element += 1;
        self.next_element - 1
    }

    fn any_list(world: &mut World) -> String {
        list(world.below(LISTS))
    }

    fn some_lists(world: &mut World) -> Vec<String> {
        (0..=world.below(3)).map(|_| Load::any_list(world)).collect()
    }

    /// Requests that are sent together, with what each means.
    fn requests(&mut self, world: &mut World, is_steady: bool) -> Vec<(Request, Meaning)> {
        match world.below(10) {
            0..=3 => self.push(world),
            4..=7 => vec![Load::wait(world)],
            8 if is_steady && self.has_plain_pops => Load::pop(world),
            _ => vec![Load::disturb(world)],
        }
    }

    fn push(&mut self, world: &mut World) -> Vec<(Request, Meaning)> {
        let (first, second) = (Load::any_list(world), Load::any_list(world));
        let elements: Vec<u64> = (0..=world.below(3)).map(|_| self.element()).collect();
        let texts: Vec<String> = elements.iter().map(u64::to_string).collect();
        let end = ["LPUSH", "RPUSH"][world.below(2)];
        let args = |key: &str, texts: &[String]| {
            [key.to_owned()].into_iter().chain(texts.iter().cloned()).collect::<Vec<_>>()
        };
        match world.below(6) {
            0 | 1 => vec![(request(end, args(&first, &texts)), Meaning::Push(elements))],
            2 => {
                let more = self.element();
                let all = elements.iter().copied().chain([more]).collect();
                vec![
                    (words("MULTI", []), Meaning::Neutral),
                    (request(end, args(&first, &texts)), Meaning::Neutral),
                    (words("RPUSH", [&second, &more.to_string()]), Meaning::Neutral),
                    (words("EXEC", []), Meaning::Push(all)),
                ]
            }
            3 => {
                let mut all = vec![PUSH_SCRIPT.to_owned(), "0".to_owned()];
                for text in &texts {
                    all.extend([Load::any_list(world), text.clone()]);
                }
                vec![(request("EVAL", all), Meaning::Push(elements))]
            }
            4 => {
                let args = [PUSH_SCRIPT, "1", &first, &first, &texts[0]];
                vec![(words("EVAL", args), Meaning::Push(elements[..1].to_vec()))]
            }
            _ => {
                let key = format!("z{}", world.below(SORTED_SETS));
                let mut all = vec![key];
                for text in &texts {
                    all.extend([world.below(9).to_string(), text.clone()]);
                }
                vec![(request("ZADD", all), Meaning::Push(elements))]
            }
        }
    }

    fn wait(world: &mut World) -> (Request, Meaning) {
        let timeout = ["0", "0", "0.001", "0.02", "0.5"][world.below(5)];
        let is_forever = timeout == "0";
        let keys = Load::some_lists(world);
        let (from, to) = (Load::any_list(world), Load::any_list(world));
        let side = ["LEFT", "RIGHT"][world.below(2)];
        let all = |before: &[&str], keys: &[String], after: &[&str]| -> Vec<String> {
            let before = before.iter().map(|word| (*word).to_owned());
            before.chain(keys.iter().cloned()).chain(after.iter().map(|word| (*word).to_owned())).collect()
        };
        let count = keys.len().to_string();
        let pops = |request, keys| (request, Meaning::Wait { keys, is_forever, moves: false });
        let moves = |request, key| (request, Meaning::Wait { keys: vec![key], is_forever, moves: true });
        match world.below(8) {
            0 | 1 => pops(request("BLPOP", all(&[], &keys, &[timeout])), keys),
            2 | 3 => pops(request("BRPOP", all(&[], &keys, &[timeout])), keys),
            4 => pops(request("BLMPOP", all(&[timeout, &count], &keys, &[side, "COUNT", "2"])), keys),
            5 => moves(words("BLMOVE", [&from, &to, side, "LEFT", timeout]), from),
            6 => moves(words("BRPOPLPUSH", [&from, &to, timeout]), from),
            _ => {
                let keys: Vec<String> = (0..SORTED_SETS).map(|number| format!("z{number}")).collect();
                let command = ["BZPOPMIN", "BZPOPMAX"][world.below(2)];
                pops(request(command, all(&[], &keys, &[timeout])), keys)
            }
        }
    }

    fn pop(world: &mut World) -> Vec<(Request, Meaning)> {
        let (first, second) = (Load::any_list(world), Load::any_list(world));
        match world.below(5) {
            0 => vec![(words("LPOP", [&first]), Meaning::Pop)],
            1 => vec![(words("RPOP", [&first, "3"]), Meaning::Pop)],
            2 => vec![(words("EVAL", [POP_SCRIPT, "0", &first, &second]), Meaning::Pop)],
            3 => vec![(words("LMPOP", ["2", &first, &second, "LEFT"]), Meaning::Pop)],
            _ => vec![
                (words("MULTI", []), Meaning::Neutral),
                (words("BLPOP", [&first, &second, "0"]), Meaning::Neutral),
                (words("ZPOPMIN", ["z0"]), Meaning::Neutral),
                (words("EXEC", []), Meaning::Pop),
            ],
        }
    }

    fn disturb(world: &mut World) -> (Request, Meaning) {
        let (from, to) = (Load::any_list(world), Load::any_list(world));
        let id = (1 + world.below(12)).to_string();
        let request = match world.below(5) {
            0 => words("LMOVE", [&from, &to, "LEFT", "RIGHT"]),
            1 => words("RENAMENX", [&from, &to]),
            2 => words("CLIENT", ["UNBLOCK", &id, "ERROR"]),
            3 => words("LLEN", [&from]),
            _ => words("SINTERCARD", ["2", "none", "nothing"]),
        };
        (request, Meaning::Neutral)
    }

    fn run(&mut self, world: &mut World, actors: &mut Vec<Actor>) {
        let pipeline_max = 1 + world.below(3);
        let mut sent = 0;
        while sent < REQUESTS {
            world.step();
            for actor in &mut *actors {
                actor.answered += world.pump(&mut actor.client).len();
                if world.one_in(8) && actor.client.unanswered() < pipeline_max {
                    for (request, meaning) in self.requests(world, actor.is_steady) {
                        actor.client.send(&request);
                        actor.sent.push(meaning);
                    }
                    sent += 1;
                }
                let goes = !actor.is_steady && world.one_in(self.goes_one_in);
                if goes || actor.client.has_ended {
                    let how = [Departure::Reset, Departure::Close, Departure::Finish][world.below(3)];
                    actor.client.depart(how);
                    let next = new_actor(world, actor.is_steady);
                    self.gone.push(std::mem::replace(actor, next));
                }
            }
        }
    }
}

fn new_actor(world: &mut World, is_steady: bool) -> Actor {
    let client = world.connect();
    if world.one_in(4) {
        client.set_window(16);
    }
    Actor { client, sent: Vec::new(), answered: 0, is_steady }
}

/// All elements in a reply.
fn elements(reply: &Value) -> Vec<u64> {
    match reply {
        Value::Bulk(text) => {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            number.filter(|number| *number >= FIRST_ELEMENT).into_iter().collect()
        }
        Value::Array(items) => items.iter().flat_map(elements).collect(),
        _ => Vec::new(),
    }
}

/// The elements that are left in all queues, by key.
fn rest(world: &mut World, observer: &mut Client) -> BTreeMap<String, Vec<u64>> {
    let lists = (0..LISTS).map(|number| ("LRANGE", list(number)));
    let sets = (0..SORTED_SETS).map(|number| ("ZRANGE", format!("z{number}")));
    let mut all = BTreeMap::new();
    for (command, key) in lists.chain(sets).collect::<Vec<_>>() {
        let reply = world.call(observer, &words(command, [&key, "0", "-1"]));
        all.insert(key, elements(&reply));
    }
    all
}

/// Checks that remaining clients lack a reply only if they wait for ever for something that is not there.
fn check_waits(world: &mut World, actors: &mut [Actor], rest: &BTreeMap<String, Vec<u64>>) {
    for actor in actors {
        actor.answered += world.pump(&mut actor.client).len();
        let Some(waits_for) = actor.sent.get(actor.answered) else { continue };
        let Meaning::Wait { keys, is_forever: true, .. } = waits_for else {
            panic!("no reply to {waits_for:?}");
        };
        for key in keys {
            assert!(rest[key].is_empty(), "a client waits for {key}, which holds {:?}", rest[key]);
        }
    }
}

fn check_account(actors: &[Actor], rest: &BTreeMap<String, Vec<u64>>) {
    let (mut pushed, mut maybe_pushed) = (BTreeSet::<u64>::new(), BTreeSet::<u64>::new());
    let mut seen: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (key, elements) in rest {
        elements.iter().for_each(|element| seen.entry(*element).or_default().push(format!("in {key}")));
    }
    for actor in actors {
        let replies = actor.client.all_replies();
        for (number, meaning) in actor.sent.iter().enumerate() {
            match (meaning, replies.get(number)) {
                (Meaning::Push(elements), Some(reply)) if !matches!(reply, Value::Error(_)) => {
                    pushed.extend(elements);
                }
                (Meaning::Push(elements), _) => maybe_pushed.extend(elements),
                (Meaning::Pop | Meaning::Wait { moves: false, .. }, Some(reply)) => {
                    for element in elements(reply) {
                        seen.entry(element).or_default().push(format!("popped by {meaning:?}"));
                    }
                }
                (Meaning::Pop | Meaning::Wait { .. } | Meaning::Neutral, _) => {}
            }
        }
    }
    for (element, places) in &seen {
        assert!(places.len() == 1, "{element} is there several times: {places:?}");
        assert!(pushed.contains(element) || maybe_pushed.contains(element), "nobody pushed {element}");
    }
    let lost: Vec<&u64> = pushed.iter().filter(|element| !seen.contains_key(element)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
}

fn simulate(
    mut entropy: proactor::Entropy,
    totals: &mut BTreeMap<&'static str, u64>,
    goes_one_in: fn(&mut World) -> u64,
) {
    let mut setup = Setup::any(&mut entropy);
    let has_cuts = entropy.one_in(3);
    setup.net.cut_one_in = if has_cuts { 60 } else { 0 };
    let mut world = World::new(entropy, &setup);
    let goes_one_in = goes_one_in(&mut world);
    let mut load =
        Load { next_element: FIRST_ELEMENT, gone: Vec::new(), has_plain_pops: !has_cuts, goes_one_in };
    let mut actors: Vec<Actor> =
        (0..3 + world.below(6)).map(|number| new_actor(&mut world, number < 2)).collect();
    load.run(&mut world, &mut actors);
    world.stop_cuts();
    world.settle(|world| {
        for actor in actors.iter_mut().chain(&mut load.gone) {
            actor.answered += world.pump(&mut actor.client).len();
        }
    });
    let (cut, mut alive): (Vec<_>, Vec<_>) = actors.into_iter().partition(|actor| actor.client.has_ended);
    load.gone.extend(cut);
    let mut observer = world.connect();
    let left = rest(&mut world, &mut observer);
    check_waits(&mut world, &mut alive, &left);
    for mut actor in alive {
        actor.client.depart(Departure::Close);
        load.gone.push(actor);
    }
    world.settle(|_| {});
    check_account(&load.gone, &rest(&mut world, &mut observer));
    let info = world.info(&mut observer);
    for (name, expected) in [("blocked_clients", 0), ("tx_waiters", 0), ("connected_clients", 1)] {
        assert_eq!(info[name], expected, "{name} when all have gone");
    }
    for name in ["tx_delegated", "tx_retries", "tx_type_hop", "tx_type_wide"] {
        *totals.entry(name).or_default() += info[name];
    }
    *totals.entry("clients gone").or_default() += load.gone.len() as u64;
}

#[test]
fn nothing_is_lost_or_doubled_and_nobody_waits_in_vain() {
    let mut totals = BTreeMap::new();
    let goes_one_in = |world: &mut World| [40, 300, 3_000][world.below(3)];
    for_each_seed("queues", 250, |entropy| simulate(entropy, &mut totals, goes_one_in));
    println!("{totals:?}");
}

#[test]
fn clients_that_go_soon_leave_nothing_behind() {
    let mut totals = BTreeMap::new();
    let goes_one_in = |world: &mut World| [5, 10, 20][world.below(3)];
    for_each_seed("departures", 120, |entropy| simulate(entropy, &mut totals, goes_one_in));
    println!("{totals:?}");
}
