//! Converts the result of a script to a reply: Lua values in, RESP out.
//!
//! | Lua | reply |
//! |---|---|
//! | string | bulk string |
//! | number | integer, truncated towards zero |
//! | boolean | 1 or null; after `redis.setresp(3)` a boolean |
//! | `{err = text}`, `{ok = text}` | error, status |
//! | `{double =}`, `{big_number =}`, `{verbatim_string = {format =, string =}}` | as named |
//! | `{map = {…}}`, `{set = {…}}` | map and set |
//! | any other table | array of its items up to the first nil |
//! | anything else | null |
//!
//! Tables can contain themselves and nest as deep as Lua's stack allows. So the conversion keeps its own
//! stack of open aggregates instead of recursing, and the size of the reply is limited.

use std::collections::BTreeMap;

use resp::{Mark, Proto, Reply};
use smallvec::SmallVec;

use crate::error::until_zero;
use crate::raw::{Failure, LuaKind, Stack, integer_of};

/// The largest reply. Without a limit, a small table that contains itself twice would never end.
const REPLY_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Stack slots needed for one level of nesting.
const LEVEL_SLOTS: i32 = 5;
/// The field of an error table which says that the error was counted when its command failed.
pub(crate) const COUNTED: &str = "ignore_error_stats_update";

/// An aggregate that is being written. `table` is the stack index of its table.
struct Level {
    table: i32,
    mark: Mark,
    count: usize,
    shape: Shape,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Array,
    Set,
    /// `at_key`: the next value to write is a key. Otherwise it is the value below the key on the stack.
    Map {
        at_key: bool,
    },
}

/// The errors in a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// Number of errors.
    pub count: u64,
    /// Error codes that were not counted when a command failed, each with its number of occurrences.
    pub uncounted: BTreeMap<Box<[u8]>, u64>,
}

impl Errors {
    pub(crate) fn note(&mut self, text: &[u8], is_counted: bool) {
        self.count += 1;
        if !is_counted {
            let code = until_zero(text).split(|byte| *byte == b' ').next().unwrap_or_default();
            *self.uncounted.entry(code.into()).or_default() += 1;
        }
    }
}

/// Writes the value on top of the stack and leaves it there. Returns the errors in it.
pub(crate) fn write(stack: &mut Stack<'_>, reply: &mut Reply<'_>) -> Errors {
    let mut errors = Errors::default();
    if stack.kind(-1) != LuaKind::Table && write_value(stack, reply, &mut errors).is_ok() {
        return errors;
    }
    let start = reply.deferred();
    let length_before = reply.out().len();
    let floor = stack.top();
    let outcome = write_all(stack, reply, floor, length_before + REPLY_BYTES_MAX, &mut errors);
    if let Err(failure) = outcome {
        let text = match failure {
            Failure::Memory => b"ERR not enough memory".to_vec(),
            Failure::Raise => interrupt_text(stack),
            Failure::Message(_) | Failure::Argument(..) => b"ERR the script's reply is too large".to_vec(),
        };
        reply.rollback(start);
        write_line(reply, b'-', &text);
        errors.note(&text, false);
    }
    stack.pop(stack.top() - floor);
    errors
}

/// The text of the error on top, raised because the script took too long.
fn interrupt_text(stack: &mut Stack<'_>) -> Vec<u8> {
    let is_known = stack.kind(-1) == LuaKind::Table && stack.get_field(-1, "err").is_ok();
    let text = if is_known { stack.bytes(-1) } else { None };
    text.unwrap_or(b"ERR the script's reply is too large").to_vec()
}

