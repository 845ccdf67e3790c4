//! Several servers, a primary and its replicas, on a network that delays, cuts and partitions, while servers die and others take over.
//!
//! - **A prefix**: a server's data is always what its primary's stream had produced up to some offset. Clients write `x:<n>`, then `y:<n>`,
//!   and `a:<n>` and `b:<n>` in one transaction: on no server may the second be ahead of the first, or one of the two exist without the
//!   other.
//! - **One stream**: two servers that know the stream by the same id have the same data at the same offset, primaries at any moment; in the
//!   end all have the same.
//! - **Nothing acknowledged is lost** (`repl-sync-replicas` as large as the number of replicas that may be promoted): each acknowledged
//!   element of a queue is there, or one worker got it or was about to. No element is given to two workers.
//! - **Nothing that was read is lost** (under the same condition): what a client read on a server that said that it is
//!   the primary is there in the end, also if that server had just been restarted.
//!
//! In half of the tests a primary that dies comes back as the primary, with its journal, as under a supervisor that is
//! faster than Sentinel. Its replicas follow it again, although it refuses to show its data until they have them.
//!
//! The replica to promote is chosen like Sentinel does: one that reports that it may be promoted (`slave_priority`).

use std::collections::{BTreeMap, BTreeSet};

use proactor::Entropy;
use resp::Value;
use sim::{
    Client, Death, Facts, Journal, Machine, Request, Setup, Stage, Sync, World, facts, follows,
    for_each_seed, may_lead, request,
};

const LISTS: usize = 3;
/// The longest pause of a client.
const THINKS_NS_MAX: usize = 30_000_000;
/// How long it may take until all follow, once nothing is in the way.
const REUNION_MS: u64 = 120_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Producer,
    Worker,
    Writer,
    Reader,
}

/// The meaning of the next reply that counts.
#[derive(Clone, Debug)]
enum Meaning {
    Push(Vec<u64>),
    Pop(usize),
    Ordered(usize),
    Paired(usize),
    Written(u64),
    Nothing,
}

struct Actor {
    role: Role,
    client: Option<Client>,
    /// The awaited result, and the number of replies until it.
    pending: Option<(Meaning, usize)>,
    /// The keys that it writes, and its next number.
    keys: usize,
    next: u64,
    /// When it acts next, on the world's clock.
    acts_ns: u64,
}

impl Actor {
    fn new(role: Role) -> Actor {
        Actor { role, client: None, pending: None, keys: 0, next: 0, acts_ns: 0 }
    }
}

#[derive(Default)]
struct Account {
    /// Whether nothing that was acknowledged may be lost.
    is_kept: bool,
    next_element: u64,
    acknowledged: BTreeSet<u64>,
    got: BTreeSet<u64>,
    owed: usize,
    /// The largest numbers that were read on a primary, by the number of the keys, and the key.
    read: BTreeMap<(usize, String), u64>,
}

/// All servers, and which one should be the primary.
struct Fleet {
    world: World,
    count: usize,
    primary: usize,
    is_up: Vec<bool>,
    parted: Vec<(usize, usize)>,
    keeps_all: bool,
    /// Each server keeps its acknowledged data in its own journal, too, so that it may come back as the primary.
    restarts: bool,
    actors: Vec<Actor>,
    keys: usize,
    account: Account,
    /// Digests, by id and offset of the stream.
    seen: BTreeMap<(String, u64), String>,
    acknowledged_writes: usize,
    promotions: usize,
    handovers: usize,
    /// How often a primary came back as the primary.
    restarted: usize,
    /// The last server that was told to become the primary. It may have done so without replying.
    chosen: usize,
    is_quiet: bool,
}

/// The database of the keys with this number.
fn database(keys: usize) -> String {
    (keys % 3).to_string()
}

fn words<const N: usize>(command: &str, words: [&str; N]) -> Request {
    request(command, words)
}

