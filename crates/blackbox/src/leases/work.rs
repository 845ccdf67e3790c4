//! Workers on a real server that is killed or replaced now and then. They record their calls and the replies, and
//! [`Lives::finish`] checks this history.
//!
//! There are four queues: workers ask for `urgent` before `plain`, `limited` has limits, and a schedule pushes a job
//! onto `ticks` each second. Workers do most jobs at once; they also fail, give jobs back, keep them for longer, or
//! are so slow that their leases end. The seed decides the workers' intentions and the deaths of the server, but not
//! the order of threads.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ds::random::Random;
use resp::Value;
use transcript::Socket;

use super::servers::{Servers, Survivor, broken, heard, say};
use super::{About, Call, Deed, Left, Limits, Named, Rules, Taken, check, taken};
use crate::account::{Moment, Timeline};
use crate::client::{PATIENCE, text};
use crate::crash::{End, Failure};

const QUEUES: [&str; 4] = ["urgent", "plain", "limited", "ticks"];
const ACTIVE_MAX: usize = 3;
const RATE: (usize, u64) = (20, 400);
const MS: Moment = 1_000_000;
/// The length of leases.
const LEASE_MS: (u64, u64) = (200, 500);
/// How long workers wait for a job.
const WAIT_MS: &str = "50";
/// By how much the server's clock may be behind on a busy machine.
const SLACK_MS: u64 = 150;
/// How long workers work before something happens to the server.
const LIFE_MS: (u64, u64) = (50, 700);
/// The prefix of the ids of the schedule's jobs. The time in ms follows.
const TICK: &str = "tick-";
/// A queue with this many jobs gets no more.
const QUEUE_LONG: i64 = 200;

/// The plan of a trial.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program and its options; where it listens and its folder are added.
    pub server: Vec<String>,
    /// Where it keeps its data; empty at first.
    pub folder: PathBuf,
    /// The seed of the random choices.
    pub seed: u64,
    /// How many workers there are.
    pub workers: usize,
    /// The place in which the data survives when the server is killed.
    pub survivor: Survivor,
}

/// A server that is replaced now and then, and the calls of its workers with the replies.
#[derive(Debug)]
pub struct Lives {
    plan: Plan,
    random: Random,
    timeline: Timeline,
    servers: Servers,
    next_job: AtomicU64,
    /// The calls and replies so far.
    pub history: Vec<Call>,
    /// How often it was killed, or replaced by its replica.
    pub events: u64,
}

/// One worker, in one life of the server.
struct Worker<'a> {
    name: String,
    socket: Socket,
    random: Random,
    timeline: &'a Timeline,
    next_job: &'a AtomicU64,
    calls: Vec<Call>,
}

