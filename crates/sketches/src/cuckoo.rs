//! A cuckoo filter: like a Bloom filter, but items can be deleted and counted (Fan and others, "Cuckoo Filter: Practically
//! Better Than Bloom", 2014).
//!
//! An item is a fingerprint of one byte in one of two buckets; each bucket follows from the other and the fingerprint. If
//! both are full, a fingerprint is pushed out to its other bucket, which may push out the next one. If that does not end
//! after a number of iterations, everything goes back, and another table follows, larger by the *expansion*.
//!
//! ```text
//!   bucket   0 [a7 .. ]   1 [13 5c]   2 [.. ..]   3 [5c e0]
//!                              └──────── 5c ⊕ ────────┘
//! ```
//!
//! Deleting an item that was never added may delete another one with the same fingerprint: the caller must know.

use crate::Block;
use crate::array::{BYTES_MAX, CreateError, ITEMS_MAX, zeroed};
use crate::form::{Field, FieldSource};
use crate::murmur::murmur64a;

/// The version of the form.
pub const VERSION: u64 = 4;
/// The most items in a bucket.
pub const BUCKET_SIZE_MAX: u16 = 255;
/// The most that a filter grows by.
pub const EXPANSION_MAX: u16 = 32_768;
/// A filter with this many tables takes no more items.
pub const TABLES_MAX: usize = 32;

/// The bytes of a dump's head.
pub const DUMP_HEAD_BYTES: usize = 38;
/// The longest chunk of a dump.
const CHUNK_BYTES_MAX: usize = 16 << 20;
/// How many fields come before the first table, and how many each table has.
const HEAD_FIELDS: usize = 7;
const TABLE_FIELDS: usize = 2;
/// No fingerprint.
const FREE: u8 = 0;
const ALTERNATIVE: u64 = 0x5bd1_e995;
/// The sizes of RedisBloom's structures, which `CF.INFO` counts.
const REPORTED_HEAD_BYTES: u64 = 40;
const REPORTED_TABLE_BYTES: u64 = 16;

/// A table of buckets.
#[derive(Clone, Debug)]
struct BucketTable {
    buckets: u64,
    array: Vec<u8>,
}

/// The parameters of a filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// How many items a bucket has.
    pub bucket_size: u16,
    /// How many fingerprints are pushed out before the filter grows.
    pub iterations_max: u16,
    /// By how much the next table is larger; 0: the filter does not grow.
    pub expansion: u16,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters { bucket_size: 2, iterations_max: 20, expansion: 1 }
    }
}

impl Parameters {
    fn are_valid(self) -> bool {
        (1..=BUCKET_SIZE_MAX).contains(&self.bucket_size)
            && self.iterations_max > 0
            && (self.expansion == 0 || self.expansion.is_power_of_two() && self.expansion <= EXPANSION_MAX)
    }
}

/// A chain of tables.
#[derive(Clone, Debug)]
pub struct Cuckoo {
    tables: Vec<BucketTable>,
    /// The buckets of the first table, a power of two.
    buckets: u64,
    len: u64,
    deleted: u64,
    parameters: Parameters,
}

/// The result of adding an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// It is in the filter once more.
    New,
    /// It was there, or seemed to be.
    Present,
    /// The filter is full and must not grow.
    Full,
    /// The filter cannot grow.
    TooLarge,
}

/// A fingerprint and the hashes that select its buckets.
#[derive(Clone, Copy)]
struct ItemPlaces {
    fingerprint: u8,
    one: u64,
    other: u64,
}

/// The hash of the other bucket of a fingerprint.
fn alternative(fingerprint: u8, hash: u64) -> u64 {
    hash ^ u64::from(fingerprint).wrapping_mul(ALTERNATIVE)
}

impl ItemPlaces {
    fn of(item: &[u8]) -> ItemPlaces {
        let hash = murmur64a(item, 0);
        ItemPlaces::at((hash % 255 + 1) as u8, hash)
    }

    fn at(fingerprint: u8, hash: u64) -> ItemPlaces {
        ItemPlaces { fingerprint, one: hash, other: alternative(fingerprint, hash) }
    }
}

impl BucketTable {
    fn new(buckets: u64, bucket_size: u16) -> Result<BucketTable, CreateError> {
        Ok(BucketTable { buckets, array: zeroed(buckets, bucket_size.into())? })
    }

    fn bucket_size(&self) -> usize {
        self.array.len() / self.buckets as usize
    }

