//! The seeded hash of keys, fields and members.
//!
//! foldhash in its quality form: all 64 bits are good, which placement on shards (low 16 bits) and the
//! [`CompactTable`](crate::compact_table::CompactTable) (all others) rely on. All numbers inside the hash are derived from the
//! secret seed. With foldhash's fixed public numbers a client could send keys that multiply by zero and so collide under any seed.
//!
//! A key is hashed once, with the [`Seed`] that its owner passes in; placement and the table share that hash. Big
//! hashes and sets have an [`ObjectSeed`] each, so that walking one object in hash order and filling another from it
//! does not fill the other one's segments in order.
//!
//! foldhash is not cryptographic: a client that could time single look-ups very finely might learn about the seed.

use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;

use crate::random::mix;

/// The secret numbers of one hash function. One cache line; pass it by reference.
#[derive(Clone, Debug)]
pub struct Seed {
    start: u64,
    shared: SharedSeed,
}

impl Seed {
    /// The hash function with this number. Equal numbers give equal hashes in any process.
    pub const fn new(number: u64) -> Self {
        Self { start: mix(number), shared: SharedSeed::from_u64(number) }
    }

    /// Whether both are the same hash function.
    pub const fn is_same(&self, other: &Self) -> bool {
        self.start == other.start
    }

    /// An unpredictable hash function, from the operating system's randomness.
    #[expect(clippy::disallowed_types, reason = "the seed that others are passed comes from here")]
    pub fn random() -> Self {
        Self::new(std::hash::RandomState::new().hash_one(0_u64))
    }
}

/// The hash of `bytes` under `seed`.
#[inline]
pub fn hash(seed: &Seed, bytes: &[u8]) -> u64 {
    hash_from(seed.start, &seed.shared, bytes)
}

#[inline]
fn hash_from(start: u64, shared: &SharedSeed, bytes: &[u8]) -> u64 {
    let mut hasher = FoldHasher::with_seed(start, shared);
    hasher.write(bytes);
    hasher.finish()
}

static PROCESS_SEED: OnceLock<Seed> = OnceLock::new();
static OBJECTS_SEEDED: AtomicU64 = AtomicU64::new(0);

fn process_seed() -> &'static Seed {
    PROCESS_SEED.get_or_init(Seed::random)
}

/// The hash function of one collection: the process seed's numbers with a start of its own.
#[derive(Clone, Copy, Debug)]
pub struct ObjectSeed(u64);

impl ObjectSeed {
    /// A seed that no other object of this process has.
    pub fn next() -> Self {
        let number = OBJECTS_SEEDED.fetch_add(1, Ordering::Relaxed);
        Self(mix(process_seed().start ^ mix(number)))
    }

    /// The hash of `bytes` in this collection.
    #[inline]
    pub fn hash(self, bytes: &[u8]) -> u64 {
        hash_from(self.0, &process_seed().shared, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_agree_and_different_ones_do_not() {
        assert_eq!(hash(&Seed::new(1), b"key"), hash(&Seed::new(1), b"key"));
        assert_ne!(hash(&Seed::new(1), b"key"), hash(&Seed::new(2), b"key"));
        assert_ne!(hash(&Seed::new(1), b"key"), hash(&Seed::new(1), b"kez"));
        assert_ne!(hash(&Seed::new(1), b""), hash(&Seed::new(2), b""));
        assert_ne!(hash(&Seed::new(1), b"\0"), hash(&Seed::new(1), b"\0\0"));
        let (one, two) = (ObjectSeed::next(), ObjectSeed::next());
        assert_ne!(one.hash(b"field"), two.hash(b"field"));
        assert_eq!(one.hash(b"field"), one.hash(b"field"));
    }

    #[test]
    fn every_byte_of_the_hash_spreads() {
        let seed = Seed::new(7);
        let hashes: Vec<u64> = (0..25_600_u32).map(|i| hash(&seed, format!("key:{i}").as_bytes())).collect();
        for byte in 0..8 {
            let mut counts = [0_u32; 256];
            for hash in &hashes {
                counts[(hash >> (byte * 8)) as usize & 255] += 1;
            }
            assert!(counts.iter().all(|&count| (50..170).contains(&count)), "byte {byte}: {counts:?}");
        }
    }
}
