//! Tests a process that has no descriptors left. The test is alone in its process, because it uses them all
//! up.

use std::fs::File;
use std::net::TcpStream;
use std::time::Duration;

use proactor::{Config, Driver, Event, IoChoice, listen_tcp};

/// Beyond this limit the test would take longer than it is worth.
const DESCRIPTORS_MAX: usize = 100_000;
/// Only reached if a scenario hangs.
const PATIENCE_NS: u64 = 600_000_000_000;

#[test]
fn connections_wait_until_there_are_descriptors_again() {
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        match Driver::open(&Config { io, ..Config::default() }) {
            Ok(driver) => exhaust(driver),
            Err(error) => println!("skipped {io:?}: {error}"),
        }
    }
}

fn exhaust(mut driver: Driver) {
    let listener = listen_tcp("127.0.0.1", 0, 16).expect("some port is free");
    let address = listener.local().to_owned();
    driver.listen(listener).expect("a fresh listener can be watched");
    let clients = [(); 3].map(|()| TcpStream::connect(&address).expect("the backlog has room"));
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
        if taken.len() > DESCRIPTORS_MAX {
            println!("skipped: this process may have more than {DESCRIPTORS_MAX} descriptors");
            return;
        }
    }
    let mut events = Vec::new();
    let start_ns = driver.clock().monotonic_ns();
    let mut turns = 0;
    while driver.clock().monotonic_ns() - start_ns < 350_000_000 {
        // Without a timeout: the driver has to come back by itself.
        driver.turn(None, &mut events).expect("the driver works");
        assert!(events.is_empty(), "{events:?}");
        turns += 1;
    }
    assert!(turns <= 20, "it tries again now and then, not {turns} times");
    drop(taken);
    let mut accepted = 0;
    while accepted < clients.len() {
        driver.turn(Some(Duration::from_secs(5)), &mut events).expect("the driver works");
        assert!(
            !events.is_empty() || driver.clock().monotonic_ns() - start_ns < PATIENCE_NS,
            "it takes none"
        );
        accepted += events.iter().filter(|event| matches!(event, Event::Accepted { .. })).count();
    }
}
