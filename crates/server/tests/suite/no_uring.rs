//! On a system that forbids io_uring, the server uses another driver, or reports an error that says so.

use std::collections::BTreeMap;

use blackbox::{Server, StartError, Witness};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

/// `io_uring_setup`, the same on every architecture.
const IO_URING_SETUP: i64 = 425;

/// Starts a server to which the system answers `errno` when it asks for a ring.
fn start(errno: i32, io: &'static str) -> Result<Server, StartError> {
    let filter: BpfProgram = SeccompFilter::new(
        BTreeMap::from([(IO_URING_SETUP, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(errno as u32),
        std::env::consts::ARCH.try_into().expect("a known architecture"),
    )
    .and_then(TryInto::try_into)
    .expect("a filter");
    // The filter applies to this thread and to its children.
    let forbidden = std::thread::spawn(move || {
        apply_filter(&filter).expect("filters may be set");
        Server::darter(&["--proactor-threads=2", "--io", io])
    });
    forbidden.join().expect("no assertion failed")
}

#[test]
fn epoll_takes_over() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        let server = start(errno, "auto").unwrap();
        Witness::new(&server).alone();
        assert!(server.log().contains("(epoll, "), "{}", server.log());
    }
}

#[test]
fn whoever_insists_is_told() {
    for (errno, reason) in [(libc::EPERM, "not permitted"), (libc::ENOSYS, "not implemented")] {
        match start(errno, "uring") {
            Err(StartError::Failed { log, .. }) => {
                let line = log.lines().last().unwrap_or_default();
                assert!(
                    line.starts_with("darter: ") && line.contains("io_uring") && line.contains(reason),
                    "{log}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
}
