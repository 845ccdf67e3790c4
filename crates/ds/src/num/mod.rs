//! Numbers in the protocol: which texts are numbers, and how numbers are written.
//!
//! [`parse_i64`] is the strict integer of arguments and of the integer encodings. Floating point follows C, because
//! Redis passes its arguments to `strtod` and `strtold`: [`parse_f64`] for scores and similar arguments, [`LongDouble`]
//! for INCRBYFLOAT, [`parse_score_bound`] for the ends of score ranges, which are laxer. The shortest decimal form of a
//! double, which replies use, is in the reply encoder.

mod big;
mod bound;
mod float;
mod literal;
mod long_double;

pub use bound::{LexBound, ScoreBound, parse_lex_bound, parse_score_bound};
pub use float::{format_f64_17g, parse_f64, parse_strtod};
pub use long_double::LongDouble;

/// Length of the longest 64-bit integer, including its sign.
pub const I64_TEXT_BYTES_MAX: usize = 20;

/// Parses an integer exactly as Redis would write it: no plus sign, no leading zero, no space, no `-0`. For any text
/// that it accepts, [`format_i64`] returns the same bytes.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if text.len() <= I64_TEXT_BYTES_MAX => {}
        _ => return None,
    }
    let mut magnitude: u64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    if negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Appends the decimal text of `value`.
pub fn format_i64(value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_are_strict() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("18446744073709551616", None),
            ("99999999999999999999999", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("+1", None),
            ("01", None),
            (" 1", None),
            ("1 ", None),
            ("1a", None),
        ] {
            assert_eq!(parse_i64(text.as_bytes()), value, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn integers_come_back(value: i64, garbage in proptest::collection::vec(any::<u8>(), 0..24)) {
            let mut text = Vec::new();
            format_i64(value, &mut text);
            prop_assert_eq!(parse_i64(&text), Some(value));
            if let Some(value) = parse_i64(&garbage) {
                text.clear();
                format_i64(value, &mut text);
                prop_assert_eq!(text, garbage);
            }
        }
    }
}
