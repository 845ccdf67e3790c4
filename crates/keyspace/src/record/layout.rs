//! Where the parts of a record lie, and what its word says: arithmetic alone, which touches no memory.

use std::alloc::Layout;

use crate::data_config::UnixMs;
use crate::marks::MARKS_BYTES;

/// Bytes of the expiry by its form: none, one of the next 8,900 years, any, any with marks behind it.
pub(super) const EXPIRY_BYTES: [usize; 4] = [0, 6, 8, 8];
/// The form that has room for marks.
pub(super) const MARKED: usize = 3;
/// Bytes of the expiry and of what is behind it, by form.
const TAIL_BYTES: [usize; 4] = [0, 6, 8, 8 + MARKS_BYTES];
/// "Never expires" by the form of the expiry.
pub(super) const NO_EXPIRY: [UnixMs; 4] = [UnixMs::MAX, (1 << 48) - 1, UnixMs::MAX, UnixMs::MAX];

/// The lowest bit of the form of the expiry in the word.
const FORM_BIT: u32 = 30;
const NARROW: u32 = 1 << 29;
/// Where the high bits of the length of a narrow record's text begin in the word.
const TEXT_BIT: u32 = 25;
/// A reading command has found it since its value was set.
const WAS_READ: u32 = 1 << 24;
/// The access clock.
pub(super) const ACCESS_MASK: u32 = WAS_READ - 1;
/// What a record takes along when it is made anew.
const KEPT_MASK: u32 = ACCESS_MASK | WAS_READ;

/// Where the fields of a narrow record begin: the length of the key, the low bits of that of the text.
pub(super) const NARROW_LENGTHS_AT: usize = size_of::<u32>();
const NARROW_HEAD_BYTES: usize = NARROW_LENGTHS_AT + 2;
/// Bytes of a narrow record at most: the largest that the allocator has a fine size for.
pub(super) const NARROW_BYTES_MAX: usize = 2048;
/// Bytes of a narrow record's key at most.
const KEY_BYTES_MAX: usize = u8::MAX as usize;
/// In place of the length of a text: it is an integer.
pub(super) const INT: u16 = (1 << 12) - 1;
/// The same: it is a collection, whose length with its head is added to this.
pub(super) const COLLECTION: u16 = NARROW_BYTES_MAX as u16 + 1;
/// The head of a collection: its tag, 4 bits, and above them the number of its items.
pub(super) const HEAD_BYTES: usize = size_of::<u16>();
/// Behind the head of a compressed hash: the address of its dictionary.
pub(super) const DICTIONARY_BYTES: usize = size_of::<usize>();

/// All records are aligned to this and have a multiple of it, as the allocator has it.
pub(super) const ALIGN: usize = 8;
/// Bytes of the head of a wide record: word, length of the key, value.
pub(super) const WIDE_HEAD_BYTES: usize = 32;

/// What every record begins with; its bits are in the head of `record.rs`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(super) struct Word(u32);

impl Word {
    /// The word of a new record, which takes what it says of its accesses from `kept`.
    #[inline]
    pub(super) fn new(is_narrow: bool, form: usize, kept: u32) -> Word {
        let narrow = if is_narrow { NARROW } else { 0 };
        Word(kept & KEPT_MASK | narrow | (form as u32) << FORM_BIT)
    }

    #[inline]
    pub(super) fn is_narrow(self) -> bool {
        self.0 & NARROW != 0
    }

    /// The form of expiry and marks.
    #[inline]
    pub(super) fn form(self) -> usize {
        (self.0 >> FORM_BIT) as usize
    }

    #[inline]
    pub(super) fn access(self) -> u32 {
        self.0 & ACCESS_MASK
    }

    #[inline]
    pub(super) fn was_read(self) -> bool {
        self.0 & WAS_READ != 0
    }

    /// What a record takes along when it is made anew.
    #[inline]
    pub(super) fn kept(self) -> u32 {
        self.0 & KEPT_MASK
    }

    /// The length of a narrow record's text, or what is in place of it, whose low bits are `low`.
    #[inline]
    pub(super) fn text_len(self, low: u8) -> u16 {
        ((self.0 >> TEXT_BIT & 0xf) as u16) << 8 | u16::from(low)
    }

    /// The same record with a text of another length, whose low bits lie elsewhere.
    #[inline]
    pub(super) fn with_text_len(self, text_len: u16) -> Word {
        Word(self.0 & !(0xf << TEXT_BIT) | u32::from(text_len >> 8) << TEXT_BIT)
    }

    /// A writing command has found it at this time.
    #[inline]
    pub(super) fn with_access(self, access: u32) -> Word {
        Word(access & ACCESS_MASK | self.0 & !KEPT_MASK)
    }

