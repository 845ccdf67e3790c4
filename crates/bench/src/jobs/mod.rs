//! `jobs`: background jobs, with Sidekiq's wire pattern.
//!
//! | mode | what is timed |
//! |---|---|
//! | `drain` | queues are filled in bulk, untimed; then workers fetch until nothing is left |
//! | `push` | jobs are pushed one by one, and stay |
//! | `steady` | producers push at a fixed rate while workers fetch; latency counts from when a push was due |
//!
//! As in Sidekiq's `multi_queue_bench`, a process has a number of threads. Each has its own connection and fetches one job
//! with one `BRPOP`, or takes it for a time with `JOB.TAKE`. Another connection of each process sends heartbeats and polls for scheduled jobs. Every job has a
//! number, and the account tells where each has gone.

mod account;
mod calendar;
mod payload;
mod process;
mod roles;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use clap::ValueEnum;
use proactor::Clock;

use crate::line::Line;
use crate::number::grouped;
use crate::options::{Common, share};
use crate::pace::Pace;
use crate::report::{AccountReport, Report, per_second};
use crate::run::{Outcome, Plan, Team, run};
use crate::target::{Greeting, Target};
use account::Account;
pub(crate) use payload::{Form, Job, Sidekiq, spread};
use process::Process;
use roles::{FETCH, Fetch, Jobs, KINDS, PICKUP, PUSH, Pusher, Role, Shared, Worker};

/// Minimum time that workers have for the remaining jobs after the producers have stopped.
const GRACE: Duration = Duration::from_secs(10);
/// Most jobs that one run can account for.
const JOBS_MAX: u64 = 10_000_000_000;

/// Push and fetch jobs like Sidekiq, and account for each of them.
#[derive(Debug, clap::Args)]
pub(crate) struct JobsOptions {
    #[command(flatten)]
    pub(crate) common: Common,
    /// What is timed.
    #[arg(long, value_enum, default_value = "drain")]
    mode: Mode,
    /// Queues: q0, q1, …
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    queues: u32,
    /// Sidekiq processes.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    processes: u32,
    /// Threads of each process; each fetches over its own connection.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    threads: u32,
    /// Jobs in one bulk push.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    elements: u64,
    /// Bulk pushes per queue: a queue gets elements times iterations jobs.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    iterations: u64,
    /// Minimum length of a job; the shortest have about 150 bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=16_777_216))]
    payload_bytes: u32,
    /// The Sidekiq version whose wire pattern is used: 6.4, 7.3 or 8.1.
    #[arg(long, value_enum, default_value = "7")]
    sidekiq: Sidekiq,
    /// Which queues a worker fetches from: process i from queue i, or each from all, in an order drawn by weight.
    #[arg(long, value_enum, default_value = "one")]
    assignment: Assignment,
    /// How long a worker is busy with a job, in microseconds.
    #[arg(long, default_value_t = 0)]
    work_us: u64,
    /// With steady: jobs pushed per second.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    rate: u64,
    /// With steady: how long producers push.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seconds: u64,
    /// With steady and push: connections that push.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    producers: u32,
    /// How workers fetch jobs.
    #[arg(long, value_enum, default_value = "brpop")]
    fetch: Fetch,
    /// How long a fetch waits for a job, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = fetch_timeout)]
    fetch_timeout: f64,
    /// Threads that generate load.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    generator_threads: u32,
    /// Delete this run's queues first, whatever is in them.
    #[arg(long)]
    clear: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    Drain,
    Push,
    Steady,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Assignment {
    One,
    Weighted,
}

/// Parses a fetch timeout. If it were longer, a silent server could not be told from an empty queue.
fn fetch_timeout(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 5.0 => Ok(seconds),
        _ => Err("a fetch waits more than 0 and at most 5 seconds".to_owned()),
    }
}

impl JobsOptions {
    pub(crate) fn run(&self) -> io::Result<Report> {
        let target = self.common.target()?;
        let jobs = self.jobs()?;
        if self.mode != Mode::Push && self.assignment == Assignment::One && self.processes < self.queues {
            let text = "some queues have no worker: as many processes as queues, or --assignment weighted";
            return Err(io::Error::other(text));
        }
        let shared = Arc::new(self.shared(jobs));
        let mut line = target.line(Greeting::Plain)?;
        self.look_at_queues(&mut line, &shared.queues)?;
        let result = self.run_mode(&target, &mut line, &shared);
        // If the server is gone, there is nothing to clean up.
        let _ = self.tidy_up(&mut line);
        result
    }

    /// Total number of jobs.
    fn jobs(&self) -> io::Result<u64> {
        let jobs = match self.mode {
            Mode::Drain | Mode::Push => self
                .elements
                .checked_mul(self.iterations)
                .and_then(|jobs| jobs.checked_mul(self.queues.into())),
            Mode::Steady => self.rate.checked_mul(self.seconds),
        };
        let too_many =
            || io::Error::other(format!("one run accounts for {} jobs at most", grouped(JOBS_MAX)));
        jobs.filter(|jobs| *jobs <= JOBS_MAX).ok_or_else(too_many)
    }

