//! A scalable Bloom filter: "was this item added?", with few wrong answers of one kind.
//!
//! An item sets as many bits as there are hash functions. If all of them are set, the item was added, or others have set
//! its bits. When a filter has as many items as it was made for, another one follows, larger by the *expansion* and with
//! half the error, so that all errors together stay below the one requested (Almeida and others, "Scalable Bloom
//! Filters", 2007). The hash functions are `a + i·b` of two hashes (Kirsch and Mitzenmacher, 2006).
//!
//! ```text
//!   filter 0: entries n, error e/2     filter 1: n·x, e/4      filter 2: n·x², e/8
//!   [ 1 0 1 1 0 0 1 … ]                [ 0 0 1 0 … ]           [ 0 1 … ]  ← new items go here
//! ```

use crate::Block;
use crate::array::{BYTES_MAX, CreateError, ITEMS_MAX, zeroed};
use crate::form::{Field, FieldSource};
use crate::murmur::{murmur2, murmur64a};
use crate::num::ln;

/// Options of RedisBloom. Filters that are created here are not rounded to a power of two and hash to 64 bits.
const NOT_ROUNDED: u32 = 1;
const ENTRIES_ARE_BITS: u32 = 2;
const HASHES_64: u32 = 4;
const NOT_SCALING: u32 = 8;
const KNOWN_OPTIONS: u32 = NOT_ROUNDED | ENTRIES_ARE_BITS | HASHES_64 | NOT_SCALING;

/// By how much the error of the next filter is smaller.
const TIGHTENING: f64 = 0.5;
/// The square of the logarithm of 2, and that logarithm, with RedisBloom's digits.
const LN_2_SQUARED: f64 = 0.480453013918201;
#[expect(clippy::approx_constant, reason = "the number of hash functions depends on it")]
const LN_2: f64 = 0.693147180559945;
/// The most hash functions of a filter: the smallest error above zero needs 1,075.
const HASHES_MAX: u32 = 1100;
/// The most that a filter grows by.
pub const EXPANSION_MAX: u64 = 32_768;
/// The largest version of the form.
pub const VERSION: u64 = 4;
/// The versions before had no options.
const VERSION_MIN: u64 = 2;

/// How many fields come before the first filter, and how many each filter has.
const HEAD_FIELDS: usize = 4;
const FILTER_FIELDS: usize = 8;
/// The bytes of a dump's head, and those of each filter in it.
const DUMP_HEAD_BYTES: usize = 20;
const DUMP_FILTER_BYTES: usize = 53;
/// The longest chunk of a dump.
const CHUNK_BYTES_MAX: usize = 16 << 20;
/// The sizes of RedisBloom's structures, which `BF.INFO` counts.
const REPORTED_HEAD_BYTES: usize = 32;
const REPORTED_FILTER_BYTES: usize = 64;

/// One filter.
#[derive(Clone, Debug)]
struct BitFilter {
    entries: u64,
    error: f64,
    bits_per_entry: f64,
    hashes: u32,
    bits: u64,
    /// The binary logarithm of the number of bits that are used; 0: all are.
    n2: u8,
    array: Vec<u8>,
    /// How many items were added.
    size: u64,
}

/// The two hashes of an item.
#[derive(Clone, Copy)]
struct Hashes {
    a: u64,
    b: u64,
}

/// The result of adding an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Added {
    /// It is new.
    New,
    /// It was there, or seemed to be.
    Present,
    /// The filter is full and must not grow.
    Full,
    /// The filter cannot grow.
    TooLarge,
}

/// Why a chunk of a dump is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkError {
    /// Its position is impossible.
    BadData,
    /// No filter is there.
    NoFilter,
    /// It reaches beyond its filter.
    TooLong,
}

/// A chain of filters; items are added to the last one.
#[derive(Clone, Debug)]
pub struct Bloom {
    filters: Vec<BitFilter>,
    size: u64,
    options: u32,
    growth: u32,
}

impl BitFilter {
    fn new(entries: u64, error: f64) -> Result<BitFilter, CreateError> {
        if entries == 0 || error <= 0.0 || error >= 1.0 {
            return Err(CreateError::Invalid);
        }
        let bits_per_entry = (ln(error) / LN_2_SQUARED).abs();
        let bits = ((entries as f64 * bits_per_entry) as u64).max(1);
        let words = bits.div_ceil(64);
        let array = zeroed(words, 8)?;
        let hashes = hashes_of(bits_per_entry);
        Ok(BitFilter { entries, error, bits_per_entry, hashes, bits: words * 64, n2: 0, array, size: 0 })
    }

