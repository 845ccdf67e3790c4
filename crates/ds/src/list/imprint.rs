//! What a compressed node tells of its elements without being expanded: whether one may be among them.
//!
//! To look for an element of a long backlog (LREM, LPOS, LINSERT), all of it would have to be expanded. So a compressed node
//! begins with an *imprint*, a Bloom filter: [`BITS_PER_ELEMENT`] bits for each element. An element sets [`PROBES`] bits, which all
//! lie in one word, so that one read and one write are enough:
//!
//! ```text
//! imprint:  [ . . . . . . . . . . . . . . . . ]   bytes
//!                   [ 8 bytes: a word ]           begins at any byte; the upper half of the hash says where
//! ```
//!
//! One node in twenty is expanded in vain. Elements shorter than [`ELEMENT_BYTES_MIN`] have no imprint: it would be a good part of
//! what is left of them, and they are looked through as fast.

use super::entry::Entries;
use crate::hashing::{self, Seed};

const BITS_PER_ELEMENT: usize = 7;
const PROBES: u32 = 3;
const WORD_BYTES: usize = size_of::<u64>();
/// What says which bit of a word a probe is.
const PROBE_BITS: u32 = u64::BITS.ilog2();
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
    if entry_bytes < count * ELEMENT_BYTES_MIN {
        return 0;
    }
    (count * BITS_PER_ELEMENT).div_ceil(8).max(WORD_BYTES)
}

/// Adds elements to an imprint, which was zeroed; one without bytes stays so.
pub(super) fn add(imprint: &mut [u8], elements: Entries<'_>) {
    if imprint.is_empty() {
        return;
    }
    for element in elements {
        let hash = hash(element);
        let at = word_at(imprint.len(), hash);
        let bytes = imprint[at..].first_chunk_mut().expect("a word begins no later than the last one");
        *bytes = (u64::from_le_bytes(*bytes) | bits(hash)).to_le_bytes();
    }
}

/// Whether an element of this hash may be there.
pub(super) fn may_have(imprint: &[u8], hash: u64) -> bool {
    if imprint.is_empty() {
        return true;
    }
    let bytes = imprint[word_at(imprint.len(), hash)..].first_chunk();
    let word = u64::from_le_bytes(*bytes.expect("a word begins no later than the last one"));
    word & bits(hash) == bits(hash)
}

/// Where the word begins that has an element's bits.
#[inline]
fn word_at(imprint_bytes: usize, hash: u64) -> usize {
    let places = (imprint_bytes - WORD_BYTES + 1) as u64;
    // The upper part of a product of 32 bits spreads evenly.
    (((hash >> u32::BITS) * places) >> u32::BITS) as usize
}

/// The bits of that word that an element sets.
#[inline]
fn bits(hash: u64) -> u64 {
    (0..PROBES).fold(0, |bits, probe| bits | 1 << (hash >> (probe * PROBE_BITS) & (u64::from(u64::BITS) - 1)))
}
