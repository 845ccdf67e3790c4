//! Spare memory for input and output.
//!
//! A connection owns buffers only while there are bytes in them; then the next connection gets them, still warm in the
//! cache. So a thousand idle connections hold no buffers, and a busy thread allocates none.

/// Buffers below this size are not worth keeping.
const KEPT_BYTES_MIN: usize = 256;
/// Larger ones were needed by one large value and go back to the allocator.
const KEPT_BYTES_MAX: usize = 64 * 1024;
/// How many spare buffers one thread keeps.
const KEPT_COUNT_MAX: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct BufferPool {
    spare: Vec<Vec<u8>>,
}

impl BufferPool {
    /// An empty buffer, with memory if there is some to spare.
    #[inline]
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    #[inline]
    pub(crate) fn give(&mut self, mut memory: Vec<u8>) {
        let fits = (KEPT_BYTES_MIN..=KEPT_BYTES_MAX).contains(&memory.capacity());
        if fits && self.spare.len() < KEPT_COUNT_MAX {
            memory.clear();
            self.spare.push(memory);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.spare.is_empty()
    }
}
