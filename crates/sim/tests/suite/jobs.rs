//! Leases under stress: every job is in exactly one state, no job is ended twice, attempts are counted right, and at the
//! end no worker waits for a queue that has jobs, whatever workers did and whichever of them left.
//!
//! A client counts as having got a job when the server has *queued* the reply for it, as in `queues`.

use std::collections::{BTreeMap, BTreeSet};

use blackbox::leases::{Taken, taken};
use blackbox::text;
use resp::Value;
use sim::{Client, Departure, Request, Setup, World, for_each_seed, request};

/// Requests per world.
const REQUESTS: usize = 250;
const QUEUES: usize = 3;
/// Longer than any lease and any delay.
const ALL_DUE_MS: u64 = 2_500;
const LEASE_MS_MAX: usize = 400;

/// The meaning of a request for the account.
#[derive(Clone, Debug)]
enum Meaning {
    Put { id: String },
    Take { queues: Vec<usize>, is_forever: bool },
    Done { id: String },
    Release { id: String },
    Drop { id: String },
    Neutral,
}

struct Actor {
    name: usize,
    client: Client,
    sent: Vec<Meaning>,
    answered: usize,
    held: Vec<Taken>,
}

#[derive(Default)]
struct Load {
    jobs: usize,
    /// Most attempts of each job.
    tries: BTreeMap<String, u64>,
    names: usize,
    gone: Vec<Actor>,
}

fn queue(number: usize) -> String {
    format!("q{number}")
}

impl Load {
    fn actor(&mut self, world: &World) -> Actor {
        self.names += 1;
        let client = world.connect();
        Actor { name: self.names, client, sent: Vec::new(), answered: 0, held: Vec::new() }
    }

    fn request(&mut self, world: &mut World, actor: &mut Actor) -> (Request, Meaning) {
        let lease = (1 + world.below(LEASE_MS_MAX)).to_string();
        let worker = format!("w{}", actor.name);
        let is_held = !actor.held.is_empty() && !world.one_in(4);
        if !is_held {
            return match world.below(8) {
                0..=3 => self.put(world),
                4..=6 => take(world, &worker, &lease),
                _ => {
                    let id = format!("j{}", world.below(self.jobs + 1));
                    let queue = queue(world.below(QUEUES));
                    let drops = world.one_in(3);
                    let command = if drops { "JOB.DROP" } else { "JOB.RETRY" };
                    let meaning = if drops { Meaning::Drop { id: id.clone() } } else { Meaning::Neutral };
                    (request(command, [queue, id]), meaning)
                }
            };
        }
        let number = world.below(actor.held.len());
        let Taken { queue, id, .. } = actor.held[number].clone();
        if world.one_in(5) {
            return match world.one_in(2) {
                true => (request("JOB.KEEP", [&queue, &lease, "WORKER", &worker]), Meaning::Neutral),
                false => (request("JOB.KEEP", [&queue, &lease, "ID", &id]), Meaning::Neutral),
            };
        }
        // Now and then it keeps the job, and later sends something contradictory about it.
        if !world.one_in(8) {
            actor.held.swap_remove(number);
        }
        match world.below(6) {
            0..=2 => (request("JOB.DONE", [&queue, &id]), Meaning::Done { id }),
            3 => {
                let delay = world.below(300).to_string();
                (request("JOB.FAIL", [&queue, &id, "IN", &delay, "WHY", "chance"]), Meaning::Neutral)
            }
            4 => (request("JOB.FAIL", [&queue, &id]), Meaning::Neutral),
            _ => (request("JOB.RELEASE", [&queue, &id]), Meaning::Release { id }),
        }
    }

    fn put(&mut self, world: &mut World) -> (Request, Meaning) {
        let (id, to) = (format!("j{}", self.jobs), queue(world.below(QUEUES)));
        self.jobs += 1;
        let says_id = world.one_in(2);
        let payload = if says_id { format!("{{\"id\":\"{id}\"}}") } else { "payload".to_owned() };
        if says_id && world.one_in(3) {
            return (request("LPUSH", [to, payload]), Meaning::Put { id });
        }
        let mut args = vec![to, payload, "ID".to_owned(), id.clone()];
        if world.one_in(3) {
            args.extend(["IN".to_owned(), world.below(300).to_string()]);
        }
        if world.one_in(2) {
            let tries = 1 + world.below(3);
            self.tries.insert(id.clone(), tries as u64);
            args.extend(["TRIES".to_owned(), tries.to_string()]);
        }
        (request("JOB.PUT", args), Meaning::Put { id })
    }

