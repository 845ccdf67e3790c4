//! A small collection as bytes, which its owner may store anywhere: the keyspace stores them in the record.
//!
//! A collection is read from such bytes in place. To change it, it is recreated from a copy of them with room for more.
//! Searching has to walk through the bytes anyway, which takes longer than copying them.

/// Room for additions in a collection that was recreated from bytes.
const ROOM_BYTES: usize = 64;
/// Extra room when an allocation grows, beside an eighth of its contents.
const SLACK_BYTES: usize = 16;
/// Allocations up to this size are not shrunk.
pub(crate) const KEPT_BYTES: usize = 512;

/// A small collection without its type.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    /// Which of the type's small forms it has; below 4.
    pub form: u8,
    /// Number of items, as the form counts them.
    pub count: usize,
    /// The items.
    pub bytes: &'a [u8],
}

impl Packed<'_> {
    /// A copy of the bytes, with room for more.
    pub(crate) fn to_vec(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes.len() + ROOM_BYTES);
        bytes.extend_from_slice(self.bytes);
        bytes
    }
}

/// Makes room for `more` bytes, and little beyond, because there are many small collections.
#[inline]
pub(crate) fn reserve(bytes: &mut Vec<u8>, more: usize) {
    if bytes.capacity() - bytes.len() < more {
        bytes.reserve_exact(more + SLACK_BYTES + bytes.len() / 8);
    }
}

/// Inserts a gap of `len` bytes at `at`.
pub(crate) fn make_gap(bytes: &mut Vec<u8>, at: usize, len: usize) {
    reserve(bytes, len);
    let end = bytes.len();
    bytes.resize(end + len, 0);
    bytes.copy_within(at..end, at + len);
}

/// Shrinks the allocation if less than half of it is used.
#[inline]
pub(crate) fn give_back(bytes: &mut Vec<u8>) {
    if bytes.capacity() > KEPT_BYTES && bytes.len() < bytes.capacity() / 2 {
        bytes.shrink_to_fit();
    }
}