    fn shared(&self, jobs: u64) -> Shared {
        Shared {
            account: Account::new(jobs),
            queues: (0..self.queues).map(|index| format!("q{index}")).collect(),
            form: Form::new(self.sidekiq, self.payload_bytes as usize),
            clock: Clock::real(),
            producers: AtomicU64::new(u64::from(match self.mode {
                Mode::Drain => self.queues,
                Mode::Push | Mode::Steady => self.producers,
            })),
            is_steady: self.mode == Mode::Steady,
            work_ns: self.work_us * 1000,
        }
    }

    fn look_at_queues(&self, line: &mut Line, queues: &[String]) -> io::Result<()> {
        for queue in queues {
            let key = format!("queue:{queue}");
            if self.clear {
                line.demand(&["UNLINK", &key])?;
            }
            let length = line.integer(&["LLEN", &key])?;
            if length > 0 {
                let text =
                    format!("{key} holds {length} jobs already; --clear deletes this run's queues first");
                return Err(io::Error::other(text));
            }
        }
        Ok(())
    }

    fn run_mode(&self, target: &Target, line: &mut Line, shared: &Arc<Shared>) -> io::Result<Report> {
        match self.mode {
            Mode::Drain => {
                let before: Option<u64> = line.info("memory")?.number("used_memory");
                let filled = run(&self.plan(target, "fill"), self.fill(shared))?;
                let after: Option<u64> = line.info("memory")?.number("used_memory");
                if filled.trouble.is_some() || filled.errors.total() > 0 {
                    return self.report(target, line, "fill", filled, shared);
                }
                let fill_rate = per_second(self.jobs()?, filled.seconds);
                let drained = run(&self.plan(target, "drain"), self.drain(shared))?;
                let mut report = self.report(target, line, "drain", drained, shared)?;
                report.add_figure("fill, jobs per second", fill_rate);
                if let Some((before, after)) = before.zip(after) {
                    let bytes = after.saturating_sub(before) as f64 / self.jobs()? as f64;
                    report.add_figure("memory per queued job, bytes", bytes);
                }
                Ok(report)
            }
            Mode::Push => {
                let pushed = run(&self.plan(target, "push"), self.push(shared))?;
                self.report(target, line, "push", pushed, shared)
            }
            Mode::Steady => {
                let outcome = run(&self.plan(target, "steady"), self.steady(shared))?;
                let push_seconds = outcome.latencies.of(PUSH).len() as f64 / self.rate as f64;
                let mut report = self.report(target, line, "steady", outcome, shared)?;
                report.add_figure("asked, jobs per second", self.rate as f64);
                if let Some(complaint) = slowness(self.seconds as f64, push_seconds, report.seconds) {
                    report.complain(complaint);
                }
                Ok(report)
            }
        }
    }

    fn plan<'a>(&self, target: &'a Target, label: &'a str) -> Plan<'a> {
        let duration = Duration::from_secs(self.seconds);
        let rate: &[usize] = match label {
            "drain" => &[FETCH],
            "steady" => &[PICKUP],
            _ => &[PUSH],
        };
        let duration = (self.mode == Mode::Steady).then(|| duration + duration.max(GRACE));
        Plan { kinds: KINDS, rate, duration, ..self.common.plan(target, label) }
    }

    fn report(
        &self,
        target: &Target,
        line: &mut Line,
        what: &'static str,
        outcome: Outcome<Jobs>,
        shared: &Shared,
    ) -> io::Result<Report> {
        let queues = if self.queues == 1 { "1 queue".to_owned() } else { format!("{} queues", self.queues) };
        let title = format!(
            "Jobs, {what}: {queues}, {} processes with {} threads, Sidekiq {}",
            self.processes,
            self.threads,
            self.sidekiq.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
        );
        let is_alive = outcome.trouble.is_none();
        let mut report = Report::new("jobs", title, &self.plan(target, what), outcome);
        match left_in(line, &shared.queues) {
            Ok(left) => report.set_account(shared.account.close(left)),
            Err(_) if !is_alive => {
                let account = shared.account.close(0);
                report.complain("what the queues still hold is unknown: no account".to_owned());
                report.account = Some(AccountReport { lost: 0, ..account });
            }
            Err(error) => return Err(error),
        }
        Ok(report)
    }

    fn tidy_up(&self, line: &mut Line) -> io::Result<()> {
        for index in 0..self.processes {
            line.demand(&["SREM", "processes", &process::identity(index)])?;
            for key in process::keys(index) {
                line.demand(&["UNLINK", &key])?;
            }
        }
        Ok(())
    }

