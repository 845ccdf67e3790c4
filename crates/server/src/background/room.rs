//! Frees memory before a command runs and in the background, and refuses commands that would need more.
//!
//! Not here: choosing and evicting keys (crate `background`, `eviction/`).

use background::eviction::{EvictionLimits, Plan, Room, Shortage};
use config::{MAXMEMORY_EVICTION_TENACITY, MAXMEMORY_SAMPLES};
use engine::{Command, Route, Rule};
use keyspace::eviction::Policy;

use crate::life::admit::demands;
use crate::thread::{Thread, ThreadHost};

impl ThreadHost {
    /// Whether a command of the current client is refused when memory is short.
    fn is_refused_without_room(&mut self, command: &Command, args: &[&[u8]]) -> bool {
        if self.session().multi.is_some() && command.entry.route != Route::Queued {
            // Within MULTI, a command is refused rather than queued, unless it ends the transaction.
            return !command.entry.is_under(Rule::EndsMulti);
        }
        demands(self, command, args).needs_room
    }
}

impl Thread {
    /// Frees memory for a command of the current client. Returns true if the command must be refused.
    #[inline]
    pub(crate) fn lacks_room(&mut self, command: &Command, args: &[&[u8]]) -> bool {
        let bytes_max = self.host.shared.settings.memory_bytes_max();
        if bytes_max == 0 {
            return false;
        }
        if self.host.shared.leaves_room_to_primary() {
            self.host.session().client.lacks_room = false;
            return false;
        }
        let bytes_max = self.host.shared.lowered.limit(bytes_max);
        let is_well = self.host.background.eviction.has_room(bytes_max);
        let room = if is_well { Room::Enough } else { self.make_room(bytes_max) };
        self.host.session().client.lacks_room = room == Room::None;
        room == Room::None && self.host.is_refused_without_room(command, args)
    }

    /// Continues freeing memory in the background. `is_round`: a call that comes at intervals in any case.
    pub(super) fn make_room_in_background(&mut self, is_round: bool) {
        let shared = self.host.shared;
        let mut bytes_max = shared.settings.memory_bytes_max();
        if bytes_max > 0 {
            if is_round && self.host.net.id == 0 {
                shared.lowered.follow(bytes_max, heap::counted_bytes());
            }
            bytes_max = shared.lowered.limit(bytes_max);
        }
        if self.host.background.eviction.is_due(bytes_max, is_round) && !shared.leaves_room_to_primary() {
            self.make_room(bytes_max);
        }
    }

    /// Frees memory for a limited time, if it is short and keys may be evicted.
    #[cold]
    fn make_room(&mut self, bytes_max: u64) -> Room {
        let shared = self.host.shared;
        let shortage = Shortage {
            bytes_max,
            policy: shared.settings.policy(),
            // A replica that is configured to evict by itself does so, although its primary decides what expires.
            is_held_up: self.host.waits.pausing.is_on()
                || shared.scripts.is_busy()
                || shared.shards.hides_due() && !shared.following.is_replica(),
            exceeded: &shared.exceeded,
            now_ms: self.host.net.now_ms,
        };
        match self.host.background.eviction.plan(&shortage) {
            Plan::Leave(room) => room,
            Plan::Evict(policy) => {
                let room = self.evict_down_to(bytes_max, policy);
                self.host.background.eviction.note(room, &shortage);
                room
            }
        }
    }

    fn evict_down_to(&mut self, bytes_max: u64, policy: Policy) -> Room {
        self.leave_all();
        self.run_length = 0;
        self.host.background.defrag.suspect();
        let shared = self.host.shared;
        let limits = EvictionLimits {
            bytes_max,
            sample_count: shared.settings.number(MAXMEMORY_SAMPLES) as usize,
            tenacity: shared.settings.number(MAXMEMORY_EVICTION_TENACITY),
        };
        let anybody_has_garbage = || shared.observed.threads().iter().any(|stats| stats.garbage.get() > 0);
        let clock = self.host.net.driver.clock().clone();
        // It is taken out while keys are evicted.
        let mut eviction = std::mem::take(&mut self.host.background.eviction);
        let free_slice = |thread: &mut Thread| thread.host.free_slice();
        let room = eviction.evict(&limits, policy, &clock, self, free_slice, anybody_has_garbage);
        self.host.background.eviction = eviction;
        room
    }
}
