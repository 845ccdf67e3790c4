//! Parses the arguments that commands share: integers, counts, cursors, timeouts.

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

/// A timeout in (fractional) seconds, as milliseconds; 0 waits forever.
pub fn parse_timeout_ms(arg: &[u8]) -> Result<u64, CommandError> {
    // Nearly every client sends whole seconds.
    if let Some(seconds @ 0..=1_000_000_000) = ds::num::parse_i64(arg) {
        return Ok(seconds as u64 * 1000);
    }
    let seconds = ds::num::parse_f64(arg).ok_or(CommandError::TIMEOUT_NOT_A_FLOAT)?;
    if seconds < 0.0 {
        return Err(CommandError::TIMEOUT_NEGATIVE);
    }
    // A timeout too small for a millisecond still is one: 0 would mean "for ever".
    let ms = (seconds * 1000.0).ceil();
    if ms >= i64::MAX as f64 {
        return Err(CommandError::TIMEOUT_OUT_OF_RANGE);
    }
    Ok(ms as u64)
}