    fn bucket(&self, hash: u64) -> &[u8] {
        let size = self.bucket_size();
        &self.array[(hash % self.buckets) as usize * size..][..size]
    }

    fn bucket_mut(&mut self, hash: u64) -> &mut [u8] {
        let size = self.bucket_size();
        &mut self.array[(hash % self.buckets) as usize * size..][..size]
    }

    /// Replaces `from` by `to` once, in the first bucket if it is there.
    fn replace(&mut self, place: ItemPlaces, from: u8, to: u8) -> bool {
        for hash in [place.one, place.other] {
            if let Some(slot) = self.bucket_mut(hash).iter_mut().find(|slot| **slot == from) {
                *slot = to;
                return true;
            }
        }
        false
    }

    fn contains(&self, place: ItemPlaces) -> bool {
        [place.one, place.other].iter().any(|&hash| self.bucket(hash).contains(&place.fingerprint))
    }

    /// How often a fingerprint is in its two buckets, which may be the same.
    fn count(&self, place: ItemPlaces) -> u64 {
        let in_bucket = |hash| self.bucket(hash).iter().filter(|slot| **slot == place.fingerprint).count();
        (in_bucket(place.one) + in_bucket(place.other)) as u64
    }

    /// Inserts a fingerprint by pushing out others; false if that did not end, and nothing has changed.
    fn push_out(&mut self, place: ItemPlaces, iterations_max: u16) -> bool {
        let (size, mut victim) = (self.bucket_size(), 0);
        let (mut fingerprint, mut at) = (place.fingerprint, place.one % self.buckets);
        for _ in 0..iterations_max {
            std::mem::swap(&mut self.bucket_mut(at)[victim], &mut fingerprint);
            at = alternative(fingerprint, at) % self.buckets;
            if let Some(slot) = self.bucket_mut(at).iter_mut().find(|slot| **slot == FREE) {
                *slot = fingerprint;
                return true;
            }
            victim = (victim + 1) % size;
        }
        for _ in 0..iterations_max {
            victim = (victim + size - 1) % size;
            at = alternative(fingerprint, at) % self.buckets;
            std::mem::swap(&mut self.bucket_mut(at)[victim], &mut fingerprint);
        }
        false
    }
}

impl Cuckoo {
    /// A filter for about `capacity` items, at least two buckets of them. The expansion is rounded up to a power of two.
    pub fn new(capacity: u64, parameters: Parameters) -> Result<Cuckoo, CreateError> {
        let expansion = parameters.expansion;
        let expansion = if expansion == 0 { 0 } else { expansion.checked_next_power_of_two().unwrap_or(0) };
        let parameters = Parameters { expansion, ..parameters };
        if !parameters.are_valid() || capacity < u64::from(parameters.bucket_size) * 2 {
            return Err(CreateError::Invalid);
        }
        let buckets = (capacity / u64::from(parameters.bucket_size)).checked_next_power_of_two();
        let buckets = buckets.ok_or(CreateError::TooLarge)?;
        let table = BucketTable::new(buckets, parameters.bucket_size)?;
        Ok(Cuckoo { tables: vec![table], buckets, len: 0, deleted: 0, parameters })
    }

    /// Whether `item` was added, or seems to have been.
    pub fn contains(&self, item: &[u8]) -> bool {
        let place = ItemPlaces::of(item);
        self.tables.iter().any(|table| table.contains(place))
    }

    /// How often `item` was added, at most.
    pub fn count_of(&self, item: &[u8]) -> u64 {
        let place = ItemPlaces::of(item);
        self.tables.iter().map(|table| table.count(place)).sum()
    }

    /// Adds `item` unless it is there.
    pub fn add_new(&mut self, item: &[u8]) -> Inserted {
        if self.contains(item) { Inserted::Present } else { self.add(item) }
    }

    /// Adds `item` once more.
    pub fn add(&mut self, item: &[u8]) -> Inserted {
        let place = ItemPlaces::of(item);
        loop {
            let fingerprint = place.fingerprint;
            let found = self.tables.iter_mut().rev().any(|table| table.replace(place, FREE, fingerprint));
            let last = self.tables.last_mut().expect("there is a table");
            if found || last.push_out(place, self.parameters.iterations_max) {
                self.len = self.len.saturating_add(1);
                return Inserted::New;
            }
            if self.parameters.expansion == 0 {
                return Inserted::Full;
            }
            if self.grow().is_err() {
                return Inserted::TooLarge;
            }
        }
    }

