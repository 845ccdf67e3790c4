//! A small collection as bytes, which whoever keeps it may put where they like: the keyspace puts them into the record.
//!
//! To be read, a collection is lent from such bytes as they lie there; to be changed, it is made anew of a copy of them,
//! with room for more. To find anything the bytes are walked through anyway, which takes longer than copying them.

/// Room for what is added to a collection that was made of bytes.
const ROOM_BYTES: usize = 64;
/// Room for later items that a full allocation gets beside an eighth of what it holds.
const SLACK_BYTES: usize = 16;
/// What is smaller gives nothing back.
pub(crate) const KEPT_BYTES: usize = 512;

/// All that a small collection consists of, but for its type.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    /// Which of the type's small forms it has, below 4.
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

/// Makes room for `more` bytes: little more than is needed, as small collections are many.
#[inline]
pub(crate) fn reserve(bytes: &mut Vec<u8>, more: usize) {
    if bytes.capacity() - bytes.len() < more {
        bytes.reserve_exact(more + SLACK_BYTES + bytes.len() / 8);
    }
}

/// Makes a gap of `len` bytes at `at`.
pub(crate) fn make_gap(bytes: &mut Vec<u8>, at: usize, len: usize) {
    reserve(bytes, len);
    let end = bytes.len();
    bytes.resize(end + len, 0);
    bytes.copy_within(at..end, at + len);
}

/// Gives memory back if less than half of it is in use.
#[inline]
pub(crate) fn give_back(bytes: &mut Vec<u8>) {
    if bytes.capacity() > KEPT_BYTES && bytes.len() < bytes.capacity() / 2 {
        bytes.shrink_to_fit();
    }
}
