//! A codec as demanding as TLS: a handshake of several round trips, frames, a goodbye, alerts, and bytes that
//! can only be decoded if all bytes before them arrived in order.
//!
//! ```text
//!   frame:      [kind][length: u16][payload, each byte XORed with a count of this direction and the key]
//!   handshake:  client Hello(0) ─▶   ◀─ Hello(1) server   Hello(2) ─▶   ◀─ Hello(3)   Hello(4) ─▶ both are ready
//! ```
//! The key is derived from the handshake's payloads, so a side that missed one decodes nonsense.

use std::io;
use std::sync::Arc;

use proactor::{Codec, Heard, InputBuffer};

const HELLO: u8 = 1;
const DATA: u8 = 2;
const BYE: u8 = 3;
const ALERT: u8 = 4;

const HEADER_BYTES: usize = 3;
const ROUNDS: u8 = 5;
/// A hello is so long that it is split on the way.
const HELLO_BYTES: usize = 700;

#[derive(Debug)]
pub(crate) struct Scramble {
    is_client: bool,
    round: u8,
    key: u8,
    sent_count: u8,
    received_count: u8,
    words: Vec<u8>,
    partial: Vec<u8>,
    has_heard_bye: bool,
    pub(crate) has_heard_alert: bool,
    /// Shared by all that exist.
    pub(crate) _life: Arc<()>,
}

impl Scramble {
    pub(crate) fn server() -> Scramble {
        Scramble {
            is_client: false,
            round: 0,
            key: 0x55,
            sent_count: 0,
            received_count: 0,
            words: Vec::new(),
            partial: Vec::new(),
            has_heard_bye: false,
            has_heard_alert: false,
            _life: Arc::default(),
        }
    }

    /// A server's codec that is counted by `life`.
    pub(crate) fn server_among(life: &Arc<()>) -> Scramble {
        Scramble { _life: life.clone(), ..Scramble::server() }
    }

    pub(crate) fn client() -> Scramble {
        let mut client = Scramble { is_client: true, ..Scramble::server() };
        client.say_hello();
        client
    }

    fn say_hello(&mut self) {
        let mut words = std::mem::take(&mut self.words);
        let payload = vec![self.round + 1; HELLO_BYTES];
        self.frame(HELLO, &payload, &mut words);
        self.words = words;
        self.turn_key(self.round + 1);
    }

    fn turn_key(&mut self, with: u8) {
        self.key = self.key.rotate_left(3) ^ with;
        self.round += 1;
    }

    fn frame(&mut self, kind: u8, payload: &[u8], wire: &mut Vec<u8>) {
        wire.push(kind);
        wire.extend_from_slice(&u16::try_from(payload.len()).expect("at most 16 KiB").to_le_bytes());
        for byte in payload {
            wire.push(byte ^ self.key ^ self.sent_count);
            self.sent_count = self.sent_count.wrapping_add(1);
        }
    }

    fn unframe(&mut self, kind: u8, payload: Vec<u8>, plain: &mut InputBuffer) -> Result<(), io::ErrorKind> {
        let payload: Vec<u8> = payload
            .into_iter()
            .map(|byte| {
                let count = self.received_count;
                self.received_count = count.wrapping_add(1);
                byte ^ self.key ^ count
            })
            .collect();
        match kind {
            HELLO if !self.is_ready() && payload == [self.round + 1; HELLO_BYTES] => {
                self.turn_key(payload[0]);
                if !self.is_ready() {
                    self.say_hello();
                }
            }
            DATA if self.is_ready() => plain.append(&payload),
            BYE if self.is_ready() => self.has_heard_bye = true,
            ALERT => self.has_heard_alert = true,
            _ => {
                let mut words = std::mem::take(&mut self.words);
                self.frame(ALERT, b"nonsense", &mut words);
                self.words = words;
                return Err(io::ErrorKind::InvalidData);
            }
        }
        Ok(())
    }
}

impl Codec for Scramble {
    fn receive(&mut self, wire: &[u8], plain: &mut InputBuffer) -> Result<Heard, io::ErrorKind> {
        self.partial.extend_from_slice(wire);
        while let [kind, low, high, rest @ ..] = &self.partial[..] {
            let length = usize::from(u16::from_le_bytes([*low, *high]));
            let Some(payload) = rest.get(..length) else { break };
            let (kind, payload) = (*kind, payload.to_vec());
            self.partial.drain(..HEADER_BYTES + length);
            self.unframe(kind, payload, plain)?;
        }
        Ok(if self.has_heard_bye { Heard::Goodbye } else { Heard::More })
    }

    fn is_ready(&self) -> bool {
        self.round >= ROUNDS
    }

    fn has_words(&self) -> bool {
        !self.words.is_empty()
    }

    fn send(&mut self, plain: &[u8], wire: &mut Vec<u8>) {
        wire.append(&mut self.words);
        assert!(plain.is_empty() || self.is_ready(), "nothing plain is sent before the handshake is done");
        if !plain.is_empty() {
            self.frame(DATA, plain, wire);
        }
    }

    fn finish(&mut self, wire: &mut Vec<u8>) {
        self.frame(BYE, b"", wire);
    }

    fn truncation(&self) -> Option<io::ErrorKind> {
        // As with TLS: before the handshake is complete, a peer has sent nothing that could be truncated.
        (self.is_ready() && !self.has_heard_bye).then_some(io::ErrorKind::UnexpectedEof)
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Scramble>() + self.words.capacity() + self.partial.capacity()
    }
}
