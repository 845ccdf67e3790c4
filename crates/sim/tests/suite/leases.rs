//! Leases over crashes and failovers. Workers do their jobs, fail, hang, answer after their leases ended, or die; queues have limits,
//! groups and a schedule, some jobs have locks, and dead and delayed jobs are retried. Meanwhile a lone server with `appendfsync
//! always` dies and starts again, or a primary with `repl-sync-replicas` dies, hands over, or lives on, cut off or not, beside a
//! replica that takes its place.
//!
//! - **What clients heard** is what `docs/jobs.md` says ([`blackbox::leases`]): no attempt is held by two workers, or ends before
//!   its lease, apart from [`SLACK_NS`]; attempts count right; every job that was put is done, dead, dropped, expired or there.
//! - **What the server has** fits together at any time ([`Shop::inspect`]): a job is in one state only, its record says the same, and
//!   active jobs are no more than the limits allow, nor than are counted.
//! - **The schedule** pushes at most once in each second, whichever server is the primary; and in each second, unless servers were
//!   replaced then.

use std::collections::{BTreeMap, BTreeSet};

use blackbox::account::Moment;
use blackbox::leases::{About, Call, Deed, Left, Limits, Lock, Named, Rules, Taken, check, given, taken};
use blackbox::text;
use proactor::Entropy;
use resp::Value;
use sim::{
    Client, Death, Journal, Machine, Request, Setup, Stage, Sync, World, follows, for_each_seed, request,
};

/// The jobs of `grouped` are in groups, onto `ticks` a schedule pushes.
const QUEUES: [&str; 5] = ["urgent", "plain", "limited", "grouped", "ticks"];
const LIMITS: [(&str, &str); 2] =
    [("limited", "ACTIVE 2 RATE 20 PER 300"), ("grouped", "ACTIVE 3 PER GROUP 1")];
const ACTIVE_MAX: [(&str, usize); 2] = [("limited", 2), ("grouped", 3)];
const RATE: (usize, Moment) = (20, 300 * MS);
const PER_GROUP_MAX: usize = 1;
const GROUPS: usize = 3;
const LOCKS: usize = 3;
const WORKERS: usize = 5;
const TRIES_MAX: usize = 4;
const MS: Moment = 1_000_000;
const LEASE_MS_MAX: usize = 300;
/// Longer than leases and delays.
const ALL_DUE_MS: u64 = 2_000;
/// A thread looks at the clock again at the latest after a millisecond, and times are rounded to milliseconds.
const SLACK_NS: Moment = 2 * MS;
/// The longest pause of a worker; of one that hangs, longer than its leases.
const THINKS_MS: usize = 20;
const HANGS_MS: usize = 2 * LEASE_MS_MAX;
/// How long an administrator waits for replicas.
const REUNION_MS: u64 = 60_000;
/// How long two servers do not reach each other: a moment, or longer than `repl-timeout`.
const PARTED_MS: [usize; 2] = [500, 15_000];
/// Ids of jobs that expire unless they begin, and of those that the schedule makes.
const EXPIRING: &str = "e";
const TICK: &str = "tick-";

#[derive(Default)]
struct Worker {
    client: Option<Client>,
    /// The call that it waits for, by its index in the history; `None` within if that is not recorded.
    pending: Option<Option<usize>>,
    held: Vec<Taken>,
    /// When it acts next, on the world's clock.
    acts_ns: u64,
}

struct Shop {
    world: World,
    count: usize,
    primary: usize,
    workers: Vec<Worker>,
    history: Vec<Call>,
    last_moment: Moment,
    next_job: usize,
    is_quiet: bool,
    deaths: usize,
    handovers: usize,
    splits: usize,
    retries: usize,
    /// When servers were replaced, on the world's clock.
    troubles: Vec<(Moment, Moment)>,
    /// When that clock began, in ms since 1970.
    epoch_ms: u64,
}

fn words(line: &str) -> Request {
    resp::split_args(line.as_bytes()).expect("words")
}

fn texts(reply: &Value) -> Vec<String> {
    if let Value::Array(items) = reply { items.iter().map(text).collect() } else { Vec::new() }
}

