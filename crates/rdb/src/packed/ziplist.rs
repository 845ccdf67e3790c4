//! Ziplists: the encoding of small lists, hashes and sorted sets before listpacks.
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

/// Iterates over a ziplist. The links backward are checked, as they are by Redis.
pub(crate) struct Ziplist<'a> {
    rest: &'a [u8],
    count_left: Option<usize>,
    /// The length of the previous element; 0: no previous element.
    previous_bytes: usize,
    /// The bytes from the beginning of the last element to the end, as the head says.
    last_to_end: usize,
}

impl<'a> Ziplist<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        let all = u32::from_le_bytes(take(&mut rest)?);
        let last = u32::from_le_bytes(take(&mut rest)?) as usize;
        let count = u16::from_le_bytes(take(&mut rest)?);
        let (end, rest) = rest.split_last()?;
        let count_left = (count != COUNT_UNKNOWN).then_some(usize::from(count));
        let last_to_end = (bytes.len() - 1).checked_sub(last)?;
        (all as usize == bytes.len() && *end == END).then_some(Ziplist {
            rest,
            count_left,
            previous_bytes: 0,
            last_to_end,
        })
    }

    /// `None`: damaged; `Some(None)`: the end.
    pub(super) fn next(&mut self) -> Option<Option<Element<'a>>> {
        if self.rest.is_empty() {
            // The offset of the last element matters only if there is one.
            let is_whole = self.count_left.is_none_or(|left| left == 0)
                && (self.previous_bytes == 0 || self.previous_bytes == self.last_to_end);
            return is_whole.then_some(None);
        }
        if let Some(left) = &mut self.count_left {
            *left = left.checked_sub(1)?;
        }
        let left_bytes = self.rest.len();
        let element = self.element()?;
        self.previous_bytes = left_bytes - self.rest.len();
        Some(Some(element))
    }

    fn element(&mut self) -> Option<Element<'a>> {
        let rest = &mut self.rest;
        let before = match take(rest)? {
            [LONG] => u32::from_le_bytes(take(rest)?) as usize,
            [END] => return None,
            [before] => usize::from(before),
        };
        if before != self.previous_bytes {
            return None;
        }
        let [head] = take(rest)?;
        let text_length = match head {
            ..0x40 => usize::from(head),
            0x40..0x80 => usize::from(head & 0x3f) << 8 | usize::from(take::<1>(rest)?[0]),
            0x80..0xc0 => u32::from_be_bytes(take(rest)?) as usize,
            0xc0.. => 0,
        };
        Some(match head {
            ..0xc0 => Element::Text(take_slice(rest, text_length)?),
            0xc0 => Element::Int(i64::from(i16::from_le_bytes(take(rest)?))),
            0xd0 => Element::Int(i64::from(i32::from_le_bytes(take(rest)?))),
            0xe0 => Element::Int(i64::from_le_bytes(take(rest)?)),
            0xf0 => Element::Int(i24(take(rest)?)),
            0xf1..0xfe => Element::Int(i64::from(head & 0x0f) - 1),
            0xfe => Element::Int(i64::from(i8::from_le_bytes(take(rest)?))),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(bytes: &[u8]) -> Option<usize> {
        let mut ziplist = Ziplist::new(bytes)?;
        let mut count = 0;
        while ziplist.next()?.is_some() {
            count += 1;
        }
        Some(count)
    }

    #[test]
    fn links_backward_must_be_right() {
        // "a", 5, "b"
        let whole = b"\x13\0\0\0\x0f\0\0\0\x03\0\0\x01a\x03\xf6\x02\x01b\xff";
        assert_eq!(count(whole), Some(3));
        // The offset of the last element, the count, and the back lengths before the first, second and third
        // element.
        for (index, byte) in [(4, 0x0d), (4, 0x13), (8, 2), (10, 1), (13, 2), (15, 3)] {
            let mut bytes = whole.to_vec();
            bytes[index] = byte;
            assert_eq!(count(&bytes), None, "{index}");
        }
        // A short length in the long form.
        let long = b"\x17\0\0\0\x0f\0\0\0\x03\0\0\x01a\x03\xf6\xfe\x02\0\0\0\x01b\xff";
        assert_eq!(count(long), Some(3));
        assert_eq!(count(b"\x0b\0\0\0\x0a\0\0\0\0\0\xff"), Some(0));
        assert_eq!(count(b"\x0b\0\0\0\x0b\0\0\0\0\0\xff"), None);
    }
}
