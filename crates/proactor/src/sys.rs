//! System calls that the standard library does not offer, each wrapped safely.
//!
//! Everything here is a thin shell: a descriptor that lives for the call, buffers whose length goes with them, the result
//! as `io::Result`. Decisions are made elsewhere. Sockets are made here rather than by the standard library because options
//! (address reuse, IPv6 only) have to be set before binding, and because a backlog can be chosen.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A counter in the kernel that makes a sleeping thread rise.
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<EventFd> {
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        Ok(EventFd(own(fd)))
    }

    /// Adds one. The counter is watched for edges and never read; were it ever full, its owner has been woken already.
    pub(crate) fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: `one` is eight readable bytes.
        let _ = unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
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

fn check_len(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Takes ownership of a descriptor that the kernel has just made for us.
pub(crate) fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: callers pass a descriptor that a system call or a completion has just returned, which nobody else owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A socket, not blocking, closed on exec.
pub(crate) fn stream_socket(domain: i32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers.
    Ok(own(check(unsafe { libc::socket(domain, kind, 0) })?))
}

/// Sets an option whose value is an `int`.
pub(crate) fn set_option(fd: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    set_option_bytes(fd, level, name, &value)
}

fn set_option_bytes<T>(fd: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is readable for `len` bytes.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), len) })?;
    Ok(())
}

/// Makes the next close throw away what is queued and send a reset.
pub(crate) fn reset_on_close(fd: BorrowedFd<'_>) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    set_option_bytes(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger)
}

pub(crate) fn bind(fd: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            bind_raw(fd, &raw)
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            bind_raw(fd, &raw)
        }
    }
}

fn bind_raw<T>(fd: BorrowedFd<'_>, address: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `address` is one of the kernel's address structures, readable for `len` bytes.
    check(unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(address).cast(), len) })?;
    Ok(())
}

/// Starts listening, or changes the backlog of a socket that listens already.
pub(crate) fn listen(fd: BorrowedFd<'_>, backlog: i32) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::listen(fd.as_raw_fd(), backlog) })?;
    Ok(())
}

/// Takes one waiting connection; closed on exec.
pub(crate) fn accept(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC;
    let none = std::ptr::null_mut();
    // SAFETY: the address is not asked for.
    Ok(own(check(unsafe { libc::accept4(fd.as_raw_fd(), none, std::ptr::null_mut(), flags) })?))
}

/// Makes operations on a socket wait; drivers on readiness say "do not wait" with each call instead.
pub(crate) fn set_blocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut off = 0;
    // SAFETY: `off` is a readable `int`.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONBIO, &raw mut off) })?;
    Ok(())
}

/// Receives what is there, or says that it would block.
pub(crate) fn receive(fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT;
    // SAFETY: `into` is writable for its length.
    check_len(unsafe { libc::recv(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), flags) })
}

/// Sends what the socket takes of the slices, in order. Never raises SIGPIPE.
pub(crate) fn send(fd: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    if let [only] = slices {
        // SAFETY: the slice is readable for its length.
        return check_len(unsafe { libc::send(fd.as_raw_fd(), only.as_ptr().cast(), only.len(), flags) });
    }
    // SAFETY: all-zero is a valid `msghdr`: null pointers with zero lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // `IoSlice` is laid out as `iovec`, as its documentation guarantees; the kernel does not write to it.
    message.msg_iov = slices.as_ptr().cast_mut().cast();
    message.msg_iovlen = slices.len() as _;
    // SAFETY: the message points at `slices`, which outlive the call.
    check_len(unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, flags) })
}

pub(crate) fn shutdown(fd: BorrowedFd<'_>, how: std::net::Shutdown) -> io::Result<()> {
    let how = match how {
        std::net::Shutdown::Read => libc::SHUT_RD,
        std::net::Shutdown::Write => libc::SHUT_WR,
        std::net::Shutdown::Both => libc::SHUT_RDWR,
    };
    // SAFETY: no pointers.
    check(unsafe { libc::shutdown(fd.as_raw_fd(), how) })?;
    Ok(())
}

/// Fills `into` with random bytes from the kernel.
pub(crate) fn random_bytes(mut into: &mut [u8]) -> io::Result<()> {
    while !into.is_empty() {
        // SAFETY: `into` is writable for its length.
        match check_len(unsafe { libc::getrandom(into.as_mut_ptr().cast(), into.len(), 0) }) {
            Ok(len) => into = &mut into[len..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Has the kernel begin to write this part of a file to the disk.
pub(crate) fn begin_write_out(file: impl AsFd, from: u64, to: u64) -> io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE;
    let (offset, len) = (from as i64, (to - from) as i64);
    // SAFETY: no pointers.
    check(unsafe { libc::sync_file_range(file.as_fd().as_raw_fd(), offset, len, flags) })?;
    Ok(())
}
