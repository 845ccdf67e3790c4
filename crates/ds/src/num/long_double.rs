//! The x87 `long double` in software, with which INCRBYFLOAT and HINCRBYFLOAT calculate.
//!
//! Redis reads both numbers with `strtold`, adds them as 80-bit floats and prints `%.17Lf` without trailing zeros. To
//! give the same digits on every machine, this has the same 64-bit significand, exponent range and rounding (half to
//! even). A finite value is `±significand × 2^exponent`:
//!
//! * parsing: the decimal text becomes a quotient of exact integers with more bits than needed, and a remainder is
//!   recorded as "inexact"; so rounding once is rounding correctly;
//! * adding: both are aligned in 128 bits; bits that are shifted out are recorded in the last one, where they only
//!   influence rounding;
//! * printing: 17 decimals come from one integer, `significand × 10^17` shifted right and rounded on the exact value.
//!
//! NaN has no representation: it is rejected when parsed, and a sum that is not finite is [`None`].

use std::cmp::Ordering;

use super::big::Natural;
use super::literal::{self, Decimal, Magnitude};

const PRECISION: u32 = 64;
/// Range of exponents of the significand's last bit.
const EXPONENT_MIN: i64 = -16_445;
const EXPONENT_MAX: i64 = 16_320;
/// Represents infinity.
const EXPONENT_INFINITE: i64 = i64::MAX;
/// Decimal exponents of the first digit beyond which a number certainly overflows or underflows.
const DECIMAL_EXPONENT_MAX: i64 = 4933;
const DECIMAL_EXPONENT_MIN: i64 = -4952;
/// Redis copies the text to a buffer of 5 KiB and rejects texts that do not fit with their terminator.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// Number of decimals printed.
const PLACES: usize = 17;

/// A number in the x87 extended format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    /// The top bit is set, unless the exponent is the smallest one or the value is an integer that was never rounded.
    significand: u64,
    exponent: i64,
}

impl LongDouble {
    /// Zero.
    pub const ZERO: LongDouble = LongDouble { negative: false, significand: 0, exponent: EXPONENT_MIN };
    /// The largest finite value.
    pub const MAX: LongDouble = LongDouble { negative: false, significand: u64::MAX, exponent: EXPONENT_MAX };
    /// The smallest finite value.
    pub const MIN: LongDouble = LongDouble { negative: true, ..LongDouble::MAX };

