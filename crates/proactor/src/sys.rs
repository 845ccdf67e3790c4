//! System calls for sockets and for waking threads.
//!
//! Everything here is a thin wrapper, most of it around rustix: a descriptor that lives for the call, buffers
//! with their lengths, the result as `io::Result`. Decisions are made elsewhere. Sockets are created here
//! rather than by the standard library, because options (address reuse, IPv6 only) have to be set before
//! binding, and so that the backlog can be chosen.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, sockopt};
use rustix::rand::{GetRandomFlags, getrandom};

/// A counter in the kernel that wakes a sleeping thread.
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<EventFd> {
        Ok(EventFd(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Adds one. The counter is watched for edges and never read; if it were ever full, its owner would have
    /// been woken already.
    pub(crate) fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Turns the kernel's -1 into the error it stands for.
pub(crate) fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Takes ownership of a descriptor that the kernel has just made for us.
pub(crate) fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: callers pass a descriptor that a system call or a completion has just returned, which has no
    // other owner.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A TCP socket for this kind of address: non-blocking, close-on-exec.
pub(crate) fn stream_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { net::AddressFamily::INET } else { net::AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = net::socket_with(family, net::SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, true)?;
    }
    Ok(fd)
}

/// Binds a socket to the new file `path`. The file gets these permissions, as far as the umask allows,
/// because the kernel copies the socket's.
pub(crate) fn bind_unix(path: &Path, permissions: Option<u32>) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = net::socket_with(net::AddressFamily::UNIX, net::SocketType::STREAM, flags, None)?;
    if let Some(mode) = permissions {
        rustix::fs::fchmod(&fd, rustix::fs::Mode::from_raw_mode(mode))?;
    }
    net::bind(&fd, &net::SocketAddrUnix::new(path)?)?;
    Ok(fd)
}

/// Whether a process listens on the Unix socket `path`, with or without room for another connection.
pub(crate) fn answers(path: &Path) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = net::socket_with(net::AddressFamily::UNIX, net::SocketType::STREAM, flags, None)?;
    match net::connect(&fd, &net::SocketAddrUnix::new(path)?) {
        Ok(()) | Err(Errno::AGAIN) => Ok(true),
        Err(Errno::CONNREFUSED) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Makes the next close discard queued output and send a reset.
pub(crate) fn reset_on_close(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(fd, Some(Duration::ZERO))?)
}

/// Makes the kernel probe a silent peer after `idle`, then `count` times at `interval`.
pub(crate) fn keep_alive(
    fd: BorrowedFd<'_>,
    idle: Duration,
    interval: Duration,
    count: u32,
) -> io::Result<()> {
    sockopt::set_socket_keepalive(fd, true)?;
    sockopt::set_tcp_keepidle(fd, idle)?;
    sockopt::set_tcp_keepintvl(fd, interval)?;
    Ok(sockopt::set_tcp_keepcnt(fd, count)?)
}

pub(crate) fn bind(fd: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    Ok(net::bind(fd, &address)?)
}

/// Starts listening, or changes the backlog of a socket that listens already.
pub(crate) fn listen(fd: BorrowedFd<'_>, backlog: i32) -> io::Result<()> {
    Ok(net::listen(fd, backlog)?)
}

/// Accepts one waiting connection, close-on-exec.
pub(crate) fn accept(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(net::accept_with(fd, SocketFlags::CLOEXEC)?)
}

/// Makes operations on a socket block; readiness-based drivers pass "do not wait" to each call instead.
pub(crate) fn set_blocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(fd, false)?)
}

/// Receives bytes that have arrived. `WouldBlock` if there are none.
pub(crate) fn receive(fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    let (len, _) = net::recv(fd, into, RecvFlags::DONTWAIT)?;
    Ok(len)
}

/// Sends as much of the slices, in order, as the socket takes. Never raises SIGPIPE.
pub(crate) fn send(fd: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    if let [only] = slices {
        return Ok(net::send(fd, only, flags)?);
    }
    Ok(net::sendmsg(fd, slices, &mut SendAncillaryBuffer::default(), flags)?)
}

pub(crate) fn shutdown(fd: BorrowedFd<'_>, how: std::net::Shutdown) -> io::Result<()> {
    let how = match how {
        std::net::Shutdown::Read => net::Shutdown::Read,
        std::net::Shutdown::Write => net::Shutdown::Write,
        std::net::Shutdown::Both => net::Shutdown::Both,
    };
    Ok(net::shutdown(fd, how)?)
}

/// Fills `into` with random bytes from the kernel.
pub(crate) fn random_bytes(mut into: &mut [u8]) -> io::Result<()> {
    while !into.is_empty() {
        let len = rustix::io::retry_on_intr(|| getrandom(&mut *into, GetRandomFlags::empty()))?;
        into = &mut into[len..];
    }
    Ok(())
}

/// Makes the kernel begin to write this part of a file to the disk.
pub(crate) fn begin_write_out(file: impl AsFd, from: u64, to: u64) -> io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE;
    let (offset, len) = (from as i64, (to - from) as i64);
    // SAFETY: no pointers.
    check(unsafe { libc::sync_file_range(file.as_fd().as_raw_fd(), offset, len, flags) })?;
    Ok(())
}

/// Processor time that the calling thread has used, in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds since the machine was started, suspensions included.
pub(crate) fn boot_ns() -> u64 {
    clock_ns(libc::CLOCK_BOOTTIME)
}

/// Nanoseconds by a clock that is always there.
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call. It cannot fail, because the clock exists.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