    fn grow(&mut self) -> Result<(), CreateError> {
        let growth = u64::from(self.parameters.expansion).checked_pow(self.tables.len() as u32);
        let buckets = growth.and_then(|growth| growth.checked_mul(self.buckets));
        let bytes = buckets.and_then(|buckets| buckets.checked_mul(self.parameters.bucket_size.into()));
        let total = bytes.and_then(|bytes| bytes.checked_add(self.array_bytes()));
        if total.is_none_or(|total| total > BYTES_MAX) || self.tables.len() >= usize::from(u16::MAX) {
            return Err(CreateError::TooLarge);
        }
        self.tables.push(BucketTable::new(buckets.unwrap_or_default(), self.parameters.bucket_size)?);
        Ok(())
    }

    /// Deletes `item` once; false if it is not there. Other tables take the items of the last one when many were deleted.
    pub fn remove(&mut self, item: &[u8]) -> bool {
        let place = ItemPlaces::of(item);
        let found = self.tables.iter_mut().rev().any(|table| table.replace(place, place.fingerprint, FREE));
        if found {
            self.len = self.len.saturating_sub(1);
            self.deleted = self.deleted.saturating_add(1);
            if self.tables.len() > 1 && self.deleted as f64 > self.len as f64 * 0.1 {
                self.compact();
            }
        }
        found
    }

    /// Moves items to earlier tables, beginning with the last table, until one keeps some. Drops the last if it is empty.
    fn compact(&mut self) {
        for index in (1..self.tables.len()).rev() {
            if !self.empty_table(index) {
                break;
            }
            if index == self.tables.len() - 1 {
                self.tables.pop();
            }
        }
        self.deleted = 0;
    }

    /// Moves the items of a table to earlier ones; true if it has none left.
    fn empty_table(&mut self, index: usize) -> bool {
        let (earlier, rest) = self.tables.split_at_mut(index);
        let table = &mut rest[0];
        let (size, mut is_empty) = (table.bucket_size(), true);
        for (at, slot) in table.array.iter_mut().enumerate().filter(|(_, slot)| **slot != FREE) {
            // Earlier tables have fewer buckets, so the number of the bucket says enough of the hash.
            let place = ItemPlaces::at(*slot, (at / size) as u64);
            if earlier.iter_mut().any(|table| table.replace(place, FREE, place.fingerprint)) {
                *slot = FREE;
            } else {
                is_empty = false;
            }
        }
        is_empty
    }

    fn array_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.array.len() as u64).sum()
    }

    /// How many items were added and not deleted.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many items were deleted since the tables were last compacted.
    pub fn deleted_count(&self) -> u64 {
        self.deleted
    }

    /// How many buckets the first table has.
    pub fn bucket_count(&self) -> u64 {
        self.buckets
    }

    /// How many tables there are.
    pub fn table_count(&self) -> usize {
        self.tables.len()
    }

    /// Its parameters.
    pub fn parameters(&self) -> Parameters {
        self.parameters
    }

    /// The bytes that RedisBloom would take for it.
    pub fn reported_bytes(&self) -> u64 {
        REPORTED_HEAD_BYTES + REPORTED_TABLE_BYTES * self.tables.len() as u64 + self.array_bytes()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let arrays: usize = self.tables.iter().map(|table| table.array.capacity()).sum();
        self.tables.capacity() * size_of::<BucketTable>() + arrays
    }

    pub(crate) fn visit_blocks(&mut self, visit: &mut dyn FnMut(Block<'_>)) {
        self.tables.iter_mut().for_each(|table| visit(Block::Array(&mut table.array)));
    }
}

/// Dumps: a head, and chunks of the tables.
///
/// ```text
///   u64 items  u64 buckets  u64 deleted  u64 tables  u16 bucket size  u16 iterations  u16 expansion
/// ```
impl Cuckoo {
    /// The head of a dump.
    pub fn dump_head(&self) -> Vec<u8> {
        let Parameters { bucket_size, iterations_max, expansion } = self.parameters;
        let numbers = [self.len, self.buckets, self.deleted, self.tables.len() as u64];
        let mut head: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        head.extend([bucket_size, iterations_max, expansion].iter().flat_map(|number| number.to_le_bytes()));
        head
    }