    /// Parses any text that `strtold` consumes completely, including infinities. Rejects NaN, leading blanks, overflow,
    /// underflow to zero, and texts of 5 KiB or more.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let literal = literal::parse(text)?;
        let (significand, exponent) = match literal.magnitude {
            Magnitude::Infinite => (0, EXPONENT_INFINITE),
            Magnitude::Hexadecimal(hex) => {
                let rounded =
                    literal::round(hex.significand, hex.inexact, hex.exponent, PRECISION, EXPONENT_MIN);
                in_range(rounded, hex.significand == 0)?
            }
            Magnitude::Decimal(decimal) if decimal.is_zero() => (0, EXPONENT_MIN),
            Magnitude::Decimal(decimal) => in_range(round_decimal(&decimal)?, false)?,
        };
        Some(Self { negative: literal.negative, significand, exponent })
    }

    /// Converts an integer, which is always exact.
    pub fn from_i64(value: i64) -> Self {
        Self { negative: value < 0, significand: value.unsigned_abs(), exponent: 0 }
    }

    /// Whether the value is not infinite.
    pub fn is_finite(self) -> bool {
        self.exponent != EXPONENT_INFINITE
    }

    /// The value with the other sign.
    #[must_use]
    pub fn negated(self) -> Self {
        Self { negative: !self.negative, ..self }
    }

    /// Whether the value is less than, equal to or greater than another. Zeros are equal, whatever their signs.
    pub fn compare(self, other: Self) -> Ordering {
        // With the top bit set, the exponent decides first.
        let magnitude = |value: Self| match value.significand {
            _ if !value.is_finite() => (EXPONENT_INFINITE, 0),
            0 => (i64::MIN, 0),
            significand => {
                let zeros = significand.leading_zeros();
                (value.exponent - i64::from(zeros), significand << zeros)
            }
        };
        let (left, right) = (magnitude(self), magnitude(other));
        let is_negative = |value: Self, (exponent, _)| value.negative && exponent != i64::MIN;
        match (is_negative(self, left), is_negative(other, right)) {
            (false, false) => left.cmp(&right),
            (true, true) => right.cmp(&left),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }

    /// The sum; `None` if it "would produce NaN or Infinity".
    pub fn checked_add(self, other: Self) -> Option<Self> {
        if !self.is_finite() || !other.is_finite() {
            return None;
        }
        // Scaled so that the top bit is two bits below that of 128: this leaves room for a carry, and 62 bits below the
        // significand.
        let scaled = |value: Self| {
            let zeros = value.significand.leading_zeros();
            (u128::from(value.significand) << (62 + zeros), value.exponent - 62 - i64::from(zeros))
        };
        let ((left, left_exponent), (right, right_exponent)) = (scaled(self), scaled(other));
        let exponent = match (self.significand, other.significand) {
            (0, _) => right_exponent,
            (_, 0) => left_exponent,
            _ => left_exponent.max(right_exponent),
        };
        let left = shift_right_sticky(left, exponent - left_exponent);
        let right = shift_right_sticky(right, exponent - right_exponent);
        let (magnitude, negative) = match (self.negative == other.negative, left >= right) {
            (true, _) => (left + right, self.negative),
            // Equal numbers of opposite sign give a positive zero.
            (false, true) => (left - right, self.negative && left != right),
            (false, false) => (right - left, other.negative),
        };
        let rounded = literal::round(magnitude, false, exponent, PRECISION, EXPONENT_MIN);
        let (significand, exponent) = in_range(rounded, true)?;
        Some(Self { negative, significand, exponent })
    }

    /// Appends the decimal text: up to 17 decimals, rounded half to even, without trailing zeros and never `-0`.
    pub fn format(self, out: &mut Vec<u8>) {
        let start = out.len();
        if self.negative {
            out.push(b'-');
        }
        if !self.is_finite() {
            out.extend_from_slice(b"inf");
            return;
        }
        if self.exponent >= 0 {
            let mut integer = Natural::from_u64(self.significand);
            integer.shift_left(self.exponent as u32);
            integer.write_decimal(out);
            return;
        }
        self.format_fraction(out);
        if &out[start..] == b"-0" {
            out.remove(start);
        }
    }

    /// Appends the magnitude of a number with a negative exponent.
    fn format_fraction(self, out: &mut Vec<u8>) {
        let scaled = u128::from(self.significand) * 10_u128.pow(PLACES as u32);
        let dropped = -self.exponent;
        let rounded = match dropped {
            // 10^17 takes 57 bits, so the product is below 2^121, less than half of the last decimal.
            123.. => 0,
            _ => {
                let (kept, half) = (scaled >> dropped, 1 << (dropped - 1));
                let rest = scaled & (half | (half - 1));
                kept + u128::from(rest > half || rest == half && kept & 1 == 1)
            }
        };
        let text = format!("{rounded:0width$}", width = PLACES + 1);
        let (integer, fraction) = text.split_at(text.len() - PLACES);
        let fraction = fraction.trim_end_matches('0');
        out.extend_from_slice(integer.as_bytes());
        if !fraction.is_empty() {
            out.push(b'.');
            out.extend_from_slice(fraction.as_bytes());
        }
    }
}

/// Rejects values that were rounded to infinity, or to zero from another value.
fn in_range((significand, exponent): (u64, i64), zero_is_exact: bool) -> Option<(u64, i64)> {
    (exponent <= EXPONENT_MAX && (significand != 0 || zero_is_exact)).then_some((significand, exponent))
}

/// Shifts right; if a one is shifted out, sets the last bit.
fn shift_right_sticky(value: u128, bits: i64) -> u128 {
    match bits {
        0 => value,
        1..128 => value >> bits | u128::from(value << (128 - bits) != 0),
        _ => u128::from(value != 0),
    }
}

