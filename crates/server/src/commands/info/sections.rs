//! The sections of INFO, one function each.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{MemoryFigures, Report};
use acl::Reason;
use keyspace::Tally;
use process::supervisor::Supervisor;
use settings::EntryMode;
use shard::Scope;

use crate::shared::Shared;
use crate::version::{ALLOCATOR, BUILD_ID, DARTER_VERSION, GIT_DIRTY, GIT_SHA, REDIS_VERSION};
use observe::{Counter, Durations, EntryType, ThreadStats};
use process::system;
use settings::{
    BIND, CLUSTER_MODE, LATENCY_PERCENTILES, MAXCLIENTS, MAXMEMORY, MAXMEMORY_POLICY, PORT, UNIXSOCKET,
};

pub(super) fn server(report: &mut Report) {
    let shared = report.shared;
    let settings = &shared.settings;
    let uptime_seconds = (report.now_us / 1000).saturating_sub(shared.started_ms) / 1000;
    report.field("redis_version", REDIS_VERSION);
    report.field("redis_git_sha1", GIT_SHA);
    report.field("redis_git_dirty", GIT_DIRTY);
    report.field("redis_build_id", BUILD_ID);
    report.field("redis_mode", shared.settings.mode());
    report.field("darter_version", DARTER_VERSION);
    report.field("os", system::name());
    report.field("arch_bits", usize::BITS);
    report.field("monotonic_clock", "processor counter");
    report.field("multiplexing_api", shared.driver_name);
    report.field("atomicvar_api", "rust");
    report.field("process_id", std::process::id());
    report.field("process_supervised", Supervisor::of(settings).name());
    report.field("run_id", &shared.run_id);
    report.field("tcp_port", settings.number(PORT));
    report.field("server_time_usec", report.now_us);
    report.field("uptime_in_seconds", uptime_seconds);
    report.field("uptime_in_days", uptime_seconds / 86_400);
    report.fields(&["hz", "configured_hz"], 10);
    report.field("lru_clock", (report.now_us / 1_000_000) & 0xff_ffff);
    let executable = std::env::current_exe().unwrap_or_default();
    report.field("executable", executable.display());
    let config_file = settings.config_file().map(|path| path.display().to_string()).unwrap_or_default();
    report.field("config_file", config_file);
    report.field("io_threads_active", 0);
    report.field("threads", shared.threads.len());
    report.field("shards", shared.shards.len());
    report.field("shard_entry", if shared.entry_mode == EntryMode::Home { "home" } else { "roam" });
    listeners(report);
}

fn listeners(report: &mut Report) {
    let settings = &report.shared.settings;
    let mut number = 0;
    if settings.is_on(PORT) {
        let binds: String =
            settings.text(BIND).split(' ').map(|address| format!(",bind={address}")).collect();
        report.field("listener0", format_args!("name=tcp{binds},port={}", settings.number(PORT)));
        number += 1;
    }
    if settings.is_on(UNIXSOCKET) {
        let path = settings.text(UNIXSOCKET);
        report.field(format_args!("listener{number}"), format_args!("name=unix,bind={path}"));
    }
}

pub(super) fn clients(report: &mut Report) {
    let shared = report.shared;
    let connected = shared.connected_clients.load(Ordering::Relaxed);
    let blocked: u64 = shared.observed.now(|stats| &stats.blocked_clients);
    report.field("connected_clients", connected);
    report.field("cluster_connections", 0);
    report.field("maxclients", shared.settings.number(MAXCLIENTS));
    let over_threads = |figure: fn(&ThreadStats) -> &Counter| -> Vec<u64> {
        shared.observed.threads().iter().map(|stats| figure(stats).get()).collect()
    };
    let largest = |figure| over_threads(figure).into_iter().max().unwrap_or(0);
    report.field("client_recent_max_input_buffer", largest(|stats| &stats.recent_input_bytes_max));
    report.field("client_recent_max_output_buffer", largest(|stats| &stats.recent_output_bytes_max));
    report.field("blocked_clients", blocked);
    report.field("tracking_clients", report.shared.directory.tracking_count());
    let waiting: u64 = over_threads(|stats| &stats.clients_with_timeout).into_iter().sum();
    report.field("clients_in_timeout_table", waiting);
    report.field("total_watched_keys", report.over_shards(|figures| &figures.watched_keys));
    report.field("total_blocking_keys", report.over_shards(|figures| &figures.awaited_keys));
    let for_loss = report.over_shards(|figures| &figures.awaited_keys_for_loss);
    report.field("total_blocking_keys_on_nokey", for_loss);
}

