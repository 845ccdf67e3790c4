//! Ports, leased in blocks.
//!
//! ```text
//!    10000      10064      10128                    32768            61000
//!      │ block 0  │ block 1  │        …               │  the kernel's  │
//! ```
//!
//! - A block belongs to the process that has bound the Unix socket with the abstract name `darter-ports-N`. Like ports,
//!   such names are unique in a network namespace; the kernel frees them when the process ends, even if it is killed.
//!   `scripts/ports.py` and `gates/sidekiq/ports.rb` lease from the same blocks.
//! - All blocks lie below the ports that the kernel gives to connections and to programs that ask for any port
//!   (`net.ipv4.ip_local_port_range`), so it takes none of them between the lease and the server's `bind`.
//! - A process gets each port once while it can lease further blocks: a server that is started again finds its port
//!   free, and a client of a server that has gone meets no other.
//! - Ports of programs that know nothing of blocks are left out.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::sync::{Mutex, PoisonError};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

use crate::random;

/// The first port of the first block.
const FIRST: u16 = 10_000;
/// The first of the kernel's own ports, with Linux' default range.
const END: u16 = 32_768;
/// Ports in a block.
const BLOCK_PORTS: u16 = 64;
/// The blocks.
const BLOCKS: u16 = (END - FIRST) / BLOCK_PORTS;

/// The blocks and ports that the process has leased.
struct Leases {
    /// Sockets with the names of its blocks.
    held: Vec<UnixDatagram>,
    /// Ports that were not handed out, and behind them those that were, the oldest first.
    ports: VecDeque<u16>,
    /// How many of them were not handed out.
    fresh: usize,
}

static LEASES: Mutex<Leases> = Mutex::new(Leases { held: Vec::new(), ports: VecDeque::new(), fresh: 0 });

/// Returns a port of this machine that is not in use. It is reserved for this process until the process ends.
pub fn free_port() -> io::Result<u16> {
    LEASES.lock().unwrap_or_else(PoisonError::into_inner).port()
}

impl Leases {
    fn port(&mut self) -> io::Result<u16> {
        if self.fresh == 0 {
            self.lease()?;
        }
        for _ in 0..self.ports.len() {
            let port = self.ports.pop_front().expect("there are as many");
            self.ports.push_back(port);
            self.fresh = self.fresh.saturating_sub(1);
            if is_free(port)? {
                return Ok(port);
            }
        }
        Err(io::Error::new(ErrorKind::AddrInUse, "all ports for tests are in use"))
    }

    /// Leases a block, if one is free.
    fn lease(&mut self) -> io::Result<()> {
        let first = (random() % u64::from(BLOCKS)) as u16;
        for block in (0..BLOCKS).map(|offset| (first + offset) % BLOCKS) {
            let name = UnixAddress::from_abstract_name(format!("darter-ports-{block}"))?;
            match UnixDatagram::bind_addr(&name) {
                Ok(socket) => {
                    self.held.push(socket);
                    for port in (0..BLOCK_PORTS).rev() {
                        self.ports.push_front(FIRST + block * BLOCK_PORTS + port);
                    }
                    self.fresh = usize::from(BLOCK_PORTS);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Whether the port is not in use. It is only bound, not listened on: a child that is just being started inherits the
/// socket for a moment, and a listening socket would keep the server from its port until then.
fn is_free(port: u16) -> io::Result<bool> {
    let families = [
        (AddressFamily::INET, Ipv4Addr::UNSPECIFIED.into()),
        (AddressFamily::INET6, Ipv6Addr::UNSPECIFIED.into()),
    ];
    for (family, address) in families {
        let socket = match socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None) {
            Ok(socket) => socket,
            Err(_) if family == AddressFamily::INET6 => continue,
            Err(error) => return Err(error.into()),
        };
        sockopt::set_socket_reuseaddr(&socket, true)?;
        match bind(&socket, &SocketAddr::new(address, port)) {
            Err(error) if error == rustix::io::Errno::ADDRINUSE => return Ok(false),
            // A machine without IPv6 has no such address.
            Err(error) if family == AddressFamily::INET => return Err(error.into()),
            _ => {}
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::TcpListener;

    use super::*;

    fn nothing() -> Leases {
        Leases { held: Vec::new(), ports: VecDeque::new(), fresh: 0 }
    }

    #[test]
    fn nobody_gets_a_port_of_another() {
        // Each is what a process has.
        let (mut one, mut other) = (nothing(), nothing());
        let mut seen = BTreeSet::new();
        for _ in 0..3 * BLOCK_PORTS {
            for leases in [&mut one, &mut other] {
                let port = leases.port().unwrap();
                assert!(seen.insert(port), "{port} was handed out twice");
                assert!((FIRST..END).contains(&port), "{port}");
            }
        }
        assert!(one.held.len() >= 3, "a block is not used again while there are others");
    }

    #[test]
    fn ports_on_which_somebody_listens_are_left_out() {
        let mut leases = nothing();
        leases.lease().unwrap();
        let [first, second, third] = [0, 1, 2].map(|index| leases.ports[index]);
        // They may belong to a server that knows nothing of blocks.
        let _v4 = TcpListener::bind(("127.0.0.1", first));
        let _all = TcpListener::bind(("0.0.0.0", second));
        assert!(![first, second].contains(&leases.port().unwrap()), "{first}, {second}, {third}");
    }

    #[test]
    fn a_port_can_be_bound_at_once_and_again() {
        let port = free_port().unwrap();
        for _ in 0..3 {
            let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
            let client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
            drop((listener.accept().unwrap(), client));
        }
    }
}
