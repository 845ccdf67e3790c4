//! HyperLogLog: estimates the number of different elements within 0.81 %, in at most 12 KiB.
//!
//! The value is a string in the format that Redis reads and writes, and that clients may have written: nothing in it is trusted.
//!
//! ```text
//! 0      4          5       8                    16
//! ┌──────┬──────────┬───────┬────────────────────┬─────────────────────────────────────────────┐
//! │ HYLL │ encoding │ zeros │ cached cardinality │ dense: 16384 registers of 6 bits (`dense`), │
//! │      │ 0 or 1   │       │ little-endian      │ or sparse: runs of them (`sparse`)          │
//! └──────┴──────────┴───────┴────────────────────┴─────────────────────────────────────────────┘
//! ```
//!
//! If the highest bit of the cached cardinality is set, it is stale. The lower 14 bits of an element's hash select a register,
//! which keeps the length (plus one) of the longest run of zeros seen above them. `estimate` turns the registers into a number.
//!
//! Sources: Flajolet, Fusy, Gandouet and Meunier, "HyperLogLog: the analysis of a near-optimal cardinality estimation
//! algorithm" (2007); Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017).

mod dense;
mod estimate;
mod murmur;
mod sparse;

use murmur::murmur64a;

const INDEX_BITS: u32 = 14;
/// Number of registers of every HyperLogLog.
pub const REGISTERS: usize = 1 << INDEX_BITS;
/// Bits of a hash in which zeros are counted.
const RUN_BITS: u32 = 64 - INDEX_BITS;
/// Number of values of six bits.
const REGISTER_VALUES: usize = 64;

const MAGIC: &[u8; 4] = b"HYLL";
const ENCODING_AT: usize = 4;
const CACHE: std::ops::Range<usize> = 8..16;
/// Byte and bit that mark the cached cardinality as stale.
const STALE_AT: usize = 15;
const STALE_BIT: u8 = 0x80;
const HEADER_BYTES: usize = 16;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
const SEED: u64 = 0xadc8_3b19;

/// The string has the header of a HyperLogLog but invalid registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt;

/// Registers as one byte each, for merging HyperLogLogs.
pub struct Registers(Box<[u8; REGISTERS]>);

impl Default for Registers {
    fn default() -> Self {
        Registers(Box::new([0; REGISTERS]))
    }
}

impl Registers {
    /// Merges `hll`: keeps the maximum of each register. Fails if it is corrupt.
    pub fn merge(&mut self, hll: &[u8]) -> Result<(), Corrupt> {
        each_register(hll, |index, value| self.0[index] = self.0[index].max(value))
    }

    /// Estimated number of different elements in all merged HyperLogLogs.
    pub fn count(&self) -> u64 {
        let mut histogram = [0; REGISTER_VALUES];
        self.0.iter().for_each(|&value| histogram[usize::from(value)] += 1);
        estimate::cardinality(&histogram)
    }

    /// Raises the registers of `hll` to these. Fails if `hll` is corrupt.
    pub fn write(&self, hll: &mut Vec<u8>, sparse_bytes_max: u64) -> Result<(), Corrupt> {
        for (index, &value) in self.0.iter().enumerate().filter(|(_, value)| **value > 0) {
            raise(hll, index, value, sparse_bytes_max)?;
        }
        set_stale(hll);
        Ok(())
    }

    /// The values of the registers, in order.
    pub fn values(&self) -> &[u8] {
        &*self.0
    }
}

/// An empty HyperLogLog.
pub fn new() -> Vec<u8> {
    let mut hll = vec![0; HEADER_BYTES];
    hll[..MAGIC.len()].copy_from_slice(MAGIC);
    hll[ENCODING_AT] = SPARSE;
    sparse::write_zeros(REGISTERS, &mut hll);
    hll
}

/// Whether a string has the header of a HyperLogLog. All other functions require one. The registers may still be corrupt.
pub fn has_header(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER_BYTES
        && bytes.starts_with(MAGIC)
        && match bytes[ENCODING_AT] {
            DENSE => bytes.len() == HEADER_BYTES + dense::BYTES,
            encoding => encoding == SPARSE,
        }
}

