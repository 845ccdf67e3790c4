//! Exact waiting: who is served, in which order and when, and who times out and when, compared with a model.
//!
//! Something happens every [`TICK_MS`]: a client begins to wait, or elements are pushed. Timeouts are between two ticks,
//! so the model is always unambiguous. The network is fast, and threads are interrupted as in other tests: neither may
//! cost more than the resolution of the timers.

use std::collections::{BTreeMap, VecDeque};

use resp::Value;
use sim::{Client, Request, Setup, World, for_each_seed, request};

const TICKS: u64 = 80;
const TICK_MS: u64 = 10;
const CLIENTS: usize = 6;
const KEYS: usize = 4;
const MS: u64 = 1_000_000;
/// A timer fires at the first full millisecond after its time, and turns of other threads may come first.
const LATE_NS_MAX: u64 = MS + MS / 5;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Head,
    Tail,
}

/// A waiting client in the model.
#[derive(Clone, Debug)]
struct Waiting {
    client: usize,
    keys: Vec<usize>,
    end: End,
    /// Whether it moves the element, and gets a reply without the key.
    moves: bool,
    sent_ns: u64,
    /// 0: never.
    timeout_ms: u64,
}

/// A reply that a client must get, and when.
#[derive(Debug)]
struct Due {
    reply: Value,
    from_ns: u64,
}

#[derive(Default)]
struct Model {
    lists: BTreeMap<usize, VecDeque<u64>>,
    /// In order: first come, first served.
    waiting: Vec<Waiting>,
    due: BTreeMap<usize, Due>,
    next_element: u64,
}

fn bulk(text: String) -> Value {
    Value::Bulk(text.into_bytes())
}

impl Model {
    /// Serves a waiter from the key, which must have an element.
    fn serve(&mut self, waiting: &Waiting, key: usize, now_ns: u64) {
        let list = self.lists.entry(key).or_default();
        let element = match waiting.end {
            End::Head => list.pop_front(),
            End::Tail => list.pop_back(),
        };
        let element = bulk(element.expect("there is something").to_string());
        let reply =
            if waiting.moves { element } else { Value::Array(vec![bulk(format!("k{key}")), element]) };
        self.due.insert(waiting.client, Due { reply, from_ns: now_ns });
    }

    fn has_some(&self, key: usize) -> bool {
        self.lists.get(&key).is_some_and(|list| !list.is_empty())
    }

    fn wait(&mut self, waiting: Waiting) {
        match waiting.keys.iter().copied().find(|key| self.has_some(*key)) {
            Some(key) => self.serve(&waiting.clone(), key, waiting.sent_ns),
            None => self.waiting.push(waiting),
        }
    }

    fn push(&mut self, key: usize, elements: &[u64], now_ns: u64) {
        self.lists.entry(key).or_default().extend(elements);
        while self.has_some(key) {
            let first = self.waiting.iter().position(|waiting| waiting.keys.contains(&key));
            let Some(first) = first else { return };
            let waiting = self.waiting.remove(first);
            self.serve(&waiting, key, now_ns);
        }
    }

    /// Ends the waits that time out before `until_ns`.
    fn time_out(&mut self, until_ns: u64) {
        self.waiting.retain(|waiting| {
            let deadline_ns = waiting.sent_ns + waiting.timeout_ms * MS;
            let is_due = waiting.timeout_ms > 0 && deadline_ns < until_ns;
            if is_due {
                self.due.insert(waiting.client, Due { reply: Value::NullArray, from_ns: deadline_ns });
            }
            !is_due
        });
    }
}

fn wait_request(waiting: &Waiting) -> Request {
    let timeout = format!("{}", waiting.timeout_ms as f64 / 1000.0);
    let keys = waiting.keys.iter().map(|key| format!("k{key}"));
    match (waiting.moves, waiting.end) {
        (false, End::Head) => request("BLPOP", keys.chain([timeout])),
        (false, End::Tail) => request("BRPOP", keys.chain([timeout])),
        (true, end) => {
            let side = if end == End::Head { "LEFT" } else { "RIGHT" };
            let words = ["moved", side, "LEFT"].map(str::to_owned);
            request("BLMOVE", keys.chain(words).chain([timeout]))
        }
    }
}

struct Simulation {
    world: World,
    model: Model,
    clients: Vec<Client>,
    pusher: Client,
    /// Clients that keep the threads from sleeping until something is due.
    noise: Vec<Client>,
}

