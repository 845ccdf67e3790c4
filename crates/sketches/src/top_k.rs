//! The most frequent items, by HeavyKeeper (Yang and others, "HeavyKeeper: An Accurate Algorithm for Finding Top-k
//! Elephant Flows", 2018).
//!
//! Each row has one cell for an item: a fingerprint and a count. An item with another fingerprint decrements the count,
//! the less likely the higher it is, and takes the cell when it is zero. So items that come often keep their cells. The
//! largest counts are in a heap of `k` items, smallest first.
//!
//! ```text
//!   rows   [ab: 90] [c3: 2] [77: 14] …         heap   {14 "x"}
//!          [ab: 88] [77: 13] …                         {90 "y"} {41 "z"}
//! ```
//!
//! The random numbers belong to the sketch and are written with it: a replica that runs the same commands has the same
//! sketch.

use crate::Block;
use crate::array::{BYTES_MAX, CreateError, put_u32, u32_at, zeroed};
use crate::form::{Field, FieldSource};
use crate::murmur::murmur2;
use crate::num::power;

/// The version of the form.
pub const VERSION: u64 = 0;
/// The most that an item is incremented by at once.
pub const INCREMENT_MAX: u32 = 100_000;

/// The hash that gives an item its fingerprint.
const FINGERPRINT_SEED: u32 = 1919;
/// Bytes of a cell: fingerprint and count.
const CELL_BYTES: usize = 8;
/// Bytes of a record in the heap, and where its parts are: fingerprint, length, random state (in the first), count.
const RECORD_BYTES: usize = 24;
const LENGTH_AT: usize = 4;
const RANDOM_AT: usize = 8;
const COUNT_AT: usize = 16;
/// Powers of the decay that are computed in advance.
const POWERS: usize = 256;
/// How many items are freed at once.
const FREED_AT_ONCE: usize = 512;
/// Stands for the item of a free record in files.
const EMPTY_ITEM: &[u8] = b"\0";

/// The most frequent items.
#[derive(Clone, Debug)]
pub struct TopK {
    k: u32,
    width: u32,
    depth: u32,
    decay: f64,
    cells: Vec<u8>,
    /// `k` records; see [`form`](crate::form).
    heap: Vec<u8>,
    /// The item of each record and a zero byte behind it; nothing if the record is free.
    items: Vec<Box<[u8]>>,
    /// The bytes of all items.
    items_bytes: usize,
    powers: Box<[f64]>,
}

fn powers_of(decay: f64) -> Box<[f64]> {
    std::iter::successors(Some(1.0), |power| Some(power * decay)).take(POWERS).collect()
}

impl TopK {
    /// A sketch of the `k` most frequent items with this many cells in each of `depth` rows.
    pub fn new(k: u32, width: u32, depth: u32, decay: f64) -> Result<TopK, CreateError> {
        if k == 0 || width == 0 || depth == 0 || decay.is_nan() || decay <= 0.0 || decay > 1.0 {
            return Err(CreateError::Invalid);
        }
        let cell_count = u64::from(width) * u64::from(depth);
        let bytes =
            cell_count.saturating_mul(CELL_BYTES as u64).saturating_add(u64::from(k) * record_bytes());
        if bytes > BYTES_MAX {
            return Err(CreateError::TooLarge);
        }
        let cells = zeroed(cell_count, CELL_BYTES as u64)?;
        let heap = zeroed(k.into(), RECORD_BYTES as u64)?;
        let mut items = Vec::new();
        items.try_reserve_exact(k as usize).map_err(|_| CreateError::TooLarge)?;
        items.resize(k as usize, Box::default());
        Ok(TopK { k, width, depth, decay, cells, heap, items, items_bytes: 0, powers: powers_of(decay) })
    }

    /// How many items it finds.
    pub fn k(&self) -> u32 {
        self.k
    }

    /// How many cells a row has.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// How many rows there are.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The probability with which a count of one is decremented.
    pub fn decay(&self) -> f64 {
        self.decay
    }