/// A group of `count` servers that may lose `count - 1` of them, one after the other.
fn setups(entropy: &mut Entropy) -> Vec<Setup> {
    let count = [1, 1, 2, 3][entropy.below(4) as usize];
    let setup = |number: usize| {
        let mut setup = Setup::any(entropy);
        setup.threads = setup.threads.min(3);
        setup.net.window_bytes = setup.net.window_bytes.max(1_000);
        setup.replicates = count > 1;
        let has_journal = count == 1 || entropy.one_in(2);
        setup.journal = has_journal.then(|| Journal::any(entropy, Sync::Always));
        if count > 1 {
            setup.more = vec![
                format!("--repl-sync-replicas={}", count - 1),
                "--repl-diskless-sync-delay=0".to_owned(),
                "--repl-ping-replica-period=1".to_owned(),
                "--repl-timeout=10".to_owned(),
                format!("--replica-announce-ip={}", Machine::host_of(number)),
            ];
            setup.more.extend((number > 0).then(|| format!("--replicaof={} 6379", Machine::host_of(0))));
        }
        setup
    };
    (0..count).map(setup).collect()
}

impl Stage for Shop {
    fn world(&mut self) -> &mut World {
        &mut self.world
    }

    fn step(&mut self) {
        self.world.step();
        for number in 0..self.workers.len() {
            let mut worker = std::mem::take(&mut self.workers[number]);
            self.act(number, &mut worker);
            self.workers[number] = worker;
        }
    }
}

impl Shop {
    fn open(mut entropy: Entropy) -> Shop {
        let setups = setups(&mut entropy);
        let mut world = World::new(entropy, &setups[0]);
        for setup in &setups[1..] {
            world.add(setup);
        }
        let mut shop = Shop {
            world,
            count: setups.len(),
            primary: 0,
            workers: (0..WORKERS).map(|_| Worker::default()).collect(),
            history: Vec::new(),
            last_moment: 0,
            next_job: 0,
            is_quiet: true,
            deaths: 0,
            handovers: 0,
            splits: 0,
            retries: 0,
            troubles: Vec::new(),
            epoch_ms: 0,
        };
        shop.world.let_stalls_take_time(false);
        shop.unite();
        for (queue, limit) in LIMITS {
            shop.insist(0, &format!("QUEUE LIMIT {queue} {limit}"));
        }
        let payload = format!("{{\"id\":\"{TICK}%{{time_ms}}\"}}");
        let words = ["SET", "ticks", "tick", "* * * * * *", &payload];
        let reply = shop.ask(0, &[request("CRON", words)]);
        assert!(matches!(reply, Some(Value::Int(_))), "{reply:?}");
        let Value::Array(time) = shop.of_primary("TIME") else { panic!("no time") };
        let [seconds, micros] = [0, 1].map(|index| text(&time[index]).parse::<u64>().expect("a number"));
        shop.epoch_ms = seconds * 1000 + micros / 1000 - shop.world.now_ns() / MS;
        shop.is_quiet = false;
        shop
    }

    /// The clock that gives each request and each reply a moment of its own.
    fn moment(&mut self) -> Moment {
        self.last_moment = self.world.now_ns().max(self.last_moment + 1);
        self.last_moment
    }

    fn tell_server(&mut self, number: usize, line: &str) -> Option<Value> {
        self.ask(number, &[words(line)])
    }

    fn of_primary(&mut self, line: &str) -> Value {
        self.tell_server(self.primary, line).unwrap_or_else(|| panic!("no reply to {line}"))
    }
}

