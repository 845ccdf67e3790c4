//! When a thread has to visit a shard, because a lease ends or a delay is over.
//!
//! Each second a thread looks through the shards that are at home there for what is due within the next second. A command that makes
//! something due sooner than that tells its own thread ([`command::Post::Due`]), which visits the shard in time.
//!
//! Times are those of the machine's clock. If it jumps forward, what became due is done at once, or at the next look.

use std::collections::BTreeSet;
use std::time::Duration;

use command::{Client, CommandError, JobsDue, SOON_MS, Store, Tx};
use keyspace::UnixMs;
use keyspace::queue::is_rate;
use resp::Proto;
use shard::ShardId;
use upkeep::Visits;

use crate::due;
use crate::names::queue_of;

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

    /// All that is due in `other`, too.
    pub fn append(&mut self, other: JobTimers) {
        other.due.into_iter().for_each(|due| self.add(due));
    }

    /// When something is due next.
    fn next_ms(&self) -> Option<UnixMs> {
        self.due.first().map(|due| due.time_ms)
    }

    /// Whether something is due.
    pub fn is_due(&self, now_ms: UnixMs) -> bool {
        self.next_ms().is_some_and(|next_ms| next_ms <= now_ms)
    }

    /// How long the thread may sleep, as far as these are concerned; `None` for ever.
    pub fn wait(&self, now_ms: UnixMs) -> Option<Duration> {
        let next_ms = self.next_ms()?;
        Some(Duration::from_millis(next_ms.saturating_sub(now_ms).max(0).cast_unsigned()))
    }

    /// Forgets what is due, for as long as another server or nobody decides about it. [`Self::look`] finds it again.
    pub fn clear(&mut self) {
        self.due.clear();
    }

    /// Looks for what is due soon. To be called each second.
    pub fn look(&mut self, now_ms: UnixMs, shards: impl Iterator<Item = ShardId>, thread: &mut impl Visits) {
        for id in shards {
            thread.visit(id, |tx| look_at(tx, id, now_ms + SOON_MS, &mut self.due));
        }
        while self.due.len() > QUEUES_MAX {
            self.due.pop_last();
        }
    }

    /// Does what is due.
    pub fn fire(&mut self, now_ms: UnixMs, is_at_home: impl Fn(ShardId) -> bool, thread: &mut impl Visits) {
        for _ in 0..VISITS_MAX {
            if !self.is_due(now_ms) {
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
            if let Some(time_ms) = again_ms.filter(|again_ms| *again_ms < now_ms + SOON_MS) {
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
            // Also if the clock was set back, takes are to count no longer than they should.
            let time_ms = if is_rate(key) { time_ms.min(until_ms - 1) } else { time_ms };
            if time_ms < until_ms
                && let Some(queue) = queue_of(key)
            {
                into.insert(JobsDue { time_ms, shard: id, db, queue: queue.into() });
            }
        });
    }
}

fn fire(tx: &mut Tx, due: &JobsDue) -> Result<Option<i64>, CommandError> {
    let mut store = Store::new(tx, Client::internal(due.db, Proto::Resp2));
    due::fire(&mut store, &due.queue)
}
