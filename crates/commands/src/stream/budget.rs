//! The limits of a reply to XREAD or XREADGROUP over all its streams: `MAXCOUNT` entries, `MAXSIZE` bytes.
//!
//! The size of an entry is what it takes in the reply, without the two numbers for a reader that claims. At least one entry
//! is returned, however large it is. After that, the first entry that does not fit ends the reply, so that a consumer gets
//! entries in their order. A stream of which no entry fits is left out: an empty list would say that it has none.

use ds::stream::{Fields, StreamId};

/// What a reply may still contain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    entries: usize,
    bytes: usize,
    /// Whether the reply has no entry yet.
    is_untouched: bool,
}

impl Budget {
    /// No limit.
    pub(super) const fn any() -> Budget {
        Budget { entries: usize::MAX, bytes: usize::MAX, is_untouched: true }
    }

    /// At most so many entries and bytes.
    pub(super) fn of(entries: usize, bytes: usize) -> Budget {
        Budget { entries, bytes, ..Budget::any() }
    }

    /// Whether no further stream needs to be looked at.
    pub(super) fn is_spent(&self) -> bool {
        self.entries == 0 || self.bytes == 0
    }

    /// Whether the next entry fits, whichever it is.
    #[inline]
    pub(super) fn takes_any(&self) -> bool {
        self.is_untouched || (self.entries == usize::MAX && self.bytes == usize::MAX)
    }

    /// Whether this entry fits.
    pub(super) fn fits(&self, id: StreamId, fields: Option<Fields<'_>>) -> bool {
        let is_small = || self.bytes == usize::MAX || entry_bytes(id, fields) <= self.bytes;
        self.entries > 0 && (self.is_untouched || is_small())
    }

    /// Takes what this entry needs; false if it does not fit, which ends the reply.
    #[inline]
    pub(super) fn take(&mut self, id: StreamId, fields: Option<Fields<'_>>) -> bool {
        let fits = self.fits(id, fields);
        if !fits {
            self.entries = 0;
        } else if self.entries != usize::MAX || self.bytes != usize::MAX {
            self.entries -= 1;
            self.bytes = self.bytes.saturating_sub(entry_bytes(id, fields));
        }
        self.is_untouched = false;
        fits
    }
}

/// The size of an entry in a reply: its id, and its fields and values, or null if it was deleted.
fn entry_bytes(id: StreamId, fields: Option<Fields<'_>>) -> usize {
    let bulk = |len: usize| framed(len) + len + 2;
    let pairs = fields.into_iter().flatten().map(|(field, value)| bulk(field.len()) + bulk(value.len()));
    let texts: usize = pairs.sum();
    framed(2) + bulk(id.to_string().len()) + framed(fields.map_or(0, |fields| fields.len() * 2)) + texts
}

/// The bytes of `$len` or `*len` with the end of the line.
fn framed(len: usize) -> usize {
    let digits = len.checked_ilog10().map_or(1, |log| log as usize + 1);
    1 + digits + 2
}

#[cfg(test)]
mod tests {
    use engine::Local;
    use resp::Proto;

    #[test]
    fn the_size_is_that_in_the_reply() {
        let mut local = Local::new(crate::FAMILIES);
        let long = "x".repeat(1000);
        for line in ["XADD s 1-1 f v", "XADD s 10-1 field value g w", &format!("XADD s 10-2 {long} \u{e9}")] {
            local.line(line);
        }
        let entries = local.reply(Proto::Resp2, &[b"XRANGE", b"s", b"-", b"+"]);
        let size = entries.len() - b"*3\r\n".len();
        let count = |local: &mut Local, size: usize| {
            let reply = local.line(&format!("XREAD MAXSIZE {size} STREAMS s 0"));
            reply.matches("-").count()
        };
        assert_eq!(count(&mut local, size), 3);
        assert_eq!(count(&mut local, size - 1), 2);
        assert_eq!(count(&mut local, 1), 1);
    }
}