/// The acts of workers.
impl Shop {
    fn act(&mut self, number: usize, worker: &mut Worker) {
        let acts = !self.is_quiet && self.world.now_ns() >= worker.acts_ns;
        if acts {
            let hangs = self.world.one_in(25);
            let ms = self.world.below(if hangs { HANGS_MS } else { THINKS_MS });
            worker.acts_ns = self.world.now_ns() + ms as u64 * MS;
        }
        let Some(client) = &mut worker.client else {
            if acts {
                worker.client = self.world.connect_to(self.primary);
            }
            return;
        };
        for reply in self.world.pump(client) {
            let pending = worker.pending.take().expect("a reply belongs to a call");
            self.hear(worker, pending, &reply);
        }
        let dies = acts && self.world.one_in(60);
        if dies {
            worker.held.clear();
        }
        if dies || worker.client.as_ref().is_some_and(|client| client.has_ended) {
            // A worker that is cut off connects again, and still has its jobs.
            (worker.client, worker.pending) = (None, None);
        } else if acts && worker.pending.is_none() {
            let (line, deed) = self.request(number, worker);
            let index = deed.map(|deed| {
                let sent = self.moment();
                self.history.push(Call { sent, answered: None, deed });
                self.history.len() - 1
            });
            worker.pending = Some(index);
            worker.client.iter_mut().for_each(|client| client.send(&line));
        }
    }

    fn hear(&mut self, worker: &mut Worker, pending: Option<usize>, reply: &Value) {
        if let Value::Error(error) = reply {
            // The server is no longer the primary, or hands over. Nothing was done.
            let is_expected = [&b"READONLY"[..], b"NOREPLICAS", b"LOADING", b"UNBLOCKED", b"MASTERDOWN"];
            assert!(is_expected.iter().any(|start| error.starts_with(start)), "{reply}");
            worker.client.iter_mut().for_each(|client| client.has_ended = true);
            return;
        }
        worker.held.extend(taken(reply));
        let Some(index) = pending else { return };
        let answered = self.moment();
        let call = &mut self.history[index];
        call.answered = Some(answered);
        call.deed.hear(reply);
    }

    fn request(&mut self, number: usize, worker: &mut Worker) -> (Request, Option<Deed>) {
        if !worker.held.is_empty() && !self.world.one_in(4) {
            return self.tell(number, worker);
        }
        if self.world.one_in(2) { self.put() } else { self.take(number) }
    }

    fn put(&mut self) -> (Request, Option<Deed>) {
        let number = self.world.below(4);
        let (queue, is_grouped) = (QUEUES[number], QUEUES[number] == "grouped");
        let expires = self.world.one_in(8);
        let is_locked = !expires && self.world.one_in(4);
        let id = format!("{}{}", if expires { EXPIRING } else { "j" }, self.next_job);
        self.next_job += 1;
        let tries = 1 + self.world.below(TRIES_MAX);
        let mut line = format!("JOB.PUT {queue} text ID {id} TRIES {tries}");
        if is_grouped {
            line += &format!(" GROUP g{}", self.world.below(GROUPS));
        }
        let is_delayed = self.world.one_in(6);
        if is_delayed {
            line += &format!(" IN {}", 1 + self.world.below(LEASE_MS_MAX));
        }
        if expires {
            line += &format!(" EXPIRE {}", 1 + self.world.below(LEASE_MS_MAX));
        }
        let lock = is_locked.then(|| {
            let name = format!("l{}", self.world.below(LOCKS));
            let ms = self.world.one_in(2).then(|| 1 + self.world.below(LEASE_MS_MAX) as u64);
            line += &format!(" UNIQUE {name}");
            line += &ms.map(|ms| format!(" FOR {ms}")).unwrap_or_default();
            Lock { name, time: ms.map(|ms| ms * MS) }
        });
        // Groups take turns, so the order of putting says nothing.
        let is_delayed = is_delayed || is_grouped;
        let (queue, tries) = (queue.to_owned(), tries as u64);
        let deed = Deed::Put { queue, id, tries, is_delayed, lock, holder: None };
        (words(&line), Some(deed))
    }

    fn take(&mut self, number: usize) -> (Request, Option<Deed>) {
        let queues: &[&str] = match self.world.below(4) {
            0 => &["urgent", "plain"],
            1 => &["limited"],
            2 => &["grouped"],
            _ => &["ticks", "limited"],
        };
        let (lease_ms, count) = (5 + self.world.below(LEASE_MS_MAX), 1 + self.world.below(2));
        let wait = ["", " WAIT 20", " WAIT 200"][self.world.below(3)];
        let from = queues.join(" ");
        let line = format!("JOB.TAKE w{number} LEASE {lease_ms} COUNT {count}{wait} FROM {from}");
        let queues = queues.iter().map(|queue| (*queue).to_owned()).collect();
        let deed = Deed::Take { queues, lease: lease_ms as u64 * MS, count: count as u64, got: Vec::new() };
        (words(&line), Some(deed))
    }

