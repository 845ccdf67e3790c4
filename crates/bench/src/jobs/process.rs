//! The requests of a Sidekiq process besides those of its workers: heartbeats with statistics, the poller of
//! scheduled jobs, and the check of queue lengths by which Sidekiq's own benchmark notices that it has finished.
//!
//! A process has one connection for these, and a list of round trips that are due.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memchr::memmem;
use proactor::{Clock, Entropy};

use super::calendar::Moment;
use super::payload::Sidekiq;
use crate::line::lossy;
use crate::load::Step;

/// Scripts that take the first due job of a sorted set.
const POP_DUE_6: &str = include_str!("pop_due_6.lua");
const POP_DUE_8: &str = include_str!("pop_due_8.lua");
const SECOND_NS: u64 = 1_000_000_000;
/// How often Sidekiq's benchmark checks the length of queues.
const LOOK_NS: u64 = SECOND_NS / 5;
const FIVE_YEARS_S: &str = "157680000";

/// One process.
#[derive(Debug)]
pub(crate) struct Process {
    sidekiq: Sidekiq,
    identity: String,
    threads: u32,
    /// Number of processes, which share the polling.
    processes: u32,
    /// The queues whose length it checks.
    looked_at: Vec<String>,
    /// Number of jobs that its workers have done.
    processed: Arc<AtomicU64>,
    reported: u64,
    clock: Clock,
    random: Entropy,
    beat_ns: u64,
    poll_ns: u64,
    look_ns: u64,
    script: Option<String>,
    trips: VecDeque<Trip>,
    awaited: Awaited,
}

/// Requests that are sent together.
#[derive(Debug)]
struct Trip {
    bytes: Vec<u8>,
    replies: u32,
    awaited: Awaited,
}

/// The use of a round trip's last reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Nothing,
    /// The script's name.
    Script,
    /// A due job of this set, or nothing.
    Due(&'static str),
}

impl Process {
    pub(crate) fn new(
        sidekiq: Sidekiq,
        (index, processes): (u32, u32),
        threads: u32,
        looked_at: Vec<String>,
        processed: Arc<AtomicU64>,
        clock: Clock,
    ) -> Process {
        let mut random = Entropy::from_seed(u64::from(index));
        let identity = identity(index);
        let script = if sidekiq == Sidekiq::Six { POP_DUE_6 } else { POP_DUE_8 };
        let poll_ns = 10 * SECOND_NS + random.below(5 * SECOND_NS);
        let mut process = Process {
            sidekiq,
            identity,
            threads,
            processes,
            looked_at,
            processed,
            reported: 0,
            clock,
            random,
            beat_ns: 0,
            poll_ns,
            look_ns: LOOK_NS,
            script: None,
            trips: VecDeque::new(),
            awaited: Awaited::Nothing,
        };
        process.trip(Awaited::Nothing, &[vec!["info".into()]]);
        process.trip(Awaited::Script, &[vec!["script".into(), "load".into(), script.into()]]);
        process
    }

    pub(crate) fn step(&mut self, now_ns: u64, requests: &mut Vec<u8>) -> Step {
        if self.trips.is_empty() {
            self.queue_what_is_due(now_ns);
        }
        let Some(trip) = self.trips.pop_front() else {
            return Step::At(self.beat_ns.min(self.poll_ns).min(self.look_ns));
        };
        requests.extend_from_slice(&trip.bytes);
        self.awaited = trip.awaited;
        Step::Sent { replies: trip.replies, since_ns: now_ns }
    }

    pub(crate) fn reply(&mut self, reply: &[u8]) {
        let bulk = match resp::decode(reply) {
            Ok(Some((resp::Value::Bulk(text), _))) => Some(text),
            _ => None,
        };
        match (self.awaited, bulk) {
            (Awaited::Script, Some(name)) => self.script = Some(lossy(&name)),
            (Awaited::Due(set), Some(job)) => {
                // A due job, which has to be moved to its queue. Then the set is polled again.
                self.enqueue(&job);
                self.ask_for_due(set);
            }
            (Awaited::Script | Awaited::Nothing | Awaited::Due(_), _) => {}
        }
    }

