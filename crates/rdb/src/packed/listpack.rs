//! Listpacks: elements with their length at both ends.
//!
//! ```text
//! all bytes(4, LE)  count(2, LE; 65535: not known)  ( head  data  back )*  FF
//! head:  0nnnnnnn          number of 7 bits        1111 0001  number of 2 bytes, LE
//!        110nnnnn n        number of 13 bits       1111 0010  number of 3 bytes
//!        10llllll          text                    1111 0011  number of 4 bytes
//!        1110llll l        text                    1111 0100  number of 8 bytes
//!        1111 0000 l(4, LE) text
//! back:  the length of head and data in groups of 7 bits, to be read backwards
//! ```

use ds::list::back_bytes;

use super::{Element, i24, take, take_slice};

const END: u8 = 0xff;
const COUNT_UNKNOWN: u16 = u16::MAX;
/// The bytes before the first element.
const HEAD_BYTES: usize = 6;
/// The longest head of an element, and the longest length at its end.
pub(crate) const OVERHEAD_BYTES_MAX: usize = 10;

/// Iterates over a listpack.
pub(crate) struct Listpack<'a> {
    rest: &'a [u8],
    count_left: Option<usize>,
}

impl<'a> Listpack<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        let all = u32::from_le_bytes(take(&mut rest)?);
        let count = u16::from_le_bytes(take(&mut rest)?);
        let (end, rest) = rest.split_last()?;
        let count_left = (count != COUNT_UNKNOWN).then_some(usize::from(count));
        (all as usize == bytes.len() && *end == END).then_some(Listpack { rest, count_left })
    }

    /// `None`: damaged; `Some(None)`: the end.
    pub(super) fn next(&mut self) -> Option<Option<Element<'a>>> {
        if self.rest.is_empty() {
            return self.count_left.is_none_or(|left| left == 0).then_some(None);
        }
        if let Some(left) = &mut self.count_left {
            *left = left.checked_sub(1)?;
        }
        let before = self.rest.len();
        let rest = &mut self.rest;
        let [head] = take(rest)?;
        let text_length = match head {
            0x80..0xc0 => usize::from(head & 0x3f),
            0xe0..0xf0 => usize::from(head & 0x0f) << 8 | usize::from(take::<1>(rest)?[0]),
            0xf0 => u32::from_le_bytes(take(rest)?) as usize,
            _ => 0,
        };
        let element = match head {
            ..0x80 => Element::Int(i64::from(head)),
            0xc0..0xe0 => {
                let number = u16::from_be_bytes([head, take::<1>(rest)?[0]]);
                Element::Int(i64::from((number << 3) as i16 >> 3))
            }
            0x80..0xc0 | 0xe0..=0xf0 => Element::Text(take_slice(rest, text_length)?),
            0xf1 => Element::Int(i64::from(i16::from_le_bytes(take(rest)?))),
            0xf2 => Element::Int(i24(take(rest)?)),
            0xf3 => Element::Int(i64::from(i32::from_le_bytes(take(rest)?))),
            0xf4 => Element::Int(i64::from_le_bytes(take(rest)?)),
            0xf5.. => return None,
        };
        let body = before - rest.len();
        let back = take_slice(rest, back_bytes(body))?;
        back_groups(body).eq(back.iter().copied()).then_some(Some(element))
    }
}

/// The length of an element in the form that follows the element.
fn back_groups(body: usize) -> impl Iterator<Item = u8> {
    let count = back_bytes(body);
    (0..count).rev().map(move |group| {
        let is_last_read = group == count - 1;
        (body >> (7 * group)) as u8 & 0x7f | if is_last_read { 0 } else { 0x80 }
    })
}

/// Begins a listpack in `out`, which is empty.
pub(crate) fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; HEAD_BYTES]);
}

/// The most bytes that `text` can take.
pub(crate) fn element_bytes_max(text: &[u8]) -> usize {
    text.len() + OVERHEAD_BYTES_MAX
}

/// Adds an element, as an integer if it is the canonical text of one.
pub(crate) fn push(text: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    match ds::num::parse_i64(text) {
        Some(number) => push_number(number, out),
        None => {
            let length = text.len();
            match length {
                ..64 => out.push(0x80 | length as u8),
                64..4096 => out.extend_from_slice(&(0xe000 | length as u16).to_be_bytes()),
                _ => {
                    out.push(0xf0);
                    out.extend_from_slice(&(length as u32).to_le_bytes());
                }
            }
            out.extend_from_slice(text);
        }
    }
    let body = out.len() - start;
    out.extend(back_groups(body));
}

