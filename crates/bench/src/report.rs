//! The results of a run, from which JSON, table and page are made.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::line::Info;
use crate::run::{Outcome, Plan, Point};
use crate::target::Target;
use crate::watch::Memory;

/// The quantiles that reports contain.
const QUANTILES: [f64; 14] =
    [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999, 1.0];

/// The share of time spent busy from which the generator is considered the bottleneck.
const GENERATOR_BUSY: f64 = 0.95;

/// A run's results.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) mode: &'static str,
    /// The workload, for display.
    pub(crate) title: String,
    pub(crate) command_line: String,
    pub(crate) target: String,
    pub(crate) server: String,
    pub(crate) machine: String,
    pub(crate) tool: String,
    /// Whether the run was complete, without errors, losses or duplicates.
    pub(crate) is_good: bool,
    /// The faults of the run, one sentence each.
    pub(crate) complaints: Vec<String>,
    /// Other remarks.
    pub(crate) notes: Vec<String>,
    pub(crate) seconds: f64,
    pub(crate) operations: u64,
    pub(crate) operations_per_second: f64,
    pub(crate) errors: u64,
    pub(crate) errors_by_text: Vec<(String, u64)>,
    pub(crate) server_cpu_seconds: Option<f64>,
    pub(crate) generator_cpu_seconds: f64,
    /// Other results of the mode, by name.
    pub(crate) figures: Vec<Figure>,
    pub(crate) kinds: Vec<KindReport>,
    /// Darter's transactions by type: on the key's own thread, on another, as a message, over several shards, …
    pub(crate) transactions: Vec<(String, u64)>,
    pub(crate) account: Option<AccountReport>,
    pub(crate) series: Vec<Point>,
    pub(crate) memory: Vec<Memory>,
}

/// A number with its name, which includes the unit.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
}

/// Results of one kind of request. Times are in microseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct KindReport {
    pub(crate) name: &'static str,
    pub(crate) count: u64,
    pub(crate) per_second: f64,
    pub(crate) mean_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p90_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
    /// (quantile, time)
    pub(crate) distribution: Vec<(f64, f64)>,
}

/// The fate of the jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct AccountReport {
    /// Pushes that the server acknowledged.
    pub(crate) pushed: u64,
    /// Jobs that were fetched, each counted once.
    pub(crate) fetched: u64,
    /// Jobs that are still in the queues.
    pub(crate) left: u64,
    /// Jobs that were acknowledged, but are neither fetched nor left.
    pub(crate) lost: u64,
    /// Fetches of jobs that had been fetched before.
    pub(crate) duplicates: u64,
    /// Fetched jobs that this run did not push.
    pub(crate) strangers: u64,
}

impl Report {
    /// A report of what is known before anything is measured.
    pub(crate) fn bare(mode: &'static str, title: String, target: &Target, info: &Info) -> Report {
        Report {
            mode,
            title,
            command_line: std::env::args()
                .map(|arg| without_password(&arg))
                .collect::<Vec<String>>()
                .join(" "),
            target: target.to_string(),
            server: info.server(),
            machine: machine(),
            tool: concat!("darter-bench ", env!("CARGO_PKG_VERSION")).to_owned(),
            is_good: true,
            complaints: Vec::new(),
            notes: Vec::new(),
            seconds: 0.0,
            operations: 0,
            operations_per_second: 0.0,
            errors: 0,
            errors_by_text: Vec::new(),
            server_cpu_seconds: None,
            generator_cpu_seconds: 0.0,
            figures: Vec::new(),
            kinds: Vec::new(),
            transactions: Vec::new(),
            account: None,
            series: Vec::new(),
            memory: Vec::new(),
        }
    }

    /// The report of a run's measurements.
    pub(crate) fn new<W>(mode: &'static str, title: String, plan: &Plan<'_>, outcome: Outcome<W>) -> Report {
        let total = outcome.latencies.joined(plan.rate).len();
        let kinds = plan.kinds.iter().enumerate();
        let kinds = kinds
            .filter_map(|(kind, name)| KindReport::of(name, outcome.latencies.of(kind), outcome.seconds));
        let errors = outcome.errors.total();
        let mut report = Report {
            seconds: outcome.seconds,
            operations: total,
            operations_per_second: per_second(total, outcome.seconds),
            errors,
            errors_by_text: outcome.errors.iter().map(|(text, count)| (text.to_owned(), count)).collect(),
            server_cpu_seconds: outcome.server_cpu_seconds,
            generator_cpu_seconds: outcome.generator_cpu_seconds,
            kinds: kinds.collect(),
            transactions: outcome.info_after.growth(&outcome.info, "tx_type_"),
            series: outcome.series,
            memory: outcome.memory,
            ..Report::bare(mode, title, plan.target, &outcome.info)
        };
        let busy = outcome.generator_cpu_seconds / outcome.workloads.len() as f64;
        if busy > GENERATOR_BUSY * outcome.seconds {
            let text =
                "the generator's threads were busy all the time: with more of them, the server may do more";
            report.notes.push(text.to_owned());
        }
        match outcome.trouble {
            Some(trouble) => report.complain(trouble),
            None if errors > 0 => report.complain(format!("{errors} replies were errors")),
            None => {}
        }
        report
    }

    /// Adds a complaint.
    pub(crate) fn complain(&mut self, complaint: String) {
        self.complaints.push(complaint);
        self.is_good = false;
    }

    /// Adds what became of the jobs. Lost and duplicate jobs are complaints.
    pub(crate) fn set_account(&mut self, account: AccountReport) {
        let AccountReport { lost, duplicates, strangers, .. } = account;
        for (count, what) in [
            (lost, "JOBS LOST: acknowledged, but neither fetched nor left in a queue"),
            (duplicates, "JOBS DUPLICATED: fetched more than once"),
            (strangers, "foreign jobs in the queues: not pushed by this run"),
        ] {
            if count > 0 {
                self.complain(format!("{count} {what}"));
            }
        }
        self.account = Some(account);
    }

    pub(crate) fn add_figure(&mut self, name: &'static str, value: f64) {
        self.figures.push(Figure { name, value });
    }

    /// The server's processor time per operation, in microseconds.
    pub(crate) fn server_cpu_us(&self) -> Option<f64> {
        self.server_cpu_seconds.filter(|_| self.operations > 0).map(|cpu| cpu * 1e6 / self.operations as f64)
    }
}

impl KindReport {
    fn of(name: &'static str, histogram: &Histogram<u64>, seconds: f64) -> Option<KindReport> {
        if histogram.is_empty() {
            return None;
        }
        let microseconds = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Some(KindReport {
            name,
            count: histogram.len(),
            per_second: per_second(histogram.len(), seconds),
            mean_us: histogram.mean() / 1e3,
            p50_us: microseconds(0.5),
            p90_us: microseconds(0.9),
            p99_us: microseconds(0.99),
            p999_us: microseconds(0.999),
            max_us: histogram.max() as f64 / 1e3,
            distribution: QUANTILES.iter().map(|&quantile| (quantile, microseconds(quantile))).collect(),
        })
    }
}

pub(crate) fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// An argument as it may be shown: a URL without user and password.
fn without_password(arg: &str) -> String {
    match arg.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1))) {
        Some((scheme, place)) => format!("{scheme}://…@{place}"),
        None => arg.to_owned(),
    }
}

/// The processor, its cores and the kernel.
fn machine() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let model = model.map_or("unknown processor", |(_, name)| name);
    format!("{model}, {} cores, Linux {}", proactor::allowed_cpus().count(), kernel.trim())
}
