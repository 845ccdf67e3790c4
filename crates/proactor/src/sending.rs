//! The part of a connection's output that is on its way into the socket.
//!
//! Chunks leave the [`Output`] rope, wait here while the kernel takes them, and give their memory back when
//! they are sent. The kernel may hold pointers into them meanwhile, so a chunk here is neither changed nor
//! moved in memory (the vector that holds it may be).

use std::collections::VecDeque;
use std::io::IoSlice;

use resp::{Chunk, Output};

use crate::pool::BufferPool;

/// Chunks in one system call.
pub(crate) const SEND_CHUNKS_MAX: usize = 32;
/// Bytes that are being sent at a time; a single chunk may be larger.
pub(crate) const SEND_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Sending {
    chunks: VecDeque<Chunk>,
    /// How much of the first chunk has been sent.
    offset: usize,
    len_bytes: usize,
}

impl Sending {
    pub(crate) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len_bytes == 0
    }

    /// Whether more may be in progress.
    pub(crate) fn has_room(&self) -> bool {
        self.len_bytes < SEND_BYTES_MAX && self.chunks.len() < SEND_CHUNKS_MAX
    }

    /// Appends a chunk of at least one byte.
    #[inline]
    pub(crate) fn push(&mut self, chunk: Chunk) {
        self.len_bytes += chunk.as_slice().len();
        self.chunks.push_back(chunk);
    }

    /// Takes chunks from `output` up to the limits.
    #[inline]
    pub(crate) fn fill(&mut self, output: &mut Output) {
        while self.has_room()
            && let Some(chunk) = output.take_chunk()
        {
            self.push(chunk);
        }
    }

    /// The bytes left to send, if they are in a single chunk.
    pub(crate) fn only_slice(&self) -> Option<&[u8]> {
        match (self.chunks.len(), self.chunks.front()) {
            (1, Some(chunk)) => Some(&chunk.as_slice()[self.offset..]),
            _ => None,
        }
    }

    /// Fills `into` with the bytes left to send, as far as one system call takes them. Returns the number of
    /// slices.
    pub(crate) fn slices<'a>(&'a self, into: &mut [IoSlice<'a>; SEND_CHUNKS_MAX]) -> usize {
        let mut skip = self.offset;
        let mut count = 0;
        for (slice, chunk) in into.iter_mut().zip(&self.chunks) {
            *slice = IoSlice::new(&chunk.as_slice()[skip..]);
            skip = 0;
            count += 1;
        }
        count
    }

    /// Records that the first `len` bytes were sent.
    pub(crate) fn advance(&mut self, len: usize, pool: &mut BufferPool) {
        assert!(len <= self.len_bytes, "the kernel sent more than it was given");
        self.len_bytes -= len;
        self.offset += len;
        while let Some(chunk) = self.chunks.front() {
            let chunk_len = chunk.as_slice().len();
            if self.offset < chunk_len {
                break;
            }
            self.offset -= chunk_len;
            if let Some(Chunk::Owned(memory)) = self.chunks.pop_front() {
                pool.give(memory);
            }
        }
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        *self = Sending::default();
    }
}
