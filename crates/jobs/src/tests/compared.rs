//! Runs random commands, hostile ones among them, and compares them with a model of `docs/jobs.md` (`model`):
//! each reply, and then everything that commands show of each queue.
//!
//! The clock moves from one due time to the next, as on a server that watches it all the time. Times are
//! even, and those at which something may end between two looks (`EXPIRE`, `FOR`) are odd, so no result
//! depends on the order within one millisecond.

use std::collections::BTreeMap;

use ds::random::Random;
use resp::{Proto, Value};

use super::World;
use super::model::{Bytes, How, Limit, Model, Options, Say, State, text};
use super::payload::{STRANGE, reference, says_id};

const SEEDS: u64 = 24;
const STEPS: usize = 150;
/// Schedules push onto the second queue, in which no job is delayed: pushes in the same millisecond may come
/// in any order.
const QUEUES: [&str; 4] = ["q", "cron", "{eu}mail", "renamed"];
const CRON: usize = 1;
const RENAMED: usize = 3;
const YEAR_MS: i64 = 365 * 86_400_000;
const SCHEDULES: [&str; 10] = [
    "* * * * *",
    "*/5 * * * *",
    "*/7 * * * * *",
    "30 */2 * * * *",
    "15,45 10-12 * * *",
    "0 0 1 * *",
    "0 12 * * 1",
    "0 0 13 * 5",
    "@hourly",
    "@daily",
];
/// The keys that a queue may have beside it, as the page lists them.
const KEYS: [&str; 16] = [
    "",
    ":active",
    ":delayed",
    ":dead",
    ":workers",
    ":limit",
    ":rate",
    ":groups",
    ":groups:full",
    ":groups:active",
    ":turn",
    ":group:g0",
    ":unique:u0",
    ":cron",
    ":cron:lines",
    ":plain",
];

impl How {
    fn words(&self, queue: &str) -> Vec<Bytes> {
        let (How::Strict(others) | How::Fair(others)) = self;
        let mut words: Vec<Bytes> = match self {
            How::Strict(_) => Vec::new(),
            How::Fair(_) => vec![b"FAIR".to_vec()],
        };
        words.extend([b"FROM".to_vec(), queue.into()]);
        words.extend(others.iter().cloned());
        words
    }
}

impl Options {
    fn words(&self) -> Vec<Bytes> {
        let mut words: Vec<Bytes> = Vec::new();
        let mut add = |name: &str, value: Option<Bytes>| {
            if let Some(value) = value {
                words.extend([name.into(), value]);
            }
        };
        let number = |number: Option<i64>| number.map(|number| number.to_string().into_bytes());
        add("ID", self.id.clone());
        add("IN", number(self.delay_ms));
        if let Some((lock, for_ms)) = &self.lock {
            add("UNIQUE", Some(lock.clone()));
            add("FOR", number(*for_ms));
        }
        add("TRIES", number(self.tries));
        add("GROUP", self.group.clone());
        add("EXPIRE", number(self.expire_ms));
        words
    }
}

impl Limit {
    fn words(&self) -> Vec<Bytes> {
        let mut line = String::new();
        if let Some((most, per_ms)) = self.rate {
            line += &format!("RATE {most} PER {per_ms} ");
        }
        if let Some(active) = self.active {
            line += &format!("ACTIVE {active} ");
        }
        if let Some(per_group) = self.per_group {
            line += &format!("PER GROUP {per_group} ");
        }
        let line = if line.is_empty() { "OFF" } else { line.trim_end() };
        line.split(' ').map(Bytes::from).collect()
    }
}

