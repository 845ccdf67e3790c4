//! Does the background work of a turn, in order.
//!
//! Not here: the work itself (the crate `background`, and `snapshot/`), and when it is due (its `cron.rs`).

mod room;
mod work;

pub(crate) use work::Background;

use std::sync::atomic::Ordering;

use background::Visits;
use background::defrag::{self, CREDIT_NS, Surroundings};
use background::expiry::Round;
use config::{
    ACTIVE_DEFRAG_CYCLE_MAX, ACTIVE_DEFRAG_CYCLE_MIN, ACTIVE_DEFRAG_IGNORE_BYTES,
    ACTIVE_DEFRAG_THRESHOLD_LOWER, ACTIVE_DEFRAG_THRESHOLD_UPPER, ACTIVEDEFRAG,
};
use engine::{Shards, Tx};
use jobs::Upkeep;
use proactor::CloseMode;
use pubsub::Directory;
use shard::ShardId;

use self::room::{leaves_room_to_primary, memory_bytes_max};
use self::work::chance;
use crate::connections::balancing;
use crate::life::admit::refuses_all_writes;
use crate::replication::{begin_sync_if_due, look_after_replicas, on_link};
use crate::shared::Shared;
use crate::thread::{Thread, ThreadHost};

/// Pieces of large values and databases freed in one turn.
const GARBAGE_SLICES_PER_TURN: usize = 4;
/// Memory is tight when less than one part in this many of `maxmemory` is free.
const TIGHT_PART: u64 = 16;
/// One part in this many of `maxmemory` may be kept without data.
const KEPT_PART: u64 = 64;

/// The settings of defragmentation.
fn defrag_settings(host: &ThreadHost) -> defrag::DefragSettings {
    let settings = &host.shared.settings;
    let number = |id| settings.number(id) as u64;
    defrag::DefragSettings {
        is_on: settings.is_on(ACTIVEDEFRAG),
        ignore_bytes: number(ACTIVE_DEFRAG_IGNORE_BYTES),
        lower_percent: number(ACTIVE_DEFRAG_THRESHOLD_LOWER),
        upper_percent: number(ACTIVE_DEFRAG_THRESHOLD_UPPER),
        cycle_min_percent: number(ACTIVE_DEFRAG_CYCLE_MIN),
        cycle_max_percent: number(ACTIVE_DEFRAG_CYCLE_MAX),
        memory_bytes_max: settings.memory_bytes_max(),
        is_leaving: usize::from(host.net.id) >= balancing::threads_at_work(host.shared),
    }
}

/// The shards whose memory a thread looks after: its home shards, and its part of those whose home thread serves no
/// connections. Memory for them should come from few heaps.
fn in_care(shared: &Shared, id: u16) -> Vec<ShardId> {
    let (shards, at_work) = (&shared.shards, balancing::threads_at_work(shared));
    shards.used().filter(|shard| usize::from(shards.home(*shard)) % at_work == usize::from(id)).collect()
}

impl Thread {
    /// Does the background work that is due.
    pub(crate) fn background(&mut self) {
        for _ in 0..GARBAGE_SLICES_PER_TURN {
            if !self.host.background.free_slice(self.host.net.stats) {
                break;
            }
        }
        self.host.background.free_backlog(&mut self.host.net);
        self.host.net.shuffle(self.host.shared);
        self.save_slice();
        let (now_ms, is_first) = (self.host.net.now_ms, self.host.net.id == 0);
        if self.host.roles.replicas.has_work(&self.host.shared.journal.backlog, now_ms) {
            let ThreadHost { roles, net, shared, .. } = &mut self.host;
            for conn in roles.feed_replicas(net, shared) {
                self.close(conn, CloseMode::Now);
            }
        }
        let due = self.host.background.cron.begin_turn(now_ms);
        if due.is_second || self.host.background.jobs.is_due(self.tx.now) {
            let upkeep = upkeep(&self.tx, &self.host, due.is_second);
            let told =
                self.with_part(|work| &mut work.jobs, |jobs, thread| upkeep.look_after_jobs(jobs, thread));
            // Served clients may have told them of more meanwhile.
            self.host.background.jobs.append(told);
            self.post_all();
        }
        if is_first && self.host.roles.is_link_due(self.host.shared, now_ms, due.is_round) {
            on_link(self, None, |link, host| link.tick(host));
        }
        let bytes_max = memory_bytes_max(self.host.shared, due.is_round && is_first);
        let is_due = self.host.background.eviction.is_due(bytes_max, due.is_round);
        if is_due && !leaves_room_to_primary(self.host.shared) {
            self.make_room(bytes_max);
        }
        self.defragment(due.is_round);
        let (host, how) = (&mut self.host, self.tx.config.hash_compression);
        let (shared, id, driver) = (host.shared, host.net.id, &mut host.net.driver);
        if let Some(around) = host.background.due_compression(driver, now_ms, shared.is_simulated(), how) {
            let in_care = || in_care(shared, id);
            self.with_part(|work| &mut work.hashes, |hashes, thread| hashes.work(around, in_care, thread));
        }
        if due.is_round {
            self.round(due.is_second);
        }
    }

