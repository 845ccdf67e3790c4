//! Checks the data after `kill -9`: short runs of the test that `make crash` runs for hours.
//!
//! redis-server is tested to show that the account accepts a correct server, and detects what a crippled one loses.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::time::Duration;

use blackbox::crash::{Crashes, Failure, Trial};
use blackbox::{Scratch, StartError};
use powerlog::Recording;

/// Rounds within which a server that keeps nothing must be detected.
const ROUNDS_MAX: usize = 20;

fn trial(scratch: &Scratch, seed: u64, server: &[&str]) -> Trial {
    let server = server.iter().map(|word| (*word).to_owned()).collect();
    Trial { server, folder: scratch.path("").into(), seed, tolerance: Duration::ZERO }
}

/// `None` if redis-server is not installed, which fails in CI.
fn crashes(trial: Trial) -> Option<Crashes> {
    match Crashes::begin(trial) {
        Err(Failure::Start(StartError::Missing(name))) if std::env::var("CI").as_deref() != Ok("true") => {
            println!("SKIPPED: {name} is not installed");
            None
        }
        begun => Some(begun.unwrap_or_else(|failure| panic!("{failure}"))),
    }
}

#[test]
fn redis_keeps_what_it_acknowledged() {
    let scratch = Scratch::new("crash-redis");
    let server = ["redis-server", "--appendonly", "yes", "--appendfsync", "always"];
    let Some(mut crashes) = crashes(trial(&scratch, 1, &server)) else { return };
    for round in 0..4 {
        crashes.round().unwrap_or_else(|failure| panic!("seed 1, round {round}: {failure}"));
    }
    assert!(crashes.acknowledged > 0, "somebody did something");
}

#[test]
fn a_server_that_keeps_nothing_is_found_out() {
    let scratch = Scratch::new("crash-nothing");
    let Some(mut crashes) = crashes(trial(&scratch, 2, &["redis-server", "--appendonly", "no"])) else {
        return;
    };
    let broken = (0..ROUNDS_MAX).find_map(|_| crashes.round().err()).expect("it loses everything");
    let Failure::Broken(complaints) = broken else { panic!("it starts, and it answers: {broken}") };
    assert!(complaints.iter().any(|complaint| complaint.contains("lost")), "{complaints:?}");
}

/// Cuts the last bytes off the log, as if they had never been written. While it is rewritten it has a file more, and
/// redis-server does not start if one before the last is cut.
fn cut_tail(folder: &Path) {
    let number = |path: &Path| -> Option<u64> {
        path.file_name()?.to_str()?.strip_suffix(".incr.aof")?.rsplit('.').next()?.parse().ok()
    };
    let files = fs::read_dir(folder.join("appendonlydir")).expect("it is there");
    let files = files.map(|file| file.expect("it can be read").path());
    let last =
        files.filter(|path| number(path).is_some()).max_by_key(|path| number(path)).expect("it has one");
    let file = OpenOptions::new().write(true).open(&last).expect("it can be written");
    let bytes = file.metadata().expect("it has a length").len();
    file.set_len(bytes.saturating_sub(3000)).expect("it can be cut");
}

#[test]
fn a_tail_that_is_gone_is_missed() {
    let scratch = Scratch::new("crash-tail");
    let server = ["redis-server", "--appendonly", "yes", "--appendfsync", "always"];
    let Some(mut crashes) = crashes(trial(&scratch, 3, &server)) else { return };
    let broken = (0..ROUNDS_MAX).find_map(|_| crashes.round_with(cut_tail).err());
    let Some(Failure::Broken(complaints)) = broken else { panic!("nobody missed it: {broken:?}") };
    // Either elements of a queue are lost, or an acknowledged transaction is.
    let is_loss = |complaint: &String| complaint.contains("lost") || complaint.contains("must be there");
    assert!(complaints.iter().any(is_loss), "{complaints:?}");
}

#[test]
fn darter_keeps_what_it_acknowledged() {
    let options = ["--appendonly", "yes", "--appendfsync", "always"];
    let scratch = Scratch::new("crash-darter");
    let binary = std::env::var("DARTER").expect("the tests name the server");
    let server = [&[binary.as_str()][..], &options].concat();
    let mut crashes = crashes(trial(&scratch, 4, &server)).expect("it was just started");
    while crashes.kills < 100 {
        let kills = crashes.kills;
        crashes.round().unwrap_or_else(|failure| panic!("seed 4, after {kills} kills: {failure}"));
    }
}

/// The last moments may be lost, and with the first lost change everything acknowledged after it. Where the log thread stood still,
/// nothing was acknowledged for long.
#[test]
fn darter_with_everysec_keeps_a_prefix() {
    let scratch = Scratch::new("crash-everysec");
    let binary = std::env::var("DARTER").expect("the tests name the server");
    let server = [binary.as_str(), "--appendonly", "yes", "--appendfsync", "everysec"];
    let trial = Trial { tolerance: Duration::from_millis(500), ..trial(&scratch, 5, &server) };
    let mut crashes = crashes(trial).expect("it was just started");
    let can_hang = Recording::is_possible();
    while crashes.kills < 20 || can_hang && crashes.hangs == 0 {
        let kills = crashes.kills;
        crashes.round().unwrap_or_else(|failure| panic!("seed 5, after {kills} kills: {failure}"));
    }
}