    /// Adds `item` this often. Returns the item that leaves the most frequent ones for it.
    pub fn add(&mut self, item: &[u8], times: u32) -> Option<Box<[u8]>> {
        let fingerprint = murmur2(item, FINGERPRINT_SEED);
        let least = self.count_at(0);
        let mut most = 0;
        for row in 0..self.depth {
            let at = self.cell(item, row);
            let (of, count) = (u32_at(&self.cells, at), u32_at(&self.cells, at + 4));
            let count = if count == 0 {
                put_u32(&mut self.cells, at, fingerprint);
                times
            } else if of == fingerprint {
                count.wrapping_add(times)
            } else {
                let (left, remaining) = self.decayed(count, times);
                if left > 0 {
                    put_u32(&mut self.cells, at + 4, left);
                    continue;
                }
                put_u32(&mut self.cells, at, fingerprint);
                remaining
            };
            put_u32(&mut self.cells, at + 4, count);
            most = most.max(count);
        }
        if most < least {
            return None;
        }
        let (index, expelled) = match self.find(item, fingerprint) {
            Some(index) => (index, None),
            None => {
                let item: Box<[u8]> = item.iter().copied().chain([0]).collect();
                put_u32(&mut self.heap, 0, fingerprint);
                put_u32(&mut self.heap, LENGTH_AT, (item.len() - 1) as u32);
                self.items_bytes += item.len();
                let before = std::mem::replace(&mut self.items[0], item);
                self.items_bytes -= before.len();
                (0, (!before.is_empty()).then(|| before[..before.len() - 1].into()))
            }
        };
        put_u32(&mut self.heap, index * RECORD_BYTES + COUNT_AT, most);
        self.sift_down(index);
        expelled
    }

    /// Decrements a cell's count for other items that came this often. Returns the count, and how many of these came after
    /// it was zero.
    fn decayed(&mut self, mut count: u32, times: u32) -> (u32, u32) {
        for remaining in (1..=times).rev() {
            if self.next_random() < self.chance(count) {
                count -= 1;
                if count == 0 {
                    return (0, remaining);
                }
            }
        }
        (count, 0)
    }

    /// The probability with which this count is decremented.
    fn chance(&self, count: u32) -> f64 {
        let largest = POWERS - 1;
        match self.powers.get(count as usize) {
            Some(chance) => *chance,
            None => {
                power(self.powers[largest], count / largest as u32) * self.powers[count as usize % largest]
            }
        }
    }