    /// Whether its numbers agree with each other and with its array, which may still be missing.
    fn is_consistent(&self, array_bytes: u64) -> bool {
        self.error > 0.0
            && self.error < 1.0
            && self.n2 <= 63
            && (self.n2 == 0 || self.bits >= 1 << self.n2)
            && self.bits > 0
            && array_bytes.checked_mul(8) == Some(self.bits)
            && self.bits_per_entry.is_finite()
            && self.hashes == hashes_of(self.bits_per_entry)
            && self.hashes <= HASHES_MAX
    }

    /// The positions of an item's bits.
    fn positions(&self, Hashes { a, b }: Hashes, options: u32) -> impl Iterator<Item = u64> + use<> {
        let modulus = if self.n2 > 0 { 1 << self.n2 } else { self.bits };
        let is_narrow = self.n2 > 0 && self.n2 <= 31 && options & HASHES_64 == 0;
        let mask = if is_narrow { u64::from(u32::MAX) } else { u64::MAX };
        (0..u64::from(self.hashes)).map(move |index| (a.wrapping_add(index.wrapping_mul(b)) & mask) % modulus)
    }

    fn contains(&self, hashes: Hashes, options: u32) -> bool {
        self.positions(hashes, options)
            .all(|position| self.array[(position >> 3) as usize] & 1 << (position & 7) != 0)
    }

    /// Sets the bits of an item; false if all were set.
    fn insert(&mut self, hashes: Hashes, options: u32) -> bool {
        let mut is_new = false;
        for position in self.positions(hashes, options) {
            let (byte, bit) = (&mut self.array[(position >> 3) as usize], 1 << (position & 7));
            is_new |= *byte & bit == 0;
            *byte |= bit;
        }
        is_new
    }
}

fn hashes_of(bits_per_entry: f64) -> u32 {
    (LN_2 * bits_per_entry).ceil() as u32
}

impl Bloom {
    /// A filter for `capacity` items with this error; `expansion` 0, or `scales` false: it never grows.
    pub fn new(capacity: u64, error: f64, expansion: u32, scales: bool) -> Result<Bloom, CreateError> {
        let scaling = if scales { 0 } else { NOT_SCALING };
        let tightening = if scales { TIGHTENING } else { 1.0 };
        let filter = BitFilter::new(capacity, error * tightening)?;
        let options = HASHES_64 | NOT_ROUNDED | scaling;
        Ok(Bloom { filters: vec![filter], size: 0, options, growth: expansion })
    }

    fn hashes(&self, item: &[u8]) -> Hashes {
        if self.options & HASHES_64 != 0 {
            let a = murmur64a(item, 0xc6a4_a793_5bd1_e995);
            Hashes { a, b: murmur64a(item, a) }
        } else {
            let a = murmur2(item, 0x9747_b28c);
            Hashes { a: a.into(), b: murmur2(item, a).into() }
        }
    }

    /// Whether `item` was added, or seems to have been.
    pub fn contains(&self, item: &[u8]) -> bool {
        let hashes = self.hashes(item);
        self.filters.iter().rev().any(|filter| filter.contains(hashes, self.options))
    }

    /// Adds `item`.
    pub fn add(&mut self, item: &[u8]) -> Added {
        let hashes = self.hashes(item);
        let (options, scales) = (self.options, self.scales());
        if self.filters.iter().rev().any(|filter| filter.contains(hashes, options)) {
            return Added::Present;
        }
        let last = self.last();
        if last.size >= last.entries {
            if !scales {
                return Added::Full;
            }
            let entries = last.entries.checked_mul(self.growth.into());
            let next = entries.and_then(|entries| BitFilter::new(entries, last.error * TIGHTENING).ok());
            let Some(next) = next.filter(|next| self.array_bytes() + next.array.len() as u64 <= BYTES_MAX)
            else {
                return Added::TooLarge;
            };
            self.filters.push(next);
        }
        let last = self.filters.last_mut().expect("there is a filter");
        if !last.insert(hashes, options) {
            return Added::Present;
        }
        last.size += 1;
        self.size += 1;
        Added::New
    }

    fn last(&self) -> &BitFilter {
        self.filters.last().expect("there is a filter")
    }

    fn array_bytes(&self) -> u64 {
        self.filters.iter().map(|filter| filter.array.len() as u64).sum()
    }

