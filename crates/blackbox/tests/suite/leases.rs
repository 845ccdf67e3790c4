//! Workers that take jobs with leases from a server that is killed or replaced, with more threads than there are cores: what they heard
//! is what `docs/jobs.md` says. Short runs of what `make jobs-soak` does for an hour.

use blackbox::Scratch;
use blackbox::leases::{Lives, Plan, Survivor};

const EVENTS: u64 = 8;
const WORKERS: usize = 12;

fn hold(survivor: Survivor, options: &[&str]) {
    let scratch = Scratch::new("leases");
    let binary = std::env::var("DARTER").expect("the tests name the server");
    let threads = ["--proactor-threads=8", "--threads-elastic=no"];
    let server = [&[binary.as_str()], options, &threads].concat().into_iter().map(str::to_owned).collect();
    let plan = Plan { server, folder: scratch.path("").into(), seed: 1, workers: WORKERS, survivor };
    let mut lives = Lives::begin(plan).unwrap_or_else(|failure| panic!("{failure}"));
    for _ in 0..EVENTS {
        lives.round().unwrap_or_else(|failure| panic!("{failure}"));
    }
    lives.finish().unwrap_or_else(|failure| panic!("{failure}"));
    println!("{} events, {} calls", lives.events, lives.history.len());
}

#[test]
fn leases_hold_over_kills() {
    hold(Survivor::Journal, &["--appendonly", "yes", "--appendfsync", "always"]);
}

#[test]
fn leases_hold_over_failovers() {
    hold(Survivor::Replica, &["--repl-sync-replicas", "1", "--repl-diskless-sync-delay", "0"]);
}
