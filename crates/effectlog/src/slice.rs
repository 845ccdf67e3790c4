//! A slice: a piece of the stream that is written, sent and applied as a whole or not at all.

use crate::dialect::{self, RedisVersion};

/// See the head of this file. Slices are numbered without a gap, and each begins where the one before ended.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Slice {
    /// Its number.
    pub number: u64,
    /// Where in the stream `payload` begins, in bytes.
    pub position: u64,
    /// The database that is selected before `payload`; `None`: `payload` selects one before it needs one.
    pub db: Option<u32>,
    /// Commands of the protocol, all of them complete; perhaps none.
    pub payload: Vec<u8>,
}

impl Slice {
    /// Where in the stream the next slice begins.
    pub fn end(&self) -> u64 {
        self.position + self.payload.len() as u64
    }

    /// Its payload as somebody reads it who knows what this release of Redis knows (`None`: everything): as many bytes.
    pub fn into_payload(self, version: Option<RedisVersion>) -> Vec<u8> {
        match version {
            Some(version) => dialect::translated(&self.payload, version).0,
            None => self.payload,
        }
    }
}
