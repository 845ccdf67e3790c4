//! Ziplists: what small lists, hashes and sorted sets were before listpacks.
//!
//! ```text
//! all bytes(4, LE)  offset of the last(4)  count(2; 65535: not known)  ( before  head  data )*  FF
//! before: the length of the element before: one byte, or FE and four bytes
//! head:   00llllll   text               11000000  number of 2 bytes, LE    1111nnnn  the number n - 1 (1 <= n <= 13)
//!         01llllll l text, BE           11010000  number of 4 bytes        11111110  number of 1 byte
//!         10...... l(4, BE) text        11100000  number of 8 bytes        11110000  number of 3 bytes
//! ```

use super::{Element, i24, take, take_slice};

const END: u8 = 0xff;
const LONG: u8 = 0xfe;
const COUNT_UNKNOWN: u16 = u16::MAX;

/// Iterates over a ziplist.
pub(crate) struct Ziplist<'a> {
    rest: &'a [u8],
    count_left: Option<usize>,
}

impl<'a> Ziplist<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        let all = u32::from_le_bytes(take(&mut rest)?);
        take::<4>(&mut rest)?;
        let count = u16::from_le_bytes(take(&mut rest)?);
        let (end, rest) = rest.split_last()?;
        let count_left = (count != COUNT_UNKNOWN).then_some(usize::from(count));
        (all as usize == bytes.len() && *end == END).then_some(Ziplist { rest, count_left })
    }

    /// `None`: damaged; `Some(None)`: the end.
    pub(super) fn next(&mut self) -> Option<Option<Element<'a>>> {
        if self.rest.is_empty() {
            return self.count_left.is_none_or(|left| left == 0).then_some(None);
        }
        if let Some(left) = &mut self.count_left {
            *left = left.checked_sub(1)?;
        }
        let rest = &mut self.rest;
        match take(rest)? {
            [LONG] => _ = take::<4>(rest)?,
            [END] => return None,
            [_] => {}
        }
        let [head] = take(rest)?;
        let text_length = match head {
            ..0x40 => usize::from(head),
            0x40..0x80 => usize::from(head & 0x3f) << 8 | usize::from(take::<1>(rest)?[0]),
            0x80..0xc0 => u32::from_be_bytes(take(rest)?) as usize,
            0xc0.. => 0,
        };
        Some(Some(match head {
            ..0xc0 => Element::Text(take_slice(rest, text_length)?),
            0xc0 => Element::Int(i64::from(i16::from_le_bytes(take(rest)?))),
            0xd0 => Element::Int(i64::from(i32::from_le_bytes(take(rest)?))),
            0xe0 => Element::Int(i64::from_le_bytes(take(rest)?)),
            0xf0 => Element::Int(i24(take(rest)?)),
            0xf1..0xfe => Element::Int(i64::from(head & 0x0f) - 1),
            0xfe => Element::Int(i64::from(i8::from_le_bytes(take(rest)?))),
            _ => return None,
        }))
    }
}