/// Whether the registers are stored as runs.
pub fn is_sparse(hll: &[u8]) -> bool {
    hll[ENCODING_AT] == SPARSE
}

/// Adds an element. Returns whether a register changed. A sparse form that would exceed `sparse_bytes_max` becomes
/// dense. Fails if the registers are corrupt.
pub fn add(hll: &mut Vec<u8>, element: &[u8], sparse_bytes_max: u64) -> Result<bool, Corrupt> {
    let hash = murmur64a(element, SEED);
    let index = hash as usize % REGISTERS;
    let zeros = (hash >> INDEX_BITS | 1 << RUN_BITS).trailing_zeros();
    raise(hll, index, zeros as u8 + 1, sparse_bytes_max)
}

/// The cached cardinality, unless it is stale.
pub fn cached_count(hll: &[u8]) -> Option<u64> {
    let cached = u64::from_le_bytes(hll[CACHE].try_into().expect("eight bytes"));
    (hll[STALE_AT] & STALE_BIT == 0).then_some(cached)
}

/// Estimates the number of different elements and caches it. Fails if the registers are corrupt.
pub fn count(hll: &mut [u8]) -> Result<u64, Corrupt> {
    let mut histogram = [0; REGISTER_VALUES];
    if is_sparse(hll) {
        sparse::each_run(&hll[HEADER_BYTES..], |run| histogram[usize::from(run.value)] += run.length)?;
    } else {
        dense::values(&hll[HEADER_BYTES..]).for_each(|value| histogram[usize::from(value)] += 1);
    }
    let count = estimate::cardinality(&histogram);
    hll[CACHE].copy_from_slice(&count.to_le_bytes());
    Ok(count)
}

/// Marks the cached cardinality as stale.
pub fn set_stale(hll: &mut [u8]) {
    hll[STALE_AT] |= STALE_BIT;
}

/// Converts to the dense form. Returns false if it is dense already, and fails if the registers are corrupt.
pub fn make_dense(hll: &mut Vec<u8>) -> Result<bool, Corrupt> {
    if !is_sparse(hll) {
        return Ok(false);
    }
    let mut dense = vec![0; HEADER_BYTES + dense::BYTES];
    dense[..HEADER_BYTES].copy_from_slice(&hll[..HEADER_BYTES]);
    dense[ENCODING_AT] = DENSE;
    each_register(hll, |index, value| dense::set(&mut dense[HEADER_BYTES..], index, value))?;
    *hll = dense;
    Ok(true)
}

/// The runs of a sparse HyperLogLog as `PFDEBUG DECODE` shows them: `z:<zeros>`, `Z:<many zeros>`, `v:<value>,<times>`.
pub fn decode(hll: &[u8]) -> String {
    sparse::decode(&hll[HEADER_BYTES..])
}

/// Calls `visit` with all registers that are not zero (of the dense form also with the others).
fn each_register(hll: &[u8], mut visit: impl FnMut(usize, u8)) -> Result<(), Corrupt> {
    let body = &hll[HEADER_BYTES..];
    if !is_sparse(hll) {
        dense::values(body).enumerate().for_each(|(index, value)| visit(index, value));
        return Ok(());
    }
    let mut index = 0;
    sparse::each_run(body, |run| {
        if run.value > 0 {
            (index..index + run.length).for_each(|index| visit(index, run.value));
        }
        index += run.length;
    })
}

/// Raises a register to `value`. Returns whether it was lower. Fails if the registers are corrupt.
fn raise(hll: &mut Vec<u8>, index: usize, value: u8, sparse_bytes_max: u64) -> Result<bool, Corrupt> {
    if is_sparse(hll) {
        match sparse::raise(hll, index, value, sparse_bytes_max)? {
            sparse::Raised::Done(changed) => {
                if changed {
                    set_stale(hll);
                }
                return Ok(changed);
            }
            sparse::Raised::TooLarge => _ = make_dense(hll)?,
        }
    }
    let registers = &mut hll[HEADER_BYTES..];
    let rises = dense::get(registers, index) < value;
    if rises {
        dense::set(registers, index, value);
    }
    Ok(rises)
}

#[cfg(test)]
mod tests;
