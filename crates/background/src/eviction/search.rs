//! Finds the keys to evict, and evicts them.
//!
//! ```text
//!   a random shard, weighted by its keys ──▶ sample ──▶ pool.rs: the best of recent samples ──▶ evict the best
//! ```
//!
//! The shards are visited one at a time, by trying.

use std::collections::HashMap;

use ds::random::Random;
use engine::{Client, Store, Tx};
use resp::Proto;
use shard::ShardId;

use super::pool::{Candidate, Pool};
use crate::Visits;
use keyspace::eviction::{Policy, Rank};

/// Maximum number of samples taken at a time.
const SAMPLES_MAX: usize = 64;
/// Buckets of a table that one visit of a shard examines to find something to evict, which takes about 30 µs.
const BUCKETS_PER_VISIT: usize = 64;
/// Shards that are picked randomly before all of them are tried.
const TRIES_BY_CHANCE: usize = 4;

/// Result of an attempt to evict a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attempt {
    /// A key was evicted.
    Evicted,
    /// No key was found so far.
    Searching,
    /// A shard that is taken may have some.
    Taken,
    /// No shard has a key to evict.
    Nothing,
}

/// One thread's search for keys to evict.
#[derive(Debug)]
pub(super) struct Search {
    pool: Pool,
    random: Random,
    shard_count: usize,
    /// Number of evictable keys on each shard at its last visit. Empty until something is to be evicted.
    weights: Vec<u32>,
    /// How often the databases of shards were searched to their ends without a candidate since the last one was found.
    /// Databases without entry have had one.
    barren: HashMap<(ShardId, u32), u32>,
}

impl Search {
    pub(super) fn new(seed: u64, shard_count: usize) -> Search {
        Search {
            pool: Pool::default(),
            random: Random::new(seed),
            shard_count,
            weights: Vec::new(),
            barren: HashMap::new(),
        }
    }

    /// Prepares for evicting keys by `policy`.
    pub(super) fn begin(&mut self, policy: Policy) {
        assert!(self.shard_count > 0, "what evicts is not on loan");
        self.weights.resize(self.shard_count, 0);
        self.pool.begin(policy);
    }

    /// Tries to evict one key: the best of about `sample_count` new candidates and those in the pool.
    pub(super) fn evict_one(
        &mut self,
        policy: Policy,
        sample_count: usize,
        thread: &mut impl Visits,
    ) -> Attempt {
        let found = self.sample(policy, sample_count.min(SAMPLES_MAX), thread);
        loop {
            let evict = |of: &Candidate| thread.visit(of.shard, |tx| evict(tx, policy, of));
            match self.pool.take_best(evict) {
                Some(true) => return Attempt::Evicted,
                Some(false) => {}
                None => return found,
            }
        }
    }

    /// Adds candidates to the pool.
    fn sample(&mut self, policy: Policy, sample_count: usize, thread: &mut impl Visits) -> Attempt {
        for _ in 0..TRIES_BY_CHANCE {
            let index = self.pick();
            if self.sample_shard(policy, sample_count, index, thread) == Attempt::Searching {
                return Attempt::Searching;
            }
        }
        let count = self.weights.len();
        let first = self.random.below(count as u64) as usize;
        let mut found = Attempt::Nothing;
        for index in (first..count).chain(0..first) {
            match self.sample_shard(policy, sample_count, index, thread) {
                Attempt::Searching | Attempt::Evicted => return Attempt::Searching,
                Attempt::Taken => found = Attempt::Taken,
                Attempt::Nothing => {}
            }
        }
        found
    }

    /// Adds some candidates of a shard to the pool. Returns `Searching` if the shard has any, even if none
    /// was found yet.
    fn sample_shard(
        &mut self,
        policy: Policy,
        sample_count: usize,
        index: usize,
        thread: &mut impl Visits,
    ) -> Attempt {
        let id = ShardId(index as u16);
        let visit = |tx: &mut Tx| self.look(policy, sample_count, id, tx);
        let Some(weight) = thread.visit(id, visit) else { return Attempt::Taken };
        self.weights[index] = weight.try_into().unwrap_or(u32::MAX);
        if weight > 0 { Attempt::Searching } else { Attempt::Nothing }
    }

    /// Offers some records of an entered shard to the pool. Returns the number of evictable records.
    fn look(&mut self, policy: Policy, sample_count: usize, id: ShardId, tx: &mut Tx) -> usize {
        if !tx.hold.shards().is_used(id) {
            return 0;
        }
        let (lfu, now, spares_queues) = (tx.config.lfu, tx.now, !tx.config.evicts_queues);
        let placement = tx.hold.shards().placement();
        let mut weight = 0;
        for (number, db) in tx.hold.shard_mut(id).dbs.iter_mut() {
            let len = policy.eligible_len(db);
            if len == 0 {
                continue;
            }
            let mut has_offered = false;
            let mut offer = |record: keyspace::RecordRef<'_>| {
                let Some(score) = policy.score(record, lfu, now) else { return false };
                let hash = placement.hash(record.key());
                self.pool.offer(Candidate { score, shard: id, db: number, hash });
                has_offered = true;
                true
            };
            if policy == (Policy { only_volatile: false, rank: Rank::Chance }) {
                let (random, other_random) = (self.random.next_u64(), self.random.next_u64());
                let chosen = db.random(random, other_random);
                let chosen = chosen.filter(|record| !(spares_queues && db.queues().owns(*record)));
                if chosen.is_some_and(&mut offer) {
                    self.barren.remove(&(id, number));
                    weight += len;
                    continue;
                }
            }
            let mut left = if policy.rank == Rank::Chance { 1 } else { sample_count };
            let has_wrapped = db.sample(BUCKETS_PER_VISIT, spares_queues, &mut |record| {
                left -= usize::from(offer(record));
                left > 0
            });
            if has_offered {
                self.barren.remove(&(id, number));
            } else if has_wrapped {
                *self.barren.entry((id, number)).or_default() += 1;
            }
            // Once for the part before the place where the search began, and once for the whole.
            if self.barren.get(&(id, number)).is_none_or(|searched| *searched < 2) {
                weight += len;
            }
        }
        weight
    }

    /// Picks a random shard, weighted by its number of evictable keys; rarely also one that had none.
    fn pick(&mut self) -> usize {
        let most = u64::from(self.weights.iter().copied().max().unwrap_or(0));
        let mut index = 0;
        for _ in 0..TRIES_BY_CHANCE * 2 {
            index = self.random.below(self.weights.len() as u64) as usize;
            if u64::from(self.weights[index]) + most / 16 >= self.random.below(most + 1) {
                break;
            }
        }
        index
    }
}

