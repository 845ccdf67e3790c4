//! The data that clients of memcached's protocol attach to an item in addition to key, value and expiry.
//!
//! A record only has room for it once something has to be stored: flags other than 0, or a cas number that a
//! client has seen. As long as no client has seen a number, it can be chosen when one asks for it, so plain
//! writes need not count.

/// Bytes of [`Marks`] in a record.
pub(crate) const MARKS_BYTES: usize = 13;

/// The marks of an item.
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
}

impl Marks {
    /// The marks that remain when the value is changed in part, or moves to another key.
    #[must_use]
    pub fn of_changed_value(self) -> Marks {
        Marks { flags: self.flags, ..Marks::default() }
    }

    /// The marks as text: the flags, then, if needed, the cas number and the two bits as one number.
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
        let marks = Marks { flags, cas, is_stale: bits & 1 != 0, was_token_sent: bits & 2 != 0 };
        (words.next().is_none() && bits == marks.bits()).then_some(marks)
    }

    fn bits(self) -> u8 {
        u8::from(self.is_stale) | u8::from(self.was_token_sent) << 1
    }

    /// flags, 4 bytes │ cas, 8 bytes │ stale, token sent: 1 byte
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
            is_stale: bits & 1 != 0,
            was_token_sent: bits & 2 != 0,
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
            (Marks { flags: 0, cas: 7, is_stale: true, was_token_sent: false }, "0 7 1"),
            (Marks { flags: 0, cas: 0, is_stale: true, was_token_sent: true }, "0 0 3"),
        ] {
            assert_eq!((marks.to_text().as_str(), Marks::from_text(text.as_bytes())), (text, Some(marks)));
        }
        for other in ["", "x", "-1", "4294967296", "1 ", "1 2 4", "1 2 3 4", "1\n"] {
            assert_eq!(Marks::from_text(other.as_bytes()), None, "{other}");
        }
    }
}
