//! Does the background work of a turn, in order.
//!
//! Not here: the work itself (the crate `background`, and `snapshot/`), and when it is due (its `cron.rs`).

mod room;
mod work;

pub(crate) use work::Background;

use std::sync::atomic::Ordering;

use background::defrag::{self, CREDIT_NS, Surroundings};
use background::eviction::client_bytes_max;
use background::expiry::Round;
use background::hashes;
use config::{
    ACTIVE_DEFRAG_CYCLE_MAX, ACTIVE_DEFRAG_CYCLE_MIN, ACTIVE_DEFRAG_IGNORE_BYTES,
    ACTIVE_DEFRAG_THRESHOLD_LOWER, ACTIVE_DEFRAG_THRESHOLD_UPPER, ACTIVEDEFRAG, MAXMEMORY_CLIENTS,
    QUEUE_IDLE_TIMEOUT,
};
use ds::random::Random;
use jobs::Whose;
use jobs::recovery::{Around, trim};
use proactor::CloseMode;
use shard::ShardId;

use crate::connections::{balancing, moving};
use crate::life::admit::refuses_all_writes;
use crate::replication::{begin_sync_if_due, feed_replicas, look_after_link, look_after_replicas};
use crate::shared::Shared;
use crate::thread::{Thread, ThreadHost};
use clients::Sizes;

/// Pieces of large values and databases freed in one turn.
const GARBAGE_SLICES_PER_TURN: usize = 4;
/// Limit of the time for freeing in a turn, as a multiple of the time for commands, if too much waits to be freed.
const FREEING_SHARE_MAX: u64 = 4;
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

