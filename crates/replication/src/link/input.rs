//! Received bytes that have not been handled yet.

/// An empty buffer that is larger than this is freed, because a single command made it grow.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A line is too long.
pub(super) struct LineTooLong;

/// Received bytes, some of which may be lent from the front.
#[derive(Debug, Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    /// Where the unhandled bytes begin.
    start: usize,
    /// The number of unhandled bytes that are lent.
    lent: usize,
}

impl Input {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// All unhandled bytes.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(super) fn len(&self) -> usize {
        self.rest().len()
    }

    /// Lends this many bytes after those that are lent.
    pub(super) fn lend(&mut self, length: usize) -> &[u8] {
        let start = self.start + self.lent;
        self.lent += length;
        &self.bytes[start..start + length]
    }

    /// The bytes that are not lent.
    pub(super) fn unlent(&self) -> &[u8] {
        &self.bytes[self.start + self.lent..]
    }

    pub(super) fn lent(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.lent]
    }

    pub(super) fn lent_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.lent]
    }

    /// Takes back lent bytes after the first `kept`, which were not handled.
    pub(super) fn take_back(&mut self, kept: usize) {
        self.lent = self.lent.min(kept);
    }

    /// Removes the lent bytes, which were handled. Returns their number.
    pub(super) fn consume_lent(&mut self) -> usize {
        let lent = std::mem::take(&mut self.lent);
        self.consume(lent);
        lent
    }

    /// The next line without its end, if it has arrived.
    pub(super) fn line(&mut self, bytes_max: usize) -> Result<Option<Vec<u8>>, LineTooLong> {
        let rest = self.rest();
        let window = &rest[..rest.len().min(bytes_max)];
        let Some(end) = memchr::memchr(b'\n', window) else {
            return if window.len() == bytes_max { Err(LineTooLong) } else { Ok(None) };
        };
        let line = window[..end].strip_suffix(b"\r").unwrap_or(&window[..end]).to_vec();
        self.consume(end + 1);
        Ok(Some(line))
    }

    fn consume(&mut self, length: usize) {
        self.start += length;
        assert!(self.start + self.lent <= self.bytes.len(), "only what has come is handled");
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
            if self.bytes.capacity() > KEPT_BYTES_MAX {
                self.bytes = Vec::new();
            }
        }
    }
}