impl Worker<'_> {
    /// Sends a call and records it.
    fn call(&mut self, line: &str, deed: Deed) -> Result<Value, End> {
        self.calls.push(Call { sent: self.timeline.moment(), answered: None, deed });
        let reply = say(&mut self.socket, line)?;
        let call = self.calls.last_mut().expect("it was just noted");
        call.answered = Some(self.timeline.moment());
        call.deed.hear(&reply);
        Ok(reply)
    }

    fn put(&mut self) -> Result<(), End> {
        let queue = QUEUES[self.random.below(3) as usize];
        let Value::Int(length) = say(&mut self.socket, &format!("LLEN {queue}"))? else {
            return Err(End::Strange("LLEN has no number".to_owned()));
        };
        if length > QUEUE_LONG {
            return Ok(());
        }
        let id = format!("j{}", self.next_job.fetch_add(1, Ordering::Relaxed));
        let (tries, is_delayed) = (1 + self.random.below(4), self.random.below(8) == 0);
        let mut line = match self.random.below(2) {
            0 => format!("JOB.PUT {queue} text ID {id} TRIES {tries}"),
            _ => format!("JOB.PUT {queue} {{\"jid\":\"{id}\"}} TRIES {tries}"),
        };
        if is_delayed {
            line += &format!(" IN {}", 1 + self.random.below(300));
        }
        let deed = Deed::Put { queue: queue.to_owned(), id, tries, is_delayed, lock: None, holder: None };
        self.call(&line, deed).map(drop)
    }

    fn take(&mut self) -> Result<(), End> {
        let queues: &[&str] = match self.random.below(4) {
            0 => &["limited"],
            1 => &["ticks", "limited"],
            _ => &["urgent", "plain"],
        };
        let count = 1 + self.random.below(2);
        let lease_ms = LEASE_MS.0 + self.random.below(LEASE_MS.1 - LEASE_MS.0);
        let line = format!(
            "JOB.TAKE {} LEASE {lease_ms} WAIT {WAIT_MS} COUNT {count} FROM {}",
            self.name,
            queues.join(" ")
        );
        let queues = queues.iter().map(|queue| (*queue).to_owned()).collect();
        let deed = Deed::Take { queues, lease: lease_ms * MS, count, got: Vec::new() };
        for job in taken(&self.call(&line, deed)?) {
            self.serve(&job, lease_ms)?;
        }
        Ok(())
    }

    /// Works on a job, or fails to. Half of the calls name the attempt.
    fn serve(&mut self, job: &Taken, lease_ms: u64) -> Result<(), End> {
        let Taken { queue, id, .. } = job;
        let Named { attempt, ended, failed, kept } = job.named(self.random.below(2) == 0);
        match self.random.below(20) {
            0 => thread::sleep(Duration::from_millis(lease_ms + self.random.below(50))),
            // The worker forgets the job.
            1 => return Ok(()),
            2 => {
                let line = format!("JOB.KEEP {queue} {} {kept}", LEASE_MS.1);
                self.tell(About::Keep(LEASE_MS.1 * MS), &line, id, attempt)?;
            }
            3..=6 => thread::sleep(Duration::from_millis(self.random.below(20))),
            _ => {}
        }
        let (what, line) = match self.random.below(12) {
            0 => (About::Fail, format!("JOB.FAIL {queue} {failed}")),
            1 => (About::Fail, format!("JOB.FAIL {queue} {failed} IN 30 WHY chance")),
            2 => (About::Release, format!("JOB.RELEASE {queue} {ended}")),
            _ => (About::Done, format!("JOB.DONE {queue} {ended}")),
        };
        self.tell(what, &line, id, attempt)
    }

    fn tell(&mut self, what: About, line: &str, id: &str, attempt: Option<u64>) -> Result<(), End> {
        let deed = Deed::Say { what, id: id.to_owned(), attempt, was_active: false };
        self.call(line, deed).map(drop)
    }

    fn work(&mut self, stop: &AtomicBool) -> Result<(), End> {
        while !stop.load(Ordering::Relaxed) {
            if self.random.below(3) == 0 { self.put()? } else { self.take()? }
        }
        Ok(())
    }
}

impl Lives {
    /// Starts the server, with its limits and its schedule.
    pub fn begin(plan: Plan) -> Result<Lives, Failure> {
        let servers = Servers::begin(&plan.server, plan.folder.clone(), plan.survivor)?;
        let mut socket = servers.primary.connect()?;
        let (most, per_ms) = RATE;
        let limit = format!("QUEUE LIMIT limited ACTIVE {ACTIVE_MAX} RATE {most} PER {per_ms}");
        say(&mut socket, &limit).map_err(broken)?;
        let payload = format!("{{\"id\":\"{TICK}%{{time_ms}}\"}}");
        let words = ["CRON", "SET", "ticks", "tick", "* * * * * *", &payload];
        heard(&mut socket, &words).map_err(broken)?;
        let random = Random::new(plan.seed);
        let (timeline, next_job) = (Timeline::begin(), AtomicU64::new(0));
        Ok(Lives { plan, random, timeline, servers, next_job, history: Vec::new(), events: 0 })
    }

    /// Runs the workers while the server is killed and started again, or replaced by its replica.
    pub fn round(&mut self) -> Result<(), Failure> {
        let life = Duration::from_millis(LIFE_MS.0 + self.random.below(LIFE_MS.1 - LIFE_MS.0));
        self.work(life, true)?;
        self.events += 1;
        Ok(())
    }

