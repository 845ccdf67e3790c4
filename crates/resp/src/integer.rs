//! Decimal text to `i64`, as strictly as Redis parses it.
//!
//! Lengths on the wire and integers in values follow the same rule: only the exact text that printing the number would
//! give. No plus sign, no leading zeros, no `-0`, no blanks, no overflow. So an accepted number can be printed back to
//! the same bytes, which allows values to be stored as integers.

/// Parses the canonical decimal form of a number. Returns `None` for any other text.
#[inline]
#[must_use]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (digits, is_negative) = match text {
        [b'-', digits @ ..] => (digits, true),
        digits => (digits, false),
    };
    match digits {
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    // Accumulated as a negative number, because `i64::MIN` has no positive counterpart.
    let mut value = 0i64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if is_negative { Some(value) } else { value.checked_neg() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_canonical_decimals_only() {
        let check = |text: &str, expected: Option<i64>| {
            assert_eq!(parse_integer(text.as_bytes()), expected, "{text:?}")
        };
        check("0", Some(0));
        check("7", Some(7));
        check("-1", Some(-1));
        check("9223372036854775807", Some(i64::MAX));
        check("-9223372036854775808", Some(i64::MIN));
        for wrong in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            "-01",
            " 1",
            "1 ",
            "1x",
            "--1",
            "0x1",
            "1.0",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
            "00",
        ] {
            check(wrong, None);
        }
    }

    proptest! {
        #[test]
        fn printed_numbers_read_back(number: i64) {
            prop_assert_eq!(parse_integer(number.to_string().as_bytes()), Some(number));
        }

        #[test]
        fn whatever_is_read_prints_back(text in "-?[0-9]{0,20}") {
            if let Some(number) = parse_integer(text.as_bytes()) {
                prop_assert_eq!(number.to_string(), text);
            }
        }
    }
}
