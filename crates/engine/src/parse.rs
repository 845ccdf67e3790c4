//! Parses the arguments that commands share: integers, counts, cursors, timeouts.

use keyspace::UnixMs;

use crate::error::CommandError;

/// Whether `arg` is this option word, in any case.
#[inline]
pub fn keyword_is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// A 64-bit integer in canonical form.
#[inline]
pub fn parse_i64(arg: &[u8]) -> Result<i64, CommandError> {
    ds::num::parse_i64(arg).ok_or(CommandError::NOT_AN_INTEGER)
}

/// A count that is not negative, with the error of `LPOP key count` and similar commands.
pub fn parse_count(arg: &[u8]) -> Result<usize, CommandError> {
    match ds::num::parse_i64(arg) {
        Some(number) if number >= 0 => Ok(number as usize),
        _ => Err(CommandError::OUT_OF_RANGE_POSITIVE),
    }
}

/// The cursor of `SCAN` and similar commands.
pub fn parse_cursor(arg: &[u8]) -> Result<u64, CommandError> {
    let digits = arg.strip_prefix(b"+").unwrap_or(arg);
    digits
        .iter()
        .try_fold(0_u64, |number, digit| {
            let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
            number.checked_mul(10)?.checked_add(digit)
        })
        .ok_or(CommandError::INVALID_CURSOR)
}

/// A floating-point number that is not NaN.
pub fn parse_f64(arg: &[u8]) -> Result<f64, CommandError> {
    ds::num::parse_f64(arg).ok_or(CommandError::NOT_A_FLOAT)
}

/// A timeout in milliseconds; 0 waits forever. Its end must be a valid time, as in Redis.
pub fn parse_timeout_in_ms(arg: &[u8], now: UnixMs) -> Result<u64, CommandError> {
    let ms = ds::num::parse_i64(arg).ok_or(CommandError::TIMEOUT_NOT_AN_INTEGER)?;
    let timeout_ms = u64::try_from(ms).map_err(|_| CommandError::TIMEOUT_NEGATIVE)?;
    if ms > i64::MAX - now { Err(CommandError::TIMEOUT_OUT_OF_RANGE) } else { Ok(timeout_ms) }
}

/// A timeout in (fractional) seconds, as milliseconds; 0 waits forever. Its end must be a valid time, as in
/// Redis.
pub fn parse_timeout_in_seconds(arg: &[u8], now: UnixMs) -> Result<u64, CommandError> {
    // Nearly every client sends whole seconds.
    if let Some(seconds @ 0..=1_000_000_000) = ds::num::parse_i64(arg) {
        return Ok(seconds as u64 * 1000);
    }
    let seconds = ds::num::parse_f64(arg).ok_or(CommandError::TIMEOUT_NOT_A_FLOAT)?;
    if seconds < 0.0 {
        return Err(CommandError::TIMEOUT_NEGATIVE);
    }
    // A timeout of less than a millisecond is rounded up: 0 would mean "for ever".
    let ms = (seconds * 1000.0).ceil();
    if ms >= i64::MAX as f64 || ms as i64 > i64::MAX - now {
        return Err(CommandError::TIMEOUT_OUT_OF_RANGE);
    }
    Ok(ms as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_timeout_is_a_time() {
        const NOW: UnixMs = 1_700_000_000_000;
        let longest = i64::MAX - NOW;
        for (ms, expected) in [
            (0, Ok(0)),
            (longest, Ok(longest as u64)),
            (longest + 1, Err(CommandError::TIMEOUT_OUT_OF_RANGE)),
            (i64::MAX, Err(CommandError::TIMEOUT_OUT_OF_RANGE)),
            (-1, Err(CommandError::TIMEOUT_NEGATIVE)),
        ] {
            assert_eq!(parse_timeout_in_ms(ms.to_string().as_bytes(), NOW), expected, "{ms}");
        }
        let seconds = |text: &str| parse_timeout_in_seconds(text.as_bytes(), NOW);
        assert_eq!(seconds("0.0001"), Ok(1));
        assert_eq!(seconds("9221672000000000"), Ok(9_221_672_000_000_000_000));
        for text in ["9223370336855000", "9223372036854775", "9223372036854775807", "1e300"] {
            assert_eq!(seconds(text), Err(CommandError::TIMEOUT_OUT_OF_RANGE), "{text}");
        }
    }
}