    /// Says something of a job that it has or had. Half of the time it says which attempt it means.
    fn tell(&mut self, number: usize, worker: &mut Worker) -> (Request, Option<Deed>) {
        let index = self.world.below(worker.held.len());
        let job = worker.held[index].clone();
        let Taken { queue, id, .. } = job.clone();
        let lease_ms = 5 + self.world.below(LEASE_MS_MAX);
        if self.world.one_in(10) {
            return (words(&format!("JOB.KEEP {queue} {lease_ms} WORKER w{number}")), None);
        }
        let Named { attempt, ended, failed, kept } = job.named(self.world.one_in(2));
        // Now and then it says something of the same job again.
        if !self.world.one_in(6) {
            worker.held.swap_remove(index);
        }
        let (what, line) = match self.world.below(12) {
            0 => (About::Fail, format!("JOB.FAIL {queue} {failed}")),
            1 => (About::Fail, format!("JOB.FAIL {queue} {failed} IN {}", self.world.below(LEASE_MS_MAX))),
            2 => (About::Release, format!("JOB.RELEASE {queue} {ended}")),
            3 | 4 => {
                worker.held.push(job);
                (About::Keep(lease_ms as u64 * MS), format!("JOB.KEEP {queue} {lease_ms} {kept}"))
            }
            // Dropping an active job ends it as well, whichever worker has it.
            5 if attempt.is_none() => (About::Done, format!("JOB.DROP {queue} {id}")),
            _ => (About::Done, format!("JOB.DONE {queue} {ended}")),
        };
        (words(&line), Some(Deed::Say { what, id, attempt, was_active: false }))
    }
}

/// The events of servers.
impl Shop {
    fn replicas(&self) -> Vec<usize> {
        (0..self.count).filter(|number| *number != self.primary).collect()
    }

    /// Waits until all servers follow the primary, and may take its place.
    fn unite(&mut self) {
        // A thread that may be arbitrarily slow may also keep them apart for that long.
        let stalls_take_time = self.world.let_stalls_take_time(false);
        let end_ns = self.world.now_ns() + REUNION_MS * MS;
        for number in self.replicas() {
            while !follows(&self.facts(number), self.primary) {
                assert!(self.world.now_ns() < end_ns, "{number} does not follow {}", self.primary);
                self.follow(number, self.primary);
                self.run_for(100);
            }
        }
        // The primary has noticed as well.
        self.insist(self.primary, "SET united yes");
        self.world.let_stalls_take_time(stalls_take_time);
    }

    /// Repeats a request until the server confirms it.
    fn insist(&mut self, number: usize, line: &str) {
        let end_ns = self.world.now_ns() + REUNION_MS * MS;
        loop {
            let reply = self.tell_server(number, line).map(|reply| reply.to_string());
            if reply.as_deref() == Some("OK") {
                break;
            }
            assert!(self.world.now_ns() < end_ns, "{line} fails at {number}: {reply:?}");
            self.run_for(100);
        }
    }

    /// Another server has become the primary. Sentinel tells clients, which leave the old one, except for those that `stay`.
    fn replace_primary(&mut self, number: usize, stay: &[bool]) {
        self.primary = number;
        self.start_under(number, number);
        for (worker, stays) in self.workers.iter_mut().zip(stay) {
            worker.client.iter_mut().for_each(|client| client.has_ended |= !stays);
        }
    }

    fn any_replica(&mut self) -> usize {
        let replicas = self.replicas();
        replicas[self.world.below(replicas.len())]
    }

    fn die(&mut self) {
        self.deaths += 1;
        let death = [Death::Power, Death::Process][self.world.below(2)];
        if self.count == 1 {
            return self.world.restart(death);
        }
        let old = self.primary;
        self.world.kill(old, death);
        let next = self.any_replica();
        self.insist(next, "REPLICAOF NO ONE");
        self.replace_primary(next, &[false; WORKERS]);
        self.start_under(old, next);
        let ms = self.world.below(300) as u64;
        self.run_for(ms);
        self.world.start(old);
        self.unite();
    }