impl Say {
    fn words(&self, queue: &str) -> Vec<Bytes> {
        let words = |command: &str, more: Vec<Bytes>| {
            let head = command.split(' ').map(Bytes::from);
            head.chain([Bytes::from(queue)]).chain(more).collect::<Vec<_>>()
        };
        let number = |number: i64| number.to_string().into_bytes();
        match self {
            Say::Push(payload) => words("LPUSH", vec![payload.clone()]),
            Say::Pop(count) => words("RPOP", vec![number(*count as i64)]),
            Say::Put(payload, options) => words("JOB.PUT", [vec![payload.clone()], options.words()].concat()),
            Say::Take { worker, lease_ms, count, how } => {
                let head = [b"JOB.TAKE".to_vec(), worker.clone(), b"LEASE".to_vec(), number(*lease_ms)];
                let count = [b"COUNT".to_vec(), number(*count as i64)];
                head.into_iter().chain(count).chain(how.words(queue)).collect()
            }
            Say::Done(jobs) => words("JOB.DONE", jobs.clone()),
            Say::Release(jobs) => words("JOB.RELEASE", jobs.clone()),
            Say::Fail(id, attempt, delay_ms) => {
                let option = |name: &str, value: Option<i64>| {
                    value.map(|value| vec![name.into(), number(value)]).unwrap_or_default()
                };
                let options = [option("IN", *delay_ms), option("attempt", *attempt)].concat();
                words("JOB.FAIL", [vec![id.clone()], options].concat())
            }
            Say::KeepJobs(ms, jobs) => words("JOB.KEEP", [vec![number(*ms)], jobs.clone()].concat()),
            Say::KeepWorker(ms, worker) => {
                words("JOB.KEEP", vec![number(*ms), b"WORKER".to_vec(), worker.clone()])
            }
            Say::Drop(id) => words("JOB.DROP", vec![id.clone()]),
            Say::Retry(id) => words("JOB.RETRY", vec![id.clone()]),
            Say::RetryAll(count) => {
                let count = count.map(|count| vec![b"COUNT".to_vec(), number(count as i64)]);
                words("JOB.RETRY", [vec![b"ALL".to_vec()], count.unwrap_or_default()].concat())
            }
            Say::Limit(limit) => words("limit", limit.words()),
            Say::CronSet { name, schedule, payload, skips } => {
                let missed = if *skips { &b"SKIP"[..] } else { b"ONCE" };
                let more = [name, schedule.as_bytes(), payload, b"MISSED", missed];
                words("CRON SET", more.map(<[u8]>::to_vec).into())
            }
            Say::CronDel(name) => words("CRON DEL", vec![name.clone()]),
            Say::CronRun(name) => words("CRON RUN", vec![name.clone()]),
            Say::Delete => words("DEL", Vec::new()),
            Say::Rename(to) => words("RENAME", vec![to.clone()]),
        }
    }
}

/// A store, the model of the page, and the commands so far.
struct Comparison {
    world: World,
    model: Model,
    random: Random,
    said: Vec<String>,
}

impl Comparison {
    fn new(seed: u64) -> Comparison {
        let mut world = World::new();
        world.0.now = 1_700_000_000_000;
        let model = Model { now: world.0.now, queues: BTreeMap::new() };
        Comparison { world, model, random: Random::new(seed), said: vec![format!("seed {seed}")] }
    }

