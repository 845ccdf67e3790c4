//! A run of entries in one allocation.
//!
//! ```text
//! | count | field | field | … |  entry | entry | …               the fields of the first entry, then all entries
//!
//! entry:  | length | flags | ms | seq | value | value | …         SAME: its fields are those of the first entry
//!         | length | flags | ms | seq | count | field | value | … not
//! ```
//!
//! Counts, lengths and the two differences to the first entry's id are variable-length numbers with seven bits per byte
//! (`seq` in zigzag, because it may be smaller). A field or value is its length and its bytes. The length of an entry
//! covers what follows it. A deleted entry stays, with a flag, until the whole node goes.
//!
//! Nodes become full as in Redis, because that determines which entries an approximate trim keeps: by the
//! number of entries, including deleted ones, and by the bytes that Redis' listpack would take
//! ([`StreamNode::listpack_bytes`]).

use smallvec::SmallVec;

use super::{StreamId, StreamLimits};
use crate::list::entry::{entry_bytes, integer_bytes, listpack_bytes};
use crate::mover::{Mover, move_vec};

/// Bytes to be appended to a node.
type Bytes = SmallVec<[u8; 256]>;

const DELETED: u8 = 1;
const SAME: u8 = 2;
/// Maximum size of a node, under any configured limits.
pub(super) const NODE_BYTES_MAX: usize = 1 << 30;
/// Header and end of a listpack.
const LISTPACK_FRAME_BYTES: usize = 7;

/// A run of entries in one allocation.
#[derive(Clone, Debug)]
pub(super) struct StreamNode {
    bytes: Vec<u8>,
    first: StreamId,
    last: StreamId,
    entries_at: u32,
    live_count: u32,
    deleted_count: u32,
    /// Length of Redis' listpack without the two counts.
    listpack_bytes: u32,
}

// As small as it was before streams had producers.
const _: () = assert!(size_of::<StreamNode>() == 72);

/// An entry as stored in a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawEntry<'a> {
    pub(super) id: StreamId,
    pub(super) is_deleted: bool,
    /// Offsets of this entry and of the next one.
    pub(super) at: usize,
    pub(super) end: usize,
    pub(super) fields: Fields<'a>,
}

impl StreamNode {
    /// A node with this one entry.
    pub(super) fn new(id: StreamId, pairs: &[&[u8]]) -> StreamNode {
        let mut bytes = Bytes::new();
        let count = pairs.len() / 2;
        push_number(&mut bytes, count as u64);
        let mut listpack_bytes = LISTPACK_FRAME_BYTES + integer_bytes(count as i64) + integer_bytes(0);
        for field in pairs.iter().step_by(2) {
            push_text(&mut bytes, field);
            listpack_bytes += text_bytes(field);
        }
        let entries_at = u32::try_from(bytes.len()).expect("fields of an entry are limited");
        let mut node = StreamNode {
            bytes: bytes.to_vec(),
            entries_at,
            live_count: 0,
            deleted_count: 0,
            first: id,
            last: id,
            listpack_bytes: 0,
        };
        node.count_bytes(listpack_bytes);
        node.append(id, pairs);
        node
    }

    /// Whether an entry with these fields and values has to go into the next node.
    pub(super) fn is_full(&self, pairs: &[&[u8]], limits: &StreamLimits) -> bool {
        let bytes_max = match limits.node_bytes_max {
            1..=NODE_BYTES_MAX => limits.node_bytes_max,
            _ => NODE_BYTES_MAX,
        };
        let count = (self.live_count + self.deleted_count) as usize;
        self.listpack_bytes() + pairs.iter().map(|text| text.len()).sum::<usize>() >= bytes_max
            || limits.node_entries_max > 0 && count >= limits.node_entries_max
    }

