//! The sections of INFO, one function each.

use keyspace::Tally;
use shard::Scope;

use super::{InfoValue, Report};
use crate::durations::Durations;
use crate::facts::{Followed, Persistence, Span};
use crate::observed::Observed;
use crate::stats::{Counter, Denial, EntryType, ThreadStats, WIDTH_BUCKETS};

pub(super) fn server(report: &mut Report) {
    let server = report.server;
    let uptime_seconds = server.uptime_seconds;
    report.text("redis_version", server.redis_version);
    report.text("redis_git_sha1", server.git_sha);
    report.text("redis_git_dirty", server.git_dirty);
    report.text("redis_build_id", server.build_id);
    report.text("redis_mode", server.mode);
    report.text("darter_version", server.darter_version);
    report.text("os", &server.os);
    report.number("arch_bits", usize::BITS);
    report.text("monotonic_clock", "processor counter");
    report.text("multiplexing_api", server.driver);
    report.text("atomicvar_api", "rust");
    report.number("process_id", std::process::id());
    report.text("process_supervised", server.supervisor);
    report.text("run_id", &server.run_id);
    report.number("tcp_port", server.port);
    report.number("server_time_usec", server.now_us);
    report.number("uptime_in_seconds", uptime_seconds);
    report.number("uptime_in_days", uptime_seconds / 86_400);
    report.number("hz", 10);
    report.number("configured_hz", 10);
    report.number("lru_clock", (server.now_us / 1_000_000) & 0xff_ffff);
    report.text("executable", &server.executable);
    report.text("config_file", &server.config_file);
    report.number("io_threads_active", 0);
    if let Some(left_ms) = server.shutdown_ms_left {
        report.number("shutdown_in_milliseconds", left_ms);
    }
    report.number("threads", server.thread_count as u64);
    report.number("threads_in_use", report.facts.observed().now(|stats| &stats.threads_in_use));
    report.number("shards", report.facts.shards().len() as u64);
    report.text("shard_entry", server.shard_entry);
    for (number, listener) in server.listeners.iter().enumerate() {
        report.text(&format!("listener{number}"), listener);
    }
}

pub(super) fn clients(report: &mut Report) {
    let (clients, observed) = (report.facts.clients(), report.facts.observed());
    report.number("connected_clients", clients.connected);
    report.number("cluster_connections", 0);
    report.number("maxclients", clients.max);
    let largest_input = observed.largest(|stats| &stats.recent_input_bytes_max);
    report.number("client_recent_max_input_buffer", largest_input);
    let largest_output = observed.largest(|stats| &stats.recent_output_bytes_max);
    report.number("client_recent_max_output_buffer", largest_output);
    report.number("blocked_clients", observed.now(|stats| &stats.blocked_clients));
    report.number("tracking_clients", clients.tracking as u64);
    report.number("clients_in_timeout_table", observed.now(|stats| &stats.clients_with_timeout));
    report.number("total_watched_keys", report.over_shards(|figures| &figures.watched_keys));
    report.number("total_blocking_keys", report.over_shards(|figures| &figures.awaited_keys));
    let for_loss = report.over_shards(|figures| &figures.awaited_keys_for_loss);
    report.number("total_blocking_keys_on_nokey", for_loss);
}