    fn hand_over(&mut self) {
        let (old, next) = (self.primary, self.any_replica());
        let told =
            self.tell_server(old, &format!("FAILOVER TO {} 6379 TIMEOUT 2000", Machine::host_of(next)));
        // The server may be too slow to answer in time.
        assert!(told.is_none_or(|reply| reply.to_string() == "OK"), "it does not begin to hand over");
        let role = loop {
            let mut facts = self.facts(old);
            if facts.get("master_failover_state").is_some_and(|state| state == "no-failover") {
                break facts.remove("role");
            }
            self.run_for(5);
        };
        if role.as_deref() == Some("slave") {
            self.handovers += 1;
            self.replace_primary(next, &[false; WORKERS]);
        }
        self.unite();
    }

    /// A replica takes the place of a primary that lives on; it may be cut off, and some workers may stay with it for a while.
    fn split(&mut self) {
        self.splits += 1;
        let (old, next) = (self.primary, self.any_replica());
        let is_parted = self.world.one_in(2);
        self.world.part(old, next, is_parted);
        let ms = self.world.below(300) as u64;
        self.run_for(ms);
        self.insist(next, "REPLICAOF NO ONE");
        let stay: Vec<bool> = self.workers.iter().map(|_| self.world.one_in(2)).collect();
        self.replace_primary(next, &stay);
        let ms = self.world.below(600) as u64;
        self.run_for(ms);
        self.world.part(old, next, false);
        self.unite();
    }

    /// Nothing gets through between two servers for a while.
    fn part(&mut self) {
        let (one, other) = (self.primary, self.any_replica());
        self.world.part(one, other, true);
        let ms = PARTED_MS[usize::from(self.world.one_in(4))];
        let ms = self.world.below(ms) as u64;
        self.run_for(ms);
        self.world.part(one, other, false);
        self.unite();
    }

    /// An operator has a dead or delayed job run, or mistakes an active one for such a job.
    fn retry(&mut self) {
        let state = ["dead", "delayed", "active"][self.world.below(3)];
        let first = self.world.below(QUEUES.len());
        let found = (0..QUEUES.len()).find_map(|index| {
            let queue = QUEUES[(first + index) % QUEUES.len()];
            let ids = self.tell_server(self.primary, &format!("ZRANGE {{{queue}}}:jobs:{state} 0 -1"))?;
            Some((queue, texts(&ids))).filter(|(_, ids)| !ids.is_empty())
        });
        let Some((queue, mut ids)) = found else { return };
        let id = ids.swap_remove(self.world.below(ids.len()));
        let (sent, line) = (self.moment(), format!("JOB.RETRY {queue} {id}"));
        let reply = self.tell_server(self.primary, &line).filter(|reply| !matches!(reply, Value::Error(_)));
        let mut deed = Deed::Say { what: About::Retry, id, attempt: None, was_active: false };
        reply.iter().for_each(|reply| deed.hear(reply));
        self.retries += usize::from(matches!(deed, Deed::Say { was_active: true, .. }));
        let answered = reply.map(|_| self.moment());
        self.history.push(Call { sent, answered, deed });
    }

    /// Runs something during which the schedule may stand still.
    fn trouble(&mut self, happen: impl FnOnce(&mut Shop)) {
        let from = self.world.now_ns();
        happen(self);
        self.troubles.push((from, self.world.now_ns()));
    }

    fn happen(&mut self) {
        match self.world.below(9) {
            0 => self.trouble(Shop::die),
            1 if self.count > 1 => self.trouble(Shop::hand_over),
            2 if self.count > 1 => self.trouble(Shop::split),
            3 if self.count > 1 => self.trouble(Shop::part),
            4..=6 => self.retry(),
            _ => {
                for queue in QUEUES {
                    self.inspect(queue);
                }
            }
        }
    }
}

