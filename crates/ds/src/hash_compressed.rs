//! A hash that is compressed by a dictionary: what its fields have in common with those of other hashes lies there
//! ([`dictionary`](crate::dictionary)).
//!
//! Compressed is one run of fields and values, as a small hash has it. A hash of the big form has it too, if it has few fields: they are put
//! in order, so that hashes with the same fields look alike. It cannot be read in place: it is expanded into a buffer, which takes a
//! fraction of a microsecond, or made a hash of its own to be changed.
//!
//! Not here: which hashes are compressed, and where the bytes lie (`keyspace`).

use crate::dictionary::{Dictionary, unpacked_len};
use crate::hash::{Hash, HashRef};
use crate::packed::Packed;

/// The shortest and the longest run that is compressed: expanding the longest takes little more than a microsecond.
const PLAIN_BYTES_MIN: usize = 48;
const PLAIN_BYTES_MAX: usize = 2048;
/// Fields of the big form that is compressed, at most: when it is read, they are looked at one after the other.
const BIG_FIELDS_MAX: usize = 32;

/// A hash that is to be compressed.
#[derive(Clone, Copy, Debug)]
pub struct Compressible<'a> {
    /// Whether it has the big form.
    pub is_big: bool,
    /// The run of its items.
    pub run: Packed<'a>,
}

impl<'a> Compressible<'a> {
    /// The hash if it can be compressed; `buffer` is for the run.
    pub fn of(hash: HashRef<'a>, buffer: &'a mut Vec<u8>) -> Option<Self> {
        let is_fit = |run: Packed<'_>| (PLAIN_BYTES_MIN..=PLAIN_BYTES_MAX).contains(&run.bytes.len());
        if let Some(run) = hash.packed() {
            return is_fit(run).then_some(Compressible { is_big: false, run });
        }
        if hash.first_expiry().is_some() || hash.len() > BIG_FIELDS_MAX {
            return None;
        }
        let mut pairs: Vec<_> = hash.iter().collect();
        if pairs.iter().map(|(field, value)| field.len() + value.len()).sum::<usize>() > PLAIN_BYTES_MAX {
            return None;
        }
        pairs.sort_unstable();
        buffer.clear();
        let run = HashRef::run_of(pairs.into_iter(), buffer);
        is_fit(run).then_some(Compressible { is_big: true, run })
    }
}

/// A compressed hash, lent; see the head of this file.
#[derive(Clone, Copy)]
pub struct CompressedHash<'a> {
    /// Whether it has the big form when it is not compressed.
    pub is_big: bool,
    /// Fields and values.
    pub item_count: usize,
    /// The packed run of its items.
    pub bytes: &'a [u8],
    /// By which it was packed.
    pub dictionary: &'a Dictionary,
}

impl<'a> CompressedHash<'a> {
    /// Number of fields.
    pub fn len(self) -> usize {
        self.item_count / 2
    }

    /// True if there is no field.
    pub fn is_empty(self) -> bool {
        self.item_count == 0
    }

    /// The name that OBJECT ENCODING reports.
    pub fn encoding(self) -> &'static str {
        if self.is_big { "hashtable" } else { "listpack" }
    }

    /// The hash to be read. It lies in the beginning of `buffer`, which only grows.
    pub fn expand(self, buffer: &mut Vec<u8>) -> HashRef<'_> {
        let len = unpacked_len(self.bytes);
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        let written = self.dictionary.unpack(self.bytes, buffer);
        assert_eq!(written, Some(len), "what was packed comes back");
        HashRef::of(Packed { form: 0, count: self.item_count, bytes: &buffer[..len] })
    }

    /// A hash of its own, in the form that it had.
    pub fn to_hash(self) -> Hash {
        let mut buffer = Vec::new();
        let hash = self.expand(&mut buffer);
        if self.is_big { hash.to_big_hash() } else { hash.to_hash() }
    }
}

impl std::fmt::Debug for CompressedHash<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} fields in {} bytes", self.len(), self.bytes.len())
    }
}