pub(super) fn memory(report: &mut Report) {
    let memory = report.facts.memory();
    let used = memory.used_bytes;
    report.bytes("used_memory", used);
    report.bytes("used_memory_rss", memory.rss_bytes);
    report.bytes("used_memory_peak", memory.peak_bytes);
    report.field("used_memory_peak_perc", InfoValue::Percent(memory.peak_percent()));
    report.number("used_memory_overhead", memory.overhead_bytes());
    report.number("used_memory_startup", memory.startup_bytes);
    report.number("used_memory_dataset", memory.dataset_bytes());
    report.field("used_memory_dataset_perc", InfoValue::Percent(memory.dataset_percent()));
    let active = used + memory.unused_bytes;
    report.number("allocator_allocated", used);
    report.number("allocator_active", active);
    report.number("allocator_resident", memory.rss_bytes);
    report.bytes("total_system_memory", memory.system_bytes);
    report.bytes("used_memory_lua", memory.script_state_bytes);
    report.number("used_memory_vm_eval", memory.script_state_bytes);
    report.number("used_memory_scripts_eval", memory.script_bytes);
    report.number("number_of_cached_scripts", memory.script_count as u64);
    report.number("number_of_functions", memory.function_count as u64);
    report.number("number_of_libraries", memory.library_count as u64);
    report.number("used_memory_vm_functions", memory.function_state_bytes);
    report.bytes("used_memory_vm_total", memory.script_state_bytes + memory.function_state_bytes);
    report.number("used_memory_functions", memory.function_bytes);
    report.bytes("used_memory_scripts", memory.script_bytes + memory.function_bytes);
    report.bytes("maxmemory", memory.limit_bytes);
    report.text("maxmemory_policy", &memory.policy);
    report.ratio("allocator_frag_ratio", active as f64 / used as f64);
    report.number("allocator_frag_bytes", memory.unused_bytes);
    report.ratio("allocator_rss_ratio", memory.rss_bytes as f64 / active as f64);
    report.number("allocator_rss_bytes", memory.rss_bytes as i64 - active as i64);
    report.ratio("rss_overhead_ratio", 1.0);
    report.number("rss_overhead_bytes", 0);
    report.ratio("mem_fragmentation_ratio", memory.fragmentation());
    report.number("mem_fragmentation_bytes", memory.rss_bytes as i64 - used as i64);
    report.number("mem_not_counted_for_evict", memory.not_counted_bytes());
    report.number("mem_replication_backlog", memory.backlog_bytes());
    report.number("mem_total_replication_buffers", memory.stream_bytes + memory.replica_output_bytes);
    report.number("mem_clients_slaves", memory.replica_bytes());
    report.number("mem_clients_normal", memory.client_bytes);
    report.zeros(&["mem_cluster_links"]);
    report.number("mem_aof_buffer", memory.journal_bytes);
    report.text("mem_allocator", memory.allocator);
    report.number("active_defrag_running", report.facts.observed().largest(|stats| &stats.defrag_percent));
    report.number("lazyfree_pending_objects", memory.garbage_count);
    report.total("lazyfreed_objects");
}

pub(super) fn persistence(report: &mut Report) {
    let known = report.facts.persistence();
    report.number("loading", u8::from(known.loading.is_some()));
    report.zeros(&["async_loading", "current_cow_peak", "current_cow_size", "current_cow_size_age"]);
    report.ratio("current_fork_perc", 0.0);
    let saving = known.saving.unwrap_or_default();
    report.number("current_save_keys_processed", saving.keys_done);
    report.number("current_save_keys_total", saving.key_count);
    report.number("rdb_changes_since_last_save", known.unsaved_changes);
    report.number("rdb_bgsave_in_progress", u8::from(known.saving.is_some()));
    report.number("rdb_last_save_time", known.last_save_seconds);
    report.text("rdb_last_bgsave_status", if known.last_failed { "err" } else { "ok" });
    report.number("rdb_last_bgsave_time_sec", known.last_took_seconds);
    let since = known.saving.map_or(-1, |saving| saving.seconds as i64);
    report.number("rdb_current_bgsave_time_sec", since);
    report.number("rdb_saves", known.save_count);
    report.number("rdb_last_cow_size", known.last_peak_bytes);
    report.number("rdb_last_load_keys_expired", known.expired_key_count);
    report.number("rdb_last_load_keys_loaded", known.loaded_key_count);
    journal(report, &known);
    if let Some(loading) = known.loading {
        report.number("loading_start_time", loading.started_seconds);
        report.number("loading_total_bytes", loading.total_bytes);
        report.number("loading_rdb_used_mem", loading.used_bytes);
        report.number("loading_loaded_bytes", loading.loaded_bytes);
        report.ratio("loading_loaded_perc", loading.percent);
        report.number("loading_eta_seconds", loading.seconds_left);
    }
}

