//! The line `<type byte><integer>\r\n` that opens nearly everything in a reply.
//!
//! Integers below 256 (counts, flags, short bulk lengths) come ready from a table of eight-byte entries, so that such a
//! line costs one eight-byte store; the rest goes through `itoa`.

use crate::output::Output;

/// Longest line: the type byte, 20 characters of `i64::MIN`, CR and LF.
const LINE_BYTES_MAX: usize = 23;

/// Entry n is `n\r\n` behind a zero byte for the type, padded with zeros, as a little-endian number: the type can be or-ed in.
static SHORT_LINES: [u64; 256] = short_lines();

const fn short_lines() -> [u64; 256] {
    let mut lines = [0; 256];
    let mut number = 0;
    while number < lines.len() {
        let mut line = [0u8; 8];
        let mut end = 1;
        let mut scale = if number >= 100 {
            100
        } else if number >= 10 {
            10
        } else {
            1
        };
        while scale > 0 {
            line[end] = b'0' + (number / scale % 10) as u8;
            end += 1;
            scale /= 10;
        }
        line[end] = b'\r';
        line[end + 1] = b'\n';
        lines[number] = u64::from_le_bytes(line);
        number += 1;
    }
    lines
}

/// Appends `<kind><number>\r\n` to `out`.
#[inline]
pub(crate) fn write_header(out: &mut Output, kind: u8, number: i64) {
    // A negative number turns into an index far beyond the table.
    if let Some(&line) = SHORT_LINES.get(number as usize) {
        let length = 4 + usize::from(number >= 10) + usize::from(number >= 100);
        out.extend_padded((line | u64::from(kind)).to_le_bytes(), length);
    } else {
        write_long(out, kind, number);
    }
}

fn write_long(out: &mut Output, kind: u8, number: i64) {
    out.extend_from_slice(Header::new(kind, number).as_slice());
}

/// One header line on the stack, for the places that need it as a slice.
pub(crate) struct Header {
    bytes: [u8; LINE_BYTES_MAX],
    length: usize,
}

impl Header {
    pub(crate) fn new(kind: u8, number: i64) -> Header {
        let mut bytes = [0; LINE_BYTES_MAX];
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(number).as_bytes();
        let length = digits.len() + 3;
        bytes[0] = kind;
        bytes[1..=digits.len()].copy_from_slice(digits);
        bytes[length - 2..length].copy_from_slice(b"\r\n");
        Header { bytes, length }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_and_long_form_agree_with_formatting() {
        for number in (-300..1200).chain([i64::MIN, i64::MAX]) {
            let expected = format!(":{number}\r\n").into_bytes();
            let mut out = Output::new();
            write_header(&mut out, b':', number);
            assert_eq!(out.to_vec(), expected);
            assert_eq!(Header::new(b':', number).as_slice(), expected);
        }
    }
}