    fn work(&mut self, life: Duration, changes: bool) -> Result<(), Failure> {
        let stop = AtomicBool::new(false);
        let seeds: Vec<u64> = (0..self.plan.workers).map(|_| self.random.next_u64()).collect();
        let mut workers = Vec::new();
        for (number, seed) in seeds.into_iter().enumerate() {
            workers.push(Worker {
                name: format!("w{number}-{}", self.events),
                socket: self.servers.primary.connect()?,
                random: Random::new(seed),
                timeline: &self.timeline,
                next_job: &self.next_job,
                calls: Vec::new(),
            });
        }
        let (servers, random, stop) = (&mut self.servers, &mut self.random, &stop);
        let (changed, ends) = thread::scope(|scope| {
            let work = |mut worker: Worker<'_>| {
                let end = worker.work(stop);
                (worker.calls, end)
            };
            let threads: Vec<_> =
                workers.into_iter().map(|worker| scope.spawn(move || work(worker))).collect();
            thread::sleep(life);
            let changed = if changes { servers.replace(random) } else { Ok(()) };
            stop.store(true, Ordering::Relaxed);
            let ends = threads.into_iter().map(|thread| thread.join().expect("workers do not panic"));
            (changed, ends.collect::<Vec<_>>())
        });
        changed?;
        let mut strange = Vec::new();
        for (calls, end) in ends {
            self.history.extend(calls);
            match end {
                Err(End::Strange(text)) if changes && self.may_refuse(&text) => {}
                Err(End::Strange(text)) => strange.push(text),
                Err(End::Closed) if !changes => strange.push("a connection ended".to_owned()),
                Err(End::Closed) | Ok(()) => {}
            }
        }
        if strange.is_empty() { Ok(()) } else { Err(Failure::Broken(strange)) }
    }

    /// Whether these are the request and the error of a server that is about to be replaced by its replica, or that has
    /// become the replica and has data that the new primary lacks: such data may be undone, so it shows none.
    fn may_refuse(&self, text: &str) -> bool {
        let errors = [": READONLY ", ": NOREPLICAS ", ": UNBLOCKED ", ": MASTERDOWN "];
        self.plan.survivor == Survivor::Replica && errors.iter().any(|error| text.contains(error))
    }

    /// Runs one more life without a kill. Then all leases end, and the history is checked.
    ///
    /// # Errors
    /// The faults of the history.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.work(Duration::from_millis(LIFE_MS.1), false)?;
        let mut socket = self.servers.primary.connect()?;
        let left = self.left(&mut socket).map_err(broken)?;
        let limits = Limits { active: Some(ACTIVE_MAX), rate: Some((RATE.0, RATE.1 * MS)) };
        let rules = Rules {
            slack: SLACK_MS * MS,
            made: Some(TICK.to_owned()),
            limits: [("limited".to_owned(), limits)].into(),
        };
        let complaints = check(&self.history, &left, &rules);
        if complaints.is_empty() { Ok(()) } else { Err(Failure::Broken(complaints)) }
    }

    /// The jobs that are left when no lease and no delay is running.
    fn left(&mut self, socket: &mut Socket) -> Result<Left, End> {
        say(socket, "CRON DEL ticks tick")?;
        say(socket, "QUEUE LIMIT limited OFF")?;
        let mut left = Left::default();
        for queue in QUEUES {
            let end = Instant::now() + PATIENCE;
            for state in ["active", "delayed"] {
                while say(socket, &format!("ZCARD {{{queue}}}:jobs:{state}"))? != Value::Int(0) {
                    if Instant::now() > end {
                        return Err(End::Strange(format!("jobs of {queue} stay {state}")));
                    }
                    thread::sleep(Duration::from_millis(5));
                }
            }
            let Value::Array(dead) = say(socket, &format!("ZRANGE {{{queue}}}:jobs:dead 0 -1"))? else {
                return Err(End::Strange("ZRANGE has no array".to_owned()));
            };
            left.dead.extend(dead.iter().map(text));
            loop {
                let line = format!("JOB.TAKE last LEASE 600000 COUNT 100 FROM {queue}");
                let jobs = taken(&say(socket, &line)?);
                if jobs.is_empty() {
                    break;
                }
                for Taken { id, .. } in jobs {
                    if !left.waiting.insert(id.clone()) {
                        return Err(End::Strange(format!("{id} waits twice")));
                    }
                }
            }
        }
        Ok(left)
    }
}