    fn queue_what_is_due(&mut self, now_ns: u64) {
        if self.beat_ns <= now_ns {
            self.beat();
            let seconds = if self.sidekiq == Sidekiq::Six { 5 } else { 10 };
            self.beat_ns = now_ns + seconds * SECOND_NS;
        } else if self.poll_ns <= now_ns {
            self.ask_for_due("retry");
            self.ask_for_due("schedule");
            self.trip(Awaited::Nothing, &[words("scard processes")]);
            // Each process polls every five seconds times the number of processes, so that together they poll
            // every five seconds.
            let average_ns = u64::from(self.processes) * 5 * SECOND_NS;
            let fixed_ns = if self.processes < 10 { average_ns / 2 } else { 0 };
            self.poll_ns = now_ns + self.random.below(average_ns) + fixed_ns;
        } else if self.look_ns <= now_ns {
            for queue in self.looked_at.clone() {
                self.trip(Awaited::Nothing, &[vec!["llen".into(), queue]]);
            }
            self.look_ns = now_ns + LOOK_NS;
        }
    }

    fn ask_for_due(&mut self, set: &'static str) {
        let Some(script) = self.script.clone() else { return };
        let now_us = self.clock.now_us();
        let now = format!("{}.{:06}", now_us / 1_000_000, now_us % 1_000_000);
        self.trip(Awaited::Due(set), &[vec!["evalsha".into(), script, "1".into(), set.into(), now]]);
    }

    fn enqueue(&mut self, job: &[u8]) {
        let job_text = lossy(job);
        let mark = r#""queue":""#;
        let queue =
            memmem::find(job, mark.as_bytes()).and_then(|at| job_text[at + mark.len()..].split('"').next());
        let queue = queue.unwrap_or("default").to_owned();
        let push = vec!["lpush".into(), format!("queue:{queue}"), job_text];
        self.trip(Awaited::Nothing, &[vec!["sadd".into(), "queues".into(), queue], push]);
    }

    fn beat(&mut self) {
        let total = self.processed.load(Ordering::Relaxed);
        let done = total - std::mem::replace(&mut self.reported, total);
        let now = Moment::of(self.clock.now_ms() / 1000);
        match self.sidekiq {
            Sidekiq::Six => self.statistics_6(done, now),
            Sidekiq::Seven | Sidekiq::Eight => self.statistics_8(done, now),
        }
        self.trip(Awaited::Nothing, &[words("ping")]);
        self.announce();
    }

    fn statistics_6(&mut self, done: u64, now: Moment) {
        let mut transaction = vec![words("multi")];
        transaction.extend(counters(done, now));
        transaction.push(vec!["unlink".into(), format!("{}:workers", self.identity)]);
        for thread in 0..self.threads {
            transaction.push(vec![
                "hset".into(),
                format!("{}:workers", self.identity),
                format!("t{thread}"),
                WORK.into(),
            ]);
        }
        transaction.push(vec!["expire".into(), format!("{}:workers", self.identity), "60".into()]);
        transaction.push(words("exec"));
        self.trip(Awaited::Nothing, &transaction);
    }

    fn statistics_8(&mut self, done: u64, now: Moment) {
        if done > 0 {
            self.trip(Awaited::Nothing, &counters(done, now));
            self.metrics(done, now);
        }
        let work = format!("{}:work", self.identity);
        let mut busy = vec!["hset".to_owned(), work.clone()];
        for thread in 0..self.threads {
            busy.push(format!("t{thread}"));
            busy.push(WORK.into());
        }
        self.trip(
            Awaited::Nothing,
            &[
                words("multi"),
                vec!["unlink".into(), work.clone()],
                busy,
                vec!["expire".into(), work, "60".into()],
                words("exec"),
            ],
        );
    }

