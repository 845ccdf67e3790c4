//! Memory that does not count against the limit of memory.
//!
//! `maxmemory` is about data. If all memory counted, memory that grows because keys are evicted would cause
//! further evictions: effects that wait for the disk or for a replica, messages that say which keys are gone.
//! And on a machine with many threads an empty server could exceed a small limit. So the owner of such memory
//! has an [`Exemption`] of the same size, and [`Gauge`](crate::Gauge) subtracts them all. An exemption may
//! move to another thread, like the memory that it covers.
//!
//! Memory is allocated before it is exempt, and a thread may lose its core between the two. Where the amount
//! is large, [`at_once`](crate::at_once) makes both visible to other threads in one step.
//!
//! Not here: the limits of this memory. Each kind has one, which its owner checks.

use std::alloc::Layout;

use crate::count;
use crate::owned::has_local;
use crate::{class_of, general, large_class_of};

/// Kinds of memory that do not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exempt {
    /// Memory that the server needs with or without data.
    Fixed,
    /// The stream of effects that is kept for replicas.
    Stream,
    /// Bytes that were written to replicas and not sent.
    Replicas,
    /// Effects that wait for the journal.
    Journal,
    /// Records that wait to be written to a snapshot.
    Snapshot,
    /// Messages about changed keys, on their way to clients.
    News,
    /// Memory that scripts and functions use.
    Scripts,
}

/// The number of kinds.
pub(crate) const KINDS: usize = 7;

/// This many bytes of one kind do not count while this exists.
#[derive(PartialEq, Eq, Debug)]
pub struct Exemption {
    kind: Exempt,
    bytes: usize,
}

impl Exemption {
    /// An exemption of no bytes, to be [resized](Self::resize).
    pub const fn none(kind: Exempt) -> Exemption {
        Exemption { kind, bytes: 0 }
    }

    /// An exemption of this many bytes.
    pub fn new(kind: Exempt, bytes: usize) -> Exemption {
        let mut exemption = Exemption::none(kind);
        exemption.resize(bytes);
        exemption
    }

    /// An exemption of the size that counts for a block that this thread has allocated with this capacity,
    /// such as a vector's.
    pub fn of_block(kind: Exempt, capacity: usize) -> Exemption {
        Exemption::new(kind, block_bytes(capacity))
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes its size.
    pub fn resize(&mut self, bytes: usize) {
        if bytes != self.bytes {
            count::exempt(self.kind, bytes as i64 - self.bytes as i64);
            self.bytes = bytes;
        }
    }
}

impl Drop for Exemption {
    fn drop(&mut self) {
        self.resize(0);
    }
}

/// Runs `work`, and makes the memory that it allocates and does not free fixed, so it does not count. To free
/// fixed memory, the thread calls this again.
pub fn as_fixed<R>(work: impl FnOnce() -> R) -> R {
    count::at_once(|| {
        let before = count::own_counted();
        let result = work();
        if let (Some(before), Some(after)) = (before, count::own_counted()) {
            count::exempt(Exempt::Fixed, after.wrapping_sub(before));
        }
        result
    })
}

/// Makes all memory that is allocated now fixed. Call this before there is data.
pub fn fix() {
    count::exempt(Exempt::Fixed, count::counted());
}

/// Bytes of this kind.
pub fn exempt_bytes(kind: Exempt) -> u64 {
    count::exempt_of(kind).max(0) as u64
}

/// The bytes that count for a block with this capacity, such as a vector's, that this thread has allocated.
pub fn block_bytes(capacity: usize) -> usize {
    let Ok(layout) = Layout::array::<u8>(capacity) else { return capacity };
    match (class_of(layout), large_class_of(layout)) {
        _ if capacity == 0 => 0,
        (Some(class), _) if has_local() => class.bytes(),
        (_, Some(class)) if has_local() => class.bytes(),
        _ => general::block_bytes(capacity),
    }
}
