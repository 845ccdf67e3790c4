//! The client's end of a simulated connection, driven by the test.

use super::net::Read;
use super::{Endpoint, SimNet, SimTap};

/// A simulated client. Its methods do not wait. Dropping it closes the connection.
#[derive(Debug)]
pub struct SimClient(Endpoint);

/// The next thing that a client received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimReceived {
    /// Some bytes, in order.
    Bytes(Vec<u8>),
    /// No bytes have arrived yet.
    Nothing,
    /// The server has finished.
    End,
    /// The connection was cut.
    Reset,
}

impl SimNet {
    /// Connects a client; `None` if no listener is bound to `address`.
    pub fn connect(&self, address: &str) -> Option<SimClient> {
        self.link(address, true).map(SimClient)
    }
}

impl SimClient {
    /// Sends as much as fits, and returns how much; `None` if the connection is broken.
    pub fn send(&self, bytes: &[u8]) -> Option<usize> {
        match self.0.write(bytes) {
            Ok(len) => Some(len),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Some(0),
            Err(_) => None,
        }
    }

    /// Receives at most `max` of the bytes that have arrived.
    pub fn receive(&self, max: usize) -> SimReceived {
        match self.0.read(max) {
            Read::Bytes(bytes) => SimReceived::Bytes(bytes),
            Read::Nothing => SimReceived::Nothing,
            Read::End => SimReceived::End,
            Read::Reset => SimReceived::Reset,
        }
    }

    /// Records the output that the server queues for this client; outlives the client.
    pub fn tap(&self) -> SimTap {
        self.0.tap()
    }

    /// Sends nothing more; can still receive.
    pub fn finish(&self) {
        self.0.finish();
    }

    /// Cuts the connection.
    pub fn reset(self) {
        self.0.reset();
    }

    /// How much the server may send ahead of what the client has received: small for a slow reader.
    pub fn set_window(&self, window_bytes: usize) {
        self.0.set_window(window_bytes);
    }
}