fn push_number(number: i64, out: &mut Vec<u8>) {
    match number {
        0..128 => out.push(number as u8),
        -4096..4096 => out.extend_from_slice(&(0xc000 | number as u16 & 0x1fff).to_be_bytes()),
        -0x8000..0x8000 => {
            out.push(0xf1);
            out.extend_from_slice(&(number as i16).to_le_bytes());
        }
        -0x80_0000..0x80_0000 => {
            out.push(0xf2);
            out.extend_from_slice(&number.to_le_bytes()[..3]);
        }
        -0x8000_0000..0x8000_0000 => {
            out.push(0xf3);
            out.extend_from_slice(&(number as i32).to_le_bytes());
        }
        _ => {
            out.push(0xf4);
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
}

/// Ends a listpack of `count` elements.
pub(crate) fn end(count: usize, out: &mut Vec<u8>) {
    out.push(END);
    let all = u32::try_from(out.len()).expect("whoever packs elements looks at their size");
    let count = u16::try_from(count).unwrap_or(COUNT_UNKNOWN);
    out[..4].copy_from_slice(&all.to_le_bytes());
    out[4..HEAD_BYTES].copy_from_slice(&count.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(bytes: &[u8]) -> Option<Vec<String>> {
        let mut listpack = Listpack::new(bytes)?;
        let mut found = Vec::new();
        while let Some(element) = listpack.next()? {
            found.push(String::from_utf8_lossy(element.bytes(&mut itoa::Buffer::new())).into_owned());
        }
        Some(found)
    }

    #[test]
    fn elements_of_all_forms_come_back() {
        let mut texts: Vec<String> =
            [0, 1, 63, 64, 127, 128, 4095, 4096, 16_377, 16_378, 16_379, 70_000, 2_097_200]
                .map(|length| "x".repeat(length))
                .to_vec();
        for bits in [0, 7, 12, 13, 15, 23, 31, 63] {
            for number in [(1_i128 << bits) - 1, 1 << bits, -(1 << bits), -(1 << bits) - 1] {
                texts.push(number.to_string());
            }
        }
        let mut bytes = Vec::new();
        begin(&mut bytes);
        texts.iter().for_each(|text| push(text.as_bytes(), &mut bytes));
        end(texts.len(), &mut bytes);
        assert_eq!(elements(&bytes), Some(texts.clone()));
        for cut in [0, 5, 6, 7, bytes.len() - 1] {
            assert_eq!(elements(&bytes[..cut]), None);
        }
        bytes[4] ^= 1;
        assert_eq!(elements(&bytes), None);
        bytes[4..6].fill(0xff);
        assert_eq!(elements(&bytes), Some(texts));
    }

    #[test]
    fn a_length_behind_an_element_must_be_the_one_before_it() {
        let long = "x".repeat(200);
        let mut bytes = Vec::new();
        begin(&mut bytes);
        push(long.as_bytes(), &mut bytes);
        push(b"5", &mut bytes);
        end(2, &mut bytes);
        assert_eq!(elements(&bytes), Some(vec![long, "5".to_owned()]));
        for index in [bytes.len() - 2, bytes.len() - 4, bytes.len() - 5] {
            bytes[index] ^= 4;
            assert_eq!(elements(&bytes), None, "{index}");
            bytes[index] ^= 4;
        }
    }

    /// The bytes that redis-server produces for the same elements.
    #[test]
    fn bytes_are_those_of_redis() {
        let mut bytes = Vec::new();
        begin(&mut bytes);
        for text in ["hello", "5", "-1", "4095", "-30000", "8000000", "-8388609", "123456789012345"] {
            push(text.as_bytes(), &mut bytes);
        }
        end(8, &mut bytes);
        let expected = b"\x2f\0\0\0\x08\0\x85hello\x06\x05\x01\xdf\xff\x02\xcf\xff\x02\xf1\xd0\x8a\x03\xf2\0\x12\x7a\x04\
            \xf3\xff\xff\x7f\xff\x05\xf4\x79\xdf\x0d\x86\x48\x70\0\0\x09\xff";
        assert_eq!(bytes, expected);
    }
}
