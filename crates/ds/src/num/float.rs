//! Doubles: parsing arguments as Redis does with `strtod`, and C's `%.17g`.

use super::literal::{self, Magnitude};

/// Bits of a double's significand, and the range of exponents of its last bit.
const PRECISION: u32 = 53;
const EXPONENT_MIN: i64 = -1074;
const EXPONENT_MAX: i64 = 971;

/// Parses a score, an increment or another floating-point argument: any text that `strtod` consumes completely,
/// including infinities. Rejects NaN, leading blanks, and numbers that overflow to infinity or underflow to zero.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let (value, in_range) = parse_rounded(text)?;
    in_range.then_some(value)
}

/// Parses a text that `strtod` would consume completely: leading blanks are skipped, the text ends at its first NUL byte, and
/// an empty one is zero. A number out of range becomes infinite or zero; the flag says whether it was in range. Rejects NaN.
pub fn parse_strtod(text: &[u8]) -> Option<(f64, bool)> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let blanks = text.iter().take_while(|byte| is_blank(byte)).count();
    // If `strtod` finds no number, it consumes nothing, not even blanks.
    if text.is_empty() { Some((0.0, true)) } else { parse_rounded(&text[blanks..]) }
}

/// Like [`parse_f64`], but a number out of range becomes infinite or zero; the flag says whether it was in range.
fn parse_rounded(text: &[u8]) -> Option<(f64, bool)> {
    let literal = literal::parse(text)?;
    let (value, is_zero) = match &literal.magnitude {
        Magnitude::Infinite => return Some((signed(f64::INFINITY, literal.negative), true)),
        Magnitude::Decimal(decimal) => (fast_float2::parse(decimal.text).ok()?, decimal.is_zero()),
        Magnitude::Hexadecimal(hex) => {
            let (significand, exponent) =
                literal::round(hex.significand, hex.inexact, hex.exponent, PRECISION, EXPONENT_MIN);
            (compose(significand, exponent), hex.significand == 0)
        }
    };
    let in_range = value.is_finite() && (value != 0.0 || is_zero);
    Some((signed(value, literal.negative), in_range))
}

fn signed(value: f64, negative: bool) -> f64 {
    if negative { -value } else { value }
}

/// `significand × 2^exponent`, as returned by `round`.
fn compose(significand: u64, exponent: i64) -> f64 {
    if exponent > EXPONENT_MAX {
        return f64::INFINITY;
    }
    let hidden = 1 << (PRECISION - 1);
    if significand < hidden {
        return f64::from_bits(significand);
    }
    let biased = (exponent - EXPONENT_MIN + 1) as u64;
    f64::from_bits(biased << (PRECISION - 1) | (significand - hidden))
}

/// Appends `value` as C's `%.17g` writes it: 17 significant digits without trailing zeros, with an exponent if it is
/// below 1e-4 or at least 1e17.
pub fn format_f64_17g(value: f64, out: &mut Vec<u8>) {
    if !value.is_finite() {
        let sign = if value.is_sign_negative() { "-" } else { "" };
        let name = if value.is_nan() { "nan" } else { "inf" };
        out.extend_from_slice(sign.as_bytes());
        out.extend_from_slice(name.as_bytes());
        return;
    }
    let text = format!("{value:.16e}");
    let (mantissa, exponent) = text.split_once('e').expect("the exponent format has an e");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    if (-4..17).contains(&exponent) {
        let places = usize::try_from(16 - exponent).expect("the exponent is below 17");
        push_trimmed(&format!("{value:.places$}"), out);
    } else {
        push_trimmed(mantissa, out);
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{:02}", exponent.unsigned_abs()).as_bytes());
    }
}

/// Appends a decimal text without the trailing zeros of its fraction, and without the point if no digit remains after it.
fn push_trimmed(text: &str, out: &mut Vec<u8>) {
    let trimmed = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text };
    out.extend_from_slice(trimmed.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn arguments_as_strtod_reads_them() {
        let inf = f64::INFINITY;
        for (text, value) in [
            ("1", 1.0),
            ("+1", 1.0),
            ("-1.5e3", -1500.0),
            ("007", 7.0),
            ("1.", 1.0),
            (".5", 0.5),
            ("1.e2", 100.0),
            ("inf", inf),
            ("+InF", inf),
            ("-Infinity", -inf),
            ("0x10", 16.0),
            ("-0X1.8p1", -3.0),
            ("0x.8p-1", 0.25),
            ("0x1p-1074", 5e-324),
            ("0x1.8p-1074", 1e-323),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x1.fffffffffffff7ffffffffffffffffffffffffffff", 2.0f64.next_down()),
            ("0x1.fffffffffffff80000000000000000000000000001", 2.0),
            ("0x1.00000000000008", 1.0),
            ("0x1.000000000000080000000000000000000000000000000000000000000001", 1.0f64.next_up()),
            ("0x1.00000000000018", 1.0f64.next_up().next_up()),
            ("0x00000000000000000000000000000000000000000000000001", 1.0),
            ("4.9e-324", 5e-324),
            ("0e-999999999999999999999", 0.0),
            ("0e999999999999999999999", 0.0),
            ("0x0p99999999999999999999", 0.0),
        ] {
            assert_eq!(parse_f64(text.as_bytes()), Some(value), "{text:?}");
        }
        assert!(parse_f64(b"-0").is_some_and(|zero| zero == 0.0 && zero.is_sign_negative()));
    }

    #[test]
    fn refused_arguments() {
        for text in [
            "",
            " 1",
            "1 ",
            "+",
            "-",
            ".",
            "e5",
            "1e",
            "1e+",
            "0x",
            "0x.",
            "0x1p",
            "--1",
            "+-1",
            "nan",
            "-nan",
            "nan(1)",
            "infinit",
            "1e400",
            "-1e400",
            "1e-400",
            "0x1p1024",
            "0x1p-1076",
            "1_0",
            "1,5",
            "1\0",
        ] {
            assert_eq!(parse_f64(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn seventeen_digits() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.10000000000000001"),
            (-3.5, "-3.5"),
            (100.0, "100"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (1.0 + 1.0 / 131_072.0, "1.0000076293945312"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (99_999_999_999_999_990.0, "99999999999999984"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            let mut out = Vec::new();
            format_f64_17g(value, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
    }

    proptest! {
        #[test]
        fn doubles_come_back(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(!value.is_nan());
            let mut out = Vec::new();
            format_f64_17g(value, &mut out);
            prop_assert_eq!(parse_f64(&out).map(f64::to_bits), Some(bits));
        }

        #[test]
        fn any_bytes_are_answered(text in proptest::collection::vec(prop::sample::select(&b"+-.0159eExXpPaFinf \0"[..]), 0..12)) {
            let _ = parse_f64(&text);
        }
    }
}
