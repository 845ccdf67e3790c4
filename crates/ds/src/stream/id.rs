//! The id of an entry: milliseconds and a sequence number, `1700000000000-0`.

use std::fmt;

use crate::num::parse_i64;

/// Longer texts are never ids.
const TEXT_BYTES_MAX: usize = 127;

/// An id. Ids ascend along a stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StreamId {
    /// Milliseconds since 1970, unless the client chose another number.
    pub ms: u64,
    /// Distinguishes entries of the same millisecond.
    pub seq: u64,
}

impl StreamId {
    /// `0-0`, which no entry has.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The largest id.
    pub const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    /// The next larger id; `None` after the largest.
    pub fn next(self) -> Option<StreamId> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId { ms: self.ms, seq }),
            None => Some(StreamId { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The next smaller id; `None` before the smallest.
    pub fn prev(self) -> Option<StreamId> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId { ms: self.ms, seq }),
            None => Some(StreamId { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    /// Parses `ms-seq`, or `ms` alone, which leaves the sequence number open.
    pub fn parse(text: &[u8]) -> Option<(u64, Option<u64>)> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let text = until_zero(text);
        match text.iter().position(|&byte| byte == b'-') {
            None => Some((parse_part(text)?, None)),
            Some(dash) => Some((parse_part(&text[..dash])?, Some(parse_part(&text[dash + 1..])?))),
        }
    }

    /// Parses the `ms` of `ms-*`.
    pub fn parse_open(text: &[u8]) -> Option<u64> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let text = until_zero(text);
        let dash = text.iter().position(|&byte| byte == b'-')?;
        if &text[dash + 1..] == b"*" { parse_part(&text[..dash]) } else { None }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// Redis reads ids as C strings, which end at the first zero byte.
fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Parses a number as Redis does: in canonical form, or else as C's `strtoull` does, which accepts blanks, a sign (`-`
/// negates, modulo 2^64) and leading zeros.
fn parse_part(text: &[u8]) -> Option<u64> {
    if let Some(number) = parse_i64(text) {
        return u64::try_from(number).ok();
    }
    let text = &text[text.iter().take_while(|byte| b" \t\n\x0b\x0c\r".contains(byte)).count()..];
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })?;
    Some(if is_negative { number.wrapping_neg() } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_redis_reads_them() {
        for (text, expected) in [
            ("1-2", Some((1, Some(2)))),
            ("5", Some((5, None))),
            ("0-0", Some((0, Some(0)))),
            ("18446744073709551615-18446744073709551615", Some((u64::MAX, Some(u64::MAX)))),
            ("18446744073709551616-0", None),
            ("1-18446744073709551616", None),
            ("007-01", Some((7, Some(1)))),
            ("+1- 2", Some((1, Some(2)))),
            ("1--5", None),
            ("1--05", Some((1, Some(u64::MAX - 4)))),
            ("1-1\0x", Some((1, Some(1)))),
            ("", None),
            ("-", None),
            ("1-", None),
            ("-1", None),
            ("1-*", None),
            ("1-1-1", None),
            ("1.5", None),
            ("a-1", None),
        ] {
            assert_eq!(StreamId::parse(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(StreamId::parse(&[b'0'; 128]), None);
        assert_eq!(StreamId::parse(&[b'0'; 127]), Some((0, None)));
        assert_eq!(StreamId::parse_open(b"12-*"), Some(12));
        for text in ["12-**", "12", "*", "-*", "12-1"] {
            assert_eq!(StreamId::parse_open(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn neighbours_carry_and_end() {
        let id = |ms, seq| StreamId { ms, seq };
        assert_eq!(id(1, u64::MAX).next(), Some(id(2, 0)));
        assert_eq!(id(2, 0).prev(), Some(id(1, u64::MAX)));
        assert_eq!((StreamId::MAX.next(), StreamId::MIN.prev()), (None, None));
        assert_eq!(id(1, 2).to_string(), "1-2");
    }
}