    /// One pusher per queue, which pushes in bulk.
    fn fill(&self, shared: &Arc<Shared>) -> Vec<Team<Jobs>> {
        let each = self.elements * self.iterations;
        let bulk = self.elements.min(self.sidekiq.slice_max());
        let pushers = (0..u64::from(self.queues))
            .map(|queue| Role::Pusher(Pusher::bulk(queue as usize, queue * each..(queue + 1) * each, bulk)));
        self.deal(shared, pushers)
    }

    /// Pushers that share the jobs of all queues and push one by one.
    fn push(&self, shared: &Arc<Shared>) -> Vec<Team<Jobs>> {
        let jobs = self.elements * self.iterations * u64::from(self.queues);
        let mut next = 0;
        let pushers: Vec<Role> = (0..self.producers)
            .map(|index| {
                let ids = next..next + share(jobs, self.producers, index);
                next = ids.end;
                Role::Pusher(Pusher::bulk((index % self.queues) as usize, ids, 1))
            })
            .collect();
        self.deal(shared, pushers)
    }

    fn drain(&self, shared: &Arc<Shared>) -> Vec<Team<Jobs>> {
        self.deal(shared, self.workers(shared))
    }

    fn steady(&self, shared: &Arc<Shared>) -> Vec<Team<Jobs>> {
        let end_ns = self.seconds * 1_000_000_000;
        let pushers = (0..u64::from(self.producers)).map(|index| {
            Role::Pusher(Pusher::paced(Pace::shared(self.rate, index, self.producers.into()), end_ns))
        });
        self.deal(shared, pushers.chain(self.workers(shared)))
    }

    /// All workers and processes.
    fn workers(&self, shared: &Shared) -> Vec<Role> {
        let orders = |index: u32| match self.assignment {
            Assignment::One => {
                let queue = &shared.queues[(index % self.queues) as usize];
                roles::fetch_of_one(self.fetch, queue, self.fetch_timeout)
            }
            Assignment::Weighted => {
                let seed = self.common.seed + u64::from(index);
                roles::fetches_of_all(self.fetch, &shared.queues, self.fetch_timeout, seed)
            }
        };
        let mut roles = Vec::new();
        for index in 0..self.processes {
            let processed = Arc::new(AtomicU64::new(0));
            let fetches = Arc::new(orders(index));
            for thread in 0..self.threads {
                let seed = self.common.seed + u64::from(index * self.threads + thread);
                roles.push(Role::Worker(Worker::new(fetches.clone(), seed, processed.clone())));
            }
            // The first process checks all queues, the others their own.
            let own = index % self.queues;
            let looked_at =
                shared.queues.iter().enumerate().filter(|(queue, _)| index == 0 || *queue == own as usize);
            let keys = looked_at.map(|(_, queue)| format!("queue:{queue}")).collect();
            let of = (index, self.processes);
            let clock = shared.clock.clone();
            roles.push(Role::Process(Box::new(Process::new(
                self.sidekiq,
                of,
                self.threads,
                keys,
                processed,
                clock,
            ))));
        }
        roles
    }

    /// Distributes clients over the generator threads.
    fn deal(&self, shared: &Arc<Shared>, roles: impl IntoIterator<Item = Role>) -> Vec<Team<Jobs>> {
        let team =
            |_| Team { workload: Jobs { shared: shared.clone(), roles: Vec::new() }, clients: Vec::new() };
        let mut teams: Vec<Team<Jobs>> = (0..self.generator_threads).map(team).collect();
        for (index, role) in roles.into_iter().enumerate() {
            let team = &mut teams[index % self.generator_threads as usize];
            team.clients.push((self.sidekiq.greeting(), matches!(role, Role::Process(_))));
            team.workload.roles.push(role);
        }
        teams
    }
}

/// The complaint if the server could not keep up with the load requested for `asked_s` seconds: it accepted the jobs of
/// `pushed_s` seconds, and the last one was fetched after `took_s`.
fn slowness(asked_s: f64, pushed_s: f64, took_s: f64) -> Option<String> {
    if pushed_s < asked_s * 0.999 {
        let percent = pushed_s / asked_s * 100.0;
        return Some(format!("too slow for the asked rate: only {percent:.1} % of the jobs could be pushed"));
    }
    (took_s > asked_s * 1.02 + 0.5).then(|| {
        format!("too slow for the asked rate: the jobs of {asked_s} s took {took_s:.1} s; latencies include the delay")
    })
}

fn left_in(line: &mut Line, queues: &[String]) -> io::Result<u64> {
    let mut left = 0;
    for queue in queues {
        left += u64::try_from(line.integer(&["LLEN", &format!("queue:{queue}")])?).unwrap_or(0);
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_slow_is_said() {
        assert_eq!(slowness(10.0, 10.0, 10.2), None);
        assert!(slowness(10.0, 10.0, 12.0).is_some_and(|text| text.contains("of 10 s took 12.0 s")));
        assert!(slowness(10.0, 4.0, 20.0).is_some_and(|text| text.contains("only 40.0 %")));
    }
}