/// Frees for a few times as long as the commands of this turn took, if too much waits to be freed. A client that
/// creates large values and deletes them at once must not fill the memory, and freeing what one command deletes must
/// delay others little.
fn free_backlog(thread: &mut Thread) {
    if !thread.host.background.garbage.is_behind() {
        return;
    }
    let now_ms = |thread: &mut Thread| thread.host.net.driver.clock().monotonic_ms();
    let (now, began) = (now_ms(thread), thread.host.net.now_ms);
    let until_ms = now + FREEING_SHARE_MAX * now.saturating_sub(began);
    while thread.host.background.garbage.is_behind() && now_ms(thread) < until_ms && thread.host.free_slice()
    {
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
        free_backlog(self);
        balancing::shuffle(&mut self.host);
        self.save_slice();
        let (now_ms, is_first) = (self.host.net.now_ms, self.host.net.id == 0);
        if self.host.roles.replicas.has_work(&self.host.shared.journal.backlog, now_ms) {
            feed_replicas(self);
        }
        let due = self.host.background.cron.begin_turn(now_ms);
        look_after_jobs(self, due.is_second);
        if is_first {
            look_after_link(self, due.is_round);
        }
        self.make_room_in_background(due.is_round);
        self.defragment(due.is_round);
        compress_hashes(self);
        if !due.is_round {
            return;
        }
        balancing::look(&mut self.host);
        moving::stop_overdue(&mut self.host);
        self.look_at_unread();
        // This also removes deleted libraries where no function is called any more.
        self.host.scripts.lua.renew_libraries();
        if is_first {
            self.host.shared.observed.sample(now_ms);
            self.flush_if_due();
            self.save_if_due();
            begin_sync_if_due(self);
            forget_departed(self);
            if due.is_second {
                look_after_replicas(self);
            }
            let (accounting, clock) = (&self.host.reports.accounting, self.host.net.driver.clock());
            self.host
                .shared
                .keeper()
                .watch_journal(now_ms, |event, ns| accounting.note_event(event, ns, clock));
            if due.is_second {
                process::log::follow();
            }
            let limit = self.host.shared.settings.memory_bytes_max();
            heap::keep_at_most((limit > 0).then_some(limit / KEPT_PART));
        }
        if self.host.background.cron.purge(now_ms, is_first) {
            let elastic = balancing::is_elastic(&self.host);
            self.host.net.driver.give_back_unused(elastic);
            self.tx.record.give_back_unused();
        }
        let shared = self.host.shared;
        // On a replica, the primary decides what expires.
        let expires = shared.active_expire.load(Ordering::Relaxed) && !shared.following.is_replica();
        if expires && !self.host.waits.pausing.is_on() {
            self.expire();
        }
        let id = self.host.net.id;
        background::lists::compress(shared.shards.used_at_home(id), self);
        look_after_queues(self, due.is_second);
        self.look_at_client_memory(due.is_second);
        recover_jobs(self, due.is_second);
        if due.is_second {
            self.each_second();
        }
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
            let chance = shared.is_simulated().then(|| {
                let mut entropy = self.host.net.driver.entropy().expect("a simulated driver has chance");
                Random::new(entropy.below(u64::MAX))
            });
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

    /// Adds up the memory of clients, every second, or ten times a second if it is limited. Disconnects clients that
    /// take too much.
    fn look_at_client_memory(&mut self, is_second: bool) {
        let host = &mut self.host;
        let (settings, observed) = (&host.shared.settings, &host.shared.observed);
        let bytes_max = client_bytes_max(settings.number(MAXMEMORY_CLIENTS), settings.memory_bytes_max());
        if bytes_max.is_none() && !is_second {
            return;
        }
        let mut peaks = [0, 0];
        let mut sizes = Sizes::of(host.net.connections.iter_mut().map(|(conn, session)| {
            let usage = host.net.driver.usage(conn);
            peaks[0] = usage.input_capacity_bytes.max(peaks[0]);
            peaks[1] = usage.output_capacity_bytes.max(peaks[1]);
            (
                session.memory_bytes(usage) as u64,
                conn,
                !(session.no_evict || session.monitor || session.is_primary || session.follows()),
            )
        }));
        let peaks = host.background.cron.recent_peaks.note(host.net.now_ms / 1000, peaks);
        host.reports.accounting.stats().recent_input_bytes_max.set(peaks[0] as u64);
        host.reports.accounting.stats().recent_output_bytes_max.set(peaks[1] as u64);
        loop {
            let stats = self.host.reports.accounting.stats();
            stats.client_bytes.set(sizes.sum());
            stats.largest_client_bytes.set(sizes.largest());
            let of_threads = observed.threads().iter().map(|stats| stats.largest_client_bytes.get());
            let largest_of_all = of_threads.max().unwrap_or(0);
            let Some(bytes_max) = bytes_max else { return };
            let excess = sizes.pop_excess(observed.client_bytes(), bytes_max, largest_of_all);
            let Some((bytes, conn)) = excess else { return };
            tracing::info!(bytes, "disconnecting a client: the clients together exceed maxmemory-clients");
            stats.evicted_clients.add(1);
            self.close(conn, CloseMode::Now);
        }
    }

    /// An expiry round over the home shards of this thread.
    fn expire(&mut self) {
        let started = self.host.net.driver.clock().ticks();
        let (shards, own) = (&self.host.shared.shards, self.host.net.id);
        let round = Round::over(shards.used_at_home(own), self);
        self.post_all();
        round.note(self.host.reports.accounting.stats());
        let clock = self.host.net.driver.clock();
        let ns = clock.ticks_to_ns(started, clock.ticks());
        self.host.reports.accounting.note_event("expire-cycle", ns, self.host.net.driver.clock());
    }
}

/// Continues to compress hashes that are not in use, if that is due.
fn compress_hashes(thread: &mut Thread) {
    let host = &mut thread.host;
    let (shared, id) = (host.shared, host.net.id);
    if !host.background.hashes.is_due(host.net.now_ms) {
        return;
    }
    let chance = shared.is_simulated().then(|| {
        let mut entropy = host.net.driver.entropy().expect("a simulated driver has chance");
        Random::new(entropy.below(u64::MAX))
    });
    let how = thread.tx.config.hash_compression;
    let around = hashes::Surroundings {
        clock: host.net.driver.clock().clone(),
        is_on: how.bytes_min > 0,
        idle_seconds: how.idle_seconds.into(),
        is_busy: host.background.is_busy,
        chance,
    };
    // They are taken out while shards are visited.
    let mut hashes = std::mem::take(&mut host.background.hashes);
    hashes.work(around, || in_care(shared, id), thread);
    thread.host.background.hashes = hashes;
}

/// Finds new queues, and updates the figures of the others every second.
fn look_after_queues(thread: &mut Thread, is_second: bool) {
    let (shared, id) = (thread.host.shared, thread.host.net.id);
    let (known, placement) = (shared.shards.queues(), shared.shards.placement());
    let is_at_home = |shard: &ShardId| shared.shards.home(*shard) == id;
    let at_home = || shared.shards.used_at_home(id);
    if id == 0 {
        known.set_now_ms(thread.tx.steady as u64);
    }
    // They are taken out while shards are visited.
    let mut queues = std::mem::take(&mut thread.host.background.queues);
    queues.find(known, at_home(), thread);
    if is_second {
        let limit = shared.settings.memory_bytes_max();
        // The state of empty queues is not evicted like keys, so it is dropped at once where memory is tight.
        let is_tight = limit > 0 && heap::counted_bytes() > limit - limit / TIGHT_PART;
        let idle_s = if is_tight { 1 } else { shared.settings.number(QUEUE_IDLE_TIMEOUT) };
        let idle_ms = idle_s * 1000;
        queues.refresh(idle_ms, at_home(), thread);
        queues.learn(known, |shard| is_at_home(&shard), thread, |key| placement.locate(key).0);
    }
    thread.host.background.queues = queues;
}

/// Whether clients may not write now. Then due work waits as well: its changes would grow the backlog for the disk, and
/// be lost with it.
fn may_not_write(host: &ThreadHost) -> bool {
    let waits = host.waits.pausing.is_on() || host.shared.journal.progress.is_full();
    waits || refuses_all_writes(host.shared).is_some()
}

/// Checks each second for leases that end soon, delays that are over soon and jobs of Sidekiq's that join their queues
/// soon. Does the work that is due.
fn look_after_jobs(thread: &mut Thread, is_second: bool) {
    let (shared, id, now_ms) = (thread.host.shared, thread.host.net.id, thread.tx.now);
    if !is_second && !thread.host.background.jobs.is_due(now_ms) {
        return;
    }
    let is_at_home = |shard: ShardId| shared.shards.home(shard) == id;
    // They are taken out while shards are visited.
    let mut jobs = std::mem::take(&mut thread.host.background.jobs);
    // A replica is told by its primary what has ended.
    let whose = Whose::of(shared.following.is_replica(), may_not_write(&thread.host));
    if is_second {
        jobs.note_clock(now_ms, thread.tx.steady, id == 0);
        // A replica does this, too, to forget sets that are gone.
        jobs.look((now_ms, whose), shared.shards.used_at_home(id), thread);
    }
    if whose != Whose::Ours {
        jobs.clear();
    } else {
        jobs.fire(now_ms, is_at_home, thread);
    }
    // Served clients may have told them of more meanwhile.
    let told = std::mem::replace(&mut thread.host.background.jobs, jobs);
    thread.host.background.jobs.append(told);
    thread.post_all();
}

/// Forgets pops of long ago, each second. The first thread also watches Sidekiq's processes, and returns the jobs of
/// dead ones.
fn recover_jobs(thread: &mut Thread, is_second: bool) {
    let (shared, id, now_ms) = (thread.host.shared, thread.host.net.id, thread.tx.steady.cast_unsigned());
    let (shards, recovery) = (&shared.shards, &shared.recovery);
    let is_on = thread.tx.config.recovers && !shared.following.is_replica();
    if is_second {
        let since_ms = is_on.then(|| recovery.kept_since_ms());
        if is_on || shards.queues().recovery.popped_bytes.load(Ordering::Relaxed) > 0 {
            trim(since_ms, shards.used_at_home(id), thread);
        }
    }
    if id != 0 || (!is_second && !thread.host.background.job_watch.is_busy()) {
        return;
    }
    // It is taken out while shards are visited.
    let mut watch = std::mem::take(&mut thread.host.background.job_watch);
    if !is_on {
        recovery.clear();
        return;
    }
    if !may_not_write(&thread.host) {
        let (all, placement): (Vec<ShardId>, _) = (shards.used().collect(), shards.placement());
        let around = Around {
            now_ms,
            wall_ms: thread.tx.now.cast_unsigned(),
            db_count: shared.settings.databases(),
            shards: &all,
            locate: &|key| placement.locate(key).0,
            recovery,
            figures: &shards.queues().recovery,
        };
        if is_second {
            watch.look(&around, thread);
        }
        watch.go_on(&around, thread);
        thread.post_all();
    }
    thread.host.background.job_watch = watch;
}

/// Removes the tracked prefixes of clients that are gone.
fn forget_departed(thread: &mut Thread) {
    let directory = &thread.host.shared.directory;
    if !directory.has_departed() {
        return;
    }
    if thread.enters_all() {
        thread.tx.hold.change_prefixes(|known| known.remove(&directory.take_departed()));
    }
    thread.leave_all();
}
