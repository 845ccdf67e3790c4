//! Which segment of a table a hash belongs to, and its position in the order of scans: linear hashing.
//!
//! ```text
//! count = 6, depth 3          hash bits ..18 17 16 pick the number; 110 and 111 do not exist yet,
//!  000  001  010  011  100  101    so they fall back to their buddies 010 and 011, which have depth 2
//! ```
//!
//! A table grows by one segment at a time: segment number `count` is split off its *buddy*, whose number is the same without
//! the highest bit. It shrinks by merging the last segment back. The number of entries alone determines when this happens,
//! so there is no directory to search, to double, or to keep consistent, and finding a segment takes a mask and a compare.
//! Segments not yet split in a round hold up to twice as many entries as split ones. (Litwin: "Linear hashing", VLDB 1980.)

/// Bits of a cursor.
pub const POSITION_BITS: u32 = 48;
/// End of the positions.
pub(super) const POSITION_END: u64 = 1 << POSITION_BITS;
/// Low bits of a hash that tables ignore.
pub(super) const PLACEMENT_BITS: u32 = 64 - POSITION_BITS;

/// Position of an entry with this hash in the order of scans.
#[inline]
fn position(hash: u64) -> u64 {
    (hash >> PLACEMENT_BITS).reverse_bits() >> PLACEMENT_BITS
}

/// A hash with this position.
pub(super) fn hash_at(position: u64) -> u64 {
    (position << PLACEMENT_BITS).reverse_bits() << PLACEMENT_BITS
}

/// Number of a hash's segment in a table of `count` (at least one), and the segment's depth: the number of hash bits,
/// from [`PLACEMENT_BITS`] up, that selected it.
#[inline]
pub(super) fn segment_of(count: usize, hash: u64) -> (usize, u32) {
    // `| 1` covers a table of one segment, whose only segment was never split.
    let round = ((count - 1) | 1).ilog2();
    let low_bits = |bits: u32| (hash >> PLACEMENT_BITS) as usize & ((1 << bits) - 1);
    let depth = round + u32::from(low_bits(round) + (1 << round) < count);
    (low_bits(depth), depth)
}

/// The segment from which segment `number` (not 0) is split off, and into which it is merged.
pub(super) fn buddy_of(number: usize) -> usize {
    number - (1 << number.ilog2())
}

/// The positions of the segment that `at` belongs to in a table of `count`: the first one, and their number.
pub(super) fn positions_at(count: usize, at: u64) -> (u64, u64) {
    let (number, depth) = segment_of(count, hash_at(at));
    (position((number as u64) << PLACEMENT_BITS), 1 << (POSITION_BITS - depth))
}
