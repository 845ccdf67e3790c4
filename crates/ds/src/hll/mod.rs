//! HyperLogLog: how many different elements were added, within 0.81 %, in 12 KiB at most.
//!
//! The value is a string that Redis reads and writes in the same form, and that clients may have written: nothing in
//! it is trusted.
//!
//! ```text
//! 0      4          5       8                    16
//! ┌──────┬──────────┬───────┬────────────────────┬─────────────────────────────────────────────┐
//! │ HYLL │ encoding │ zeros │ cached cardinality │ dense: 16384 registers of 6 bits (`dense`), │
//! │      │ 0 or 1   │       │ little-endian      │ or sparse: runs of them (`sparse`)          │
//! └──────┴──────────┴───────┴────────────────────┴─────────────────────────────────────────────┘
//! ```
//!
//! The highest bit of the cached cardinality says that it is out of date. The lower 14 bits of an element's hash choose
//! a register, which keeps the longest run of zeros (plus one) seen above them. `estimate` makes a number of the
//! registers.
//!
//! Sources: Flajolet, Fusy, Gandouet and Meunier, "HyperLogLog: the analysis of a near-optimal cardinality estimation
//! algorithm" (2007); Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017).

mod dense;
mod estimate;
mod murmur;
mod sparse;

use murmur::murmur64a;

const INDEX_BITS: u32 = 14;
/// Registers of every HyperLogLog.
pub const REGISTERS: usize = 1 << INDEX_BITS;
/// Bits of a hash that are looked at for zeros.
const RUN_BITS: u32 = 64 - INDEX_BITS;
/// Values that six bits have.
const REGISTER_VALUES: usize = 64;

const MAGIC: &[u8; 4] = b"HYLL";
const ENCODING_AT: usize = 4;
const CACHE: std::ops::Range<usize> = 8..16;
/// The byte, and its bit, that say that the cached cardinality is out of date.
const STALE_AT: usize = 15;
const STALE_BIT: u8 = 0x80;
const HEADER_BYTES: usize = 16;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
const SEED: u64 = 0xadc8_3b19;

/// The value is marked as a HyperLogLog and is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt;

/// Registers, one byte each: where several HyperLogLogs are merged.
pub struct Registers(Box<[u8; REGISTERS]>);

impl Default for Registers {
    fn default() -> Self {
        Registers(Box::new([0; REGISTERS]))
    }
}

impl Registers {
    /// Takes the greater of each register of both.
    pub fn merge(&mut self, hll: &[u8]) -> Result<(), Corrupt> {
        each_register(hll, |index, value| self.0[index] = self.0[index].max(value))
    }

    /// About how many different elements were added to what was merged.
    pub fn count(&self) -> u64 {
        let mut histogram = [0; REGISTER_VALUES];
        self.0.iter().for_each(|&value| histogram[usize::from(value)] += 1);
        estimate::cardinality(&histogram)
    }

    /// Raises the registers of `hll` to these.
    pub fn write(&self, hll: &mut Vec<u8>, sparse_bytes_max: u64) -> Result<(), Corrupt> {
        for (index, &value) in self.0.iter().enumerate().filter(|(_, value)| **value > 0) {
            raise(hll, index, value, sparse_bytes_max)?;
        }
        set_stale(hll);
        Ok(())
    }

    /// The values, in order.
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

/// Whether a string has the header of a HyperLogLog, which everything else here takes for granted. The registers
/// may be corrupt still.
pub fn has_header(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER_BYTES
        && bytes.starts_with(MAGIC)
        && match bytes[ENCODING_AT] {
            DENSE => bytes.len() == HEADER_BYTES + dense::BYTES,
            encoding => encoding == SPARSE,
        }
}

/// Whether the registers are there as runs.
pub fn is_sparse(hll: &[u8]) -> bool {
    hll[ENCODING_AT] == SPARSE
}

/// Adds an element; whether that changed a register. A sparse form that would grow beyond `sparse_bytes_max` becomes a
/// dense one.
pub fn add(hll: &mut Vec<u8>, element: &[u8], sparse_bytes_max: u64) -> Result<bool, Corrupt> {
    let hash = murmur64a(element, SEED);
    let index = hash as usize % REGISTERS;
    let zeros = (hash >> INDEX_BITS | 1 << RUN_BITS).trailing_zeros();
    raise(hll, index, zeros as u8 + 1, sparse_bytes_max)
}

/// The cached cardinality, if it is up to date.
pub fn cached_count(hll: &[u8]) -> Option<u64> {
    let cached = u64::from_le_bytes(hll[CACHE].try_into().expect("eight bytes"));
    (hll[STALE_AT] & STALE_BIT == 0).then_some(cached)
}

/// About how many different elements were added; kept in the cache.
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

/// Says that the cached cardinality is out of date.
pub fn set_stale(hll: &mut [u8]) {
    hll[STALE_AT] |= STALE_BIT;
}

/// Makes it dense; false if it was.
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

/// The runs of a sparse one as `PFDEBUG DECODE` shows them: `z:<zeros>`, `Z:<many zeros>`, `v:<value>,<times>`.
pub fn decode(hll: &[u8]) -> String {
    sparse::decode(&hll[HEADER_BYTES..])
}

/// Calls `visit` with the registers that are not zero.
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

/// Raises a register to `value`; whether it was below it.
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
