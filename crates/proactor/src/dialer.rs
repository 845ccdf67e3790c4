//! Makes connections to another machine, or to another one in a simulation.
//!
//! The call blocks until the other side answers, so it is for blocking tasks and other threads that may wait. In a
//! simulation it returns at once; bytes sent over the connection still take their time.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::{SimNet, Socket};

/// Connects to other machines; cheap to clone.
#[derive(Clone, Debug)]
pub struct Dialer(Way);

#[derive(Clone, Debug)]
enum Way {
    Tcp,
    Simulated(SimNet),
}

impl Dialer {
    /// The dialer of the machine that this process runs on.
    pub fn real() -> Dialer {
        Dialer(Way::Tcp)
    }

    /// Connects to the first address of `host` that answers within `timeout`.
    pub fn connect(&self, host: &str, port: u16, timeout: Duration) -> io::Result<Socket> {
        match &self.0 {
            Way::Tcp => {
                let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
                for address in (host, port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, timeout) {
                        Ok(stream) => return Socket::from_tcp(stream),
                        Err(error) => failure = error,
                    }
                }
                Err(failure)
            }
            Way::Simulated(net) => {
                let address = format!("{host}:{port}");
                let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
                let endpoint = net.link(&address, false).ok_or_else(refused)?;
                let local = endpoint.peer();
                Ok(Socket::simulated(endpoint, address, local))
            }
        }
    }
}

impl SimNet {
    /// Connects this machine to others.
    pub fn dialer(&self) -> Dialer {
        Dialer(Way::Simulated(self.clone()))
    }
}
