//! A string value.
//!
//! Integers are stored as such, short strings inside the record, and others in a block of exactly their size.
//! When `APPEND`, `SETRANGE` or `SETBIT` makes a string grow, it keeps spare room, and `OBJECT ENCODING` says
//! `raw`, as in Redis.
//!
//! Large strings, and those that grew, are shared with the replies that send them, so that many slow readers
//! of one large value need no memory of their own. A command that changes a string while replies hold it
//! changes a copy.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use ds::mover::{Mover, move_slice, move_vec};

/// Strings of up to this many bytes are reported as `embstr`.
const EMBSTR_BYTES_MAX: usize = 44;
/// Strings of at least this many bytes are shared with replies. At 8 KiB and more this costs a GET no more
/// than a copy, at 16 KiB and more it costs less (1.6 instead of 2.3 µs of CPU at pipeline 4, 5.5 instead of
/// 8.8 at 64 KiB).
pub const SHARED_BYTES_MIN: usize = 16 * 1024;

/// Bytes of an `Arc<Vec<u8>>` in addition to the text: two counters and the vector itself.
const SHARED_HEAD_BYTES: usize = 2 * size_of::<usize>() + size_of::<Vec<u8>>();

/// Strings of up to this many bytes need no block of their own: they fit beside the tag of a `Str`.
const SHORT_BYTES_MAX: usize = 22;

/// A string that needs no block of its own.
#[derive(Clone, Copy)]
pub struct Short {
    len: u8,
    bytes: [u8; SHORT_BYTES_MAX],
}

impl Short {
    /// The string `bytes`; `None` if it is too long.
    #[inline]
    fn new(bytes: &[u8]) -> Option<Short> {
        let mut short = Short { len: bytes.len() as u8, bytes: [0; SHORT_BYTES_MAX] };
        short.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(short)
    }
}

impl Deref for Short {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

/// A borrowed string, regardless of where it is stored.
#[derive(Clone, Copy, Debug)]
pub enum StrRef<'a> {
    /// A canonical 64-bit integer.
    Int(i64),
    /// Text that was written as a whole.
    Text(&'a [u8]),
    /// Large, or changed in place since it was written. Replies may hold it as well.
    Shared(&'a Arc<Vec<u8>>),
}

impl<'a> StrRef<'a> {
    /// The bytes that a client reads.
    pub fn bytes(self) -> Cow<'a, [u8]> {
        match self {
            StrRef::Int(number) => Cow::Owned(number.to_string().into_bytes()),
            StrRef::Text(text) => Cow::Borrowed(text),
            StrRef::Shared(bytes) => Cow::Borrowed(bytes),
        }
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        match self {
            StrRef::Int(number) => decimal_digits(number),
            StrRef::Text(text) => text.len(),
            StrRef::Shared(bytes) => bytes.len(),
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The integer, if it is one in canonical form.
    pub fn int(self) -> Option<i64> {
        match self {
            StrRef::Int(number) => Some(number),
            StrRef::Text(text) => ds::num::parse_i64(text),
            StrRef::Shared(bytes) => ds::num::parse_i64(bytes),
        }
    }

    /// The name that `OBJECT ENCODING` reports.
    pub fn encoding(self) -> &'static str {
        match self {
            StrRef::Int(_) => "int",
            StrRef::Text(text) if text.len() <= EMBSTR_BYTES_MAX => "embstr",
            StrRef::Text(_) | StrRef::Shared(_) => "raw",
        }
    }

    /// An owned copy.
    pub fn to_str(self) -> Str {
        match self {
            StrRef::Int(number) => Str::Int(number),
            StrRef::Text(text) => Str::text(text),
            StrRef::Shared(bytes) => Str::Shared(Arc::clone(bytes)),
        }
    }
}

/// The value of a string key.
#[derive(Clone, Debug)]
pub enum Str {
    /// A canonical 64-bit integer.
    Int(i64),
    /// Short text that was written as a whole.
    Short(Short),
    /// Text that was written as a whole.
    Plain(Box<[u8]>),
    /// Large, or changed in place, which leaves spare room. Replies may hold it as well.
    Shared(Arc<Vec<u8>>),
}

impl Str {
    /// The string `bytes`, as an integer if its text is canonical.
    pub fn new(bytes: &[u8]) -> Self {
        match parse_int(bytes) {
            Some(number) => Str::Int(number),
            None if bytes.len() >= SHARED_BYTES_MIN => Str::from(bytes.to_vec()),
            None => Str::text(bytes),
        }
    }

    /// The string `bytes`, which is not large, stored as text even if it is an integer.
    #[inline]
    pub fn text(bytes: &[u8]) -> Self {
        Short::new(bytes).map_or_else(|| Str::Plain(bytes.into()), Str::Short)
    }

    /// Replaces the content; reuses the block when the size stays the same.
    pub fn assign(&mut self, bytes: &[u8]) {
        if let Some(number) = parse_int(bytes) {
            *self = Str::Int(number);
            return;
        }
        match self {
            Str::Plain(block) if block.len() == bytes.len() => return block.copy_from_slice(bytes),
            Str::Shared(old) if bytes.len() >= SHARED_BYTES_MIN && old.capacity() == bytes.len() => {
                if let Some(old) = Arc::get_mut(old) {
                    old.clear();
                    return old.extend_from_slice(bytes);
                }
            }
            _ => {}
        }
        *self = Str::new(bytes);
    }

    /// The string, borrowed.
    #[inline]
    pub fn lend(&self) -> StrRef<'_> {
        match self {
            Str::Int(number) => StrRef::Int(*number),
            Str::Short(short) => StrRef::Text(short),
            Str::Plain(block) => StrRef::Text(block),
            Str::Shared(bytes) => StrRef::Shared(bytes),
        }
    }

    /// The bytes that a client reads.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        self.lend().bytes()
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.lend().len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The integer, if it is one in canonical form.
    pub fn int(&self) -> Option<i64> {
        self.lend().int()
    }

    /// The bytes as a vector that can be changed and extended in place. Shared bytes are copied.
    pub fn make_mut(&mut self) -> &mut Vec<u8> {
        if !matches!(self, Str::Shared(_)) {
            let bytes = match std::mem::replace(self, Str::Int(0)) {
                Str::Int(number) => number.to_string().into_bytes(),
                Str::Short(short) => short.to_vec(),
                Str::Plain(block) => block.into_vec(),
                Str::Shared(_) => unreachable!("handled above"),
            };
            *self = Str::from(bytes);
        }
        let Str::Shared(bytes) = self else { unreachable!("made so above") };
        Arc::make_mut(bytes)
    }

    /// Moves its memory if the mover asks for it, unless it is shared.
    pub(crate) fn relocate(&mut self, mover: &mut dyn Mover) {
        match self {
            Str::Int(_) | Str::Short(_) => {}
            Str::Plain(block) => move_slice(block, mover),
            Str::Shared(shared) => {
                let is_to_move = mover.wants(Arc::as_ptr(shared).cast());
                let Some(bytes) = Arc::get_mut(shared) else { return };
                move_vec(bytes, mover);
                if is_to_move {
                    *shared = Arc::new(std::mem::take(bytes));
                }
            }
        }
    }

    /// Bytes allocated in addition to the record.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Str::Int(_) | Str::Short(_) => 0,
            Str::Plain(block) => block.len(),
            Str::Shared(bytes) => SHARED_HEAD_BYTES + bytes.capacity(),
        }
    }
}

