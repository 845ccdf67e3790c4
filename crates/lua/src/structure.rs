//! The library `struct`: converts numbers and strings to and from binary layouts. After Roberto
//! Ierusalimschy's library.
//!
//! | format | value | format | value |
//! |---|---|---|---|
//! | `b` `B` | signed, unsigned byte | `f` `d` | float, double |
//! | `h` `H` | 2 bytes | `cn` | n bytes of a string; `c0` all of it, or as many as the number read before |
//! | `l` `L` `T` | 8 bytes | `s` | zero-terminated string |
//! | `in` `In` | n bytes, by default 4, at most 32 | `x` | one byte of padding |
//! | `<` `>` | byte order from here on | `!n` | alignment from here on, by default 8 |

use crate::raw::{Failure, LuaKind, Native, Stack, integer_of};

/// Width of the widest integer.
const INTEGER_BYTES_MAX: i32 = 32;
/// Width of `i` and `I` if none is given.
const INT_BYTES: i32 = 4;
/// Alignment of `!` if none is given.
const ALIGNMENT_DEFAULT: i32 = 8;

const FUNCTIONS: [(&str, Native); 3] = [("pack", pack), ("unpack", unpack), ("size", size)];

/// Adds `struct` to the globals on top.
pub(crate) fn install(stack: &mut Stack<'_>) -> Result<(), Failure> {
    stack.push_table(0, FUNCTIONS.len())?;
    stack.set_functions(&FUNCTIONS)?;
    stack.set_field(-2, "struct")
}

/// The rest of a format, and the current options.
struct Format<'a> {
    rest: &'a [u8],
    is_big_endian: bool,
    alignment: usize,
}

/// One element of a format: its letter, its size in bytes (if known), and the padding before it.
struct Item {
    letter: u8,
    size: usize,
    padding: usize,
}

impl<'a> Format<'a> {
    fn new(text: &'a [u8]) -> Format<'a> {
        Format {
            rest: crate::error::until_zero(text),
            is_big_endian: cfg!(target_endian = "big"),
            alignment: 1,
        }
    }

    /// Parses a decimal number; `default` if there is none.
    fn number(&mut self, default: i32) -> Result<i32, Failure> {
        let mut number = None;
        while let Some((digit @ b'0'..=b'9', rest)) = self.rest.split_first() {
            let digit = i32::from(digit - b'0');
            let next = number.unwrap_or(0_i32).checked_mul(10).and_then(|tens| tens.checked_add(digit));
            number = Some(next.ok_or_else(|| Failure::message("integral size overflow"))?);
            self.rest = rest;
        }
        Ok(number.unwrap_or(default))
    }

    /// The next element; its data starts at `position`, before padding.
    fn next(&mut self, position: usize) -> Result<Option<Item>, Failure> {
        let Some((&letter, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        let size = match letter {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(INT_BYTES)?;
                if size > INTEGER_BYTES_MAX {
                    let text = format!("integral size {size} is larger than limit of {INTEGER_BYTES_MAX}");
                    return Err(Failure::message(text));
                }
                size
            }
            _ => 0,
        };
        let size = size as usize;
        let padding = if size == 0 || letter == b'c' {
            0
        } else {
            // For sizes that are not powers of two, this gives the same result as the original's mask.
            let unit = size.min(self.alignment);
            unit.wrapping_sub(position & (unit - 1)) & (unit - 1)
        };
        Ok(Some(Item { letter, size, padding }))
    }

    /// Applies an option that has no data.
    fn control(&mut self, letter: u8) -> Result<(), Failure> {
        match letter {
            b' ' => {}
            b'>' => self.is_big_endian = true,
            b'<' => self.is_big_endian = false,
            b'!' => {
                let alignment = self.number(ALIGNMENT_DEFAULT)?;
                if alignment <= 0 || !alignment.cast_unsigned().is_power_of_two() {
                    return Err(Failure::message(format!("alignment {alignment} is not a power of 2")));
                }
                self.alignment = alignment as usize;
            }
            _ => {
                let text = [b"invalid format option '", [letter].as_slice(), b"'"].concat();
                return Err(Failure::argument(1, text));
            }
        }
        Ok(())
    }

    /// Converts bytes between little-endian and the current order.
    fn order(&self, bytes: &mut [u8]) {
        if self.is_big_endian {
            bytes.reverse();
        }
    }
}

/// Converts a number to an unsigned integer as C does on this machine.
fn unsigned_of(number: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if number < HALF || number.is_nan() {
        integer_of(number).cast_unsigned()
    } else {
        integer_of(number - HALF).cast_unsigned() ^ (1 << 63)
    }
}

/// An argument of `pack` as a number. A missing one is reported as nil, because the original pushes a nil
/// after its arguments.
fn number_arg(stack: &Stack<'_>, position: i32) -> Result<f64, Failure> {
    if position > stack.arg_count() {
        return Err(Failure::argument(position, "number expected, got nil"));
    }
    stack.arg_number(position)
}

/// An argument of `pack` as a string.
fn text_arg<'a>(stack: &Stack<'a>, position: i32) -> Result<&'a [u8], Failure> {
    if position > stack.arg_count() {
        return Err(Failure::argument(position, "string expected, got nil"));
    }
    stack.arg_bytes(position)
}

