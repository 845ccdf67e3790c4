//! `make power-failure`: records a server, and simulates power failures at thousands of moments of that run. See
//! [`blackbox::crash`].

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use blackbox::crash::{Promise, Recorded, Trial};
use clap::{Parser, ValueEnum};

/// Points between two progress messages.
const PROGRESS: u64 = 100;
/// Faults that are shown in full.
const FAULTS_SHOWN: usize = 5;

/// Record what a server does to its files, and check that a power failure at any moment leaves what it had acknowledged.
#[derive(Debug, Parser)]
struct Options {
    /// How long clients work, in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Number of moments at which the power fails.
    #[arg(long, default_value_t = 1000)]
    points: u64,
    /// Seed of the random choices.
    #[arg(long)]
    seed: Option<u64>,
    /// What was acknowledged within this many milliseconds before a power failure may be lost. 0: nothing may.
    #[arg(long, default_value_t = 0)]
    tolerance_ms: u64,
    /// What a power failure may leave of changes that no sync has covered.
    #[arg(long, value_enum, default_value = "any")]
    disk: Rest,
    /// Where to create folders.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    folder: PathBuf,
    /// The server with its options, such as `redis-server --appendonly yes --appendfsync always`.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    server: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Rest {
    /// Any part of it, each sector and each name independently.
    Any,
    /// What ext4 guarantees: names in order, files that grow without holes.
    Ordered,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = options.seed.unwrap_or_else(|| since.map_or(0, |since| since.as_secs()));
    let folder = options.folder.join(format!("darter-power-{}-{seed}", std::process::id()));
    let trial = Trial {
        server: options.server.clone(),
        folder: folder.clone(),
        seed,
        tolerance: Duration::from_millis(options.tolerance_ms),
    };
    let recorded = match Recorded::record(trial, Duration::from_secs_f64(options.seconds)) {
        Ok(recorded) => recorded,
        Err(failure) => {
            println!("FAILED, seed {seed}, no recording: {failure}\nits folder: {}", folder.display());
            return ExitCode::FAILURE;
        }
    };
    let (events, acknowledged) = recorded.counts();
    println!("seed {seed}: {events} calls recorded, {acknowledged} acknowledged");
    let promise = match options.disk {
        Rest::Any => Promise::Any,
        Rest::Ordered => Promise::Ordered,
    };
    let faults = recorded.fail(options.points, promise, |point| {
        if (point + 1).is_multiple_of(PROGRESS) {
            println!("{} power failures", point + 1);
        }
    });
    let faults = match faults {
        Ok(faults) => faults,
        Err(error) => {
            println!("FAILED, seed {seed}: {error}");
            return ExitCode::FAILURE;
        }
    };
    for fault in faults.iter().take(FAULTS_SHOWN) {
        println!("\nFAILED, seed {seed}, point {}, at {}: {}", fault.point, fault.at, fault.failure);
        println!("its folder: {}", fault.folder.display());
    }
    if !faults.is_empty() {
        println!("\nFAILED: {} of {} power failures", faults.len(), options.points);
        return ExitCode::FAILURE;
    }
    // Its contents are no longer needed.
    let _ = std::fs::remove_dir_all(&folder);
    println!("ok: {} power failures, nothing lost, torn or invented", options.points);
    ExitCode::SUCCESS
}
