//! A run of byte strings in one allocation: the form of small hashes and sets.
//!
//! ```text
//! | length | bytes | length | bytes | ...     length: one byte, or 255 and eight bytes, little-endian
//! ```
//!
//! Items keep the order in which they were added and are found by walking. OBJECT ENCODING reports this name, but the
//! bytes are not those of Redis' listpack.
//!
//! Invariant: `bytes` is exactly `len` items. Not here: limits and when to leave this form, see
//! [`CollectionLimits`](crate::hash::CollectionLimits) and [`SetLimits`](crate::set::SetLimits).

use std::ops::Range;

use crate::mover::{Mover, move_vec};
use crate::packed::{self, Packed};

/// Maximum size of a listpack, under any configured limits.
pub(crate) const LISTPACK_BYTES_MAX: usize = 1 << 30;
/// Length of the longest prefix.
pub(crate) const PREFIX_BYTES_MAX: usize = 9;
/// First byte of a long prefix; eight bytes with the length follow.
pub(crate) const LONG: u8 = u8::MAX;

/// Appends the prefix for an item of `len` bytes.
pub(crate) fn push_prefix(bytes: &mut Vec<u8>, len: usize) {
    let (prefix, prefix_len) = prefix(len);
    bytes.extend_from_slice(&prefix[..prefix_len]);
}

/// The prefix for an item of `len` bytes, and the prefix's length.
#[inline]
pub(crate) fn prefix(len: usize) -> ([u8; PREFIX_BYTES_MAX], usize) {
    let mut prefix = [LONG; PREFIX_BYTES_MAX];
    let prefix_len = prefix_bytes(len);
    if prefix_len == 1 {
        prefix[0] = len as u8;
    } else {
        prefix[1..].copy_from_slice(&(len as u64).to_le_bytes());
    }
    (prefix, prefix_len)
}

/// Length of the prefix for an item of `len` bytes.
#[inline]
pub(crate) fn prefix_bytes(len: usize) -> usize {
    if len < usize::from(LONG) { 1 } else { PREFIX_BYTES_MAX }
}

/// The range of the item whose prefix begins at `at`.
#[inline]
pub(crate) fn item_range(bytes: &[u8], at: usize) -> Range<usize> {
    let short = bytes[at];
    if short != LONG {
        return at + 1..at + 1 + usize::from(short);
    }
    let start = at + PREFIX_BYTES_MAX;
    let len = bytes[at + 1..start].iter().rev().fold(0, |len: usize, &byte| (len << 8) | usize::from(byte));
    start..start + len
}

/// A run of byte strings, owned.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listpack {
    bytes: Vec<u8>,
    len: usize,
}

/// A borrowed [`Listpack`], wherever its bytes are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListpackRef<'a> {
    bytes: &'a [u8],
    len: usize,
}

impl<'a> ListpackRef<'a> {
    /// The listpack that [`packed`](Self::packed) returned.
    #[inline]
    pub(crate) fn of(packed: Packed<'a>) -> Self {
        Self { bytes: packed.bytes, len: packed.count }
    }

    /// Number of items.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// True if there is no item.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The items in order.
    pub(crate) fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        self.ranges().map(move |range| self.item(range))
    }

    /// Calls `visit` for the items in order, with the bytes from the item's start to the end of the listpack, and the
    /// item's length.
    #[inline]
    pub(crate) fn visit_ahead(self, visit: &mut impl FnMut(&'a [u8], usize)) {
        let mut at = 0;
        while at < self.bytes.len() {
            let range = item_range(self.bytes, at);
            at = range.end;
            visit(&self.bytes[range.start..], range.len());
        }
    }

    /// The item at a range from [`ranges`](Self::ranges).
    #[inline]
    pub(crate) fn item(self, range: Range<usize>) -> &'a [u8] {
        &self.bytes[range]
    }

    /// The ranges of the items, in order.
    #[inline]
    pub(crate) fn ranges(self) -> impl Iterator<Item = Range<usize>> + use<'a> {
        let mut at = 0;
        std::iter::from_fn(move || {
            (at < self.bytes.len()).then(|| {
                let range = item_range(self.bytes, at);
                at = range.end;
                range
            })
        })
    }

    /// The items as bytes.
    #[inline]
    pub(crate) fn packed(self) -> Packed<'a> {
        Packed { form: 0, count: self.len, bytes: self.bytes }
    }
}