pub(super) fn memory(report: &mut Report) {
    let settings = &report.shared.settings;
    let figures = MemoryFigures::take(report.shared);
    let used = figures.used_bytes;
    report.bytes("used_memory", used);
    report.bytes("used_memory_rss", figures.rss_bytes);
    report.bytes("used_memory_peak", figures.peak_bytes);
    report.field("used_memory_peak_perc", format_args!("{:.2}%", figures.peak_percent()));
    report.field("used_memory_overhead", figures.overhead_bytes);
    report.field("used_memory_startup", figures.startup_bytes);
    report.field("used_memory_dataset", figures.dataset_bytes);
    report.field("used_memory_dataset_perc", format_args!("{:.2}%", figures.dataset_percent()));
    let active = used + figures.unused_bytes;
    report.field("allocator_allocated", used);
    report.field("allocator_active", active);
    report.field("allocator_resident", figures.rss_bytes);
    report.bytes("total_system_memory", system::machine_bytes());
    report.bytes("used_memory_lua", figures.script_state_bytes);
    report.field("used_memory_vm_eval", figures.script_state_bytes);
    report.field("used_memory_scripts_eval", figures.script_bytes);
    report.field("number_of_cached_scripts", figures.script_count);
    report.field("number_of_functions", figures.function_count);
    report.field("number_of_libraries", figures.library_count);
    report.field("used_memory_vm_functions", figures.function_state_bytes);
    report.bytes("used_memory_vm_total", figures.script_state_bytes + figures.function_state_bytes);
    report.field("used_memory_functions", figures.function_bytes);
    report.bytes("used_memory_scripts", figures.script_bytes + figures.function_bytes);
    report.bytes("maxmemory", settings.number(MAXMEMORY) as u64);
    report.field("maxmemory_policy", settings.text(MAXMEMORY_POLICY));
    let waste = figures.rss_bytes as i64 - used as i64;
    let ratio = format!("{:.2}", figures.fragmentation());
    report.field("allocator_frag_ratio", format_args!("{:.2}", active as f64 / used as f64));
    report.field("allocator_frag_bytes", figures.unused_bytes);
    report.field("allocator_rss_ratio", format_args!("{:.2}", figures.rss_bytes as f64 / active as f64));
    report.field("allocator_rss_bytes", figures.rss_bytes as i64 - active as i64);
    report.field("rss_overhead_ratio", "1.00");
    report.field("rss_overhead_bytes", 0);
    report.field("mem_fragmentation_ratio", &ratio);
    report.field("mem_fragmentation_bytes", waste);
    let absent = [
        "mem_not_counted_for_evict",
        "mem_replication_backlog",
        "mem_total_replication_buffers",
        "mem_clients_slaves",
    ];
    report.fields(&absent, 0);
    report.field("mem_clients_normal", figures.client_bytes);
    report.fields(&["mem_cluster_links", "mem_aof_buffer"], 0);
    report.field("mem_allocator", ALLOCATOR);
    let percents = report.shared.observed.threads().iter().map(|stats| stats.defrag_percent.get());
    report.field("active_defrag_running", percents.max().unwrap_or(0));
    report.field("lazyfree_pending_objects", figures.garbage_count);
    report.field("lazyfreed_objects", report.shared.observed.sum(|stats| &stats.lazily_freed));
}

