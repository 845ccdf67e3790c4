//! When leases of jobs end and delays are over.
//!
//! Each second a thread looks at the shards at its home for what is due in the next one. What comes to be due sooner than that the thread
//! hears of that ran the command ([`command::Post::Due`]), and sees to it, wherever the shard is at home.
//!
//! Times are those of the machine's clock. If it jumps, what is due by then happens at once, or by the look of the next second.

use std::collections::BTreeSet;

use command::{Client, CommandError, JobsDue, Store, Tx};
use keyspace::UnixMs;
use resp::Proto;
use shard::ShardId;

use crate::Visits;

/// Visits of shards in a turn.
const VISITS_MAX: usize = 64;
/// When a shard that was taken is tried again.
const AGAIN_MS: i64 = 1;
/// Between two lines of the log about what cannot be done.
const SAID_AGAIN_MS: i64 = 60_000;
/// Queues that a thread knows to have something due; what is beyond is found by the looks to come.
const QUEUES_MAX: usize = 100_000;

/// What is due soon.
#[derive(Debug, Default)]
pub struct JobTimers {
    due: BTreeSet<JobsDue>,
    said_ms: i64,
}

impl JobTimers {
    /// Something is due.
    pub fn add(&mut self, due: JobsDue) {
        if self.due.len() < QUEUES_MAX {
            self.due.insert(due);
        }
    }

    /// When something is due next.
    pub fn next_ms(&self) -> Option<UnixMs> {
        self.due.first().map(|due| due.time_ms)
    }

    /// Looks for what is due soon. To be called each second.
    pub fn look(&mut self, now_ms: UnixMs, shards: impl Iterator<Item = ShardId>, thread: &mut impl Visits) {
        for id in shards {
            thread.visit(id, |tx| look_at(tx, id, now_ms + jobs::SOON_MS, &mut self.due));
        }
        while self.due.len() > QUEUES_MAX {
            self.due.pop_last();
        }
    }

    /// Does what is due.
    pub fn fire(&mut self, now_ms: UnixMs, is_at_home: impl Fn(ShardId) -> bool, thread: &mut impl Visits) {
        for _ in 0..VISITS_MAX {
            if self.next_ms().is_none_or(|next_ms| next_ms > now_ms) {
                return;
            }
            let Some(due) = self.due.pop_first() else { return };
            let next = thread.visit(due.shard, |tx| fire(tx, &due));
            let again_ms = match next {
                // Taken.
                None => Some(now_ms + AGAIN_MS),
                // The thread at home goes on; another one has heard of those that it is to see to.
                Some(Ok(next_ms)) => next_ms.filter(|next_ms| *next_ms <= now_ms || is_at_home(due.shard)),
                Some(Err(error)) => {
                    self.say(now_ms, &due, &error);
                    None
                }
            };
            if let Some(time_ms) = again_ms.filter(|again_ms| *again_ms < now_ms + jobs::SOON_MS) {
                self.add(JobsDue { time_ms, ..due });
            }
        }
    }

    fn say(&mut self, now_ms: UnixMs, due: &JobsDue, error: &CommandError) {
        if now_ms - self.said_ms >= SAID_AGAIN_MS {
            self.said_ms = now_ms;
            let queue = due.queue.escape_ascii();
            tracing::warn!(db = due.db, "cannot end leases and delays of the queue {queue}: {error}");
        }
    }
}

fn look_at(tx: &mut Tx, id: ShardId, until_ms: i64, into: &mut BTreeSet<JobsDue>) {
    for (db, data) in (0..).zip(&mut tx.hold.shard_mut(id).dbs) {
        data.first_times(&mut |key, time_ms| {
            if time_ms < until_ms
                && let Some(queue) = jobs::queue_of(key)
            {
                into.insert(JobsDue { time_ms, shard: id, db, queue: queue.into() });
            }
        });
    }
}

fn fire(tx: &mut Tx, due: &JobsDue) -> Result<Option<i64>, CommandError> {
    let mut store = Store::new(tx, Client::internal(due.db, Proto::Resp2));
    jobs::fire(&mut store, &due.queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Alone;

    fn alone() -> Alone {
        let mut alone = Alone::new();
        alone.local.now = 1000;
        for job in ["a", "b", "c"] {
            alone.local.line(&format!("RPUSH mail {job}"));
        }
        alone
    }

    #[test]
    fn what_is_due_soon_happens_then() {
        let (mut alone, mut timers) = (alone(), JobTimers::default());
        alone.local.line("ZADD {mail}:jobs:delayed 1800 x 90000 y");
        alone.local.line("HSET {mail}:jobs x s=d\nlater y s=d\nmuch");
        let shards: Vec<ShardId> = alone.shards().collect();
        timers.look(1000, shards.iter().copied(), &mut alone);
        assert_eq!(timers.next_ms(), Some(1800));
        timers.fire(1799, |_| true, &mut alone);
        assert_eq!(alone.local.line("LLEN mail"), ":3\r\n");
        alone.local.now = 1800;
        alone.is_taken = true;
        timers.fire(1800, |_| true, &mut alone);
        assert_eq!(timers.next_ms(), Some(1801), "a shard that was taken is tried again");
        (alone.is_taken, alone.local.now) = (false, 1801);
        timers.fire(1801, |_| true, &mut alone);
        assert_eq!(alone.local.line("LLEN mail"), ":4\r\n");
        assert_eq!(timers.next_ms(), None, "that is not soon");
    }
}
