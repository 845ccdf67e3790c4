//! Numbers as memcached parses them: like C's `strtoul`, up to white space; numbers too large for 32 bits lose their upper half.

/// Parses a 64-bit number. A minus sign is only accepted if the result, modulo 2^64, is below 2^63.
#[inline]
#[must_use]
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    let (is_negative, magnitude) = parse(text)?;
    let number = if is_negative { magnitude.wrapping_neg() } else { magnitude };
    (!is_negative || number <= i64::MAX as u64).then_some(number)
}

/// The lower 32 bits of a number that [`parse_u64`] accepts.
#[inline]
#[must_use]
pub fn parse_u32(text: &[u8]) -> Option<u32> {
    parse_u64(text).map(|number| number as u32)
}

/// The lower 32 bits of a signed 64-bit number.
#[inline]
#[must_use]
pub fn parse_i32(text: &[u8]) -> Option<i32> {
    let (is_negative, magnitude) = parse(text)?;
    let number = i128::from(magnitude) * if is_negative { -1 } else { 1 };
    i64::try_from(number).ok().map(|number| number as i32)
}

/// Sign and digits, after white space and followed by the end or white space.
fn parse(text: &[u8]) -> Option<(bool, u64)> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_space(byte))?;
    let (is_negative, digits) = match &text[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let count = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    let is_over = digits.get(count).is_none_or(is_space);
    if count == 0 || !is_over {
        return None;
    }
    let add = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    Some((is_negative, digits[..count].iter().try_fold(0, add)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, as_u64, as_i32) in [
            ("0", Some(0), Some(0)),
            ("+7", Some(7), Some(7)),
            ("-1", None, Some(-1)),
            ("12 abc", Some(12), Some(12)),
            (" 12", Some(12), Some(12)),
            ("12a", None, None),
            ("", None, None),
            ("-", None, None),
            ("2147483648", Some(2_147_483_648), Some(i32::MIN)),
            ("9223372036854775808", Some(1 << 63), None),
            ("18446744073709551615", Some(u64::MAX), None),
            ("18446744073709551616", None, None),
            ("-18446744073709551615", Some(1), None),
            ("-9223372036854775808", None, Some(0)),
        ] {
            assert_eq!(
                (parse_u64(text.as_bytes()), parse_i32(text.as_bytes())),
                (as_u64, as_i32),
                "{text:?}"
            );
        }
        assert_eq!(parse_u32(b"4294967297"), Some(1));
    }
}
