//! A count-min sketch: "how often was this item added?", never too low (Cormode and Muthukrishnan, "An Improved Data
//! Stream Summary", 2005).
//!
//! An item has one cell in each row, which its hash with the row's number selects. All of its cells are incremented; the
//! smallest of them has met the fewest other items.
//!
//! ```text
//!           width
//!   row 0   . . 5 . . . .
//!   row 1   3 . . . . . .     "item" was added 3 times at most
//!   row 2   . . . . . 4 .
//! ```

use crate::Block;
use crate::array::{CreateError, put_u32, u32_at, zeroed};
use crate::form::{Field, FieldSource};
use crate::murmur::murmur2;
use crate::num::ln;

/// The version of the form.
pub const VERSION: u64 = 0;
/// A counter that has reached this stays there.
pub const COUNT_MAX: u32 = u32::MAX;

const CELL_BYTES: usize = 4;

/// Rows of counters.
#[derive(Clone, Debug)]
pub struct CountMin {
    width: u64,
    depth: u64,
    cells: Vec<u8>,
    count: u64,
}

/// Why sketches cannot be merged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MergeError {
    /// A counter would be negative or too large.
    Overflow,
    /// There is no memory for the result.
    TooLarge,
}

/// The width and the depth with which a count is too high by `error` of the sum of all counts, and only in `probability`
/// of the cases by more; `None` if these are no numbers.
pub fn dimensions(error: f64, probability: f64) -> Option<(u64, u64)> {
    let width = (2.0 / error).ceil();
    // The original computes logarithms of 32 bits, which decides where the quotient is nearly a whole number.
    let probability = f64::from(probability as f32);
    if width >= i64::MAX as f64 || probability <= 0.0 {
        return None;
    }
    let log10 = |number: f64| (ln(number) / std::f64::consts::LN_10) as f32;
    let depth = (log10(probability) / log10(0.5)).ceil();
    (depth >= 1.0).then_some((width as u64, depth as u64))
}

impl CountMin {
    /// A sketch with counters of zero.
    pub fn new(width: u64, depth: u64) -> Result<CountMin, CreateError> {
        if width == 0 || depth == 0 {
            return Err(CreateError::Invalid);
        }
        let cells = zeroed(width.checked_mul(depth).ok_or(CreateError::TooLarge)?, CELL_BYTES as u64)?;
        Ok(CountMin { width, depth, cells, count: 0 })
    }

    /// Adds `item` this often. Returns its count, which is [`COUNT_MAX`] if it can no longer be counted.
    pub fn add(&mut self, item: &[u8], times: u64) -> u32 {
        let mut least = COUNT_MAX;
        for row in 0..self.depth {
            let at = place(item, row, self.width);
            let added = u64::from(u32_at(&self.cells, at)).saturating_add(times).min(COUNT_MAX.into()) as u32;
            put_u32(&mut self.cells, at, added);
            least = least.min(added);
        }
        self.count = self.count.wrapping_add(times);
        least
    }

    /// How often `item` was added, at most.
    pub fn count_of(&self, item: &[u8]) -> u32 {
        let counts = (0..self.depth).map(|row| u32_at(&self.cells, place(item, row, self.width)));
        counts.min().unwrap_or_default()
    }

    /// The sum of `parts`, which have the same dimensions, each multiplied by its weight. `step` is called for each row of
    /// each part.
    pub fn merged(parts: &[(&CountMin, i64)], mut step: impl FnMut()) -> Result<CountMin, MergeError> {
        let (first, _) = parts.first().ok_or(MergeError::Overflow)?;
        let mut merged = CountMin::new(first.width, first.depth).map_err(|_| MergeError::TooLarge)?;
        let row_bytes = first.width as usize * CELL_BYTES;
        let mut sums = vec![0_i64; first.width.min(COLUMNS_AT_ONCE) as usize];
        for (row_number, row) in merged.cells.chunks_mut(row_bytes).enumerate() {
            for (index, columns) in row.chunks_mut(sums.len() * CELL_BYTES).enumerate() {
                let at = row_number * row_bytes + index * sums.len() * CELL_BYTES;
                let sums = &mut sums[..columns.len() / CELL_BYTES];
                sums.fill(0);
                for (part, weight) in parts {
                    step();
                    add_weighted(sums, &part.cells[at..at + columns.len()], *weight)?;
                }
                for (cell, sum) in columns.chunks_exact_mut(CELL_BYTES).zip(sums) {
                    let sum = u32::try_from(*sum).map_err(|_| MergeError::Overflow)?;
                    cell.copy_from_slice(&sum.to_le_bytes());
                }
            }
        }
        let count = parts.iter().try_fold(0_i64, |sum, (part, weight)| {
            let weighted = i64::try_from(i128::from(part.count) * i128::from(*weight)).ok()?;
            sum.checked_add(weighted)
        });
        merged.count = count.and_then(|count| u64::try_from(count).ok()).ok_or(MergeError::Overflow)?;
        Ok(merged)
    }

    /// The number of columns.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// The number of rows.
    pub fn depth(&self) -> u64 {
        self.depth
    }

    /// The sum of all that was added.
    pub fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.cells.capacity()
    }

    pub(crate) fn visit_blocks(&mut self, visit: &mut dyn FnMut(Block<'_>)) {
        visit(Block::Array(&mut self.cells));
    }

    pub(crate) fn field(&self, index: usize) -> Option<Field<'_>> {
        Some(match index {
            0 => Field::Unsigned(self.width),
            1 => Field::Unsigned(self.depth),
            2 => Field::Unsigned(self.count),
            3 => Field::Bytes(&self.cells),
            _ => return None,
        })
    }

    /// Reads a sketch of this version of the form.
    pub fn read<S: FieldSource>(version: u64, source: &mut S) -> Result<CountMin, S::Error> {
        let (width, depth, count) = (source.unsigned()?, source.unsigned()?, source.unsigned()?);
        let cells = source.bytes()?;
        let bytes = width.checked_mul(depth).and_then(|cells| cells.checked_mul(CELL_BYTES as u64));
        if version != VERSION || bytes != Some(cells.len() as u64) || cells.is_empty() {
            return Err(source.refuse());
        }
        Ok(CountMin { width, depth, cells, count })
    }
}

/// How many columns are summed up before the next ones.
const COLUMNS_AT_ONCE: u64 = 1024;

fn add_weighted(sums: &mut [i64], cells: &[u8], weight: i64) -> Result<(), MergeError> {
    for (sum, cell) in sums.iter_mut().zip(cells.as_chunks::<CELL_BYTES>().0) {
        let weighted = i64::from(u32::from_le_bytes(*cell)).checked_mul(weight);
        *sum = weighted.and_then(|weighted| sum.checked_add(weighted)).ok_or(MergeError::Overflow)?;
    }
    Ok(())
}

/// The offset of the cell of `item` in a row.
#[inline]
fn place(item: &[u8], row: u64, width: u64) -> usize {
    let column = u64::from(murmur2(item, row as u32)) % width;
    (row * width + column) as usize * CELL_BYTES
}