/// The checks of a server's data.
impl Shop {
    /// All keys of a queue at one moment: each job is in one state, and counts are right.
    fn inspect(&mut self, queue: &str) {
        let key = |name: &str| format!("{{{queue}}}:jobs{name}");
        let mut lines = vec!["MULTI".to_owned(), format!("LRANGE {queue} 0 -1")];
        lines.extend([":active", ":delayed", ":dead"].map(|name| format!("ZRANGE {} 0 -1", key(name))));
        lines.extend(["", ":groups:active"].map(|name| format!("HGETALL {}", key(name))));
        lines.extend((0..GROUPS).map(|group| format!("LRANGE {} 0 -1", key(&format!(":group:g{group}")))));
        lines.push("EXEC".to_owned());
        let requests: Vec<Request> = lines.iter().map(|line| words(line)).collect();
        let Some(Value::Array(all)) = self.ask(self.primary, &requests) else { return };
        let all: Vec<Vec<String>> = all.iter().map(texts).collect();
        let [list, active, delayed, dead, records, counts, groups @ ..] = &all[..] else { panic!("{all:?}") };
        let mut places: BTreeMap<String, &str> = BTreeMap::new();
        let rows = [(list, "waiting"), (active, "active"), (delayed, "delayed"), (dead, "dead")];
        for (row, state) in rows.into_iter().chain(groups.iter().map(|row| (row, "waiting"))) {
            for text in row {
                let id = text.strip_prefix("{\"id\":\"").map_or(&text[..], |id| id.trim_end_matches("\"}"));
                let other = places.insert(id.to_owned(), state);
                assert!(other.is_none(), "{id} of {queue} is {state}, and {other:?}");
            }
        }
        let mut active_of: BTreeMap<String, usize> = BTreeMap::new();
        for record in records.chunks_exact(2) {
            let [id, record] = record else { unreachable!("there are two") };
            let line = record.lines().next().expect("it has one");
            let word = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name));
            let state = match word("s=") {
                Some("w") => "waiting",
                Some("a") => "active",
                Some("d") => "delayed",
                Some("x") => "dead",
                other => panic!("{other:?} is no state"),
            };
            assert_eq!(places.remove(id), Some(state), "{id} of {queue}");
            let number = |name: &str| word(name).map(|number| number.parse::<u64>().expect("a number"));
            let (attempts, most) = (number("n=").unwrap_or(0), number("m=").unwrap_or(u64::MAX));
            assert!(attempts <= most, "{id} of {queue} had {attempts} attempts of {most}");
            if let Some(group) = word("g=").filter(|_| state == "active") {
                *active_of.entry(group.to_owned()).or_default() += 1;
            }
        }
        // A waiting job may have no record besides its element in the list.
        let unknown: Vec<_> = places.iter().filter(|(_, state)| **state != "waiting").collect();
        assert!(unknown.is_empty(), "{queue} has no records of {unknown:?}");
        let counts: BTreeMap<String, usize> = counts
            .chunks_exact(2)
            .map(|pair| (pair[0].clone(), pair[1].parse().expect("a number")))
            .collect();
        assert_eq!(counts, active_of, "active jobs of the groups of {queue}");
        let most_of_group = counts.values().max().copied().unwrap_or(0);
        assert!(queue != "grouped" || most_of_group <= PER_GROUP_MAX, "{counts:?}");
        let most =
            ACTIVE_MAX.iter().find(|(limited, _)| *limited == queue).map_or(usize::MAX, |(_, most)| *most);
        assert!(active.len() <= most, "{queue} has {} active jobs, not {most}", active.len());
    }

    /// The jobs that are left when no lease and no delay is running.
    fn left(&mut self) -> Left {
        assert_eq!(self.of_primary("CRON DEL ticks tick"), Value::Int(1));
        for (queue, _) in LIMITS {
            self.insist(self.primary, &format!("QUEUE LIMIT {queue} OFF"));
        }
        let mut left = Left::default();
        for queue in QUEUES {
            for state in ["active", "delayed"] {
                let ids = texts(&self.of_primary(&format!("ZRANGE {{{queue}}}:jobs:{state} 0 -1")));
                assert!(ids.is_empty(), "{ids:?} of {queue} stay {state}");
            }
            left.dead.extend(texts(&self.of_primary(&format!("ZRANGE {{{queue}}}:jobs:dead 0 -1"))));
            for Taken { id, .. } in
                taken(&self.of_primary(&format!("JOB.TAKE last LEASE 600000 COUNT 1000 FROM {queue}")))
            {
                assert!(left.waiting.insert(id.clone()), "{id} waits twice");
            }
            assert_eq!(self.of_primary(&format!("LLEN {queue}")), Value::Int(0));
        }
        left
    }

    fn check(&self, left: &Left) {
        let limit = |(queue, most): &(&str, usize)| {
            let rate = (*queue == "limited").then_some(RATE);
            ((*queue).to_owned(), Limits { active: Some(*most), rate })
        };
        let rules = Rules {
            slack: SLACK_NS,
            made: Some(TICK.to_owned()),
            limits: ACTIVE_MAX.iter().map(limit).collect(),
        };
        let given: BTreeSet<&str> = given(&self.history).collect();
        let has_expired = |complaint: &String| {
            let id = complaint.strip_suffix(" is lost").filter(|id| id.starts_with(EXPIRING));
            id.is_some_and(|id| !given.contains(id))
        };
        let mut complaints = check(&self.history, left, &rules);
        complaints.retain(|complaint| !has_expired(complaint));
        assert!(complaints.is_empty(), "{complaints:#?}");
    }

    /// The schedule pushed in each second from the first one until this moment, unless servers were replaced.
    fn check_schedule(&self, left: &Left, ended: Moment) {
        let ids = given(&self.history).chain(left.waiting.iter().chain(&left.dead).map(String::as_str));
        let ms = ids.filter_map(|id| id.strip_prefix(TICK)?.parse::<u64>().ok());
        let mut seconds: BTreeSet<u64> = ms.map(|ms| ms / 1000).collect();
        // The first one in which it may not have pushed yet.
        seconds.insert((self.epoch_ms + ended / MS) / 1000);
        let pairs = seconds.iter().zip(seconds.iter().skip(1));
        for (one, other) in pairs.filter(|(one, other)| *other - *one > 1) {
            let at = |second: u64| (second * 1000 - self.epoch_ms) * MS;
            let was_troubled =
                self.troubles.iter().any(|(from, to)| *from < at(*other + 1) && *to > at(*one));
            assert!(was_troubled, "the schedule did not push between {one} and {other}");
        }
    }
}

