//! The items that match one character: a byte, any byte, a class (`%a`), or a set (`[a-z_]`). Classes are
//! those of the C locale.

/// Bits of [`CLASSES`].
const ALPHA: u16 = 1;
const CONTROL: u16 = 1 << 1;
const DIGIT: u16 = 1 << 2;
const LOWER: u16 = 1 << 3;
const PUNCTUATION: u16 = 1 << 4;
const SPACE: u16 = 1 << 5;
const UPPER: u16 = 1 << 6;
const HEX_DIGIT: u16 = 1 << 7;
const ZERO: u16 = 1 << 8;

/// The classes of each byte.
static CLASSES: [u16; 256] = {
    let mut classes = [0; 256];
    let mut code = 0;
    while code < 256 {
        let byte = code as u8;
        let is_space = matches!(byte, b' ' | b'\t'..=b'\r');
        classes[code] = (byte.is_ascii_alphabetic() as u16 * ALPHA)
            | (byte.is_ascii_control() as u16 * CONTROL)
            | (byte.is_ascii_digit() as u16 * DIGIT)
            | (byte.is_ascii_lowercase() as u16 * LOWER)
            | (byte.is_ascii_punctuation() as u16 * PUNCTUATION)
            | (is_space as u16 * SPACE)
            | (byte.is_ascii_uppercase() as u16 * UPPER)
            | (byte.is_ascii_hexdigit() as u16 * HEX_DIGIT)
            | ((byte == 0) as u16 * ZERO);
        code += 1;
    }
    classes
};

/// The class that a letter after `%` names; the caller negates it for an upper-case letter. `None` for other
/// characters, which match themselves.
#[inline(always)]
fn class_mask(letter: u8) -> Option<u16> {
    Some(match letter | 0x20 {
        b'a' => ALPHA,
        b'c' => CONTROL,
        b'd' => DIGIT,
        b'l' => LOWER,
        b'p' => PUNCTUATION,
        b's' => SPACE,
        b'u' => UPPER,
        b'w' => ALPHA | DIGIT,
        b'x' => HEX_DIGIT,
        b'z' => ZERO,
        _ => return None,
    })
}

/// An item that matches one character.
#[derive(Clone, Copy)]
pub(super) enum Single<'a> {
    Any,
    Byte(u8),
    Class {
        mask: u16,
        is_negated: bool,
    },
    /// The bytes between the brackets.
    Set(&'a [u8]),
}

impl<'a> Single<'a> {
    /// The item from `start` to `end` of the pattern; `end` comes from [`super::item_end`].
    #[inline(always)]
    pub(super) fn of(pattern: &'a [u8], start: usize, end: usize) -> Single<'a> {
        match pattern[start] {
            b'.' => Single::Any,
            b'%' => Single::escaped(pattern[start + 1]),
            b'[' => Single::Set(&pattern[start + 1..end - 1]),
            byte => Single::Byte(byte),
        }
    }

    #[inline(always)]
    fn escaped(letter: u8) -> Single<'a> {
        match class_mask(letter) {
            Some(mask) => Single::Class { mask, is_negated: letter & 0x20 == 0 },
            None => Single::Byte(letter),
        }
    }

    /// Whether the item matches this byte.
    #[inline]
    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            Single::Any => true,
            Single::Byte(expected) => byte == expected,
            Single::Class { mask, is_negated } => is_in_class(byte, mask, is_negated),
            Single::Set(set) => is_in_set(byte, set),
        }
    }
}

#[inline]
pub(super) fn is_in_class(byte: u8, mask: u16, is_negated: bool) -> bool {
    (CLASSES[usize::from(byte)] & mask != 0) != is_negated
}

/// Whether a set, given without its brackets, contains this byte. A range ends at whatever byte follows its
/// `-`. A `-` at the end of the set matches itself.
pub(super) fn is_in_set(byte: u8, set: &[u8]) -> bool {
    let (is_negated, mut rest) = match set {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, set),
    };
    loop {
        let is_found = match rest {
            [] => return is_negated,
            [b'%', letter, after @ ..] => {
                rest = after;
                match class_mask(*letter) {
                    Some(mask) => is_in_class(byte, mask, letter & 0x20 == 0),
                    None => byte == *letter,
                }
            }
            [low, b'-', high, after @ ..] => {
                rest = after;
                (*low..=*high).contains(&byte)
            }
            [only, after @ ..] => {
                rest = after;
                byte == *only
            }
        };
        if is_found {
            return !is_negated;
        }
    }
}
