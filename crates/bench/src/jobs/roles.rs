//! The clients of one generator thread: pushers, workers and processes.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;
use proactor::{Clock, Entropy};

use super::account::Account;
use super::payload::{self, Form, Job};
use super::process::Process;
use crate::histogram::Series;
use crate::load::{Counted, Step, Workload};
use crate::pace::Pace;

/// The kinds of requests.
pub(crate) const KINDS: &[&str] = &["fetch", "push", "push to pickup", "process"];
/// A fetch that found a job at once, as in drain mode.
pub(crate) const FETCH: Series = 0;
pub(crate) const PUSH: Series = 1;
/// From when a job's push was due until a worker had the job.
pub(crate) const PICKUP: Series = 2;
const PROCESS: Series = 3;

/// Number of queue orders that weighted workers choose from.
const ORDERS: usize = 64;
/// How the reply to JOB.TAKE begins that found a job. Queue, id, attempt and payload follow.
const LEASED: &[u8] = b"*1\r\n*4\r\n";
/// The lease of a job, in milliseconds: more than any job takes.
const LEASE_MS: &str = "60000";

/// The state that all clients of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) account: Account,
    pub(crate) queues: Vec<String>,
    pub(crate) form: Form,
    pub(crate) clock: Clock,
    /// Number of producers that have not finished.
    pub(crate) producers: AtomicU64,
    /// Whether jobs are pushed when they are due, and their latency counts from then.
    pub(crate) is_steady: bool,
    /// How long a worker is busy with a job.
    pub(crate) work_ns: u64,
}

/// The role of a client.
#[derive(Debug)]
pub(crate) enum Role {
    Pusher(Pusher),
    Worker(Worker),
    Process(Box<Process>),
}

/// The clients of one thread.
#[derive(Debug)]
pub(crate) struct Jobs {
    pub(crate) shared: Arc<Shared>,
    pub(crate) roles: Vec<Role>,
}

impl Workload for Jobs {
    fn step(&mut self, client: usize, now_ns: u64, requests: &mut Vec<u8>) -> Step {
        match &mut self.roles[client] {
            Role::Pusher(pusher) => pusher.step(&self.shared, now_ns, requests),
            Role::Worker(worker) => worker.step(now_ns, requests),
            Role::Process(process) => process.step(now_ns, requests),
        }
    }

    fn reply(&mut self, client: usize, index: u32, reply: &[u8], now_ns: u64) -> Counted {
        match &mut self.roles[client] {
            // The first reply is SADD's.
            Role::Pusher(_) if index == 0 => Counted::No,
            Role::Pusher(pusher) => {
                pusher.sent.clone().for_each(|id| self.shared.account.push(id));
                Counted::As(PUSH)
            }
            Role::Worker(worker) => worker.reply(&self.shared, reply, now_ns),
            Role::Process(process) => {
                process.reply(reply);
                Counted::As(PROCESS)
            }
        }
    }
}

/// Pushes jobs: in bulk into one queue, as fast as it can, or one by one into all queues, when they are due.
#[derive(Debug)]
pub(crate) struct Pusher {
    what: Pushing,
    /// The jobs of the current push.
    sent: Range<u64>,
    payloads: Vec<Vec<u8>>,
}

#[derive(Debug)]
enum Pushing {
    Bulk { queue: usize, ids: Range<u64>, bulk: u64 },
    Paced { pace: Pace, end_ns: u64 },
    Finished,
}

impl Pusher {
    /// Pushes the jobs `ids` into a queue, `bulk` at a time.
    pub(crate) fn bulk(queue: usize, ids: Range<u64>, bulk: u64) -> Pusher {
        Pusher { what: Pushing::Bulk { queue, ids, bulk }, sent: 0..0, payloads: Vec::new() }
    }

    /// Pushes the jobs that are due before `end_ns`.
    pub(crate) fn paced(pace: Pace, end_ns: u64) -> Pusher {
        Pusher { what: Pushing::Paced { pace, end_ns }, sent: 0..0, payloads: Vec::new() }
    }

