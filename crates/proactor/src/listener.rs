//! Sockets that wait for connections.
//!
//! A listener is bound before it is given to a driver, so that everything that can fail does so while the
//! server starts, with an [`Error`] that names the address. TCP listeners reuse addresses that linger from an
//! earlier run, and an IPv6 listener accepts IPv6 only, so that `0.0.0.0` and `::` can share a port. The file
//! of a Unix socket is replaced if no process answers on it, and removed with the listener.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sim::{SimListener, SimNet};
use crate::{Error, Socket, sys};

/// The size of the kernel's `sun_path`, without the zero at its end.
const UNIX_PATH_BYTES_MAX: usize = 107;

/// How often binding to an address in use is retried, after pauses of 1, 2, 4 … ms: for a second in total.
const BIND_TRIES_MAX: u32 = 10;

/// A socket that waits for connections.
#[derive(Debug)]
pub struct Listener {
    pub(crate) link: ListenerLink,
    local: String,
}

#[derive(Debug)]
pub(crate) enum ListenerLink {
    Tcp(OwnedFd),
    Simulated(SimListener),
    /// The file is kept so that it is removed on drop.
    Unix(OwnedFd, #[expect(dead_code, reason = "held for its drop")] SocketFile),
}

/// The file of a Unix socket; removed with its listener.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The file may be gone already, and there is no caller to report an error to.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Stops a listener that belongs to a driver, from any thread.
#[derive(Debug)]
pub struct Stop(OwnedFd);

impl Stop {
    /// From now on no client is accepted, waiting clients are refused, and the address is free at once. The
    /// driver notices that and drops the listener.
    pub fn stop(&self) {
        // One that was stopped before stays stopped.
        let _ = sys::shutdown(self.0.as_fd(), Shutdown::Both);
    }
}

/// Listens on `address` (an address, a host name, `*` for all of IPv4, `::*` for all of IPv6) and `port` (0:
/// any free one).
pub fn listen_tcp(address: &str, port: u16, backlog: i32) -> Result<Listener, Error> {
    let is_in_use =
        |bound: &io::Result<_>| matches!(bound, Err(error) if error.kind() == io::ErrorKind::AddrInUse);
    listen_with(address, port, |address| patiently(is_in_use, || bind_tcp(address, backlog)))
}

/// Listens like [`listen_tcp`], but does not wait for an address in use.
pub fn listen_tcp_at_once(address: &str, port: u16, backlog: i32) -> Result<Listener, Error> {
    listen_with(address, port, |address| bind_tcp(address, backlog))
}

fn listen_with(
    address: &str,
    port: u16,
    bind: impl FnOnce(SocketAddr) -> io::Result<TcpListener>,
) -> Result<Listener, Error> {
    let name =
        if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") };
    let to_bind = match address {
        "*" => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port),
        "::*" => SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port),
        _ => (address, port)
            .to_socket_addrs()
            .ok()
            .and_then(|mut found| found.next())
            .ok_or_else(|| Error::NoSuchAddress { address: name.clone() })?,
    };
    let bound = bind(to_bind).map_err(|source| Error::listen(name, source))?;
    let local = bound.local_addr().map_err(Error::setup("the address of a listening socket"))?.to_string();
    Ok(Listener { link: ListenerLink::Tcp(bound.into()), local })
}

/// Retries for a moment while an address is in use: the kernel releases the ring of a process, and with it
/// the listening sockets, a little after the process has ended. So a server can be started as soon as the
/// previous one is gone.
fn patiently<T>(is_in_use: impl Fn(&T) -> bool, attempt: impl Fn() -> T) -> T {
    let mut outcome = attempt();
    for number in 0..BIND_TRIES_MAX {
        if !is_in_use(&outcome) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1 << number));
        outcome = attempt();
    }
    outcome
}

fn bind_tcp(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let fd = sys::stream_socket(address)?;
    sys::bind(fd.as_fd(), address)?;
    sys::listen(fd.as_fd(), backlog)?;
    Ok(fd.into())
}

/// Listens on the file `path`, created with `permissions` (such as `0o700`) if given.
pub fn listen_unix(path: &Path, permissions: Option<u32>, backlog: i32) -> Result<Listener, Error> {
    let len = path.as_os_str().as_bytes().len();
    if len > UNIX_PATH_BYTES_MAX {
        return Err(Error::UnixPathTooLong { path: path.to_owned(), len, len_max: UNIX_PATH_BYTES_MAX });
    }
    let local = path.display().to_string();
    let failed = |source| Error::listen(local.clone(), source);
    remove_stale(path)?;
    // The file never has more permissions than requested.
    let listener = sys::bind_unix(path, permissions).map_err(failed)?;
    let file = SocketFile(path.to_owned());
    if let Some(mode) = permissions {
        // Adds the permissions that the umask removed.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
    }
    sys::listen(listener.as_fd(), backlog).map_err(failed)?;
    Ok(Listener { link: ListenerLink::Unix(listener, file), local })
}

