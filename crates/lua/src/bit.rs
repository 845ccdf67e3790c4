//! The library `bit`: operations on 32-bit integers, after LuaBitOp.

use crate::raw::{Failure, Native, Stack};

/// 2^52 + 2^51: added to a double, it moves the integer part, rounded to even, to the lowest bits.
const ROUNDING: f64 = 6_755_399_441_055_744.0;
/// Hexadecimal digits of a 32-bit integer.
const HEX_DIGITS: usize = 8;

const FUNCTIONS: [(&str, Native); 12] = [
    ("tobit", |stack| arg(stack, 1).and_then(|bits| answer(stack, bits))),
    ("bnot", |stack| arg(stack, 1).and_then(|bits| answer(stack, !bits))),
    ("band", |stack| fold(stack, |left, right| left & right)),
    ("bor", |stack| fold(stack, |left, right| left | right)),
    ("bxor", |stack| fold(stack, |left, right| left ^ right)),
    ("lshift", |stack| shift(stack, |bits, count| bits << count)),
    ("rshift", |stack| shift(stack, |bits, count| bits >> count)),
    ("arshift", |stack| shift(stack, |bits, count| (bits.cast_signed() >> count).cast_unsigned())),
    ("rol", |stack| shift(stack, u32::rotate_left)),
    ("ror", |stack| shift(stack, u32::rotate_right)),
    ("bswap", |stack| arg(stack, 1).and_then(|bits| answer(stack, bits.swap_bytes()))),
    ("tohex", tohex),
];

/// Stores `bit` in the globals on top.
pub(crate) fn install(stack: &mut Stack<'_>) -> Result<(), Failure> {
    stack.push_table(0, FUNCTIONS.len())?;
    stack.set_functions(&FUNCTIONS)?;
    stack.set_field(-2, "bit")
}

/// The argument rounded to an integer, modulo 2^32.
fn arg(stack: &Stack<'_>, position: i32) -> Result<u32, Failure> {
    stack.arg_number(position).map(|number| (number + ROUNDING).to_bits() as u32)
}

fn answer(stack: &mut Stack<'_>, bits: u32) -> Result<i32, Failure> {
    stack.push_number(f64::from(bits.cast_signed()))?;
    Ok(1)
}

fn fold(stack: &mut Stack<'_>, operation: fn(u32, u32) -> u32) -> Result<i32, Failure> {
    let mut bits = arg(stack, 1)?;
    // From the last to the second, as in the original: the order decides which of two bad arguments is
    // reported.
    for position in (2..=stack.arg_count()).rev() {
        bits = operation(bits, arg(stack, position)?);
    }
    answer(stack, bits)
}

fn shift(stack: &mut Stack<'_>, operation: fn(u32, u32) -> u32) -> Result<i32, Failure> {
    let bits = arg(stack, 1)?;
    let count = arg(stack, 2)? & 31;
    answer(stack, operation(bits, count))
}

/// `bit.tohex(x [, n])`: the last `|n|` digits, in upper case if `n` is negative.
fn tohex(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    let bits = arg(stack, 1)?;
    let digits = if stack.arg_count() < 2 { HEX_DIGITS as i32 } else { arg(stack, 2)?.cast_signed() };
    let text = if digits < 0 { format!("{bits:08X}") } else { format!("{bits:08x}") };
    let kept = (digits.unsigned_abs() as usize).min(HEX_DIGITS);
    stack.push_bytes(&text.as_bytes()[HEX_DIGITS - kept..])?;
    Ok(1)
}