    fn below(&mut self, n: usize) -> usize {
        self.random.below(n as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// An even number of milliseconds.
    fn ms(&mut self, most: usize) -> i64 {
        2 * (1 + self.below(most / 2) as i64)
    }

    fn id(&mut self) -> Bytes {
        let id = format!("j{}", self.below(10));
        let known: Vec<Bytes> =
            self.model.queues.values().flat_map(|queue| queue.jobs.keys().cloned()).collect();
        match self.below(8) {
            0 => self.pick(&["7", "spaced", "in", "", "j1#2", "Attempt"]).into(),
            1..=4 if !known.is_empty() => known[self.below(known.len())].clone(),
            _ => id.into(),
        }
    }

    fn worker(&mut self) -> Bytes {
        self.pick(&["w0", "w1", "w 2\n"]).into()
    }

    fn payload(&mut self) -> Bytes {
        match self.below(4) {
            0 => STRANGE[self.below(STRANGE.len())].0.into(),
            1 => reference(&self.id()),
            _ => format!("{{\"id\":\"j{}\",\"n\":{}}}", self.below(10), self.below(3)).into(),
        }
    }

    fn options(&mut self) -> Options {
        let mut options = Options::default();
        if self.one_in(2) {
            options.id = Some(self.id());
        }
        if self.one_in(4) {
            options.delay_ms = Some(self.ms(200));
        }
        if self.one_in(4) {
            let for_ms = self.one_in(2).then(|| self.ms(300) + 1);
            options.lock = Some((format!("u{}", self.below(3)).into(), for_ms));
        }
        if self.one_in(2) {
            options.tries = Some(1 + self.below(3) as i64);
        }
        if self.one_in(3) {
            options.group = Some(format!("g{}", self.below(4)).into());
        }
        if self.one_in(6) {
            options.expire_ms = Some(self.ms(300) + 1);
        }
        match self.below(80) {
            0 => options.tries = Some(self.pick(&[0, -1, i64::MAX])),
            1 => options.delay_ms = Some(self.pick(&[-2, YEAR_MS, i64::MAX / 4])),
            2 => options.id = Some(vec![b'x'; self.pick(&[512, 513, 5000])]),
            3 => options.group = Some(vec![b'g'; self.pick(&[512, 513])]),
            _ => {}
        }
        options
    }

    fn limit(&mut self) -> Limit {
        let mut limit = Limit::default();
        if self.one_in(3) {
            limit.rate = Some((1 + self.below(5), self.pick(&[2, 50, 1000, 5000])));
        }
        if self.one_in(3) {
            limit.active = Some(1 + self.below(4));
        }
        if self.one_in(3) {
            limit.per_group = Some(1 + self.below(2));
        }
        limit
    }

    fn take(&mut self) -> Say {
        let others = (0..self.below(3)).map(|_| self.pick(&QUEUES).into()).collect();
        let how = if self.one_in(3) { How::Fair(others) } else { How::Strict(others) };
        let lease_ms = if self.one_in(30) { self.pick(&[0, -1, YEAR_MS]) } else { self.ms(200) };
        let count = if self.one_in(40) { 0 } else { 1 + self.below(3) };
        Say::Take { worker: self.worker(), lease_ms, count, how }
    }

    fn cron(&mut self) -> Say {
        let name = Bytes::from(self.pick(&["a", "b", "a b"]));
        match self.below(4) {
            0 => Say::CronDel(name),
            1 => Say::CronRun(name),
            _ => {
                let payload = self.pick(&["text", "{\"id\":\"c%{time_ms}\"}", "%{time} %{other} %{"]);
                let (schedule, skips) = (self.pick(&SCHEDULES), self.one_in(2));
                Say::CronSet { name, schedule, payload: payload.into(), skips }
            }
        }
    }

    /// An attempt of a job: usually the last one, sometimes another or an impossible one.
    fn attempt(&mut self, number: usize, id: &[u8]) -> i64 {
        let job = self.model.queue(QUEUES[number].as_bytes()).jobs.get(id);
        let last = job.map_or(1, |job| job.attempt.cast_signed());
        last + self.pick(&[0, 0, 0, 0, 0, 1, -1])
    }

    /// Jobs as workers name them: by ids, or by ids and attempts.
    fn named(&mut self, number: usize) -> Vec<Bytes> {
        let ids: Vec<Bytes> = (0..=self.below(2)).map(|_| self.id()).collect();
        if self.one_in(2) {
            return ids;
        }
        let mut words = vec![Bytes::from("ATTEMPT")];
        for id in ids {
            let attempt = self.attempt(number, &id).to_string();
            words.extend([id, attempt.into()]);
        }
        if self.one_in(20) {
            words.pop();
        }
        words
    }

    fn fail_job(&mut self, number: usize) -> Say {
        let id = self.id();
        let attempt = self.one_in(2).then(|| self.attempt(number, &id));
        Say::Fail(id, attempt, (number != CRON && self.one_in(2)).then(|| self.ms(100)))
    }

    fn keep(&mut self, number: usize) -> Say {
        let mut jobs = self.named(number);
        if jobs[0] != b"ATTEMPT" {
            jobs.insert(0, b"ID".to_vec());
        }
        Say::KeepJobs(self.ms(300), jobs)
    }

    fn say(&mut self, number: usize) -> Say {
        match self.below(if number == CRON { 30 } else { 27 }) {
            0..=2 => Say::Push(self.payload()),
            3..=6 if number != CRON => Say::Put(self.payload(), self.options()),
            3..=13 => self.take(),
            14 | 15 => Say::Done(self.named(number)),
            16 => Say::Release(self.named(number)),
            17 | 18 => self.fail_job(number),
            19 => self.keep(number),
            20 => Say::KeepWorker(self.ms(300), self.worker()),
            21 => Say::Drop(self.id()),
            22 => Say::Retry(self.id()),
            23 => Say::RetryAll(self.one_in(2).then(|| 1 + self.below(3))),
            24 => Say::Limit(self.limit()),
            25 => Say::Pop(1 + self.below(2)),
            26 if self.one_in(4) => Say::Delete,
            26 if number != RENAMED => Say::Rename(QUEUES[RENAMED].into()),
            _ if number == CRON => self.cron(),
            _ => Say::Push(self.payload()),
        }
    }

    /// The reply to a command.
    fn reply(&mut self, words: &[Bytes]) -> Value {
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let reply = self.world.0.reply(Proto::Resp2, &args);
        let (value, _) = resp::decode(&reply).expect("a reply").expect("all of it");
        value
    }

    fn ask(&mut self, command: &str, queue: &str, more: &[&[u8]]) -> Value {
        let head = [command.as_bytes(), queue.as_bytes()];
        let words: Vec<Bytes> = head.iter().chain(more).map(|word| word.to_vec()).collect();
        self.reply(&words)
    }

    fn fail(&self, problem: &str) -> ! {
        let last = &self.said[self.said.len().saturating_sub(25)..];
        panic!("{}\n{problem}", last.join("\n"));
    }

    /// Runs a command and compares the reply; true if a key holds something else.
    fn exchange(&mut self, number: usize, say: &Say) -> bool {
        let queue = QUEUES[number];
        let words = say.words(queue);
        let reply = self.reply(&words);
        let line: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        self.said.push(format!(
            "{} {} → {}",
            self.model.now % 1_000_000_000,
            line.join(" "),
            reply.to_string().replace('\n', ", ")
        ));
        let is_refused = matches!(&reply, Value::Error(text) if text.starts_with(b"WRONGTYPE"));
        if !is_refused && let Err(problem) = self.model.check(queue.as_bytes(), say, &reply) {
            self.fail(&problem);
        }
        is_refused
    }

    /// Moves the clock, and does what is due on the way at its time.
    fn pass(&mut self, ms: i64) {
        let end = self.model.now + ms;
        loop {
            let due = self.model.next_due().map_or(end, |due| due.min(end));
            (self.model.now, self.world.0.now) = (due, due);
            for queue in QUEUES {
                while self.next_in_store(queue).is_some_and(|next| next <= due) {}
            }
            self.model.fire();
            if due == end {
                return;
            }
        }
    }

    /// Does what is due in the store. Returns when something is due next.
    fn next_in_store(&mut self, queue: &str) -> Option<i64> {
        match self.ask("fire", queue, &[]) {
            Value::Int(-1) | Value::Error(_) => None,
            Value::Int(next) => Some(next),
            other => panic!("{other:?}"),
        }
    }

    /// The jobs in a state, read page by page.
    fn listed(&mut self, queue: &str, state: &str) -> Vec<(Bytes, i64, i64, Bytes, Bytes)> {
        let (mut found, mut cursor) = (Vec::new(), Bytes::from("0"));
        loop {
            let reply = self.ask("JOB.LIST", queue, &[state.as_bytes(), b"CURSOR", &cursor, b"COUNT", b"3"]);
            let Value::Array(both) = &reply else { panic!("{reply:?}") };
            let Value::Array(jobs) = &both[1] else { panic!("{reply:?}") };
            found.extend(jobs.iter().map(|job| match job {
                Value::Array(fields) => match &fields[..] {
                    [id, Value::Int(ms), Value::Int(attempt), worker, payload, _] => {
                        let worker = if *worker == Value::Null { Bytes::new() } else { text(worker) };
                        (text(id), *ms, *attempt, worker, text(payload))
                    }
                    _ => panic!("{job:?}"),
                },
                _ => panic!("{job:?}"),
            }));
            cursor = text(&both[0]);
            if cursor == b"0" {
                return found;
            }
        }
    }

    /// The state and attempt that JOB.GET returns.
    fn known(&mut self, queue: &str, id: &[u8]) -> Option<(Bytes, i64)> {
        let Value::Array(fields) = self.ask("JOB.GET", queue, &[id]) else { return None };
        let field = |name: &[u8]| {
            let pair = fields.chunks_exact(2).find(|pair| pair[0] == Value::Bulk(name.to_vec()));
            &pair.unwrap_or_else(|| panic!("{fields:?} have it"))[1]
        };
        let attempt = String::from_utf8_lossy(&text(field(b"attempt"))).parse().expect("a number");
        Some((text(field(b"state")), attempt))
    }

    /// Finds out which expired jobs were passed over, which the page leaves open.
    fn look_for_late(&mut self, name: &str) {
        let now = self.model.now;
        let jobs = self.model.queue(name.as_bytes()).jobs.iter();
        let late: Vec<Bytes> =
            jobs.filter(|(_, job)| job.has_expired(now)).map(|(id, _)| id.clone()).collect();
        let key =
            if name.starts_with('{') { format!("{{eu}}:{name}:jobs") } else { format!("{{{name}}}:jobs") };
        for id in late {
            if self.ask("HEXISTS", &key, &[&id]) == Value::Int(0) {
                self.model.queue(name.as_bytes()).pass_over(&id);
            }
        }
    }

    /// Checks that everything that commands show of a queue is what the page says.
    fn compare(&mut self, name: &str) {
        self.look_for_late(name);
        let queue = self.model.queue(name.as_bytes()).clone();
        let length = self.ask("LLEN", name, &[]);
        if length != Value::Int(queue.list.len() as i64) {
            self.fail(&format!("{name} has {length:?} elements"));
        }
        for (state, word) in [("ACTIVE", "active"), ("DELAYED", "delayed"), ("DEAD", "dead")] {
            let listed = self.listed(name, state);
            if !listed.is_sorted_by_key(|(id, ms, ..)| (*ms, id.clone())) {
                self.fail(&format!("{state} is not in order: {listed:?}"));
            }
            let mut listed: BTreeMap<Bytes, _> = listed
                .into_iter()
                .map(|(id, ms, attempt, _, payload)| (id, (ms, attempt, payload)))
                .collect();
            for (id, job) in &queue.jobs {
                let (its_word, time) = match &job.state {
                    State::Waiting => continue,
                    State::Active { end_ms, .. } => ("active", *end_ms),
                    State::Delayed(ms) => ("delayed", *ms),
                    State::Dead(ms) => ("dead", *ms),
                };
                if its_word != word {
                    continue;
                }
                let is_right = listed.remove(id).is_some_and(|(ms, attempt, payload)| {
                    ms == time && attempt.cast_unsigned() == job.attempt && payload == job.payload
                });
                if !is_right {
                    let again = self.listed(name, state);
                    self.fail(&format!("{name} {id:?}: {job:?} is not among {state} {again:?}"));
                }
            }
            if !listed.is_empty() {
                self.fail(&format!("{name} has {state} {listed:?} as well"));
            }
        }
        let others = (0..10).map(|number| Bytes::from(format!("j{number}")));
        for id in queue.jobs.keys().cloned().chain(others).collect::<Vec<_>>() {
            let wanted = queue.jobs.get(&id).filter(|job| !job.is_dropped).map(|job| {
                let state = match job.state {
                    State::Waiting => "waiting",
                    State::Active { .. } => "active",
                    State::Delayed(_) => "delayed",
                    State::Dead(_) => "dead",
                };
                (Bytes::from(state), job.attempt as i64)
            });
            let known = self.known(name, &id);
            if known != wanted {
                let id = String::from_utf8_lossy(&id);
                self.fail(&format!("of {id} in {name} the page wants {wanted:?}, JOB.GET says {known:?}"));
            }
        }
    }

    fn compare_all(&mut self) {
        QUEUES.iter().for_each(|queue| self.compare(queue));
    }

    /// Runs a random command, or lets time pass.
    fn step(&mut self) {
        let number = self.below(QUEUES.len());
        let say = self.say(number);
        self.exchange(number, &say);
        self.compare_all();
        if self.one_in(3) {
            let most = if self.one_in(10) { 100_000 } else { 60 };
            let ms = self.ms(most);
            self.pass(ms);
            self.compare_all();
        }
    }

    /// The key of queue `q` with this suffix, or the queue.
    fn occupy(&mut self) -> Option<String> {
        let key = match self.below(KEYS.len() + 1) {
            0 => "q".to_owned(),
            number => format!("{{q}}:jobs{}", KEYS[number - 1]),
        };
        let is_free = self.ask("EXISTS", &key, &[]) == Value::Int(0);
        let command = if key.contains("unique") { "RPUSH" } else { "SET" };
        is_free.then(|| {
            self.ask(command, &key, &[b"somebody else's"]);
            self.said.push(format!("{key} is taken"));
            key
        })
    }
}

#[test]
fn what_the_page_says_is_what_happens() {
    for seed in 0..SEEDS {
        let mut comparison = Comparison::new(seed);
        (0..STEPS).for_each(|_| comparison.step());
    }
}

#[test]
fn payloads_say_the_ids_that_the_page_finds_in_them() {
    for (payload, id) in STRANGE {
        let mut comparison = Comparison::new(0);
        let id = id.map(Bytes::from);
        assert_eq!(says_id(payload.as_bytes()), id);
        comparison.ask("LPUSH", "q", &[payload.as_bytes()]);
        let active = {
            comparison.ask("JOB.TAKE", "w", &[b"LEASE", b"10", b"FROM", b"q"]);
            comparison.listed("q", "ACTIVE")
        };
        assert_eq!(active.len(), 1, "{payload}");
        let (found, .., text) = &active[0];
        assert_eq!(text, payload.as_bytes());
        let is_right = id.as_ref().map_or(!b"in".contains(&found[0]), |id| id == found);
        assert!(is_right, "{payload} says {id:?}, not {}", String::from_utf8_lossy(found));
    }
}

/// A command that is refused because a key of the queue holds something else changes nothing.
#[test]
fn what_is_refused_changes_nothing() {
    let mut refused = 0;
    for seed in 0..SEEDS {
        let mut comparison = Comparison::new(seed);
        (0..30).for_each(|_| comparison.step());
        let Some(key) = comparison.occupy() else { continue };
        for _ in 0..30 {
            let say = comparison.say(0);
            if !matches!(say, Say::Push(_) | Say::Pop(_) | Say::Delete | Say::Rename(_)) {
                refused += usize::from(comparison.exchange(0, &say));
                QUEUES.iter().for_each(|queue| comparison.look_for_late(queue));
            }
        }
        comparison.ask("DEL", &key, &[]);
        comparison.compare_all();
    }
    assert!(refused > 50, "{refused}");
}