    /// Does the work of each round, ten times a second.
    fn round(&mut self, is_second: bool) {
        let (now_ms, is_first) = (self.host.net.now_ms, self.host.net.id == 0);
        let ThreadHost { balancing, net, shared, .. } = &mut self.host;
        balancing.look(net, shared);
        net.stop_overdue();
        self.look_at_unread();
        // This also removes deleted libraries where no function is called any more.
        self.host.scripts.lua.renew_libraries();
        if is_first {
            self.host.shared.observed.sample(now_ms);
            self.flush_if_due();
            self.save_if_due();
            begin_sync_if_due(self);
            let shared = self.host.shared;
            forget_departed(&shared.directory, &shared.shards, self);
            if is_second {
                look_after_replicas(self, shared, now_ms);
            }
            let (accounting, clock) = (&self.host.reports.accounting, self.host.net.driver.clock());
            self.host
                .shared
                .keeper()
                .watch_journal(now_ms, |event, ns| accounting.note_event(event, ns, clock));
            if is_second {
                process::log::follow();
            }
            let limit = self.host.shared.settings.memory_bytes_max();
            heap::keep_at_most((limit > 0).then_some(limit / KEPT_PART));
        }
        if self.host.background.cron.purge(now_ms, is_first) {
            let elastic = balancing::is_elastic(self.host.shared);
            self.host.net.driver.give_back_unused(elastic);
            self.tx.record.give_back_unused();
        }
        let shared = self.host.shared;
        // On a replica, the primary decides what expires.
        let expires = shared.active_expire.load(Ordering::Relaxed) && !shared.following.is_replica();
        if expires && !self.host.waits.pausing.is_on() {
            let started = self.host.net.driver.clock().ticks();
            let round = Round::over(shared.shards.used_at_home(self.host.net.id), self);
            self.post_all();
            self.host.reports.note_expiry(&round, started, self.host.net.driver.clock());
        }
        let id = self.host.net.id;
        background::lists::compress(shared.shards.used_at_home(id), self);
        let limit = shared.settings.memory_bytes_max();
        let is_tight = limit > 0 && heap::counted_bytes() > limit - limit / TIGHT_PART;
        let upkeep = upkeep(&self.tx, &self.host, is_second);
        self.with_part(
            |work| &mut work.queues,
            |queues, thread| upkeep.look_after_queues(queues, is_tight, thread),
        );
        let ThreadHost { background, net, .. } = &mut self.host;
        for conn in background.look_at_client_memory(net, shared, is_second) {
            self.close(conn, CloseMode::Now);
        }
        self.with_part(|work| &mut work.job_watch, |watch, thread| upkeep.recover(watch, thread));
        self.post_all();
        if is_second {
            let ThreadHost { outputs, net, .. } = &mut self.host;
            for conn in outputs.take_overdue(net, shared) {
                self.close(conn, CloseMode::Now);
            }
        }
    }

    /// Works with a part of the background work, which is taken out while shards are visited. Returns what took its place
    /// meanwhile.
    fn with_part<P: Default>(
        &mut self,
        part: fn(&mut Background) -> &mut P,
        work: impl FnOnce(&mut P, &mut Thread),
    ) -> P {
        let mut taken = std::mem::take(part(&mut self.host.background));
        work(&mut taken, self);
        std::mem::replace(part(&mut self.host.background), taken)
    }

    /// Continues defragmentation if it is due. With `is_round`, also checks whether it is needed.
    fn defragment(&mut self, is_round: bool) {
        let host = &mut self.host;
        let (shared, id) = (host.shared, host.net.id);
        if is_round || host.background.defrag.take_suspicion() {
            let now_ns = host.net.driver.clock().monotonic_ns();
            let settings = defrag_settings(host);
            let is_needed = host.background.defrag.look(&settings, shared.is_simulated(), now_ns);
            if id == 0 {
                shared.fragmented.note(is_needed, host.net.now_ms);
            }
            host.reports.accounting.stats().defrag_percent.set(host.background.defrag.current_percent());
        }
        if host.background.defrag.next_ms().is_none() {
            return;
        }
        let clock = host.net.driver.clock().clone();
        let end_ns = clock.monotonic_ns() + CREDIT_NS;
        let in_care = || in_care(shared, id);
        while let now_ns = clock.monotonic_ns()
            && now_ns < end_ns
            && self.host.background.defrag.is_due(now_ns)
        {
            let chance = shared.is_simulated().then(|| chance(&mut self.host.net.driver));
            let around = Surroundings {
                clock: clock.clone(),
                settings: defrag_settings(&self.host),
                stats: self.host.reports.accounting.stats(),
                in_care: &in_care,
                is_busy: self.host.background.is_busy,
            };
            // It is taken out while shards are visited.
            let mut defrag = std::mem::take(&mut self.host.background.defrag);
            let ns = defrag.work(&around, chance, self);
            self.host.background.defrag = defrag;
            self.host.reports.accounting.note_event("active-defrag-cycle", ns, self.host.net.driver.clock());
        }
    }
}

/// What the work on queues and jobs goes by.
fn upkeep(tx: &Tx<'_>, host: &ThreadHost, is_second: bool) -> Upkeep<'static> {
    let shared = host.shared;
    let waits = host.waits.pausing.is_on() || shared.journal.progress.is_full();
    Upkeep {
        shards: &shared.shards,
        settings: &shared.settings,
        recovery: &shared.recovery,
        thread: host.net.id,
        now_ms: tx.now,
        steady_ms: tx.steady,
        is_replica: shared.following.is_replica(),
        may_not_write: waits || refuses_all_writes(shared).is_some(),
        recovers: tx.config.recovers,
        is_second,
    }
}

/// Removes the tracked prefixes of clients that are gone.
fn forget_departed(directory: &Directory, shards: &Shards, visits: &mut impl Visits) {
    if directory.has_departed() {
        let all: Vec<ShardId> = shards.ids().collect();
        visits.visit_all(&all, true, |tx| {
            tx.hold.change_prefixes(|known| known.remove(&directory.take_departed()));
        });
    }
}
