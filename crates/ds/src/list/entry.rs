//! One element as bytes that can be read from either end: a string entry of Redis' listpack format.
//!
//! ```text
//! 10llllll                 value  back     below 64 bytes
//! 1110llll llllllll        value  back     below 4096
//! 11110000 4 bytes, LE     value  back     any
//! ```
//!
//! `back` is the length of header and value in groups of seven bits, to be read backwards: every byte but the first has
//! its top bit set. So the previous entry is found as easily as the next one.
//!
//! Redis stores a text that is an integer as a binary number instead. Here it stays a text, because elements
//! are borrowed as slices; [`listpack_bytes`] returns the size that Redis would need, on which its choice of
//! encoding depends.

use crate::num::{I64_TEXT_BYTES_MAX, parse_i64};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Length of the longest header plus the longest back length.
pub(crate) const OVERHEAD_BYTES_MAX: usize = 10;

/// Length of the entry for a value of `value_bytes`.
#[inline]
pub(crate) fn entry_bytes(value_bytes: usize) -> usize {
    let body = header_bytes(value_bytes) + value_bytes;
    body + back_bytes(body)
}

/// Bytes that `value` takes in Redis' listpack, where integers are packed. `entry_bytes` is the length of its entry here.
#[inline]
pub(crate) fn listpack_bytes(value: &[u8], entry_bytes: usize) -> usize {
    if value.len() > I64_TEXT_BYTES_MAX {
        return entry_bytes;
    }
    parse_i64(value).map_or(entry_bytes, integer_bytes)
}

/// Bytes that `number` takes in Redis' listpack.
#[inline]
pub(crate) fn integer_bytes(number: i64) -> usize {
    match number {
        0..=127 => 2,
        -4096..=4095 => 3,
        -0x8000..=0x7fff => 4,
        -0x80_0000..=0x7f_ffff => 5,
        -0x8000_0000..=0x7fff_ffff => 6,
        _ => 10,
    }
}

#[inline]
fn header_bytes(value_bytes: usize) -> usize {
    match value_bytes {
        0..64 => 1,
        64..4096 => 2,
        _ => 5,
    }
}

/// Length of the back length in Redis' listpacks, for a header and value of `body_bytes`. Redis chose limits of one
/// below a power of two for the larger lengths.
#[inline]
pub fn back_bytes(body_bytes: usize) -> usize {
    match body_bytes {
        0..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// Writes the entry for `value` to `out`, which must have exactly its length.
#[inline]
pub(crate) fn write(value: &[u8], out: &mut [MaybeUninit<u8>]) {
    let length = value.len();
    let header = header_bytes(length);
    match header {
        1 => _ = out[0].write(0x80 | length as u8),
        2 => _ = out[..2].write_copy_of_slice(&(0xE000 | length as u16).to_be_bytes()),
        _ => {
            out[0].write(0xF0);
            out[1..5].write_copy_of_slice(&(length as u32).to_le_bytes());
        }
    }
    let body = header + length;
    out[header..body].write_copy_of_slice(value);
    let mut rest = body;
    for (index, byte) in out[body..].iter_mut().enumerate().rev() {
        let goes_on = if index > 0 { 0x80 } else { 0 };
        byte.write(goes_on | (rest & 0x7F) as u8);
        rest >>= 7;
    }
}

/// Appends the entry for the concatenation of `parts`. Returns its length.
pub(crate) fn append(parts: [&[u8]; 2], bytes: &mut Vec<u8>) -> usize {
    let [length, before] = [parts[0].len() + parts[1].len(), bytes.len()];
    match header_bytes(length) {
        1 => bytes.push(0x80 | length as u8),
        2 => bytes.extend_from_slice(&(0xE000 | length as u16).to_be_bytes()),
        _ => {
            bytes.push(0xF0);
            bytes.extend_from_slice(&(length as u32).to_le_bytes());
        }
    }
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    let body = bytes.len() - before;
    for index in (0..back_bytes(body)).rev() {
        let goes_on = if bytes.len() > before + body { 0x80 } else { 0 };
        bytes.push(goes_on | (body >> (7 * index) & 0x7F) as u8);
    }
    bytes.len() - before
}

/// Range of the value in the entry at the beginning of `bytes`.
#[inline]
fn value_range(bytes: &[u8]) -> Range<usize> {
    let (header, length) = match bytes[0] {
        byte @ ..0xC0 => (1, usize::from(byte & 0x3F)),
        byte @ 0xC0..0xF0 => (2, usize::from(byte & 0x0F) << 8 | usize::from(bytes[1])),
        0xF0.. => (5, u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]) as usize),
    };
    header..header + length
}

