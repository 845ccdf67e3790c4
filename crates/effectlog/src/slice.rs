//! A slice: a piece of the stream that is written, sent and applied as a whole or not at all.

use std::borrow::Borrow;
use std::ops::Deref;
use std::sync::Arc;

use heap::{Exempt, Exemption};

use crate::dialect::{self, RedisVersion};
use crate::places::{Lsn, StreamPosition};

/// See the head of this file. Slices are numbered without gaps, and each begins at the end of the one before.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Slice {
    /// The slice's number.
    pub number: Lsn,
    /// The position of `payload` in the stream, in bytes.
    pub position: StreamPosition,
    /// The database that is selected before `payload`. `None`: `payload` selects one before it needs it.
    pub db: Option<u32>,
    /// Complete commands of the protocol, or nothing.
    pub payload: Vec<u8>,
}

impl Slice {
    /// The position of the next slice.
    pub fn end(&self) -> StreamPosition {
        self.position.plus(self.payload.len())
    }

    /// The payload, translated for this release of Redis (`None`: not translated). The result has the same length.
    pub fn into_payload(self, version: Option<RedisVersion>) -> Vec<u8> {
        match version {
            Some(version) => dialect::translated(&self.payload, version).0,
            None => self.payload,
        }
    }
}

/// A slice of a running server, which is in memory while the journal or replicas need it. Clones share it. Evictions
/// make the stream longer, so this memory does not count against `maxmemory`; its limits are `journal-pending-max`, and
/// for replicas `client-output-buffer-limit`.
#[derive(Clone, Debug)]
pub struct SharedSlice(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    slice: Slice,
    #[expect(dead_code, reason = "that it is there counts")]
    exemption: Exemption,
}

impl SharedSlice {
    /// Shares this slice, which is kept for this.
    pub fn new(slice: Slice, kept_for: Exempt) -> SharedSlice {
        let exemption = Exemption::of_block(kept_for, slice.payload.capacity());
        SharedSlice(Arc::new(Kept { slice, exemption }))
    }

    /// The memory of the payload for reuse, unless there are other clones.
    pub fn into_payload(self) -> Option<Vec<u8>> {
        Arc::into_inner(self.0).map(|kept| kept.slice.payload)
    }
}

impl Deref for SharedSlice {
    type Target = Slice;

    fn deref(&self) -> &Slice {
        &self.0.slice
    }
}

impl Borrow<Slice> for SharedSlice {
    fn borrow(&self) -> &Slice {
        self
    }
}
