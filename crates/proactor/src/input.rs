//! Bytes received and not yet consumed.
//!
//! A vector with a start: consuming moves the start, and only an append that lacks space moves bytes. An
//! empty buffer starts at its beginning again.

/// Most bytes that one read may return.
const READ_BYTES: usize = 64 * 1024;
/// Buffers double up to this size. Larger ones grow by a quarter, so that they take little more than what
/// arrived; from 4 MiB on this copies nothing (`heap`).
const DOUBLED_BYTES_MAX: usize = 1 << 20;

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

    /// The bytes that have not been consumed.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Number of bytes that have not been consumed.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Whether all has been consumed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Consumes the first `len` bytes.
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

    /// Whether this many bytes can be added without more memory, and without moving any.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        self.bytes.capacity() - self.bytes.len() >= len
    }

    /// Adds bytes at the end.
    pub fn append(&mut self, bytes: &[u8]) {
        if !self.has_room(bytes.len()) {
            self.make_room(bytes.len(), 0);
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Reserves space for some of the `len` bytes that are announced, in proportion to what has arrived. So
    /// the buffer does not grow with every read, and takes little more memory than the client has sent.
    pub fn expect(&mut self, len: usize) {
        if self.bytes.capacity() - self.bytes.len() < len.min(READ_BYTES) {
            self.make_room(len.min(READ_BYTES), len);
        }
    }

    /// Reserves space for `needed` bytes, and for more if more are `announced`. If none are, reserves a
    /// likely amount.
    #[inline(never)]
    fn make_room(&mut self, needed: usize, announced: usize) {
        self.bytes.drain(..self.start);
        self.start = 0;
        let came = self.bytes.len();
        let growth = if came < DOUBLED_BYTES_MAX { came } else { came / 4 };
        let growth = if announced > 0 { growth.min(announced) } else { growth };
        if self.bytes.capacity() - came < needed {
            self.bytes.reserve_exact(growth.max(needed));
        }
    }

    /// Bytes of memory that it holds.
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
    fn what_is_announced_makes_room_in_proportion_to_what_came() {
        const ANNOUNCED: usize = 512 << 20;
        let (mut input, mut growths, mut capacity) = (InputBuffer::new(), 0, 0);
        input.append(b"xx$536870912\r\n");
        input.consume(2);
        for _ in 0..640 {
            input.expect(ANNOUNCED - input.len());
            growths += usize::from(input.capacity() != capacity);
            capacity = input.capacity();
            input.append(&[b'x'; READ_BYTES / 2]);
            let most = if input.len() < DOUBLED_BYTES_MAX { 2 * input.len() } else { input.len() / 4 * 5 };
            assert!(capacity <= most + 2 * READ_BYTES, "{capacity} for {}", input.len());
        }
        assert_eq!(&input.as_slice()[..14], b"$536870912\r\nxx");
        assert!(growths < 30, "{growths}");
    }

    #[test]
    fn what_is_announced_fits_at_once_if_it_is_short() {
        let mut input = InputBuffer::new();
        input.append(b"abc");
        input.consume(1);
        input.expect(1000);
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
