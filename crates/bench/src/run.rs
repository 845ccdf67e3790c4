//! A run: threads with their loads, a progress line, and the results.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use proactor::Clock;
use serde::Serialize;

use crate::control::{Control, Errors, Limits};
use crate::histogram::{Latencies, Series};
use crate::line::{Info, Line};
use crate::load::{Finished, INTERVAL_NS, Load, Sample, Seat, Workload};
use crate::number::grouped;
use crate::target::{Greeting, Target};
use crate::watch::{Eye, Memory, Watch, server_cpu_seconds};

/// A point in time is complete when the threads are this many intervals ahead of it.
const INTERVALS_OPEN: u64 = 3;
/// Interval of progress messages on a terminal, and elsewhere.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);
const PROGRESS_INTERVAL_LOGGED: Duration = Duration::from_secs(5);

/// The plan of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) target: &'a Target,
    /// The name that is shown while it runs.
    pub(crate) label: &'a str,
    /// The kinds of requests, and those that count for the rate.
    pub(crate) kinds: &'static [&'static str],
    pub(crate) rate: &'static [Series],
    /// How long new requests may start; `None`: until all are sent.
    pub(crate) duration: Option<Duration>,
    pub(crate) limits: Limits,
    /// How to query the server about itself; [`Greeting::Silent`] if it cannot be queried.
    pub(crate) greeting: Greeting,
    /// Whether its memory is examined closely.
    pub(crate) is_deep: bool,
}

/// The clients of one thread.
#[derive(Debug)]
pub(crate) struct Team<W> {
    pub(crate) workload: W,
    /// The greeting of each client, and whether it is a background client.
    pub(crate) clients: Vec<(Greeting, bool)>,
}

/// The measurements of one interval.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Point {
    /// Seconds from the start to the end of this interval.
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
}

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Outcome<W> {
    pub(crate) workloads: Vec<W>,
    pub(crate) latencies: Latencies,
    pub(crate) series: Vec<Point>,
    pub(crate) errors: Errors,
    /// Why it was stopped early.
    pub(crate) trouble: Option<String>,
    /// Seconds from the start to the last reply that counts.
    pub(crate) seconds: f64,
    pub(crate) generator_cpu_seconds: f64,
    pub(crate) server_cpu_seconds: Option<f64>,
    pub(crate) memory: Vec<Memory>,
    /// The server's `INFO` at the start and at the end.
    pub(crate) info: Info,
    pub(crate) info_after: Info,
}

/// Connects all clients, runs, and waits for the end.
///
/// # Errors If the server cannot be reached or refuses us. Later problems are part of the outcome.
pub(crate) fn run<W: Workload + 'static>(plan: &Plan<'_>, teams: Vec<Team<W>>) -> io::Result<Outcome<W>> {
    let (mut server, info) = Asked::connect(plan)?;
    let watch = Eye::open(plan.target, plan.greeting, plan.is_deep).map(Watch::start);
    let end_ns = plan.duration.map(|duration| duration.as_nanos() as u64);
    let control = Arc::new(Control::new(end_ns, plan.limits));
    let mut seated = Vec::new();
    for Team { workload, clients } in teams {
        let seats = clients
            .into_iter()
            .map(|(greeting, is_background)| {
                let (socket, codec) = plan.target.socket(greeting)?;
                Ok(Seat { socket, codec, is_background })
            })
            .collect::<io::Result<Vec<Seat>>>()?;
        seated.push((workload, seats));
    }
    let info = server.info().unwrap_or(info);
    let cpu_before = server_cpu_seconds(plan.target, &info);
    let (threads, samples) = start(seated, plan.kinds.len(), &control);
    let (latencies, series) = Gathering::new(plan).until_the_end(&samples);
    let mut finished = Vec::new();
    for thread in threads {
        finished.push(thread.join().map_err(|_| io::Error::other("a generator thread broke down"))??);
    }
    let info_after = server.info().unwrap_or_default();
    let cpu_after = server_cpu_seconds(plan.target, &info_after);
    let mut errors = Errors::default();
    finished.iter().for_each(|finished| errors.add(&finished.errors));
    let last_ns = finished.iter().map(|finished| finished.last_ns).max().unwrap_or(0);
    let generator_cpu_ns: u64 = finished.iter().map(|finished| finished.cpu_ns).sum();
    Ok(Outcome {
        workloads: finished.into_iter().map(|finished| finished.workload).collect(),
        latencies,
        series,
        errors,
        trouble: control.trouble(),
        seconds: last_ns as f64 / 1e9,
        generator_cpu_seconds: generator_cpu_ns as f64 / 1e9,
        server_cpu_seconds: cpu_before.zip(cpu_after).map(|(before, after)| after - before),
        memory: watch.map(Watch::stop).unwrap_or_default(),
        info,
        info_after,
    })
}

/// Queries the server besides the load, if it can be queried.
struct Asked(Option<Line>);

impl Asked {
    fn connect(plan: &Plan<'_>) -> io::Result<(Asked, Info)> {
        if plan.greeting == Greeting::Silent {
            return Ok((Asked(None), Info::default()));
        }
        let mut line = plan.target.line(plan.greeting)?;
        let info = line.info("everything")?;
        Ok((Asked(Some(line)), info))
    }

