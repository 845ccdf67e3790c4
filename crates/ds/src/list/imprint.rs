//! Tells whether an element may be in a compressed node, without expanding the node.
//!
//! To find an element in a long backlog (LREM, LPOS, LINSERT), all of it would have to be expanded. So a compressed
//! node begins with an *imprint*, a Bloom filter with [`BITS_PER_ELEMENT`] bits for each element. An element sets
//! [`PROBES`] bits, which all lie in one word, so that one read and one write suffice:
//!
//! ```text
//! imprint:  [ . . . . . . . . . . . . . . . . ]   bytes
//!                   [ 8 bytes: a word ]           begins at any byte; the upper half of the hash selects it
//! ```
//!
//! One node in twenty is expanded although it lacks the element. If elements are shorter than
//! [`ELEMENT_BYTES_MIN`] on average, there is no imprint: it would be large compared with the compressed
//! elements, which are searched as fast.

use super::entry::Entries;
use crate::hashing::{self, Seed};

const BITS_PER_ELEMENT: usize = 7;
const PROBES: u32 = 3;
const WORD_BYTES: usize = size_of::<u64>();
/// Bits of the hash that select the bit of one probe.
const PROBE_BITS: u32 = u64::BITS.ilog2();
/// Minimum average length of a node's elements, as entries, for it to have an imprint.
const ELEMENT_BYTES_MIN: usize = 32;

// The hash needs no secret seed: it reveals only what clients have sent, and clients that cause collisions
// only make the search expand nodes that lack the element.
static SEED: Seed = Seed::new(0);

/// The hash of an element for imprints.
pub(super) fn hash(element: &[u8]) -> u64 {
    hashing::hash(&SEED, element)
}

/// Length of the imprint for `count` elements with `entry_bytes` in total; 0 if there is none.
pub(super) fn len(count: usize, entry_bytes: usize) -> usize {
    if entry_bytes < count * ELEMENT_BYTES_MIN {
        return 0;
    }
    (count * BITS_PER_ELEMENT).div_ceil(8).max(WORD_BYTES)
}

/// Adds elements to a zeroed imprint. Does nothing if the imprint is empty.
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

/// Whether an element with this hash may be present.
pub(super) fn may_have(imprint: &[u8], hash: u64) -> bool {
    if imprint.is_empty() {
        return true;
    }
    let bytes = imprint[word_at(imprint.len(), hash)..].first_chunk();
    let word = u64::from_le_bytes(*bytes.expect("a word begins no later than the last one"));
    word & bits(hash) == bits(hash)
}

/// Offset of the word with an element's bits.
#[inline]
fn word_at(imprint_bytes: usize, hash: u64) -> usize {
    let places = (imprint_bytes - WORD_BYTES + 1) as u64;
    // The upper half of a 64-bit product distributes evenly.
    (((hash >> u32::BITS) * places) >> u32::BITS) as usize
}

/// The bits of that word that an element sets.
#[inline]
fn bits(hash: u64) -> u64 {
    (0..PROBES).fold(0, |bits, probe| bits | 1 << (hash >> (probe * PROBE_BITS) & (u64::from(u64::BITS) - 1)))
}
