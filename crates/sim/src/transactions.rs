//! Random transactions of several concurrent clients, and the history of their reads and writes.
//!
//! A transaction reads and writes lists and registers: with plain commands, MULTI, scripts with and without declared
//! keys, or under WATCH. Clients disconnect in the middle of transactions, and the server may die: then the writes of
//! transactions without a reply may have happened or not.
//!
//! Not here: whether the history is possible (`history.rs`).

use std::collections::BTreeMap;

use resp::Value;

use crate::history::{Access, History, Transaction, Written};
use crate::{Client, Departure, Request, World, request};

const LISTS: usize = 5;
const REGISTERS: usize = 4;
/// A list of the registers' numbers.
const SORTED: &str = "registers";

/// Executes ARGV, which has triples of operation, key and value.
const SCRIPT: &str = "
    local replies = {}
    for i = 1, #ARGV, 3 do
        local what, key, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
        if what == 'append' then replies[#replies + 1] = redis.call('RPUSH', key, value)
        elseif what == 'read' then replies[#replies + 1] = redis.call('LRANGE', key, 0, -1)
        elseif what == 'set' then replies[#replies + 1] = redis.call('SET', key, value)
        else replies[#replies + 1] = redis.call('GET', key) end
    end
    return replies";

/// The accesses that a transaction is to make; `seen` and `length` are still empty.
type Plan = Vec<Access>;

fn key_name(access: &Access) -> String {
    match access {
        Access::Append { key, .. } | Access::Read { key, .. } => format!("list:{key}"),
        Access::Set { key, .. } | Access::Get { key, .. } => format!("register:{key}"),
    }
}

fn command(access: &Access) -> Request {
    let key = key_name(access);
    match access {
        Access::Append { value, .. } => request("RPUSH", [key, value.to_string()]),
        Access::Read { .. } => request("LRANGE", [&key, "0", "-1"]),
        Access::Set { value, .. } => request("SET", [key, value.to_string()]),
        Access::Get { .. } => request("GET", [key]),
    }
}

/// The script. Each `variant` is a different one to the server, which learns separately whether it roams.
fn script(plan: &Plan, declares_keys: bool, variant: usize) -> Request {
    let keys: Vec<String> = if declares_keys { plan.iter().map(key_name).collect() } else { Vec::new() };
    let mut args = vec![format!("{SCRIPT} -- {variant}"), keys.len().to_string()];
    args.extend(keys);
    for access in plan {
        let (what, value) = match access {
            Access::Append { value, .. } => ("append", *value),
            Access::Read { .. } => ("read", 0),
            Access::Set { value, .. } => ("set", *value),
            Access::Get { .. } => ("get", 0),
        };
        args.extend([what.to_owned(), key_name(access), value.to_string()]);
    }
    request("EVAL", args)
}

fn multi(plan: &[Access]) -> Vec<Request> {
    let (begin, end) = (request("MULTI", [""; 0]), request("EXEC", [""; 0]));
    [begin].into_iter().chain(plan.iter().map(command)).chain([end]).collect()
}

/// How a plan is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Vehicle {
    Plain,
    /// MSET or MGET.
    Many,
    /// SORT with GET, which reads keys found by a pattern.
    Sort,
    Multi,
    Script,
    /// A script that declares no keys, with its variant.
    RoamingScript(usize),
    /// This many accesses are reads of watched keys, before MULTI.
    Watch(usize),
}

/// A transaction in progress.
struct Pending {
    plan: Plan,
    vehicle: Vehicle,
    sent: u64,
    reply_count: usize,
    replies: Vec<Value>,
}

impl Pending {
    fn requests(&self) -> Vec<Request> {
        match self.vehicle {
            Vehicle::Plain => vec![command(&self.plan[0])],
            Vehicle::Many => {
                let mut words = Vec::new();
                for access in &self.plan {
                    words.push(key_name(access));
                    words.extend(match access {
                        Access::Set { value, .. } => Some(value.to_string()),
                        _ => None,
                    });
                }
                vec![request(if words.len() == self.plan.len() { "MGET" } else { "MSET" }, words)]
            }
            Vehicle::Sort => {
                let count = self.plan.len().to_string();
                let words = [SORTED, "BY", "nosort", "GET", "register:*", "LIMIT", "0", &count];
                vec![request("SORT_RO", words)]
            }
            Vehicle::Multi => multi(&self.plan),
            Vehicle::Script => vec![script(&self.plan, true, 0)],
            Vehicle::RoamingScript(variant) => vec![script(&self.plan, false, variant)],
            Vehicle::Watch(count) => {
                let (watched, queued) = self.plan.split_at(count);
                let watch = request("WATCH", watched.iter().map(key_name));
                let reads = watched.iter().map(command);
                [watch].into_iter().chain(reads).chain(multi(queued)).collect()
            }
        }
    }

    /// The transactions that the replies show: one per read of a watched key, and at the end the whole.
    fn outcomes(&self) -> Vec<Vec<Access>> {
        let mut replies = self.replies.clone();
        let last = replies.pop().expect("there is at least one reply");
        let mut all = Vec::new();
        let mut wholes = Vec::new();
        if let Vehicle::Watch(count) = self.vehicle {
            for (access, reply) in self.plan[..count].iter().zip(&replies[1..]) {
                wholes.push(reply.clone());
                all.push(vec![saw(access, reply)]);
            }
        }
        match (self.vehicle, last) {
            // A watched key has changed, so nothing was done.
            (Vehicle::Watch(_), Value::NullArray) => {}
            // The journal cannot be written, so nothing was done.
            (_, Value::Error(error)) if error.starts_with(b"MISCONF") || error.starts_with(b"EXECABORT") => {}
            (Vehicle::Plain, reply) => wholes.push(reply),
            (Vehicle::Many, Value::Simple(_)) => {
                wholes.extend(self.plan.iter().map(|_| Value::Simple(b"OK".to_vec())));
            }
            (_, Value::Array(replies)) => wholes.extend(replies),
            (vehicle, reply) => panic!("{vehicle:?} got {reply}"),
        }
        if wholes.len() == self.plan.len() {
            all.push(self.plan.iter().zip(&wholes).map(|(access, reply)| saw(access, reply)).collect());
        }
        all
    }
}

fn number(reply: &Value) -> Written {
    match reply {
        Value::Bulk(text) => String::from_utf8_lossy(text).parse().expect("values are numbers"),
        other => panic!("a value is {other}"),
    }
}

fn numbers(reply: &Value) -> Vec<Written> {
    match reply {
        Value::Array(items) => items.iter().map(number).collect(),
        other => panic!("a list is {other}"),
    }
}

/// The access, completed with what its reply says.
fn saw(access: &Access, reply: &Value) -> Access {
    match (access, reply) {
        (Access::Append { key, value, .. }, Value::Int(length)) => {
            Access::Append { key: *key, value: *value, length: Some(*length as usize) }
        }
        (Access::Read { key, .. }, reply) => Access::Read { key: *key, seen: numbers(reply) },
        (Access::Set { .. }, Value::Simple(_)) => access.clone(),
        (Access::Get { key, .. }, Value::Null) => Access::Get { key: *key, seen: None },
        (Access::Get { key, .. }, reply) => Access::Get { key: *key, seen: Some(number(reply)) },
        (access, reply) => panic!("{access:?} got {reply}"),
    }
}

/// A client with its transactions in progress, oldest first.
struct Actor {
    client: Client,
    number: usize,
    pending: Vec<Pending>,
}

/// Clients, what they do, and what they saw.
pub struct Load {
    /// The history so far.
    pub history: History,
    /// Whether changes may be lost in a crash. Only lists show what is lost, so every transaction that writes
    /// registers also appends to a list.
    pub is_lossy: bool,
    actors: Vec<Actor>,
    next_value: Written,
    /// Number of transactions sent.
    pub started: usize,
    next_client: usize,
    pipeline_max: usize,
    departs_one_in: u64,
    /// When the events were at which something was sent or answered, in nanoseconds on the world's clock.
    pub moments_ns: BTreeMap<u64, u64>,
    /// A run ends after one in this many replies; 0: none.
    pub ends_at_reply_one_in: u64,
}

impl Load {
    /// A load that has not begun. Creates the data it needs in the world.
    pub fn new(world: &mut World) -> Load {
        let numbers = (0..REGISTERS).map(|number| number.to_string());
        let list = request("RPUSH", [SORTED.to_owned()].into_iter().chain(numbers));
        let mut observer = world.connect();
        world.call(&mut observer, &list);
        Load {
            history: History::default(),
            is_lossy: false,
            actors: Vec::new(),
            next_value: 0,
            started: 0,
            next_client: 0,
            pipeline_max: 1,
            departs_one_in: 0,
            moments_ns: BTreeMap::new(),
            ends_at_reply_one_in: 0,
        }
    }

    /// Accesses of distinct keys, so that every reply shows the state before the transaction.
    fn plan(&mut self, world: &mut World, vehicle: Vehicle) -> Plan {
        let length = if vehicle == Vehicle::Plain { 1 } else { 2 + world.below(3) };
        let only_set = vehicle == Vehicle::Many && world.one_in(2) && !self.is_lossy;
        let mut keys: Vec<usize> = (0..LISTS + REGISTERS).collect();
        let mut plan = Vec::new();
        while plan.len() < length {
            let key = keys.swap_remove(world.below(keys.len()));
            let writes = world.one_in(2);
            self.next_value += 1;
            let value = self.next_value;
            let is_read = matches!(vehicle, Vehicle::Watch(count) if plan.len() < count);
            let access = if matches!(vehicle, Vehicle::Many | Vehicle::Sort) {
                let key = plan.len() % REGISTERS;
                if only_set { Access::Set { key, value } } else { Access::Get { key, seen: None } }
            } else if key < LISTS {
                if writes && !is_read {
                    Access::Append { key, value, length: None }
                } else {
                    Access::Read { key, seen: Vec::new() }
                }
            } else if writes && !is_read {
                Access::Set { key: key - LISTS, value }
            } else {
                Access::Get { key: key - LISTS, seen: None }
            };
            plan.push(access);
        }
        if self.is_lossy && !plan.iter().any(|access| matches!(access, Access::Append { .. })) {
            for access in &mut plan {
                if let Access::Set { key, .. } = *access {
                    *access = Access::Get { key, seen: None };
                }
            }
        }
        plan
    }

    fn start(&mut self, world: &mut World, actor: &mut Actor) {
        use Vehicle::{Many, Multi, Plain, RoamingScript, Script, Sort, Watch};
        let roaming = RoamingScript(1 + world.below(20));
        let vehicles =
            [Plain, Plain, Plain, Plain, Many, Many, Sort, Multi, Multi, Script, roaming, Watch(1)];
        let vehicle = vehicles[world.below(vehicles.len())];
        let plan = self.plan(world, vehicle);
        self.send(world, actor, plan, vehicle);
        self.started += 1;
    }

    fn send(&mut self, world: &mut World, actor: &mut Actor, plan: Plan, vehicle: Vehicle) {
        self.moments_ns.insert(world.event, world.now_ns());
        let mut pending = Pending { plan, vehicle, sent: world.event, reply_count: 0, replies: Vec::new() };
        let requests = pending.requests();
        pending.reply_count = requests.len();
        requests.iter().for_each(|request| actor.client.send(request));
        actor.pending.push(pending);
    }

    /// Receives replies, at event `at` if that is not the current one. Returns their number.
    fn receive(&mut self, world: &mut World, actor: &mut Actor, at: Option<u64>) -> usize {
        let (event, now_ns) = at.map_or((world.event, world.now_ns()), |at| (at, world.died_ns));
        let answered = Some(event);
        self.moments_ns.insert(event, now_ns);
        let replies = world.pump(&mut actor.client);
        let count = replies.len();
        for reply in replies {
            let pending = actor.pending.first_mut().expect("a reply belongs to a request");
            pending.replies.push(reply);
            if pending.replies.len() < pending.reply_count {
                continue;
            }
            let pending = actor.pending.remove(0);
            for accesses in pending.outcomes() {
                self.note(actor.number, &pending, answered, None, accesses);
            }
        }
        count
    }

    fn note(
        &mut self,
        client: usize,
        pending: &Pending,
        answered: Option<u64>,
        over: Option<u64>,
        accesses: Vec<Access>,
    ) {
        let name = format!("{:?}", pending.vehicle);
        let sent = pending.sent;
        self.history.transactions.push(Transaction { name, client, sent, answered, over, accesses });
    }

    /// Records a transaction whose client never got a reply. Its writes may have happened, before the event `over`.
    fn note_unknown(&mut self, client: usize, pending: &Pending, over: Option<u64>) {
        let is_write = |access: &&Access| matches!(access, Access::Append { .. } | Access::Set { .. });
        let writes: Vec<Access> = pending.plan.iter().filter(is_write).cloned().collect();
        if !writes.is_empty() {
            self.note(client, pending, None, over, writes);
        }
    }

    /// A client leaves in the middle, and another one arrives.
    fn replace(&mut self, world: &mut World, actor: &mut Actor) {
        let how = [Departure::Reset, Departure::Close][world.below(2)];
        actor.client.depart(how);
        for pending in std::mem::take(&mut actor.pending) {
            self.note_unknown(actor.number, &pending, None);
        }
        *actor = self.actor(world);
    }

    /// Connects clients that send random transactions.
    fn begin(&mut self, world: &mut World) {
        let count = 2 + world.below(5);
        self.pipeline_max = 1 + world.below(3);
        self.departs_one_in = [0, 200, 2_000][world.below(3)];
        self.actors = (0..count).map(|_| self.actor(world)).collect();
    }

    fn actor(&mut self, world: &mut World) -> Actor {
        self.next_client += 1;
        Actor { client: world.connect(), number: self.next_client - 1, pending: Vec::new() }
    }

    /// Runs until `count` transactions in all have been sent and answered, the server dies, or `is_enough` holds,
    /// which is checked after each event.
    pub fn run(&mut self, world: &mut World, count: usize, mut is_enough: impl FnMut(&mut World) -> bool) {
        if self.actors.is_empty() {
            self.begin(world);
        }
        let life = world.life;
        while self.started < count || self.actors.iter().any(|actor| !actor.pending.is_empty()) {
            world.step();
            if world.life != life || is_enough(world) {
                return;
            }
            let mut actors = std::mem::take(&mut self.actors);
            let mut is_over = false;
            for actor in &mut actors {
                let replies = self.receive(world, actor, None);
                is_over |= self.ends_at_reply_one_in > 0
                    && (0..replies).any(|_| world.one_in(self.ends_at_reply_one_in));
                let is_time = self.started < count && world.one_in(6);
                if is_time && actor.pending.len() < self.pipeline_max {
                    self.start(world, actor);
                } else if self.departs_one_in > 0
                    && !actor.pending.is_empty()
                    && world.one_in(self.departs_one_in)
                {
                    self.replace(world, actor);
                }
            }
            self.actors = actors;
            if is_over {
                return;
            }
        }
    }

    /// The server has died, and all clients have gone. They still read what they had received.
    pub fn note_death(&mut self, world: &mut World) {
        for mut actor in std::mem::take(&mut self.actors) {
            self.receive(world, &mut actor, Some(world.died_at));
            for pending in std::mem::take(&mut actor.pending) {
                self.note_unknown(actor.number, &pending, Some(world.died_at));
            }
        }
    }

    /// Reads everything in one transaction, which is added to the history. Returns the lists.
    pub fn look(&mut self, world: &mut World) -> BTreeMap<usize, Vec<Written>> {
        let mut actor = self.actor(world);
        let lists = (0..LISTS).map(|key| Access::Read { key, seen: Vec::new() });
        let plan: Plan = lists.chain((0..REGISTERS).map(|key| Access::Get { key, seen: None })).collect();
        self.send(world, &mut actor, plan, Vehicle::Multi);
        while !actor.pending.is_empty() {
            world.step();
            self.receive(world, &mut actor, None);
        }
        let saw = &self.history.transactions.last().expect("it was answered").accesses;
        let list = |access: &Access| match access {
            Access::Read { key, seen } => Some((*key, seen.clone())),
            _ => None,
        };
        saw.iter().filter_map(list).collect()
    }

    /// Completes the history.
    pub fn finish(&mut self, world: &mut World) {
        world.settle(|_| {});
        self.history.lists = self.look(world);
        // The graph needs them in the order in which they were sent.
        self.history.transactions.sort_by_key(|transaction| transaction.sent);
    }
}
