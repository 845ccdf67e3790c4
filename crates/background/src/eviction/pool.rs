//! The best candidates of recent samples, which are better than the best of one sample: Redis' approximation
//! of LRU.
//!
//! A candidate is stored by its hash. When its turn comes, it may be gone or have been used.

use shard::ShardId;

use keyspace::eviction::Policy;

/// Number of candidates that are kept.
const POOL_LEN: usize = 16;

/// A record that may be evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    /// Its priority for eviction.
    pub(super) score: u64,
    pub(super) shard: ShardId,
    pub(super) db: u32,
    pub(super) hash: u64,
}

/// The best candidates for eviction.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// The policy that the scores belong to.
    policy: Option<Policy>,
    /// By ascending score: the best one is last.
    candidates: Vec<Candidate>,
}

impl Pool {
    /// Prepares for candidates of this policy; drops those of another.
    pub(super) fn begin(&mut self, policy: Policy) {
        if self.policy != Some(policy) {
            *self = Pool { policy: Some(policy), candidates: Vec::with_capacity(POOL_LEN + 1) };
        }
    }

    /// Adds a candidate if there is room or it is better than the worst one.
    pub(super) fn offer(&mut self, candidate: Candidate) {
        let is_same = |known: &Candidate| {
            (known.shard, known.db, known.hash) == (candidate.shard, candidate.db, candidate.hash)
        };
        if self.candidates.len() == POOL_LEN && candidate.score <= self.candidates[0].score
            || self.candidates.iter().any(is_same)
        {
            return;
        }
        let place = self.candidates.partition_point(|known| known.score < candidate.score);
        self.candidates.insert(place, candidate);
        if self.candidates.len() > POOL_LEN {
            self.candidates.remove(0);
        }
        assert!(self.candidates.len() <= POOL_LEN, "the pool is full");
    }

    /// Calls `reach` for candidates, best first, until it returns a result; removes that candidate and
    /// returns the result.
    pub(super) fn take_best<R>(&mut self, mut reach: impl FnMut(&Candidate) -> Option<R>) -> Option<R> {
        let found =
            self.candidates.iter().enumerate().rev().find_map(|(place, of)| Some((place, reach(of)?)));
        let (place, result) = found?;
        self.candidates.remove(place);
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyspace::eviction::Rank;

    const POLICY: Policy = Policy { only_volatile: false, rank: Rank::Idle };

    fn candidate(score: u64) -> Candidate {
        Candidate { score, shard: ShardId((score % 3) as u16), db: 0, hash: score }
    }

    #[test]
    fn the_best_are_kept_and_come_first() {
        let mut pool = Pool::default();
        pool.begin(POLICY);
        let mut random = ds::random::Random::new(3);
        let scores: Vec<u64> = (0..500).map(|_| random.below(1000)).collect();
        for score in &scores {
            pool.offer(candidate(*score));
        }
        let mut expected = scores;
        expected.sort_unstable_by(|a, b| b.cmp(a));
        expected.dedup();
        let taken: Vec<u64> =
            std::iter::from_fn(|| pool.take_best(|of| Some(*of))).map(|candidate| candidate.score).collect();
        assert_eq!(taken, expected[..POOL_LEN]);
    }

    #[test]
    fn the_same_key_in_two_databases_is_two_candidates() {
        let mut pool = Pool::default();
        pool.begin(POLICY);
        for db in [0, 1, 1] {
            pool.offer(Candidate { db, ..candidate(7) });
        }
        let taken = std::iter::from_fn(|| pool.take_best(|of| Some(of.db)));
        assert_eq!(taken.count(), 2);
    }

    #[test]
    fn what_is_out_of_reach_stays() {
        let mut pool = Pool::default();
        pool.begin(POLICY);
        (1..5).for_each(|score| pool.offer(candidate(score)));
        assert_eq!(pool.take_best(|of| (of.shard != ShardId(1)).then_some(*of)), Some(candidate(3)));
        assert_eq!(pool.take_best(|of| Some(*of)), Some(candidate(4)));
        pool.begin(POLICY);
        assert_eq!(pool.take_best(|of| Some(*of)), Some(candidate(2)));
        pool.begin(Policy { only_volatile: true, ..POLICY });
        assert_eq!(pool.take_best(|of| Some(*of)), None);
    }
}
