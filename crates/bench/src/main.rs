//! `darter-bench`: loads a server that speaks the Redis protocol, and reports how it performed.
//!
//! Each generator thread has its own proactor, and as much as possible is encoded before the clock starts: the
//! generator has to cost less than the server, or it measures itself.
//!
//! ```text
//!   options ─▶ mode (raw, jobs, kv, …): a Workload for each thread
//!                │
//!                ▼                      ┌─ load ◀─▶ proactor ◀─▶ server
//!              run ─ start at one time ─┼─ load …      │ samples: histograms of 250 ms
//!                │                      └─ load …      ▼
//!                │◀───────────── latencies, points in time, errors; memory from `watch`
//!                ▼
//!              report ─▶ table, JSON, page
//! ```
//!
//! A run with errors still reports its measurements, prints the errors, and exits with 1.

mod control;
mod histogram;
mod jobs;
mod keys;
mod kv;
mod line;
mod load;
mod mastodon;
mod memcache;
mod memory;
mod number;
mod options;
mod output;
mod pace;
mod page;
mod plot;
mod raw;
mod report;
mod requests;
mod run;
mod script;
mod table;
mod target;
mod tls;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use jobs::JobsOptions;
use kv::Kv;
use mastodon::Mastodon;
use memory::{MemoryOptions, SnapshotOptions};
use options::Common;
use raw::Raw;
use script::ScriptOptions;

/// Loads a server that speaks the Redis protocol, and reports how it performed.
#[derive(Debug, Parser)]
#[command(name = "darter-bench", version)]
struct Options {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, Subcommand)]
enum Mode {
    Raw(Raw),
    Jobs(JobsOptions),
    Kv(Kv),
    Script(ScriptOptions),
    Mastodon(Mastodon),
    Memory(MemoryOptions),
    Snapshot(SnapshotOptions),
}

impl Mode {
    fn common(&self) -> &Common {
        match self {
            Mode::Raw(raw) => &raw.common,
            Mode::Kv(kv) => &kv.common,
            Mode::Script(script) => &script.common,
            Mode::Mastodon(mastodon) => &mastodon.common,
            Mode::Memory(memory) => &memory.common,
            Mode::Snapshot(snapshot) => &snapshot.common,
            Mode::Jobs(jobs) => &jobs.common,
        }
    }
}

fn main() -> ExitCode {
    let mode = Options::parse().mode;
    allow_many_connections();
    if let Err(error) = control::end_on_interrupt() {
        eprintln!("darter-bench: an interrupt will give no report: {error}");
    }
    let report = match &mode {
        Mode::Raw(raw) => raw.run(),
        Mode::Kv(kv) => kv.run(),
        Mode::Script(script) => script.run(),
        Mode::Mastodon(mastodon) => mastodon.run(),
        Mode::Memory(memory) => memory.run(),
        Mode::Snapshot(snapshot) => snapshot.run(),
        Mode::Jobs(jobs) => jobs.run(),
    };
    match report.and_then(|report| output::publish(&report, mode.common()).map(|()| report.is_good)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("darter-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Raises the limit of open files as far as the system allows.
fn allow_many_connections() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If this is refused, connecting will report the problem.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
