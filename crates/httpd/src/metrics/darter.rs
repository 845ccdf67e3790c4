//! Metrics that only Darter has, except those of queues: threads, how commands reach their shards, snapshot, journal,
//! replicas, and HTTP itself.

use std::sync::atomic::Ordering;

use jobs::queues::RecoveryFigures;
use observe::{EntryType, Facts, Persistence, ThreadStats};

use super::exposition::{Exposition, Kind};
use crate::state::HttpState;

/// Writes these metrics.
pub(super) fn write(page: &mut Exposition, facts: &dyn Facts, state: &HttpState) {
    let server = facts.server();
    page.family("darter_info", Kind::Gauge, "Version and driver of the server.");
    page.sample("darter_info", &[("version", server.darter_version), ("driver", server.driver)], 1.0);
    threads(page, facts, state);
    batons(page, facts);
    let persistence = facts.persistence();
    snapshot(page, &persistence);
    journal(page, &persistence, state);
    replication(page, facts);
    http(page, state);
}

fn threads(page: &mut Exposition, facts: &dyn Facts, state: &HttpState) {
    let threads = facts.observed().threads();
    page.single("darter_threads", Kind::Gauge, "Threads that serve clients.", threads.len() as f64);
    page.single("darter_shards", Kind::Gauge, "Shards of the keyspace.", facts.shards().len() as f64);
    let numbers: Vec<String> = (0..threads.len()).map(|number| number.to_string()).collect();
    let name = "darter_thread_commands_total";
    page.family(name, Kind::Counter, "Commands that ran on each thread.");
    for (number, stats) in numbers.iter().zip(threads) {
        page.sample(name, &[("thread", number)], stats.commands_processed.get() as f64);
    }
    let name = "darter_thread_cpu_seconds_total";
    page.family(name, Kind::Counter, "CPU time of each thread.");
    for (number, run_ns) in numbers.iter().zip(state.sampler.borrow().run_ns()) {
        page.sample(name, &[("thread", number)], run_ns as f64 / 1e9);
    }
}

fn batons(page: &mut Exposition, facts: &dyn Facts) {
    let observed = facts.observed();
    let name = "darter_entries_total";
    page.family(name, Kind::Counter, "Commands, by how they reached their shards.");
    for (word, entry_type) in EntryType::NAMED {
        let count = observed.sum(|stats| &stats.entries[entry_type as usize]);
        page.sample(name, &[("type", word)], count as f64);
    }
    for total in ThreadStats::TOTALS {
        if let Some((name, _)) = total.metric.filter(|(name, _)| name.starts_with("darter_")) {
            page.single(name, Kind::Counter, total.what.trim(), observed.sum(total.of) as f64);
        }
    }
    let waiters = observed.over_shards(facts.shards(), |figures| &figures.waiters);
    let promoted = observed.over_shards(facts.shards(), |figures| &figures.promoted_jobs);
    let help = "Jobs of sorted sets that joined their queues by themselves (setting promote, QUEUE PROMOTE).";
    page.single("darter_promoted_jobs_total", Kind::Counter, help, promoted as f64);
    recovery(page, &facts.shards().queues().recovery);
    page.single(
        "darter_waiters",
        Kind::Gauge,
        "Waiting clients, counted once for each key that they wait for.",
        waiters as f64,
    );
}

/// The series of the setting job-recovery.
fn recovery(page: &mut Exposition, figures: &RecoveryFigures) {
    for (name, kind, help, number) in [
        (
            "darter_recovered_jobs_total",
            Kind::Counter,
            "Jobs returned to their queues because a Sidekiq process had died (setting job-recovery).",
            &figures.returned_jobs,
        ),
        (
            "darter_recovered_processes_total",
            Kind::Counter,
            "Sidekiq processes that were found dead (setting job-recovery).",
            &figures.dead_processes,
        ),
        (
            "darter_forgotten_pops_total",
            Kind::Counter,
            "Popped jobs that were forgotten early to save memory (setting job-recovery).",
            &figures.forgotten_pops,
        ),
    ] {
        page.single(name, kind, help, number.load(Ordering::Relaxed) as f64);
    }
    let bytes = figures.popped_bytes.load(Ordering::Relaxed) as f64;
    let help = "Memory of recently popped jobs (setting job-recovery).";
    page.single("darter_popped_jobs_bytes", Kind::Gauge, help, bytes);
}

