//! Collects the server's figures for `INFO`, `/metrics` and others, on request and without entering a shard.

use std::sync::atomic::Ordering;

use ::config::{
    APPENDONLY, EntryMode, LATENCY_PERCENTILES, MAXCLIENTS, MAXMEMORY, MAXMEMORY_POLICY, PORT,
    REPL_BACKLOG_SIZE,
};
use background::eviction::Exceeded;
use engine::{Shards, Table};
use heap::Exempt;
use observe::{
    Checkpoints, Clients, CpuTime, Facts, Loading, Memory, Observed, Persistence, Replication, Saving,
    Server, Span, Spans,
};
use process::supervisor::Supervisor;
use process::system;

use crate::shared::Shared;
use crate::version::{ALLOCATOR, BUILD_ID, DARTER_VERSION, GIT_DIRTY, GIT_SHA};

/// A server, and the time of the request.
pub(super) struct Asked {
    pub(super) shared: &'static Shared,
    /// The wall clock, since 1970.
    pub(super) now_us: u64,
    /// The monotonic clock.
    pub(super) monotonic_ms: u64,
}

impl Facts for Asked {
    fn observed(&self) -> &Observed {
        &self.shared.observed
    }

    fn shards(&self) -> &Shards {
        &self.shared.shards
    }

    fn table(&self) -> &Table {
        &self.shared.table
    }

    fn server(&self) -> Server {
        let shared = self.shared;
        let settings = &shared.settings;
        Server {
            redis_version: settings.redis_version(),
            darter_version: DARTER_VERSION,
            git_sha: GIT_SHA,
            git_dirty: GIT_DIRTY,
            build_id: BUILD_ID,
            mode: settings.mode(),
            is_cluster: settings.is_on(::config::CLUSTER_MODE),
            os: system::name(),
            driver: shared.driver_name,
            supervisor: Supervisor::of(settings).name(),
            run_id: shared.run_id.clone(),
            port: settings.number(PORT) as u64,
            now_us: self.now_us,
            steady_ms: shared.machine.clock.steady_ms(),
            uptime_seconds: (self.now_us / 1000).saturating_sub(shared.started_ms) / 1000,
            shutdown_ms_left: shared
                .shutdown
                .awaits_until()
                .map(|until_ms| until_ms.cast_signed() - shared.machine.clock.steady_ms().cast_signed()),
            executable: std::env::current_exe().unwrap_or_default().display().to_string(),
            config_file: settings.config_file().map(|path| path.display().to_string()).unwrap_or_default(),
            thread_count: shared.threads.len(),
            shard_entry: if shared.entry_mode == EntryMode::Home { "home" } else { "roam" },
            listeners: clients::listening(settings),
            database_count: settings.databases(),
        }
    }

    fn clients(&self) -> Clients {
        Clients {
            connected: self.shared.registry.client_count(),
            max: self.shared.settings.number(MAXCLIENTS) as u64,
            tracking: self.shared.directory.tracking_count(),
        }
    }

    fn memory(&self) -> Memory {
        memory(self.shared)
    }

    fn persistence(&self) -> Persistence {
        let snapshots = &self.shared.snapshots;
        let now_ms = self.now_us / 1000;
        let changes = self.shared.observed.over_shards(&self.shared.shards, |figures| &figures.changes);
        Persistence {
            loading: snapshots.progress.figures(now_ms).map(|loading| Loading {
                started_seconds: loading.started_seconds,
                total_bytes: loading.total_bytes,
                used_bytes: loading.used_bytes,
                loaded_bytes: loading.loaded_bytes,
                percent: loading.percent,
                seconds_left: loading.seconds_left,
            }),
            saving: snapshots.saving_rdb().map(|saving| Saving {
                keys_done: saving.keys_done.load(Ordering::Relaxed),
                key_count: saving.key_count,
                seconds: now_ms.saturating_sub(saving.started_ms) / 1000,
            }),
            unsaved_changes: snapshots.changes_since(changes),
            last_save_seconds: snapshots.last_save_seconds(),
            last_failed: snapshots.last_failed.load(Ordering::Relaxed),
            last_took_seconds: snapshots.last_took_seconds.load(Ordering::Relaxed),
            save_count: snapshots.save_count.load(Ordering::Relaxed),
            last_peak_bytes: snapshots.last_peak_bytes.load(Ordering::Relaxed),
            expired_key_count: snapshots.expired_key_count.load(Ordering::Relaxed),
            loaded_key_count: snapshots.loaded_key_count.load(Ordering::Relaxed),
            checkpoints: checkpoints(self.shared, now_ms),
            has_journal: self.shared.settings.is_on(APPENDONLY),
            journal: self.shared.journal.facts(),
            at_risk: self.shared.keeper().at_risk(changes),
        }
    }

