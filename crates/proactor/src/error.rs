//! Errors of the operating system before a connection exists.
//!
//! Texts name the address or the path and say what to do about it: operators see them when a server does not
//! start. Errors of one connection are not here; they arrive as [`Event::Closed`](crate::Event::Closed).

use std::io;
use std::path::PathBuf;

/// The operating system refused something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process listens there.
    #[error("cannot listen on {address}: another process uses this port")]
    PortInUse {
        /// The address as requested, with the port.
        address: String,
    },
    /// A privileged port, or a directory that cannot be written to.
    #[error("cannot listen on {address}: no permission")]
    NoPermission {
        /// Address or path.
        address: String,
    },
    /// Not an address of this machine, or not a valid address.
    #[error("cannot listen on {address}: this machine has no such address")]
    NoSuchAddress {
        /// The address as requested, with the port.
        address: String,
    },
    /// The path is longer than the kernel allows for a Unix socket.
    #[error("cannot listen on {path}: the path has {len} bytes, a Unix socket allows {len_max}")]
    UnixPathTooLong {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        len: usize,
        /// The longest length.
        len_max: usize,
    },
    /// Another process answers on the path, or something there is not a socket.
    #[error("cannot listen on {path}: {why}")]
    UnixPathInUse {
        /// The path.
        path: PathBuf,
        /// The obstacle.
        why: &'static str,
    },
    /// Any other failure to listen.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Address or path.
        address: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// io_uring was requested but is not available.
    #[error("io_uring is not available: {why} (use --io=auto or --io=epoll)")]
    NoRing {
        /// The step that failed.
        why: String,
    },
    /// The kernel refused something that every driver needs.
    #[error("cannot set up I/O: {what}: {source}")]
    Setup {
        /// The step that failed.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn setup(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Setup { what, source }
    }

    pub(crate) fn listen(address: String, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::AddrInUse => Error::PortInUse { address },
            io::ErrorKind::PermissionDenied => Error::NoPermission { address },
            io::ErrorKind::AddrNotAvailable => Error::NoSuchAddress { address },
            _ => Error::Listen { address, source },
        }
    }
}
