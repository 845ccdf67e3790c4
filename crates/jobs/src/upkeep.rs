//! Looks after the queues and jobs of a thread's home shards: what is due in a turn, and what is done each second.
//!
//! Not here: when a thread calls this, and what it does for clients that are served meanwhile (`server`).

use std::sync::atomic::Ordering;

use background::Visits;
use config::{QUEUE_IDLE_TIMEOUT, Settings};
use engine::Shards;
use shard::ShardId;

use crate::queues::QueueUpkeep;
use crate::recovery::{Around, Recovery, Watch, trim};
use crate::{JobTimers, Whose};

/// What this work goes by.
#[derive(Clone, Copy)]
pub struct Upkeep<'s> {
    /// All shards.
    pub shards: &'s Shards,
    /// The settings.
    pub settings: &'s Settings,
    /// Sidekiq's live processes, and the connections that have closed.
    pub recovery: &'s Recovery,
    /// The number of the thread.
    pub thread: u16,
    /// The wall clock, in milliseconds.
    pub now_ms: i64,
    /// The steady clock, in milliseconds.
    pub steady_ms: i64,
    /// Whether this server is a replica: it is told by its primary what has ended.
    pub is_replica: bool,
    /// Whether clients may not write now. Then due work waits as well: its changes would grow the backlog for the disk,
    /// and be lost with it.
    pub may_not_write: bool,
    /// Whether jobs of dead processes are returned.
    pub recovers: bool,
    /// Whether a second has passed.
    pub is_second: bool,
}

impl Upkeep<'_> {
    fn at_home(&self) -> impl Iterator<Item = ShardId> {
        self.shards.used_at_home(self.thread)
    }

    fn is_at_home(&self, shard: ShardId) -> bool {
        self.shards.home(shard) == self.thread
    }

    /// Finds new queues, and updates the figures of the others every second. If memory `is_tight`, the state of empty
    /// queues is dropped at once, because it is not evicted like keys.
    pub fn look_after_queues(&self, queues: &mut QueueUpkeep, is_tight: bool, visits: &mut impl Visits) {
        let (known, placement) = (self.shards.queues(), self.shards.placement());
        if self.thread == 0 {
            known.set_now_ms(self.steady_ms as u64);
        }
        queues.find(known, self.at_home(), visits);
        if self.is_second {
            let idle_s = if is_tight { 1 } else { self.settings.number(QUEUE_IDLE_TIMEOUT) };
            queues.refresh(idle_s * 1000, self.at_home(), visits);
            queues.learn(known, |shard| self.is_at_home(shard), visits, |key| placement.locate(key).0);
        }
    }

    /// Checks each second for leases that end soon, delays that are over soon and jobs of Sidekiq's that join their
    /// queues soon. Does the work that is due.
    pub fn look_after_jobs(&self, jobs: &mut JobTimers, visits: &mut impl Visits) {
        let whose = Whose::of(self.is_replica, self.may_not_write);
        if self.is_second {
            jobs.note_clock(self.now_ms, self.steady_ms, self.thread == 0);
            // A replica does this, too, to forget sets that are gone.
            jobs.look((self.now_ms, whose), self.at_home(), visits);
        }
        if whose != Whose::Ours {
            jobs.clear();
        } else {
            jobs.fire(self.now_ms, |shard| self.is_at_home(shard), visits);
        }
    }

    /// Forgets pops of long ago, each second. The first thread also watches Sidekiq's processes, and returns the jobs
    /// of dead ones.
    pub fn recover(&self, watch: &mut Watch, visits: &mut impl Visits) {
        let (shards, recovery) = (self.shards, self.recovery);
        let is_on = self.recovers && !self.is_replica;
        if self.is_second {
            let since_ms = is_on.then(|| recovery.kept_since_ms());
            if is_on || shards.queues().recovery.popped_bytes.load(Ordering::Relaxed) > 0 {
                trim(since_ms, self.at_home(), visits);
            }
        }
        if self.thread != 0 || (!self.is_second && !watch.is_busy()) {
            return;
        }
        if !is_on {
            *watch = Watch::default();
            recovery.clear();
            return;
        }
        if !self.may_not_write {
            let (all, placement): (Vec<ShardId>, _) = (shards.used().collect(), shards.placement());
            let around = Around {
                now_ms: self.steady_ms.cast_unsigned(),
                wall_ms: self.now_ms.cast_unsigned(),
                db_count: self.settings.databases(),
                shards: &all,
                locate: &|key| placement.locate(key).0,
                recovery,
                figures: &shards.queues().recovery,
            };
            if self.is_second {
                watch.look(&around, visits);
            }
            watch.go_on(&around, visits);
        }
    }
}
