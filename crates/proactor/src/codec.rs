//! Transforms a connection's bytes on their way in and out, for example for TLS.
//!
//! A [`Codec`] does no I/O. The connection passes it the bytes from the socket, and asks it for the bytes to
//! send:
//!
//! ```text
//!   socket ──▶ receive(wire) ──▶ plain bytes, to the input        ┐ partial frames stay
//!                   │ leaves words of its own (a handshake)       ┘ in the codec
//!                   ▼
//!   socket ◀── send(plain) ◀──── output, in pieces of 16 KiB, once the handshake is done
//!   socket ◀── finish() ◀──────── the connection closes and all output is sent
//! ```
//!
//! rustls fits as it is: `receive` is `read_tls`, `process_new_packets` and the reader; `send` is the writer
//! and `write_tls`; `finish` is `send_close_notify`.
//!
//! Bounds: plain bytes are encoded only as far as they may be on their way to the socket (`SEND_BYTES_MAX`,
//! plus one piece). So a slow reader has plain output waiting, which may be shared, and which limits count. A
//! peer gets [`HANDSHAKE_BYTES_MAX`] for its handshake. A codec keeps less than a frame of received bytes,
//! and reports how much memory it has.
//!
//! A connection without a codec has no cost from all this, see `connection`.

use std::fmt::Debug;
use std::io;

use resp::{Chunk, Output};

use crate::input::InputBuffer;
use crate::pool::BufferPool;
use crate::sending::Sending;

/// Plain bytes that a codec gets at a time: a record of TLS.
pub const PLAIN_BYTES_MAX: usize = 16 * 1024;
/// Bytes that a peer may send before its handshake is complete.
pub const HANDSHAKE_BYTES_MAX: usize = 256 * 1024;

/// Converts between a connection's plain bytes and those on the wire. See the head of this file.
pub trait Codec: Debug + Send {
    /// Decodes all bytes in `wire`, and appends the plain bytes to `plain`.
    ///
    /// # Errors
    /// If the peer violates the protocol. The caller sends the bytes that `send` then still returns, and
    /// nothing after them.
    fn receive(&mut self, wire: &[u8], plain: &mut InputBuffer) -> Result<Heard, io::ErrorKind>;

    /// Whether plain bytes can be sent, because the handshake is complete.
    fn is_ready(&self) -> bool;

    /// Whether it has bytes of its own to send: a step of the handshake, an alert.
    fn has_words(&self) -> bool;

    /// Appends to `wire` its own bytes to send, then the encoded `plain`, which has at most
    /// [`PLAIN_BYTES_MAX`] bytes, and none unless the codec is ready. Keeps nothing.
    fn send(&mut self, plain: &[u8], wire: &mut Vec<u8>);

    /// Appends a goodbye to `wire`. The caller sends nothing after it.
    fn finish(&mut self, wire: &mut Vec<u8>);

    /// The error if the peer's bytes end without its goodbye; `None` if that is no error.
    fn truncation(&self) -> Option<io::ErrorKind>;

    /// The memory that it uses, including itself.
    fn memory_bytes(&self) -> usize;
}

/// The outcome of decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// There may be more to come.
    More,
    /// The peer will send nothing more.
    Goodbye,
}

/// A connection's codec and its state.
#[derive(Debug)]
pub(crate) struct Coded {
    codec: Box<dyn Codec>,
    /// Bytes received before it was ready.
    handshake_bytes: usize,
    has_failed: bool,
    has_finished: bool,
}

impl Coded {
    pub(crate) fn new(codec: Box<dyn Codec>) -> Coded {
        Coded { codec, handshake_bytes: 0, has_failed: false, has_finished: false }
    }

    pub(crate) fn receive(&mut self, wire: &[u8], plain: &mut InputBuffer) -> Result<Heard, io::ErrorKind> {
        if self.has_failed {
            return Ok(Heard::More);
        }
        if !self.codec.is_ready() {
            self.handshake_bytes += wire.len();
        }
        let mut heard = self.codec.receive(wire, plain);
        if !self.codec.is_ready() && self.handshake_bytes > HANDSHAKE_BYTES_MAX {
            heard = Err(io::ErrorKind::InvalidData);
        }
        self.has_failed = heard.is_err();
        heard
    }

    /// Moves output through the codec into `sending`, followed by the goodbye if the connection closes.
    pub(crate) fn fill(
        &mut self,
        sending: &mut Sending,
        output: &mut Output,
        is_closing: bool,
        pool: &mut BufferPool,
    ) {
        if self.has_failed {
            output.clear();
        }
        while sending.has_room() && !self.has_finished {
            let mut wire = pool.take();
            self.fill_chunk(&mut wire, output, is_closing, pool);
            if wire.is_empty() {
                return pool.give(wire);
            }
            sending.push(Chunk::Owned(wire));
        }
    }

    /// Appends more pieces to `wire`, until it is worth sending.
    fn fill_chunk(
        &mut self,
        wire: &mut Vec<u8>,
        output: &mut Output,
        is_closing: bool,
        pool: &mut BufferPool,
    ) {
        if self.codec.has_words() {
            self.codec.send(&[], wire);
        }
        let may_speak = self.codec.is_ready() && !self.has_failed;
        while may_speak
            && wire.len() < PLAIN_BYTES_MAX
            && let Some(front) = output.front()
        {
            let length = front.len().min(PLAIN_BYTES_MAX);
            self.codec.send(&front[..length], wire);
            if let Some(memory) = output.consume_front(length) {
                pool.give(memory);
            }
        }
        if self.has_failed {
            self.has_finished = true;
        } else if is_closing && may_speak && output.is_empty() {
            self.codec.finish(wire);
            self.has_finished = true;
        }
    }

    pub(crate) fn has_to_answer(&self, has_output: bool) -> bool {
        self.codec.has_words() || self.has_failed || has_output && self.codec.is_ready()
    }

    /// Whether its handshake is done.
    pub(crate) fn is_ready(&self) -> bool {
        self.codec.is_ready()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether only the goodbye is missing.
    pub(crate) fn owes_goodbye(&self) -> bool {
        !self.has_finished && (self.has_failed || self.codec.is_ready())
    }

    /// Whether everything has been passed on for sending.
    pub(crate) fn has_finished(&self) -> bool {
        self.has_finished
    }

    pub(crate) fn truncation(&self) -> Option<io::ErrorKind> {
        self.codec.truncation()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.codec.memory_bytes() + size_of::<Coded>()
    }
}
