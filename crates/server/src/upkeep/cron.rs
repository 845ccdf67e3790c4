//! Background work: expiry of keys, in short slices, and what is looked at every second.

use command::{Client, Store};
use resp::Proto;
use shard::ShardId;

use crate::observe::stats::Counter;
use crate::thread::{Thread, ThreadHost};
use crate::upkeep::eviction::RecentPeaks;

/// Between two rounds over the shards at home here.
const ROUND_MS: u64 = 100;
/// Segments of a table looked at in one visit of a shard: a visit stays well below 50 µs.
const SEGMENTS_PER_VISIT: usize = 4;
/// Keys deleted in one visit.
const EXPIRED_PER_VISIT: usize = 64;
/// Pieces of large values and databases freed in one turn.
const GARBAGE_SLICES_PER_TURN: usize = 4;
/// Visits of one shard in a round, as long as they find many expired keys.
const VISITS_MAX: u32 = 64;
/// Of `maxmemory`, one part in so many may be kept without anything in it.
const KEPT_PART: u64 = 64;
/// Blocks that other threads freed come within a few rounds.
const PURGES_AGAIN: u32 = 5;

/// When background work is due.
#[derive(Debug)]
pub(crate) struct Cron {
    next_round_ms: u64,
    next_second_ms: u64,
    next_purge_ms: u64,
    /// Keys with an expiry that this round looked at, and how many of them had expired.
    sampled_count: usize,
    stale_count: usize,
    pub(crate) recent_peaks: RecentPeaks,
    /// Giving freed memory back to the system.
    purge: heap::Round,
    /// In so many rounds over the shards everything goes back at once.
    purges_left: u32,
}

/// How much of a figure that follows a number of rounds is from the last one.
const LAST_ROUND_SHARE: f64 = 0.05;

impl Cron {
    pub(crate) fn new(thread: u16) -> Self {
        // Threads do not all wake at the same moment.
        let next_round_ms = u64::from(thread) % ROUND_MS;
        Cron {
            next_round_ms,
            next_second_ms: 0,
            next_purge_ms: 0,
            sampled_count: 0,
            stale_count: 0,
            recent_peaks: RecentPeaks::default(),
            purge: heap::Round::default(),
            purges_left: 0,
        }
    }

    /// Lets memory go again that other threads are about to send here.
    pub(crate) fn purge_again(&mut self) {
        self.purges_left = PURGES_AGAIN;
    }

    /// When it is due next, on the monotonic clock.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        Some(if self.purge.is_on() { 0 } else { self.next_round_ms })
    }
}

impl ThreadHost {
    /// After a round of expiry: `INFO` shows how many of the keys looked at had expired.
    fn note_stale_keys(&mut self) {
        let stats = self.stats();
        let follow = |figure: &Counter, count: usize| {
            figure.set_f64(figure.get_f64() * (1.0 - LAST_ROUND_SHARE) + count as f64 * LAST_ROUND_SHARE);
        };
        let (stale, sampled) =
            (std::mem::take(&mut self.cron.stale_count), std::mem::take(&mut self.cron.sampled_count));
        follow(&stats.stale_keys, stale);
        if sampled > 0 {
            follow(&stats.sampled_keys, sampled);
        }
    }
}

impl Thread {
    /// Does the background work that is due.
    pub(crate) fn background(&mut self) {
        self.free_garbage();
        self.save_slice();
        let now_ms = self.host.now_ms;
        self.host.cron.purge.advance();
        let is_round = now_ms >= self.host.cron.next_round_ms;
        self.make_room_in_background(is_round);
        self.defragment(is_round);
        if !is_round {
            return;
        }
        self.host.cron.next_round_ms = now_ms + ROUND_MS;
        self.look_at_unread();
        // So that deleted libraries go also where no function is called any more.
        self.host.renew_libraries();
        if self.host.id == 0 {
            self.host.shared.sample(now_ms);
            self.flush_if_due();
            self.save_if_due();
            if now_ms >= self.host.cron.next_second_ms {
                crate::process::log::follow();
            }
            let limit = self.host.shared.settings.memory_bytes_max();
            heap::keep_at_most((limit > 0).then_some(limit / KEPT_PART));
        }
        if self.host.cron.purges_left > 0 {
            self.host.cron.purges_left -= 1;
            heap::purge_at_once();
        }
        if now_ms >= self.host.cron.next_purge_ms {
            self.host.cron.next_purge_ms = now_ms + heap::ROUND_MS;
            self.host.cron.purge.begin(self.host.id == 0);
        }
        let may_expire = self.host.shared.active_expire.load(std::sync::atomic::Ordering::Relaxed);
        if may_expire && !self.host.pausing.is_on() {
            let started = self.host.driver.clock().ticks();
            self.expire_round();
            let clock = self.host.driver.clock();
            let ns = clock.ticks_to_ns(started, clock.ticks());
            self.host.note_latency("expire-cycle", ns);
        }
        let is_second = now_ms >= self.host.cron.next_second_ms;
        self.look_at_client_memory(is_second);
        if is_second {
            self.host.cron.next_second_ms = now_ms + 1000;
            self.each_second();
        }
    }

    /// Frees a few pieces of what left the keyspace.
    fn free_garbage(&mut self) {
        for _ in 0..GARBAGE_SLICES_PER_TURN {
            if !self.host.free_slice() {
                return;
            }
        }
    }

    fn expire_round(&mut self) {
        let (shards, own) = (&self.host.shared.shards, self.host.id);
        for id in shards.ids().filter(|id| shards.home(*id) == own) {
            for _ in 0..VISITS_MAX {
                // A shard that is taken is busy: its turn comes again.
                if !self.tx.hold.try_enter(id) {
                    break;
                }
                let many = self.expire_visit(id);
                self.tx.finish(&mut self.host);
                self.leave_all();
                if !many {
                    break;
                }
            }
        }
        self.post_all();
        self.host.note_stale_keys();
    }

    /// Deletes some expired keys of a shard; true if there seem to be many more.
    fn expire_visit(&mut self, id: ShardId) -> bool {
        let mut many = false;
        for db in 0..self.tx.hold.shard(id).dbs.len() {
            let (mut expired, mut with_due_fields) = (Vec::new(), Vec::new());
            let database = &mut self.tx.hold.shard_mut(id).dbs[db];
            let seen_count = database.find_expired(
                self.tx.now,
                SEGMENTS_PER_VISIT,
                EXPIRED_PER_VISIT,
                &mut expired,
                &mut with_due_fields,
            );
            many |= expired.len() * 10 > seen_count && !expired.is_empty();
            self.host.cron.sampled_count += seen_count;
            self.host.cron.stale_count += expired.len();
            let mut store = Store::new(&mut self.tx, Client::internal(db as u32, Proto::Resp2));
            for key in expired {
                if !store.holds_back(&key) {
                    store.delete_expired(&key);
                }
            }
            let mut fields_left = EXPIRED_PER_VISIT;
            for key in with_due_fields {
                if store.holds_back(&key) {
                    continue;
                }
                fields_left -= store.expire_fields(&key, fields_left);
            }
            many |= fields_left == 0;
        }
        many
    }
}
