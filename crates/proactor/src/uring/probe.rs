//! Tests whether io_uring works here, by using it.
//!
//! Kernels differ (multishot receive needs 6.0), and container profiles refuse it in several ways. So before
//! a driver is opened, one byte is received through a ring like the driver's. If a step fails, the log names
//! it, and the driver uses epoll.

use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::buffers::BufferRing;
use super::ring::{OpKind, Ring, SMALL, Tag};

/// Tests receiving. The error has the step that failed, and why.
pub(super) fn multishot_receive() -> Result<(), (&'static str, io::Error)> {
    let at = |step| move |error| (step, error);
    let lacking = |kind| at("multishot receive")(io::Error::from(kind));
    let mut ring = Ring::open(SMALL).map_err(at("io_uring_setup"))?;
    let mut buffers = BufferRing::register(&ring.submitter(), 2).map_err(at("provided buffer ring"))?;
    buffers.begin();
    let (ours, mut theirs) = UnixStream::pair().map_err(at("socket pair"))?;
    ring.receive(ours.as_raw_fd(), Tag::numbered(OpKind::Receive, 0));
    theirs.write_all(b"!").map_err(at("socket pair"))?;
    ring.enter(Some(Duration::from_secs(1))).map_err(at("io_uring_enter"))?;
    let mut completions = Vec::new();
    ring.take_completions(&mut completions);
    let completion = completions.first().ok_or_else(|| lacking(io::ErrorKind::TimedOut))?;
    let len = completion.length().map_err(at("multishot receive"))?;
    let bytes = completion.buffer.map(|buffer| buffers.bytes(buffer, len));
    let works = bytes == Some(b"!") && completion.has_more;
    // The ring must release the buffers before they are freed.
    drop(ring);
    if works { Ok(()) } else { Err(lacking(io::ErrorKind::Unsupported)) }
}
