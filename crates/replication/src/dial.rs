//! Making the connection to the primary, on a thread that may wait.

#![expect(clippy::disallowed_types, reason = "this is where the connection is made")]

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use proactor::Socket;

use crate::following::Address;

/// Connects to the first address of the primary that answers in time; an error is a part of a sentence.
pub fn dial(address: &Address, timeout_ms: u64) -> Result<Socket, String> {
    let Address { host, port } = address;
    let connect = || {
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
        for address in (host.as_str(), *port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, Duration::from_millis(timeout_ms)) {
                Ok(stream) => return Socket::from_tcp(stream),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    };
    connect().map_err(|error| format!("Unable to connect to MASTER {host}:{port}: {error}"))
}
