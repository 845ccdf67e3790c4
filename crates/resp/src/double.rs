//! Doubles as text, in the format of Redis 7.2.
//!
//! Whole numbers of at most 2^62 are printed as integers. Everything else takes the shortest decimal digits that read
//! back to the same bits (from `zmij`) in the format of Redis' `fpconv_dtoa`: with n digits d and the value d·10^k,
//!
//! - k >= 0 and |k + n - 1| < n + 7: all digits, then k zeros: `12345678901234567000`;
//! - k < 0 and (k > -7 or |k + n - 1| < 4): a decimal fraction: `0.1`, `0.000001`, `3.141592653589793`;
//! - otherwise scientific, exponent with sign and without padding: `1e+20`, `1.5e-7`.
//!
//! The digit generator of Redis (Grisu2) misses the shortest form of about one double in a thousand, by one digit; this
//! one never does.

use crate::integer::parse_integer;

/// Longest text: sign, 17 digits, 7 zeros.
const TEXT_BYTES_MAX: usize = 25;
/// Whole numbers up to this one are printed as integers: `LLONG_MAX / 2` as Redis rounds it to a double.
const INTEGER_MAX: f64 = (1u64 << 62) as f64;

/// A buffer for one double's text.
#[derive(Clone, Debug)]
pub struct DoubleBuffer {
    bytes: [u8; TEXT_BYTES_MAX],
    length: usize,
}

impl Default for DoubleBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl DoubleBuffer {
    /// An empty buffer, on the stack.
    #[must_use]
    pub fn new() -> DoubleBuffer {
        DoubleBuffer { bytes: [0; TEXT_BYTES_MAX], length: 0 }
    }

    /// The text of `value`.
    pub fn format(&mut self, value: f64) -> &str {
        std::str::from_utf8(self.format_bytes(value)).expect("only ASCII was pushed")
    }