fn simulate(entropy: Entropy) -> [usize; 6] {
    let mut shop = Shop::open(entropy);
    let stalls_take_time = shop.world.one_in(2);
    shop.world.let_stalls_take_time(stalls_take_time);
    let ends = shop.world.now_ns() + MS * (500 + shop.world.below(2_000) as u64);
    while shop.world.now_ns() < ends {
        let ms = 1 + shop.world.below(200) as u64;
        shop.run_for(ms);
        shop.happen();
    }
    shop.world.let_stalls_take_time(false);
    shop.is_quiet = true;
    shop.unite();
    // All leases and delays end.
    shop.run_for(ALL_DUE_MS);
    for queue in QUEUES {
        shop.inspect(queue);
    }
    let ended = shop.world.now_ns();
    let left = shop.left();
    shop.check(&left);
    if !stalls_take_time {
        shop.check_schedule(&left, ended);
    }
    let late = |call: &&Call| {
        matches!(call.deed, Deed::Say { attempt: Some(_), was_active: false, .. }) && call.answered.is_some()
    };
    let late = shop.history.iter().filter(late).count();
    [shop.history.len(), shop.deaths, shop.handovers, shop.splits, shop.retries, late]
}

#[test]
fn leases_hold_over_crashes_and_failovers() {
    let mut sums = [0; 6];
    for_each_seed("leases", 30, |entropy| {
        sums.iter_mut().zip(simulate(entropy)).for_each(|(sum, count)| *sum += count);
    });
    let [calls, deaths, handovers, splits, retries, late] = sums;
    println!(
        "{calls} calls, {deaths} deaths, {handovers} handovers, {splits} splits, {retries} retries, {late} words too late"
    );
}
