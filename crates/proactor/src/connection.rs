//! One connection: all of its state that does not depend on how bytes are moved. `connections` has the table
//! of them.
//!
//! ```text
//!   kernel ──▶ (codec) ──▶ input ──▶ server ──▶ output ──▶ (codec) ──▶ sending ──▶ kernel
//!                                               holds in it ▲ stop what may not leave yet
//! ```
//!
//! Everything unusual about a connection is one byte, [`Care`]. So an ordinary connection tests it once on
//! its way in and once on its way out, and connections without a codec do not pay for codecs.

use std::io;

use resp::Output;

use crate::codec::{Coded, Heard};
use crate::input::InputBuffer;
use crate::pool::BufferPool;
use crate::sending::Sending;

/// Memory that the output of an idle connection keeps. A connection that waits, such as a blocked client's,
/// did not need the memory that it was lent.
const IDLE_OUTPUT_BYTES_MAX: usize = 1024;

/// The part of a connection that the server takes out while it runs the connection's commands.
#[derive(Debug, Default)]
pub struct Io {
    /// Received bytes. Those that remain when it is put back are kept.
    pub input: InputBuffer,
    /// Replies to send.
    pub output: Output,
}

/// The sizes of a connection's input and output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes received and not yet consumed.
    pub input_bytes: usize,
    /// Memory for the input.
    pub input_capacity_bytes: usize,
    /// Bytes queued, held or not, or on their way into the socket.
    pub output_bytes: usize,
    /// Memory for the output, including the codec.
    pub output_capacity_bytes: usize,
}

/// How far a connection has sent its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The number of bytes that were ever appended to the output.
    pub end: u64,
    /// Bytes queued, held or not, or on their way into the socket.
    pub pending_bytes: usize,
    /// Memory for the output that is not in use.
    pub slack_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// Its name works.
    Open,
    /// Closed by the server; output is still being sent.
    Flushing,
    /// Everything is sent and the peer has been told. The driver waits for the peer's goodbye, and discards
    /// further input.
    Draining,
    /// No bytes are sent or received; the slot is freed once the kernel lets go.
    Dead,
}

bitflags::bitflags! {
    /// The unusual states of a connection.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Care: u8 {
        /// Input is not reported.
        const PAUSED = 1;
        /// The peer is gone, not just finished: nothing is sent.
        const BROKEN = 1 << 1;
        /// Bytes pass through a codec.
        const CODED = 1 << 2;
        /// The turn reports when some of its output is sent.
        const AWAITED = 1 << 3;
        /// It is being detached: input is not reported, and no more is requested.
        const DETACHING = 1 << 4;
    }
}

#[derive(Debug)]
pub(crate) struct Connection<L> {
    pub(crate) link: L,
    pub(crate) state: ConnectionState,
    pub(crate) care: Care,
    pub(crate) input: InputBuffer,
    pub(crate) output: Output,
    pub(crate) sending: Sending,
    pub(crate) coded: Option<Box<Coded>>,
    /// Whether the peer has finished or is gone, so that nothing more is received.
    pub(crate) has_ended: bool,
    /// Whether it is in the list of connections whose output waits for a slice.
    pub(crate) is_holding: bool,
    /// Whether it has held output since its deadline for closing was last checked.
    pub(crate) is_excused: bool,
    pub(crate) is_dirty: bool,
    pub(crate) has_unreported_input: bool,
    /// Whether `output` has no memory worth keeping, so it may be given some.
    pub(crate) is_output_bare: bool,
    pub(crate) reported_turn: u64,
}

impl<L> Connection<L> {
    pub(crate) fn new(link: L) -> Connection<L> {
        Connection {
            link,
            state: ConnectionState::Open,
            care: Care::empty(),
            input: InputBuffer::new(),
            output: Output::new(),
            sending: Sending::default(),
            coded: None,
            has_ended: false,
            is_holding: false,
            is_excused: false,
            is_dirty: false,
            has_unreported_input: false,
            is_output_bare: true,
            reported_turn: 0,
        }
    }

    /// Gives up the memory of an output that has nothing to send, unless it is small.
    #[inline]
    pub(crate) fn rest(&mut self) {
        if self.output.is_empty() && self.output.capacity_bytes() > IDLE_OUTPUT_BYTES_MAX {
            self.output = Output::new();
            self.is_output_bare = true;
        }
    }

