//! Making room before a command runs and in the background, and refusing what would need more.
//!
//! Not here: which keys go (`search.rs`).

use command::{Client, Command, Flag, Route, Rule};
use settings::{MAXMEMORY_EVICTION_TENACITY, MAXMEMORY_SAMPLES};

use super::search::{Search, Step};
use keyspace::eviction::Policy;

use super::Room;
use crate::thread::{Thread, ThreadHost};

/// How often all shards are tried, as long as some are taken and the others have nothing.
const TRIES_WHERE_TAKEN: u32 = 32;
/// Evictions, or slices of large values, between two looks at the clock.
const STEPS_PER_LOOK: u32 = 16;
/// One step of `maxmemory-eviction-tenacity`.
const TENACITY_NS: f64 = 50_000.0;

impl ThreadHost {
    /// Whether there was no room when the command of `client` came.
    pub(crate) fn lacked_room(&self, client: &Client) -> bool {
        client.lacks_room && self.shared.settings.memory_bytes_max() > 0
    }

    /// Whether a command of the current client is refused when there is no room.
    fn is_refused_without_room(&mut self, command: &Command, args: &[&[u8]]) -> bool {
        let table = &self.shared.table;
        let Some(multi) = self.session().multi.take() else { return self.needs_room(command, args) };
        let is_refused = if command.entry.route == Route::Queued {
            multi.queued.iter().any(|(id, args)| self.needs_room(table.get(*id), &args.slices()))
        } else {
            // Everything else would be queued, or wants to be.
            !command.entry.is_under(Rule::EndsMulti)
        };
        self.session().multi = Some(multi);
        is_refused
    }

    /// Whether a command may need memory: by its declaration, or that of its script.
    fn needs_room(&mut self, command: &Command, args: &[&[u8]]) -> bool {
        let Route::Script(callee) = command.entry.route else { return command.has(Flag::DenyOom) };
        self.lua.called(args, callee).is_some_and(|program| {
            let flags = program.flags();
            flags.is_declared && !flags.allow_oom && !flags.no_writes
        })
    }
}

impl Thread {
    /// Makes room for a command of the current client; true if it is to be refused because there is none.
    #[inline]
    pub(crate) fn lacks_room(&mut self, command: &Command, args: &[&[u8]]) -> bool {
        let bytes_max = self.host.shared.settings.memory_bytes_max();
        if bytes_max == 0 {
            return false;
        }
        let eviction = &mut self.host.eviction;
        let is_well = eviction.gauge.bytes(bytes_max) <= bytes_max && eviction.room == Room::Enough;
        let room = if is_well { Room::Enough } else { self.make_room(bytes_max) };
        self.host.session().client.lacks_room = room == Room::None;
        room == Room::None && self.host.is_refused_without_room(command, args)
    }

    /// Goes on making room in the background; `is_round`: at least now and then.
    pub(crate) fn make_room_in_background(&mut self, is_round: bool) {
        let bytes_max = self.host.shared.settings.memory_bytes_max();
        let eviction = &mut self.host.eviction;
        if bytes_max == 0 && eviction.room == Room::Enough {
            return;
        }
        if is_round {
            eviction.gauge.read();
        }
        let is_over = bytes_max > 0 && eviction.gauge.bytes(bytes_max) > bytes_max;
        match eviction.room {
            Room::Enough if !is_over => {}
            // There was nothing to evict a moment ago.
            Room::None if is_over && !is_round => {}
            Room::Enough | Room::Soon | Room::None => _ = self.make_room(bytes_max),
        }
    }

    /// Evicts keys until no more memory is used than `bytes_max`, for a limited time.
    #[cold]
    fn make_room(&mut self, bytes_max: u64) -> Room {
        // Where clients are paused nothing changes, and a slow script holds shards.
        if self.host.pausing.is_on() || self.host.shared.scripts.is_busy() {
            self.host.eviction.room = Room::Enough;
            return Room::Enough;
        }
        let is_over = bytes_max > 0 && self.host.eviction.gauge.read() > bytes_max;
        let room = match self.host.shared.settings.policy() {
            _ if !is_over => Room::Enough,
            None => Room::None,
            Some(policy) => self.evict_down_to(bytes_max, policy),
        };
        self.host.eviction.room = room;
        self.host.shared.exceeded.note(room != Room::Enough, self.host.now_ms);
        room
    }

    fn evict_down_to(&mut self, bytes_max: u64, policy: Policy) -> Room {
        self.leave_all();
        self.run_length = 0;
        self.host.defrag.suspect();
        // It is on loan, since shards are visited meanwhile.
        let mut search = std::mem::replace(&mut self.host.eviction.search, Search::new(0, 0));
        search.begin(policy);
        let room = self.evict_with(&mut search, bytes_max, policy);
        self.host.eviction.search = search;
        room
    }

    fn evict_with(&mut self, search: &mut Search, bytes_max: u64, policy: Policy) -> Room {
        let shared = self.host.shared;
        let ns_max = ns_max(shared.settings.number(MAXMEMORY_EVICTION_TENACITY));
        let sample_count = shared.settings.number(MAXMEMORY_SAMPLES) as usize;
        let anybody_has_garbage = || shared.observed.threads().iter().any(|stats| stats.garbage.get() > 0);
        let started = self.host.driver.clock().ticks();
        let mut tries = 0;
        for step in 1_u32.. {
            if self.host.eviction.gauge.bytes(bytes_max) <= bytes_max {
                return Room::Enough;
            }
            if !self.host.free_slice() {
                match search.evict_one(policy, sample_count, self) {
                    Step::Evicted | Step::Searching => {}
                    Step::Taken if tries < TRIES_WHERE_TAKEN => {
                        tries += 1;
                        std::hint::spin_loop();
                    }
                    Step::Taken => return Room::Soon,
                    Step::Nothing if anybody_has_garbage() => return Room::Soon,
                    Step::Nothing => return Room::None,
                }
            }
            let clock = self.host.driver.clock();
            if step % STEPS_PER_LOOK == 0 && clock.ticks_to_ns(started, clock.ticks()) > ns_max {
                return Room::Soon;
            }
        }
        Room::Soon
    }
}

/// How long evicting may hold up a command, by `maxmemory-eviction-tenacity`.
fn ns_max(tenacity: i64) -> u64 {
    match tenacity {
        100 => u64::MAX,
        tenacity @ ..=10 => (TENACITY_NS * tenacity as f64) as u64,
        tenacity => (TENACITY_NS * 10.0 * 1.15_f64.powi((tenacity - 10) as i32)) as u64,
    }
}