pub(super) fn persistence(report: &mut Report) {
    let snapshots = &report.shared.snapshots;
    let now_ms = proactor::Clock::real().now_ms();
    let loading = snapshots.progress.figures(now_ms);
    report.field("loading", u8::from(loading.is_some()));
    report.fields(&["async_loading", "current_cow_peak", "current_cow_size", "current_cow_size_age"], 0);
    report.field("current_fork_perc", "0.00");
    let current = snapshots.current();
    let (done, total) = current
        .as_ref()
        .map_or((0, 0), |saving| (saving.keys_done.load(Ordering::Relaxed), saving.key_count));
    report.field("current_save_keys_processed", done);
    report.field("current_save_keys_total", total);
    let changes = report.over_shards(|figures| &figures.changes);
    report.field("rdb_changes_since_last_save", snapshots.changes_since(changes));
    report.field("rdb_bgsave_in_progress", u8::from(current.is_some()));
    report.field("rdb_last_save_time", snapshots.last_save_seconds());
    let get = |number: &AtomicU64| number.load(Ordering::Relaxed);
    let is_well = !snapshots.last_failed.load(Ordering::Relaxed);
    report.field("rdb_last_bgsave_status", if is_well { "ok" } else { "err" });
    report.field("rdb_last_bgsave_time_sec", snapshots.last_took_seconds.load(Ordering::Relaxed));
    let since = current.map_or(-1, |saving| (now_ms.saturating_sub(saving.started_ms) / 1000) as i64);
    report.field("rdb_current_bgsave_time_sec", since);
    report.field("rdb_saves", get(&snapshots.save_count));
    report.field("rdb_last_cow_size", get(&snapshots.last_peak_bytes));
    report.field("rdb_last_load_keys_expired", get(&snapshots.expired_key_count));
    report.field("rdb_last_load_keys_loaded", get(&snapshots.loaded_key_count));
    report.fields(&["aof_enabled", "aof_rewrite_in_progress", "aof_rewrite_scheduled"], 0);
    report.fields(&["aof_last_rewrite_time_sec", "aof_current_rewrite_time_sec"], -1);
    report.field("aof_last_bgrewrite_status", "ok");
    report.fields(&["aof_rewrites", "aof_rewrites_consecutive_failures"], 0);
    report.field("aof_last_write_status", "ok");
    report.fields(&["aof_last_cow_size", "module_fork_in_progress", "module_fork_last_cow_size"], 0);
    if let Some(loading) = loading {
        report.field("loading_start_time", loading.started_seconds);
        report.field("loading_total_bytes", loading.total_bytes);
        report.field("loading_rdb_used_mem", loading.used_bytes);
        report.field("loading_loaded_bytes", loading.loaded_bytes);
        report.field("loading_loaded_perc", format_args!("{:.2}", loading.percent));
        report.field("loading_eta_seconds", loading.seconds_left);
    }
}

pub(super) fn stats(report: &mut Report) {
    let shared = report.shared;
    let rate = shared.observed.rate();
    report.field("total_connections_received", shared.observed.sum(|stats| &stats.connections_received));
    report.field("total_commands_processed", shared.observed.sum(|stats| &stats.commands_processed));
    report.field("instantaneous_ops_per_sec", rate.commands);
    report.field("total_net_input_bytes", shared.observed.sum(|stats| &stats.net_input_bytes));
    report.field("total_net_output_bytes", shared.observed.sum(|stats| &stats.net_output_bytes));
    report.fields(&["total_net_repl_input_bytes", "total_net_repl_output_bytes"], 0);
    report.field("instantaneous_input_kbps", format_args!("{:.2}", rate.input_bytes as f64 / 1024.0));
    report.field("instantaneous_output_kbps", format_args!("{:.2}", rate.output_bytes as f64 / 1024.0));
    report.fields(&["instantaneous_input_repl_kbps", "instantaneous_output_repl_kbps"], "0.00");
    report.field("rejected_connections", shared.observed.sum(|stats| &stats.rejected_connections));
    report.fields(&["sync_full", "sync_partial_ok", "sync_partial_err"], 0);
    report.field("expired_subkeys", report.over_shards(|figures| &figures.expired_fields));
    report.field("expired_keys", report.over_shards(|figures| &figures.expired_keys));
    report.field("expired_stale_perc", format_args!("{:.2}", stale_percent(shared)));
    report.fields(&["expired_time_cap_reached_count", "expire_cycle_cpu_milliseconds"], 0);
    evictions(report);
    report.field("keyspace_hits", report.over_shards(|figures| &figures.keyspace_hits));
    report.field("keyspace_misses", report.over_shards(|figures| &figures.keyspace_misses));
    report.field("pubsub_channels", report.over_shards(|figures| &figures.channels[Scope::Global as usize]));
    report.field("pubsub_patterns", shared.directory.pattern_count());
    report.field(
        "pubsubshard_channels",
        report.over_shards(|figures| &figures.channels[Scope::Shard as usize]),
    );
    let absent = ["latest_fork_usec", "total_forks", "migrate_cached_sockets", "slave_expires_tracked_keys"];
    report.fields(&absent, 0);
    defragmentation(report);
    report.field("tracking_total_keys", report.over_shards(|figures| &figures.tracked_keys));
    report.field("tracking_total_items", report.over_shards(|figures| &figures.tracked_items));
    let prefix_count = shared.shards.figures().next().map_or(0, |figures| figures.tracked_prefixes.get());
    report.field("tracking_total_prefixes", prefix_count);
    report.field("unexpected_error_replies", 0);
    report.field("total_error_replies", shared.observed.sum(|stats| &stats.error_replies));
    report.field("dump_payload_sanitizations", 0);
    report.field("total_reads_processed", shared.observed.sum(|stats| &stats.reads_processed));
    report.field("total_writes_processed", shared.observed.sum(|stats| &stats.writes_processed));
    let absent = [
        "io_threaded_reads_processed",
        "io_threaded_writes_processed",
        "reply_buffer_shrinks",
        "reply_buffer_expands",
        "current_client_thread",
    ];
    report.fields(&absent, 0);
    denials(report);
}

