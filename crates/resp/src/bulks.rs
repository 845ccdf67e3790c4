//! Many bulk strings at once, for replies of hundreds of small elements.
//!
//! Written one at a time, each part of each string (its line, its bytes, CR LF) would read and update the end of the output, and
//! wait for the previous part's update. Here the tail is taken out of the output and its whole memory is initialised. So the only
//! state is one position, and short strings are written by a fixed number of wide stores, which may write more than is kept:
//!
//! ```text
//!   buffer:  … $5\r\nfirst\r\n $6\r\nsecond\r\n | 0 0 0 0 0 …
//!                                              ^ at           bytes after it are meaningless
//! ```

use crate::double::DoubleBuffer;
use crate::header::short_line_of;
use crate::output::Output;

/// Longer strings are copied like single ones.
const SHORT_BYTES_MAX: usize = 64;
/// Bytes that are copied in one step.
const WIDE_BYTES: usize = 16;
/// Longest line of a short string, as it is stored.
const LINE_BYTES: usize = 8;
/// Bytes that may be written for one short string, including those that are overwritten later.
const ROOM_BYTES: usize = LINE_BYTES + SHORT_BYTES_MAX + 2;
/// Bytes of the tail that are initialised at a time.
const STEP_BYTES: usize = 2048;

/// Writes bulk strings to the tail of an output.
#[derive(Debug)]
pub struct Bulks<'o> {
    out: &'o mut Output,
    /// The tail of the output, which has none in the meantime.
    buffer: Vec<u8>,
    /// End of the written bytes.
    at: usize,
}

impl Bulks<'_> {
    #[inline]
    pub(crate) fn write(out: &mut Output, write: impl FnOnce(&mut Bulks<'_>)) {
        let buffer = out.take_tail();
        let mut bulks = Bulks { at: buffer.len(), buffer, out };
        write(&mut bulks);
        bulks.put_back();
    }

    /// Writes a bulk string.
    #[inline(always)]
    pub fn push(&mut self, bytes: &[u8]) {
        self.push_ahead(bytes, bytes.len());
    }

    /// Writes the first `len` of `bytes` as a bulk string. The bytes after them may be read, which allows a faster copy.
    #[inline(always)]
    pub fn push_ahead(&mut self, bytes: &[u8], len: usize) {
        if len <= SHORT_BYTES_MAX
            && let Some(room) = self.buffer.get_mut(self.at..self.at + ROOM_BYTES)
        {
            let (line, line_len) = short_line_of(b'$', len);
            room[..LINE_BYTES].copy_from_slice(&line);
            let end = line_len + len;
            copy_short(&mut room[line_len..], bytes, len);
            room[end..end + 2].copy_from_slice(b"\r\n");
            self.at += end + 2;
        } else {
            self.push_otherwise(&bytes[..len]);
        }
    }

    /// Writes a double in its shortest form as a bulk string.
    pub fn push_double(&mut self, value: f64) {
        self.push(DoubleBuffer::new().format_bytes(value));
    }

    #[cold]
    #[inline(never)]
    fn push_otherwise(&mut self, bytes: &[u8]) {
        self.put_back();
        self.out.extend_bulk(bytes);
        self.buffer = self.out.take_tail();
        self.at = self.buffer.len();
        let readable = (self.at + STEP_BYTES).min(self.buffer.capacity());
        self.buffer.resize(readable, 0);
    }

    fn put_back(&mut self) {
        self.buffer.truncate(self.at);
        self.out.put_tail(std::mem::take(&mut self.buffer));
    }
}

/// Copies the first `len` bytes of `from`, at most [`SHORT_BYTES_MAX`], to `to`, which has room for that many; may
/// write bytes after them.
#[inline(always)]
fn copy_short(to: &mut [u8], from: &[u8], len: usize) {
    if let Some(whole) = from.first_chunk::<SHORT_BYTES_MAX>() {
        to[..SHORT_BYTES_MAX].copy_from_slice(whole);
    } else if len >= WIDE_BYTES {
        // The last steps overlap: a varying number of steps would be mispredicted.
        for step in 0..SHORT_BYTES_MAX / WIDE_BYTES {
            let offset = (step * WIDE_BYTES).min(len - WIDE_BYTES);
            to[offset..offset + WIDE_BYTES].copy_from_slice(&from[offset..offset + WIDE_BYTES]);
        }
    } else if len >= WIDE_BYTES / 2 {
        for offset in [0, len - WIDE_BYTES / 2] {
            to[offset..offset + WIDE_BYTES / 2].copy_from_slice(&from[offset..offset + WIDE_BYTES / 2]);
        }
    } else {
        to[..len].copy_from_slice(&from[..len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Strings that are written at once give the same output as single ones.
    fn check(before: &[u8], strings: &[Vec<u8>]) {
        let (mut expected, mut out) = (Output::new(), Output::new());
        expected.extend_from_slice(before);
        out.extend_from_slice(before);
        strings.iter().for_each(|string| expected.extend_bulk(string));
        Bulks::write(&mut out, |bulks| {
            for (string, number) in strings.iter().zip(0..) {
                let ahead = [&string[..], &vec![b'!'; number % 80]].concat();
                bulks.push_ahead(&ahead, string.len());
            }
        });
        assert!(out.to_vec() == expected.to_vec());
        assert_eq!(out.len(), expected.len());
        // The mark and subsequent output are as usual.
        let mark = out.mark();
        out.extend_from_slice(b"+OK\r\n");
        out.insert_at(mark, b"*1\r\n");
        assert!(out.to_vec().ends_with(b"*1\r\n+OK\r\n"));
    }

    #[test]
    fn all_lengths_are_written_as_they_are() {
        let strings: Vec<Vec<u8>> = (0..300).map(|length| vec![b'a' + (length % 26) as u8; length]).collect();
        check(b"", &strings);
        check(b"$1\r\nx\r\n", &strings);
        check(b"", &[]);
        check(b"before", &[vec![b'x'; 100_000], vec![], vec![b'y'; 20]]);
    }

    proptest! {
        #[test]
        fn many_are_written_as_they_are(before in 0..20_000usize, lengths in proptest::collection::vec(0..90usize, 0..2000)) {
            let strings: Vec<Vec<u8>> = lengths.iter().map(|&length| vec![b'0' + (length % 10) as u8; length]).collect();
            check(&vec![b'x'; before], &strings);
        }
    }
}
