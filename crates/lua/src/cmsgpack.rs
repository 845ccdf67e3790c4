//! The library `cmsgpack`: MessagePack as written and read by Redis' lua_cmsgpack 0.4.0.
//!
//! Integers are written in their shortest form; other numbers as floats if that is exact, else as doubles.
//! Tables with the keys 1 to n become arrays, other tables maps. Everything else is written as nil, and so is
//! a table nested 16 deep. All formats are read except binary data and extensions. Reading does not recurse:
//! it keeps its own stack of open tables, at most 4000; writing recurses at most 16 deep.

use smallvec::SmallVec;

use crate::raw::{Failure, LuaKind, Native, Stack, integer_of};
use crate::steps::{STEP_BYTES, TABLE_STEP_COUNT};

/// Tables nested this deep are written as nil.
const NESTING_MAX: usize = 16;
/// Tables nested this deep are refused. The original's stack overflows there.
const READ_NESTING_MAX: usize = 4000;

const FUNCTIONS: [(&str, Native); 4] =
    [("pack", pack), ("unpack", unpack), ("unpack_one", unpack_one), ("unpack_limit", unpack_limit)];

const TEXTS: [(&str, &str); 4] = [
    ("_NAME", "cmsgpack"),
    ("_VERSION", "lua-cmsgpack 0.4.0"),
    ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
    ("_DESCRIPTION", "MessagePack C implementation for Lua"),
];

/// Adds `cmsgpack` to the globals on top.
pub(crate) fn install(stack: &mut Stack<'_>) -> Result<(), Failure> {
    stack.push_table(0, FUNCTIONS.len() + TEXTS.len())?;
    stack.set_functions(&FUNCTIONS)?;
    for (name, text) in TEXTS {
        stack.push_bytes(text.as_bytes())?;
        stack.set_field(-2, name)?;
    }
    stack.set_field(-2, "cmsgpack")
}

fn pack(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    if stack.arg_count() == 0 {
        return Err(Failure::argument(0, "MessagePack pack needs input."));
    }
    let mut out = Vec::new();
    for position in 1..=stack.arg_count() {
        stack.push_copy(position)?;
        write(stack, &mut out, 0)?;
        stack.pop(1);
    }
    stack.push_bytes(&out)?;
    Ok(1)
}

/// Appends the value on top of the stack. Recurses at most [`NESTING_MAX`] deep.
fn write(stack: &mut Stack<'_>, out: &mut Vec<u8>, depth: usize) -> Result<(), Failure> {
    let before_bytes = out.len();
    match stack.kind(-1) {
        LuaKind::String => write_text(out, stack.bytes(-1).unwrap_or_default()),
        LuaKind::Boolean => out.push(if stack.boolean(-1) { 0xc3 } else { 0xc2 }),
        LuaKind::Number => write_number(out, stack.number(-1)),
        LuaKind::Table if depth < NESTING_MAX => write_table(stack, out, depth)?,
        LuaKind::None
        | LuaKind::Nil
        | LuaKind::Table
        | LuaKind::Pointer
        | LuaKind::Function
        | LuaKind::Other => out.push(0xc0),
    }
    // A small table that contains others many times would otherwise make endless text.
    stack.claim_memory(out.len())?;
    stack.take_steps(1 + (out.len() - before_bytes) / STEP_BYTES)
}

