//! A buffer for writes that bypass the system's cache. Such a buffer must begin at a multiple of 4 KiB.
//!
//! It is a vector with some spare bytes. The data begin at the first suitable address in it.

use heap::{Exempt, Exemption};
use proactor::DIRECT_BYTES;

/// It grows to twice its size, and has some bytes more. Memory of more than so many times what was in it is not needed.
const UNUSED_FACTOR: usize = 4;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Buffer {
    memory: Vec<u8>,
    /// The beginning of the data in `memory`.
    start: usize,
    len: usize,
    /// The most that it had in it since the last [`give_back_unused`](Self::give_back_unused).
    peak_len: usize,
    /// It is as large as the largest write, and evictions are written, too, so it is exempt.
    #[expect(dead_code, reason = "that it is there counts")]
    exemption: Option<Exemption>,
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Buffer").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Buffer {
    /// Its contents.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..][..self.len]
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Empties it and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.peak_len = self.peak_len.max(self.len);
        self.len = 0;
    }

    /// Frees its memory if nothing is in it, and if it was far larger than what was in it since the last call.
    pub(crate) fn give_back_unused(&mut self) {
        if self.len == 0 && self.memory.len() > UNUSED_FACTOR * (self.peak_len + DIRECT_BYTES) {
            heap::at_once(|| *self = Buffer::default());
        }
        self.peak_len = 0;
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        self.memory[self.start + self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Appends zeros up to a multiple of `bytes`.
    pub(crate) fn pad(&mut self, bytes: usize) {
        let count = self.len.next_multiple_of(bytes) - self.len;
        self.make_room(count);
        self.memory[self.start + self.len..][..count].fill(0);
        self.len += count;
    }

    fn make_room(&mut self, bytes: usize) {
        let needed = self.len + bytes;
        if self.start + needed <= self.memory.len() {
            return;
        }
        let bytes = needed.max(2 * self.len) + DIRECT_BYTES;
        let (memory, exemption) = heap::at_once(|| {
            let memory = vec![0; bytes];
            let exemption = Some(Exemption::of_block(Exempt::Journal, memory.capacity()));
            (memory, exemption)
        });
        let start = memory.as_ptr().align_offset(DIRECT_BYTES);
        assert!(start + needed <= memory.len(), "the buffer begins in the spare bytes");
        let before = std::mem::replace(
            self,
            Buffer { memory, start, len: self.len, peak_len: self.peak_len, exemption },
        );
        self.memory[self.start..][..self.len].copy_from_slice(before.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_where_it_should_be_and_keeps_what_it_has() {
        let (mut buffer, mut model) = (Buffer::default(), Vec::new());
        for number in 0..200_u32 {
            let bytes = vec![number as u8; (number * number % 977) as usize];
            buffer.extend(&bytes);
            model.extend_from_slice(&bytes);
            if number % 7 == 0 {
                buffer.pad(512);
                model.resize(model.len().next_multiple_of(512), 0);
            }
            assert_eq!(buffer.bytes(), model);
            let is_aligned = buffer.bytes().as_ptr().addr().is_multiple_of(DIRECT_BYTES);
            assert!(is_aligned || buffer.len() == 0);
        }
        buffer.clear();
        assert_eq!((buffer.len(), buffer.bytes()), (0, &b""[..]));
        buffer.extend(b"ab");
        buffer.pad(8);
        assert_eq!(buffer.bytes(), b"ab\0\0\0\0\0\0", "what it held before is gone");
    }

    #[test]
    fn memory_that_is_not_needed_goes_back() {
        let mut buffer = Buffer::default();
        let mut write = |bytes: usize| {
            buffer.extend(&vec![1; bytes]);
            buffer.give_back_unused();
            assert_eq!(buffer.len(), bytes, "what is in it stays");
            buffer.clear();
            buffer.give_back_unused();
            buffer.memory.len()
        };
        let grown = write(1 << 20);
        assert!(grown > 1 << 20);
        assert_eq!(write(600_000), grown, "it may be needed again");
        assert_eq!(write(1000), 0);
        assert!(write(1000) < 10_000);
    }
}