/// How many of the keys with an expiry that were looked at lately had expired already.
fn stale_percent(shared: &Shared) -> f64 {
    let sum = |figure: fn(&ThreadStats) -> &Counter| -> f64 {
        shared.observed.threads().iter().map(|stats| figure(stats).get_f64()).sum()
    };
    let sampled = sum(|stats| &stats.sampled_keys);
    if sampled == 0.0 { 0.0 } else { sum(|stats| &stats.stale_keys) * 100.0 / sampled }
}

fn defragmentation(report: &mut Report) {
    let shared = report.shared;
    report.field("active_defrag_hits", shared.observed.sum(|stats| &stats.defrag_hits));
    report.field("active_defrag_misses", shared.observed.sum(|stats| &stats.defrag_misses));
    report.field("active_defrag_key_hits", shared.observed.sum(|stats| &stats.defrag_key_hits));
    report.field("active_defrag_key_misses", shared.observed.sum(|stats| &stats.defrag_key_misses));
    let (current_ms, total_ms) = shared.fragmented.current_and_total_ms(report.monotonic_ms);
    report.field("total_active_defrag_time", total_ms);
    report.field("current_active_defrag_time", current_ms);
}

/// What users were not allowed to do.
fn denials(report: &mut Report) {
    let shared = report.shared;
    for (name, reason) in [
        ("acl_access_denied_auth", Reason::Auth),
        ("acl_access_denied_cmd", Reason::Command),
        ("acl_access_denied_key", Reason::Key),
        ("acl_access_denied_channel", Reason::Channel),
    ] {
        report.field(name, shared.observed.sum(|stats| &stats.denied[reason as usize]));
    }
}

fn evictions(report: &mut Report) {
    let shared = report.shared;
    report.field("evicted_keys", report.over_shards(|figures| &figures.evicted_keys));
    report.field("evicted_clients", shared.observed.sum(|stats| &stats.evicted_clients));
    let (current_ms, total_ms) = shared.exceeded.current_and_total_ms(report.monotonic_ms);
    report.field("total_eviction_exceeded_time", total_ms);
    report.field("current_eviction_exceeded_time", current_ms);
}

pub(super) fn replication(report: &mut Report) {
    report.field("role", "master");
    report.field("connected_slaves", 0);
    report.field("master_failover_state", "no-failover");
    report.field("master_replid", &report.shared.run_id);
    report.field("master_replid2", "0".repeat(40));
    report.field("master_repl_offset", 0);
    report.field("second_repl_offset", -1);
    report.field("repl_backlog_active", 0);
    report.field("repl_backlog_size", 1 << 20);
    report.fields(&["repl_backlog_first_byte_offset", "repl_backlog_histlen"], 0);
}

pub(super) fn cpu(report: &mut Report) {
    for (suffix, whose) in
        [("", libc::RUSAGE_SELF), ("_children", libc::RUSAGE_CHILDREN), ("_main_thread", libc::RUSAGE_THREAD)]
    {
        let time = system::cpu_time(whose);
        report.field(format_args!("used_cpu_sys{suffix}"), format_args!("{:.6}", time.system));
        report.field(format_args!("used_cpu_user{suffix}"), format_args!("{:.6}", time.user));
    }
}