    /// Replaces this driver's part of the connection by another driver's, and returns this driver's part as
    /// well.
    pub(crate) fn relink<M>(self, link: M) -> (Connection<M>, L) {
        let connection = Connection {
            link,
            state: self.state,
            care: self.care,
            input: self.input,
            output: self.output,
            sending: self.sending,
            coded: self.coded,
            has_ended: self.has_ended,
            is_holding: self.is_holding,
            is_excused: self.is_excused,
            is_dirty: self.is_dirty,
            has_unreported_input: self.has_unreported_input,
            is_output_bare: self.is_output_bare,
            reported_turn: self.reported_turn,
        };
        (connection, self.link)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.care.contains(Care::BROKEN)
    }

    /// Whether it has nothing left to send.
    pub(crate) fn is_quiet(&self) -> bool {
        let has_output = !self.output.is_empty() || !self.sending.is_empty();
        self.state == ConnectionState::Open && !self.is_dirty && !self.is_holding && !has_output
    }

    /// Whether it is closing and all its output has been sent.
    pub(crate) fn has_flushed(&self) -> bool {
        self.state == ConnectionState::Flushing
            && self.sending.is_empty()
            && self.output.is_empty()
            && self.coded.as_ref().is_none_or(|coded| coded.has_finished())
    }

    /// Whether it is closing, all its output has been sent, and its codec can send its goodbye.
    pub(crate) fn owes_goodbye(&self) -> bool {
        self.state == ConnectionState::Flushing
            && self.sending.is_empty()
            && self.output.is_empty()
            && self.coded.as_ref().is_some_and(|coded| coded.owes_goodbye())
    }

    /// Whether it is closing and nothing is left to wait for.
    pub(crate) fn is_over(&self) -> bool {
        match self.state {
            ConnectionState::Open | ConnectionState::Dead => false,
            // A peer that has gone during the handshake will not receive anything.
            ConnectionState::Flushing => {
                self.is_broken()
                    || self.has_ended && self.coded.as_ref().is_some_and(|coded| !coded.is_ready())
            }
            ConnectionState::Draining => self.has_ended,
        }
    }

    /// Gives its input memory, if it has none.
    #[inline]
    pub(crate) fn lend_input(&mut self, pool: &mut BufferPool) {
        if self.input.capacity() == 0 {
            self.input = InputBuffer::from_memory(pool.take());
        }
    }

    /// Appends to its input.
    #[inline]
    pub(crate) fn receive(&mut self, bytes: &[u8], pool: &mut BufferPool) {
        if !self.input.has_room(bytes.len()) {
            pool.enlarge(&mut self.input, bytes.len());
        }
        self.input.append(bytes);
    }

    /// Moves output into `sending`, as much as may be in progress.
    #[inline]
    pub(crate) fn fill(&mut self, pool: &mut BufferPool) {
        if self.care.intersects(Care::BROKEN.union(Care::CODED)) {
            self.fill_with_care(pool);
        } else {
            self.sending.fill(&mut self.output);
        }
    }

    #[cold]
    fn fill_with_care(&mut self, pool: &mut BufferPool) {
        if self.is_broken() {
            self.sending.clear();
            self.output.clear();
        } else {
            self.fill_to_the_last(pool);
        }
    }

    /// Moves all output into `sending`, whether or not it can be delivered.
    pub(crate) fn fill_to_the_last(&mut self, pool: &mut BufferPool) {
        let is_closing = self.state != ConnectionState::Open;
        match &mut self.coded {
            Some(coded) => coded.fill(&mut self.sending, &mut self.output, is_closing, pool),
            None => self.sending.fill(&mut self.output),
        }
    }

    // Operations of connections with a codec.

    /// Decodes received bytes.
    pub(crate) fn decode(&mut self, wire: &[u8]) -> Result<Heard, io::ErrorKind> {
        match &mut self.coded {
            Some(coded) if !self.has_ended && self.state != ConnectionState::Draining => {
                coded.receive(wire, &mut self.input)
            }
            _ => Ok(Heard::More),
        }
    }

    /// Whether something can be sent now that could not before these bytes arrived: output of the codec, or
    /// output that waited for the end of the handshake.
    pub(crate) fn has_to_answer(&self) -> bool {
        let has_output = !self.output.is_empty() || self.state == ConnectionState::Flushing;
        self.coded.as_ref().is_some_and(|coded| coded.has_to_answer(has_output))
    }

    /// The error if the bytes end here; `None` if that is no error.
    pub(crate) fn truncation(&self) -> Option<io::ErrorKind> {
        self.coded.as_ref().filter(|_| !self.has_ended).and_then(|coded| coded.truncation())
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.coded.as_ref().is_some_and(|coded| coded.has_failed())
    }
}
