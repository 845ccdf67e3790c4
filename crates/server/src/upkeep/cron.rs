//! When background work is due: every turn, every round of a tenth of a second, every second.
//!
//! Not here: the work, each kind of which has its place (`expiry.rs`, `eviction/`, `defrag.rs`, `garbage.rs`, `snapshot/`).

use crate::thread::Thread;
use crate::upkeep::eviction::RecentPeaks;
use crate::upkeep::expiry::Round;

/// Between two rounds over the shards at home here.
const ROUND_MS: u64 = 100;
/// Pieces of large values and databases freed in one turn.
const GARBAGE_SLICES_PER_TURN: usize = 4;
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
    pub(crate) recent_peaks: RecentPeaks,
    /// Giving freed memory back to the system.
    purge: heap::Round,
    /// In so many rounds over the shards everything goes back at once.
    purges_left: u32,
}

impl Cron {
    pub(crate) fn new(thread: u16) -> Self {
        // Threads do not all wake at the same moment.
        let next_round_ms = u64::from(thread) % ROUND_MS;
        Cron {
            next_round_ms,
            next_second_ms: 0,
            next_purge_ms: 0,
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

impl Thread {
    /// Does the background work that is due.
    pub(crate) fn background(&mut self) {
        for _ in 0..GARBAGE_SLICES_PER_TURN {
            if !self.host.free_slice() {
                break;
            }
        }
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
            self.expire();
        }
        let is_second = now_ms >= self.host.cron.next_second_ms;
        self.look_at_client_memory(is_second);
        if is_second {
            self.host.cron.next_second_ms = now_ms + 1000;
            self.each_second();
        }
    }

    /// A round over the shards at home here.
    fn expire(&mut self) {
        let started = self.host.driver.clock().ticks();
        let (shards, own) = (&self.host.shared.shards, self.host.id);
        let round = Round::over(shards.ids().filter(|id| shards.home(*id) == own), self);
        self.post_all();
        round.note(self.host.stats());
        let clock = self.host.driver.clock();
        let ns = clock.ticks_to_ns(started, clock.ticks());
        self.host.note_latency("expire-cycle", ns);
    }
}
