//! Scripts whose branches depend on data, like BullMQ's: they keep to their declared keys for a while and then, after they
//! have written, build the names of other keys. None of them may fail or end half-way, however little the server knows
//! about them, whatever the others hold, and whenever a thread is taken off its core.
//!
//! Jobs move from list to list, and with every move, money moves between accounts. At the end each job exists once, and
//! there is as much money as at the start. Others run transactions on all keys, some of them patient.

use std::collections::BTreeSet;

use resp::Value;
use sim::{Client, Entry, Request, Setup, World, for_each_seed, request};

/// Calls per world.
const CALLS: usize = 120;
const JOBS: usize = 12;
const LISTS: usize = 6;
const ACCOUNTS: usize = 6;
/// Number of scripts that the server considers different. For each it learns separately whether it roams. With the higher
/// number it trusts each at first, so that scripts that roam meet often.
const VARIANTS: usize = 6;
const VARIANTS_TRUSTED: usize = 1_000;

/// Takes a job from the list KEYS[1] and counts at KEYS[2]. A job without a destination stays there. A job that names
/// another list is moved there, gets the name of the next one, and money moves with it.
const BODY: &str = "
    local job = redis.call('RPOP', keys[1])
    redis.call('INCR', keys[2])
    if not job then return 'none' end
    local id, target = string.match(job, '(%d+)>(.*)')
    if target == '' then
        redis.call('LPUSH', keys[1], id .. '>' .. args[1])
    else
        redis.call('DECR', 'account:' .. args[2])
        redis.call('LPUSH', target, id .. '>' .. args[1])
        redis.call('INCR', 'account:' .. args[3])
    end
    return id";

fn script(variant: usize) -> String {
    format!("local keys, args = KEYS, ARGV {BODY} -- {variant}")
}

fn library() -> String {
    format!("#!lua name=jobs\nredis.register_function('move', function(keys, args) {BODY} end)")
}

fn list(number: usize) -> String {
    format!("list:{number}")
}

/// A move of some job, by a script or the function.
fn a_move(world: &mut World, variants: usize) -> Request {
    let source = list(world.below(LISTS));
    let next = if world.one_in(2) { list(world.below(LISTS)) } else { String::new() };
    let accounts = [world.below(ACCOUNTS).to_string(), world.below(ACCOUNTS).to_string()];
    let counter = format!("count:{}", world.below(4));
    let [from, to] = &accounts;
    if world.one_in(5) {
        return request("FCALL", ["move", "2", &source, &counter, &next, from, to]);
    }
    let variant = world.below(variants);
    request("EVAL", [&script(variant), "2", &source, &counter, &next, from, to])
}

/// A move, alone or in a transaction with others, or a request that needs other shards as well.
fn a_turn(world: &mut World, variants: usize) -> Vec<Request> {
    let every_key = || (0..LISTS).map(list).chain((0..ACCOUNTS).map(|number| format!("account:{number}")));
    match world.below(8) {
        0 => {
            let (begin, end) = (request("MULTI", [""; 0]), request("EXEC", [""; 0]));
            let count = request("INCR", [format!("count:{}", world.below(4))]);
            vec![begin, count, a_move(world, variants), a_move(world, variants), end]
        }
        1 => vec![request("MGET", every_key())],
        2 => vec![request("EXISTS", every_key())],
        3 => vec![request("LLEN", [list(world.below(LISTS))])],
        _ => vec![a_move(world, variants)],
    }
}

struct Caller {
    client: Client,
    waits_for: usize,
}

impl Caller {
    /// Reads replies and sends the next turn. Returns how many calls were sent.
    fn act(&mut self, world: &mut World, may_send: bool, variants: usize) -> usize {
        for reply in world.pump(&mut self.client) {
            self.waits_for -= 1;
            check_call(&reply);
        }
        if self.waits_for > 0 || !may_send || !world.one_in(3) {
            return 0;
        }
        let requests = a_turn(world, variants);
        self.waits_for = requests.len();
        requests.iter().for_each(|request| self.client.send(request));
        1
    }
}

/// Checks that a call did not fail. It may be refused before it begins, if the thread of another call was off its core for
/// seconds.
fn check_call(reply: &Value) {
    match reply {
        Value::Error(text) if text.starts_with(b"BUSY") || text.starts_with(b"EXECABORT") => {}
        reply => check(reply),
    }
}

fn check(reply: &Value) {
    match reply {
        Value::Error(text) => panic!("{}", String::from_utf8_lossy(text)),
        Value::Array(items) => items.iter().for_each(check),
        _ => {}
    }
}

fn number(reply: &Value) -> i64 {
    match reply {
        Value::Null => 0,
        Value::Bulk(text) => String::from_utf8_lossy(text).parse().expect("a balance is a number"),
        other => panic!("{other}"),
    }
}

/// Checks that each job exists once, and that no money was created or lost.
fn account(world: &mut World, setup: &Setup) {
    let mut observer = world.connect();
    let mut jobs = Vec::new();
    for number in 0..LISTS {
        let reply = world.call(&mut observer, &request("LRANGE", [&list(number), "0", "-1"]));
        let Value::Array(items) = reply else { panic!("{reply}") };
        for item in items {
            let Value::Bulk(text) = item else { panic!("{item}") };
            let text = String::from_utf8(text).expect("jobs are text");
            jobs.push(
                text.split('>').next().expect("there is a first part").parse::<usize>().expect("a number"),
            );
        }
    }
    let names: BTreeSet<usize> = jobs.iter().copied().collect();
    assert!(jobs.len() == JOBS && names.len() == JOBS, "{jobs:?} in {setup:?}");
    let balances: i64 = (0..ACCOUNTS)
        .map(|account| number(&world.call(&mut observer, &request("GET", [format!("account:{account}")]))))
        .sum();
    assert_eq!(balances, 0, "{setup:?}");
}

#[test]
fn scripts_never_end_half_applied() {
    let (mut lent, mut interruptions) = (0, 0);
    for_each_seed("roaming", 100, |mut entropy| {
        let mut setup = Setup::any(&mut entropy);
        (setup.threads, setup.shards) = (setup.threads + 1, setup.shards + 1);
        if setup.interrupt_one_in == 0 {
            setup.interrupt_one_in = 3;
        }
        if entropy.one_in(3) {
            (setup.script_trusted_after, setup.interrupt_one_in) = (0, 1 + entropy.below(3));
            setup = setup.with(3 + entropy.below(2), 2 + entropy.below(4), Entry::Roam);
        }
        let variants = if setup.script_trusted_after == 0 { VARIANTS_TRUSTED } else { VARIANTS };
        let mut world = World::new(entropy, &setup);
        let mut first = world.connect();
        check(&world.call(&mut first, &request("FUNCTION", ["LOAD", &library()])));
        for job in 0..JOBS {
            world.call(&mut first, &request("LPUSH", [list(job % LISTS), format!("{job}>")]));
        }
        let mut callers: Vec<Caller> =
            (0..6).map(|_| Caller { client: world.connect(), waits_for: 0 }).collect();
        let mut called = 0;
        while called < CALLS || callers.iter().any(|caller| caller.waits_for > 0) {
            world.step();
            for caller in &mut callers {
                called += caller.act(&mut world, called < CALLS, variants);
            }
        }
        world.settle(|_| {});
        account(&mut world, &setup);
        lent += world.server().lent();
        interruptions += world.interruptions;
    });
    println!("{interruptions} interruptions, {lent} shards lent");
    assert!(sim::are_seeds_chosen() || lent > 0, "scripts waited for each other");
}
