//! The background work of a turn: what there is, and in which order.
//!
//! Not here: the work itself, each kind of which has its place (`expiry.rs`, `eviction/`, `defrag.rs`, `garbage.rs`,
//! `snapshot/`), and when it is due (`cron.rs`).

use std::sync::atomic::Ordering;

use ds::random::Random;

use crate::thread::Thread;
use crate::upkeep::defrag::{CREDIT_NS, Surroundings};
use crate::upkeep::expiry::Round;

/// Pieces of large values and databases freed in one turn.
const GARBAGE_SLICES_PER_TURN: usize = 4;
/// Of `maxmemory`, one part in so many may be kept without anything in it.
const KEPT_PART: u64 = 64;

impl Thread {
    /// Does the background work that is due.
    pub(crate) fn background(&mut self) {
        for _ in 0..GARBAGE_SLICES_PER_TURN {
            if !self.host.free_slice() {
                break;
            }
        }
        self.save_slice();
        let (now_ms, is_first) = (self.host.now_ms, self.host.id == 0);
        let due = self.host.cron.begin_turn(now_ms);
        self.make_room_in_background(due.is_round);
        self.defragment(due.is_round);
        if !due.is_round {
            return;
        }
        self.look_at_unread();
        // So that deleted libraries go also where no function is called any more.
        self.host.lua.renew_libraries();
        if is_first {
            self.host.shared.observed.sample(now_ms);
            self.flush_if_due();
            self.save_if_due();
            if due.is_second {
                process::log::follow();
            }
            let limit = self.host.shared.settings.memory_bytes_max();
            heap::keep_at_most((limit > 0).then_some(limit / KEPT_PART));
        }
        self.host.cron.purge(now_ms, is_first);
        if self.host.shared.active_expire.load(Ordering::Relaxed) && !self.host.pausing.is_on() {
            self.expire();
        }
        self.look_at_client_memory(due.is_second);
        if due.is_second {
            self.each_second();
        }
    }

    /// Goes on with defragmentation if that is due; `is_round`: looks also whether it is needed.
    fn defragment(&mut self, is_round: bool) {
        let host = &mut self.host;
        let (shared, id) = (host.shared, host.id);
        if is_round || host.defrag.take_suspicion() {
            let now_ns = host.driver.clock().monotonic_ns();
            let is_needed = host.defrag.look(&shared.settings, shared.is_simulated(), now_ns);
            if id == 0 {
                shared.fragmented.note(is_needed, host.now_ms);
            }
            host.accounting.stats().defrag_percent.set(host.defrag.current_percent());
        }
        if host.defrag.next_ms().is_none() {
            return;
        }
        let clock = host.driver.clock().clone();
        let end_ns = clock.monotonic_ns() + CREDIT_NS;
        let at_home = || shared.shards.ids().filter(|shard| shared.shards.home(*shard) == id).collect();
        while let now_ns = clock.monotonic_ns()
            && now_ns < end_ns
            && self.host.defrag.is_due(now_ns)
        {
            let chance = shared.is_simulated().then(|| {
                let mut entropy = self.host.driver.entropy().expect("a simulated driver has chance");
                Random::new(entropy.below(u64::MAX))
            });
            let around = Surroundings {
                clock: clock.clone(),
                settings: &shared.settings,
                stats: self.host.accounting.stats(),
                at_home: &at_home,
                is_busy: self.host.is_busy,
            };
            // It is on loan, since shards are visited meanwhile.
            let mut defrag = std::mem::take(&mut self.host.defrag);
            let ns = defrag.work(&around, chance, self);
            self.host.defrag = defrag;
            self.host.accounting.note_event("active-defrag-cycle", ns, self.host.driver.clock());
        }
    }

    /// A round over the shards at home here.
    fn expire(&mut self) {
        let started = self.host.driver.clock().ticks();
        let (shards, own) = (&self.host.shared.shards, self.host.id);
        let round = Round::over(shards.ids().filter(|id| shards.home(*id) == own), self);
        self.post_all();
        round.note(self.host.accounting.stats());
        let clock = self.host.driver.clock();
        let ns = clock.ticks_to_ns(started, clock.ticks());
        self.host.accounting.note_event("expire-cycle", ns, self.host.driver.clock());
    }
}
