//! The events that a turn reports, and the names that identify connections.

use std::io;

use crate::Socket;

/// One connection of one driver. A name is never reused: the slot is, but with another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl ConnId {
    /// The slot in the driver's table: dense from 0, reused by later connections. Usable as an index of
    /// tables beside the driver.
    pub fn slot(self) -> usize {
        self.slot as usize
    }

    /// The generation of the connection among those that have had this slot.
    pub fn generation(self) -> u32 {
        self.generation
    }

    /// The name as a number, for code that knows nothing about connections.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    /// The name that [`ConnId::to_bits`] was called on.
    pub fn from_bits(bits: u64) -> ConnId {
        ConnId { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// An event that a turn reports.
#[derive(Debug)]
pub enum Event {
    /// A client connected. The socket belongs to no driver until one, on this or another thread, adopts it.
    /// Dropping it closes it.
    Accepted {
        /// The new socket.
        socket: Socket,
        /// The number that [`Driver::listen`](crate::Driver::listen) returned.
        listener: usize,
    },
    /// Bytes were appended to the connection's input: at most once per connection and turn.
    Data {
        /// Which connection.
        conn: ConnId,
    },
    /// The peer will send nothing more: it has finished (no error), or the connection broke. Reported once,
    /// after all its data. The connection stays until the server closes it, and can still be written to if
    /// there was no error.
    Closed {
        /// Which connection.
        conn: ConnId,
        /// How it broke.
        error: Option<io::ErrorKind>,
    },
    /// A connection that is being [detached](crate::Driver::detach) has nothing left to send, and can be
    /// [taken](crate::Driver::take).
    Detached {
        /// Which connection.
        conn: ConnId,
    },
    /// Another thread left a notice: check the inboxes. Or output was sent on a connection for which [a
    /// report was requested](crate::Driver::await_sending).
    Wake,
}

/// How to end a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseMode {
    /// Send queued output, say goodbye, and wait for the peer's goodbye. All this takes at most
    /// [`Config::close_timeout`](crate::Config::close_timeout).
    AfterFlush,
    /// Drop queued output and close.
    Now,
    /// Drop queued output and make the peer see a reset.
    Reset,
}