    /// A random number from 0 to 1 (SplitMix64).
    fn next_random(&mut self) -> f64 {
        let state = &mut self.heap[RANDOM_AT..RANDOM_AT + 8];
        let next = u64::from_le_bytes((&*state).try_into().expect("these are eight bytes"))
            .wrapping_add(0x9e37_79b9_7f4a_7c15);
        state.copy_from_slice(&next.to_le_bytes());
        let mixed = (next ^ next >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The offset of the cell of `item` in a row.
    #[inline]
    fn cell(&self, item: &[u8], row: u32) -> usize {
        let column = murmur2(item, row) % self.width;
        (row as usize * self.width as usize + column as usize) * CELL_BYTES
    }

    fn count_at(&self, index: usize) -> u32 {
        u32_at(&self.heap, index * RECORD_BYTES + COUNT_AT)
    }

    fn item_at(&self, index: usize) -> Option<&[u8]> {
        self.items[index].split_last().map(|(_, item)| item)
    }

    /// The index in the heap of `item`, which has this fingerprint.
    fn find(&self, item: &[u8], fingerprint: u32) -> Option<usize> {
        (0..self.items.len()).rev().find(|&index| {
            u32_at(&self.heap, index * RECORD_BYTES) == fingerprint && self.item_at(index) == Some(item)
        })
    }

    /// Restores the order of the heap after the count at `index` has become larger.
    fn sift_down(&mut self, mut index: usize) {
        loop {
            let (mut child, other) = (2 * index + 1, 2 * index + 2);
            if child >= self.items.len() {
                return;
            }
            if other < self.items.len() && self.count_at(child) > self.count_at(other) {
                child = other;
            }
            if self.count_at(child) > self.count_at(index) {
                return;
            }
            self.swap(index, child);
            index = child;
        }
    }

    /// Swaps two records, except the random state.
    fn swap(&mut self, one: usize, other: usize) {
        self.items.swap(one, other);
        let (one, other) = (one * RECORD_BYTES, other * RECORD_BYTES);
        for part in (0..RANDOM_AT).chain(COUNT_AT..RECORD_BYTES) {
            self.heap.swap(one + part, other + part);
        }
    }

    /// Whether `item` is among the most frequent ones.
    pub fn contains(&self, item: &[u8]) -> bool {
        self.find(item, murmur2(item, FINGERPRINT_SEED)).is_some()
    }

    /// How often `item` was added, at most.
    pub fn count_of(&self, item: &[u8]) -> u32 {
        let fingerprint = murmur2(item, FINGERPRINT_SEED);
        let least = if self.find(item, fingerprint).is_some() { self.count_at(0) } else { 0 };
        let cells = (0..self.depth).map(|row| self.cell(item, row));
        let counts = cells
            .filter(|&at| u32_at(&self.cells, at) == fingerprint)
            .map(|at| u32_at(&self.cells, at + 4))
            .filter(|count| *count >= least);
        counts.max().unwrap_or_default()
    }

    /// The most frequent items and their counts, the largest first.
    pub fn list(&self) -> Vec<(&[u8], u32)> {
        let mut found: Vec<(&[u8], u32)> = (0..self.items.len())
            .filter_map(|index| Some((self.item_at(index)?, self.count_at(index))))
            .filter(|(_, count)| *count > 0)
            .collect();
        found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        found
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.cells.capacity()
            + self.heap.capacity()
            + self.items.capacity() * size_of::<Box<[u8]>>()
            + POWERS * size_of::<f64>()
            + self.items_bytes
    }

    pub(crate) fn free_slice(&mut self) -> bool {
        self.items.truncate(self.items.len().saturating_sub(FREED_AT_ONCE));
        !self.items.is_empty()
    }

    pub(crate) fn visit_blocks(&mut self, visit: &mut dyn FnMut(Block<'_>)) {
        visit(Block::Array(&mut self.cells));
        visit(Block::Array(&mut self.heap));
        self.items.iter_mut().for_each(|item| visit(Block::Item(item)));
    }

    pub(crate) fn field(&self, index: usize) -> Option<Field<'_>> {
        Some(match index {
            0 => Field::Unsigned(self.k.into()),
            1 => Field::Unsigned(self.width.into()),
            2 => Field::Unsigned(self.depth.into()),
            3 => Field::Double(self.decay),
            4 => Field::Bytes(&self.cells),
            5 => Field::Bytes(&self.heap),
            _ => match self.items.get(index - 6)? {
                item if item.is_empty() => Field::Bytes(EMPTY_ITEM),
                item => Field::Bytes(item),
            },
        })
    }

    /// Reads a sketch of this version of the form.
    pub fn read<S: FieldSource>(version: u64, source: &mut S) -> Result<TopK, S::Error> {
        let (k, width, depth) = (source.unsigned()?, source.unsigned()?, source.unsigned()?);
        let (decay, cells, heap) = (source.double()?, source.bytes()?, source.bytes()?);
        let cell_bytes = width.checked_mul(depth).and_then(|cells| cells.checked_mul(CELL_BYTES as u64));
        let heap_bytes = k.checked_mul(RECORD_BYTES as u64);
        let (Ok(k), Ok(width), Ok(depth)) = (u32::try_from(k), u32::try_from(width), u32::try_from(depth))
        else {
            return Err(source.refuse());
        };
        let is_decay = decay > 0.0 && decay <= 1.0;
        if version != VERSION
            || !is_decay
            || cells.is_empty()
            || heap.is_empty()
            || cell_bytes != Some(cells.len() as u64)
            || heap_bytes != Some(heap.len() as u64)
        {
            return Err(source.refuse());
        }
        let (items, powers) = (Vec::with_capacity(k as usize), powers_of(decay));
        let mut top = TopK { k, width, depth, decay, cells, heap, items, items_bytes: 0, powers };
        for index in 0..k as usize {
            let item = source.bytes()?;
            if !top.take_item(index, item) {
                return Err(source.refuse());
            }
        }
        Ok(top)
    }

    /// Takes the item of the heap's record at `index`; false if it does not end with a zero byte.
    fn take_item(&mut self, index: usize, item: Vec<u8>) -> bool {
        let at = index * RECORD_BYTES;
        let is_free = item.len() == 1 && u32_at(&self.heap, at) == 0 && self.count_at(index) == 0;
        if item.last() != Some(&0) {
            return false;
        }
        put_u32(&mut self.heap, at + LENGTH_AT, (item.len() - 1) as u32);
        if index > 0 {
            // Addresses of another process.
            self.heap[at + RANDOM_AT..at + COUNT_AT].fill(0);
        }
        let item = if is_free { Box::default() } else { item.into_boxed_slice() };
        self.items_bytes += item.len();
        self.items.push(item);
        true
    }
}

/// Bytes of a record of the heap and of the place of its item.
fn record_bytes() -> u64 {
    (RECORD_BYTES + size_of::<Box<[u8]>>()) as u64
}