    /// How many items were added.
    pub fn len(&self) -> u64 {
        self.size
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// For how many items it has room.
    pub fn capacity(&self) -> u64 {
        self.filters.iter().fold(0, |sum, filter| sum.saturating_add(filter.entries))
    }

    /// How many filters there are.
    pub fn filter_count(&self) -> usize {
        self.filters.len()
    }

    /// Whether it grows when it is full.
    pub fn scales(&self) -> bool {
        self.options & NOT_SCALING == 0
    }

    /// By how much the next filter is larger.
    pub fn expansion(&self) -> u32 {
        self.growth
    }

    /// The bytes that RedisBloom would take for it.
    pub fn reported_bytes(&self) -> u64 {
        (REPORTED_HEAD_BYTES + REPORTED_FILTER_BYTES * self.filters.len()) as u64 + self.array_bytes()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let arrays: usize = self.filters.iter().map(|filter| filter.array.capacity()).sum();
        self.filters.capacity() * size_of::<BitFilter>() + arrays
    }

    pub(crate) fn visit_blocks(&mut self, visit: &mut dyn FnMut(Block<'_>)) {
        self.filters.iter_mut().for_each(|filter| visit(Block::Array(&mut filter.array)));
    }
}

/// Dumps: a head that describes the filters, and chunks of their arrays.
///
/// ```text
///   u64 size  u32 filters  u32 options  u32 growth
///   for each filter:  u64 bytes  u64 bits  u64 size  f64 error  f64 bits-per-entry  u32 hashes  u64 entries  u8 n2
/// ```
impl Bloom {
    /// The head of a dump.
    pub fn dump_head(&self) -> Vec<u8> {
        let mut head = Vec::with_capacity(DUMP_HEAD_BYTES + DUMP_FILTER_BYTES * self.filters.len());
        head.extend(self.size.to_le_bytes());
        head.extend((self.filters.len() as u32).to_le_bytes());
        head.extend(self.options.to_le_bytes());
        head.extend(self.growth.to_le_bytes());
        for filter in &self.filters {
            head.extend((filter.array.len() as u64).to_le_bytes());
            head.extend(filter.bits.to_le_bytes());
            head.extend(filter.size.to_le_bytes());
            head.extend(filter.error.to_le_bytes());
            head.extend(filter.bits_per_entry.to_le_bytes());
            head.extend(filter.hashes.to_le_bytes());
            head.extend(filter.entries.to_le_bytes());
            head.push(filter.n2);
        }
        head
    }

    /// The chunk at position `at`, which counts from 1, and the position behind it; `None` at the end.
    pub fn dump_chunk(&self, at: i64) -> Option<(i64, &[u8])> {
        let (index, offset) = self.place(at)?;
        let rest = &self.filters[index].array[offset..];
        let chunk = &rest[..rest.len().min(CHUNK_BYTES_MAX)];
        Some((at + chunk.len() as i64, chunk))
    }

    /// The filter and the offset of a position.
    fn place(&self, at: i64) -> Option<(usize, usize)> {
        let mut offset = u64::try_from(at).ok()?.checked_sub(1)?;
        for (index, filter) in self.filters.iter().enumerate() {
            if offset < filter.array.len() as u64 {
                return Some((index, offset as usize));
            }
            offset -= filter.array.len() as u64;
        }
        None
    }

    /// The filter that this head describes, with nothing in its arrays; `None` if the head is wrong.
    pub fn from_dump_head(head: &[u8]) -> Option<Bloom> {
        let (fixed, described) = head.split_at_checked(DUMP_HEAD_BYTES)?;
        let filter_count = u32_of(&fixed[8..]) as usize;
        let described = described.chunks_exact(DUMP_FILTER_BYTES);
        if filter_count == 0 || described.len() != filter_count || !described.remainder().is_empty() {
            return None;
        }
        let (size, options, growth) = (u64_of(fixed), u32_of(&fixed[12..]), u32_of(&fixed[16..]));
        let mut filters = Vec::with_capacity(filter_count);
        let mut left_bytes = BYTES_MAX;
        for bytes in described {
            let (array_bytes, filter) = described_filter(bytes);
            left_bytes = left_bytes.checked_sub(array_bytes)?;
            if !filter.is_consistent(array_bytes) {
                return None;
            }
            filters.push((array_bytes, filter));
        }
        let filters = filters
            .into_iter()
            .map(|(bytes, filter)| Some(BitFilter { array: zeroed(bytes, 1).ok()?, ..filter }))
            .collect::<Option<_>>()?;
        let bloom = Bloom { filters, size, options, growth };
        bloom.is_consistent().then_some(bloom)
    }

    /// Whether its filters agree with it.
    fn is_consistent(&self) -> bool {
        let sizes = self.filters.iter().try_fold(0_u64, |sum, filter| sum.checked_add(filter.size));
        self.options & !KNOWN_OPTIONS == 0
            && !self.filters.is_empty()
            && u64::from(self.growth) <= EXPANSION_MAX
            && sizes == Some(self.size)
            && self.size <= ITEMS_MAX
            && self.array_bytes() <= BYTES_MAX
    }

    /// Loads a chunk of a dump; `at` is the position behind it.
    pub fn load_chunk(&mut self, at: i64, chunk: &[u8]) -> Result<(), ChunkError> {
        let begin = at.checked_sub_unsigned(chunk.len() as u64).filter(|begin| at > 0 && *begin >= 0);
        let (index, offset) = self.place(begin.ok_or(ChunkError::BadData)?).ok_or(ChunkError::NoFilter)?;
        let place = self.filters[index].array[offset..].get_mut(..chunk.len());
        place.ok_or(ChunkError::TooLong)?.copy_from_slice(chunk);
        Ok(())
    }
}

fn u32_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().expect("these are four bytes"))
}

