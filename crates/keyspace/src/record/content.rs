//! What a narrow record has as its value: a string or a small collection, as it lies in the block.

use std::ptr::NonNull;
use std::sync::Arc;

use ds::dictionary::Dictionary;

use super::layout::{COLLECTION, DICTIONARY_BYTES, HEAD_BYTES, INT, NARROW_BYTES_MAX, Parts};
use super::{write, write_dictionary};
use crate::string::StrRef;
use crate::value::{COMPRESSED_BIG, COMPRESSED_SMALL, PACKED_TAGS, ValueRef};

/// Items of a collection in a narrow record at most.
const ITEMS_MAX: usize = u16::MAX as usize / PACKED_TAGS as usize;

/// What a narrow record can have as its value.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    Int(i64),
    Text(&'a [u8]),
    /// With the head.
    Collection(u16, &'a [u8]),
    /// The same of a compressed hash, with the dictionary by which it was packed.
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

    /// A compressed hash of so many items.
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

    /// The length of the text, or what is in place of it; `None` if it is too long.
    #[inline]
    pub(super) fn text_len(self) -> Option<u16> {
        match self {
            Content::Int(_) => Some(INT),
            Content::Text(text) => (text.len() <= NARROW_BYTES_MAX).then_some(text.len() as u16),
            Content::Collection(_, bytes) => collection_len(HEAD_BYTES + bytes.len()),
            Content::Compressed(_, _, bytes) => collection_len(HEAD_BYTES + DICTIONARY_BYTES + bytes.len()),
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
            Content::Compressed(head, dictionary, bytes) => {
                write(block, at, &head.to_le_bytes());
                write_dictionary(block, at + HEAD_BYTES, Arc::clone(dictionary));
                write(block, at + HEAD_BYTES + DICTIONARY_BYTES, bytes);
            }
        }
    }

    /// The parts of a narrow record with this content, if that is possible.
    #[inline]
    pub(super) fn parts(self, key_len: usize, form: usize) -> Option<Parts> {
        Parts::narrow_if_it_fits(form, key_len, self.text_len()?)
    }
}

/// What is in place of the length of a text for a collection of so many bytes with its head.
#[inline]
fn collection_len(bytes: usize) -> Option<u16> {
    (bytes < usize::from(INT - COLLECTION)).then_some(COLLECTION + bytes as u16)
}