impl From<Vec<u8>> for Str {
    /// A string that was changed in place: never an integer, always `raw`.
    fn from(bytes: Vec<u8>) -> Self {
        Str::Shared(Arc::new(bytes))
    }
}

/// Parses an integer in canonical form. Checking the length first saves most strings the parser.
#[inline]
pub(crate) fn parse_int(bytes: &[u8]) -> Option<i64> {
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
                (string.lend().encoding(), &*string.bytes(), string.len()),
                (encoding, text.as_bytes(), text.len())
            );
        }
        assert_eq!(Str::new(&[b'x'; 45]).lend().encoding(), "raw");
    }

    #[test]
    fn a_string_that_grew_is_raw() {
        let mut string = Str::new(b"7");
        string.make_mut().push(b'5');
        assert_eq!((&*string.bytes(), string.lend().encoding(), string.int()), (&b"75"[..], "raw", Some(75)));
        string.assign(b"75");
        assert_eq!(string.lend().encoding(), "int");
    }

    #[test]
    fn a_large_string_is_changed_in_place_unless_somebody_else_holds_it() {
        let hold = |string: &Str| match string {
            Str::Shared(bytes) => Arc::clone(bytes),
            Str::Int(_) | Str::Short(_) | Str::Plain(_) => panic!("large strings are shared"),
        };
        let address = |string: &Str| string.bytes().as_ptr();
        let changes: [fn(&mut Str); 2] =
            [|string| string.make_mut()[0] = b'y', |string| string.assign(&[b'y'; SHARED_BYTES_MIN])];
        for change in changes {
            let mut string = Str::new(&[b'x'; SHARED_BYTES_MIN]);
            assert_eq!((string.lend().encoding(), string.memory_bytes()), ("raw", SHARED_BYTES_MIN + 40));
            let before = address(&string);
            change(&mut string);
            assert_eq!((string.bytes()[0], address(&string)), (b'y', before));
            let mut string = Str::new(&[b'x'; SHARED_BYTES_MIN]);
            let held = hold(&string);
            change(&mut string);
            assert_eq!((string.bytes()[0], held[0], held.len()), (b'y', b'x', SHARED_BYTES_MIN));
            assert_ne!(address(&string), held.as_ptr());
        }
        assert!(matches!(Str::new(&[b'x'; SHARED_BYTES_MIN - 1]), Str::Plain(_)));
    }

    #[test]
    fn a_string_that_is_written_as_a_whole_has_no_spare_room() {
        let mut string = Str::new(&[b'x'; SHARED_BYTES_MIN]);
        string.make_mut().push(b'x');
        string.assign(&[b'x'; SHARED_BYTES_MIN + 1]);
        assert_eq!(string.memory_bytes(), SHARED_BYTES_MIN + 1 + 40);
    }
}
