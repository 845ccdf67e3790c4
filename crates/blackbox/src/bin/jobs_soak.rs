//! `make jobs-soak`: workers take jobs with leases from a server that is killed or replaced again and again; after some such events
//! all that they heard is checked, and a new server begins. [`blackbox::leases`] says how.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use blackbox::crash::Failure;
use blackbox::leases::{Lives, Plan, Survivor};
use clap::Parser;

/// Kill a server under workers again and again, and check what they were told.
#[derive(Debug, Parser)]
struct Options {
    /// For how long.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// The first seed; each server with an empty folder gets the next one.
    #[arg(long)]
    seed: Option<u64>,
    /// Kills, or other ends of a server, before the history is checked.
    #[arg(long, default_value_t = 20)]
    events: u64,
    /// Workers.
    #[arg(long, default_value_t = 16)]
    workers: usize,
    /// A replica has the data, and not the journal: it takes over when the server is killed, stands still or hands over to it.
    #[arg(long)]
    replica: bool,
    /// Where the servers' folders are made.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    folder: PathBuf,
    /// The server with its options.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    server: Vec<String>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut seed = options.seed.unwrap_or_else(|| since.map_or(0, |since| since.as_secs()));
    let end = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
    let survivor = if options.replica { Survivor::Replica } else { Survivor::Journal };
    let (mut events, mut calls) = (0, 0);
    while Instant::now() < end {
        let folder = options.folder.join(format!("darter-jobs-{}-{seed}", std::process::id()));
        if let Err(error) = std::fs::create_dir_all(&folder) {
            eprintln!("{}: {error}", folder.display());
            return ExitCode::FAILURE;
        }
        let plan = Plan {
            server: options.server.clone(),
            folder: folder.clone(),
            seed,
            workers: options.workers,
            survivor,
        };
        match series(plan, options.events) {
            Ok(lives) => {
                (events, calls) = (events + lives.events, calls + lives.history.len());
                println!("seed {seed}: {events} events and {calls} calls in all: ok");
            }
            Err(failure) => {
                println!("FAILED with seed {seed}\n{failure}");
                println!("server: {}\nits folder: {}", options.server.join(" "), folder.display());
                return ExitCode::FAILURE;
            }
        }
        // The folder is of no more use; the next one has a name of its own.
        let _ = std::fs::remove_dir_all(&folder);
        seed += 1;
    }
    println!("ok: {events} events, {calls} calls, every job accounted for");
    ExitCode::SUCCESS
}

/// One server's lives.
fn series(plan: Plan, events: u64) -> Result<Lives, Failure> {
    let mut lives = Lives::begin(plan)?;
    for _ in 0..events {
        lives.round()?;
    }
    lives.finish()?;
    Ok(lives)
}
