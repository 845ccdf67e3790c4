//! The big form of a hash: a table of records, each a field with its value.
//!
//! ```text
//! │ length of the field │ field │ value          fields below 127 bytes
//! │ the same plus 128   │ field │ packed value
//! │ 255 │ length, 8 B   │ field │ value          longer fields
//! ```
//!
//! A hash whose records take enough bytes learns the text that the values being set have in common, and packs
//! those that are set from then on ([`Pace`]). Earlier values stay as they are: they are few. Fields are not
//! packed, so a look-up unpacks only the value that is read ([`FieldValue`]). A plain value of the same
//! length is overwritten in place, which covers most changes of counters.

use std::borrow::Cow;
use std::ops::Range;

use crate::blob::Blob;
use crate::blob_table::{BlobTable, Keyed};
use crate::dictionary::{Dictionary, Pace, PackingFigures, is_fit, saves_enough, unpacked_len};
use crate::listpack::{LONG, PREFIX_BYTES_MAX, item_range};
use crate::mover::{Mover, WalkPosition, move_box};

/// Added to the length of the field if the value is packed.
const PACKED: u8 = 128;
/// The longest field whose length takes one byte.
const SHORT_MAX: usize = 126;

/// The records of a big hash.
enum Pairs {}

impl Keyed for Pairs {
    #[inline]
    fn key(record: &[u8]) -> &[u8] {
        &record[field_range(record)]
    }
}

#[inline]
fn field_range(record: &[u8]) -> Range<usize> {
    match record[0] {
        LONG => item_range(record, 0),
        short => 1..1 + usize::from(short & !PACKED),
    }
}

#[inline]
fn is_packed(record: &[u8]) -> bool {
    record[0] >= PACKED && record[0] != LONG
}

/// The value of a field, which may be packed.
#[derive(Clone, Copy)]
pub struct FieldValue<'a> {
    stored: &'a [u8],
    /// The dictionary that it is packed with.
    dictionary: Option<&'a Dictionary>,
}

impl<'a> From<&'a [u8]> for FieldValue<'a> {
    #[inline]
    fn from(stored: &'a [u8]) -> Self {
        Self { stored, dictionary: None }
    }
}

impl<'a> FieldValue<'a> {
    /// Number of bytes.
    pub fn len(self) -> usize {
        if self.dictionary.is_some() { unpacked_len(self.stored) } else { self.stored.len() }
    }

    /// True if it has no bytes.
    pub fn is_empty(self) -> bool {
        self.stored.is_empty()
    }

    /// The bytes; a copy if it is packed.
    #[inline]
    pub fn bytes(self) -> Cow<'a, [u8]> {
        match self.dictionary {
            None => Cow::Borrowed(self.stored),
            Some(dictionary) => Cow::Owned(dictionary.unpacked(self.stored)),
        }
    }
}

/// A big hash.
#[derive(Clone)]
pub(crate) struct Big {
    table: Box<BlobTable<Pairs>>,
    /// Created when the hash is large enough for its values to be packed.
    packing: Option<Box<Packing>>,
}

/// State of a hash's packing.
#[derive(Clone, Default)]
struct Packing {
    dictionary: Option<Box<Dictionary>>,
    pace: Pace,
}

impl Packing {
    /// Learns from a value that is set, and packs it if that is worth it.
    fn pack(&mut self, value: &[u8]) -> Option<Vec<u8>> {
        match self.pace.add(self.dictionary.as_deref()) {
            Some(learner) => learner.look_at(value),
            None => drop(self.pace.decide(&mut self.dictionary)),
        }
        let dictionary = self.pace.usable(self.dictionary.as_deref())?;
        if self.pace.skips(value.len()) {
            return None;
        }
        let mut packed = Vec::with_capacity(value.len());
        dictionary.pack(value, &mut packed);
        let is_worth_it = saves_enough(value.len(), packed.len());
        self.pace.note(value.len(), packed.len(), is_worth_it);
        is_worth_it.then_some(packed)
    }
}

impl Big {
    pub(crate) fn new() -> Self {
        Self { table: BlobTable::new(), packing: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// The value of a field.
    #[inline]
    pub(crate) fn get(&self, field: &[u8]) -> Option<FieldValue<'_>> {
        Some(self.pair(self.table.find(field)?).1)
    }

    /// The field and the value of a record.
    #[inline]
    fn pair<'a>(&'a self, record: &'a [u8]) -> (&'a [u8], FieldValue<'a>) {
        let field = field_range(record);
        let dictionary = if is_packed(record) { self.dictionary() } else { None };
        (&record[field.clone()], FieldValue { stored: &record[field.end..], dictionary })
    }

