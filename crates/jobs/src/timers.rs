//! When a thread has to visit a shard because a lease or a delay ends, a job of Sidekiq's is due, or a time comes that
//! serves a waiting client.
//!
//! Every second, a thread searches its shards for times within the next second. A command that sets an
//! earlier time tells its own thread ([`engine::JobsNews`]), which visits the
//! shard in time.
//!
//! Times are those of the machine's clock. If it is set, the times of leases move with it (`clock`); times of
//! day that have become due are handled at once, or at the next look.

use std::time::Duration;

use crate::queues::publish_promotions;
use background::Visits;
use engine::{Client, CommandError, JobsDue, JobsNews, SOON_MS, Store, Tx};
use keyspace::UnixMs;
use keyspace::queue::{DEAD, PROMOTIONS, is_rate};
use resp::Proto;
use shard::ShardId;

use crate::clock::{JUMP_MS, follow_all};
use crate::due;
use crate::names::queue_of;
use crate::promote::{Promotions, first_due_ms};
use crate::recovery::{Process, Recovery};
use crate::soon::{AGAIN_MS, Soon, VISITS_MAX};

/// The most queues with due times that a thread remembers, and the most keys that clients wait for.
const QUEUES_MAX: usize = 100_000;
const WAITS_MAX: usize = 100_000;

/// The times that are due soon.
#[derive(Debug, Default)]
pub struct JobTimers {
    queues: Soon<QUEUES_MAX>,
    promotions: Promotions,
    /// Keys whose waiters can be served.
    waits: Soon<WAITS_MAX>,
    /// How far the system clock was ahead of the monotonic one at the last look.
    ahead_ms: Option<i64>,
}

/// The server that decides what becomes of the jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// This server.
    Ours,
    /// Another server, which this one follows.
    Theirs,
    /// This server, but nothing may be changed for now.
    Held,
}

impl Whose {
    /// A replica's jobs are its primary's; `is_held` says that this server may not write.
    pub fn of(is_replica: bool, is_held: bool) -> Whose {
        match is_replica {
            true => Whose::Theirs,
            false if is_held => Whose::Held,
            false => Whose::Ours,
        }
    }
}

impl JobTimers {
    /// Takes what a transaction of this thread tells; `now_ms` is the monotonic time.
    pub fn hear(&mut self, news: JobsNews, recovery: &Recovery, now_ms: UnixMs) {
        match news {
            JobsNews::Due(due) => self.queues.add(due),
            JobsNews::Promote(due) => self.add_promotion(due),
            JobsNews::Wait(due) => self.waits.add(due),
            JobsNews::Beat { db, set, identity, client } => {
                recovery.beat(Process { db, set, identity }, client, now_ms.cast_unsigned());
            }
        }
    }

    fn add_promotion(&mut self, due: JobsDue) {
        self.promotions.soon.add(due);
    }

    /// Adds everything from `other`.
    pub fn append(&mut self, other: JobTimers) {
        self.queues.append(other.queues);
        self.promotions.soon.append(other.promotions.soon);
        self.waits.append(other.waits);
    }

    /// Whether a time is due.
    pub fn is_due(&self, now_ms: UnixMs) -> bool {
        self.queues.is_due(now_ms) || self.promotions.soon.is_due(now_ms) || self.waits.is_due(now_ms)
    }

    /// How long the thread may sleep as far as these times are concerned; `None`: for ever. `now_us` tells the
    /// microseconds since 1970, so that the thread wakes at the start of the millisecond in which a time is
    /// due. It is asked only if there is a time.
    pub fn wait(&self, now_us: impl FnOnce() -> u64) -> Option<Duration> {
        let all = [self.queues.next_ms(), self.promotions.soon.next_ms(), self.waits.next_ms()];
        let next_ms = all.into_iter().flatten().min()?;
        let next_us = next_ms.max(0).cast_unsigned().saturating_mul(1000);
        Some(Duration::from_micros(next_us.saturating_sub(now_us())))
    }

    /// Forgets all times while another server, or none, decides about the jobs. [`Self::look`] finds them
    /// again.
    pub fn clear(&mut self) {
        self.queues.clear();
        self.promotions.soon.clear();
        self.waits.clear();
    }

    /// Notes the two clocks every second. The thread that `says` so logs that the system clock was set.
    pub fn note_clock(&mut self, now_ms: UnixMs, steady_ms: UnixMs, says: bool) {
        let ahead_ms = now_ms - steady_ms;
        let jump_ms = ahead_ms - self.ahead_ms.replace(ahead_ms).unwrap_or(ahead_ms);
        if says && jump_ms.abs() >= JUMP_MS {
            let direction = if jump_ms > 0 { "ahead" } else { "back" };
            let seconds = jump_ms.unsigned_abs() as f64 / 1000.0;
            tracing::warn!(
                "the machine's clock was set {direction} by {seconds:.1} s: leases and delays last as long as before, \
                 schedules and times of day go by the new time"
            );
        }
    }