/// Fields that describe the append-only file in Redis describe the journal here.
fn journal(report: &mut Report, known: &Persistence) {
    let (journal, checkpoints) = (known.journal, known.checkpoints);
    report.number("aof_enabled", u8::from(known.has_journal));
    report.number("aof_rewrite_in_progress", u8::from(checkpoints.current_seconds.is_some()));
    report.number("aof_rewrite_scheduled", u8::from(checkpoints.is_scheduled));
    let seconds = |seconds: Option<u64>| seconds.map_or(-1, |seconds| seconds as i64);
    report.number("aof_last_rewrite_time_sec", seconds(checkpoints.last_took_seconds));
    report.number("aof_current_rewrite_time_sec", seconds(checkpoints.current_seconds));
    report.text("aof_last_bgrewrite_status", if checkpoints.failures > 0 { "err" } else { "ok" });
    report.number("aof_rewrites", checkpoints.count);
    report.number("aof_rewrites_consecutive_failures", checkpoints.failures);
    let has_failed = journal.is_some_and(|journal| journal.has_failed);
    report.text("aof_last_write_status", if has_failed { "err" } else { "ok" });
    report.number("aof_last_cow_size", checkpoints.last_peak_bytes);
    report.zeros(&["module_fork_in_progress", "module_fork_last_cow_size"]);
    if let Some(journal) = journal {
        report.number("aof_current_size", journal.size_bytes);
        report.number("aof_base_size", journal.base_bytes);
        report.number("aof_pending_rewrite", 0);
        report.number("aof_buffer_length", journal.pending_bytes);
        report.number("aof_pending_bio_fsync", journal.syncs_pending);
        report.number("aof_delayed_fsync", journal.syncs_delayed);
        report.number("journal_slice", journal.slice);
        report.number("journal_durable_slice", journal.durable_slice);
        report.number("journal_position", journal.position);
        report.number("journal_commits", journal.write_count);
        report.number("journal_commit_usec", journal.write_us);
        report.number("journal_delayed_writes", journal.writes_delayed);
    }
    report.text("crash_now_loses", &known.at_risk);
}

pub(super) fn stats(report: &mut Report) {
    let (facts, observed) = (report.facts, report.facts.observed());
    let rate = observed.rate();
    report.total("total_connections_received");
    report.total("total_commands_processed");
    report.number("instantaneous_ops_per_sec", rate.commands);
    report.total("total_net_input_bytes");
    report.total("total_net_output_bytes");
    report.zeros(&["total_net_repl_input_bytes", "total_net_repl_output_bytes"]);
    report.ratio("instantaneous_input_kbps", rate.input_bytes as f64 / 1024.0);
    report.ratio("instantaneous_output_kbps", rate.output_bytes as f64 / 1024.0);
    report.ratio("instantaneous_input_repl_kbps", 0.0);
    report.ratio("instantaneous_output_repl_kbps", 0.0);
    report.total("connections_moved");
    report.total("rejected_connections");
    let syncs = report.facts.replication().syncs;
    for (name, count) in ["sync_full", "sync_partial_ok", "sync_partial_err"].iter().zip(syncs) {
        report.number(name, count);
    }
    report.number("expired_subkeys", report.over_shards(|figures| &figures.expired_elements));
    report.number("expired_keys", report.over_shards(|figures| &figures.expired_keys));
    report.ratio("expired_stale_perc", stale_percent(observed));
    report.zeros(&["expired_time_cap_reached_count", "expire_cycle_cpu_milliseconds"]);
    evictions(report);
    report.number("keyspace_hits", report.over_shards(|figures| &figures.keyspace_hits));
    report.number("keyspace_misses", report.over_shards(|figures| &figures.keyspace_misses));
    report.number("pubsub_channels", report.over_shards(|figures| &figures.channels[Scope::Global as usize]));
    report.number("pubsub_patterns", facts.pattern_count() as u64);
    let shard_channels = report.over_shards(|figures| &figures.channels[Scope::Shard as usize]);
    report.number("pubsubshard_channels", shard_channels);
    let absent = ["latest_fork_usec", "total_forks", "migrate_cached_sockets", "slave_expires_tracked_keys"];
    report.zeros(&absent);
    defragmentation(report);
    report.number("tracking_total_keys", report.over_shards(|figures| &figures.tracked_keys));
    report.number("tracking_total_items", report.over_shards(|figures| &figures.tracked_items));
    let prefix_count = facts.shards().figures().next().map_or(0, |figures| figures.tracked_prefixes.get());
    report.number("tracking_total_prefixes", prefix_count);
    report.number("unexpected_error_replies", facts.replication().error_count);
    report.total("total_error_replies");
    report.number("dump_payload_sanitizations", 0);
    report.total("total_reads_processed");
    report.total("total_writes_processed");
    let absent = [
        "io_threaded_reads_processed",
        "io_threaded_writes_processed",
        "reply_buffer_shrinks",
        "reply_buffer_expands",
        "current_client_thread",
    ];
    report.zeros(&absent);
    report.total("eventloop_cycles");
    report.number("eventloop_duration_sum", report.sum(|stats| &stats.cycles_ns) / 1000);
    report.number("eventloop_duration_cmd_sum", observed.commands_ns() / 1000);
    report.number("instantaneous_eventloop_cycles_per_sec", rate.cycles);
    report.number("instantaneous_eventloop_duration_usec", rate.cycle_us);
    denials(report);
}

