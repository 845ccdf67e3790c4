//! What a compressed node tells of its elements without being expanded: whether one may be among them.
//!
//! Who looks for an element of a long backlog (LREM, LPOS, LINSERT) would have to expand all of it. So a compressed node begins with an
//! *imprint*, a Bloom filter: [`BITS_PER_ELEMENT`] bits for each element, of which every element sets [`PROBES`]. One node in
//! eighteen is then expanded in vain. Elements shorter than [`ELEMENT_BYTES_MIN`] have none: it would be a good part of
//! what is left of them, and they are looked through as fast.

use super::entry::Entries;
use crate::hashing::{self, Seed};

const BITS_PER_ELEMENT: usize = 6;
const PROBES: u64 = 4;
/// Elements of a node must be as long as this on average for it to have an imprint.
const ELEMENT_BYTES_MIN: usize = 32;

// What can be told about this hash is in what a client sent; whoever makes collisions makes nodes be expanded in vain, no more.
static SEED: Seed = Seed::new(0);

/// The hash by which an element is looked for.
pub(super) fn hash(element: &[u8]) -> u64 {
    hashing::hash(&SEED, element)
}

/// Bytes of the imprint of `count` elements that take `entry_bytes` together.
pub(super) fn len(count: usize, entry_bytes: usize) -> usize {
    if entry_bytes < count * ELEMENT_BYTES_MIN { 0 } else { (count * BITS_PER_ELEMENT).div_ceil(8) }
}

/// Adds elements to an imprint, which was zeroed; one without bytes stays so.
pub(super) fn add(imprint: &mut [u8], elements: Entries<'_>) {
    if imprint.is_empty() {
        return;
    }
    for element in elements {
        for bit in bits(imprint.len(), hash(element)) {
            imprint[bit / 8] |= 1 << (bit % 8);
        }
    }
}

/// Whether an element of this hash may be there.
pub(super) fn may_have(imprint: &[u8], hash: u64) -> bool {
    imprint.is_empty() || bits(imprint.len(), hash).all(|bit| imprint[bit / 8] & (1 << (bit % 8)) != 0)
}

/// The bits that an element sets.
fn bits(imprint_bytes: usize, hash: u64) -> impl Iterator<Item = usize> {
    let bits = imprint_bytes as u64 * 8;
    let (first, step) = (hash & 0xffff_ffff, (hash >> 32) | 1);
    // The upper part of a product of 32 bits spreads evenly.
    (0..PROBES).map(move |probe| (((first + probe * step) as u32 as u64 * bits) >> 32) as usize)
}
