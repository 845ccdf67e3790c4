//! `raw`: repeats one command, as redis-benchmark does.

use std::io;

use crate::load::{Counted, Step, Workload};
use crate::number::grouped;
use crate::options::{Common, share};
use crate::report::Report;
use crate::requests::{KEYS_MAX, Requests};
use crate::run::{Plan, Team, run};
use crate::target::Greeting;

/// Send a command again and again over many connections.
///
/// `__rand_int__` in an argument becomes a random number of twelve digits below --keys, as with redis-benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Raw {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Threads that generate load; they share connections and requests.
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Total number of connections.
    #[arg(short, long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    connections: u32,
    /// Requests that a connection sends before it waits for all their replies.
    #[arg(short = 'P', long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pipeline: u32,
    /// Total number of requests.
    #[arg(short = 'n', long, default_value_t = 1_000_000)]
    requests: u64,
    /// Number of distinct keys that `__rand_int__` makes.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=KEYS_MAX))]
    keys: u64,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

struct Repeat {
    requests: Requests,
    pipeline: u32,
    /// Batches left to send.
    unsent: u64,
}

impl Workload for Repeat {
    fn step(&mut self, _client: usize, now_ns: u64, requests: &mut Vec<u8>) -> Step {
        let Some(left) = self.unsent.checked_sub(1) else { return Step::Done };
        self.unsent = left;
        requests.extend_from_slice(self.requests.batch());
        Step::Sent { replies: self.pipeline, since_ns: now_ns }
    }

    fn reply(&mut self, _: usize, _: u32, _: &[u8], _: u64) -> Counted {
        Counted::As(0)
    }
}

impl Raw {
    pub(crate) fn run(&self) -> io::Result<Report> {
        let target = self.common.target()?;
        let plan = Plan { kinds: &["request"], rate: &[0], ..self.common.plan(&target, "raw") };
        let batches = self.requests.div_ceil(u64::from(self.pipeline));
        let team = |index: u32| Team {
            workload: Repeat {
                requests: Requests::new(
                    &self.command,
                    self.pipeline,
                    self.keys,
                    self.common.seed + u64::from(index),
                ),
                pipeline: self.pipeline,
                unsent: share(batches, self.threads, index),
            },
            clients: (0..share(u64::from(self.connections), self.threads, index))
                .map(|_| (Greeting::Plain, false))
                .collect(),
        };
        let outcome = run(&plan, (0..self.threads).map(team).collect())?;
        let name = self.command.first().map_or("", String::as_str);
        let title = format!(
            "{name}: {} connections, {} in flight each",
            grouped(self.connections.into()),
            self.pipeline
        );
        Ok(Report::new("raw", title, &plan, outcome))
    }
}