fn element(value: &Value) -> Option<u64> {
    if let Value::Bulk(text) = value { String::from_utf8_lossy(text).parse().ok() } else { None }
}

fn elements(reply: &Value) -> Vec<u64> {
    match reply {
        Value::Array(items) => items.iter().flat_map(elements).collect(),
        value => element(value).into_iter().collect(),
    }
}

impl Account {
    /// Two numbers, which only grow, and the role of the server, were read together. Returns the numbers.
    fn note_read(&mut self, names: [&str; 2], keys: usize, items: &[Value]) -> [u64; 2] {
        let [Value::Array(both), Value::Array(role)] = items else { panic!("{items:?}") };
        let numbers = [0, 1].map(|index| element(&both[index]).unwrap_or(0));
        if role[0] == Value::Bulk(b"master".to_vec()) {
            for (name, number) in names.iter().zip(numbers) {
                let read = self.read.entry((keys, format!("{name}:{keys}"))).or_default();
                *read = number.max(*read);
            }
        }
        numbers
    }

    fn note(&mut self, meaning: &Meaning, reply: &Value) -> bool {
        match (meaning, reply) {
            (_, Value::Error(_)) => return false,
            (Meaning::Push(elements), _) => self.acknowledged.extend(elements),
            (Meaning::Pop(_), reply) => {
                for element in elements(reply) {
                    let is_first = self.got.insert(element);
                    assert!(is_first || !self.is_kept, "{element} was given twice");
                }
            }
            (Meaning::Ordered(keys), Value::Array(items)) => {
                let [x, y] = self.note_read(["x", "y"], *keys, items);
                assert!(y <= x && x <= y + 1, "x is {x} and y is {y}");
            }
            (Meaning::Paired(keys), Value::Array(items)) => {
                let [a, b] = self.note_read(["a", "b"], *keys, items);
                assert_eq!(a, b, "half of a transaction");
            }
            _ => {}
        }
        true
    }
}

impl Stage for Fleet {
    fn world(&mut self) -> &mut World {
        &mut self.world
    }

    fn step(&mut self) {
        self.world.step();
        for index in 0..self.actors.len() {
            let mut actor = std::mem::replace(&mut self.actors[index], Actor::new(Role::Reader));
            self.act(&mut actor);
            self.actors[index] = actor;
        }
    }
}

impl Fleet {
    fn new(mut entropy: Entropy, restarts: bool) -> Fleet {
        let mut setups = Vec::new();
        let count = 2 + entropy.below(3) as usize;
        let keeps_all = restarts || entropy.one_in(2);
        // Replies wait until replicas have the changes on their disks. All servers have a journal, and require that.
        let is_durable = entropy.one_in(3);
        let sync_count = if restarts { 1 } else { 3 - usize::from(is_durable) };
        let syncs = &[Sync::Always, Sync::EverySecond, Sync::Never][..sync_count];
        for number in 0..count {
            let mut setup = Setup::any(&mut entropy);
            setup.threads = setup.threads.min(3);
            setup.net.window_bytes = setup.net.window_bytes.max(1_000);
            setup.script_trusted_after = setup.script_trusted_after.max(1_000);
            setup.replicates = true;
            let sync = syncs[entropy.below(syncs.len() as u64) as usize];
            let has_journal = restarts || is_durable || entropy.one_in(2);
            setup.journal = has_journal.then(|| Journal::any(&mut entropy, sync));
            setup.more = more(&mut entropy, keeps_all, count);
            setup.more.extend(is_durable.then(|| "--repl-sync-ack=durable".to_owned()));
            setup.more.push(format!("--replica-announce-ip={}", Machine::host_of(number)));
            if number > 0 {
                setup.more.push(format!("--replicaof={} 6379", Machine::host_of(0)));
            }
            setups.push(setup);
        }
        let mut world = World::new(entropy, &setups[0]);
        for setup in &setups[1..] {
            world.add(setup);
        }
        let roles = [Role::Producer, Role::Worker, Role::Writer, Role::Writer, Role::Reader, Role::Reader];
        Fleet {
            world,
            count,
            primary: 0,
            is_up: vec![true; count],
            parted: Vec::new(),
            keeps_all,
            restarts,
            actors: roles.map(Actor::new).into_iter().collect(),
            keys: 0,
            account: Account { is_kept: keeps_all, ..Account::default() },
            seen: BTreeMap::new(),
            acknowledged_writes: 0,
            promotions: 0,
            handovers: 0,
            restarted: 0,
            chosen: 0,
            is_quiet: false,
        }
    }