    fn run(&mut self, world: &mut World, actors: &mut Vec<Actor>, goes_one_in: u64, jumps: bool) {
        let mut sent = 0;
        while sent < REQUESTS {
            world.step();
            for actor in &mut *actors {
                note(world, actor);
                if world.one_in(8) && actor.client.unanswered() == 0 {
                    let (request, meaning) = self.request(world, actor);
                    actor.client.send(&request);
                    actor.sent.push(meaning);
                    sent += 1;
                }
                if world.one_in(goes_one_in) || actor.client.has_ended {
                    let how = [Departure::Reset, Departure::Close][world.below(2)];
                    actor.client.depart(how);
                    let next = self.actor(world);
                    self.gone.push(std::mem::replace(actor, next));
                }
            }
            if jumps && world.one_in(2_000) {
                let ahead_ms = world.below(2_000) as i64 - 1_000;
                world.set_clock_ahead(ahead_ms);
            }
        }
    }
}

fn take(world: &mut World, worker: &str, lease: &str) -> (Request, Meaning) {
    let queues: Vec<usize> = (0..=world.below(2)).map(|_| world.below(QUEUES)).collect();
    let count = (1 + world.below(2)).to_string();
    let mut args: Vec<String> = [worker, "LEASE", lease, "COUNT", &count].map(str::to_owned).into();
    let is_forever = world.one_in(3);
    if is_forever || world.one_in(2) {
        let wait = if is_forever { 0 } else { 1 + world.below(50) };
        args.extend(["WAIT".to_owned(), wait.to_string()]);
    }
    args.push("FROM".to_owned());
    args.extend(queues.iter().map(|number| queue(*number)));
    (request("JOB.TAKE", args), Meaning::Take { queues, is_forever })
}

/// Reads the replies that have arrived.
fn note(world: &World, actor: &mut Actor) {
    for reply in world.pump(&mut actor.client) {
        if matches!(actor.sent[actor.answered], Meaning::Take { .. }) {
            actor.held.extend(taken(&reply));
        }
        actor.answered += 1;
    }
}

/// The account of all jobs, from the replies.
#[derive(Default)]
struct Account {
    put: BTreeSet<String>,
    /// No reply arrived.
    maybe_put: BTreeSet<String>,
    done: BTreeSet<String>,
    dropped: BTreeSet<String>,
    /// No reply arrived.
    maybe_ended: BTreeSet<String>,
    released: BTreeSet<String>,
    attempts: BTreeMap<(String, u64), u64>,
}

fn account(actors: &[Actor]) -> Account {
    let mut account = Account::default();
    for actor in actors {
        let replies = actor.client.all_replies();
        for (number, meaning) in actor.sent.iter().enumerate() {
            match (meaning, replies.get(number)) {
                (Meaning::Put { id }, Some(Value::Int(_) | Value::Bulk(_))) => {
                    account.put.insert(id.clone());
                }
                (Meaning::Put { id }, Some(reply)) => panic!("{id} was not put: {reply:?}"),
                (Meaning::Put { id }, None) => drop(account.maybe_put.insert(id.clone())),
                (Meaning::Take { .. }, Some(reply)) => {
                    assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
                    for Taken { id, attempt, .. } in taken(reply) {
                        *account.attempts.entry((id, attempt)).or_default() += 1;
                    }
                }
                (Meaning::Done { id }, Some(Value::Int(1))) => {
                    assert!(account.done.insert(id.clone()), "{id} was done twice");
                }
                (Meaning::Drop { id }, Some(Value::Int(1))) => drop(account.dropped.insert(id.clone())),
                (Meaning::Done { id } | Meaning::Drop { id }, None) => {
                    account.maybe_ended.insert(id.clone());
                }
                (Meaning::Release { id }, Some(Value::Int(1)) | None) => {
                    account.released.insert(id.clone());
                }
                (Meaning::Done { id } | Meaning::Drop { id } | Meaning::Release { id }, Some(reply)) => {
                    assert_eq!(reply, &Value::Int(0), "{id}");
                }
                (Meaning::Take { .. } | Meaning::Neutral, _) => {}
            }
        }
    }
    account
}

impl Account {
    /// Checks the account against the dead jobs and those left at the end.
    fn check(&self, load: &Load, dead: &BTreeSet<String>, left: &BTreeSet<String>) {
        for id in dead.iter().chain(left).chain(&self.done) {
            assert!(self.put.contains(id) || self.maybe_put.contains(id), "nobody has put {id}");
        }
        for (one, other) in [(dead, left), (dead, &self.done), (left, &self.done)] {
            let both: Vec<_> = one.intersection(other).collect();
            assert!(both.is_empty(), "in two states: {both:?}");
        }
        let has_ended = |id: &&String| {
            [&self.done, &self.dropped, &self.maybe_ended].iter().any(|ended| ended.contains(*id))
        };
        let lost: Vec<&String> = self
            .put
            .iter()
            .filter(|id| !dead.contains(*id) && !left.contains(*id) && !has_ended(id))
            .collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        for ((id, attempt), times) in &self.attempts {
            assert!(load.tries.get(id).is_none_or(|tries| attempt <= tries), "{id} began {attempt} times");
            // RETRY restarts the count. A job that a client was about to get when it left is returned without being
            // counted.
            let may_repeat = self.released.contains(id) || *attempt == 1 || !load.gone.is_empty();
            assert!(*times == 1 || may_repeat, "{id} was taken {times} times as attempt {attempt}");
        }
    }
}