/// How many of the keys that background expiry looked at lately had expired, in percent.
fn stale_percent(observed: &Observed) -> f64 {
    let sum = |figure: fn(&ThreadStats) -> &Counter| -> f64 {
        observed.threads().iter().map(|stats| figure(stats).get_f64()).sum()
    };
    let sampled = sum(|stats| &stats.sampled_keys);
    if sampled == 0.0 { 0.0 } else { sum(|stats| &stats.stale_keys) * 100.0 / sampled }
}

fn defragmentation(report: &mut Report) {
    report.total("active_defrag_hits");
    report.total("active_defrag_misses");
    report.total("active_defrag_key_hits");
    report.total("active_defrag_key_misses");
    let Span { current_ms, total_ms } = report.facts.spans().fragmented;
    report.number("total_active_defrag_time", total_ms);
    report.number("current_active_defrag_time", current_ms);
}

/// Commands and accesses that were denied.
fn denials(report: &mut Report) {
    for (name, denial) in [
        ("acl_access_denied_auth", Denial::Auth),
        ("acl_access_denied_cmd", Denial::Command),
        ("acl_access_denied_key", Denial::Key),
        ("acl_access_denied_channel", Denial::Channel),
    ] {
        report.number(name, report.sum(|stats| &stats.denied[denial as usize]));
    }
}

fn evictions(report: &mut Report) {
    report.number("evicted_keys", report.over_shards(|figures| &figures.evicted_keys));
    report.total("evicted_clients");
    let Span { current_ms, total_ms } = report.facts.spans().exceeded;
    report.number("total_eviction_exceeded_time", total_ms);
    report.number("current_eviction_exceeded_time", current_ms);
}

/// The fields of a replica about its primary.
fn followed(report: &mut Report, followed: &Followed) {
    let (is_up, silent_seconds) = (followed.is_up, followed.silent_seconds as i64);
    report.text("role", "slave");
    report.text("master_host", &followed.host);
    report.number("master_port", followed.port);
    report.text("master_link_status", if is_up { "up" } else { "down" });
    report.number("master_last_io_seconds_ago", if is_up { silent_seconds } else { -1 });
    report.number("master_sync_in_progress", u64::from(followed.snapshot.is_some()));
    report.number("slave_read_repl_offset", followed.offset);
    report.number("slave_repl_offset", followed.offset);
    if let Some((total, read)) = followed.snapshot {
        let percent = if total > 0 { read as f64 / total as f64 * 100.0 } else { 0.0 };
        report.number("master_sync_total_bytes", total);
        report.number("master_sync_read_bytes", read);
        report.number("master_sync_left_bytes", total as i64 - read as i64);
        report.field("master_sync_perc", InfoValue::Ratio(percent));
        report.number("master_sync_last_io_seconds_ago", silent_seconds);
    }
    if !is_up {
        report.number("master_link_down_since_seconds", followed.down_seconds);
    }
    report.number("master_link_divergence", followed.divergence);
    report.number("slave_priority", followed.priority);
    report.number("slave_read_only", u64::from(followed.is_read_only));
    report.number("replica_announced", u64::from(followed.is_announced));
}

pub(super) fn replication(report: &mut Report) {
    let facts = report.facts.replication();
    match &facts.followed {
        None => report.text("role", "master"),
        Some(followed) => self::followed(report, followed),
    }
    report.number("connected_slaves", facts.replicas.len() as u64);
    if let Some(count) = facts.close_count {
        report.number("min_slaves_good_slaves", count);
    }
    if let Some(count) = facts.synced_count {
        report.number("repl_sync_good_replicas", count);
    }
    if facts.is_in_doubt {
        report.number("repl_sync_in_doubt", 1);
    }
    if facts.unsupported_count > 0 {
        report.number("repl_unsupported_effects", facts.unsupported_count);
    }
    for (index, replica) in facts.replicas.iter().enumerate() {
        report.text(&format!("slave{index}"), replica);
    }
    report.text("master_failover_state", facts.failover);
    let (former, former_end) = facts.former.unwrap_or_else(|| ("0".repeat(40), 0));
    report.text("master_replid", &facts.id);
    report.text("master_replid2", &former);
    report.number("master_repl_offset", facts.offset);
    report.number("second_repl_offset", if former_end > 0 { former_end as i64 + 1 } else { -1 });
    report.number("repl_backlog_active", u64::from(facts.first.is_some()));
    report.number("repl_backlog_size", facts.backlog_bytes);
    // The first byte is number 1.
    report.number("repl_backlog_first_byte_offset", facts.first.map_or(0, |first| first + 1));
    report.number("repl_backlog_histlen", facts.first.map_or(0, |first| facts.offset - first));
}

