//! A hash that is compressed with a dictionary, which contains the text that its fields share with those of
//! other hashes ([`dictionary`](crate::dictionary)).
//!
//! The compressed text is a listpack of fields and values, as in a small hash. For a hash of the big form, which
//! qualifies if it has few fields, one is created with its fields sorted, so that hashes with the same fields look alike.
//! A compressed hash cannot be read in place: it is expanded into a buffer, which takes a fraction of a microsecond.
//!
//! Not here: which hashes are compressed, and where the bytes are stored (`keyspace`).

use crate::dictionary::{Dictionary, unpacked_len};
use crate::hash::{Hash, HashRef};
use crate::packed::Packed;

/// Range of listpack sizes that are compressed. Expanding the largest takes little more than a microsecond.
const PLAIN_BYTES_MIN: usize = 48;
const PLAIN_BYTES_MAX: usize = 2048;
/// Maximum number of fields of a big hash that is compressed: when it is read, its fields are searched one by one.
const BIG_FIELDS_MAX: usize = 32;

/// A hash that can be compressed.
#[derive(Clone, Copy, Debug)]
pub struct Compressible<'a> {
    /// Whether it has the big form.
    pub is_big: bool,
    /// The listpack of its items.
    pub run: Packed<'a>,
}

impl<'a> Compressible<'a> {
    /// The hash, if it can be compressed; `buffer` may be used for the listpack.
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
        pairs.sort_unstable_by_key(|(field, _)| *field);
        buffer.clear();
        let run = HashRef::run_of(pairs.into_iter(), buffer);
        is_fit(run).then_some(Compressible { is_big: true, run })
    }
}

/// A borrowed compressed hash.
#[derive(Clone, Copy)]
pub struct CompressedHash<'a> {
    /// Whether it has the big form when it is not compressed.
    pub is_big: bool,
    /// Number of fields and values.
    pub item_count: usize,
    /// The packed listpack of its items.
    pub bytes: &'a [u8],
    /// Dictionary that it was packed with.
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

    /// Expands the hash for reading, into the beginning of `buffer`, which never shrinks. Panics if the bytes are damaged.
    pub fn expand(self, buffer: &mut Vec<u8>) -> HashRef<'_> {
        let len = unpacked_len(self.bytes);
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        let written = self.dictionary.unpack(self.bytes, buffer);
        assert_eq!(written, Some(len), "what was packed comes back");
        HashRef::of(Packed { form: 0, count: self.item_count, bytes: &buffer[..len] })
    }

    /// An owned copy, in the form that the hash had.
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
