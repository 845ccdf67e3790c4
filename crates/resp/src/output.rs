//! The output waiting to be sent to one client: a rope of byte chunks.
//!
//! ```text
//!   oldest                                                        newest
//!   [ Owned 16 KiB ][ Shared ][ Hold 7 ][ Owned, one large value ]  tail: Vec<u8>
//!     ^ take_chunk                                                  ^ extend_from_slice
//! ```
//!
//! Small replies are copied into the tail, an ordinary `Vec`: that is the hot path, and it never touches the queue. The tail
//! starts at 256 bytes and doubles up to 16 KiB; then it is sealed (moved, not copied, into the queue) and a new one begins. A
//! larger slice gets a chunk of its own with a little slack for the CR LF after it. So bytes are copied again only while a tail
//! grows and when something is inserted in front of them, both at most 16 KiB, and a reply of a gigabyte is never reallocated.
//!
//! A [`Mark`] is a position counted in bytes since the output was created, so sealing does not invalidate it. Marks are
//! used like brackets: insert at or truncate to the most recent one first. Using a mark whose bytes have been taken for
//! sending is a bug in the caller and panics.
//!
//! # Held output
//!
//! A reply that must not be sent before something has happened elsewhere (a journal's slice is on disk) is *held* for
//! that slice's number: [`Output::hold_from`] puts a hold, a piece without bytes, in front of it. Nothing after a hold
//! is taken, so later replies wait behind it and keep their order, until [`Output::release`] drops it. Because the hold
//! is a piece of the rope, it moves with the bytes: into a message to another thread, and from there by
//! [`Output::append`] into the output of a connection. Where nothing is held, there are no such pieces and no checks.
//!
//! Not here: limits (compare [`Output::len`] with yours; held bytes count), sockets, partial writes (the writer keeps its chunk).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::header::write_header;

/// Initial capacity of the tail: enough for most single replies.
const TAIL_BYTES_MIN: usize = 256;
/// Maximum capacity of the tail, and of what an insertion moves.
const CHUNK_BYTES_MAX: usize = 16 * 1024;
/// Room after a large slice for its CR LF and a small reply or two.
const SLACK_BYTES: usize = 32;
/// Up to this length, copying is cheaper than another chunk for the socket writer to gather.
const COPY_BYTES_MAX: usize = 1024;

/// A run of bytes to be sent.
#[derive(Clone, Debug)]
pub enum Chunk {
    /// Bytes that belong to this output alone; return the buffer through [`Output::recycle`].
    Owned(Vec<u8>),
    /// Bytes shared with other owners: a published message, a large value.
    Shared(Arc<Vec<u8>>),
}

impl Chunk {
    /// The bytes; never empty if the chunk came from [`Output::take_chunk`].
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Chunk::Owned(bytes) => bytes,
            Chunk::Shared(bytes) => bytes,
        }
    }

    fn capacity_bytes(&self) -> usize {
        match self {
            Chunk::Owned(bytes) => bytes.capacity(),
            Chunk::Shared(bytes) => bytes.len(),
        }
    }
}

/// An element of the queue.
#[derive(Debug)]
enum Piece {
    Chunk(Chunk),
    /// A chunk, with the number of bytes at its front that have been consumed.
    Rest(Box<(Chunk, usize)>),
    /// The following pieces wait for the slice with this number. Has no bytes.
    Hold(u64),
}

impl Piece {
    fn as_slice(&self) -> &[u8] {
        match self {
            Piece::Chunk(chunk) => chunk.as_slice(),
            Piece::Rest(rest) => &rest.0.as_slice()[rest.1..],
            Piece::Hold(_) => &[],
        }
    }

    fn capacity_bytes(&self) -> usize {
        match self {
            Piece::Chunk(chunk) => chunk.capacity_bytes(),
            Piece::Rest(rest) => rest.0.capacity_bytes(),
            Piece::Hold(_) => 0,
        }
    }
}

/// A position in an [`Output`], to insert at or to truncate to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

impl Mark {
    /// The number of bytes that had ever been appended; compare [`Output::end`].
    #[must_use]
    pub fn end(self) -> u64 {
        self.0
    }
}

/// A queue of bytes: appended at one end, taken in chunks from the other.
#[derive(Debug, Default)]
pub struct Output {
    tail: Vec<u8>,
    chunks: VecDeque<Piece>,
    /// Sum of the lengths of `chunks`.
    chunk_bytes: usize,
    /// Bytes taken or dropped so far: the position of the queue's front, as marks count.
    gone_bytes: u64,
    /// A recycled buffer for the next tail.
    spare: Vec<u8>,
}

