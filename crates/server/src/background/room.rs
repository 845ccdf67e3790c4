//! Frees memory before a command runs and in the background, and refuses commands that would need more.
//!
//! Not here: choosing and evicting keys (crate `background`, `eviction/`).

use background::eviction::{EvictionLimits, Plan, Room, Shortage};
use clients::session::{Judge, Session};
use config::{MAXMEMORY_EVICTION_TENACITY, MAXMEMORY_SAMPLES, REPLICA_IGNORE_MAXMEMORY};
use engine::{Command, Route, Rule};
use scripting::States;

use crate::shared::Shared;
use crate::thread::{Thread, ThreadHost, running};

/// Whether this is a replica that keeps all data of its primary, regardless of `maxmemory`.
pub(super) fn leaves_room_to_primary(shared: &Shared) -> bool {
    shared.following.is_replica() && shared.settings.is_on(REPLICA_IGNORE_MAXMEMORY)
}

/// The limit of memory in the background, which may be on its way down; 0: there is none. It comes down further if this
/// `lowers` it.
pub(super) fn memory_bytes_max(shared: &Shared, lowers: bool) -> u64 {
    let bytes_max = shared.settings.memory_bytes_max();
    if bytes_max == 0 {
        return 0;
    }
    if lowers {
        shared.lowered.follow(bytes_max, heap::counted_bytes());
    }
    shared.lowered.limit(bytes_max)
}

/// Whether a command of a client is refused when memory is short.
fn is_refused_without_room(
    session: &Session,
    lua: &mut States,
    judge: Judge<'_>,
    command: &Command,
    args: &[&[u8]],
) -> bool {
    if session.multi.is_some() && command.entry.route != Route::Queued {
        // Within MULTI, a command is refused rather than queued, unless it ends the transaction.
        return !command.entry.is_under(Rule::EndsMulti);
    }
    judge.demands(session, lua, command, args).needs_room
}

impl Thread {
    /// Frees memory for a command of the current client. Returns true if the command must be refused.
    #[inline]
    pub(crate) fn lacks_room(&mut self, command: &Command, args: &[&[u8]]) -> bool {
        let bytes_max = self.host.shared.settings.memory_bytes_max();
        if bytes_max == 0 {
            return false;
        }
        if leaves_room_to_primary(self.host.shared) {
            self.host.session().client.lacks_room = false;
            return false;
        }
        let bytes_max = self.host.shared.lowered.limit(bytes_max);
        let is_well = self.host.background.eviction.has_room(bytes_max);
        let room = if is_well { Room::Enough } else { self.make_room(bytes_max) };
        let ThreadHost { current, scripts, shared, .. } = &mut self.host;
        let session = running(current);
        session.client.lacks_room = room == Room::None;
        session.client.lacks_room
            && is_refused_without_room(session, &mut scripts.lua, shared.judge(), command, args)
    }

    /// Frees memory for a limited time, if it is short and keys may be evicted.
    #[cold]
    pub(super) fn make_room(&mut self, bytes_max: u64) -> Room {
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
                self.leave_all();
                self.run_length = 0;
                self.host.background.defrag.suspect();
                let limits = EvictionLimits {
                    bytes_max,
                    sample_count: shared.settings.number(MAXMEMORY_SAMPLES) as usize,
                    tenacity: shared.settings.number(MAXMEMORY_EVICTION_TENACITY),
                };
                let anybody_has_garbage =
                    || shared.observed.threads().iter().any(|stats| stats.garbage.get() > 0);
                let clock = self.host.net.driver.clock().clone();
                // It is taken out while keys are evicted.
                let mut eviction = std::mem::take(&mut self.host.background.eviction);
                let free_slice =
                    |thread: &mut Thread| thread.host.background.free_slice(thread.host.net.stats);
                let room = eviction.evict(&limits, policy, &clock, self, free_slice, anybody_has_garbage);
                eviction.note(room, &shortage);
                self.host.background.eviction = eviction;
                room
            }
        }
    }
}