    /// The filter that this head describes, with nothing in its tables; `None` if the head is wrong.
    pub fn from_dump_head(head: &[u8; DUMP_HEAD_BYTES]) -> Option<Cuckoo> {
        let number =
            |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("these are eight bytes"));
        let short = |at: usize| u16::from_le_bytes(head[at..at + 2].try_into().expect("these are two bytes"));
        let (len, buckets, deleted, table_count) = (number(0), number(8), number(16), number(24));
        let parameters =
            Parameters { bucket_size: short(32), iterations_max: short(34), expansion: short(36) };
        let mut filter = Cuckoo { tables: Vec::new(), buckets, len, deleted, parameters };
        let is_count = (1..=u64::from(u16::MAX)).contains(&table_count);
        if !is_count || parameters.expansion == 0 && table_count > 1 || !filter.is_consistent() {
            return None;
        }
        for _ in 0..table_count {
            filter.grow().ok()?;
        }
        Some(filter)
    }

    fn is_consistent(&self) -> bool {
        self.parameters.are_valid() && self.buckets.is_power_of_two() && self.len <= ITEMS_MAX
    }

    /// The table and the offset of a position, which counts from 1.
    fn place_of(&self, at: i64) -> Option<(usize, usize)> {
        let mut offset = u64::try_from(at).ok()?.checked_sub(1)?;
        for (index, table) in self.tables.iter().enumerate() {
            if offset < table.array.len() as u64 {
                return Some((index, offset as usize));
            }
            offset -= table.array.len() as u64;
        }
        None
    }

    /// The chunk at position `at`, and the position behind it; `None` at the end.
    pub fn dump_chunk(&self, at: i64) -> Option<(i64, &[u8])> {
        let (index, offset) = self.place_of(at)?;
        let rest = &self.tables[index].array[offset..];
        let chunk = &rest[..rest.len().min(CHUNK_BYTES_MAX)];
        Some((at + chunk.len() as i64, chunk))
    }

    /// Loads a chunk of a dump; `at` is the position behind it. False if it does not fit there.
    pub fn load_chunk(&mut self, at: i64, chunk: &[u8]) -> bool {
        let begin = at.checked_sub_unsigned(chunk.len() as u64);
        let Some((index, offset)) = begin.and_then(|begin| self.place_of(begin)) else { return false };
        match self.tables[index].array[offset..].get_mut(..chunk.len()) {
            Some(place) if !chunk.is_empty() => {
                place.copy_from_slice(chunk);
                true
            }
            _ => false,
        }
    }
}

impl Cuckoo {
    pub(crate) fn field(&self, index: usize) -> Option<Field<'_>> {
        Some(match index {
            0 => Field::Unsigned(self.tables.len() as u64),
            1 => Field::Unsigned(self.buckets),
            2 => Field::Unsigned(self.len),
            3 => Field::Unsigned(self.deleted),
            4 => Field::Unsigned(self.parameters.bucket_size.into()),
            5 => Field::Unsigned(self.parameters.iterations_max.into()),
            6 => Field::Unsigned(self.parameters.expansion.into()),
            _ => {
                let table = self.tables.get((index - HEAD_FIELDS) / TABLE_FIELDS)?;
                match (index - HEAD_FIELDS) % TABLE_FIELDS {
                    0 => Field::Unsigned(table.buckets),
                    _ => Field::Bytes(&table.array),
                }
            }
        })
    }

    /// Reads a filter of this version of the form.
    pub fn read<S: FieldSource>(version: u64, source: &mut S) -> Result<Cuckoo, S::Error> {
        if version != VERSION {
            return Err(source.refuse());
        }
        let (table_count, buckets) = (source.unsigned()?, source.unsigned()?);
        let (len, deleted) = (source.unsigned()?, source.unsigned()?);
        let parameters = (source.unsigned()?, source.unsigned()?, source.unsigned()?);
        let (Ok(bucket_size), Ok(iterations_max), Ok(expansion)) =
            (parameters.0.try_into(), parameters.1.try_into(), parameters.2.try_into())
        else {
            return Err(source.refuse());
        };
        let parameters = Parameters { bucket_size, iterations_max, expansion };
        let mut filter = Cuckoo { tables: Vec::new(), buckets, len, deleted, parameters };
        if !filter.is_consistent() || !(1..=u64::from(u16::MAX)).contains(&table_count) {
            return Err(source.refuse());
        }
        for _ in 0..table_count {
            let (buckets, array) = (source.unsigned()?, source.bytes()?);
            let bytes = buckets.checked_mul(bucket_size.into());
            if buckets == 0 || bytes != Some(array.len() as u64) {
                return Err(source.refuse());
            }
            filter.tables.push(BucketTable { buckets, array });
        }
        if filter.array_bytes() <= BYTES_MAX { Ok(filter) } else { Err(source.refuse()) }
    }
}