    /// Statistics per minute: how long the jobs of each class took.
    fn metrics(&mut self, done: u64, now: Moment) {
        let Moment { year, month, day, hour, minute } = now;
        let (histogram, hashes) = match self.sidekiq {
            Sidekiq::Eight => (
                format!("h|LoadWorker-{day}-{hour}:{minute}"),
                vec![
                    (format!("j|{:02}{month:02}{day:02}|{hour}:{minute:02}", year % 100), "28800"),
                    (format!("j|{:02}{month:02}{day:02}|{hour}:{}", year % 100, minute / 10), "259200"),
                ],
            ),
            Sidekiq::Six | Sidekiq::Seven => (
                format!("LoadWorker-{day:02}-{hour:02}:{minute}"),
                vec![(format!("j|{year}{month:02}{day:02}|{hour}:{minute}"), "28800")],
            ),
        };
        let mut increments = words("bitfield");
        increments.push(histogram.clone());
        increments.extend(words("overflow sat incrby u16 #0"));
        increments.push(done.to_string());
        self.trip(Awaited::Nothing, &[increments, vec!["expire".into(), histogram, "28800".into()]]);
        for (hash, seconds) in hashes {
            let counted = |field: &str, count: u64| {
                vec!["hincrby".into(), hash.clone(), format!("LoadWorker|{field}"), count.to_string()]
            };
            let expiry = vec!["expire".into(), hash.clone(), seconds.into()];
            self.trip(Awaited::Nothing, &[counted("ms", 0), counted("p", done), expiry]);
        }
    }

    /// The heartbeat: announces the process and its state, and asks whether it should stop.
    fn announce(&mut self) {
        let set = if self.sidekiq == Sidekiq::Six { "hmset" } else { "hset" };
        let id = &self.identity;
        let info = format!(
            r#"{{"hostname":"bench","pid":1,"tag":"bench","concurrency":{},"queues":["q0"],"identity":"{id}"}}"#,
            self.threads
        );
        let seconds = self.clock.now_ms() / 1000;
        let mut state = vec![set.to_owned(), id.clone(), "info".into(), info];
        state.extend(words(&format!(
            "busy {} beat {seconds}.5 rtt_us 100 quiet false rss 100000",
            self.threads
        )));
        let transaction = [
            words("multi"),
            vec!["sadd".into(), "processes".into(), id.clone()],
            vec!["exists".into(), id.clone()],
            state,
            vec!["expire".into(), id.clone(), "60".into()],
            vec!["rpop".into(), format!("{id}-signals")],
            words("exec"),
        ];
        self.trip(Awaited::Nothing, &transaction);
    }

    fn trip(&mut self, awaited: Awaited, requests: &[Vec<String>]) {
        let mut bytes = Vec::new();
        requests.iter().for_each(|args| resp::encode_request(args, &mut bytes));
        self.trips.push_back(Trip { bytes, replies: requests.len() as u32, awaited });
    }
}

/// The description of a busy thread's job.
const WORK: &str = r#"{"queue":"q0","payload":"{\"class\":\"LoadWorker\",\"args\":[1],\"jid\":\"000000000000000000000001\"}","run_at":1700000000}"#;

/// The name of a process in the store.
pub(crate) fn identity(index: u32) -> String {
    format!("darter-bench:{}:{index:012x}", std::process::id())
}

/// The keys of a process, to be deleted when the run is over.
pub(crate) fn keys(index: u32) -> [String; 3] {
    let id = identity(index);
    [format!("{id}:workers"), format!("{id}:work"), id]
}

fn counters(done: u64, now: Moment) -> Vec<Vec<String>> {
    let Moment { year, month, day, .. } = now;
    let mut requests = Vec::new();
    for (name, count) in [("processed", done), ("failed", 0)] {
        let daily = format!("stat:{name}:{year}-{month:02}-{day:02}");
        requests.push(vec!["incrby".into(), format!("stat:{name}"), count.to_string()]);
        requests.push(vec!["incrby".into(), daily.clone(), count.to_string()]);
        requests.push(vec!["expire".into(), daily, FIVE_YEARS_S.into()]);
    }
    requests
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}