fn u64_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("these are eight bytes"))
}

/// A filter of a dump's head without its array, and how many bytes that has.
fn described_filter(bytes: &[u8]) -> (u64, BitFilter) {
    let filter = BitFilter {
        bits: u64_of(&bytes[8..]),
        size: u64_of(&bytes[16..]),
        error: f64::from_bits(u64_of(&bytes[24..])),
        bits_per_entry: f64::from_bits(u64_of(&bytes[32..])),
        hashes: u32_of(&bytes[40..]),
        entries: u64_of(&bytes[44..]),
        n2: bytes[52],
        array: Vec::new(),
    };
    (u64_of(bytes), filter)
}

impl Bloom {
    pub(crate) fn field(&self, index: usize) -> Option<Field<'_>> {
        Some(match index {
            0 => Field::Unsigned(self.size),
            1 => Field::Unsigned(self.filters.len() as u64),
            2 => Field::Unsigned(self.options.into()),
            3 => Field::Unsigned(self.growth.into()),
            _ => {
                let filter = self.filters.get((index - HEAD_FIELDS) / FILTER_FIELDS)?;
                match (index - HEAD_FIELDS) % FILTER_FIELDS {
                    0 => Field::Unsigned(filter.entries),
                    1 => Field::Double(filter.error),
                    2 => Field::Unsigned(filter.hashes.into()),
                    3 => Field::Double(filter.bits_per_entry),
                    4 => Field::Unsigned(filter.bits),
                    5 => Field::Unsigned(filter.n2.into()),
                    6 => Field::Bytes(&filter.array),
                    _ => Field::Unsigned(filter.size),
                }
            }
        })
    }

    /// Reads a filter of this version of the form.
    pub fn read<S: FieldSource>(version: u64, source: &mut S) -> Result<Bloom, S::Error> {
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(source.refuse());
        }
        let (size, filter_count) = (source.unsigned()?, source.unsigned()?);
        let options = source.unsigned()?;
        let growth = if version >= VERSION { source.unsigned()? } else { 2 };
        let (Ok(options), Ok(growth)) = (u32::try_from(options), u32::try_from(growth)) else {
            return Err(source.refuse());
        };
        let mut bloom = Bloom { filters: Vec::new(), size, options, growth };
        for _ in 0..filter_count {
            let filter = read_filter(source)?;
            bloom.filters.push(filter);
        }
        if bloom.is_consistent() { Ok(bloom) } else { Err(source.refuse()) }
    }
}

fn read_filter<S: FieldSource>(source: &mut S) -> Result<BitFilter, S::Error> {
    let (entries, error) = (source.unsigned()?, source.double()?);
    let (hashes, bits_per_entry) = (source.unsigned()?, source.double()?);
    let (bits, n2) = (source.unsigned()?, source.unsigned()?);
    let (array, size) = (source.bytes()?, source.unsigned()?);
    let (Ok(hashes), Ok(n2)) = (u32::try_from(hashes), u8::try_from(n2)) else { return Err(source.refuse()) };
    let filter = BitFilter { entries, error, bits_per_entry, hashes, bits, n2, array, size };
    if filter.is_consistent(filter.array.len() as u64) { Ok(filter) } else { Err(source.refuse()) }
}