fn ids(world: &mut World, observer: &mut Client, request: &Request) -> BTreeSet<String> {
    match world.call(observer, request) {
        Value::Array(ids) => ids.iter().map(text).collect(),
        other => panic!("{other:?} has no ids"),
    }
}

/// Checks that no remaining client waits for a queue that has jobs, or lacks a reply.
fn check_waits(world: &mut World, observer: &mut Client, actors: &[Actor]) {
    for actor in actors.iter().filter(|actor| !actor.client.has_ended) {
        let Some(waits_for) = actor.sent.get(actor.answered) else { continue };
        let Meaning::Take { queues, is_forever: true } = waits_for else {
            panic!("no reply to {waits_for:?}");
        };
        for number in queues {
            let len = world.call(observer, &request("LLEN", [queue(*number)]));
            assert_eq!(len, Value::Int(0), "somebody waits for {}", queue(*number));
        }
    }
}

fn simulate(mut entropy: proactor::Entropy, totals: &mut BTreeMap<&'static str, u64>) {
    let mut setup = Setup::any(&mut entropy);
    setup.net.cut_one_in = if entropy.one_in(3) { 60 } else { 0 };
    let mut world = World::new(entropy, &setup);
    let mut load = Load::default();
    let mut actors: Vec<Actor> = (0..3 + world.below(5)).map(|_| load.actor(&world)).collect();
    let (goes_one_in, jumps) = ([40, 300, 3_000][world.below(3)], world.one_in(3));
    load.run(&mut world, &mut actors, goes_one_in, jumps);
    world.stop_cuts();
    if jumps {
        world.set_clock_ahead(0);
    }
    let act = |world: &mut World, actors: &mut Vec<Actor>, load: &mut Load| {
        for actor in actors.iter_mut().chain(&mut load.gone) {
            note(world, actor);
        }
    };
    // All leases and delays end. Clients that wait for ever have got what there was, and lost it again.
    for _ in 0..2 {
        world.run_for(ALL_DUE_MS, |world| act(world, &mut actors, &mut load));
    }
    world.settle(|world| act(world, &mut actors, &mut load));
    let mut observer = world.connect();
    check_waits(&mut world, &mut observer, &actors);
    for mut actor in actors {
        actor.client.depart(Departure::Close);
        load.gone.push(actor);
    }
    world.run_for(ALL_DUE_MS, |_| {});
    world.settle(|_| {});
    let (mut dead, mut left) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..QUEUES {
        let name = queue(number);
        for state in ["active", "delayed"] {
            let key = format!("{{{name}}}:jobs:{state}");
            assert_eq!(
                ids(&mut world, &mut observer, &request("ZRANGE", [&key, "0", "-1"])),
                BTreeSet::new()
            );
        }
        let key = format!("{{{name}}}:jobs:dead");
        let dead_here = ids(&mut world, &mut observer, &request("ZRANGE", [&key, "0", "-1"]));
        let of_drain = ["drain", "LEASE", "60000", "COUNT", "1000", "FROM", &name];
        let drained = world.call(&mut observer, &request("JOB.TAKE", of_drain));
        for Taken { id, .. } in taken(&drained) {
            assert!(left.insert(id.clone()), "{id} is there twice");
            let done = world.call(&mut observer, &request("JOB.DONE", [&name, &id]));
            assert_eq!(done, Value::Int(1), "{id}");
        }
        assert_eq!(world.call(&mut observer, &request("LLEN", [&name])), Value::Int(0));
        let records = ids(&mut world, &mut observer, &request("HKEYS", [format!("{{{name}}}:jobs")]));
        assert_eq!(records, dead_here, "what is kept of jobs that are over");
        dead.extend(dead_here);
    }
    let account = account(&load.gone);
    account.check(&load, &dead, &left);
    for (name, count) in [("done", account.done.len()), ("dead", dead.len()), ("left", left.len())] {
        *totals.entry(name).or_default() += count as u64;
    }
    *totals.entry("taken again").or_default() +=
        account.attempts.iter().filter(|((_, attempt), _)| *attempt > 1).count() as u64;
}

#[test]
fn every_job_is_in_one_state_and_attempts_count_right() {
    let mut totals = BTreeMap::new();
    for_each_seed("jobs", 150, |entropy| simulate(entropy, &mut totals));
    println!("{totals:?}");
    assert!(totals.values().all(|count| *count > 0), "{totals:?}");
}