    /// `None` if it does not answer.
    fn info(&mut self) -> Option<Info> {
        self.0.as_mut().and_then(|line| line.info("everything").ok())
    }
}

type Thread<W> = JoinHandle<io::Result<Finished<W>>>;

/// Starts a thread for each workload. All start their load at the same moment.
fn start<W: Workload + 'static>(
    seated: Vec<(W, Vec<Seat>)>,
    kinds: usize,
    control: &Arc<Control>,
) -> (Vec<Thread<W>>, Receiver<Sample>) {
    let clock = Clock::real();
    let (sender, samples) = channel();
    let barrier = Arc::new(Barrier::new(seated.len()));
    let origin_ns = Arc::new(OnceLock::new());
    let threads = seated.into_iter().map(|(workload, seats)| {
        let (control, clock, sender) = (control.clone(), clock.clone(), sender.clone());
        let (barrier, origin_ns) = (barrier.clone(), origin_ns.clone());
        std::thread::spawn(move || {
            let load = Load::open(workload, seats, kinds, control.clone(), clock.clone(), sender);
            if load.is_err() {
                control.fail("a generator thread cannot work");
            }
            barrier.wait();
            let origin_ns = *origin_ns.get_or_init(|| clock.monotonic_ns());
            Ok(load?.run(origin_ns))
        })
    });
    (threads.collect(), samples)
}

/// Collects the samples of the threads.
struct Gathering<'a> {
    plan: &'a Plan<'a>,
    total: Latencies,
    open: BTreeMap<u64, Latencies>,
    series: Vec<Point>,
    progress: Progress,
}

impl<'a> Gathering<'a> {
    fn new(plan: &'a Plan<'a>) -> Gathering<'a> {
        let total = Latencies::new(plan.kinds.len());
        let progress = Progress::new(plan.label);
        Gathering { plan, total, open: BTreeMap::new(), series: Vec::new(), progress }
    }

    fn until_the_end(mut self, samples: &Receiver<Sample>) -> (Latencies, Vec<Point>) {
        loop {
            match samples.recv_timeout(PROGRESS_INTERVAL) {
                Ok(sample) => self.take(&sample),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.progress.say(&self.series);
        }
        self.complete(u64::MAX);
        while self.series.len() > 1 && self.series.last().is_some_and(|point| point.per_second == 0.0) {
            self.series.pop();
        }
        if self.series.len() > 1 {
            // The run ended somewhere within the last interval.
            self.series.pop();
        }
        self.progress.finish();
        (self.total, self.series)
    }

    fn take(&mut self, sample: &Sample) {
        self.total.add(&sample.latencies);
        let kinds = self.plan.kinds.len();
        self.open.entry(sample.interval).or_insert_with(|| Latencies::new(kinds)).add(&sample.latencies);
        self.complete(sample.interval.saturating_sub(INTERVALS_OPEN));
    }

    /// Makes points of the intervals before this one.
    fn complete(&mut self, before: u64) {
        while let Some(entry) = self.open.first_entry()
            && *entry.key() < before
        {
            let (interval, latencies) = entry.remove_entry();
            let joined = latencies.joined(self.plan.rate);
            self.progress.done += joined.len();
            self.series.push(Point::of(interval, &joined));
        }
    }
}

impl Point {
    fn of(interval: u64, latencies: &Histogram<u64>) -> Point {
        let microseconds = |quantile| latencies.value_at_quantile(quantile) as f64 / 1e3;
        Point {
            seconds: (interval + 1) as f64 * INTERVAL_NS as f64 / 1e9,
            per_second: latencies.len() as f64 * 1e9 / INTERVAL_NS as f64,
            p50_us: microseconds(0.5),
            p99_us: microseconds(0.99),
            max_us: latencies.max() as f64 / 1e3,
        }
    }
}

/// The progress line on standard error.
struct Progress {
    label: String,
    is_terminal: bool,
    said: Instant,
    done: u64,
}

impl Progress {
    fn new(label: &str) -> Progress {
        let is_terminal = io::stderr().is_terminal();
        Progress { label: label.to_owned(), is_terminal, said: Instant::now(), done: 0 }
    }

    fn say(&mut self, series: &[Point]) {
        let interval = if self.is_terminal { PROGRESS_INTERVAL } else { PROGRESS_INTERVAL_LOGGED };
        let Some(point) = series.last().filter(|_| self.said.elapsed() >= interval) else { return };
        self.said = Instant::now();
        let line = format!(
            "{} {:6.1} s {:>12}/s  p50 {:.0} µs  p99 {:.0} µs  max {:.0} µs  {} done",
            self.label,
            point.seconds,
            grouped(point.per_second as u64),
            point.p50_us,
            point.p99_us,
            point.max_us,
            grouped(self.done)
        );
        let (begin, end) = if self.is_terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        // An error means that standard error is not read.
        let _ = write!(io::stderr(), "{begin}{line}{end}").and_then(|()| io::stderr().flush());
    }

    fn finish(&self) {
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\x1b[K").and_then(|()| io::stderr().flush());
        }
    }
}