fn write_number(out: &mut Vec<u8>, number: f64) {
    let integer = integer_of(number);
    if !number.is_infinite() && integer as f64 == number {
        write_integer(out, integer);
    } else if f64::from(number as f32) == number {
        out.push(0xca);
        out.extend_from_slice(&(number as f32).to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn write_integer(out: &mut Vec<u8>, number: i64) {
    let bytes = number.to_be_bytes();
    let (marker, size) = match number {
        -0x20..=0x7f => return out.push(bytes[7]),
        0x80..=0xff => (0xcc, 1),
        0x100..=0xffff => (0xcd, 2),
        0x1_0000..=0xffff_ffff => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        -0x80..=-0x21 => (0xd0, 1),
        -0x8000..=-0x81 => (0xd1, 2),
        -0x8000_0000..=-0x8001 => (0xd2, 4),
        ..=-0x8000_0001 => (0xd3, 8),
    };
    out.push(marker);
    out.extend_from_slice(&bytes[8 - size..]);
}

/// Writes a length: in the low bits of `fixed` if it is less than `fixed_end`, else after the first marker
/// whose field (of 1, 2 or 4 bytes) it fits.
fn write_length(out: &mut Vec<u8>, length: usize, fixed: u8, fixed_end: usize, markers: [Option<u8>; 3]) {
    let bytes = (length as u32).to_be_bytes();
    if length < fixed_end {
        return out.push(fixed | bytes[3]);
    }
    for ((marker, size), length_max) in markers.into_iter().zip([1, 2, 4]).zip([0xff, 0xffff, usize::MAX]) {
        if let Some(marker) = marker
            && length <= length_max
        {
            out.push(marker);
            return out.extend_from_slice(&bytes[4 - size..]);
        }
    }
}

fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    write_length(out, text.len(), 0xa0, 32, [Some(0xd9), Some(0xda), Some(0xdb)]);
    out.extend_from_slice(text);
}

fn write_table(stack: &mut Stack<'_>, out: &mut Vec<u8>, depth: usize) -> Result<(), Failure> {
    let table = stack.top();
    stack.take_steps(TABLE_STEP_COUNT)?;
    let (count, is_array) = measure(stack, table)?;
    if is_array {
        let length = stack.table_length(table);
        write_length(out, length, 0x90, 16, [None, Some(0xdc), Some(0xdd)]);
        for position in 1..=length {
            stack.get_item(table, position as i32)?;
            write(stack, out, depth + 1)?;
            stack.pop(1);
        }
        return Ok(());
    }
    write_length(out, count, 0x80, 16, [None, Some(0xde), Some(0xdf)]);
    stack.push_nil()?;
    while stack.next(table)? {
        stack.push_copy(-2)?;
        write(stack, out, depth + 1)?;
        stack.pop(1);
        write(stack, out, depth + 1)?;
        stack.pop(1);
    }
    Ok(())
}

/// The number of entries of a table, and whether their keys are exactly 1 to that number.
fn measure(stack: &mut Stack<'_>, table: i32) -> Result<(usize, bool), Failure> {
    let (mut count, mut key_max, mut is_array) = (0_usize, 0, true);
    stack.push_nil()?;
    while stack.next(table)? {
        stack.pop(1);
        count += 1;
        let key = if stack.kind(-1) == LuaKind::Number { stack.number(-1) } else { 0.0 };
        is_array &= key > 0.0 && f64::from(key as i32) == key;
        key_max = key_max.max(key as i32);
    }
    Ok((count, is_array && key_max as usize == count))
}

fn unpack(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    unpack_part(stack, None, 0)
}

/// An argument as a C `int`; 0 if it is missing or nil.
fn int_or_zero(stack: &Stack<'_>, position: i32) -> Result<i32, Failure> {
    if stack.arg_count() < position || stack.kind(position) == LuaKind::Nil {
        return Ok(0);
    }
    Ok(stack.arg_integer(position)? as i32)
}

fn unpack_one(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    let offset = int_or_zero(stack, 2)?;
    unpack_part(stack, Some(1), offset)
}

fn unpack_limit(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    let limit = stack.arg_integer(2)? as i32;
    let offset = int_or_zero(stack, 3)?;
    unpack_part(stack, Some(limit), offset)
}

/// Pushes up to `limit` values. If there is a limit, pushes below them the offset of the rest, or -1 at the
/// end.
fn unpack_part(stack: &mut Stack<'_>, limit: Option<i32>, offset: i32) -> Result<i32, Failure> {
    let input = stack.arg_bytes(1)?;
    // As in the original, limit 0 with offset 0 means no limit.
    let limit = limit.filter(|limit| *limit != 0 || offset != 0);
    let Ok(start) = usize::try_from(offset) else { return Err(refuse_request(offset, input)) };
    if limit.is_some_and(|limit| limit < 0) {
        return Err(refuse_request(offset, input));
    }
    let Some(rest) = input.get(start..) else {
        let text = format!("Start offset {offset} greater than input length {}.", input.len());
        return Err(Failure::message(text));
    };
    let mut reader = Reader { rest };
    let mut count = 0;
    while !reader.rest.is_empty() && limit.is_none_or(|limit| count < limit) {
        if !stack.reserve(1) {
            let text =
                "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)";
            return Err(Failure::message(text));
        }
        read(stack, &mut reader)?;
        count += 1;
    }
    if limit.is_some() {
        let next_offset =
            if reader.rest.is_empty() { -1.0 } else { (input.len() - reader.rest.len()) as f64 };
        stack.push_number(next_offset)?;
        stack.sink(count);
        count += 1;
    }
    Ok(count)
}

fn refuse_request(offset: i32, input: &[u8]) -> Failure {
    let text = format!("Invalid request to unpack with offset of {offset} and limit of {}.", input.len());
    Failure::message(text)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Failure> {
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or_else(|| Failure::message("Missing bytes in input."))?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads an unsigned big-endian integer of `size` bytes.
    fn unsigned(&mut self, size: usize) -> Result<u64, Failure> {
        Ok(self.take(size)?.iter().fold(0, |value, byte| (value << 8) | u64::from(*byte)))
    }

    /// Reads a signed big-endian integer of `size` bytes.
    fn signed(&mut self, size: usize) -> Result<i64, Failure> {
        let unused_bits = 64 - 8 * size as u32;
        Ok((self.unsigned(size)? << unused_bits).cast_signed() >> unused_bits)
    }
}

/// A table that is being read. It is on Lua's stack.
struct Open {
    is_map: bool,
    /// Values still to be read, two per entry of a map.
    left: u64,
    /// Number of array items stored so far.
    position: i32,
}

/// Reads one value and pushes it.
fn read(stack: &mut Stack<'_>, reader: &mut Reader<'_>) -> Result<(), Failure> {
    let mut levels: SmallVec<[Open; NESTING_MAX]> = SmallVec::new();
    loop {
        if let Some(open) = read_value(stack, reader)? {
            if levels.len() == READ_NESTING_MAX {
                let kind = if open.is_map { "hash" } else { "array" };
                let text = format!("stack overflow (in function mp_decode_to_lua_{kind})");
                return Err(Failure::message(text));
            }
            levels.push(open);
        } else {
            store(stack, &mut levels)?;
        }
        while levels.last().is_some_and(|open| open.left == 0) {
            levels.pop();
            store(stack, &mut levels)?;
        }
        if levels.is_empty() {
            return Ok(());
        }
    }
}

/// Stores the value on top in the open table, or leaves it there as the key of the next value.
fn store(stack: &mut Stack<'_>, levels: &mut [Open]) -> Result<(), Failure> {
    let Some(open) = levels.last_mut() else { return Ok(()) };
    open.left -= 1;
    if !open.is_map {
        open.position += 1;
        return stack.set_item(-2, open.position);
    }
    // If the number of values left is even, this was a value, and its key is below it.
    if open.left % 2 == 0 { stack.set(-3) } else { Ok(()) }
}

/// Pushes a scalar and returns `None`, or pushes an empty table and returns the items to read into it.
fn read_value(stack: &mut Stack<'_>, reader: &mut Reader<'_>) -> Result<Option<Open>, Failure> {
    stack.take_steps(1)?;
    let marker = reader.take(1)?[0];
    let open = |stack: &mut Stack<'_>, count: u64, is_map: bool| {
        stack.push_table(0, 0)?;
        Ok(Some(Open { is_map, left: if is_map { 2 * count } else { count }, position: 0 }))
    };
    match marker {
        0x00..=0x7f => stack.push_number(f64::from(marker))?,
        0xe0..=0xff => stack.push_number(f64::from(marker.cast_signed()))?,
        0xcc..=0xcf => stack.push_number(reader.unsigned(1 << (marker - 0xcc))? as f64)?,
        0xd0..=0xd3 => stack.push_number(reader.signed(1 << (marker - 0xd0))? as f64)?,
        0xc0 => stack.push_nil()?,
        0xc2 | 0xc3 => stack.push_boolean(marker == 0xc3)?,
        0xca => stack.push_number(f64::from(f32::from_bits(reader.unsigned(4)? as u32)))?,
        0xcb => stack.push_number(f64::from_bits(reader.unsigned(8)?))?,
        0xa0..=0xbf => stack.push_bytes(reader.take(usize::from(marker & 31))?)?,
        0xd9..=0xdb => {
            let length = reader.unsigned(1 << (marker - 0xd9))?;
            stack.push_bytes(reader.take(length as usize)?)?;
        }
        0x90..=0x9f => return open(stack, u64::from(marker & 15), false),
        0x80..=0x8f => return open(stack, u64::from(marker & 15), true),
        0xdc | 0xdd => {
            let count = reader.unsigned(2 << (marker - 0xdc))?;
            return open(stack, count, false);
        }
        0xde | 0xdf => {
            let count = reader.unsigned(2 << (marker - 0xde))?;
            return open(stack, count, true);
        }
        0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => return Err(Failure::message("Bad data format in input.")),
    }
    Ok(None)
}
