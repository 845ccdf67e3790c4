//! What a narrow record has as its value: a string or a small collection, as it lies in the block.

use std::ptr::NonNull;

use super::layout::{COLLECTION, HEAD_BYTES, INT, NARROW_BYTES_MAX, Parts};
use super::write;
use crate::string::StrRef;
use crate::value::{PACKED_TAGS, ValueRef};

/// Items of a collection in a narrow record at most.
const ITEMS_MAX: usize = u16::MAX as usize / PACKED_TAGS as usize;

/// What a narrow record can have as its value.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    Int(i64),
    Text(&'a [u8]),
    /// With the head.
    Collection(u16, &'a [u8]),
}

impl<'a> Content<'a> {
    #[inline]
    pub(super) fn of(value: ValueRef<'a>) -> Option<Self> {
        if let ValueRef::Str(string) = value {
            return Content::of_string(string);
        }
        let (tag, packed) = value.packed()?;
        let is_short = packed.count <= ITEMS_MAX;
        is_short.then(|| {
            Content::Collection(packed.count as u16 * u16::from(PACKED_TAGS) + u16::from(tag), packed.bytes)
        })
    }

    #[inline]
    pub(super) fn of_string(string: StrRef<'a>) -> Option<Self> {
        match string {
            StrRef::Int(number) => Some(Content::Int(number)),
            StrRef::Text(text) => Some(Content::Text(text)),
            StrRef::Shared(_) => None,
        }
    }

    /// The length of the text, or what is in place of it; `None` if it is too long.
    #[inline]
    pub(super) fn text_len(self) -> Option<u16> {
        match self {
            Content::Int(_) => Some(INT),
            Content::Text(text) => (text.len() <= NARROW_BYTES_MAX).then_some(text.len() as u16),
            Content::Collection(_, bytes) => {
                let len = HEAD_BYTES + bytes.len();
                (len < usize::from(INT - COLLECTION)).then_some(COLLECTION + len as u16)
            }
        }
    }

    /// Writes it to a block that is borrowed alone, or new, and has room for it there.
    #[inline]
    pub(super) fn write(self, block: NonNull<u8>, at: usize) {
        match self {
            Content::Int(number) => write(block, at, &number.to_le_bytes()),
            Content::Text(text) => write(block, at, text),
            Content::Collection(head, bytes) => {
                write(block, at, &head.to_le_bytes());
                write(block, at + HEAD_BYTES, bytes);
            }
        }
    }

    /// The parts of a narrow record with this content, if that is possible.
    #[inline]
    pub(super) fn parts(self, key_len: usize, form: usize) -> Option<Parts> {
        Parts::narrow_if_it_fits(form, key_len, self.text_len()?)
    }
}
