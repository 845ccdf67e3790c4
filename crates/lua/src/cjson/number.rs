//! Writes numbers like C's `printf("%.*g")` and reads them like `strtod`.

/// Integers below this have at most 14 digits, so a precision of 14 or more prints all of them.
const PLAIN_INTEGER_END: f64 = 1e14;

/// Appends `number` with `precision` significant digits, as `%g` does.
pub(super) fn write(out: &mut Vec<u8>, number: f64, precision: usize) {
    if precision >= 14 && number.abs() < PLAIN_INTEGER_END && number.trunc() == number {
        if number == 0.0 && number.is_sign_negative() {
            out.push(b'-');
        }
        out.extend_from_slice(itoa::Buffer::new().format(number as i64).as_bytes());
        return;
    }
    if !number.is_finite() {
        let text = match (number.is_nan(), number.is_sign_negative()) {
            (true, true) => "-nan",
            (true, false) => "nan",
            (false, true) => "-inf",
            (false, false) => "inf",
        };
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let scientific = format!("{:.*e}", precision - 1, number.abs());
    let (mantissa, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is an integer");
    let digits: Vec<u8> = mantissa.bytes().filter(|byte| *byte != b'.').collect();
    let kept = digits.iter().rposition(|digit| *digit != b'0').map_or(1, |last| last + 1);
    let digits = &digits[..kept];
    if number.is_sign_negative() {
        out.push(b'-');
    }
    if exponent < -4 || exponent >= precision as i32 {
        write_scientific(out, digits, exponent);
    } else {
        write_plain(out, digits, exponent);
    }
}

fn write_scientific(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    out.push(digits[0]);
    if digits.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
}

fn write_plain(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    let Ok(exponent) = usize::try_from(exponent) else {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent) as usize - 1, b'0');
        return out.extend_from_slice(digits);
    };
    let whole = exponent + 1;
    if digits.len() <= whole {
        out.extend_from_slice(digits);
        out.resize(out.len() + whole - digits.len(), b'0');
    } else {
        out.extend_from_slice(&digits[..whole]);
        out.push(b'.');
        out.extend_from_slice(&digits[whole..]);
    }
}

/// Parses the number at the start of `text` like `strtod`: decimal, hexadecimal, infinite or NaN. Returns it
/// with its length in bytes.
pub(super) fn read(text: &[u8]) -> Option<(f64, usize)> {
    let sign_length = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let is_negative = text.first() == Some(&b'-');
    let (number, length) = read_unsigned(&text[sign_length..])?;
    Some((if is_negative { -number } else { number }, sign_length + length))
}

fn starts_with(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

fn read_unsigned(text: &[u8]) -> Option<(f64, usize)> {
    if starts_with(text, b"infinity") {
        return Some((f64::INFINITY, 8));
    }
    if starts_with(text, b"inf") {
        return Some((f64::INFINITY, 3));
    }
    if starts_with(text, b"nan") {
        return Some((f64::NAN, 3 + nan_payload_length(&text[3..])));
    }
    if starts_with(text, b"0x")
        && let Some((number, length)) = read_hexadecimal(&text[2..])
    {
        return Some((number, 2 + length));
    }
    let whole = count_digits(text);
    let fraction = match text.get(whole) {
        Some(b'.') => 1 + count_digits(&text[whole + 1..]),
        _ => 0,
    };
    if whole + fraction.saturating_sub(1) == 0 {
        return None;
    }
    let length = whole + fraction + exponent_length(&text[whole + fraction..], b'e');
    let number = std::str::from_utf8(&text[..length]).ok()?.parse().ok()?;
    Some((number, length))
}

/// Length of the "(letters)" that may follow `nan`.
fn nan_payload_length(text: &[u8]) -> usize {
    if text.first() != Some(&b'(') {
        return 0;
    }
    let letters = text[1..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    if text.get(letters + 1) == Some(&b')') { letters + 2 } else { 0 }
}

fn count_digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Length of an exponent with its letter; 0 if it has no digits.
fn exponent_length(text: &[u8], letter: u8) -> usize {
    if !text.first().is_some_and(|byte| byte.eq_ignore_ascii_case(&letter)) {
        return 0;
    }
    let sign = usize::from(matches!(text.get(1), Some(b'+' | b'-')));
    match count_digits(&text[1 + sign..]) {
        0 => 0,
        digits => 1 + sign + digits,
    }
}

/// Parses a hexadecimal number after its `0x`. Digits beyond the 60th bit only shift the value; such numbers
/// do not occur in practice.
fn read_hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    const MANTISSA_END: u64 = 1 << 60;
    let (mut mantissa, mut exponent, mut digit_count, mut length) = (0_u64, 0_i32, 0, 0);
    let mut is_fraction = false;
    for &byte in text {
        if byte == b'.' && !is_fraction {
            is_fraction = true;
        } else if let Some(digit) = char::from(byte).to_digit(16) {
            digit_count += 1;
            if mantissa < MANTISSA_END {
                mantissa = mantissa * 16 + u64::from(digit);
                exponent -= if is_fraction { 4 } else { 0 };
            } else if !is_fraction {
                exponent = exponent.saturating_add(4);
            }
        } else {
            break;
        }
        length += 1;
    }
    if digit_count == 0 {
        return None;
    }
    let tail = exponent_length(&text[length..], b'p');
    if tail > 0 {
        let digits = std::str::from_utf8(&text[length + 1..length + tail]).ok()?;
        exponent = exponent.saturating_add(digits.parse::<i32>().unwrap_or(if digits.starts_with('-') {
            i32::MIN
        } else {
            i32::MAX
        }));
    }
    // In two steps, because the power alone may be out of range while the product is not.
    let half = exponent.clamp(-2400, 2400) / 2;
    let rest = exponent.clamp(-2400, 2400) - half;
    Some((mantissa as f64 * 2_f64.powi(half) * 2_f64.powi(rest), length + tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_written(number: f64, precision: usize, expected: &str) {
        let mut out = Vec::new();
        write(&mut out, number, precision);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn writes_like_printf() {
        check_written(0.1, 14, "0.1");
        check_written(-0.0, 14, "-0");
        check_written(1e14, 14, "1e+14");
        check_written(123_456_789_012_345.0, 14, "1.2345678901234e+14");
        check_written(99_999_999_999_999.0, 14, "99999999999999");
        check_written(-1.5e-7, 14, "-1.5e-07");
        check_written(0.0001, 14, "0.0001");
        check_written(0.000_012_345, 14, "1.2345e-05");
        check_written(3.25, 2, "3.2");
        check_written(1234.0, 3, "1.23e+03");
        check_written(9.999, 3, "10");
        check_written(1e300, 14, "1e+300");
        check_written(5.0, 1, "5");
        check_written(100.5, 14, "100.5");
    }

    fn check_read(text: &str, expected: Option<(f64, usize)>) {
        assert_eq!(read(text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn reads_like_strtod() {
        check_read("12.5e2,", Some((1250.0, 6)));
        check_read("-0x1F.8p1", Some((-63.0, 9)));
        check_read("0x", Some((0.0, 1)));
        check_read("1e", Some((1.0, 1)));
        check_read("1.5.5", Some((1.5, 3)));
        check_read(".5", Some((0.5, 2)));
        check_read("5.", Some((5.0, 2)));
        check_read(".", None);
        check_read("-", None);
        check_read("+Infinityx", Some((f64::INFINITY, 9)));
        check_read("infin", Some((f64::INFINITY, 3)));
        assert_eq!(read(b"nan(12)").unwrap().1, 7);
        check_read("1e999", Some((f64::INFINITY, 5)));
    }
}