    /// The text of `value` as bytes.
    pub(crate) fn format_bytes(&mut self, value: f64) -> &[u8] {
        self.length = 0;
        if value.is_nan() {
            self.push(b"nan");
        } else if value.is_infinite() {
            self.push(if value > 0.0 { b"inf" } else { b"-inf" });
        } else if value == 0.0 {
            self.push(if value.is_sign_negative() { b"-0" } else { b"0" });
        } else if value.abs() <= INTEGER_MAX && (value as i64) as f64 == value {
            self.push(itoa::Buffer::new().format(value as i64).as_bytes());
        } else {
            self.push_shortest(value);
        }
        &self.bytes[..self.length]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn push_zeros(&mut self, count: usize) {
        self.push(&b"0000000"[..count]);
    }

    /// Writes a finite value that is not whole or is too large for an integer.
    fn push_shortest(&mut self, value: f64) {
        let mut text = zmij::Buffer::new();
        let text = text.format_finite(value).as_bytes();
        // The usual fraction already has the right form. In such a short text, a byte loop is faster than a vectorised search.
        if let Some(point) = text.iter().position(|byte| matches!(byte, b'.' | b'e'))
            && text[point] == b'.'
            && (text.len() - point <= 7 || (1e-3..1e4).contains(&value.abs()))
            && !text[point..].contains(&b'e')
            && !text.ends_with(b"0")
        {
            self.push(text);
        } else {
            self.push_decimal(&Decimal::read(text));
        }
    }

    fn push_decimal(&mut self, decimal: &Decimal) {
        let digits = &decimal.digits[..decimal.digit_count];
        let k = decimal.exponent;
        let n = digits.len() as i32;
        let magnitude = k + n - 1;
        if decimal.is_negative {
            self.push(b"-");
        }
        if k >= 0 && magnitude.abs() < n + 7 {
            self.push(digits);
            self.push_zeros(k as usize);
        } else if k < 0 && (k > -7 || magnitude.abs() < 4) {
            let whole = n + k;
            if whole <= 0 {
                self.push(b"0.");
                self.push_zeros(whole.unsigned_abs() as usize);
                self.push(digits);
            } else {
                let (whole, fraction) = digits.split_at(whole as usize);
                self.push(whole);
                self.push(b".");
                self.push(fraction);
            }
        } else {
            self.push(&digits[..1]);
            if n > 1 {
                self.push(b".");
                self.push(&digits[1..]);
            }
            self.push(if magnitude < 0 { b"e-" } else { b"e+" });
            self.push(itoa::Buffer::new().format(magnitude.unsigned_abs()).as_bytes());
        }
    }
}

/// Appends the text of `value` to `out`.
pub fn format_double(value: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(DoubleBuffer::new().format(value).as_bytes());
}

/// Shortest digits without zeros at either end, and the exponent of the last digit.
struct Decimal {
    digits: [u8; 17],
    digit_count: usize,
    exponent: i32,
    is_negative: bool,
}

impl Decimal {
    /// Parses `zmij`'s text of a non-zero number: `[-]d*[.d*][e[-]d*]`.
    fn read(text: &[u8]) -> Decimal {
        let mut decimal = Decimal { digits: [0; 17], digit_count: 0, exponent: 0, is_negative: false };
        let mut is_fraction = false;
        // Zeros are only written when another digit follows, so those at the end only count towards the exponent.
        let mut zeros = 0;
        for (index, &byte) in text.iter().enumerate() {
            match byte {
                b'-' => decimal.is_negative = true,
                b'.' => is_fraction = true,
                b'e' => {
                    let exponent = &text[index + 1..];
                    let exponent = exponent.strip_prefix(b"+").unwrap_or(exponent);
                    decimal.exponent += parse_integer(exponent).expect("an exponent is an integer") as i32;
                    break;
                }
                digit => {
                    decimal.exponent -= i32::from(is_fraction);
                    if digit == b'0' {
                        zeros += usize::from(decimal.digit_count > 0);
                        continue;
                    }
                    decimal.digits[decimal.digit_count..decimal.digit_count + zeros].fill(b'0');
                    decimal.digit_count += zeros;
                    decimal.digits[decimal.digit_count] = digit;
                    decimal.digit_count += 1;
                    zeros = 0;
                }
            }
        }
        decimal.exponent += zeros as i32;
        decimal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn layout_follows_redis() {
        let check = |value: f64, expected: &str| {
            assert_eq!(DoubleBuffer::new().format(value), expected);
            if value != 0.0 && !value.is_nan() {
                assert_eq!(DoubleBuffer::new().format(-value), format!("-{expected}"));
            }
        };
        check(0.0, "0");
        check(-0.0, "-0");
        check(f64::INFINITY, "inf");
        check(f64::NAN, "nan");
        check(-f64::NAN, "nan");
        check(1.0, "1");
        check(3.0, "3");
        check(100.0, "100");
        check(0.1, "0.1");
        check(0.1 + 0.2, "0.30000000000000004");
        check(3.5, "3.5");
        check(1234.5678, "1234.5678");
        check(31.41592653589793, "31.41592653589793");
        check(0.001, "0.001");
        check(0.000001, "0.000001");
        check(0.0000001, "1e-7");
        check(0.00000015, "1.5e-7");
        check(1.2345678901234567e-3, "0.0012345678901234567");
        check(1.2345678901234567e-4, "1.2345678901234567e-4");
        check(1.2345678901234568e-5, "1.2345678901234568e-5");
        check(1e15, "1000000000000000");
        check(1e18, "1000000000000000000");
        check(4611686018427387904.0, "4611686018427387904");
        check(4611686018427388928.0, "4611686018427389000");
        check(1e19, "1e+19");
        check(1e20, "1e+20");
        check(1e21, "1e+21");
        check(12345678901234567000.0, "12345678901234567000");
        check(1.234567890123456e22, "12345678901234560000000");
        check(1.234567890123456e23, "1.234567890123456e+23");
        check(1.5e300, "1.5e+300");
        check(1e100, "1e+100");
        check(5e-324, "5e-324");
        check(f64::MAX, "1.7976931348623157e+308");
        check(f64::MIN_POSITIVE, "2.2250738585072014e-308");
        check(1717171717.123456, "1717171717.123456");
    }

    proptest! {
        #[test]
        fn text_reads_back_to_the_same_bits(bits: u64) {
            let value = f64::from_bits(bits);
            let mut text = Vec::new();
            format_double(value, &mut text);
            let parsed: f64 = std::str::from_utf8(&text).unwrap().parse().unwrap();
            if value.is_nan() {
                prop_assert!(parsed.is_nan());
            } else {
                prop_assert_eq!(parsed.to_bits(), value.to_bits());
            }
        }

        #[test]
        fn everyday_magnitudes_read_back(mantissa in -1_000_000_000_000i64..1_000_000_000_000, scale in -20i32..25) {
            let value = mantissa as f64 * 10f64.powi(scale);
            prop_assert_eq!(DoubleBuffer::new().format(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
        }
    }
}
