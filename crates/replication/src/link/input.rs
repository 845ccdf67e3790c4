//! What was received and not yet dealt with.

/// A buffer larger than this is given back when it is empty: one command made it so.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A line did not end.
pub(super) struct LineTooLong;

/// Received bytes, from the front of which some may be lent.
#[derive(Debug, Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    /// Where those begin that were not dealt with.
    start: usize,
    /// How many of those are lent.
    lent: usize,
}

impl Input {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Everything that was not dealt with.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(super) fn len(&self) -> usize {
        self.rest().len()
    }

    /// Lends the first `length` bytes.
    pub(super) fn lend(&mut self, length: usize) -> &[u8] {
        self.lent = length;
        &self.bytes[self.start..self.start + length]
    }

    pub(super) fn lent_bytes(&self) -> usize {
        self.lent
    }

    /// What is lent was not dealt with.
    pub(super) fn take_back(&mut self) {
        self.lent = 0;
    }

    /// What is lent was dealt with; how many bytes that was.
    pub(super) fn consume_lent(&mut self) -> usize {
        let lent = std::mem::take(&mut self.lent);
        self.consume(lent);
        lent
    }

    /// The next line without its end, if it has come.
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
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
            if self.bytes.capacity() > KEPT_BYTES_MAX {
                self.bytes = Vec::new();
            }
        }
    }
}
