//! Workers that take jobs with leases from a server that is killed, with more threads than there are cores: what they heard is what
//! `docs/jobs.md` says. Short runs of what `make jobs-soak` does for an hour.

use blackbox::Scratch;
use blackbox::leases::{Lives, Plan};

const KILLS: u64 = 8;
const WORKERS: usize = 12;

#[test]
fn leases_hold_over_kills() {
    let scratch = Scratch::new("leases");
    let binary = std::env::var("DARTER").expect("the tests name the server");
    let threads = ["--proactor-threads=8", "--threads-elastic=no"];
    let server =
        [&[binary.as_str(), "--appendonly", "yes", "--appendfsync", "always"][..], &threads].concat();
    let server = server.into_iter().map(str::to_owned).collect();
    let plan = Plan { server, folder: scratch.path("").into(), seed: 1, workers: WORKERS };
    let mut lives = Lives::begin(plan).unwrap_or_else(|failure| panic!("{failure}"));
    for _ in 0..KILLS {
        lives.round().unwrap_or_else(|failure| panic!("{failure}"));
    }
    lives.finish().unwrap_or_else(|failure| panic!("{failure}"));
    println!("{} kills, {} calls", lives.kills, lives.history.len());
}
