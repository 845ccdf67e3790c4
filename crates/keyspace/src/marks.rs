//! What memcached's clients attach to an item beside key, value and expiry.
//!
//! A record has room for it only once there was something to be kept: flags other than 0, or a cas number that somebody
//! has seen. A number that nobody has seen can be given out when it is asked for, so that plain writes need not count.

/// Bytes of [`Marks`] in a record.
pub(crate) const MARKS_BYTES: usize = 13;

/// The marks of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// The client's own.
    pub flags: u32,
    /// The number of this version of the value; 0 if nobody has seen it yet.
    pub cas: u64,
    /// Somebody said that the value is out of date.
    pub is_stale: bool,
    /// Somebody was told to fetch a new value.
    pub was_token_sent: bool,
}

impl Marks {
    /// What remains when the value is changed in part, or goes to another key.
    #[must_use]
    pub fn of_changed_value(self) -> Marks {
        Marks { flags: self.flags, ..Marks::default() }
    }

    /// flags, 4 bytes │ cas, 8 bytes │ stale, token sent: 1 byte
    pub(crate) fn to_bytes(self) -> [u8; MARKS_BYTES] {
        let mut bytes = [0; MARKS_BYTES];
        bytes[..4].copy_from_slice(&self.flags.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.cas.to_le_bytes());
        bytes[12] = u8::from(self.is_stale) | u8::from(self.was_token_sent) << 1;
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