    /// Searches for times that are due soon. Call this every second.
    pub fn look(
        &mut self,
        (now_ms, whose): (UnixMs, Whose),
        shards: impl Iterator<Item = ShardId>,
        thread: &mut impl Visits,
    ) {
        for id in shards {
            thread.visit(id, |tx| {
                if whose != Whose::Held {
                    follow_all(tx, id, whose == Whose::Ours);
                }
                self.look_at(tx, id, now_ms + SOON_MS);
                if whose == Whose::Ours {
                    tx.wake_timed(id);
                }
            });
        }
    }

    fn look_at(&mut self, tx: &mut Tx, shard: ShardId, until_ms: UnixMs) {
        let (promotes, dead_timeout_ms) = (tx.config.promotes, tx.config.jobs.dead_timeout_ms);
        let placement = tx.hold.shards().placement();
        for (db, data) in tx.hold.shard_mut(shard).dbs.iter_mut() {
            data.first_times(&mut |key, time_ms| {
                let time_ms = match key {
                    // If the clock was set back, takes must still not count for longer than they should.
                    key if is_rate(key) => time_ms.min(until_ms - 1),
                    key if key.ends_with(DEAD) => time_ms.saturating_add(dead_timeout_ms.unwrap_or(i64::MAX)),
                    _ => time_ms,
                };
                if time_ms >= until_ms {
                    return;
                }
                let due = |queue: &[u8]| JobsDue { time_ms, shard, db, queue: queue.into() };
                match queue_of(key) {
                    // A client can make up a key whose name belongs to a queue on another shard.
                    Some(queue) if placement.locate(queue).0 != shard => {}
                    Some(queue) => self.queues.add(due(queue)),
                    None if promotes => self.add_promotion(due(key)),
                    None => {}
                }
            });
        }
        self.look_at_promoted(tx, shard, until_ms);
    }

    /// Searches the sets that QUEUE PROMOTE names, after publishing its rules if they may have changed.
    fn look_at_promoted(&mut self, tx: &mut Tx, shard: ShardId, until_ms: UnixMs) {
        let shards = tx.hold.shards();
        let is_here = |key: &[u8]| shards.placement().locate(key).0 == shard;
        if is_here(PROMOTIONS) {
            let used: Vec<u32> = tx.hold.shard(shard).dbs.iter().map(|(db, _)| db).collect();
            for db in used {
                publish_promotions(&Store::new(tx, Client::internal(db, Proto::Resp2)));
            }
        }
        if !shards.queues().promotions().are_any() {
            return;
        }
        for promoted in shards.queues().promotions().all().iter().filter(|promoted| is_here(&promoted.set)) {
            let store = Store::new(tx, Client::internal(promoted.db, Proto::Resp2));
            if let Some(time_ms) = first_due_ms(&store, &promoted.set).filter(|time_ms| *time_ms < until_ms) {
                let (db, queue) = (promoted.db, promoted.set.clone());
                self.add_promotion(JobsDue { time_ms, shard, db, queue });
            }
        }
    }

    /// Does everything that is due.
    pub fn fire(&mut self, now_ms: UnixMs, is_at_home: impl Fn(ShardId) -> bool, thread: &mut impl Visits) {
        for _ in 0..VISITS_MAX {
            let Some(due) = self.queues.pop_due(now_ms) else { break };
            let next = thread.visit(due.shard, |tx| fire(tx, &due));
            let again_ms = match next {
                // The shard is taken.
                None => Some(now_ms + AGAIN_MS),
                // The shard's own thread continues; another thread has been told of the times that it has to
                // handle.
                Some(Ok(next_ms)) => next_ms.filter(|next_ms| *next_ms <= now_ms || is_at_home(due.shard)),
                Some(Err(error)) => {
                    if self.queues.may_say(now_ms) {
                        let queue = due.queue.escape_ascii();
                        tracing::warn!(
                            db = due.db,
                            "cannot end leases and delays of the queue {queue}: {error}"
                        );
                    }
                    None
                }
            };
            self.queues.add_again(due, again_ms, now_ms);
        }
        self.promotions.fire(now_ms, thread);
        for _ in 0..VISITS_MAX {
            let Some(due) = self.waits.pop_due(now_ms) else { break };
            if thread.visit(due.shard, |tx| tx.wake(due.shard, due.db, &due.queue)).is_none() {
                self.waits.add_again(due, Some(now_ms + AGAIN_MS), now_ms);
            }
        }
    }
}

fn fire(tx: &mut Tx, due: &JobsDue) -> Result<Option<i64>, CommandError> {
    let mut store = Store::new(tx, Client::internal(due.db, Proto::Resp2));
    due::fire(&mut store, &due.queue)
}