    fn act(&mut self, actor: &mut Actor) {
        let acts = !self.is_quiet && self.world.now_ns() >= actor.acts_ns;
        if acts {
            actor.acts_ns = self.world.now_ns() + self.world.below(THINKS_NS_MAX) as u64;
        }
        let Some(client) = &mut actor.client else {
            if acts {
                self.connect(actor);
            }
            return;
        };
        for reply in self.world.pump(client) {
            let Some((meaning, left)) = &mut actor.pending else { continue };
            *left -= 1;
            if *left > 0 {
                continue;
            }
            let meaning = meaning.clone();
            actor.pending = None;
            if self.account.note(&meaning, &reply) {
                self.acknowledged_writes += 1;
                if let Meaning::Written(next) = meaning {
                    actor.next = next;
                }
            } else {
                // The server is no longer the primary, or too few replicas follow it.
                client.has_ended = true;
            }
        }
        let bored = acts && actor.pending.is_none() && self.world.one_in(40);
        if client.has_ended || bored {
            if let Some((Meaning::Pop(count), _)) = actor.pending.take() {
                self.account.owed += count;
            }
            actor.client = None;
        } else if acts && actor.pending.is_none() {
            self.send(actor);
        }
    }

    fn connect(&mut self, actor: &mut Actor) {
        let is_stray = actor.role == Role::Reader || self.world.one_in(4);
        let to = if is_stray { self.world.below(self.count) } else { self.primary };
        actor.client = self.world.connect_to(to);
        self.keys += 1;
        (actor.keys, actor.next) = (self.keys, 0);
    }

    fn send(&mut self, actor: &mut Actor) {
        let Some(client) = &mut actor.client else { return };
        let list = |world: &mut World| format!("q{}", world.below(LISTS));
        let (requests, meaning) = match actor.role {
            Role::Producer => {
                let count = 1 + self.world.below(2) as u64;
                let elements: Vec<u64> = (0..count).map(|index| self.account.next_element + index).collect();
                self.account.next_element += count;
                let args = elements.iter().map(u64::to_string);
                let args: Vec<String> = [list(&mut self.world)].into_iter().chain(args).collect();
                (vec![request("LPUSH", args)], Meaning::Push(elements))
            }
            Role::Worker => {
                let (one, other) = (list(&mut self.world), list(&mut self.world));
                match self.world.below(4) {
                    0 => (vec![words("RPOP", [&one])], Meaning::Pop(1)),
                    1 => (vec![words("LMPOP", ["2", &one, &other, "LEFT", "COUNT", "2"])], Meaning::Pop(2)),
                    2 => (vec![words("LMOVE", [&one, &other, "LEFT", "RIGHT"])], Meaning::Nothing),
                    _ => (vec![words("BRPOP", [&one, &other, "0.2"])], Meaning::Pop(1)),
                }
            }
            Role::Writer if actor.keys.is_multiple_of(2) => {
                let next = actor.next + 1;
                let key = format!("{}:{}", ["y", "x"][(next % 2) as usize], actor.keys);
                let select = words("SELECT", [&database(actor.keys)]);
                (vec![select, words("SET", [&key, &next.div_ceil(2).to_string()])], Meaning::Written(next))
            }
            Role::Writer => {
                let (a, b) = (format!("a:{}", actor.keys), format!("b:{}", actor.keys));
                let transaction = vec![
                    words("SELECT", [&database(actor.keys)]),
                    words("MULTI", []),
                    words("INCR", [&a]),
                    words("INCR", [&b]),
                    words("EXEC", []),
                ];
                (transaction, Meaning::Nothing)
            }
            Role::Reader => {
                let keys = self.world.below(self.keys + 1);
                let select = words("SELECT", [&database(keys)]);
                let both = |one, other| {
                    let both = words("MGET", [&format!("{one}:{keys}"), &format!("{other}:{keys}")]);
                    vec![select, words("MULTI", []), both, words("ROLE", []), words("EXEC", [])]
                };
                if self.world.one_in(2) {
                    (both("x", "y"), Meaning::Ordered(keys))
                } else {
                    (both("a", "b"), Meaning::Paired(keys))
                }
            }
        };
        requests.iter().for_each(|request| client.send(request));
        actor.pending = Some((meaning, requests.len()));
    }

