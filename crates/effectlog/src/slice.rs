//! A slice: a piece of the stream that is written, sent and applied as a whole or not at all.

use crate::dialect::{self, RedisVersion};

/// See the head of this file. Slices are numbered without gaps, and each begins at the end of the one before.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Slice {
    /// The slice's number.
    pub number: u64,
    /// The position of `payload` in the stream, in bytes.
    pub position: u64,
    /// The database that is selected before `payload`. `None`: `payload` selects one before it needs it.
    pub db: Option<u32>,
    /// Complete commands of the protocol, or nothing.
    pub payload: Vec<u8>,
}

impl Slice {
    /// The position of the next slice.
    pub fn end(&self) -> u64 {
        self.position + self.payload.len() as u64
    }

    /// The payload, translated for this release of Redis (`None`: not translated). The result has the same length.
    pub fn into_payload(self, version: Option<RedisVersion>) -> Vec<u8> {
        match version {
            Some(version) => dialect::translated(&self.payload, version).0,
            None => self.payload,
        }
    }
}