/// Evicts a candidate from its entered shard, unless it is gone or was used since it was sampled.
fn evict(tx: &mut Tx, policy: Policy, candidate: &Candidate) -> bool {
    let db = &tx.hold.shard(candidate.shard).dbs[candidate.db as usize];
    let Some(record) = db.find_hashed(candidate.hash) else { return false };
    if !tx.config.evicts_queues && db.queues().owns(record) {
        return false;
    }
    let score = policy.score(record, tx.config.lfu, tx.now);
    if score.is_none_or(|score| score < candidate.score) {
        return false;
    }
    let key: Box<[u8]> = record.key().into();
    Store::new(tx, Client::internal(candidate.db, Proto::Resp2)).evict(&key);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Alone;

    const VOLATILE: Policy = Policy { only_volatile: true, rank: Rank::Expiry };

    #[test]
    fn what_expires_first_goes_first_and_the_rest_stays() {
        let mut thread = Alone::new();
        for key in 1..=200 {
            thread.local.line(&format!("SET plain:{key} v"));
            thread.local.line(&format!("SET volatile:{key} v EX {}", key * 100));
        }
        let mut search = Search::new(7, thread.shards().count());
        search.begin(VOLATILE);
        let steps: Vec<Attempt> = (0..100).map(|_| search.evict_one(VOLATILE, 64, &mut thread)).collect();
        assert_eq!(thread.local.line("DBSIZE"), format!(":{}\r\n", 400 - evicted(&steps)));
        assert!(evicted(&steps) > 50, "{steps:?}");
        let left = |thread: &mut Alone, keys: std::ops::RangeInclusive<u32>| {
            let exists = |key: u32| thread.local.line(&format!("EXISTS volatile:{key}")) == ":1\r\n";
            keys.map(exists).filter(|exists| *exists).count()
        };
        let (soon, late) = (left(&mut thread, 1..=100), left(&mut thread, 101..=200));
        assert!(soon < late, "{soon} that expire soon are left, and {late} others");
        assert_eq!(
            (1..=500).map(|_| search.evict_one(VOLATILE, 64, &mut thread)).last(),
            Some(Attempt::Nothing)
        );
        assert_eq!(thread.local.line("DBSIZE"), ":200\r\n");
    }

    /// What is left after all that may go has gone, in the end.
    #[track_caller]
    fn check_left(policy: Policy, requests: &[&str], left: &str) {
        let mut thread = Alone::new();
        requests.iter().for_each(|request| _ = thread.local.line(request));
        let mut search = Search::new(7, thread.shards().count());
        search.begin(policy);
        let ends = (1..=5000).any(|_| search.evict_one(policy, 5, &mut thread) == Attempt::Nothing);
        assert!(ends, "{policy:?}: it notices that nothing is left to evict");
        assert_eq!(thread.local.line("DBSIZE"), left, "{policy:?}");
        // What may go later is found then.
        thread.local.line("SET later v EX 100");
        assert!(
            (1..=5000).any(|_| search.evict_one(policy, 5, &mut thread) == Attempt::Evicted),
            "{policy:?}"
        );
    }

    #[test]
    fn queues_and_blessed_keys_stay_and_the_search_ends() {
        let mut requests = vec![
            "LPUSH queue:mail job",
            "EXPIRE queue:mail 100",
            "ZADD schedule 7 job",
            "EXPIRE schedule 100",
        ];
        let keys: Vec<[String; 2]> = (0..50)
            .map(|key| [format!("SET key:{key} v EX 100"), format!("SET blessed:{key} v EX 100")])
            .collect();
        let blessings: Vec<String> = (0..50).map(|key| format!("BLESS SET blessed:{key} NO-EVICT")).collect();
        requests.extend(keys.iter().flatten().chain(&blessings).map(String::as_str));
        for number in 0..10 {
            if let Some(policy) = Policy::numbered(number) {
                check_left(policy, &requests, ":52\r\n");
            }
        }
    }

    #[test]
    fn where_all_is_taken_there_may_be_some() {
        let mut thread = Alone::new();
        thread.is_taken = true;
        let mut search = Search::new(7, 8);
        search.begin(VOLATILE);
        assert_eq!(search.evict_one(VOLATILE, 5, &mut thread), Attempt::Taken);
    }

    fn evicted(steps: &[Attempt]) -> usize {
        steps.iter().filter(|step| **step == Attempt::Evicted).count()
    }
}