    /// Reads the state of a server, and compares it with what others had at the same offset.
    fn observe(&mut self, number: usize) {
        let look = [
            words("MULTI", []),
            words("INFO", ["replication"]),
            words("DEBUG", ["DIGEST"]),
            words("EXEC", []),
        ];
        let Some(Value::Array(both)) = self.ask(number, &look) else { return };
        let (facts, digest) = (facts(&both[0]), both[1].to_string());
        let says = |name: &str| facts.get(name).cloned().unwrap_or_default();
        let is_following = says("role") == "slave" && says("master_link_status") == "up";
        // Without a stream nothing counts the changes.
        let is_leading = says("role") == "master" && says("repl_backlog_active") == "1";
        if !(is_following || is_leading) {
            return;
        }
        let offset = says(if is_following { "slave_repl_offset" } else { "master_repl_offset" });
        let place = (says("master_replid"), offset.parse().expect("an offset is a number"));
        let before = self.seen.entry(place.clone()).or_insert_with(|| digest.clone());
        assert_eq!(*before, digest, "server {number} has something else at {place:?}");
    }

    /// Makes another server the primary, if one is fit and gets the command.
    fn promote(&mut self) {
        let candidates: Vec<usize> = (0..self.count).filter(|number| *number != self.primary).collect();
        let mut fit = Vec::new();
        for number in candidates {
            let facts = self.facts(number);
            let is = |role: &str| facts.get("role").is_some_and(|it| it == role);
            if number == self.chosen && is("master") {
                return self.lead(number);
            }
            if is("slave") && may_lead(&facts) {
                fit.push(number);
            }
        }
        if fit.is_empty() {
            return;
        }
        self.chosen = fit[self.world.below(fit.len())];
        let told = self.ask(self.chosen, &[words("REPLICAOF", ["NO", "ONE"])]);
        if told.is_some_and(|reply| reply.to_string() == "OK") {
            self.lead(self.chosen);
        }
    }

    /// Makes the primary hand over, if it gets the command and the other one takes over.
    fn hand_over(&mut self) {
        let (primary, chosen) = (self.primary, self.world.below(self.count));
        let host = Machine::host_of(chosen);
        let told = self.ask(primary, &[words("FAILOVER", ["TO", &host, "6379", "TIMEOUT", "300"])]);
        // Without a reply, the failover may be in progress.
        if !self.is_up[primary] || told.is_some_and(|reply| reply.to_string() != "OK") {
            return;
        }
        let ms = 1 + self.world.below(2_000) as u64;
        self.run_for(ms);
        // The result has to be known before anything else happens.
        let role = loop {
            self.end_failover(primary);
            let mut facts = self.facts(primary);
            if facts.get("master_failover_state").is_some_and(|state| state == "no-failover") {
                break facts.remove("role").expect("it is told with the other");
            }
        };
        if role == "slave" {
            self.chosen = chosen;
            self.handovers += 1;
            self.lead(chosen);
        }
    }

    /// Aborts a failover that has not ended by itself.
    fn end_failover(&mut self, number: usize) {
        self.ask(number, &[words("FAILOVER", ["ABORT"])]);
    }