    /// A reading command has found it at this time.
    #[inline]
    pub(super) fn with_read(self, access: u32) -> Word {
        Word(access & ACCESS_MASK | WAS_READ | self.0 & !ACCESS_MASK)
    }
}

/// Where the parts of a record lie.
pub(super) struct Parts {
    pub(super) layout: Layout,
    /// Offset and length.
    pub(super) key: (usize, usize),
    pub(super) expiry_at: usize,
    /// Of a narrow record: where its content begins, and the length of a text or what is in place of it.
    pub(super) content: Option<(usize, u16)>,
}

impl Parts {
    #[inline]
    pub(super) fn narrow(form: usize, key_len: usize, text_len: u16) -> Self {
        let key_at = NARROW_HEAD_BYTES + TAIL_BYTES[form];
        let content_at = key_at + key_len;
        let content_bytes = match text_len {
            ..COLLECTION => usize::from(text_len),
            COLLECTION..INT => usize::from(text_len - COLLECTION),
            INT.. => size_of::<i64>(),
        };
        Parts {
            layout: layout((content_at + content_bytes).next_multiple_of(ALIGN)),
            key: (key_at, key_len),
            expiry_at: NARROW_HEAD_BYTES,
            content: Some((content_at, text_len)),
        }
    }

    /// The same if a narrow record can have so long a key and so much content.
    #[inline]
    pub(super) fn narrow_if_it_fits(form: usize, key_len: usize, text_len: u16) -> Option<Self> {
        let parts = Parts::narrow(form, key_len, text_len);
        (key_len <= KEY_BYTES_MAX && parts.layout.size() <= NARROW_BYTES_MAX).then_some(parts)
    }

    #[inline]
    pub(super) fn wide(form: usize, key_len: usize) -> Self {
        let expiry_at = WIDE_HEAD_BYTES + key_len;
        Parts {
            layout: layout(expiry_at + TAIL_BYTES[form]),
            key: (WIDE_HEAD_BYTES, key_len),
            expiry_at,
            content: None,
        }
    }
}

#[inline]
fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, ALIGN).expect("the length of a key is bounded")
}

/// The form that has room for this expiry.
pub(super) fn expiry_form(expiry: Option<UnixMs>) -> usize {
    expiry.map_or(0, |expiry| if (0..NO_EXPIRY[1]).contains(&expiry) { 1 } else { 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_its_fields_apart() {
        for (is_narrow, form, text_len) in [(true, 3, 0x801), (true, 0, INT), (false, 2, 0), (true, 1, 0xff)]
        {
            let word = Word::new(is_narrow, form, u32::MAX).with_text_len(text_len);
            let check = |word: Word, access: u32, was_read: bool| {
                assert_eq!((word.is_narrow(), word.form()), (is_narrow, form), "{word:?}");
                assert_eq!(word.text_len(text_len as u8), text_len, "{word:?}");
                assert_eq!((word.access(), word.was_read()), (access, was_read), "{word:?}");
            };
            check(word, ACCESS_MASK, true);
            check(word.with_access(5), 5, false);
            check(word.with_access(5).with_read(u32::MAX), ACCESS_MASK, true);
            assert_eq!(Word::new(is_narrow, form, word.kept()).with_text_len(text_len), word);
        }
    }

    #[test]
    fn parts_follow_each_other_without_overlap() {
        for (form, key_len) in (0..4).flat_map(|form| [0, 1, 7, 255].map(|key_len| (form, key_len))) {
            let wide = Parts::wide(form, key_len);
            assert_eq!(
                (wide.key.0 + key_len, wide.layout.size()),
                (wide.expiry_at, wide.expiry_at + TAIL_BYTES[form])
            );
            for (text_len, bytes) in [(0, 0), (9, 9), (COLLECTION + 4, 4), (INT, 8)] {
                let Parts { layout, key, expiry_at, content } = Parts::narrow(form, key_len, text_len);
                assert_eq!((expiry_at, expiry_at + TAIL_BYTES[form]), (NARROW_HEAD_BYTES, key.0));
                assert_eq!(content, Some((key.0 + key_len, text_len)));
                let end = key.0 + key_len + bytes;
                assert!(layout.size() - end < ALIGN && layout.size().is_multiple_of(ALIGN), "{layout:?}");
            }
        }
        assert!(Parts::narrow_if_it_fits(0, 255, 1).is_some());
        assert!(Parts::narrow_if_it_fits(0, 256, 1).is_none());
        assert!(Parts::narrow_if_it_fits(0, 10, NARROW_BYTES_MAX as u16).is_none());
    }
}
