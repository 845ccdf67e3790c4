//! Twenty power failures in one run: a short `make power-failure`.

use std::time::Duration;

use blackbox::crash::{Failure, Fault, Promise, Recorded, Trial};
use blackbox::{Scratch, StartError};
use powerlog::Recording;

const POINTS: u64 = 20;

/// The faults at this many points; `None` if the server is not installed, which fails in CI.
fn faults(test: &str, server: &[&str], promise: Promise) -> Option<Vec<Fault>> {
    if !Recording::is_possible() {
        return None;
    }
    let scratch = Scratch::new(test);
    let server = server.iter().map(|word| (*word).to_owned()).collect();
    let trial = Trial { server, folder: scratch.path("").into(), seed: 1, tolerance: Duration::ZERO };
    match Recorded::record(trial, Duration::from_millis(500)) {
        Err(Failure::Start(StartError::Missing(name))) if std::env::var("CI").as_deref() != Ok("true") => {
            println!("SKIPPED: {name} is not installed");
            None
        }
        Err(failure) => panic!("{failure}"),
        Ok(recorded) => Some(recorded.fail(POINTS, promise, |_| ()).expect("images can be made")),
    }
}

#[track_caller]
fn expect_none(faults: &[Fault]) {
    if let Some(fault) = faults.first() {
        panic!("{} faults, the first at point {}: {}", faults.len(), fault.point, fault.failure);
    }
}

/// Redis relies on more than POSIX guarantees: it never syncs the directory that contains the directory of its
/// log. ext4 orders that.
#[test]
fn redis_loses_nothing_on_an_ordered_disk() {
    let server = ["redis-server", "--appendonly", "yes", "--appendfsync", "always"];
    if let Some(faults) = faults("power-always", &server, Promise::Ordered) {
        expect_none(&faults);
    }
}

#[test]
fn a_server_that_does_not_sync_is_found_out() {
    let server = ["redis-server", "--appendonly", "yes", "--appendfsync", "no"];
    let Some(faults) = faults("power-no", &server, Promise::Ordered) else { return };
    let first = faults.first().expect("it loses what it has not synced");
    assert!(first.failure.to_string().contains("lost"), "{}", first.failure);
}

#[test]
fn darter_loses_nothing_on_any_disk() {
    let options = ["--appendonly", "yes", "--appendfsync", "always"];
    let binary = std::env::var("DARTER").expect("the tests name the server");
    let server = [&[binary.as_str()][..], &options].concat();
    if let Some(faults) = faults("power-darter", &server, Promise::Any) {
        expect_none(&faults);
    }
}