impl Simulation {
    /// Lets an idle client wait, if there is one.
    fn begin_wait(&mut self) {
        let is_idle = |client: &usize| {
            !self.model.due.contains_key(client)
                && self.model.waiting.iter().all(|waiting| waiting.client != *client)
        };
        let idle: Vec<usize> = (0..CLIENTS).filter(is_idle).collect();
        if idle.is_empty() {
            return;
        }
        let world = &mut self.world;
        let client = idle[world.below(idle.len())];
        let moves = world.one_in(4);
        let mut keys: Vec<usize> = Vec::new();
        for _ in 0..if moves { 1 } else { 1 + world.below(3) } {
            let key = world.below(KEYS);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let timeout_ms = [0, TICK_MS * world.below(12) as u64 + TICK_MS / 2][world.below(2)];
        let end = [End::Head, End::Tail][world.below(2)];
        let waiting = Waiting { client, keys, end, moves, sent_ns: world.now_ns(), timeout_ms };
        self.clients[client].send(&wait_request(&waiting));
        self.model.wait(waiting);
    }

    fn push(&mut self) {
        let (key, count) = (self.world.below(KEYS), 1 + self.world.below(3) as u64);
        let first = self.model.next_element;
        self.model.next_element += count;
        let elements: Vec<u64> = (first..first + count).collect();
        let texts = elements.iter().map(u64::to_string);
        self.pusher.send(&request("RPUSH", [format!("k{key}")].into_iter().chain(texts)));
        self.model.push(key, &elements, self.world.now_ns());
    }

    /// Runs to `end_ns`, with some noise on the way.
    fn tick_to(&mut self, end_ns: u64) {
        self.model.time_out(end_ns);
        for _ in 0..self.world.below(8) {
            let left_ns = end_ns.saturating_sub(self.world.now_ns()).max(1);
            let until_ns = self.world.now_ns() + self.world.entropy.below(left_ns);
            self.run_to(until_ns);
            let number = self.world.below(self.noise.len());
            self.noise[number].send(&request("PING", [""; 0]));
        }
        self.run_to(end_ns);
        let due = &self.model.due;
        assert!(due.is_empty(), "these did not come until {end_ns}: {due:?}");
    }

    /// Runs to `end_ns`. Every reply that arrives must be due.
    fn run_to(&mut self, end_ns: u64) {
        let (clients, due) = (&mut self.clients, &mut self.model.due);
        let (pusher, noise) = (&mut self.pusher, &mut self.noise);
        self.world.run_to(end_ns, |world| {
            noise.iter_mut().chain([&mut *pusher]).for_each(|client| drop(world.pump(client)));
            for (number, client) in clients.iter_mut().enumerate() {
                for reply in world.pump(client) {
                    let now_ns = world.now_ns();
                    let due = due.remove(&number);
                    let due = due.unwrap_or_else(|| panic!("client {number} got {reply} at {now_ns}"));
                    assert_eq!(reply, due.reply, "client {number} at {now_ns}");
                    let late_ns = now_ns.checked_sub(due.from_ns);
                    let late_ns =
                        late_ns.unwrap_or_else(|| panic!("{reply} at {now_ns}, not from {}", due.from_ns));
                    assert!(late_ns <= LATE_NS_MAX, "{reply} {late_ns} ns late at {now_ns}");
                }
            }
        });
    }
}

#[test]
fn waits_end_exactly() {
    for_each_seed("timeouts", 60, |mut entropy| {
        let mut setup = Setup::any(&mut entropy);
        setup.net.latency_ns_max = 1;
        setup.stalls_take_time = false;
        let world = World::new(entropy, &setup);
        let clients = (0..CLIENTS).map(|_| world.connect()).collect();
        let pusher = world.connect();
        let noise = (0..setup.threads).map(|_| world.connect()).collect();
        let mut simulation = Simulation { world, model: Model::default(), clients, pusher, noise };
        for tick in 1..=TICKS {
            // At any fraction of a millisecond.
            let start_ns = simulation.world.entropy.below(MS);
            simulation.tick_to(start_ns + tick * TICK_MS * MS);
            if simulation.world.one_in(3) { simulation.push() } else { simulation.begin_wait() }
        }
        simulation.tick_to((TICKS + 20) * TICK_MS * MS);
    });
}