fn write_all(
    stack: &mut Stack<'_>,
    reply: &mut Reply<'_>,
    floor: i32,
    length_max: usize,
    errors: &mut Errors,
) -> Result<(), Failure> {
    let mut levels: SmallVec<[Level; 8]> = SmallVec::new();
    stack.push_copy(floor)?;
    loop {
        stack.take_steps(1)?;
        if let Some(level) = write_value(stack, reply, errors)? {
            if reply.out().len() > length_max {
                return Err(Failure::message("too large"));
            }
            levels.push(level);
        } else {
            stack.pop(1);
        }
        // Push the next element, and close aggregates that are complete.
        loop {
            let Some(level) = levels.last_mut() else { return Ok(()) };
            if advance(stack, level)? {
                break;
            }
            close(reply, level);
            // Pop the table, or for maps and sets the key and the table.
            let slots = if level.shape == Shape::Array { 1 } else { 2 };
            stack.pop(slots);
            levels.pop();
        }
    }
}

/// Pushes the next element of `level`. False at its end.
fn advance(stack: &mut Stack<'_>, level: &mut Level) -> Result<bool, Failure> {
    match level.shape {
        Shape::Array => {
            let position = i32::try_from(level.count + 1).map_err(|_| Failure::Memory)?;
            stack.get_item(level.table, position)?;
            if stack.kind(-1) == LuaKind::Nil {
                stack.pop(1);
                return Ok(false);
            }
            level.count += 1;
            Ok(true)
        }
        Shape::Set => {
            // On top: the last key.
            if !stack.next(level.table)? {
                return Ok(false);
            }
            stack.pop(1);
            stack.push_copy(-1)?;
            level.count += 1;
            Ok(true)
        }
        Shape::Map { at_key: true } => {
            // On top: the last key. Afterwards: the next key, its value, and the key again.
            if !stack.next(level.table)? {
                return Ok(false);
            }
            stack.push_copy(-2)?;
            level.count += 1;
            level.shape = Shape::Map { at_key: false };
            Ok(true)
        }
        Shape::Map { at_key: false } => {
            // On top: the key's value. It is written from where it is.
            level.shape = Shape::Map { at_key: true };
            Ok(true)
        }
    }
}

fn close(reply: &mut Reply<'_>, level: &Level) {
    match level.shape {
        Shape::Array => reply.finish_array(level.mark, level.count),
        Shape::Set => reply.finish_set(level.mark, level.count),
        Shape::Map { .. } => reply.finish_map(level.mark, level.count),
    }
}

/// Writes the value on top. If it is an aggregate, opens it instead and returns its level: the table stays on
/// the stack, for maps and sets below a nil, from which the iteration starts.
fn write_value(
    stack: &mut Stack<'_>,
    reply: &mut Reply<'_>,
    errors: &mut Errors,
) -> Result<Option<Level>, Failure> {
    if !stack.reserve(LEVEL_SLOTS) {
        reply.error("ERR reached lua stack limit");
        errors.note(b"ERR", false);
        return Ok(None);
    }
    match stack.kind(-1) {
        LuaKind::String => reply.bulk(stack.bytes(-1).unwrap_or_default()),
        LuaKind::Number => reply.int(integer_of(stack.number(-1))),
        LuaKind::Boolean if stack.is_resp3() => reply.bool(stack.boolean(-1)),
        LuaKind::Boolean if stack.boolean(-1) => reply.int(1),
        LuaKind::Table => return write_table(stack, reply, errors),
        LuaKind::None
        | LuaKind::Nil
        | LuaKind::Boolean
        | LuaKind::Pointer
        | LuaKind::Function
        | LuaKind::Other => reply.null(),
    }
    Ok(None)
}

