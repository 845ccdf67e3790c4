//! Lua values to JSON.

use super::{NESTING_MAX, Settings, number};
use crate::raw::{Failure, LuaKind, Stack};
use crate::steps::{STEP_BYTES, TABLE_STEP_COUNT};

/// Initial capacity of the output: the events of most jobs fit.
const OUT_BYTES_MIN: usize = 256;
/// Bytes that have to be escaped.
const ESCAPED: [bool; 256] = {
    let mut escaped = [false; 256];
    let mut byte = 0;
    while byte < escaped.len() {
        escaped[byte] = matches!(byte as u8, 0..=0x1f | b'"' | b'\\' | b'/' | 0x7f);
        byte += 1;
    }
    escaped
};

pub(super) fn encode(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    if stack.arg_count() != 1 {
        return Err(Failure::argument(1, "expected 1 argument"));
    }
    let settings = Settings::load(stack)?;
    stack.push_copy(1)?;
    let mut encoder = Encoder { stack, settings, out: Vec::with_capacity(OUT_BYTES_MIN) };
    encoder.value(0)?;
    let out = encoder.out;
    stack.push_bytes(&out)?;
    Ok(1)
}

struct Encoder<'a, 'b> {
    stack: &'a mut Stack<'b>,
    settings: Settings,
    out: Vec<u8>,
}

impl Encoder<'_, '_> {
    /// Appends the value on top.
    fn value(&mut self, depth: i32) -> Result<(), Failure> {
        self.stack.take_steps(1)?;
        match self.stack.kind(-1) {
            LuaKind::String => self.text(-1)?,
            LuaKind::Number => self.number(-1)?,
            LuaKind::Boolean if self.stack.boolean(-1) => self.out.extend_from_slice(b"true"),
            LuaKind::Boolean => self.out.extend_from_slice(b"false"),
            LuaKind::Nil => self.out.extend_from_slice(b"null"),
            LuaKind::Pointer if self.stack.is_null(-1) => self.out.extend_from_slice(b"null"),
            LuaKind::Table => self.table(depth + 1)?,
            LuaKind::None | LuaKind::Pointer | LuaKind::Function | LuaKind::Other => {
                return Err(self.refuse(-1, "type not supported"));
            }
        }
        // A small table that contains others many times would otherwise make endless text.
        self.stack.claim_memory(self.out.len())
    }

    fn refuse(&self, index: i32, reason: &str) -> Failure {
        Failure::message(format!("Cannot serialise {}: {reason}", self.stack.kind_name(index)))
    }

    fn number(&mut self, index: i32) -> Result<(), Failure> {
        let number = self.stack.number(index);
        match self.settings.encode_invalid {
            0 if !number.is_finite() => return Err(self.refuse(index, "must not be NaN or Inf")),
            1 if number.is_nan() => self.out.extend_from_slice(b"nan"),
            2 if !number.is_finite() => self.out.extend_from_slice(b"null"),
            _ => number::write(&mut self.out, number, self.settings.precision as usize),
        }
        Ok(())
    }

    fn text(&mut self, index: i32) -> Result<(), Failure> {
        let text = self.stack.bytes(index).unwrap_or_default();
        self.out.reserve(text.len() + 2);
        self.out.push(b'"');
        let mut rest = text;
        while let Some(length) = rest.iter().position(|byte| ESCAPED[usize::from(*byte)]) {
            self.out.extend_from_slice(&rest[..length]);
            match rest[length] {
                byte @ (b'"' | b'\\' | b'/') => self.out.extend_from_slice(&[b'\\', byte]),
                0x08 => self.out.extend_from_slice(b"\\b"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                0x0c => self.out.extend_from_slice(b"\\f"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                byte => self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            }
            rest = &rest[length + 1..];
        }
        self.out.extend_from_slice(rest);
        self.out.push(b'"');
        let length = text.len();
        self.stack.take_steps(length / STEP_BYTES)
    }

    /// Appends the table on top.
    fn table(&mut self, depth: i32) -> Result<(), Failure> {
        if depth > self.settings.encode_depth_max.min(NESTING_MAX) || !self.stack.reserve(3) {
            return Err(Failure::message(format!("Cannot serialise, excessive nesting ({depth})")));
        }
        self.stack.take_steps(TABLE_STEP_COUNT)?;
        match self.array_length()? {
            Some(length) => self.array(length, depth),
            None => self.object(depth),
        }
    }

    /// The length of the table on top if it is an array: at least one item, only positive integers as keys,
    /// and not sparse. `None` if it has to be written as an object.
    fn array_length(&mut self) -> Result<Option<i32>, Failure> {
        let table = self.stack.top();
        let (mut length, mut item_count) = (0_i32, 0_i32);
        self.stack.push_nil()?;
        while self.stack.next(table)? {
            let key = if self.stack.kind(-2) == LuaKind::Number { self.stack.number(-2) } else { 0.0 };
            if key < 1.0 || key.floor() != key {
                self.stack.pop(2);
                return Ok(None);
            }
            if key > f64::from(length) {
                // As in C: a key beyond 32 bits becomes a negative length, so the table is not an array.
                length = if key > f64::from(i32::MAX) { i32::MIN } else { key as i32 };
            }
            item_count += 1;
            self.stack.pop(1);
        }
        let Settings { sparse_ratio, sparse_safe, sparse_convert, .. } = self.settings;
        let is_sparse = sparse_ratio > 0
            && i64::from(length) > i64::from(item_count) * i64::from(sparse_ratio)
            && length > sparse_safe;
        match (is_sparse, sparse_convert) {
            (true, 0) => Err(self.refuse(-1, "excessively sparse array")),
            (true, _) => Ok(None),
            (false, _) => Ok((length > 0).then_some(length)),
        }
    }

    fn array(&mut self, length: i32, depth: i32) -> Result<(), Failure> {
        self.out.push(b'[');
        for position in 1..=length {
            if position > 1 {
                self.out.push(b',');
            }
            self.stack.get_item(-1, position)?;
            self.value(depth)?;
            self.stack.pop(1);
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, depth: i32) -> Result<(), Failure> {
        let table = self.stack.top();
        self.out.push(b'{');
        let mut is_first = true;
        self.stack.push_nil()?;
        while self.stack.next(table)? {
            if !is_first {
                self.out.push(b',');
            }
            is_first = false;
            match self.stack.kind(-2) {
                LuaKind::Number => {
                    self.out.push(b'"');
                    self.number(-2)?;
                    self.out.push(b'"');
                }
                LuaKind::String => self.text(-2)?,
                _ => return Err(self.refuse(-2, "table key must be a number or string")),
            }
            self.out.push(b':');
            self.value(depth)?;
            self.stack.pop(1);
        }
        self.out.push(b'}');
        Ok(())
    }
}