impl Listpack {
    /// An empty listpack; allocates nothing.
    pub(crate) const fn new() -> Self {
        Self { bytes: Vec::new(), len: 0 }
    }

    /// Moves its memory if the mover asks for it.
    pub(crate) fn relocate(&mut self, mover: &mut dyn Mover) {
        move_vec(&mut self.bytes, mover);
    }

    /// A copy of the listpack that [`ListpackRef::packed`] returned, with room for more.
    pub(crate) fn unpacked(packed: Packed<'_>) -> Self {
        Self { bytes: packed.to_vec(), len: packed.count }
    }

    /// Borrows the items.
    #[inline]
    pub(crate) fn lend(&self) -> ListpackRef<'_> {
        ListpackRef { bytes: &self.bytes, len: self.len }
    }

    /// Whether at most two items of `bytes` bytes in total still fit within [`LISTPACK_BYTES_MAX`].
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.bytes.len().saturating_add(bytes).saturating_add(2 * PREFIX_BYTES_MAX) <= LISTPACK_BYTES_MAX
    }

    /// Appends an item.
    pub(crate) fn push(&mut self, item: &[u8]) {
        packed::reserve(&mut self.bytes, PREFIX_BYTES_MAX + item.len());
        push_prefix(&mut self.bytes, item.len());
        self.bytes.extend_from_slice(item);
        self.len += 1;
    }

    /// Replaces the item at `range`.
    pub(crate) fn replace(&mut self, range: Range<usize>, item: &[u8]) {
        if range.len() == item.len() {
            self.bytes[range].copy_from_slice(item);
            return;
        }
        let mut new = Vec::with_capacity(PREFIX_BYTES_MAX + item.len());
        push_prefix(&mut new, item.len());
        new.extend_from_slice(item);
        packed::reserve(&mut self.bytes, new.len());
        self.bytes.splice(range.start - prefix_bytes(range.len())..range.end, new);
    }

    /// Removes `count` consecutive items, from the one at `first` to the one at `last`.
    pub(crate) fn remove(&mut self, first: Range<usize>, last: Range<usize>, count: usize) {
        self.bytes.drain(first.start - prefix_bytes(first.len())..last.end);
        self.len -= count;
        packed::give_back(&mut self.bytes);
    }

    /// Bytes that it has allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Panics if the listpack is inconsistent; for tests.
    pub(crate) fn debug_validate(&self) {
        let mut count = 0;
        let mut end = 0;
        for range in self.lend().ranges() {
            count += 1;
            assert_eq!(end, range.start - prefix_bytes(range.len()));
            end = range.end;
        }
        assert_eq!((count, end), (self.len, self.bytes.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_all_lengths_survive_changes() {
        let lengths = [0, 1, 253, 254, 255, 256, 70_000];
        for from in lengths {
            for to in lengths {
                let mut pack = Listpack::new();
                for item in [&b"first"[..], &vec![b'a'; from], b"last"] {
                    pack.push(item);
                }
                let middle = pack.lend().ranges().nth(1).unwrap();
                pack.replace(middle, &vec![b'b'; to]);
                pack.debug_validate();
                assert_eq!(pack.lend().iter().collect::<Vec<_>>(), [&b"first"[..], &vec![b'b'; to], b"last"]);
                let (first, middle) =
                    (pack.lend().ranges().next().unwrap(), pack.lend().ranges().nth(1).unwrap());
                pack.remove(first, middle, 2);
                pack.debug_validate();
                assert_eq!(pack.lend().iter().collect::<Vec<_>>(), [b"last"]);
                assert!(pack.memory_bytes() < 512);
            }
        }
        assert!(Listpack::new().has_room_for(1000));
        assert!(!Listpack::new().has_room_for(usize::MAX));
    }
}