fn pack(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    let mut format = Format::new(stack.arg_bytes(1)?);
    let mut packed = Vec::new();
    let mut arg = 2;
    while let Some(item) = format.next(packed.len())? {
        stack.take_steps(1)?;
        stack.claim_memory(packed.len() + item.padding)?;
        packed.resize(packed.len() + item.padding, 0);
        match item.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let value = unsigned_of(number_arg(stack, arg)?);
                let mut bytes = [0; INTEGER_BYTES_MAX as usize];
                bytes[..8].copy_from_slice(&value.to_le_bytes());
                format.order(&mut bytes[..item.size]);
                packed.extend_from_slice(&bytes[..item.size]);
                arg += 1;
            }
            b'x' => packed.push(0),
            b'f' => {
                let mut bytes = (number_arg(stack, arg)? as f32).to_le_bytes();
                format.order(&mut bytes);
                packed.extend_from_slice(&bytes);
                arg += 1;
            }
            b'd' => {
                let mut bytes = number_arg(stack, arg)?.to_le_bytes();
                format.order(&mut bytes);
                packed.extend_from_slice(&bytes);
                arg += 1;
            }
            b'c' | b's' => {
                let text = text_arg(stack, arg)?;
                arg += 1;
                let size = if item.size == 0 { text.len() } else { item.size };
                // The original reports the argument after the string.
                let text = text.get(..size).ok_or_else(|| Failure::argument(arg, "string too short"))?;
                stack.claim_memory(packed.len() + text.len())?;
                packed.extend_from_slice(text);
                if item.letter == b's' {
                    packed.push(0);
                }
            }
            letter => format.control(letter)?,
        }
    }
    stack.push_bytes(&packed)?;
    Ok(1)
}

/// The integer in `bytes`. If there are more than eight, only the lowest eight count.
fn integer(bytes: &[u8], is_big_endian: bool, is_signed: bool) -> f64 {
    let join = |value: u64, byte: &u8| (value << 8) | u64::from(*byte);
    let value = if is_big_endian { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) };
    if !is_signed {
        return value as f64;
    }
    let sign_bits = u64::MAX.wrapping_shl((bytes.len() as u32 * 8).wrapping_sub(1));
    let extended = if value & sign_bits == 0 { value } else { value | sign_bits };
    extended.cast_signed() as f64
}

fn unpack(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    let mut format = Format::new(stack.arg_bytes(1)?);
    let data = stack.arg_bytes(2)?;
    let offset =
        if stack.arg_count() < 3 || stack.kind(3) == LuaKind::Nil { 1 } else { stack.arg_integer(3)? };
    if offset == 0 {
        return Err(Failure::argument(3, "offset must be 1 or greater"));
    }
    let too_short = || Failure::argument(2, "data string too short");
    let mut position = usize::try_from(offset - 1).map_err(|_| too_short())?;
    let first_result = stack.top();
    while let Some(mut item) = format.next(position)? {
        stack.take_steps(1)?;
        position = position.saturating_add(item.padding);
        if position.checked_add(item.size).is_none_or(|end| end > data.len()) {
            return Err(too_short());
        }
        if !stack.reserve(2) {
            return Err(Failure::message("stack overflow (too many results)"));
        }
        let rest = &data[position..];
        match item.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let is_signed = item.letter.is_ascii_lowercase();
                stack.push_number(integer(&rest[..item.size], format.is_big_endian, is_signed))?;
            }
            b'x' => {}
            b'f' => {
                let mut bytes = [rest[0], rest[1], rest[2], rest[3]];
                format.order(&mut bytes);
                stack.push_number(f64::from(f32::from_le_bytes(bytes)))?;
            }
            b'd' => {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&rest[..8]);
                format.order(&mut bytes);
                stack.push_number(f64::from_le_bytes(bytes))?;
            }
            b'c' => {
                if item.size == 0 {
                    if stack.top() == first_result || stack.kind(-1) != LuaKind::Number {
                        return Err(Failure::message("format 'c0' needs a previous size"));
                    }
                    item.size = unsigned_of(stack.number(-1)) as usize;
                    stack.pop(1);
                }
                stack.push_bytes(rest.get(..item.size).ok_or_else(too_short)?)?;
            }
            b's' => {
                let end = rest.iter().position(|byte| *byte == 0);
                let end = end.ok_or_else(|| Failure::message("unfinished string in data"))?;
                stack.push_bytes(&rest[..end])?;
                item.size = end + 1;
            }
            letter => format.control(letter)?,
        }
        position += item.size;
    }
    stack.push_number((position + 1) as f64)?;
    Ok(stack.top() - first_result)
}

fn size(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    let mut format = Format::new(stack.arg_bytes(1)?);
    let mut position = 0;
    while let Some(item) = format.next(position)? {
        stack.take_steps(1)?;
        match item.letter {
            b's' => return Err(Failure::argument(1, "option 's' has no fixed size")),
            b'c' if item.size == 0 => return Err(Failure::argument(1, "option 'c0' has no fixed size")),
            letter if !letter.is_ascii_alphanumeric() => format.control(letter)?,
            _ => {}
        }
        position += item.padding + item.size;
    }
    stack.push_number(position as f64)?;
    Ok(1)
}