fn snapshot(page: &mut Exposition, persistence: &Persistence) {
    let saving = persistence.saving.unwrap_or_default();
    let loading = persistence.loading.unwrap_or_default();
    for (name, help, value) in [
        ("darter_snapshot_keys_done", "Keys written by the running snapshot.", saving.keys_done as f64),
        ("darter_snapshot_keys", "Keys in the running snapshot in total.", saving.key_count as f64),
        (
            "darter_loading_ratio",
            "Fraction of the data loaded so far; 0 if nothing is being loaded.",
            loading.percent / 100.0,
        ),
    ] {
        page.single(name, Kind::Gauge, help, value);
    }
}

fn journal(page: &mut Exposition, persistence: &Persistence, state: &HttpState) {
    let flag = |is_so: bool| f64::from(u8::from(is_so));
    page.single(
        "darter_journal_on",
        Kind::Gauge,
        "1 if the journal is on.",
        flag(persistence.journal.is_some()),
    );
    let is_stalled = state.source.is_stalled();
    page.single(
        "darter_journal_stalled",
        Kind::Gauge,
        "1 while writes wait for the journal.",
        flag(is_stalled),
    );
    let Some(journal) = persistence.journal else { return };
    for (name, kind, help, value) in [
        (
            "darter_journal_failed",
            Kind::Gauge,
            "1 while the journal cannot be written.",
            flag(journal.has_failed),
        ),
        (
            "darter_journal_size_bytes",
            Kind::Gauge,
            "Size of the journal, including its base.",
            journal.size_bytes as f64,
        ),
        (
            "darter_journal_pending_bytes",
            Kind::Gauge,
            "Bytes of changes that are not written to the journal yet.",
            journal.pending_bytes as f64,
        ),
        (
            "darter_journal_slices_behind",
            Kind::Gauge,
            "Slices of the journal that are not durable yet.",
            journal.slice.saturating_sub(journal.durable_slice) as f64,
        ),
        ("darter_journal_commits_total", Kind::Counter, "Writes to the journal.", journal.write_count as f64),
        (
            "darter_journal_commit_seconds_total",
            Kind::Counter,
            "Total duration of writes to the journal.",
            journal.write_us as f64 / 1e6,
        ),
        (
            "darter_journal_syncs_delayed_total",
            Kind::Counter,
            "Syncs of the journal that took too long.",
            journal.syncs_delayed as f64,
        ),
    ] {
        page.single(name, kind, help, value);
    }
}

fn replication(page: &mut Exposition, facts: &dyn Facts) {
    let replication = facts.replication();
    let counted = |count: Option<u64>| count.map_or(f64::NAN, |count| count as f64);
    for (name, help, value) in [
        (
            "darter_replication_offset_bytes",
            "Offset at the end of the stream for replicas.",
            replication.offset as f64,
        ),
        ("darter_replicas", "Connected replicas.", replication.replicas.len() as f64),
        (
            "darter_replicas_close",
            "Replicas that count for min-replicas-to-write, if it is set.",
            counted(replication.close_count),
        ),
        (
            "darter_replicas_synced",
            "Replicas that count for repl-sync-replicas, if it is set.",
            counted(replication.synced_count),
        ),
    ] {
        if !value.is_nan() {
            page.single(name, Kind::Gauge, help, value);
        }
    }
}

fn http(page: &mut Exposition, state: &HttpState) {
    let counts = &state.counts;
    page.single(
        "darter_http_connections",
        Kind::Gauge,
        "Open HTTP connections.",
        state.connections.count() as f64,
    );
    for (name, help, value) in [
        (
            "darter_http_rejected_connections_total",
            "HTTP connections refused because of http-connections-max.",
            &counts.rejected,
        ),
        (
            "darter_http_displaced_connections_total",
            "Waiting HTTP connections closed in favour of new ones.",
            &state.connections.displaced,
        ),
        ("darter_http_requests_total", "HTTP requests.", &counts.requests),
        ("darter_http_refused_total", "HTTP requests refused.", &counts.refused),
        (
            "darter_http_throttled_total",
            "Passwords refused because too many were wrong before.",
            &counts.throttled,
        ),
    ] {
        page.single(name, Kind::Counter, help, value.get() as f64);
    }
}