    /// A server has become the primary: makes all others follow it.
    fn lead(&mut self, chosen: usize) {
        self.promotions += 1;
        self.primary = chosen;
        for number in 0..self.count {
            self.start_under(number, self.primary);
        }
        for number in (0..self.count).filter(|number| *number != chosen) {
            if self.world.one_in(2) {
                self.run_for(10);
            }
            self.follow(number, self.primary);
        }
    }
}

/// More arguments for the start of a server.
fn more(entropy: &mut Entropy, keeps_all: bool, count: usize) -> Vec<String> {
    let mut pick = |choices: &[&str]| choices[entropy.below(choices.len() as u64) as usize].to_owned();
    let backlog = pick(&["16kb", "1mb"]);
    let sync = if keeps_all { count - 1 } else { 0 };
    vec![
        format!("--repl-backlog-size={backlog}"),
        format!("--repl-sync-replicas={sync}"),
        format!("--repl-diskless-sync={}", pick(&["yes", "no"])),
        "--repl-diskless-sync-delay=0".to_owned(),
        "--repl-ping-replica-period=1".to_owned(),
        "--repl-timeout=10".to_owned(),
    ]
}

/// The events of servers.
impl Fleet {
    /// Whether all running servers follow the primary, and report that they may take its place.
    fn is_whole(&mut self) -> bool {
        if self.is_up.contains(&false) {
            return false;
        }
        let primary = self.primary;
        let at = self.facts(primary).get("master_replid").cloned();
        (0..self.count).filter(|number| *number != primary).all(|number| {
            let facts = self.facts(number);
            follows(&facts, primary) && facts.get("master_replid") == at.as_ref()
        })
    }

    fn die(&mut self, number: usize) {
        let death = [Death::Power, Death::Process][self.world.below(2)];
        self.world.kill(number, death);
        self.is_up[number] = false;
    }

    fn come_back(&mut self) {
        for number in 0..self.count {
            if !self.is_up[number] {
                self.is_up[number] = true;
                self.world.start(number);
            }
        }
    }

    fn join(&mut self) {
        for (one, other) in std::mem::take(&mut self.parted) {
            self.world.part(one, other, false);
        }
    }

    /// Lets something random happen.
    fn happen(&mut self) {
        match self.world.below(9) {
            0 => {
                let cut_one_in = [0, 200, 1_000][self.world.below(3)];
                self.world.cut_one_in(cut_one_in);
            }
            1 if self.parted.len() < 2 => {
                let (one, other) = (self.world.below(self.count), self.world.below(self.count));
                if one != other {
                    self.world.part(one, other, true);
                    self.parted.push((one, other));
                }
            }
            2 => self.join(),
            // If nothing may be lost, no server dies until another one has everything again.
            3 | 4 if !self.keeps_all || self.is_whole() => {
                let of_all = self.world.below(self.count);
                let number = if self.restarts && self.world.one_in(2) { self.primary } else { of_all };
                self.die(number);
                if number == self.primary && !(self.restarts && self.world.one_in(2)) {
                    self.promote();
                }
            }
            5 => self.come_back_if_allowed(),
            6 => self.promote(),
            7 => self.hand_over(),
            _ => {
                let number = self.world.below(self.count);
                self.observe(number);
            }
        }
    }

    /// Starts the dead servers again. If one is the primary, and nothing may be lost, only if it may come back as such.
    fn come_back_if_allowed(&mut self) {
        if self.is_up[self.primary] || !self.keeps_all {
            self.come_back();
        } else if self.restarts {
            self.restarted += 1;
            self.come_back();
        }
    }

