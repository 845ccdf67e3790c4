//! Zipmaps: the encoding of small hashes before Redis 2.6.
//!
//! ```text
//! count(1; 254: not known)  ( length field  length free(1) value  free bytes )*  FF
//! length: one byte, or FE and four bytes, LE
//! ```

use super::{Element, take, take_slice};

const END: u8 = 0xff;
const LONG: u8 = 0xfe;

/// Iterates over a zipmap.
pub(crate) struct Zipmap<'a> {
    rest: &'a [u8],
    is_at_value: bool,
    fields_left: Option<u8>,
}

impl<'a> Zipmap<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let (&count, rest) = bytes.split_first()?;
        let fields_left = (count != LONG).then_some(count);
        Some(Zipmap { rest, is_at_value: false, fields_left })
    }

    /// `None`: damaged; `Some(None)`: the end.
    pub(super) fn next(&mut self) -> Option<Option<Element<'a>>> {
        let rest = &mut self.rest;
        let length = match take(rest)? {
            [END] => {
                return (rest.is_empty() && self.fields_left.is_none_or(|left| left == 0)).then_some(None);
            }
            [LONG] => u32::from_le_bytes(take(rest)?) as usize,
            [short] => usize::from(short),
        };
        if !self.is_at_value
            && let Some(left) = &mut self.fields_left
        {
            *left = left.checked_sub(1)?;
        }
        let free = if self.is_at_value { take::<1>(rest)?[0] } else { 0 };
        self.is_at_value = !self.is_at_value;
        let text = take_slice(rest, length)?;
        take_slice(rest, usize::from(free))?;
        Some(Some(Element::Text(text)))
    }
}