/// The nearest long double to a non-zero decimal number; `None` if it is far out of range.
fn round_decimal(decimal: &Decimal<'_>) -> Option<(u64, i64)> {
    let digits = || decimal.integer.iter().chain(decimal.fraction).copied();
    let leading = digits().take_while(|&digit| digit == b'0').count();
    let trailing = digits().rev().take_while(|&digit| digit == b'0').count();
    let count = digits().count() - leading - trailing;
    let exponent = decimal.exponent - decimal.fraction.len() as i64 + trailing as i64;
    let first_digit_exponent = exponent + count as i64;
    if !(DECIMAL_EXPONENT_MIN..=DECIMAL_EXPONENT_MAX).contains(&first_digit_exponent) {
        return None;
    }
    // 10^n is 5^n shifted left, so only the power of five needs long arithmetic.
    let mut number = Natural::from_digits(digits().skip(leading).take(count));
    let power = u32::try_from(exponent.unsigned_abs()).expect("digits and exponent are bounded above");
    let (quotient, shift, inexact) = if exponent >= 0 {
        number.multiply_power_of_five(power);
        let (top, shift, lost) = number.top_bits();
        (top, i64::from(shift), lost)
    } else {
        number.divide(Natural::power_of_five(power))
    };
    Some(literal::round(quotient, inexact, shift + exponent, PRECISION, EXPONENT_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOT_A_FLOAT: &str = "value is not a valid float";
    const NOT_FINITE: &str = "increment would produce NaN or Infinity";

    fn increment(value: &str, by: &str) -> String {
        let parse = |text: &str| LongDouble::parse(text.as_bytes());
        let (Some(value), Some(by)) = (parse(value), parse(by)) else { return NOT_A_FLOAT.to_owned() };
        let Some(sum) = value.checked_add(by) else { return NOT_FINITE.to_owned() };
        let mut out = Vec::new();
        sum.format(&mut out);
        String::from_utf8(out).expect("digits are ASCII")
    }

    /// Each line is a reply of redis-server on x86-64 to SET and INCRBYFLOAT.
    #[test]
    fn increments_as_redis_computed_them() {
        for (value, by, sum) in [
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "200", "5200"),
            ("3", "1.1", "4.1"),
            ("0", "-0", "0"),
            ("-0.5", "0.5", "0"),
            ("0.1", "0.2", "0.3"),
            ("+.5", "1.", "1.5"),
            ("1e17", "0.1", "100000000000000000.1015625"),
            ("1.23456789012345678901", "0", "1.23456789012345679"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("18446744073709551615", "0.5", "18446744073709551616"),
            ("18446744073709551615", "1.5", "18446744073709551616"),
            ("-1e25", "1", "-10000000000000000000000000"),
            ("1e20", "-99999999999999999999", "0"),
            ("123456789.987654321", "-123456789.98765432", "0.00000000099680619"),
            ("1", "-1e-19", "1"),
            ("1", "5.4210108624275221700372640043497085571289062500000001e-20", "1"),
            ("1e-17", "0", "0.00000000000000001"),
            ("0.0000000000000000049", "0", "0"),
            ("-1e-20", "0", "0"),
            ("0.000003814697265625", "0", "0.00000381469726562"),
            ("2.2888183593750000005e-5", "0", "0.00002288818359375"),
            ("1e-4950", "0", "0"),
            ("0e5000", "1", "1"),
            ("0x1.8p1", "0x.8", "3.5"),
            ("0xfp-4", "0", "0.9375"),
            ("0x1.00000000000000018p0", "0", "1"),
            ("0x1.00000000000000008p63", "0", "9223372036854775808"),
            ("1.1897314953572317650e4932", "1.18973149535723176502e4932", NOT_FINITE),
            ("inf", "1", NOT_FINITE),
            ("inf", "-inf", NOT_FINITE),
            ("1.1897314953572317651e4932", "0", NOT_A_FLOAT),
            ("1e5000", "0", NOT_A_FLOAT),
            ("1e-5000", "0", NOT_A_FLOAT),
            ("1e-99999999999999999999", "0", NOT_A_FLOAT),
            ("nan", "0", NOT_A_FLOAT),
            ("", "0", NOT_A_FLOAT),
            (" 1", "0", NOT_A_FLOAT),
            ("1 ", "0", NOT_A_FLOAT),
            ("0x", "0", NOT_A_FLOAT),
            ("3.0e", "0", NOT_A_FLOAT),
        ] {
            assert_eq!(increment(value, by), sum, "{value} + {by}");
        }
    }

    #[test]
    fn values_are_ordered() {
        let texts = [
            "-inf", "-1e4000", "-2", "-1.5", "-1e-4000", "0", "1e-4000", "0x1p-64", "1", "3", "4", "1e300",
            "inf",
        ];
        let values: Vec<LongDouble> =
            texts.iter().map(|text| LongDouble::parse(text.as_bytes()).expect("a number")).collect();
        for (left, one) in values.iter().enumerate() {
            for (right, other) in values.iter().enumerate() {
                assert_eq!(one.compare(*other), left.cmp(&right), "{} and {}", texts[left], texts[right]);
            }
        }
        let value = |text: &str| LongDouble::parse(text.as_bytes()).expect("a number");
        assert_eq!(value("-0").compare(LongDouble::ZERO), Ordering::Equal);
        assert_eq!(LongDouble::from_i64(6).compare(value("6")), Ordering::Equal);
        assert_eq!(LongDouble::MAX.compare(value("1.1897314953572317650e4932")), Ordering::Equal);
        assert_eq!(LongDouble::MIN, LongDouble::MAX.negated());
    }

    #[test]
    fn large_integers_print_in_full() {
        let text = increment("1e300", "1");
        assert_eq!(text.len(), 301);
        assert!(text.starts_with("1000000000000000000008997324079559193870"), "{text}");
        assert!(text.ends_with("187386105690089424915104006144"), "{text}");
        assert_eq!(increment("1.1897314953572317650e4932", "0").len(), 4933);
    }

    #[test]
    fn the_text_has_a_limit() {
        let zeros = |count: usize| format!("{}1", "0".repeat(count));
        assert_eq!(increment(&zeros(TEXT_BYTES_MAX - 1), "1"), "2");
        assert_eq!(increment(&zeros(TEXT_BYTES_MAX), "1"), NOT_A_FLOAT);
        let long = format!("0.{}e-100", "7".repeat(5000));
        assert_eq!(increment(&long, "1"), "1");
    }

    proptest! {
        #[test]
        fn integers_add_exactly(left: i64, right: i64) {
            let (mut out, sum) = (Vec::new(), i128::from(left) + i128::from(right));
            let computed = LongDouble::from_i64(left).checked_add(LongDouble::from_i64(right));
            computed.expect("a sum of integers is finite").format(&mut out);
            prop_assert_eq!(String::from_utf8_lossy(&out), sum.to_string());
            prop_assert_eq!(increment(&left.to_string(), &right.to_string()), sum.to_string());
        }

        /// Sums of such fractions fit in a double, so both types represent them exactly.
        #[test]
        fn doubles_add_exactly(left in -1_000_000_000_i64..1_000_000_000, right in -1_000_000_000_i64..1_000_000_000) {
            let text = |value: i64| format!("{:.10}", value as f64 / 1024.0);
            let sum = (left + right) as f64 / 1024.0;
            let sum = if sum == 0.0 { 0.0 } else { sum };
            prop_assert_eq!(increment(&text(left), &text(right)), sum.to_string());
        }

        #[test]
        fn any_bytes_are_answered(text in proptest::collection::vec(prop::sample::select(&b"+-.0159eExXpPaFinf \0"[..]), 0..16)) {
            if let Some(value) = LongDouble::parse(&text) {
                value.format(&mut Vec::new());
                let _ = value.checked_add(value);
            }
        }
    }
}
