//! Owns the background work of a thread: what it does, when it is due, and what is left to do.
//!
//! Invariant: a part that visits shards is taken out meanwhile, and put back.

use background::cron::Cron;
use background::defrag::Defrag;
use background::eviction::{Eviction, client_bytes_max};
use background::garbage::Bin;
use background::hashes::{self, HashUpkeep};
use background::snapshot::Share;
use clients::Sizes;
use clients::session::Watching;
use config::MAXMEMORY_CLIENTS;
use ds::random::Random;
use jobs::JobTimers;
use jobs::queues::QueueUpkeep;
use jobs::recovery::Watch;
use keyspace::HashCompression;
use observe::ThreadStats;
use proactor::{Clock, ConnId, Driver};

use crate::connections::network::Network;
use crate::shared::Shared;

/// Limit of the time for freeing in a turn, as a multiple of the time for commands, if too much waits to be freed.
const FREEING_SHARE_MAX: u64 = 4;

/// See the head of this file.
pub(crate) struct Background {
    pub(crate) cron: Cron,
    pub(crate) defrag: Defrag,
    pub(crate) queues: QueueUpkeep,
    pub(crate) hashes: HashUpkeep,
    /// The times at which leases end, delays are over, and jobs of Sidekiq's join their queues.
    pub(crate) jobs: JobTimers,
    /// The watch over Sidekiq's processes, on the first thread.
    pub(crate) job_watch: Watch,
    /// The memory of all threads, as this thread knows it.
    pub(crate) eviction: Eviction,
    /// Large values and databases that are being freed.
    pub(crate) garbage: Bin,
    /// Its share of the snapshot that is being saved.
    pub(crate) snapshot: Share,
    /// Watches that ended, to be removed from the shards.
    pub(crate) stale_watches: Vec<Watching>,
    /// Whether other threads have freed memory of this thread, which it must take back.
    pub(crate) has_blocks_to_sort: bool,
    /// Whether clients had sent something before this turn.
    pub(crate) is_busy: bool,
}

impl Background {
    /// The work of thread number `id`.
    pub(crate) fn new(id: u16, shared: &'static Shared, clock: Clock) -> Background {
        let progress = shared.journal.progress.clone();
        Background {
            cron: Cron::new(id),
            defrag: Defrag::default(),
            queues: QueueUpkeep::default(),
            hashes: HashUpkeep::default(),
            jobs: JobTimers::default(),
            job_watch: Watch::default(),
            eviction: Eviction::new(shared.started_ms ^ u64::from(id), shared.shards.len()),
            garbage: Bin::default(),
            snapshot: Share::new(clock, shared.machine.tuning.slice_records_max, progress),
            stale_watches: Vec::new(),
            has_blocks_to_sort: false,
            is_busy: false,
        }
    }

    /// Frees a slice of removed data. Returns false if nothing is left.
    pub(crate) fn free_slice(&mut self, stats: &ThreadStats) -> bool {
        let snapshot = &self.snapshot;
        self.garbage.free_slice(|| snapshot.slice(), stats)
    }

    /// Frees for a few times as long as the commands of this turn took, if too much waits to be freed. A client that
    /// creates large values and deletes them at once must not fill the memory, and freeing what one command deletes must
    /// delay others little.
    pub(crate) fn free_backlog(&mut self, net: &mut Network) {
        if !self.garbage.is_behind() {
            return;
        }
        let (clock, began_ms, stats) = (net.driver.clock(), net.now_ms, net.stats);
        let now_ms = clock.monotonic_ms();
        let until_ms = now_ms + FREEING_SHARE_MAX * now_ms.saturating_sub(began_ms);
        while self.garbage.is_behind() && clock.monotonic_ms() < until_ms && self.free_slice(stats) {}
    }

    /// Frees the memory that has yet to be freed, and returns memory that is kept for reuse.
    pub(crate) fn purge(&mut self, stats: &ThreadStats) {
        while self.garbage.has_work(self.snapshot.has_room()) && self.free_slice(stats) {}
        heap::purge_at_once();
        self.cron.purge_again();
    }

    /// Adds up the memory of clients, every second, or ten times a second if it is limited. Returns clients that take
    /// too much, to be disconnected.
    pub(crate) fn look_at_client_memory(
        &mut self,
        net: &mut Network,
        shared: &Shared,
        is_second: bool,
    ) -> Vec<ConnId> {
        let (settings, observed) = (&shared.settings, &shared.observed);
        let bytes_max = client_bytes_max(settings.number(MAXMEMORY_CLIENTS), settings.memory_bytes_max());
        let mut excessive = Vec::new();
        if bytes_max.is_none() && !is_second {
            return excessive;
        }
        let Network { connections, driver, stats, now_ms, .. } = net;
        let mut peaks = [0, 0];
        let mut sizes = Sizes::of(connections.iter_mut().map(|(conn, session)| {
            let usage = driver.usage(conn);
            peaks[0] = usage.input_capacity_bytes.max(peaks[0]);
            peaks[1] = usage.output_capacity_bytes.max(peaks[1]);
            (
                session.memory_bytes(usage) as u64,
                conn,
                !(session.no_evict || session.monitor || session.is_primary || session.follows()),
            )
        }));
        let peaks = self.cron.recent_peaks.note(*now_ms / 1000, peaks);
        stats.recent_input_bytes_max.set(peaks[0] as u64);
        stats.recent_output_bytes_max.set(peaks[1] as u64);
        loop {
            stats.client_bytes.set(sizes.sum());
            stats.largest_client_bytes.set(sizes.largest());
            let of_threads = observed.threads().iter().map(|stats| stats.largest_client_bytes.get());
            let largest_of_all = of_threads.max().unwrap_or(0);
            let Some(bytes_max) = bytes_max else { return excessive };
            let excess = sizes.pop_excess(observed.client_bytes(), bytes_max, largest_of_all);
            let Some((bytes, conn)) = excess else { return excessive };
            tracing::info!(bytes, "disconnecting a client: the clients together exceed maxmemory-clients");
            stats.evicted_clients.add(1);
            excessive.push(conn);
        }
    }

    /// What the compression of hashes goes by, if it is due.
    pub(crate) fn due_compression(
        &self,
        driver: &mut Driver,
        now_ms: u64,
        is_simulated: bool,
        how: HashCompression,
    ) -> Option<hashes::Surroundings> {
        self.hashes.is_due(now_ms).then(|| hashes::Surroundings {
            chance: is_simulated.then(|| chance(driver)),
            clock: driver.clock().clone(),
            is_on: how.bytes_min > 0,
            idle_seconds: how.idle_seconds.into(),
            is_busy: self.is_busy,
        })
    }
}

/// The chance of a simulation.
pub(super) fn chance(driver: &mut Driver) -> Random {
    let mut entropy = driver.entropy().expect("a simulated driver has chance");
    Random::new(entropy.below(u64::MAX))
}
