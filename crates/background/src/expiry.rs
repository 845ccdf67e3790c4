//! Background expiry: rounds over the home shards, in short visits.
//!
//! A round visits each shard as long as the visits find many expired keys. A shard that is taken is busy, and
//! is left to a later round.
//!
//! Not here: expired keys that are found when they are used (`Store`), and how a table finds them
//! (`Db::find_expired`).

use engine::{Client, Store, Tx};
use resp::Proto;
use shard::ShardId;

use crate::Visits;
use observe::{Counter, ThreadStats};

/// Segments of a table that are examined in one visit of a shard: a visit stays well below 50 µs.
const SEGMENTS_PER_VISIT: usize = 4;
/// Maximum number of keys deleted in one visit.
const EXPIRED_PER_VISIT: usize = 64;
/// Maximum number of visits of one shard in a round.
const VISITS_MAX: u32 = 64;
/// Weight of the last round in a moving average.
const LAST_ROUND_SHARE: f64 = 0.05;

/// The counts of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Round {
    /// Number of keys with an expiry that were examined.
    sampled_count: usize,
    /// Number of those that had expired.
    stale_count: usize,
}

impl Round {
    /// Visits `shards` and deletes expired keys and fields.
    pub fn over(shards: impl Iterator<Item = ShardId>, thread: &mut impl Visits) -> Round {
        let mut round = Round::default();
        for id in shards {
            for _ in 0..VISITS_MAX {
                if thread.visit(id, |tx| round.visit(tx, id)) != Some(true) {
                    break;
                }
            }
        }
        assert!(round.stale_count <= round.sampled_count, "only what was looked at can have expired");
        round
    }

    /// Updates the averages that `INFO` shows: how many keys were examined and how many of them had expired.
    pub fn note(self, stats: &ThreadStats) {
        let follow = |figure: &Counter, count: usize| {
            figure.set_f64(figure.get_f64() * (1.0 - LAST_ROUND_SHARE) + count as f64 * LAST_ROUND_SHARE);
        };
        follow(&stats.stale_keys, self.stale_count);
        if self.sampled_count > 0 {
            follow(&stats.sampled_keys, self.sampled_count);
        }
    }

    /// Deletes some expired keys and fields of a shard. Returns true if there seem to be many more.
    fn visit(&mut self, tx: &mut Tx, id: ShardId) -> bool {
        let mut many = false;
        for db in 0..tx.hold.shard(id).dbs.len() {
            let (mut expired, mut with_due_elements) = (Vec::new(), Vec::new());
            let Some(data) = tx.hold.shard_mut(id).dbs.used_mut(db) else { continue };
            let seen_count = data.find_expired(
                tx.now,
                SEGMENTS_PER_VISIT,
                EXPIRED_PER_VISIT,
                &mut expired,
                &mut with_due_elements,
            );
            many |= expired.len() * 10 > seen_count && !expired.is_empty();
            self.sampled_count += seen_count;
            self.stale_count += expired.len();
            let mut store = Store::new(tx, Client::internal(db as u32, Proto::Resp2));
            for key in expired {
                if !store.holds_back(&key) {
                    store.delete_expired(&key);
                }
            }
            let mut fields_left = EXPIRED_PER_VISIT;
            for key in with_due_elements {
                if store.holds_back(&key) {
                    continue;
                }
                let expired_count = store.expire_elements(&key, fields_left);
                assert!(expired_count <= fields_left, "no more fields expire than may");
                fields_left -= expired_count;
            }
            many |= fields_left == 0;
        }
        many
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Alone;

    #[test]
    fn a_round_deletes_what_has_expired_and_counts_it() {
        let mut thread = Alone::new();
        for key in 0..500 {
            thread.local.line(&format!("SET gone:{key} v PX 10"));
            thread.local.line(&format!("SET stays:{key} v PX 10000"));
            thread.local.line(&format!("SET plain:{key} v"));
        }
        thread.local.now += 20;
        let mut stale_count = 0;
        for _ in 0..100 {
            let round = Round::over(thread.shards(), &mut thread);
            assert!(round.stale_count <= round.sampled_count);
            stale_count += round.stale_count;
        }
        assert_eq!((stale_count, thread.local.line("DBSIZE").as_str()), (500, ":1000\r\n"));
    }

    #[test]
    fn a_taken_shard_is_left_alone() {
        let mut thread = Alone::new();
        thread.local.line("SET a v PX 10");
        thread.local.now += 20;
        thread.is_taken = true;
        assert_eq!(Round::over(thread.shards(), &mut thread), Round::default());
        thread.is_taken = false;
        assert_eq!(Round::over(thread.shards(), &mut thread), Round { sampled_count: 1, stale_count: 1 });
    }
}