pub(super) fn commandstats(report: &mut Report) {
    let shared = report.shared;
    for command in shared.table.all_with_protocol() {
        let id = command.id;
        let calls = shared.observed.sum(|stats| &stats.command(id).calls);
        let rejected = shared.observed.sum(|stats| &stats.command(id).rejected);
        let failed = shared.observed.sum(|stats| &stats.command(id).failed);
        if calls + rejected + failed == 0 {
            continue;
        }
        let us = shared.observed.sum(|stats| &stats.command(id).ns) as f64 / 1000.0;
        let us_per_call = if calls == 0 { 0.0 } else { us / calls as f64 };
        report.field(
            format_args!("cmdstat_{}", command.full_name),
            format_args!(
                "calls={calls},usec={us:.0},usec_per_call={us_per_call:.2},rejected_calls={rejected},failed_calls={failed}"
            ),
        );
    }
}

pub(super) fn errorstats(report: &mut Report) {
    for (code, count) in report.shared.observed.errors() {
        report.field(format_args!("errorstat_{code}"), format_args!("count={count}"));
    }
}

pub(super) fn latencystats(report: &mut Report) {
    let shared = report.shared;
    let percents = shared.settings.text(LATENCY_PERCENTILES);
    let percents: Vec<f64> = percents.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    for command in shared.table.all_with_protocol() {
        let durations = Durations::of(&shared.observed, command.id);
        if durations.calls == 0 || percents.is_empty() {
            continue;
        }
        let shown: Vec<String> = percents
            .iter()
            .map(|percent| format!("p{percent}={:.3}", durations.percentile_us(*percent)))
            .collect();
        report.field(format_args!("latency_percentiles_usec_{}", command.full_name), shown.join(","));
    }
}

pub(super) fn cluster(report: &mut Report) {
    report.field("cluster_enabled", u8::from(report.shared.settings.is_on(CLUSTER_MODE)));
}

pub(super) fn keyspace(report: &mut Report) {
    let shared = report.shared;
    for db in 0..shared.settings.databases() {
        let keys: u64 = shared.shards.tallies(db).map(|tally| tally.keys.get()).sum();
        if keys > 0 {
            let expires: u64 = shared.shards.tallies(db).map(|tally| tally.volatile_keys.get()).sum();
            let weighed =
                |tally: &Tally| u128::from(tally.ttl_ms.get()) * u128::from(tally.volatile_keys.get());
            let ttl_sum: u128 = shared.shards.tallies(db).map(weighed).sum();
            let ttl_ms = ttl_sum / u128::from(expires.max(1));
            report.field(
                format_args!("db{db}"),
                format_args!("keys={keys},expires={expires},avg_ttl={ttl_ms}"),
            );
        }
    }
}

/// How commands came to their shards; not in Redis.
pub(super) fn transaction(report: &mut Report) {
    let shared = report.shared;
    for (name, entry_type) in [
        ("inline", EntryType::Inline),
        ("quick", EntryType::Quick),
        ("hop", EntryType::Hop),
        ("wide", EntryType::Wide),
        ("global", EntryType::Global),
        ("none", EntryType::None),
    ] {
        let count = shared.observed.sum(|stats| &stats.entries[entry_type as usize]);
        report.field(format_args!("tx_type_{name}"), count);
    }
    let mut widths = Vec::new();
    for bucket in 0..observe::WIDTH_BUCKETS {
        let count = shared.observed.sum(|stats| &stats.widths[bucket]);
        if count > 0 {
            widths.push(format!("{}={count}", 1 << bucket));
        }
    }
    report.field("tx_width_up_to", widths.join(","));
    report.field("tx_delegated", shared.observed.sum(|stats| &stats.delegated));
    report.field("tx_retries", shared.observed.sum(|stats| &stats.retries));
    report.field("tx_lent", shared.observed.sum(|stats| &stats.lent));
    report.field("tx_kept", shared.observed.sum(|stats| &stats.kept));
    report.field("tx_waiters", report.over_shards(|figures| &figures.waiters));
}
