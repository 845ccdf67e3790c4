//! The line `<type byte><integer>\r\n` that begins nearly everything in a reply.
//!
//! A line of up to eight bytes is one number in a register, least significant byte first, and is written by one store.
//! The lines of integers below 256 (counts, flags, short bulk lengths) come from a table; those of up to five digits
//! are built in a register, without a loop. All others go through `itoa`.

use crate::output::Output;

/// Longest line: the type byte, 20 characters of `i64::MIN`, CR and LF.
const LINE_BYTES_MAX: usize = 23;

/// The largest number whose line has at most eight bytes.
const SHORT_MAX: i64 = 99_999;

/// The lines of the smallest numbers, without their type.
static SHORT_LINES: [u64; 256] = short_lines();

const fn short_lines() -> [u64; 256] {
    let mut lines = [0; 256];
    let mut number = 0;
    while number < lines.len() {
        lines[number] = short_line(number as u32).0;
        number += 1;
    }
    lines
}

/// `number\r\n` after a zero byte, into which the type can be or-ed, and the length of the line. The number has at most
/// five digits.
#[inline]
const fn short_line(number: u32) -> (u64, usize) {
    let (first, last_four) = (number / 10_000, number % 10_000);
    // Two numbers below 100 in the halves of a word: their tens, computed as 103 / 1024 of them, and the remainders.
    let pairs = (last_four / 100) | ((last_four % 100) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000F_000F;
    let digits = first as u64 | (((tens | ((pairs - tens * 10) << 8)) as u64) << 8);
    // The first digit is the lowest byte: leading zeros are skipped, except the last digit.
    let skipped = (digits | (1 << 32)).trailing_zeros() as usize / 8;
    let text = (digits | 0x30_3030_3030) >> (8 * skipped);
    let count = 5 - skipped;
    let end = u16::from_le_bytes(*b"\r\n") as u64;
    ((text << 8) | (end << (8 + 8 * count)), count + 3)
}

/// Appends `<kind><number>\r\n` to `out`.
#[inline]
pub(crate) fn write_header(out: &mut Output, kind: u8, number: i64) {
    // A negative number becomes an index far beyond the table.
    if let Some(&line) = SHORT_LINES.get(number as usize) {
        let length = 4 + usize::from(number >= 10) + usize::from(number >= 100);
        out.extend_padded((line | u64::from(kind)).to_le_bytes(), length);
    } else {
        write_long(out, kind, number);
    }
}

/// The line of a number below 256, padded to eight bytes, and its length.
#[inline(always)]
pub(crate) fn short_line_of(kind: u8, number: usize) -> ([u8; 8], usize) {
    let length = 4 + usize::from(number >= 10) + usize::from(number >= 100);
    ((SHORT_LINES[number] | u64::from(kind)).to_le_bytes(), length)
}

fn write_long(out: &mut Output, kind: u8, number: i64) {
    if (0..=SHORT_MAX).contains(&number) {
        let (line, length) = short_line(number as u32);
        out.extend_padded((line | u64::from(kind)).to_le_bytes(), length);
    } else {
        out.extend_from_slice(Header::new(kind, number).as_slice());
    }
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
        for number in (-300..10_010).chain(99_990..100_010).chain([i64::MIN, i64::MAX]) {
            let expected = format!(":{number}\r\n").into_bytes();
            let mut out = Output::new();
            write_header(&mut out, b':', number);
            assert_eq!(out.to_vec(), expected);
            assert_eq!(Header::new(b':', number).as_slice(), expected);
        }
    }
}