    // An import may make a node so large that it does not matter by how much.
    fn count_bytes(&mut self, bytes: usize) {
        self.listpack_bytes = self.listpack_bytes.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    fn listpack_bytes(&self) -> usize {
        let counts = [self.live_count, self.deleted_count];
        self.listpack_bytes as usize
            + counts.map(|count| integer_bytes(i64::from(count))).iter().sum::<usize>()
    }

    /// Appends an entry; its id must be larger than all before.
    pub(super) fn append(&mut self, id: StreamId, pairs: &[&[u8]]) {
        let count = pairs.len() / 2;
        let master = self.master();
        let is_same =
            master.left == count && master.zip(pairs.iter().step_by(2)).all(|(known, field)| known == *field);
        match is_same {
            true => self.push(id, None, pairs.iter().skip(1).step_by(2)),
            false => self.push(id, Some(count), pairs.iter()),
        }
    }

    /// Appends an entry with the fields of the first one.
    pub(super) fn append_same(&mut self, id: StreamId, values: &[&[u8]]) {
        debug_assert_eq!(self.master().left, values.len());
        self.push(id, None, values.iter());
    }

    /// Appends an entry with `texts`; `count` is the number of its own fields, if it has any.
    fn push<'t>(&mut self, id: StreamId, count: Option<usize>, texts: impl Iterator<Item = &'t &'t [u8]>) {
        let (ms, seq) = (id.ms - self.first.ms, id.seq.wrapping_sub(self.first.seq) as i64);
        let mut body = Bytes::new();
        body.push(if count.is_none() { SAME } else { 0 });
        push_number(&mut body, ms);
        push_number(&mut body, zigzag(seq));
        let mut listpack_bytes = integer_bytes(0) + integer_bytes(ms as i64) + integer_bytes(seq);
        let mut elements_count = 3;
        if let Some(count) = count {
            push_number(&mut body, count as u64);
            listpack_bytes += integer_bytes(count as i64);
            elements_count += 1;
        }
        for text in texts {
            push_text(&mut body, text);
            listpack_bytes += text_bytes(text);
            elements_count += 1;
        }
        self.count_bytes(listpack_bytes + integer_bytes(elements_count));
        let mut length = Bytes::new();
        push_number(&mut length, body.len() as u64);
        self.reserve(length.len() + body.len());
        self.bytes.extend_from_slice(&length);
        self.bytes.extend_from_slice(&body);
        self.live_count += 1;
        self.last = id;
    }

    /// A full allocation grows by a quarter, because there are many nodes; [`StreamNode::finish`] frees the excess.
    fn reserve(&mut self, bytes: usize) {
        if self.bytes.capacity() - self.bytes.len() < bytes {
            self.bytes.reserve_exact(bytes + self.bytes.len() / 4);
        }
    }

    /// Frees unused memory; no more entries will be added.
    pub(super) fn finish(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Marks the live entry at `at` as deleted.
    pub(super) fn delete(&mut self, at: usize) {
        let mut flags_at = at;
        read_number(&self.bytes, &mut flags_at);
        self.bytes[flags_at] |= DELETED;
        self.live_count -= 1;
        self.deleted_count += 1;
    }

    pub(super) fn live_count(&self) -> usize {
        self.live_count as usize
    }

    /// The id of the first entry, deleted or not.
    pub(super) fn first(&self) -> StreamId {
        self.first
    }

    /// The id of the last entry, deleted or not.
    pub(super) fn last(&self) -> StreamId {
        self.last
    }

    /// The id of the last live entry.
    pub(super) fn last_live(&self) -> StreamId {
        if self.deleted_count == 0 {
            return self.last;
        }
        let live = self.entries_from(self.entries_at()).filter(|entry| !entry.is_deleted);
        live.last().expect("an empty node is gone").id
    }

    /// Offset of the first entry.
    pub(super) fn entries_at(&self) -> usize {
        self.entries_at as usize
    }

    /// The entry at offset `at`; `None` at the end.
    #[inline]
    pub(super) fn entry(&self, at: usize) -> Option<RawEntry<'_>> {
        if at == self.bytes.len() {
            return None;
        }
        let mut place = at;
        let length = read_number(&self.bytes, &mut place) as usize;
        let end = place + length;
        let flags = self.bytes[place];
        place += 1;
        let ms = read_number(&self.bytes, &mut place);
        let seq = unzigzag(read_number(&self.bytes, &mut place));
        let id = StreamId { ms: self.first.ms + ms, seq: self.first.seq.wrapping_add(seq as u64) };
        let master = (flags & SAME != 0).then(|| self.master());
        let left = match master {
            Some(master) => master.left,
            None => read_number(&self.bytes, &mut place) as usize,
        };
        let fields = Fields { master, texts: Texts { bytes: &self.bytes[place..end], left } };
        Some(RawEntry { id, is_deleted: flags & DELETED != 0, at, end, fields })
    }

