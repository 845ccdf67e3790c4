//! Owns the background work of a thread: what it does, when it is due, and what is left to do.
//!
//! Invariant: a part that visits shards is taken out meanwhile, and put back.

use background::cron::Cron;
use background::defrag::Defrag;
use background::eviction::Eviction;
use background::garbage::Bin;
use background::hashes::HashUpkeep;
use background::snapshot::Share;
use clients::session::Watching;
use jobs::JobTimers;
use jobs::queues::QueueUpkeep;
use jobs::recovery::Watch;
use proactor::Clock;

use crate::shared::Shared;

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
}
