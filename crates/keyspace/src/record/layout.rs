//! The places of a record's parts, and the bits of its word: arithmetic only, without memory accesses.

use std::alloc::Layout;

use crate::data_config::UnixMs;
use crate::marks::MARKS_BYTES;

/// Length of the expiry by form: none, a time within the next 8,900 years, any time, any time followed by marks.
pub(super) const EXPIRY_BYTES: [usize; 4] = [0, 6, 8, 8];
/// The form that has room for marks.
pub(super) const MARKED: usize = 3;
/// The length of the expiry and the marks after it, by form.
const TAIL_BYTES: [usize; 4] = [0, 6, 8, 8 + MARKS_BYTES];
/// The value for "never expires", by form.
pub(super) const NO_EXPIRY: [UnixMs; 4] = [UnixMs::MAX, (1 << 48) - 1, UnixMs::MAX, UnixMs::MAX];

/// Lowest bit of the form of expiry and marks in the word.
const FORM_BIT: u32 = 30;
const NARROW: u32 = 1 << 29;
/// Lowest bit in the word of the high bits of a narrow record's text length.
const TEXT_BIT: u32 = 25;
/// A reading command has accessed the record since its value was set.
const WAS_READ: u32 = 1 << 24;
/// The access clock.
pub(super) const ACCESS_MASK: u32 = WAS_READ - 1;
/// The bits that are kept when a record is recreated.
const KEPT_MASK: u32 = ACCESS_MASK | WAS_READ;

/// The offset of a narrow record's lengths: that of the key, and the low bits of that of the text.
pub(super) const NARROW_LENGTHS_AT: usize = size_of::<u32>();
const NARROW_HEAD_BYTES: usize = NARROW_LENGTHS_AT + 2;
/// Maximum size of a narrow record: the largest size for which the allocator has fine steps.
pub(super) const NARROW_BYTES_MAX: usize = 2048;
/// Maximum length of a narrow record's key.
const KEY_BYTES_MAX: usize = u8::MAX as usize;
/// Replaces the length of a text: the content is an integer.
pub(super) const INT: u16 = (1 << 12) - 1;
/// Replaces the length of a text, with the length of a collection including its head added to it.
pub(super) const COLLECTION: u16 = NARROW_BYTES_MAX as u16 + 1;
/// Length of a collection's head: its tag in the low 4 bits, and the number of its items above them.
pub(super) const HEAD_BYTES: usize = size_of::<u16>();
/// Length of the dictionary's address, which follows the head of a compressed hash.
pub(super) const DICTIONARY_BYTES: usize = size_of::<usize>();

/// Alignment of all records; their sizes are multiples of it, like those of the allocator.
pub(super) const ALIGN: usize = 8;
/// Length of a wide record's head: word, length of the key, value.
pub(super) const WIDE_HEAD_BYTES: usize = 32;

/// The first word of every record; its bits are described in `record.rs`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(super) struct Word(u32);

impl Word {
    /// The word of a new record with the access bits of `kept`.
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

    /// The bits that are kept when a record is recreated.
    #[inline]
    pub(super) fn kept(self) -> u32 {
        self.0 & KEPT_MASK
    }

    /// The length of a narrow record's text, or the number that replaces it; `low` are its low bits.
    #[inline]
    pub(super) fn text_len(self, low: u8) -> u16 {
        ((self.0 >> TEXT_BIT & 0xf) as u16) << 8 | u16::from(low)
    }

    /// The word with another text length, whose low bits are stored elsewhere.
    #[inline]
    pub(super) fn with_text_len(self, text_len: u16) -> Word {
        Word(self.0 & !(0xf << TEXT_BIT) | u32::from(text_len >> 8) << TEXT_BIT)
    }

    /// The word after an access by a writing command.
    #[inline]
    pub(super) fn with_access(self, access: u32) -> Word {
        Word(access & ACCESS_MASK | self.0 & !KEPT_MASK)
    }

    /// The word after an access by a reading command.
    #[inline]
    pub(super) fn with_read(self, access: u32) -> Word {
        Word(access & ACCESS_MASK | WAS_READ | self.0 & !ACCESS_MASK)
    }
}

/// The places of a record's parts.
pub(super) struct Parts {
    pub(super) layout: Layout,
    /// Offset and length.
    pub(super) key: (usize, usize),
    pub(super) expiry_at: usize,
    /// For a narrow record, the offset of its content, and the length of the text or the number that replaces
    /// it.
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

    /// The parts of a narrow record; `None` if the key or the content is too long.
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

/// The smallest form with room for this expiry.
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
