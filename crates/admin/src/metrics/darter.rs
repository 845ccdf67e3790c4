//! Metrics that only Darter has, those of queues left out: threads, how commands came to their shards, snapshot, journal,
//! replicas, and HTTP itself.

use observe::{EntryType, Facts, Persistence};

use super::exposition::{Exposition, Kind};
use crate::state::State;

/// Writes them.
pub(super) fn write(page: &mut Exposition, facts: &dyn Facts, state: &State) {
    let server = facts.server();
    page.family("darter_info", Kind::Gauge, "Which server this is.");
    page.sample("darter_info", &[("version", server.darter_version), ("driver", server.driver)], 1.0);
    threads(page, facts, state);
    batons(page, facts);
    let persistence = facts.persistence();
    snapshot(page, &persistence);
    journal(page, &persistence, state);
    replication(page, facts);
    http(page, state);
}

fn threads(page: &mut Exposition, facts: &dyn Facts, state: &State) {
    let threads = facts.observed().threads();
    page.single("darter_threads", Kind::Gauge, "Threads that serve clients.", threads.len() as f64);
    page.single("darter_shards", Kind::Gauge, "Shards of the data.", facts.shards().len() as f64);
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
    page.family(name, Kind::Counter, "Commands by how they reached their shards.");
    for (word, entry_type) in EntryType::NAMED {
        let count = observed.sum(|stats| &stats.entries[entry_type as usize]);
        page.sample(name, &[("type", word)], count as f64);
    }
    for (name, help, count) in [
        (
            "darter_delegated_total",
            "Commands that a thread ran for clients of another one.",
            observed.sum(|stats| &stats.delegated),
        ),
        (
            "darter_baton_retries_total",
            "Transactions that could not take their shards at once.",
            observed.sum(|stats| &stats.retries),
        ),
        (
            "darter_baton_lent_total",
            "Shards that scripts lent to others while they waited.",
            observed.sum(|stats| &stats.lent),
        ),
        (
            "darter_baton_kept_total",
            "Turns that began with a shard kept, because its backlog was long.",
            observed.sum(|stats| &stats.kept),
        ),
    ] {
        page.single(name, Kind::Counter, help, count as f64);
    }
    let waiters = observed.over_shards(facts.shards(), |figures| &figures.waiters);
    let promoted = observed.over_shards(facts.shards(), |figures| &figures.promoted_jobs);
    let help = "Jobs of Sidekiq's that joined their queues by themselves (setting promote).";
    page.single("darter_promoted_jobs_total", Kind::Counter, help, promoted as f64);
    let recovered = observed.over_shards(facts.shards(), |figures| &figures.recovered_jobs);
    let help =
        "Jobs that went back to their queues because a process of Sidekiq's had died (setting job-recovery).";
    page.single("darter_recovered_jobs_total", Kind::Counter, help, recovered as f64);
    page.single("darter_waiters", Kind::Gauge, "Places in which clients wait for a key.", waiters as f64);
}

fn snapshot(page: &mut Exposition, persistence: &Persistence) {
    let saving = persistence.saving.unwrap_or_default();
    let loading = persistence.loading.unwrap_or_default();
    for (name, help, value) in [
        ("darter_snapshot_keys_done", "Keys that the running snapshot has written.", saving.keys_done as f64),
        ("darter_snapshot_keys", "Keys that the running snapshot will have in all.", saving.key_count as f64),
        (
            "darter_loading_ratio",
            "The share of the data that is loaded; 0 if nothing is being loaded.",
            loading.percent / 100.0,
        ),
    ] {
        page.single(name, Kind::Gauge, help, value);
    }
}

fn journal(page: &mut Exposition, persistence: &Persistence, state: &State) {
    let flag = |is_so: bool| f64::from(u8::from(is_so));
    page.single(
        "darter_journal_on",
        Kind::Gauge,
        "1 if a journal is kept.",
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
        ("darter_journal_size_bytes", Kind::Gauge, "The journal with its base.", journal.size_bytes as f64),
        (
            "darter_journal_pending_bytes",
            Kind::Gauge,
            "Changes that are not written yet.",
            journal.pending_bytes as f64,
        ),
        (
            "darter_journal_slices_behind",
            Kind::Gauge,
            "Slices that are not durable yet.",
            journal.slice.saturating_sub(journal.durable_slice) as f64,
        ),
        ("darter_journal_commits_total", Kind::Counter, "Writes to the journal.", journal.write_count as f64),
        (
            "darter_journal_commit_seconds_total",
            Kind::Counter,
            "How long those took in all.",
            journal.write_us as f64 / 1e6,
        ),
        (
            "darter_journal_syncs_delayed_total",
            Kind::Counter,
            "Syncs that took too long.",
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
        ("darter_replication_offset_bytes", "Where the stream for replicas ends.", replication.offset as f64),
        ("darter_replicas", "Replicas that are connected.", replication.replicas.len() as f64),
        (
            "darter_replicas_close",
            "Replicas that follow closely, if min-replicas-to-write asks for some.",
            counted(replication.close_count),
        ),
        (
            "darter_replicas_synced",
            "Replicas for which replies may wait (repl-sync-replicas).",
            counted(replication.synced_count),
        ),
    ] {
        if !value.is_nan() {
            page.single(name, Kind::Gauge, help, value);
        }
    }
}

fn http(page: &mut Exposition, state: &State) {
    let counts = &state.counts;
    page.single(
        "darter_http_connections",
        Kind::Gauge,
        "HTTP connections.",
        state.connections.count() as f64,
    );
    for (name, help, value) in [
        (
            "darter_http_rejected_connections_total",
            "HTTP connections above http-connections-max.",
            &counts.rejected,
        ),
        (
            "darter_http_displaced_connections_total",
            "Waiting HTTP connections that ended to make room for new ones.",
            &state.connections.displaced,
        ),
        ("darter_http_requests_total", "HTTP requests.", &counts.requests),
        ("darter_http_refused_total", "HTTP requests that were refused.", &counts.refused),
        ("darter_http_throttled_total", "Passwords refused after too many wrong ones.", &counts.throttled),
    ] {
        page.single(name, Kind::Counter, help, value.get() as f64);
    }
}
