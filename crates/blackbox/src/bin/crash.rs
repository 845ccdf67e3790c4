//! `make crash`: kills a server repeatedly for minutes, and checks each time what it has kept. See [`blackbox::crash`].

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use blackbox::crash::{Crashes, Failure, Trial};
use clap::Parser;

/// Interval of progress messages.
const PROGRESS: Duration = Duration::from_secs(10);

/// Kill a server again and again, and check that it keeps what it has acknowledged.
#[derive(Debug, Parser)]
struct Options {
    /// How long to run.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// The first seed; each server with an empty folder gets the next one.
    #[arg(long)]
    seed: Option<u64>,
    /// Kills before a server starts anew, with the next seed and an empty folder.
    #[arg(long, default_value_t = 100)]
    kills: u64,
    /// What was acknowledged within this many milliseconds before a kill may be lost. 0: nothing may.
    #[arg(long, default_value_t = 0)]
    tolerance_ms: u64,
    /// Where to create the servers' folders.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    folder: PathBuf,
    /// The server with its options, such as `redis-server --appendonly yes --appendfsync always`.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    server: Vec<String>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut seed = options.seed.unwrap_or_else(|| since.map_or(0, |since| since.as_secs()));
    let end = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
    let mut kills = 0;
    while Instant::now() < end {
        let folder = options.folder.join(format!("darter-crash-{}-{seed}", std::process::id()));
        if let Err(error) = std::fs::create_dir_all(&folder) {
            eprintln!("{}: {error}", folder.display());
            return ExitCode::FAILURE;
        }
        let trial = Trial {
            server: options.server.clone(),
            folder: folder.clone(),
            seed,
            tolerance: Duration::from_millis(options.tolerance_ms),
        };
        match series(trial, options.kills, end) {
            Ok(count) => kills += count,
            Err((count, failure)) => {
                let kills = kills + count;
                println!("FAILED at kill {count} of seed {seed}, {kills} in all\n{failure}");
                println!("server: {}\nits folder: {}", options.server.join(" "), folder.display());
                return ExitCode::FAILURE;
            }
        }
        // Its contents are no longer needed, and the next folder has another name.
        let _ = std::fs::remove_dir_all(&folder);
        seed += 1;
    }
    println!("ok: {kills} kills, nothing lost, torn or invented");
    ExitCode::SUCCESS
}

/// The lives of one server. Returns how often it was killed.
fn series(trial: Trial, kills_max: u64, end: Instant) -> Result<u64, (u64, Failure)> {
    let seed = trial.seed;
    let mut crashes = Crashes::begin(trial).map_err(|failure| (0, failure))?;
    let mut shown = Instant::now();
    while crashes.kills < kills_max && Instant::now() < end {
        if let Err(failure) = crashes.round() {
            return Err((crashes.kills, failure));
        }
        if shown.elapsed() > PROGRESS {
            shown = Instant::now();
            println!("seed {seed}: {} kills, {} acknowledged", crashes.kills, crashes.acknowledged);
        }
    }
    let Crashes { kills, acknowledged, hangs, .. } = &crashes;
    println!("seed {seed}: {kills} kills, {hangs} with a log that hung, {acknowledged} acknowledged: ok");
    Ok(crashes.kills)
}