impl Output {
    /// An empty output. Allocates nothing.
    #[must_use]
    pub fn new() -> Output {
        Output::default()
    }

    /// Number of waiting bytes, including held ones.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.chunk_bytes + self.tail.len()
    }

    /// Whether no bytes are waiting.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory allocated for waiting and recycled bytes. Costs O(chunks).
    #[must_use]
    pub fn capacity_bytes(&self) -> usize {
        let queued: usize = self.chunks.iter().map(Piece::capacity_bytes).sum();
        queued + self.tail.capacity() + self.spare.capacity()
    }

    /// Appends a copy of `bytes`.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        if bytes.len() <= self.tail.capacity() - self.tail.len() {
            self.tail.extend_from_slice(bytes);
        } else {
            self.extend_slow(bytes);
        }
    }

    /// Appends the first `length` of eight bytes. Storing all eight takes one instruction, unlike a copy of unknown length.
    #[inline]
    pub(crate) fn extend_padded(&mut self, bytes: [u8; 8], length: usize) {
        if self.tail.capacity() - self.tail.len() >= bytes.len() {
            let end = self.tail.len() + length;
            self.tail.extend_from_slice(&bytes);
            self.tail.truncate(end);
        } else {
            self.extend_slow(&bytes[..length]);
        }
    }

    /// Appends a bulk string.
    #[inline]
    pub(crate) fn extend_bulk(&mut self, bytes: &[u8]) {
        write_header(self, b'$', bytes.len() as i64);
        self.extend_from_slice(bytes);
        self.extend_from_slice(b"\r\n");
    }

    /// Takes the tail, for appending to it within its capacity; it must be [put back](Self::put_tail).
    #[inline]
    pub(crate) fn take_tail(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.tail)
    }

    /// Puts back the tail that was taken.
    #[inline]
    pub(crate) fn put_tail(&mut self, tail: Vec<u8>) {
        debug_assert!(self.tail.is_empty(), "nothing is appended meanwhile");
        self.tail = tail;
    }

    #[cold]
    #[inline(never)]
    fn extend_slow(&mut self, bytes: &[u8]) {
        let needed = self.tail.len() + bytes.len();
        if needed <= CHUNK_BYTES_MAX {
            if self.tail.capacity() == 0 {
                self.tail = std::mem::take(&mut self.spare);
            }
            let capacity = needed.next_power_of_two().max(TAIL_BYTES_MIN);
            self.tail.reserve_exact(capacity - self.tail.len());
            self.tail.extend_from_slice(bytes);
        } else if bytes.len() > CHUNK_BYTES_MAX {
            self.seal();
            self.tail.reserve_exact(bytes.len() + SLACK_BYTES);
            self.tail.extend_from_slice(bytes);
        } else {
            let room = self.tail.capacity() - self.tail.len();
            let (first, rest) = bytes.split_at(room.min(bytes.len()));
            self.tail.extend_from_slice(first);
            self.seal();
            self.tail = std::mem::take(&mut self.spare);
            self.tail.reserve_exact(CHUNK_BYTES_MAX);
            self.tail.extend_from_slice(rest);
        }
    }

    /// Moves the tail into the queue and leaves an unallocated one.
    fn seal(&mut self) {
        let tail = std::mem::take(&mut self.tail);
        if !tail.is_empty() {
            self.push_chunk(Chunk::Owned(tail));
        }
    }

    fn push_chunk(&mut self, chunk: Chunk) {
        self.chunk_bytes += chunk.as_slice().len();
        self.chunks.push_back(Piece::Chunk(chunk));
    }

    /// Appends bytes shared with other owners, without copying them unless they are few.
    pub fn push_shared(&mut self, bytes: Arc<Vec<u8>>) {
        if bytes.len() <= COPY_BYTES_MAX {
            self.extend_from_slice(&bytes);
        } else {
            self.seal();
            self.push_chunk(Chunk::Shared(bytes));
        }
    }

    /// Moves all waiting bytes of `other`, with their holds, to the end of this output, and leaves `other` empty.
    pub fn append(&mut self, other: &mut Output) {
        if other.chunks.is_empty() && other.len() <= COPY_BYTES_MAX {
            self.extend_from_slice(&other.tail);
            other.clear();
        } else {
            other.seal();
            self.seal();
            other.gone_bytes += other.chunk_bytes as u64;
            self.chunk_bytes += std::mem::take(&mut other.chunk_bytes);
            self.chunks.append(&mut other.chunks);
        }
    }

    /// The current end.
    #[inline]
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark(self.gone_bytes + self.len() as u64)
    }

    /// The number of bytes that were ever appended.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.mark().0
    }

    /// Memory that is allocated and not in use, except in sealed chunks.
    #[must_use]
    pub fn slack_bytes(&self) -> usize {
        self.tail.capacity() - self.tail.len() + self.spare.capacity()
    }

    /// The place of `mark`: the chunk's index (`chunks.len()` for the tail) and the offset in it. Panics if its bytes
    /// have been taken.
    fn locate(&self, mark: Mark) -> (usize, usize) {
        assert!(self.gone_bytes <= mark.0 && mark.0 <= self.mark().0, "the mark's bytes wait in this output");
        let position = (mark.0 - self.gone_bytes) as usize;
        let mut start = self.chunk_bytes;
        let mut index = self.chunks.len();
        // From the newest on: marks are rarely old.
        while position < start {
            index -= 1;
            start -= self.chunks[index].as_slice().len();
        }
        (index, position - start)
    }

    /// Inserts `bytes` before everything that was appended since `mark`.
    ///
    /// The mark stays before the inserted bytes; marks taken after it become invalid.
    pub fn insert_at(&mut self, mark: Mark, bytes: &[u8]) {
        let (index, offset) = self.locate(mark);
        if bytes.is_empty() {
            return;
        }
        let is_tail = index == self.chunks.len();
        let target = match self.chunks.get_mut(index) {
            None => &mut self.tail,
            Some(Piece::Chunk(Chunk::Owned(chunk))) => chunk,
            Some(_) => {
                assert!(offset == 0, "marks are taken between appends, never inside a shared chunk");
                return self.insert_chunk(index, bytes.to_vec());
            }
        };
        let moved = target.len() - offset;
        if moved <= CHUNK_BYTES_MAX && bytes.len() <= target.capacity() - target.len() {
            target.extend_from_slice(bytes);
            target[offset..].rotate_right(bytes.len());
            self.chunk_bytes += if is_tail { 0 } else { bytes.len() };
        } else if offset == 0 {
            self.insert_chunk(index, bytes.to_vec());
        } else {
            let mut rest = Vec::with_capacity(bytes.len() + moved);
            rest.extend_from_slice(bytes);
            rest.extend_from_slice(&target[offset..]);
            target.truncate(offset);
            if is_tail {
                self.seal();
                self.tail = rest;
            } else {
                self.chunk_bytes -= moved;
                self.insert_chunk(index + 1, rest);
            }
        }
    }

    fn insert_chunk(&mut self, index: usize, bytes: Vec<u8>) {
        self.chunk_bytes += bytes.len();
        self.chunks.insert(index, Piece::Chunk(Chunk::Owned(bytes)));
    }

    /// Drops everything that was appended since `mark`.
    pub fn truncate(&mut self, mark: Mark) {
        let (index, offset) = self.locate(mark);
        if index == self.chunks.len() {
            self.tail.truncate(offset);
            return;
        }
        self.tail.clear();
        for chunk in self.chunks.drain(index + 1..) {
            self.chunk_bytes -= chunk.as_slice().len();
        }
        let Some(chunk) = self.chunks.pop_back() else { return };
        self.chunk_bytes -= chunk.as_slice().len();
        if offset > 0
            && let Piece::Chunk(Chunk::Owned(mut bytes)) = chunk
        {
            bytes.truncate(offset);
            self.push_chunk(Chunk::Owned(bytes));
        }
    }

    /// Makes everything since `mark`, and what follows, wait until `slice` is released. Does nothing for slice 0, or if
    /// nothing was appended since `mark`.
    pub fn hold_from(&mut self, mark: Mark, slice: u64) {
        if slice == 0 || mark == self.mark() {
            return;
        }
        let (mut index, offset) = self.locate(mark);
        if index == self.chunks.len() {
            // The tail waits for this slice already if the last hold is for it or a later one.
            if matches!(self.chunks.back(), Some(Piece::Hold(last)) if *last >= slice) {
                return;
            }
            if offset > 0 {
                let mut rest = std::mem::take(&mut self.spare);
                rest.extend_from_slice(&self.tail[offset..]);
                self.tail.truncate(offset);
                self.seal();
                self.tail = rest;
                index += 1;
            }
        } else if offset > 0 {
            let Piece::Chunk(Chunk::Owned(front)) = &mut self.chunks[index] else {
                panic!("marks are taken between appends, never inside a shared chunk")
            };
            let rest = front.split_off(offset);
            index += 1;
            self.chunks.insert(index, Piece::Chunk(Chunk::Owned(rest)));
        }
        self.chunks.insert(index, Piece::Hold(slice));
    }

    /// Makes all waiting bytes, and what follows, wait until `slice` is released.
    pub fn hold_all(&mut self, slice: u64) {
        self.hold_from(Mark(self.gone_bytes), slice);
    }

    /// Drops the holds for slices up to `slice`, except those behind a hold for a later one. Returns the slice that the
    /// front of the output waits for, if any.
    pub fn release(&mut self, slice: u64) -> Option<u64> {
        self.release_if(|held| held <= slice)
    }

    /// Like [`release`](Self::release), for slices for which `may_go` returns true.
    pub fn release_if(&mut self, may_go: impl Fn(u64) -> bool) -> Option<u64> {
        let mut index = 0;
        while let Some(piece) = self.chunks.get(index) {
            match *piece {
                Piece::Hold(held) if !may_go(held) => break,
                // Holds are few, and rarely far from the front.
                Piece::Hold(_) => drop(self.chunks.remove(index)),
                Piece::Chunk(_) | Piece::Rest(_) => index += 1,
            }
        }
        match self.chunks.front() {
            Some(&Piece::Hold(held)) => Some(held),
            _ => None,
        }
    }

    /// Takes the oldest chunk, for the socket writer; `None` if nothing is waiting or the front is held.
    #[inline]
    pub fn take_chunk(&mut self) -> Option<Chunk> {
        if !self.chunks.is_empty() {
            return self.take_sealed();
        }
        if self.tail.is_empty() {
            return None;
        }
        self.gone_bytes += self.tail.len() as u64;
        Some(Chunk::Owned(std::mem::take(&mut self.tail)))
    }

    fn take_sealed(&mut self) -> Option<Chunk> {
        let chunk = match self.chunks.pop_front()? {
            Piece::Chunk(chunk) => chunk,
            piece @ Piece::Rest(_) => Chunk::Owned(piece.as_slice().to_vec()),
            hold @ Piece::Hold(_) => {
                self.chunks.push_front(hold);
                return None;
            }
        };
        self.chunk_bytes -= chunk.as_slice().len();
        self.gone_bytes += chunk.as_slice().len() as u64;
        Some(chunk)
    }

    /// The oldest bytes, in place, for a writer that copies them. Never empty; `None` if [`Output::take_chunk`] would
    /// return `None`.
    pub fn front(&mut self) -> Option<&[u8]> {
        if self.chunks.is_empty() {
            self.seal();
        }
        self.chunks.front().map(Piece::as_slice).filter(|slice| !slice.is_empty())
    }

    /// Consumes the first `length` bytes of [`front`](Output::front). Returns the buffer that this frees, if any.
    ///
    /// # Panics
    /// If the front has fewer bytes.
    pub fn consume_front(&mut self, length: usize) -> Option<Vec<u8>> {
        let piece = self.chunks.pop_front()?;
        let left = piece.as_slice().len().checked_sub(length).expect("no more than the front has");
        self.chunk_bytes -= length;
        self.gone_bytes += length as u64;
        let (chunk, start) = match piece {
            Piece::Chunk(chunk) => (chunk, length),
            Piece::Rest(mut rest) if left > 0 => {
                rest.1 += length;
                self.chunks.push_front(Piece::Rest(rest));
                return None;
            }
            Piece::Rest(rest) => *rest,
            Piece::Hold(_) => panic!("what is held is not consumed"),
        };
        match chunk {
            _ if left > 0 => {
                self.chunks.push_front(Piece::Rest(Box::new((chunk, start))));
                None
            }
            Chunk::Owned(memory) => Some(memory),
            Chunk::Shared(_) => None,
        }
    }

    /// Reuses the buffer of a chunk that has been sent, so that the next reply needs no allocation.
    pub fn recycle(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > CHUNK_BYTES_MAX {
            return;
        }
        buffer.clear();
        if self.tail.capacity() == 0 {
            self.tail = buffer;
        } else if self.spare.capacity() < buffer.capacity() {
            self.spare = buffer;
        }
    }

    /// Drops all waiting bytes, and keeps the memory of a tail of ordinary size.
    pub fn clear(&mut self) {
        self.gone_bytes += self.len() as u64;
        self.chunks.clear();
        self.chunk_bytes = 0;
        self.tail.clear();
        if self.tail.capacity() > CHUNK_BYTES_MAX {
            self.tail = Vec::new();
        }
    }

    /// The waiting bytes in order; no slice is empty.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.chunks
            .iter()
            .map(Piece::as_slice)
            .chain([self.tail.as_slice()])
            .filter(|slice| !slice.is_empty())
    }

    /// The bytes appended since `mark`, in order; no slice is empty.
    pub fn slices_since(&self, mark: Mark) -> impl Iterator<Item = &[u8]> {
        let (index, offset) = self.locate(mark);
        let rest = self.chunks.iter().map(Piece::as_slice).chain([self.tail.as_slice()]).skip(index);
        rest.enumerate()
            .map(move |(n, slice)| if n == 0 { &slice[offset..] } else { slice })
            .filter(|slice| !slice.is_empty())
    }

    /// A copy of the waiting bytes in one piece.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        for slice in self.slices() {
            bytes.extend_from_slice(slice);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_new_output_holds_no_memory() {
        let mut out = Output::new();
        assert_eq!((out.len(), out.capacity_bytes(), out.is_empty()), (0, 0, true));
        assert!(out.take_chunk().is_none());
        out.extend_from_slice(b"+OK\r\n");
        assert_eq!((out.len(), out.capacity_bytes()), (5, TAIL_BYTES_MIN));
    }

    #[test]
    fn what_follows_a_mark_can_be_read() {
        let mut out = Output::new();
        out.extend_from_slice(b"+OK\r\n");
        let mark = out.mark();
        assert_eq!(out.slices_since(mark).count(), 0);
        out.extend_from_slice(b"-ERR no\r\n");
        out.extend_from_slice(&[b'x'; CHUNK_BYTES_MAX]);
        let since: Vec<u8> = out.slices_since(mark).flatten().copied().collect();
        assert!(since.starts_with(b"-ERR no\r\nx") && since.len() == 9 + CHUNK_BYTES_MAX);
    }

    #[test]
    fn a_recycled_buffer_serves_the_next_reply() {
        let mut out = Output::new();
        out.extend_from_slice(b"one");
        let Some(Chunk::Owned(buffer)) = out.take_chunk() else { panic!("the tail is owned") };
        let address = buffer.as_ptr();
        out.recycle(buffer);
        out.extend_from_slice(b"two");
        assert_eq!(out.tail.as_ptr(), address);
        assert_eq!(out.to_vec(), b"two");
        out.recycle(Vec::with_capacity(1 << 20));
        assert_eq!(out.capacity_bytes(), TAIL_BYTES_MIN);
    }

    #[test]
    fn small_appends_fill_whole_chunks() {
        let mut out = Output::new();
        for _ in 0..10_000 {
            out.extend_from_slice(b"0123456789");
        }
        let lengths: Vec<usize> = out.slices().map(<[u8]>::len).collect();
        assert_eq!(lengths, [16384, 16384, 16384, 16384, 16384, 16384, 1696]);
        assert!(out.capacity_bytes() <= 7 * CHUNK_BYTES_MAX);
    }

    #[test]
    fn large_bytes_are_neither_copied_again_nor_moved() {
        let mut out = Output::new();
        out.extend_from_slice(b"$100000\r\n");
        let mark = out.mark();
        out.extend_from_slice(&[b'x'; 100_000]);
        let address = out.tail.as_ptr();
        out.extend_from_slice(b"\r\n");
        let behind = out.mark();
        out.insert_at(behind, b"[more bytes than the slack holds]");
        out.insert_at(mark, b"*1\r\n");
        let shared = Arc::new(vec![b's'; 5000]);
        out.push_shared(Arc::clone(&shared));
        let slices: Vec<&[u8]> = out.slices().collect();
        assert_eq!(slices.iter().map(|slice| slice.len()).collect::<Vec<_>>(), [9, 4, 100_002, 33, 5000]);
        assert_eq!(slices[2].as_ptr(), address);
        assert_eq!(slices[4].as_ptr(), shared.as_ptr());
    }

    #[test]
    fn inserting_nothing_adds_no_chunk() {
        let mut out = Output::new();
        let mark = out.mark();
        out.push_shared(Arc::new(vec![b's'; COPY_BYTES_MAX + 1]));
        out.insert_at(mark, b"");
        assert_eq!(out.take_chunk().map(|chunk| chunk.as_slice().len()), Some(COPY_BYTES_MAX + 1));
    }

    #[test]
    #[should_panic(expected = "wait in this output")]
    fn a_mark_of_sent_bytes_is_refused() {
        let mut out = Output::new();
        let mark = out.mark();
        out.extend_from_slice(b"sent");
        out.take_chunk();
        out.insert_at(mark, b"late");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Extend(usize),
        Padded(usize),
        Share(usize),
        Append(Vec<usize>),
        Mark,
        Insert(usize),
        Truncate,
        Take,
        Clear,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let length = prop_oneof![8 => 0usize..300, 2 => 0usize..20_000, 1 => Just(CHUNK_BYTES_MAX), 1 => 0usize..70_000];
        let step = prop_oneof![
            6 => length.clone().prop_map(Step::Extend),
            3 => (0usize..=8).prop_map(Step::Padded),
            1 => length.clone().prop_map(Step::Share),
            1 => proptest::collection::vec(length, 0..4).prop_map(Step::Append),
            3 => Just(Step::Mark),
            3 => (0usize..24).prop_map(Step::Insert),
            1 => Just(Step::Truncate),
            1 => Just(Step::Take),
            1 => Just(Step::Clear),
        ];
        proptest::collection::vec(step, 0..60)
    }

    /// Bytes that differ from those of other steps.
    fn fresh(length: usize, seed: usize) -> Vec<u8> {
        (0..length).map(|index| (index * 31 + index / 251 + seed * 7) as u8).collect()
    }

    proptest! {
        #[test]
        fn behaves_like_one_vector(steps in steps()) {
            let mut out = Output::new();
            let mut model: Vec<u8> = Vec::new();
            let mut marks: Vec<(Mark, usize)> = Vec::new();
            for (seed, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Extend(length) => {
                        let bytes = fresh(length, seed);
                        out.extend_from_slice(&bytes);
                        model.extend_from_slice(&bytes);
                    }
                    Step::Padded(length) => {
                        out.extend_padded(*b"paddings", length);
                        model.extend_from_slice(&b"paddings"[..length]);
                    }
                    Step::Share(length) => {
                        let bytes = fresh(length, seed);
                        model.extend_from_slice(&bytes);
                        out.push_shared(Arc::new(bytes));
                    }
                    Step::Append(lengths) => {
                        let mut other = Output::new();
                        for length in lengths {
                            let bytes = fresh(length, seed);
                            other.extend_from_slice(&bytes);
                            model.extend_from_slice(&bytes);
                        }
                        out.append(&mut other);
                        prop_assert!(other.is_empty() && other.to_vec().is_empty());
                    }
                    Step::Mark => marks.push((out.mark(), model.len())),
                    Step::Insert(length) => {
                        if let Some((mark, position)) = marks.pop() {
                            let bytes = fresh(length, seed);
                            out.insert_at(mark, &bytes);
                            model.splice(position..position, bytes);
                        }
                    }
                    Step::Truncate => {
                        if let Some((mark, position)) = marks.pop() {
                            out.truncate(mark);
                            model.truncate(position);
                        }
                    }
                    Step::Take => {
                        marks.clear();
                        if let Some(chunk) = out.take_chunk() {
                            let sent = chunk.as_slice().len();
                            prop_assert!(sent > 0);
                            prop_assert_eq!(chunk.as_slice(), &model[..sent]);
                            model.drain(..sent);
                            if let Chunk::Owned(buffer) = chunk {
                                out.recycle(buffer);
                            }
                        }
                    }
                    Step::Clear => {
                        marks.clear();
                        out.clear();
                        model.clear();
                    }
                }
                prop_assert_eq!(out.len(), model.len());
                prop_assert!(out.capacity_bytes() >= out.len());
            }
            prop_assert_eq!(out.to_vec(), model.clone());
            let mut taken = Vec::new();
            while let Some(chunk) = out.take_chunk() {
                taken.extend_from_slice(chunk.as_slice());
            }
            prop_assert_eq!(taken, model);
        }
    }
}