/// Removes a socket file that a dead process left behind, and nothing else.
fn remove_stale(path: &Path) -> Result<(), Error> {
    let in_use = |why| Error::UnixPathInUse { path: path.to_owned(), why };
    match std::fs::symlink_metadata(path) {
        Err(_) => return Ok(()),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(in_use("a file that is not a socket is in the way"));
        }
        Ok(_) => {}
    }
    match patiently(|answers| matches!(answers, Ok(true)), || sys::answers(path)) {
        Ok(false) => {
            std::fs::remove_file(path).map_err(|source| Error::listen(path.display().to_string(), source))
        }
        Ok(true) | Err(_) => Err(in_use("another process uses this socket")),
    }
}

impl SimNet {
    /// A listener at `address`, such as `10.0.0.1:6379`, for a simulated driver.
    pub fn listener(&self, address: &str) -> Listener {
        Listener { link: ListenerLink::Simulated(self.open(address)), local: address.to_owned() }
    }
}

impl Listener {
    /// Where it listens: `ip:port`, `[ip]:port` or a path.
    pub fn local(&self) -> &str {
        &self.local
    }

    /// The port; `None` for a Unix socket.
    pub fn port(&self) -> Option<u16> {
        match &self.link {
            ListenerLink::Unix(..) => None,
            ListenerLink::Tcp(_) | ListenerLink::Simulated(_) => self.local.rsplit_once(':')?.1.parse().ok(),
        }
    }

    /// A handle that ends it from outside the driver; `None` for listeners other than TCP.
    pub fn stopper(&self) -> Option<io::Result<Stop>> {
        match &self.link {
            ListenerLink::Tcp(fd) => Some(fd.try_clone().map(Stop)),
            ListenerLink::Unix(..) | ListenerLink::Simulated(_) => None,
        }
    }

    /// The descriptor; simulated listeners have none.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.link {
            ListenerLink::Tcp(fd) | ListenerLink::Unix(fd, _) => Some(fd.as_fd()),
            ListenerLink::Simulated(_) => None,
        }
    }

    /// Turns an accepted descriptor into a socket.
    pub(crate) fn accepted(&self, fd: OwnedFd) -> Socket {
        match &self.link {
            ListenerLink::Unix(..) => Socket::unix(fd, &self.local),
            ListenerLink::Tcp(_) | ListenerLink::Simulated(_) => Socket::tcp(fd.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use scratch::Scratch;

    use super::*;

    #[test]
    fn a_port_in_use_is_named() {
        let first = listen_tcp("127.0.0.1", 0, 16).expect("some port is free");
        let port = first.port().expect("TCP has a port");
        let error = listen_tcp("127.0.0.1", port, 16).expect_err("the port is taken");
        assert_eq!(
            error.to_string(),
            format!("cannot listen on 127.0.0.1:{port}: another process uses this port")
        );
    }

    #[test]
    fn both_families_share_a_port() {
        let v4 = listen_tcp("*", 0, 16).expect("some port is free");
        let port = v4.port().expect("TCP has a port");
        match listen_tcp("::*", port, 16) {
            Ok(v6) => assert_eq!(v6.local(), format!("[::]:{port}")),
            Err(error) => assert!(!matches!(error, Error::PortInUse { .. }), "{error}"),
        }
    }

    #[test]
    fn an_address_that_is_not_ours_is_named() {
        let error = listen_tcp("192.0.2.1", 7, 16).expect_err("a documentation address");
        assert!(matches!(error, Error::NoSuchAddress { .. } | Error::NoPermission { .. }), "{error}");
    }

    #[test]
    fn a_long_path_is_refused_before_the_kernel_sees_it() {
        let path = PathBuf::from(format!("/tmp/{}", "x".repeat(110)));
        let error = listen_unix(&path, None, 16).expect_err("too long");
        assert!(matches!(error, Error::UnixPathTooLong { len: 115, .. }), "{error}");
    }

    #[test]
    fn a_socket_never_has_more_permissions_than_asked_for() {
        let scratch = Scratch::new("private");
        let path = scratch.folder().join("socket");
        let _socket = sys::bind_unix(&path, Some(0o600)).expect("the path is free");
        let mode = std::fs::metadata(&path).expect("it exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "nobody had to change it");
    }

    #[test]
    fn a_stale_socket_is_replaced_a_live_one_and_a_file_are_not() {
        let scratch = Scratch::new("stale");
        let path = scratch.folder().join("socket");
        let dying = UnixListener::bind(&path).expect("the path is free");
        let dies = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            drop(dying);
        });
        let live = listen_unix(&path, Some(0o600), 16).expect("nobody answers on it for long");
        dies.join().expect("it only sleeps");
        let mode = std::fs::metadata(&path).expect("it exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(listen_unix(&path, None, 16), Err(Error::UnixPathInUse { .. })));
        drop(live);
        assert!(!path.exists());
        std::fs::write(&path, "precious").expect("the path is free again");
        assert!(matches!(listen_unix(&path, None, 16), Err(Error::UnixPathInUse { .. })));
    }
}
