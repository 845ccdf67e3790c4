//! Which shard a key is on.
//!
//! One 64-bit hash of the key serves placement and table: placement takes its low 16 bits, the table the rest. If a key
//! has a hash tag (`{user1}:a`), or a colocation rule matches it, only that part is hashed for placement
//! (`ds/placing.rs`), so that such keys are on one shard. With a round-robin prefix, keys that begin with it are dealt
//! out to shards in turn, in the order of their first use (the published experiment's `--shard_round_robin_prefix`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ds::hashing::{Seed, hash};
use ds::placing::Colocation;

/// The number of a shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ShardId(pub u16);

impl ShardId {
    /// As an index into a vector of shards.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Keys with the round-robin prefix that are remembered; later ones are placed by hash.
const DEALT_MAX: usize = 1 << 14;

/// The rule that places keys on shards.
#[derive(Clone, Debug)]
pub struct Placement {
    seed: Seed,
    shard_count: u16,
    colocation: Colocation,
    /// Shared by all clones.
    round_robin: Option<Arc<RoundRobin>>,
}

#[derive(Debug)]
struct RoundRobin {
    prefix: Box<[u8]>,
    next: AtomicU32,
    /// Open addressing: the upper 48 bits of the hash, with the shard in the low 16; 0 is empty. Entries are never
    /// removed.
    dealt: Box<[AtomicU64]>,
}

impl Placement {
    /// Places keys on `shard_count` shards (at least 1), optionally dealing out keys under `round_robin_prefix`.
    pub fn new(seed: Seed, shard_count: u16, round_robin_prefix: Option<&[u8]>) -> Self {
        assert!(shard_count > 0, "a store has at least one shard");
        assert!(shard_count < u16::MAX - 1, "the roaming shard and no shard have numbers, too");
        let round_robin = round_robin_prefix.filter(|prefix| !prefix.is_empty()).map(|prefix| {
            Arc::new(RoundRobin {
                prefix: prefix.into(),
                next: AtomicU32::new(0),
                dealt: (0..DEALT_MAX * 2).map(|_| AtomicU64::new(0)).collect(),
            })
        });
        Placement { seed, shard_count, colocation: Colocation::default(), round_robin }
    }

    /// Replaces the colocation rules of this placement.
    pub fn with_colocation(self, colocation: Colocation) -> Self {
        Placement { colocation, ..self }
    }

    /// Number of shards.
    pub fn shard_count(&self) -> u16 {
        self.shard_count
    }

    /// The seed of [`hash`](Self::hash).
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// The hash by which tables look `key` up.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        hash(&self.seed, key)
    }

    /// The shard of `key`.
    #[inline]
    pub fn shard(&self, key: &[u8]) -> ShardId {
        self.locate(key).0
    }

    /// The shard of a channel, which is placed like a key.
    pub fn channel(&self, channel: &[u8]) -> ShardId {
        self.shard(channel)
    }

    /// The shard of `key` and the hash by which its tables look it up.
    #[inline]
    pub fn locate(&self, key: &[u8]) -> (ShardId, u64) {
        let key_hash = hash(&self.seed, key);
        if let Some(round_robin) = &self.round_robin
            && key.starts_with(&round_robin.prefix)
        {
            return (round_robin.deal(key_hash, self.shard_count), key_hash);
        }
        let part = self.placing_part(key);
        let placing = if part.len() == key.len() { key_hash } else { hash(&self.seed, part) };
        (self.by_hash(placing), key_hash)
    }

    /// Locates a key whose hash tag is the [`placing_part`](Self::placing_part) of a key on `shard`. Returns
    /// what [`locate`](Self::locate) returns.
    #[inline]
    pub fn locate_beside(&self, shard: ShardId, key: &[u8]) -> (ShardId, u64) {
        if self.round_robin.is_some() {
            return self.locate(key);
        }
        debug_assert_eq!(self.shard(key), shard);
        (shard, self.hash(key))
    }

    /// The part of `key` that decides its shard. It is shorter than the key if all keys with that part are always on
    /// one shard.
    #[inline]
    pub fn placing_part<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        self.colocation.placing_part(key)
    }

    #[inline]
    fn by_hash(&self, hash: u64) -> ShardId {
        // Multiply-shift on the low 16 bits: even for any number of shards.
        ShardId(((u32::from(hash as u16) * u32::from(self.shard_count)) >> 16) as u16)
    }
}

impl RoundRobin {
    fn deal(&self, key_hash: u64, shard_count: u16) -> ShardId {
        let mark = key_hash & !0xffff | 1 << 63;
        let mut index = (key_hash >> 20) as usize % self.dealt.len();
        for _ in 0..64 {
            let seen = self.dealt[index].load(Ordering::Acquire);
            if seen & !0xffff == mark {
                return ShardId(seen as u16);
            }
            if seen == 0 {
                let shard = (self.next.fetch_add(1, Ordering::Relaxed) % u32::from(shard_count)) as u16;
                let entry = mark | u64::from(shard);
                match self.dealt[index].compare_exchange(0, entry, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return ShardId(shard),
                    Err(other) if other & !0xffff == mark => return ShardId(other as u16),
                    Err(_) => {}
                }
            }
            index = (index + 1) % self.dealt.len();
        }
        ShardId((key_hash % u64::from(shard_count)) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_tag_lie_together_and_others_spread() {
        let placement = Placement::new(Seed::new(7), 64, None);
        assert_eq!(placement.shard(b"{u}:a"), placement.shard(b"{u}:b"));
        let colocation = Colocation::parse(["bull:{*}:"]).expect("it is a rule");
        let colocated = placement.clone().with_colocation(colocation);
        for number in 0..100 {
            let keys = ["id", "wait", "17"].map(|key| format!("bull:{number}:{key}"));
            let home = colocated.shard(format!("{{{number}}}").as_bytes());
            assert!(keys.iter().all(|key| colocated.shard(key.as_bytes()) == home));
        }
        let mut counts = [0; 64];
        for number in 0..6400 {
            counts[placement.shard(format!("key:{number}").as_bytes()).index()] += 1;
        }
        assert!(counts.iter().all(|&count| count > 40), "{counts:?}");
    }

    #[test]
    fn round_robin_deals_in_turn_and_remembers() {
        let placement = Placement::new(Seed::new(7), 4, Some(b"queue:"));
        let shards: Vec<u16> = (0..8).map(|n| placement.shard(format!("queue:{n}").as_bytes()).0).collect();
        assert_eq!(shards, [0, 1, 2, 3, 0, 1, 2, 3]);
        let again: Vec<u16> = (0..8).map(|n| placement.shard(format!("queue:{n}").as_bytes()).0).collect();
        assert_eq!(again, shards);
    }
}
