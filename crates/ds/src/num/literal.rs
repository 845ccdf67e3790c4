//! The grammar of C's `strtod` as far as Redis accepts it: which texts are numbers, and their parts.
//!
//! A sign, then `inf` or `infinity` in any case, or a hexadecimal number (`0x1.8p3`), or a decimal one (`.5e-3`). NaN
//! is rejected because no caller accepts it. Callers handle leading blanks; the text must be consumed completely.
//!
//! [`round`] is also shared by `double` and `long double`: it rounds a wide binary number to a fixed number of bits.

/// A number as written.
pub(super) struct Literal<'a> {
    pub(super) negative: bool,
    pub(super) magnitude: Magnitude<'a>,
}

pub(super) enum Magnitude<'a> {
    Infinite,
    Decimal(Decimal<'a>),
    Hexadecimal(Hexadecimal),
}

/// `integer.fraction × 10^exponent`; both parts consist of digits.
pub(super) struct Decimal<'a> {
    /// The whole text without its sign.
    pub(super) text: &'a [u8],
    pub(super) integer: &'a [u8],
    pub(super) fraction: &'a [u8],
    pub(super) exponent: i64,
}

impl Decimal<'_> {
    pub(super) fn is_zero(&self) -> bool {
        self.integer.iter().chain(self.fraction).all(|&digit| digit == b'0')
    }
}

/// `significand × 2^exponent`, or slightly more if `inexact`; then the significand has more than 64 bits.
pub(super) struct Hexadecimal {
    pub(super) significand: u128,
    pub(super) inexact: bool,
    pub(super) exponent: i64,
}

/// Limit of exponents: no text is long enough to outweigh a larger one.
const EXPONENT_MAX: i64 = 1 << 50;

/// Parses a whole text as a number.
pub(super) fn parse(text: &[u8]) -> Option<Literal<'_>> {
    let (negative, body) = match text {
        [b'-', body @ ..] => (true, body),
        [b'+', body @ ..] => (false, body),
        body => (false, body),
    };
    let magnitude = match body {
        [b'0', b'x' | b'X', digits @ ..] => Magnitude::Hexadecimal(parse_hexadecimal(digits)?),
        [b'0'..=b'9' | b'.', ..] => Magnitude::Decimal(parse_decimal(body)?),
        _ if body.eq_ignore_ascii_case(b"inf") || body.eq_ignore_ascii_case(b"infinity") => {
            Magnitude::Infinite
        }
        _ => return None,
    };
    Some(Literal { negative, magnitude })
}

fn parse_decimal(text: &[u8]) -> Option<Decimal<'_>> {
    let (integer, fraction, tail) = split_point(text, u8::is_ascii_digit)?;
    let exponent = parse_exponent(tail, b'e')?;
    Some(Decimal { text, integer, fraction, exponent })
}

fn parse_hexadecimal(text: &[u8]) -> Option<Hexadecimal> {
    let (integer, fraction, tail) = split_point(text, u8::is_ascii_hexdigit)?;
    let mut exponent = parse_exponent(tail, b'p')? - 4 * fraction.len() as i64;
    let mut significand: u128 = 0;
    let mut inexact = false;
    for &digit in integer.iter().chain(fraction) {
        let value = (digit as char).to_digit(16).expect("split_point lets only hexadecimal digits through");
        if significand.leading_zeros() >= 4 {
            significand = significand << 4 | u128::from(value);
        } else {
            inexact |= value != 0;
            exponent += 4;
        }
    }
    Some(Hexadecimal { significand, inexact, exponent })
}

/// Splits `digits`, `digits.`, `.digits` or `digits.digits` into both runs of digits and the rest.
fn split_point(text: &[u8], is_digit: fn(&u8) -> bool) -> Option<(&[u8], &[u8], &[u8])> {
    let digits = |text: &[u8]| text.iter().take_while(|byte| is_digit(byte)).count();
    let (integer, tail) = text.split_at(digits(text));
    let (fraction, tail) = match tail {
        [b'.', tail @ ..] => tail.split_at(digits(tail)),
        tail => (&[][..], tail),
    };
    (!integer.is_empty() || !fraction.is_empty()).then_some((integer, fraction, tail))
}

/// Parses an empty text, or the letter (either case), an optional sign, and digits up to the end.
fn parse_exponent(text: &[u8], letter: u8) -> Option<i64> {
    let [first, tail @ ..] = text else { return Some(0) };
    let (negative, digits) = match tail {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if !first.eq_ignore_ascii_case(&letter) || digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value =
        digits.iter().fold(0, |value, digit| (value * 10 + i64::from(digit - b'0')).min(EXPONENT_MAX));
    Some(if negative { -value } else { value })
}

/// Rounds `significand × 2^exponent` half to even: to `precision` bits, or fewer where the exponent would fall below
/// `exponent_min`. Returns the new significand and exponent; the significand's top bit is set unless the exponent is
/// `exponent_min`.
///
/// `inexact` means that the true value is larger, by less than one unit of the significand, which then must have more
/// than `precision` bits. The caller checks whether the exponent has become too large.
pub(super) fn round(
    significand: u128,
    inexact: bool,
    exponent: i64,
    precision: u32,
    exponent_min: i64,
) -> (u64, i64) {
    if significand == 0 {
        return (0, exponent_min);
    }
    let bits = i64::from(u128::BITS - significand.leading_zeros());
    let dropped = (bits - i64::from(precision)).max(exponent_min - exponent);
    if dropped <= 0 {
        return ((significand << -dropped) as u64, exponent + dropped);
    }
    if dropped > bits {
        return (0, exponent_min);
    }
    let kept = if dropped == 128 { 0 } else { significand >> dropped };
    let half = 1 << (dropped - 1);
    let rest = significand & (half | (half - 1));
    let up = rest > half || rest == half && (inexact || kept & 1 == 1);
    let rounded = kept + u128::from(up);
    let carry = u32::from(rounded >> precision != 0);
    ((rounded >> carry) as u64, exponent + dropped + i64::from(carry))
}