    fn step(&mut self, shared: &Shared, now_ns: u64, requests: &mut Vec<u8>) -> Step {
        let (queue, since_ns) = match &mut self.what {
            Pushing::Bulk { queue, ids, bulk } if !ids.is_empty() => {
                self.sent = ids.start..ids.end.min(ids.start.saturating_add(*bulk));
                ids.start = self.sent.end;
                (*queue, now_ns)
            }
            Pushing::Paced { pace, end_ns } if pace.due_ns() < *end_ns => {
                let due_ns = pace.due_ns();
                if due_ns > now_ns {
                    return Step::At(due_ns);
                }
                let id = pace.take();
                self.sent = id..id + 1;
                ((id % shared.queues.len() as u64) as usize, due_ns)
            }
            Pushing::Bulk { .. } | Pushing::Paced { .. } => {
                self.what = Pushing::Finished;
                shared.producers.fetch_sub(1, Ordering::Release);
                return Step::Done;
            }
            Pushing::Finished => return Step::Done,
        };
        self.write(shared, queue, since_ns, requests);
        Step::Sent { replies: 2, since_ns }
    }

    fn write(&mut self, shared: &Shared, queue: usize, due_ns: u64, requests: &mut Vec<u8>) {
        let name = &shared.queues[queue];
        resp::encode_request(&["sadd", "queues", name], requests);
        let count = (self.sent.end - self.sent.start) as usize;
        self.payloads.resize_with(count, Vec::new);
        for (id, payload) in self.sent.clone().zip(&mut self.payloads) {
            payload.clear();
            shared.form.write(name, Job { id, due_ns }, &shared.clock, payload);
        }
        let key = format!("queue:{name}");
        let mut args: Vec<&[u8]> = vec![b"lpush", key.as_bytes()];
        args.extend(self.payloads.iter().map(Vec::as_slice));
        resp::encode_request(&args, requests);
    }
}

/// How workers fetch jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fetch {
    /// BRPOP, as Sidekiq does.
    Brpop,
    /// JOB.TAKE. JOB.DONE goes out with the next one.
    Take,
}

/// One thread of a Sidekiq process: fetches a job, works on it, fetches the next one.
#[derive(Debug)]
pub(crate) struct Worker {
    /// The fetch request, with the queues in various orders.
    fetches: Arc<Vec<Vec<u8>>>,
    random: Entropy,
    processed: Arc<AtomicU64>,
    busy_until_ns: u64,
    /// The request that ends the lease of its job; empty if it has none.
    end: Vec<u8>,
    is_finished: bool,
}

impl Worker {
    pub(crate) fn new(fetches: Arc<Vec<Vec<u8>>>, seed: u64, processed: Arc<AtomicU64>) -> Worker {
        let random = Entropy::from_seed(seed);
        Worker { fetches, random, processed, busy_until_ns: 0, end: Vec::new(), is_finished: false }
    }

    fn step(&mut self, now_ns: u64, requests: &mut Vec<u8>) -> Step {
        if self.is_finished {
            return Step::Done;
        }
        if self.busy_until_ns > now_ns {
            return Step::At(self.busy_until_ns);
        }
        let order = if self.fetches.len() == 1 { 0 } else { self.random.below(self.fetches.len() as u64) };
        let replies = 1 + u32::from(!self.end.is_empty());
        requests.append(&mut self.end);
        requests.extend_from_slice(&self.fetches[order as usize]);
        Step::Sent { replies, since_ns: now_ns }
    }

    fn reply(&mut self, shared: &Shared, reply: &[u8], now_ns: u64) -> Counted {
        if reply[0] == b':' {
            // A lease has ended.
            return Counted::No;
        }
        if reply.len() <= "*-1\r\n".len() {
            // The fetch timed out. If all producers have finished, no more jobs will come.
            self.is_finished = shared.producers.load(Ordering::Acquire) == 0;
            return Counted::No;
        }
        if reply.starts_with(LEASED) {
            let mut lines =
                reply[LEASED.len()..].split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end).skip(1);
            if let (Some(queue), Some(_), Some(id)) = (lines.next(), lines.next(), lines.next()) {
                resp::encode_request(&[b"job.done", queue, id], &mut self.end);
            }
        }
        let job = payload::read(reply);
        shared.account.fetch(job.map(|job| job.id));
        self.processed.fetch_add(1, Ordering::Relaxed);
        self.busy_until_ns = if shared.work_ns > 0 { now_ns + shared.work_ns } else { 0 };
        match job {
            Some(job) if shared.is_steady => Counted::Since(PICKUP, job.due_ns),
            Some(_) | None => Counted::As(FETCH),
        }
    }
}