/// The value of the entry at the beginning of `bytes`, and the length of the entry.
#[inline]
pub(crate) fn first(bytes: &[u8]) -> (&[u8], usize) {
    let (range, length) = first_range(bytes);
    (&bytes[range], length)
}

/// Range of the value of the entry at the beginning of `bytes`, and the length of the entry.
#[inline]
pub(super) fn first_range(bytes: &[u8]) -> (Range<usize>, usize) {
    let range = value_range(bytes);
    let body = range.end;
    (range, body + back_bytes(body))
}

/// The value of the entry at the end of `bytes`, and the length of the entry.
#[inline]
pub(crate) fn last(bytes: &[u8]) -> (&[u8], usize) {
    let (range, length) = last_range(bytes);
    (&bytes[range], length)
}

/// Range of the value of the entry at the end of `bytes`, and the length of the entry.
#[inline]
pub(super) fn last_range(bytes: &[u8]) -> (Range<usize>, usize) {
    let (mut body, mut shift) = (0, 0);
    for &byte in bytes.iter().rev() {
        body |= usize::from(byte & 0x7F) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let length = body + shift / 7;
    let start = bytes.len() - length;
    let range = value_range(&bytes[start..]);
    (start + range.start..start + range.end, length)
}

/// Skips `passed` values and calls `visit` for the next `count`, with the bytes from the value's start to the end, and its length.
#[inline]
pub(super) fn visit_ahead(bytes: &[u8], passed: usize, count: usize, visit: &mut impl FnMut(&[u8], usize)) {
    let mut rest = bytes;
    for _ in 0..passed {
        rest = &rest[first_range(rest).1..];
    }
    for _ in 0..count {
        let (range, length) = first_range(rest);
        visit(&rest[range.start..], range.len());
        rest = &rest[length..];
    }
}

/// Iterates over the values of a run of entries, from both ends.
#[derive(Clone, Default)]
pub(crate) struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes of the entries that have not been passed.
    pub(crate) fn rest_bytes(&self) -> usize {
        self.rest.len()
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let (value, length) = first(self.rest);
        self.rest = &self.rest[length..];
        Some(value)
    }
}

impl DoubleEndedIterator for Entries<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let (value, length) = last(self.rest);
        self.rest = &self.rest[..self.rest.len() - length];
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::{End, node::ListNode};

    /// The bytes of the entry for `value`.
    fn written(value: &[u8]) -> Vec<u8> {
        let mut node = ListNode::on(Box::new_uninit_slice(entry_bytes(value.len())));
        node.push(End::Tail, value);
        node.bytes().to_vec()
    }

    #[test]
    fn entries_read_from_both_ends() {
        for length in
            [0, 1, 63, 64, 126, 127, 4095, 4096, 16_377, 16_378, 16_379, 2_097_145, 2_097_146, 2_097_147]
        {
            let value = vec![b'v'; length];
            let bytes = written(&value);
            let mut appended = b"before".to_vec();
            let length_appended = append([&value[..length / 3], &value[length / 3..]], &mut appended);
            assert_eq!((length_appended, &appended[6..]), (bytes.len(), &bytes[..]), "{length}");
            assert_eq!(first(&bytes), (&value[..], bytes.len()), "{length}");
            assert_eq!(last(&bytes), (&value[..], bytes.len()), "{length}");
            assert!(bytes.len() - length <= OVERHEAD_BYTES_MAX);
        }
    }

    /// `RPUSH l hello <100 bytes>` as DUMP shows it in Redis.
    #[test]
    fn the_bytes_are_a_listpack() {
        assert_eq!(written(b"hello"), *b"\x85hello\x06");
        let bytes = written(&[b'x'; 100]);
        assert_eq!((&bytes[..2], &bytes[102..]), (&b"\xE0\x64"[..], &[0x66][..]));
    }

    #[test]
    fn integers_are_counted_as_redis_packs_them() {
        for (text, size) in [
            ("0", 2),
            ("127", 2),
            ("128", 3),
            ("-1", 3),
            ("-4097", 4),
            ("32768", 5),
            ("8388608", 6),
            ("2147483648", 10),
            ("-9223372036854775808", 10),
            ("007", 5),
        ] {
            assert_eq!(listpack_bytes(text.as_bytes(), entry_bytes(text.len())), size, "{text}");
        }
    }
}
