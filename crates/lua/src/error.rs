//! Error values of scripts: tables with the text in `err`, as in Redis 7.

use crate::raw::{Failure, Stack};

/// Pushes `{err = text}`.
pub(crate) fn push(stack: &mut Stack<'_>, text: &[u8]) -> Result<(), Failure> {
    stack.push_table(0, 4)?;
    stack.push_bytes(text)?;
    stack.set_field(-2, "err")
}

/// Pushes an error table. The failure that is returned raises it.
pub(crate) fn raise(stack: &mut Stack<'_>, text: &[u8]) -> Failure {
    match push(stack, text) {
        Ok(()) => Failure::Raise,
        Err(failure) => failure,
    }
}

/// Normalizes the text of an error reply without its `-`: the code, a space, the message. A single word is a
/// message, and its code is `ERR`. Newlines around the message are removed.
pub(crate) fn normalize(text: &[u8]) -> Vec<u8> {
    let (code, message) = match text.iter().position(|byte| *byte == b' ') {
        Some(space) => (&text[..space], &text[space + 1..]),
        None => (&b"ERR"[..], text),
    };
    let is_newline = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = message.iter().position(|byte| !is_newline(byte)).unwrap_or(message.len());
    let end = message.iter().rposition(|byte| !is_newline(byte)).map_or(start, |last| last + 1);
    [code, b" ", &message[start..end]].concat()
}

/// The bytes up to the first zero, which is where C would end the string.
pub(crate) fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
