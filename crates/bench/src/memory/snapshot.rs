//! `snapshot`: measures the cost of saving while clients write.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use proactor::Entropy;

use super::fill::{Content, Fill, key};
use super::seconds;
use crate::line::Line;
use crate::load::{Counted, Step, Workload};
use crate::options::Common;
use crate::pace::Pace;
use crate::report::Report;
use crate::run::{Plan, Team, run};
use crate::target::{Greeting, Target};
use crate::watch::{Memory, mebibytes};

const KINDS: &[&str] = &["before", "while saving", "after"];
const RATE: &[usize] = &[0, 1, 2];
const SAVING: usize = 1;
const AFTER: usize = 2;
/// How often the server is asked whether it has finished saving.
const LOOK: Duration = Duration::from_millis(20);

/// Fill a server, write at a fixed rate, and make it save meanwhile.
#[derive(Debug, clap::Args)]
pub(crate) struct SnapshotOptions {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    fill: Fill,
    /// Writes per second.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    rate: u64,
    /// Connections that write.
    #[arg(short, long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    clients: u32,
    /// How long to write before and after, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = seconds)]
    around: Duration,
    /// Then make the server load what it has saved: what was written since is lost.
    #[arg(long)]
    reload: bool,
}

/// The current phase, and whether the writers have to stop.
#[derive(Debug, Default)]
struct Progress {
    phase: AtomicUsize,
    is_over: AtomicBool,
}

struct Writers {
    progress: Arc<Progress>,
    keys: u64,
    value: String,
    clients: Vec<(Pace, Entropy)>,
}

impl Workload for Writers {
    fn step(&mut self, client: usize, now_ns: u64, requests: &mut Vec<u8>) -> Step {
        if self.progress.is_over.load(Ordering::Relaxed) {
            return Step::Done;
        }
        let (pace, random) = &mut self.clients[client];
        let since_ns = pace.due_ns();
        if since_ns > now_ns {
            return Step::At(since_ns);
        }
        pace.take();
        resp::encode_request(&["set", &key(random.below(self.keys)), &self.value], requests);
        Step::Sent { replies: 1, since_ns }
    }

    fn reply(&mut self, _client: usize, _index: u32, _reply: &[u8], _now_ns: u64) -> Counted {
        Counted::As(self.progress.phase.load(Ordering::Relaxed))
    }
}

impl SnapshotOptions {
    pub(crate) fn run(&self) -> io::Result<Report> {
        let target = self.common.target()?;
        let mut line = target.line(Greeting::Plain)?;
        let filled_s = self.fill.fill(&mut line)?;
        let progress = Arc::new(Progress::default());
        let saver = {
            let (progress, around, line) = (progress.clone(), self.around, target.line(Greeting::Plain)?);
            std::thread::spawn(move || {
                let saved = save(line, &progress, around);
                progress.is_over.store(true, Ordering::Relaxed);
                saved
            })
        };
        let plan = Plan { kinds: KINDS, rate: RATE, is_deep: true, ..self.common.plan(&target, "snapshot") };
        let outcome = run(&plan, vec![self.writers(&progress)])?;
        let saved = saver.join().map_err(|_| io::Error::other("the thread that saves broke down"))?;
        let mut report = Report::new("snapshot", self.fill.title("Snapshot"), &plan, outcome);
        report.add_figure("fill, seconds", filled_s);
        match saved {
            Ok(seconds) => {
                report.add_figure("save, seconds", seconds);
                add_growth(&mut report, self.around.as_secs_f64());
            }
            Err(error) => report.complain(format!("it does not save: {error}")),
        }
        if self.reload && report.is_good {
            self.reload(&target, &mut report)?;
        }
        if !self.fill.keep {
            // If the server is gone, there is nothing to delete.
            let _ = self.fill.empty(&mut line);
        }
        Ok(report)
    }

    fn writers(&self, progress: &Arc<Progress>) -> Team<Writers> {
        let clients = u64::from(self.clients);
        let client = |number| {
            (Pace::shared(self.rate, number, clients), Entropy::from_seed(self.common.seed + number))
        };
        // Queues and collections are few keys, so the writers have keys of their own.
        let keys = if self.fill.with == Content::Keys { self.fill.count } else { 1000 };
        Team {
            workload: Writers {
                progress: progress.clone(),
                keys,
                value: "y".repeat(self.fill.data_size as usize),
                clients: (0..clients).map(client).collect(),
            },
            clients: vec![(Greeting::Plain, false); self.clients as usize],
        }
    }

    fn reload(&self, target: &Target, report: &mut Report) -> io::Result<()> {
        let start = Instant::now();
        match target.line(Greeting::Plain)?.demand(&["DEBUG", "RELOAD", "NOSAVE"]) {
            Ok(()) => report.add_figure("load, seconds", start.elapsed().as_secs_f64()),
            Err(error) => report.complain(format!("it does not load: {error}")),
        }
        Ok(())
    }
}

/// Saves in the middle. Returns how many seconds that took.
fn save(mut line: Line, progress: &Progress, around: Duration) -> io::Result<f64> {
    std::thread::sleep(around);
    let start = Instant::now();
    line.demand(&["BGSAVE"])?;
    progress.phase.store(SAVING, Ordering::Relaxed);
    while line.info("persistence")?.text("rdb_bgsave_in_progress") == Some("1") {
        std::thread::sleep(LOOK);
    }
    let took = start.elapsed().as_secs_f64();
    progress.phase.store(AFTER, Ordering::Relaxed);
    match line.info("persistence")?.text("rdb_last_bgsave_status") {
        Some("ok") | None => {}
        Some(status) => return Err(io::Error::other(format!("the save ended with {status}"))),
    }
    std::thread::sleep(around);
    Ok(took)
}

/// Adds how much the memory grew during the save.
fn add_growth(report: &mut Report, saved_from_s: f64) {
    let most = |bytes: fn(&Memory) -> Option<u64>, from: f64, to: f64| {
        let within = report.memory.iter().filter(|memory| (from..to).contains(&memory.seconds));
        within.filter_map(bytes).max()
    };
    let bytes: fn(&Memory) -> Option<u64> = |memory| memory.pss_bytes.or(memory.rss_bytes);
    let before = most(bytes, 0.0, saved_from_s);
    let peak = most(bytes, saved_from_s, f64::INFINITY);
    if let Some((before, peak)) = before.zip(peak) {
        report.add_figure("memory before saving, MiB", mebibytes(before));
        report.add_figure("memory while saving, most, MiB", mebibytes(peak));
        report.add_figure("growth while saving, %", (peak as f64 / before as f64 - 1.0) * 100.0);
    }
}
