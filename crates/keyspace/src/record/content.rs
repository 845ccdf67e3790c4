//! The value of a narrow record: a string or a small collection, as stored in the block.

use std::ptr::NonNull;
use std::sync::Arc;

use ds::dictionary::Dictionary;

use super::layout::{COLLECTION, DICTIONARY_BYTES, HEAD_BYTES, INT, NARROW_BYTES_MAX, Parts};
use super::{write, write_dictionary};
use crate::string::StrRef;
use crate::value::{COMPRESSED_BIG, COMPRESSED_SMALL, PACKED_TAGS, ValueRef};

/// The most items of a collection in a narrow record.
const ITEMS_MAX: usize = u16::MAX as usize / PACKED_TAGS as usize;

/// A value that a narrow record can have.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    Int(i64),
    Text(&'a [u8]),
    /// The head and the bytes.
    Collection(u16, &'a [u8]),
    /// A compressed hash: head, the dictionary it was packed with, and bytes.
    Compressed(u16, &'a Arc<Dictionary>, &'a [u8]),
}

fn head(tag: u8, item_count: usize) -> Option<u16> {
    let is_short = item_count <= ITEMS_MAX;
    is_short.then(|| item_count as u16 * u16::from(PACKED_TAGS) + u16::from(tag))
}

impl<'a> Content<'a> {
    #[inline]
    pub(super) fn of(value: ValueRef<'a>) -> Option<Self> {
        if let ValueRef::Str(string) = value {
            return Content::of_string(string);
        }
        let (tag, packed) = value.packed()?;
        Some(Content::Collection(head(tag, packed.count)?, packed.bytes))
    }

    /// A compressed hash of `item_count` items; `None` if there are too many.
    pub(super) fn of_compressed(
        is_big: bool,
        item_count: usize,
        dictionary: &'a Arc<Dictionary>,
        bytes: &'a [u8],
    ) -> Option<Self> {
        let tag = if is_big { COMPRESSED_BIG } else { COMPRESSED_SMALL };
        Some(Content::Compressed(head(tag, item_count)?, dictionary, bytes))
    }

    #[inline]
    pub(super) fn of_string(string: StrRef<'a>) -> Option<Self> {
        match string {
            StrRef::Int(number) => Some(Content::Int(number)),
            StrRef::Text(text) => Some(Content::Text(text)),
            StrRef::Shared(_) => None,
        }
    }

    /// The length of the text, or the number that replaces it for other content; `None` if it is too long.
    #[inline]
    pub(super) fn text_len(self) -> Option<u16> {
        match self {
            Content::Int(_) => Some(INT),
            Content::Text(text) => (text.len() <= NARROW_BYTES_MAX).then_some(text.len() as u16),
            Content::Collection(_, bytes) => collection_len(HEAD_BYTES + bytes.len()),
            Content::Compressed(_, _, bytes) => collection_len(HEAD_BYTES + DICTIONARY_BYTES + bytes.len()),
        }
    }

    /// Writes the content to a block that is new or mutably borrowed, and has room for it at this offset.
    #[inline]
    pub(super) fn write(self, block: NonNull<u8>, at: usize) {
        match self {
            Content::Int(number) => write(block, at, &number.to_le_bytes()),
            Content::Text(text) => write(block, at, text),
            Content::Collection(head, bytes) => {
                write(block, at, &head.to_le_bytes());
                write(block, at + HEAD_BYTES, bytes);
            }
            Content::Compressed(head, dictionary, bytes) => {
                write(block, at, &head.to_le_bytes());
                write_dictionary(block, at + HEAD_BYTES, Arc::clone(dictionary));
                write(block, at + HEAD_BYTES + DICTIONARY_BYTES, bytes);
            }
        }
    }

    /// The parts of a narrow record with this content; `None` if it does not fit.
    #[inline]
    pub(super) fn parts(self, key_len: usize, form: usize) -> Option<Parts> {
        Parts::narrow_if_it_fits(form, key_len, self.text_len()?)
    }
}

/// The number that replaces the length of a text, for a collection of `bytes` including its head.
#[inline]
fn collection_len(bytes: usize) -> Option<u16> {
    (bytes < usize::from(INT - COLLECTION)).then_some(COLLECTION + bytes as u16)
}
