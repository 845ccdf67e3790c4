//! Bytes received and not yet consumed.
//!
//! A vector with a start: consuming moves the start, and only an append that lacks room moves bytes. An empty
//! buffer starts at its beginning again.

/// The input of one connection.
#[derive(Debug, Default)]
pub struct InputBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl InputBuffer {
    /// An empty buffer without memory.
    pub const fn new() -> InputBuffer {
        InputBuffer { bytes: Vec::new(), start: 0 }
    }

    /// What has not been consumed.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// How many bytes have not been consumed.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Whether all has been consumed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives up the first `len` bytes.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn consume(&mut self, len: usize) {
        assert!(len <= self.len(), "consumed more input than there is");
        self.start += len;
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Adds bytes at the end.
    pub fn append(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.bytes.capacity() - self.bytes.len() < bytes.len() {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Makes room for `len` bytes that are about to come, so that it need not grow step by step.
    pub fn reserve(&mut self, len: usize) {
        if len > self.bytes.capacity() - self.bytes.len() {
            self.bytes.drain(..self.start);
            self.start = 0;
            self.bytes.reserve_exact(len);
        }
    }

    /// How many bytes of memory it holds.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(crate) fn from_memory(bytes: Vec<u8>) -> InputBuffer {
        InputBuffer { bytes, start: 0 }
    }

    pub(crate) fn into_memory(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserving_keeps_what_is_there() {
        let mut input = InputBuffer::new();
        input.append(b"abc");
        input.consume(1);
        input.reserve(1000);
        assert_eq!(input.as_slice(), b"bc");
        let capacity = input.capacity();
        input.append(&[b'x'; 1000]);
        assert_eq!((input.len(), input.capacity()), (1002, capacity));
    }

    #[test]
    fn consumed_bytes_make_room_before_the_buffer_grows() {
        let mut input = InputBuffer::from_memory(Vec::with_capacity(8));
        input.append(b"abcdefgh");
        input.consume(6);
        assert_eq!(input.as_slice(), b"gh");
        input.append(b"ijklmn");
        assert_eq!(input.as_slice(), b"ghijklmn");
        assert_eq!(input.capacity(), 8);
        input.consume(8);
        assert!(input.is_empty());
        assert_eq!(input.capacity(), 8);
    }
}