    #[cold]
    fn dictionary(&self) -> Option<&Dictionary> {
        self.packing.as_ref()?.dictionary.as_deref()
    }

    /// Sets a field; true if it is new. Unless `pack_bytes_min` is 0, the value may be packed once the records take that many
    /// bytes.
    #[inline]
    pub(crate) fn set(&mut self, field: &[u8], value: &[u8], pack_bytes_min: usize) -> bool {
        if pack_bytes_min > 0 && is_fit(value) {
            return self.set_fit(field, value, pack_bytes_min);
        }
        self.put::<0>(field, value)
    }

    /// Apart, so that values of other lengths do not pay for it.
    #[inline(never)]
    fn set_fit(&mut self, field: &[u8], value: &[u8], pack_bytes_min: usize) -> bool {
        let may_be_packed = field.len() <= SHORT_MAX
            && (self.packing.is_some() || self.table.record_bytes() >= pack_bytes_min);
        if may_be_packed && let Some(packed) = self.packing.get_or_insert_default().pack(value) {
            return self.put::<PACKED>(field, &packed);
        }
        self.put::<0>(field, value)
    }

    /// Puts a record with this value, plain (`MARK` 0) or packed ([`PACKED`]).
    #[inline]
    fn put<const MARK: u8>(&mut self, field: &[u8], value: &[u8]) -> bool {
        let head = if field.len() <= SHORT_MAX { field.len() as u8 | MARK } else { LONG };
        let head_bytes = if head == LONG { PREFIX_BYTES_MAX } else { 1 };
        let len = head_bytes + field.len() + value.len();
        let make = || {
            Blob::written(len, |record| {
                record.push(&[head]);
                if head == LONG {
                    record.push(&(field.len() as u64).to_le_bytes());
                }
                record.push(field);
                record.push(value);
            })
        };
        let write_over = |old: &mut [u8]| {
            let is_like_it = old.len() == len && old[0] == head;
            if is_like_it {
                old[len - value.len()..].copy_from_slice(value);
            }
            is_like_it
        };
        self.table.put(field, len, make, write_over)
    }

    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        self.table.remove(field)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], FieldValue<'_>)> {
        self.table.iter().map(|record| self.pair(record))
    }

    #[inline]
    pub(crate) fn for_each<'a>(&'a self, mut visit: impl FnMut(&'a [u8], FieldValue<'a>)) {
        self.table.for_each(|record| {
            let (field, value) = self.pair(record);
            visit(field, value);
        });
    }

    pub(crate) fn scan<'a>(
        &'a self,
        cursor: u64,
        count: usize,
        visit: &mut dyn FnMut(&'a [u8], FieldValue<'a>),
    ) -> u64 {
        self.table.scan(cursor, count, &mut |record| {
            let (field, value) = self.pair(record);
            visit(field, value);
        })
    }

    pub(crate) fn random(&self, random: u64, random2: u64) -> Option<(&[u8], FieldValue<'_>)> {
        self.table.random(random, random2).map(|record| self.pair(record))
    }

    /// Figures of its packing; `None` without a dictionary.
    pub(crate) fn packing(&self) -> Option<PackingFigures> {
        let dictionary_bytes = self.dictionary()?.memory_bytes();
        let packed_count = self.table.iter().filter(|record| is_packed(record)).count();
        Some(PackingFigures { packed_count, dictionary_bytes })
    }

    /// Moves its memory; see [`BlobTable::defragment`].
    pub(crate) fn defragment(&mut self, place: &mut WalkPosition, mover: &mut dyn Mover) -> bool {
        if let Some(packing) = &mut self.packing {
            move_box(packing, mover);
            if let Some(dictionary) = &mut packing.dictionary {
                move_box(dictionary, mover);
                dictionary.relocate(mover);
            }
        }
        self.table.defragment(place, mover)
    }

    pub(crate) fn stop_learning(&mut self) {
        if let Some(packing) = &mut self.packing {
            packing.pace.stop_learning();
        }
    }

    pub(crate) fn free_slice(&mut self) {
        self.table.free_slice();
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let packing =
            self.packing.as_ref().map_or(0, |packing| size_of::<Packing>() + packing.pace.memory_bytes());
        self.table.memory_bytes() + packing + self.dictionary().map_or(0, Dictionary::memory_bytes)
    }

    pub(crate) fn debug_validate(&self) {
        self.table.debug_validate();
        assert!(self.table.iter().all(|record| !is_packed(record) || self.dictionary().is_some()));
    }
}
