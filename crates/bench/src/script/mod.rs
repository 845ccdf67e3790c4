//! `script`: job systems implemented in Lua.

mod bullmq;
mod poller;

use std::io;

use clap::ValueEnum;
use proactor::Clock;
use resp::Value;

use crate::line::{Line, lossy};
use crate::load::Workload;
use crate::number::grouped;
use crate::options::{Common, Crowd};
use crate::report::Report;
use crate::run::{Plan, Team, run};
use crate::target::Greeting;
use bullmq::{Bullmq, Queue, Scripts};
use poller::Poller;

/// Run scripts like BullMQ, about 40 calls per job, or like Sidekiq's poller of scheduled jobs.
#[derive(Debug, clap::Args)]
pub(crate) struct ScriptOptions {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    crowd: Crowd,
    /// Whose scripts to run.
    #[arg(long, value_enum, default_value = "bullmq")]
    shape: Shape,
    /// With bullmq: number of queues, which are in different slots.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    queues: u32,
    /// With bullmq: names without hash tags, as BullMQ makes them unless its prefix has one.
    #[arg(long)]
    no_hash_tags: bool,
    /// Bytes of a job's data.
    #[arg(short, long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    data_size: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shape {
    Bullmq,
    Poller,
}

impl ScriptOptions {
    pub(crate) fn run(&self) -> io::Result<Report> {
        let target = self.common.target()?;
        let mut line = target.line(Greeting::Plain)?;
        self.clear(&mut line)?;
        let data = format!(r#"{{"text":"{}"}}"#, "x".repeat(self.data_size as usize));
        let mut plan = Plan {
            kinds: poller::KINDS,
            rate: poller::RATE,
            duration: self.crowd.duration(),
            ..self.common.plan(&target, "script")
        };
        let jobs = self.crowd.requests();
        let clock = Clock::real();
        let report = match self.shape {
            Shape::Bullmq => {
                (plan.kinds, plan.rate) = (bullmq::KINDS, bullmq::RATE);
                let scripts = Scripts::load(&mut line)?;
                self.measure(&plan, |numbers| Bullmq {
                    scripts: scripts.clone(),
                    clock: clock.clone(),
                    data: data.clone(),
                    clients: numbers
                        .map(|number| bullmq::Client::new(self.queue(number % self.queues), number, jobs))
                        .collect(),
                })
            }
            Shape::Poller => {
                let script = load(&mut line, include_str!("../jobs/pop_due_8.lua"))?;
                self.measure(&plan, |numbers| Poller {
                    script: script.clone(),
                    clock: clock.clone(),
                    data: data.clone(),
                    clients: numbers.map(|number| poller::Client::new(number, jobs)).collect(),
                })
            }
        };
        // If the server is gone, there is nothing to delete.
        let _ = self.clear(&mut line);
        report
    }

    fn measure<W: Workload + 'static>(
        &self,
        plan: &Plan<'_>,
        workload: impl Fn(std::ops::Range<u32>) -> W,
    ) -> io::Result<Report> {
        let teams = self.crowd.threads().map(|numbers| Team {
            clients: vec![(Greeting::Plain, false); numbers.len()],
            workload: workload(numbers),
        });
        let outcome = run(plan, teams.collect())?;
        let shape = match self.shape {
            Shape::Bullmq => "BullMQ's shape",
            Shape::Poller => "Sidekiq's poller",
        };
        let title = format!("Scripts: {shape}, {} connections", grouped(self.crowd.connections().into()));
        Ok(Report::new("script", title, plan, outcome))
    }

    fn queue(&self, number: u32) -> Queue {
        Queue { number, has_hash_tag: !self.no_hash_tags }
    }

    /// Deletes the keys of a run. The keys of jobs that finished some time ago remain until the next run.
    fn clear(&self, line: &mut Line) -> io::Result<()> {
        for name in [poller::SET, poller::QUEUE, "bench:queues"] {
            line.demand(&["UNLINK", name])?;
        }
        for queue in (0..self.queues).map(|number| self.queue(number)) {
            for state in ["wait", "active", "completed"] {
                let key = queue.key(state);
                let read: [&str; 4] = match state {
                    "completed" => ["ZRANGE", &key, "0", "-1"],
                    _ => ["LRANGE", &key, "0", "-1"],
                };
                let Value::Array(ids) = line.ask(&read)? else { continue };
                for id in ids {
                    let Value::Bulk(id) = id else { continue };
                    let job = queue.key(&lossy(&id));
                    line.demand(&["UNLINK", &job, &format!("{job}:lock")])?;
                }
            }
            let names = [
                "wait",
                "active",
                "completed",
                "delayed",
                "stalled",
                "meta",
                "id",
                "events",
                "marker",
                "metrics",
            ];
            for name in names {
                line.demand(&["UNLINK", &queue.key(name)])?;
            }
        }
        Ok(())
    }
}

/// Loads a script into the server. Returns its name.
fn load(line: &mut Line, script: &str) -> io::Result<String> {
    match line.ask(&["SCRIPT", "LOAD", script])? {
        Value::Bulk(name) => Ok(lossy(&name)),
        other => Err(io::Error::other(format!("SCRIPT LOAD answers {other}"))),
    }
}