    /// Removes all obstacles, waits until all follow, and checks that all have the same data.
    fn unite(&mut self) {
        self.world.stop_cuts();
        self.world.let_stalls_take_time(false);
        self.join();
        if self.restarts {
            self.come_back_if_allowed();
        }
        for _ in 0..20 {
            if self.is_up[self.primary] {
                break;
            }
            self.promote();
            self.run_for(500);
        }
        assert!(self.is_up[self.primary] || !self.keeps_all, "nobody could take the place of the primary");
        self.come_back();
        (0..self.count).for_each(|number| self.end_failover(number));
        let end_ns = self.world.now_ns() + REUNION_MS * 1_000_000;
        loop {
            for number in (0..self.count).filter(|number| *number != self.primary).collect::<Vec<_>>() {
                self.follow(number, self.primary);
            }
            self.run_for(1_000);
            if self.is_whole() {
                break;
            }
            if self.world.now_ns() >= end_ns {
                let all: Vec<Facts> = (0..self.count).map(|number| self.facts(number)).collect();
                panic!("they do not come together: {all:#?}");
            }
        }
    }

    /// Checks that all have the same data, and everything that was promised.
    fn compare(&mut self) {
        self.is_quiet = true;
        self.run_for(3_000);
        for number in 0..self.count {
            self.observe(number);
        }
        let digest = words("DEBUG", ["DIGEST"]);
        let digests: Vec<Option<Value>> =
            (0..self.count).map(|number| self.ask(number, std::slice::from_ref(&digest))).collect();
        let texts: Vec<_> = digests.iter().map(|digest| digest.as_ref().map(Value::to_string)).collect();
        assert!(digests.iter().all(|digest| *digest == digests[0] && digest.is_some()), "{texts:?}");
        if self.keeps_all {
            self.check_account();
        }
        self.is_quiet = false;
    }

    fn check_account(&mut self) {
        let mut places = self.account.got.clone();
        for list in 0..LISTS {
            let reply = self.ask(self.primary, &[words("LRANGE", [&format!("q{list}"), "0", "-1"])]);
            for element in elements(&reply.expect("the primary answers")) {
                assert!(places.insert(element), "{element} is in two places");
            }
        }
        for ((keys, key), read) in self.account.read.clone() {
            let get = [words("SELECT", [&database(keys)]), words("GET", [&key])];
            let found = self.ask(self.primary, &get).and_then(|reply| element(&reply)).unwrap_or(0);
            assert!(found >= read, "{key} was read as {read}, and is {found}");
        }
        let missing: Vec<u64> = self.account.acknowledged.difference(&places).copied().collect();
        let owed = self.account.owed;
        assert!(missing.len() <= owed, "{missing:?} are missing, and workers were about to get {owed}");
    }
}

fn simulate(entropy: Entropy, restarts: bool) -> [usize; 4] {
    let mut fleet = Fleet::new(entropy, restarts);
    fleet.unite();
    let stalls_take_time = fleet.world.one_in(2);
    for _ in 0..2 {
        fleet.world.let_stalls_take_time(stalls_take_time);
        let ends = fleet.world.now_ns() + 1_000_000 * (500 + fleet.world.below(3_000) as u64);
        while fleet.world.now_ns() < ends {
            let ms = 1 + fleet.world.below(200) as u64;
            fleet.run_for(ms);
            fleet.happen();
        }
        fleet.unite();
        fleet.compare();
    }
    [fleet.acknowledged_writes, fleet.promotions, fleet.handovers, fleet.restarted]
}

fn simulate_all(name: &str, restarts: bool) {
    let mut sums = [0; 4];
    for_each_seed(name, 20, |entropy| {
        sums.iter_mut().zip(simulate(entropy, restarts)).for_each(|(sum, count)| *sum += count);
    });
    let [writes, promotions, handovers, restarted] = sums;
    println!(
        "{writes} replies, {promotions} promotions, {handovers} of them by FAILOVER; {restarted} came back as primaries"
    );
}

#[test]
fn servers_that_replace_each_other_have_the_same_and_lose_nothing_that_was_acknowledged() {
    simulate_all("servers", false);
}

#[test]
fn primaries_that_come_back_as_primaries_are_followed_and_lose_nothing() {
    simulate_all("restarted servers", true);
}
