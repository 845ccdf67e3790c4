//! Converts replies of commands to Lua values: RESP in, one value pushed.
//!
//! | reply | Lua |
//! |---|---|
//! | `:` integer | number |
//! | `$` bulk string | string; `$-1` is false |
//! | `+` status | `{ok = text}` |
//! | `-` error | `{err = text, ignore_error_stats_update = true}` |
//! | `*` array | table; `*-1` is false |
//! | `_` null, `#` boolean | nil, boolean |
//! | `,` double, `(` big number | `{double = n}`, `{big_number = text}` |
//! | `=` verbatim | `{verbatim_string = {format =, string =}}` |
//! | `%` map, `~` set | `{map = {key = value}}`, `{set = {member = true}}` |
//!
//! The bytes come from our own encoder. If they cannot be parsed, that is a defect of ours, which is reported
//! to the script and does not panic.

use crate::error;
use crate::raw::{Failure, LuaKind, Stack};

/// Deepest nesting. Replies of commands have only a few levels.
const NESTING_MAX: usize = 64;

/// Whether the reply in `bytes` is an error.
#[inline]
pub(crate) fn is_error(bytes: &[u8]) -> bool {
    bytes.first() == Some(&b'-')
}

/// Pushes the reply in `bytes`. Only in functions that have the words for a status ([`Stack::push_status`]).
pub(crate) fn push(stack: &mut Stack<'_>, bytes: &[u8]) -> Result<(), Failure> {
    let mut reader = Reader { rest: bytes };
    push_value(stack, &mut reader, 0)
}

struct Reader<'a> {
    rest: &'a [u8],
}

fn malformed() -> Failure {
    Failure::message("a command's reply could not be read")
}

impl<'a> Reader<'a> {
    /// Reads a line, up to CR LF.
    #[inline]
    fn line(&mut self) -> Result<&'a [u8], Failure> {
        let end = self.rest.iter().position(|byte| *byte == b'\r').ok_or_else(malformed)?;
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 2..).ok_or_else(malformed)?;
        Ok(line)
    }

    #[inline]
    fn integer(&mut self) -> Result<i64, Failure> {
        resp::parse_integer(self.line()?).ok_or_else(malformed)
    }

    /// Reads a count of elements; `None` for -1.
    fn count(&mut self) -> Result<Option<usize>, Failure> {
        Ok(usize::try_from(self.integer()?).ok())
    }

    /// Reads `length` bytes and the CR LF after them.
    #[inline]
    fn block(&mut self, length: usize) -> Result<&'a [u8], Failure> {
        let end = length.checked_add(2).filter(|end| *end <= self.rest.len()).ok_or_else(malformed)?;
        let block = &self.rest[..length];
        self.rest = &self.rest[end..];
        Ok(block)
    }
}

fn push_value(stack: &mut Stack<'_>, reader: &mut Reader<'_>, depth: usize) -> Result<(), Failure> {
    let (&kind, rest) = reader.rest.split_first().ok_or_else(malformed)?;
    reader.rest = rest;
    match kind {
        b':' => {
            let number = reader.integer()?;
            stack.push_number(number as f64)
        }
        b'$' => match reader.count()? {
            Some(length) => stack.push_bytes(reader.block(length)?),
            None => stack.push_boolean(false),
        },
        b'+' => stack.push_status(reader.line()?),
        b'-' => {
            error::push(stack, &error::normalize(reader.line()?))?;
            stack.push_boolean(true)?;
            stack.set_field(-2, crate::answer::COUNTED)
        }
        b'_' => {
            reader.line()?;
            stack.push_nil()
        }
        b'#' => {
            let is_true = reader.line()? == b"t";
            stack.push_boolean(is_true)
        }
        b',' => {
            let text = std::str::from_utf8(reader.line()?).map_err(|_| malformed())?;
            let number = text.parse::<f64>().map_err(|_| malformed())?;
            stack.push_table(0, 1)?;
            stack.push_number(number)?;
            stack.set_field(-2, "double")
        }
        b'(' => push_text_field(stack, "big_number", reader.line()?),
        b'=' => {
            let length = reader.count()?.ok_or_else(malformed)?;
            let (format, text) = reader.block(length)?.split_at_checked(4).ok_or_else(malformed)?;
            stack.push_table(0, 1)?;
            push_text_field(stack, "format", &format[..3])?;
            stack.push_bytes(text)?;
            stack.set_field(-2, "string")?;
            stack.set_field(-2, "verbatim_string")
        }
        b'*' | b'>' | b'%' | b'~' | b'|' => push_aggregate(stack, reader, kind, depth),
        _ => Err(malformed()),
    }
}

/// Pushes `{name = text}`.
fn push_text_field(stack: &mut Stack<'_>, name: &str, text: &[u8]) -> Result<(), Failure> {
    stack.push_table(0, 1)?;
    stack.push_bytes(text)?;
    stack.set_field(-2, name)
}

fn push_aggregate(
    stack: &mut Stack<'_>,
    reader: &mut Reader<'_>,
    kind: u8,
    depth: usize,
) -> Result<(), Failure> {
    if depth == NESTING_MAX {
        return Err(malformed());
    }
    let Some(count) = reader.count()? else {
        return stack.push_boolean(false);
    };
    // Each element takes at least three bytes, so this check bounds the table by the size of the reply.
    if count > reader.rest.len() {
        return Err(malformed());
    }
    match kind {
        b'%' => {
            stack.push_table(0, 1)?;
            push_pairs(stack, reader, count, depth)?;
            stack.set_field(-2, "map")
        }
        b'~' => {
            stack.push_table(0, 1)?;
            stack.push_table(0, count)?;
            for _ in 0..count {
                push_value(stack, reader, depth + 1)?;
                stack.push_boolean(true)?;
                store(stack)?;
            }
            stack.set_field(-2, "set")
        }
        b'|' => {
            // Attributes describe the value that follows. Scripts get only the value.
            push_pairs(stack, reader, count, depth)?;
            stack.pop(1);
            push_value(stack, reader, depth + 1)
        }
        _ => {
            stack.push_table(count, 0)?;
            for position in 1..=count {
                push_value(stack, reader, depth + 1)?;
                stack.set_item(-2, position as i32)?;
            }
            Ok(())
        }
    }
}

fn push_pairs(
    stack: &mut Stack<'_>,
    reader: &mut Reader<'_>,
    count: usize,
    depth: usize,
) -> Result<(), Failure> {
    stack.push_table(0, count)?;
    for _ in 0..count {
        push_value(stack, reader, depth + 1)?;
        push_value(stack, reader, depth + 1)?;
        store(stack)?;
    }
    Ok(())
}

/// Stores the key and value on top in the table below them. A nil key is dropped.
fn store(stack: &mut Stack<'_>) -> Result<(), Failure> {
    if stack.kind(-2) == LuaKind::Nil {
        stack.pop(2);
        return Ok(());
    }
    stack.set(-3)
}
