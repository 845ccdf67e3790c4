//! A string value.
//!
//! Integers are kept as such; other strings in a block of exactly their size, until `APPEND`, `SETRANGE` or
//! `SETBIT` makes one grow: then it keeps spare room and `OBJECT ENCODING` says `raw`, as in Redis.

use std::borrow::Cow;

/// Strings of up to this many bytes are reported as `embstr`.
const EMBSTR_BYTES_MAX: usize = 44;

/// The value of a string key.
#[derive(Clone, Debug)]
pub enum Str {
    /// A canonical 64-bit integer.
    Int(i64),
    /// Written as a whole.
    Plain(Box<[u8]>),
    /// Changed in place since; has spare room.
    Grown(Vec<u8>),
}

impl Str {
    /// The string `bytes`, as an integer where that loses nothing.
    pub fn new(bytes: &[u8]) -> Self {
        match parse_int(bytes) {
            Some(number) => Str::Int(number),
            None => Str::Plain(bytes.into()),
        }
    }

    /// Replaces the content; reuses the block when the size stays the same.
    pub fn assign(&mut self, bytes: &[u8]) {
        if let Some(number) = parse_int(bytes) {
            *self = Str::Int(number);
            return;
        }
        match self {
            Str::Plain(block) if block.len() == bytes.len() => block.copy_from_slice(bytes),
            _ => *self = Str::Plain(bytes.into()),
        }
    }

    /// The bytes that a client reads.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Str::Int(number) => Cow::Owned(number.to_string().into_bytes()),
            Str::Plain(block) => Cow::Borrowed(block),
            Str::Grown(bytes) => Cow::Borrowed(bytes),
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Str::Int(number) => decimal_digits(*number),
            Str::Plain(block) => block.len(),
            Str::Grown(bytes) => bytes.len(),
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The integer, if it is one in canonical form.
    pub fn int(&self) -> Option<i64> {
        match self {
            Str::Int(number) => Some(*number),
            Str::Plain(block) => ds::num::parse_i64(block),
            Str::Grown(bytes) => ds::num::parse_i64(bytes),
        }
    }

    /// The bytes as a vector that may be changed and grown in place.
    pub fn make_mut(&mut self) -> &mut Vec<u8> {
        if !matches!(self, Str::Grown(_)) {
            let bytes = match std::mem::replace(self, Str::Int(0)) {
                Str::Int(number) => number.to_string().into_bytes(),
                Str::Plain(block) => block.into_vec(),
                Str::Grown(bytes) => bytes,
            };
            *self = Str::Grown(bytes);
        }
        let Str::Grown(bytes) = self else { unreachable!("made so above") };
        bytes
    }

    /// The name that `OBJECT ENCODING` reports.
    pub fn encoding(&self) -> &'static str {
        match self {
            Str::Int(_) => "int",
            Str::Plain(block) if block.len() <= EMBSTR_BYTES_MAX => "embstr",
            Str::Plain(_) | Str::Grown(_) => "raw",
        }
    }

    /// Bytes allocated beside the record.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Str::Int(_) => 0,
            Str::Plain(block) => block.len(),
            Str::Grown(bytes) => bytes.capacity(),
        }
    }
}

/// An integer in canonical form; the length check spares the parser most strings.
#[inline]
fn parse_int(bytes: &[u8]) -> Option<i64> {
    match bytes {
        [first, ..] if bytes.len() <= 20 && (first.is_ascii_digit() || *first == b'-') => {
            ds::num::parse_i64(bytes)
        }
        _ => None,
    }
}

fn decimal_digits(number: i64) -> usize {
    number.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1 + usize::from(number < 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_recognized_only_in_canonical_form() {
        for (text, encoding) in [
            ("12", "int"),
            ("-9223372036854775808", "int"),
            ("012", "embstr"),
            ("+1", "embstr"),
            ("", "embstr"),
        ] {
            let string = Str::new(text.as_bytes());
            assert_eq!(
                (string.encoding(), &*string.bytes(), string.len()),
                (encoding, text.as_bytes(), text.len())
            );
        }
        assert_eq!(Str::new(&[b'x'; 45]).encoding(), "raw");
    }

    #[test]
    fn a_string_that_grew_is_raw() {
        let mut string = Str::new(b"7");
        string.make_mut().push(b'5');
        assert_eq!((&*string.bytes(), string.encoding(), string.int()), (&b"75"[..], "raw", Some(75)));
        string.assign(b"75");
        assert_eq!(string.encoding(), "int");
    }
}
