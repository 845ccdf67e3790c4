//! The hashes of MurmurHash2 by Austin Appleby (public domain), reading words as little-endian on all machines.

const MULTIPLIER_32: u32 = 0x5bd1_e995;
const SHIFT_32: u32 = 24;
const MULTIPLIER_64: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT_64: u32 = 47;

/// MurmurHash2, of 32 bits.
pub(crate) fn murmur2(bytes: &[u8], seed: u32) -> u32 {
    let mut hash = seed ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER_32);
        word ^= word >> SHIFT_32;
        hash = hash.wrapping_mul(MULTIPLIER_32) ^ word.wrapping_mul(MULTIPLIER_32);
    }
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
        hash = (hash ^ last).wrapping_mul(MULTIPLIER_32);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(MULTIPLIER_32);
    hash ^ hash >> 15
}

/// MurmurHash64A.
pub(crate) fn murmur64a(bytes: &[u8], seed: u64) -> u64 {
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER_64);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER_64);
        word ^= word >> SHIFT_64;
        hash = (hash ^ word.wrapping_mul(MULTIPLIER_64)).wrapping_mul(MULTIPLIER_64);
    }
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        hash = (hash ^ last).wrapping_mul(MULTIPLIER_64);
    }
    hash = (hash ^ hash >> SHIFT_64).wrapping_mul(MULTIPLIER_64);
    hash ^ hash >> SHIFT_64
}