    /// All entries from `at` on, deleted ones included.
    pub(super) fn entries_from(&self, at: usize) -> impl Iterator<Item = RawEntry<'_>> {
        std::iter::successors(self.entry(at), |entry| self.entry(entry.end))
    }

    /// The live entry with this id.
    pub(super) fn find(&self, id: StreamId) -> Option<RawEntry<'_>> {
        self.entries_from(self.entries_at())
            .find(|entry| entry.id >= id)
            .filter(|entry| entry.id == id && !entry.is_deleted)
    }

    fn master(&self) -> Texts<'_> {
        let mut at = 0;
        let left = read_number(&self.bytes, &mut at) as usize;
        Texts { bytes: &self.bytes[at..self.entries_at()], left }
    }

    /// Moves its memory if the mover asks for it.
    pub(super) fn relocate(&mut self, mover: &mut dyn Mover) {
        move_vec(&mut self.bytes, mover);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Panics if the node is inconsistent; for tests.
    pub(super) fn debug_validate(&self) {
        let (mut live, mut deleted, mut last) = (0, 0, None);
        for entry in self.entries_from(self.entries_at()) {
            assert!(last.is_none_or(|last| last < entry.id), "ids ascend");
            last = Some(entry.id);
            *(if entry.is_deleted { &mut deleted } else { &mut live }) += 1;
            assert!(entry.fields.len() > 0 && entry.fields.count() > 0);
        }
        assert_eq!((live, deleted, last), (self.live_count, self.deleted_count, Some(self.last)));
        assert!(live > 0, "an empty node is gone");
    }
}

/// Consecutive texts.
#[derive(Clone, Copy, Debug)]
struct Texts<'a> {
    bytes: &'a [u8],
    left: usize,
}

impl<'a> Iterator for Texts<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let mut at = 0;
        let length = read_number(self.bytes, &mut at) as usize;
        let (text, rest) = self.bytes[at..].split_at(length);
        self.bytes = rest;
        Some(text)
    }
}

/// Fields and values of an entry, in order.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    /// The fields, unless they are among `texts`.
    master: Option<Texts<'a>>,
    /// Its `left` is the number of pairs.
    texts: Texts<'a>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let pairs_left = self.texts.left.checked_sub(1)?;
        self.texts.left = 2;
        let field = match &mut self.master {
            Some(master) => master.next(),
            None => self.texts.next(),
        };
        let value = self.texts.next();
        self.texts.left = pairs_left;
        Some((field?, value?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.texts.left, Some(self.texts.left))
    }
}

impl ExactSizeIterator for Fields<'_> {}

fn push_number(bytes: &mut Bytes, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[inline]
fn read_number(bytes: &[u8], at: &mut usize) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return number;
        }
        shift += 7;
    }
}

fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

fn push_text(bytes: &mut Bytes, text: &[u8]) {
    push_number(bytes, text.len() as u64);
    bytes.extend_from_slice(text);
}

fn text_bytes(text: &[u8]) -> usize {
    listpack_bytes(text, entry_bytes(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive() {
        for number in [0, 1, -1, 63, 64, -64, -65, i64::MAX, i64::MIN] {
            let mut bytes = Bytes::new();
            push_number(&mut bytes, zigzag(number));
            let mut at = 0;
            assert_eq!((unzigzag(read_number(&bytes, &mut at)), at), (number, bytes.len()));
        }
    }

    /// `XADD s 1-1 field value`, then `XADD s 2-0 field 12 other x`: lengths of the listpacks that `DUMP` shows.
    #[test]
    fn a_node_is_as_long_as_redis_has_it() {
        let mut node = StreamNode::new(StreamId { ms: 1, seq: 1 }, &[b"field", b"value"]);
        assert_eq!(node.listpack_bytes(), 0x25);
        node.append(StreamId { ms: 2, seq: 0 }, &[b"field", b"12", b"other", b"x"]);
        assert_eq!(node.listpack_bytes(), 0x43);
        node.debug_validate();
    }
}
