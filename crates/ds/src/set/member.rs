//! A member of a set as callers get it: bytes in the set, or an integer written into the member itself.

use std::ops::Deref;

/// Length of the longest integer, `-9223372036854775808`.
const DIGITS_MAX: usize = 20;

/// A member, which dereferences to bytes.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    text: Text<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Text<'a> {
    Bytes(&'a [u8]),
    Digits { digits: [u8; DIGITS_MAX], len: u8 },
}

impl<'a> Member<'a> {
    pub(super) fn bytes(bytes: &'a [u8]) -> Self {
        Self { text: Text::Bytes(bytes) }
    }

    pub(super) fn integer(number: i64) -> Self {
        let mut buffer = itoa::Buffer::new();
        let written = buffer.format(number).as_bytes();
        let mut digits = [0; DIGITS_MAX];
        digits[..written.len()].copy_from_slice(written);
        Self { text: Text::Digits { digits, len: written.len() as u8 } }
    }
}

impl Deref for Member<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.text {
            Text::Bytes(bytes) => bytes,
            Text::Digits { digits, len } => &digits[..usize::from(*len)],
        }
    }
}

impl AsRef<[u8]> for Member<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
