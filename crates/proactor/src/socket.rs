//! A connected socket that no driver has adopted yet.
//!
//! It can be sent to the thread that will serve it. Dropping it closes it. It has the addresses as text,
//! because the system calls for them are made only once, here, and everything that shows a client needs them.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::sim::Endpoint;
use crate::sys;

/// A connected socket.
#[derive(Debug)]
pub struct Socket {
    pub(crate) link: Link,
    peer: String,
    local: String,
}

#[derive(Debug)]
pub(crate) enum Link {
    Kernel(KernelSocket),
    Simulated(Endpoint),
}

/// A socket of the kernel. Its kind moves with it through all drivers, because asking the kernel would take a
/// system call.
#[derive(Debug)]
pub(crate) struct KernelSocket {
    pub(crate) fd: OwnedFd,
    pub(crate) is_unix: bool,
}

impl Socket {
    /// A TCP connection made elsewhere, for instance to a primary.
    pub fn from_tcp(stream: TcpStream) -> io::Result<Socket> {
        stream.set_nonblocking(false)?;
        Ok(Socket::tcp(stream))
    }

    /// A Unix socket's connection made elsewhere, to `path`.
    pub fn from_unix(stream: UnixStream, path: &str) -> io::Result<Socket> {
        stream.set_nonblocking(false)?;
        Ok(Socket::unix(stream.into(), path))
    }

    /// A TCP socket that blocks: see `sys::set_blocking`.
    pub(crate) fn tcp(stream: TcpStream) -> Socket {
        // A peer that is already gone has no address. The first read notices that.
        let text = |address: io::Result<std::net::SocketAddr>| match address {
            Ok(address) => address.to_string(),
            Err(_) => "?:0".to_owned(),
        };
        let (peer, local) = (text(stream.peer_addr()), text(stream.local_addr()));
        // Replies leave once per turn, so there is nothing for Nagle's algorithm to collect.
        let _ = stream.set_nodelay(true);
        Socket { link: Link::Kernel(KernelSocket { fd: stream.into(), is_unix: false }), peer, local }
    }

    /// A Unix socket at `path`. Both ends get the path as address, because clients have none.
    pub(crate) fn unix(fd: OwnedFd, path: &str) -> Socket {
        let link = Link::Kernel(KernelSocket { fd, is_unix: true });
        Socket { link, peer: path.to_owned(), local: path.to_owned() }
    }

    pub(crate) fn simulated(endpoint: Endpoint, peer: String, local: String) -> Socket {
        Socket { link: Link::Simulated(endpoint), peer, local }
    }

    /// The other side: `ip:port`, `[ip]:port` or the path of the Unix socket.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Our side, in the same form.
    pub fn local(&self) -> &str {
        &self.local
    }

    /// The descriptor, for display; -1 for a simulated socket.
    pub fn descriptor(&self) -> i32 {
        match &self.link {
            Link::Kernel(socket) => socket.fd.as_raw_fd(),
            // There is no kernel.
            Link::Simulated(_) => -1,
        }
    }

    /// Whether it is a Unix socket.
    pub fn is_unix(&self) -> bool {
        matches!(&self.link, Link::Kernel(socket) if socket.is_unix)
    }

    /// Makes the kernel probe a silent peer after `idle`, then three times at a third of it. Without effect
    /// on Unix sockets.
    pub fn set_keepalive(&self, idle: Duration) -> io::Result<()> {
        let Some(fd) = self.tcp_fd() else { return Ok(()) };
        let idle_s = idle.as_secs().clamp(1, i32::MAX as u64);
        sys::keep_alive(fd, Duration::from_secs(idle_s), Duration::from_secs((idle_s / 3).max(1)), 3)
    }

    fn tcp_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.link {
            Link::Kernel(socket) if !socket.is_unix => Some(socket.fd.as_fd()),
            Link::Kernel(_) | Link::Simulated(_) => None,
        }
    }
}