fn write_table(
    stack: &mut Stack<'_>,
    reply: &mut Reply<'_>,
    errors: &mut Errors,
) -> Result<Option<Level>, Failure> {
    let array = |stack: &Stack<'_>, reply: &mut Reply<'_>| Level {
        table: stack.top(),
        mark: reply.deferred(),
        count: 0,
        shape: Shape::Array,
    };
    if !stack.has_fields(-1) {
        return Ok(Some(array(stack, reply)));
    }
    type Scalar = fn(&Stack<'_>, &mut Reply<'_>);
    const SCALARS: [(&str, LuaKind, Scalar); 4] = [
        ("err", LuaKind::String, |stack, reply| write_line(reply, b'-', stack.bytes(-1).unwrap_or_default())),
        ("ok", LuaKind::String, |stack, reply| write_line(reply, b'+', stack.bytes(-1).unwrap_or_default())),
        ("double", LuaKind::Number, |stack, reply| reply.double(stack.number(-1))),
        ("big_number", LuaKind::String, |stack, reply| {
            write_big_number(reply, stack.bytes(-1).unwrap_or_default());
        }),
    ];
    for (name, kind, write) in SCALARS {
        stack.get_field(-1, name)?;
        let is_match = stack.kind(-1) == kind;
        if is_match {
            write(stack, reply);
            if name == "err" {
                let text = stack.bytes(-1).unwrap_or_default().to_vec();
                stack.get_field(-2, COUNTED)?;
                errors.note(&text, stack.kind(-1) == LuaKind::Boolean && stack.boolean(-1));
                stack.pop(1);
            }
        }
        stack.pop(1);
        if is_match {
            return Ok(None);
        }
    }
    stack.get_field(-1, "verbatim_string")?;
    let is_verbatim = stack.kind(-1) == LuaKind::Table && write_verbatim(stack, reply)?;
    stack.pop(1);
    if is_verbatim {
        return Ok(None);
    }
    for (name, shape) in [("map", Shape::Map { at_key: true }), ("set", Shape::Set)] {
        stack.get_field(-1, name)?;
        if stack.kind(-1) == LuaKind::Table {
            let level = Level { table: stack.top(), mark: reply.deferred(), count: 0, shape };
            stack.push_nil()?;
            return Ok(Some(level));
        }
        stack.pop(1);
    }
    Ok(Some(array(stack, reply)))
}

/// Writes the table on top as a verbatim string. False if it does not describe one.
fn write_verbatim(stack: &mut Stack<'_>, reply: &mut Reply<'_>) -> Result<bool, Failure> {
    stack.get_field(-1, "format")?;
    stack.get_field(-2, "string")?;
    let parts = stack.bytes(-2).zip(stack.bytes(-1));
    if let Some((format, text)) = parts {
        match reply.proto() {
            Proto::Resp2 => reply.bulk(text),
            Proto::Resp3 => {
                // The format is truncated or padded to exactly three bytes.
                let mut bytes = *b"   :";
                bytes[..3].iter_mut().zip(until_zero(format)).for_each(|(to, from)| *to = *from);
                let out = reply.out();
                out.extend_from_slice(format!("={}\r\n", text.len() + bytes.len()).as_bytes());
                out.extend_from_slice(&bytes);
                out.extend_from_slice(text);
                out.extend_from_slice(b"\r\n");
            }
        }
    }
    let is_verbatim = parts.is_some();
    stack.pop(2);
    Ok(is_verbatim)
}

fn write_big_number(reply: &mut Reply<'_>, digits: &[u8]) {
    match reply.proto() {
        Proto::Resp2 => reply.bulk(&without_newlines(digits)),
        Proto::Resp3 => {
            let line = [b"(", without_newlines(digits).as_slice(), b"\r\n"].concat();
            reply.out().extend_from_slice(&line);
        }
    }
}

/// Writes a status or an error. The text is a C string: it ends at a zero byte. Newlines become spaces,
/// except that those at the end of an error are dropped.
pub(crate) fn write_line(reply: &mut Reply<'_>, kind: u8, text: &[u8]) {
    let mut text = until_zero(text);
    while kind == b'-'
        && let Some((b'\r' | b'\n', rest)) = text.split_last()
    {
        text = rest;
    }
    let out = reply.out();
    out.extend_from_slice(&[kind]);
    if text.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
        out.extend_from_slice(&without_newlines(text));
    } else {
        out.extend_from_slice(text);
    }
    out.extend_from_slice(b"\r\n");
}

fn without_newlines(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}
