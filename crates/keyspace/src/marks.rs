//! What is attached to a key in addition to value and expiry: the data of memcached's protocol, and whether the key is
//! protected from eviction (`BLESS`).
//!
//! A record only has room for it once something has to be stored: a protection, flags other than 0, or a cas number that
//! a client has seen. As long as no client has seen a number, it can be chosen when one asks for it, so plain
//! writes need not count.
//!
//! What belongs to memcached's item ends with its value. The protection belongs to the key, and stays until the key is
//! removed.

/// Bytes of [`Marks`] in a record.
pub(crate) const MARKS_BYTES: usize = 13;

/// The marks of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// The client's flags.
    pub flags: u32,
    /// The number of this version of the value; 0 if no client has seen it yet.
    pub cas: u64,
    /// Whether a client has marked the value as stale.
    pub is_stale: bool,
    /// Whether a client was told to fetch a new value.
    pub was_token_sent: bool,
    /// Whether the key is never evicted.
    pub is_blessed: bool,
}

impl Marks {
    /// The marks that remain when the value is changed in part, or moves to another key.
    #[must_use]
    pub fn of_changed_value(self) -> Marks {
        Marks { flags: self.flags, is_blessed: self.is_blessed, ..Marks::default() }
    }

    /// The marks that remain when the value is replaced.
    #[must_use]
    pub fn of_replaced_value(self) -> Marks {
        Marks { is_blessed: self.is_blessed, ..Marks::default() }
    }

    /// The marks as text: the flags, then, if needed, the cas number and the three bits as one number.
    pub fn to_text(self) -> String {
        let bits = self.bits();
        match (self.cas, bits) {
            (0, 0) => self.flags.to_string(),
            (cas, 0) => format!("{} {cas}", self.flags),
            (cas, bits) => format!("{} {cas} {bits}", self.flags),
        }
    }

    /// Parses the marks from text; `None` if it is malformed.
    pub fn from_text(text: &[u8]) -> Option<Marks> {
        let mut words = str::from_utf8(text).ok()?.split(' ');
        let flags = words.next()?.parse().ok()?;
        let cas = words.next().map_or(Ok(0), str::parse).ok()?;
        let bits: u8 = words.next().map_or(Ok(0), str::parse).ok()?;
        let marks = Marks { flags, cas, ..Marks::of_bits(bits) };
        (words.next().is_none() && bits == marks.bits()).then_some(marks)
    }

    fn bits(self) -> u8 {
        u8::from(self.is_stale) | u8::from(self.was_token_sent) << 1 | u8::from(self.is_blessed) << 2
    }

    fn of_bits(bits: u8) -> Marks {
        Marks {
            is_stale: bits & 1 != 0,
            was_token_sent: bits & 2 != 0,
            is_blessed: bits & 4 != 0,
            ..Marks::default()
        }
    }

    /// flags, 4 bytes │ cas, 8 bytes │ stale, token sent, blessed: 1 byte
    pub(crate) fn to_bytes(self) -> [u8; MARKS_BYTES] {
        let mut bytes = [0; MARKS_BYTES];
        bytes[..4].copy_from_slice(&self.flags.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.cas.to_le_bytes());
        bytes[12] = self.bits();
        bytes
    }

    pub(crate) fn from_bytes(bytes: [u8; MARKS_BYTES]) -> Marks {
        let [f0, f1, f2, f3, c0, c1, c2, c3, c4, c5, c6, c7, bits] = bytes;
        Marks {
            flags: u32::from_le_bytes([f0, f1, f2, f3]),
            cas: u64::from_le_bytes([c0, c1, c2, c3, c4, c5, c6, c7]),
            ..Marks::of_bits(bits)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back() {
        for (marks, text) in [
            (Marks::default(), "0"),
            (Marks { flags: u32::MAX, ..Marks::default() }, "4294967295"),
            (Marks { flags: 1, cas: u64::MAX, ..Marks::default() }, "1 18446744073709551615"),
            (Marks { cas: 7, is_stale: true, ..Marks::default() }, "0 7 1"),
            (Marks { is_stale: true, was_token_sent: true, ..Marks::default() }, "0 0 3"),
            (Marks { is_blessed: true, ..Marks::default() }, "0 0 4"),
            (Marks { flags: 9, cas: 2, is_blessed: true, was_token_sent: true, ..Marks::default() }, "9 2 6"),
        ] {
            assert_eq!((marks.to_text().as_str(), Marks::from_text(text.as_bytes())), (text, Some(marks)));
        }
        for other in ["", "x", "-1", "4294967296", "1 ", "1 2 8", "1 2 3 4", "1\n"] {
            assert_eq!(Marks::from_text(other.as_bytes()), None, "{other}");
        }
    }
}