    fn replication(&self) -> Replication {
        let Shared { primary, following, settings, .. } = self.shared;
        self.shared.journal.replication(primary, following, settings, self.monotonic_ms)
    }

    fn spans(&self) -> Spans {
        let span = |exceeded: &Exceeded| {
            let (current_ms, total_ms) = exceeded.current_and_total_ms(self.monotonic_ms);
            Span { current_ms, total_ms }
        };
        Spans { exceeded: span(&self.shared.exceeded), fragmented: span(&self.shared.fragmented) }
    }

    fn pattern_count(&self) -> usize {
        self.shared.directory.pattern_count()
    }

    fn cpu(&self) -> [CpuTime; 3] {
        [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN, libc::RUSAGE_THREAD].map(|whose| {
            let time = system::cpu_time(whose);
            CpuTime { system: time.system, user: time.user }
        })
    }

    fn latency_percents(&self) -> Vec<f64> {
        let percents = self.shared.settings.text(LATENCY_PERCENTILES);
        percents.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    }
}

fn checkpoints(shared: &Shared, now_ms: u64) -> Checkpoints {
    let known = &shared.snapshots.checkpoints;
    let (journal, has_journal) = (&shared.journal, shared.settings.is_on(APPENDONLY));
    // A journal that is about to begin has its first base coming.
    let is_coming = has_journal && (!journal.is_on() || journal.awaits_first_base());
    let started_ms = journal.checkpoint_started_ms().or(is_coming.then_some(now_ms));
    Checkpoints {
        current_seconds: started_ms.map(|started_ms| now_ms.saturating_sub(started_ms) / 1000),
        is_scheduled: journal.is_scheduled.load(Ordering::Relaxed),
        last_took_seconds: u64::try_from(known.last_took_seconds.load(Ordering::Relaxed)).ok(),
        count: known.count.load(Ordering::Relaxed),
        failures: known.consecutive_failures.load(Ordering::Relaxed),
        last_peak_bytes: known.last_peak_bytes.load(Ordering::Relaxed),
    }
}

fn memory(shared: &Shared) -> Memory {
    let (mut table_bytes, mut key_count) = (Vec::new(), 0);
    for db in 0..shared.settings.databases() {
        let filled = || shared.shards.tallies(db).filter(|tally| tally.keys.get() > 0);
        table_bytes.push(filled().map(|tally| tally.table_bytes.get()).sum());
        key_count += filled().map(|tally| tally.keys.get()).sum::<u64>();
    }
    let (script_bytes, script_count) = {
        let cache = shared.scripts.cache();
        (cache.memory_bytes() as u64, cache.len())
    };
    let (_, libraries) = shared.scripts.libraries.get();
    let (script_state_bytes, function_state_bytes) = shared.scripts.state_bytes();
    let (used_bytes, journal) = (heap::allocated_bytes(), &shared.journal);
    let journal_bytes = if journal.is_on() { journal.progress.pending_bytes(&journal.log) } else { 0 };
    Memory {
        used_bytes,
        peak_bytes: shared.observed.peak_bytes().max(used_bytes),
        counted_bytes: heap::counted_bytes(),
        startup_bytes: heap::exempt_bytes(Exempt::Fixed),
        rss_bytes: system::resident_bytes(),
        unused_bytes: background::defrag::unused_bytes(),
        client_bytes: shared.observed.client_bytes(),
        stream_bytes: heap::exempt_bytes(Exempt::Stream),
        backlog_bytes_max: shared.settings.number(REPL_BACKLOG_SIZE) as u64,
        replica_output_bytes: heap::exempt_bytes(Exempt::Replicas),
        journal_bytes,
        garbage_count: shared.observed.now(|stats| &stats.garbage),
        script_bytes,
        script_count,
        function_bytes: libraries.memory_bytes() as u64,
        library_count: libraries.len(),
        function_count: libraries.function_count(),
        script_state_bytes,
        function_state_bytes,
        key_count,
        table_bytes,
        system_bytes: system::machine_bytes(),
        limit_bytes: shared.settings.number(MAXMEMORY) as u64,
        policy: shared.settings.text(MAXMEMORY_POLICY).to_string(),
        allocator: ALLOCATOR,
    }
}
