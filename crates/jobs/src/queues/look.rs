//! Updates the figures of queues each second, and finds queues that were not known yet.
//!
//! Each thread maintains its home shards. When patterns have changed, it checks all their keys once, some in
//! each round.
//!
//! Not here: the counts that change as elements come and go (`keyspace::queue`).

use std::collections::VecDeque;

use ds::set::Set;
use engine::{Client, Store, Tx};
use keyspace::UnixMs;
use keyspace::queue::{Figures, JobCounts};
use keyspace::queue::{Known, Now};
use resp::Proto;
use shard::ShardId;

use background::Visits;

/// Queues that are examined in one visit, which stays well below 50 µs.
const QUEUES_PER_VISIT: usize = 128;
/// Maximum number of visits of a shard each second.
const VISITS_PER_SECOND: usize = 8;
/// Keys that are checked in one visit when patterns have changed.
const KEYS_PER_VISIT: usize = 256;
/// Number of such visits in a round.
const VISITS_PER_ROUND: usize = 64;
/// Maximum number of members that are read of a set that names queues.
const NAMES_MAX: usize = 1000;

/// A thread's upkeep of queues.
#[derive(Debug, Default)]
pub struct QueueUpkeep {
    /// The last search that it has started.
    search: u64,
    /// Databases still to be searched, with the cursor in each.
    unseen: VecDeque<(ShardId, usize, u64)>,
}

impl QueueUpkeep {
    /// Continues searching for queues if patterns have changed.
    pub fn find(&mut self, known: &Known, shards: impl Iterator<Item = ShardId>, thread: &mut impl Visits) {
        if self.search != known.searches() {
            let is_first = std::mem::replace(&mut self.search, known.searches()) == 0;
            // New keys are checked against the initial patterns anyway.
            self.unseen = if is_first { VecDeque::new() } else { shards.map(|id| (id, 0, 0)).collect() };
        }
        for _ in 0..VISITS_PER_ROUND {
            let Some((id, db, cursor)) = self.unseen.pop_front() else { return };
            let next = thread.visit(id, |tx| {
                let dbs = &mut tx.hold.shard_mut(id).dbs;
                match dbs.used_mut(db).map_or(0, |db| db.find_queues(cursor, KEYS_PER_VISIT)) {
                    0 if db + 1 == dbs.len() => None,
                    0 => Some((id, db + 1, 0)),
                    cursor => Some((id, db, cursor)),
                }
            });
            // A shard that is taken is busy; try it again later.
            match next {
                Some(Some(next)) => self.unseen.push_front(next),
                Some(None) => {}
                None => self.unseen.push_back((id, db, cursor)),
            }
        }
    }

    /// Updates figures, and forgets queues that have been idle for `idle_ms`. Call this each second.
    pub fn refresh(&self, idle_ms: UnixMs, shards: impl Iterator<Item = ShardId>, thread: &mut impl Visits) {
        for id in shards {
            for visit in 0..VISITS_PER_SECOND {
                let seen = visit * QUEUES_PER_VISIT;
                if thread.visit(id, |tx| refresh_some(tx, id, idle_ms, seen)) != Some(true) {
                    break;
                }
            }
        }
    }

    /// Learns names of queues from the sets that contain them, as far as these are on home shards.
    pub fn learn(
        &self,
        known: &Known,
        mut is_at_home: impl FnMut(ShardId) -> bool,
        thread: &mut impl Visits,
        locate: impl Fn(&[u8]) -> ShardId,
    ) {
        for (db, key) in known.sources() {
            let id = locate(&key);
            if is_at_home(id) {
                thread.visit(id, |tx| learn_from(tx, known, db, &key));
            }
        }
    }
}

/// Updates some queues of each database, and first those that clients wait for. Returns true if there may be
/// more queues than these and the `seen` ones.
fn refresh_some(tx: &mut Tx, id: ShardId, idle_ms: UnixMs, seen: usize) -> bool {
    let now = Now { steady_ms: tx.steady as u64, wall_ms: tx.now.max(0) as u64 };
    let forgotten_ms = tx.steady.saturating_sub(idle_ms).max(0) as u64;
    let placement = tx.hold.shards().placement();
    let shard = tx.hold.shard_mut(id);
    if seen == 0 {
        let dbs = &mut shard.dbs;
        shard.waiters.find_queues(|db, key| dbs[db as usize].queues_mut().awaited(placement.hash(key), key));
    }
    let (mut has_more, mut with_jobs) = (false, Vec::new());
    for (_, db) in shard.dbs.iter_mut() {
        let count = db.queues().len();
        if count > seen {
            with_jobs.append(&mut db.refresh_queues(QUEUES_PER_VISIT, now, forgotten_ms));
            has_more |= count > seen + QUEUES_PER_VISIT;
        }
    }
    for figures in &with_jobs {
        count_jobs(tx, id, figures);
    }
    has_more
}

/// Updates the number of jobs of a queue that are not in its list.
fn count_jobs(tx: &mut Tx, id: ShardId, figures: &Figures) {
    let store = Store::new(tx, Client::internal(figures.db(), Proto::Resp2));
    // A client can make up a key whose name belongs to a queue on another shard.
    let is_here = store.locate(&figures.name).0 == id;
    let counts =
        if is_here { crate::queues::count_jobs(&store, &figures.name) } else { Ok(JobCounts::default()) };
    figures.set_jobs(&counts.unwrap_or_default());
}

fn learn_from(tx: &mut Tx, known: &Known, db: u32, key: &[u8]) {
    let store = Store::new(tx, Client::internal(db, Proto::Resp2));
    match store.peek_as::<Set>(key) {
        Ok(Some(set)) => set.iter().take(NAMES_MAX).for_each(|name| _ = known.learn_from(&name)),
        Ok(None) | Err(_) => known.drop_source(db, key),
    }
}