impl Fetch {
    /// A fetch from the first of these queues that has a job, which waits for `timeout` seconds.
    fn request<'a>(self, queues: impl Iterator<Item = &'a str>, timeout: f64) -> Vec<u8> {
        let keys = queues.map(|queue| format!("queue:{queue}"));
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        let args: Vec<String> = match self {
            Fetch::Brpop => words(&["brpop"]).into_iter().chain(keys).chain([timeout.to_string()]).collect(),
            Fetch::Take => {
                let wait_ms = ((timeout * 1000.0) as u64).max(1).to_string();
                let front = words(&["job.take", "darter-bench", "LEASE", LEASE_MS, "WAIT", &wait_ms, "FROM"]);
                front.into_iter().chain(keys).collect()
            }
        };
        let mut request = Vec::new();
        resp::encode_request(&args, &mut request);
        request
    }
}

/// The fetch of a worker of one queue.
pub(crate) fn fetch_of_one(fetch: Fetch, queue: &str, timeout: f64) -> Vec<Vec<u8>> {
    vec![fetch.request([queue].into_iter(), timeout)]
}

/// Fetches of a worker of all queues. The first queue has the highest weight. Like Sidekiq, repeats each name by its
/// weight, shuffles, and keeps the first occurrence of each.
pub(crate) fn fetches_of_all(fetch: Fetch, queues: &[String], timeout: f64, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Entropy::from_seed(seed);
    let mut names: Vec<&str> = Vec::new();
    for (index, queue) in queues.iter().enumerate() {
        names.extend(std::iter::repeat_n(queue.as_str(), queues.len() - index));
    }
    (0..ORDERS)
        .map(|_| {
            // The Fisher-Yates shuffle.
            for last in (1..names.len()).rev() {
                names.swap(last, random.below(last as u64 + 1) as usize);
            }
            let mut order: Vec<&str> = Vec::new();
            for name in &names {
                if !order.contains(name) {
                    order.push(name);
                }
            }
            fetch.request(order.into_iter(), timeout)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::payload::Sidekiq;

    fn shared(jobs: u64, is_steady: bool, work_ns: u64) -> Shared {
        Shared {
            account: Account::new(jobs),
            queues: vec!["q0".to_owned(), "q1".to_owned()],
            form: Form::new(Sidekiq::Seven, 0),
            clock: Clock::real(),
            producers: AtomicU64::new(1),
            is_steady,
            work_ns,
        }
    }

    fn jobs(shared: Shared, role: Role) -> Jobs {
        Jobs { shared: Arc::new(shared), roles: vec![role] }
    }

    fn worker(fetch: Fetch) -> Role {
        let fetches = Arc::new(fetch_of_one(fetch, "q0", 2.0));
        Role::Worker(Worker::new(fetches, 1, Arc::new(AtomicU64::new(0))))
    }

    #[test]
    fn a_bulk_pusher_pushes_everything_once() {
        let mut jobs = jobs(shared(10, false, 0), Role::Pusher(Pusher::bulk(0, 0..10, 4)));
        let mut pushes = 0;
        let mut requests = Vec::new();
        while jobs.step(0, 0, &mut requests) != Step::Done {
            assert_eq!(jobs.reply(0, 0, b":0\r\n", 0), Counted::No);
            assert_eq!(jobs.reply(0, 1, b":4\r\n", 0), Counted::As(PUSH));
            pushes += 1;
        }
        assert_eq!(pushes, 3);
        assert_eq!(jobs.shared.account.close(10).pushed, 10);
        assert_eq!(jobs.shared.producers.load(Ordering::Relaxed), 0);
        assert_eq!(memchr::memmem::find_iter(&requests, b"LoadWorker").count(), 10);
    }

    #[test]
    fn a_paced_pusher_waits_and_catches_up() {
        let pace = Pace::shared(1000, 0, 1);
        let mut jobs = jobs(shared(10, true, 0), Role::Pusher(Pusher::paced(pace, 3_000_000)));
        let mut requests = Vec::new();
        let mut step = |now_ns| jobs.step(0, now_ns, &mut requests);
        assert_eq!(step(0), Step::Sent { replies: 2, since_ns: 0 });
        assert_eq!(step(1), Step::At(1_000_000));
        // The step comes late: latencies count from when the pushes were due.
        assert_eq!(step(9_000_000), Step::Sent { replies: 2, since_ns: 1_000_000 });
        assert_eq!(step(9_000_000), Step::Sent { replies: 2, since_ns: 2_000_000 });
        assert_eq!(step(9_000_000), Step::Done);
    }

    #[test]
    fn a_worker_counts_works_and_ends_when_nothing_comes() {
        let mut pushed = Vec::new();
        let mut jobs = jobs(shared(10, true, 5_000), worker(Fetch::Brpop));
        jobs.shared.form.write("q0", Job { id: 7, due_ns: 100 }, &jobs.shared.clock, &mut pushed);
        let mut requests = Vec::new();
        assert!(matches!(jobs.step(0, 0, &mut requests), Step::Sent { replies: 1, .. }));
        assert_eq!(requests, b"*3\r\n$5\r\nbrpop\r\n$8\r\nqueue:q0\r\n$1\r\n2\r\n");
        assert_eq!(jobs.reply(0, 0, &pushed, 1_000), Counted::Since(PICKUP, 100));
        assert_eq!(jobs.step(0, 1_000, &mut requests), Step::At(6_000));
        assert!(matches!(jobs.step(0, 6_000, &mut requests), Step::Sent { .. }));
        assert_eq!(jobs.reply(0, 0, b"*-1\r\n", 7_000), Counted::No);
        assert!(matches!(jobs.step(0, 7_000, &mut requests), Step::Sent { .. }), "somebody still pushes");
        jobs.shared.producers.store(0, Ordering::Relaxed);
        assert_eq!(jobs.reply(0, 0, b"_\r\n", 8_000), Counted::No);
        assert_eq!(jobs.step(0, 8_000, &mut requests), Step::Done);
        assert_eq!(jobs.shared.account.close(0).fetched, 1);
    }

    #[test]
    fn a_worker_with_leases_ends_each_with_the_next_fetch() {
        let mut jobs = jobs(shared(10, false, 0), worker(Fetch::Take));
        let mut payload = Vec::new();
        jobs.shared.form.write("q0", Job { id: 7, due_ns: 0 }, &jobs.shared.clock, &mut payload);
        let mut taken = b"*1\r\n*4\r\n$8\r\nqueue:q0\r\n$2\r\na1\r\n:1\r\n".to_vec();
        taken.extend_from_slice(format!("${}\r\n", payload.len()).as_bytes());
        taken.extend_from_slice(&payload);
        let mut requests = Vec::new();
        assert_eq!(jobs.step(0, 0, &mut requests), Step::Sent { replies: 1, since_ns: 0 });
        let take = std::mem::take(&mut requests);
        assert!(take.ends_with(b"$4\r\nWAIT\r\n$4\r\n2000\r\n$4\r\nFROM\r\n$8\r\nqueue:q0\r\n"));
        assert_eq!(jobs.reply(0, 0, &taken, 10), Counted::As(FETCH));
        assert_eq!(jobs.step(0, 10, &mut requests), Step::Sent { replies: 2, since_ns: 10 });
        let done = b"*3\r\n$8\r\njob.done\r\n$8\r\nqueue:q0\r\n$2\r\na1\r\n";
        assert_eq!(requests, [done.as_slice(), &take].concat());
        assert_eq!(jobs.reply(0, 0, b":1\r\n", 20), Counted::No);
        assert_eq!(jobs.reply(0, 1, b"*-1\r\n", 30), Counted::No);
        assert_eq!(jobs.shared.account.close(0).fetched, 1);
    }

    #[test]
    fn weighted_workers_ask_for_all_queues_and_mostly_for_the_first_first() {
        let queues: Vec<String> = (0..4).map(|index| format!("q{index}")).collect();
        let fetches = fetches_of_all(Fetch::Brpop, &queues, 2.0, 1);
        let mut first = 0;
        for fetch in &fetches {
            let text = String::from_utf8_lossy(fetch);
            assert!(text.starts_with("*6\r\n"), "{text}");
            assert!(
                queues.iter().all(|queue| text.matches(&format!("queue:{queue}\r")).count() == 1),
                "{text}"
            );
            first += usize::from(text.contains("brpop\r\n$8\r\nqueue:q0"));
        }
        assert!(
            (ORDERS / 5..ORDERS * 3 / 5).contains(&first),
            "q0 weighs 4 of 10, and is first {first} times"
        );
    }
}