pub(super) fn cpu(report: &mut Report) {
    for (whose, time) in ["", "_children", "_main_thread"].iter().zip(report.facts.cpu()) {
        report.field(&format!("used_cpu_sys{whose}"), InfoValue::Seconds(time.system));
        report.field(&format!("used_cpu_user{whose}"), InfoValue::Seconds(time.user));
    }
}

pub(super) fn commandstats(report: &mut Report) {
    for command in report.facts.table().all_with_protocol() {
        let id = command.id;
        let calls = report.sum(|stats| &stats.command(id).calls);
        let rejected = report.sum(|stats| &stats.command(id).rejected);
        let failed = report.sum(|stats| &stats.command(id).failed);
        if calls + rejected + failed == 0 {
            continue;
        }
        let us = report.sum(|stats| &stats.command(id).ns) as f64 / 1000.0;
        let us_per_call = if calls == 0 { 0.0 } else { us / calls as f64 };
        let text = format!(
            "calls={calls},usec={us:.0},usec_per_call={us_per_call:.2},rejected_calls={rejected},failed_calls={failed}"
        );
        report.text(&format!("cmdstat_{}", command.full_name), &text);
    }
}

pub(super) fn errorstats(report: &mut Report) {
    for (code, count) in report.facts.observed().errors() {
        report.text(&format!("errorstat_{code}"), &format!("count={count}"));
    }
}

pub(super) fn latencystats(report: &mut Report) {
    let percents = report.facts.latency_percents();
    for command in report.facts.table().all_with_protocol() {
        let durations = Durations::of(report.facts.observed(), command.id);
        if durations.calls == 0 || percents.is_empty() {
            continue;
        }
        let shown: Vec<String> = percents
            .iter()
            .map(|percent| format!("p{percent}={:.3}", durations.percentile_us(*percent)))
            .collect();
        report.text(&format!("latency_percentiles_usec_{}", command.full_name), &shown.join(","));
    }
}

pub(super) fn cluster(report: &mut Report) {
    report.number("cluster_enabled", u8::from(report.server.is_cluster));
    let Some(group) = report.facts.replication().group else { return };
    report.text("group_name", &group.name);
    report.text("group_node", &group.node.0);
    report.text("group_life", &group.node.1);
    report.text("group_role", group.role);
    report.number("group_term", group.term.0);
    report.number("group_revision", group.term.1);
    report.text("group_leader", &group.leader);
    report.text("group_in_sync", &group.in_sync.join(","));
    report.text("group_members", &group.members.join(","));
    report.number("group_outcome_unknown", u64::from(group.is_outcome_unknown));
    if let Some(serves_for_ms) = group.serves_for_ms {
        report.number("group_serves_for_ms", serves_for_ms);
    }
    for (node, left_ms, offset) in &group.grants {
        report.text(&format!("group_grant_{node}"), &format!("left_ms={left_ms},offset={offset}"));
    }
}

pub(super) fn keyspace(report: &mut Report) {
    let shards = report.facts.shards();
    for db in 0..report.server.database_count {
        let keys: u64 = shards.tallies(db).map(|tally| tally.keys.get()).sum();
        if keys > 0 {
            let expires: u64 = shards.tallies(db).map(|tally| tally.volatile_keys.get()).sum();
            let weighed =
                |tally: &Tally| u128::from(tally.ttl_ms.get()) * u128::from(tally.volatile_keys.get());
            let ttl_sum: u128 = shards.tallies(db).map(weighed).sum();
            let ttl_ms = ttl_sum / u128::from(expires.max(1));
            report.text(&format!("db{db}"), &format!("keys={keys},expires={expires},avg_ttl={ttl_ms}"));
        }
    }
}

/// How commands entered their shards. Redis does not have this section.
pub(super) fn transaction(report: &mut Report) {
    for (name, entry_type) in EntryType::NAMED {
        let count = report.sum(|stats| &stats.entries[entry_type as usize]);
        report.number(&format!("tx_type_{name}"), count);
    }
    let mut widths = Vec::new();
    for bucket in 0..WIDTH_BUCKETS {
        let count = report.sum(|stats| &stats.widths[bucket]);
        if count > 0 {
            widths.push(format!("{}={count}", 1 << bucket));
        }
    }
    report.text("tx_width_up_to", &widths.join(","));
    report.total("tx_delegated");
    report.total("tx_retries");
    report.total("tx_lent");
    report.total("tx_kept");
    report.number("tx_waiters", report.over_shards(|figures| &figures.waiters));
}
