//! The metrics of redis_exporter, under its names: the figures of INFO, and what the exporter collects in addition.
//!
//! A figure of INFO is read under the name that it has there (`observe::figures`), so that both are always equal.
//! Figures about the exporter itself have the values of a healthy exporter, because alerts use them.

use std::collections::HashMap;
use std::sync::OnceLock;

use config::{MAXCLIENTS, Settings};
use observe::{CommandStats, Counter, Durations, Facts, InfoValue, ThreadStats};

use super::exposition::{Exposition, Kind, number};
use crate::state::HttpState;

/// The exporter's name for a figure of INFO.
#[derive(Clone, Copy)]
struct Name {
    info: &'static str,
    metric: &'static str,
    kind: Kind,
}

const fn gauge(info: &'static str, metric: &'static str) -> Name {
    Name { info, metric, kind: Kind::Gauge }
}

const fn counter(info: &'static str, metric: &'static str) -> Name {
    Name { info, metric, kind: Kind::Counter }
}

/// The sections of INFO that contain them.
const SECTIONS: [&str; 7] = ["Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "CPU"];

/// Those of INFO's figures that are not counters of threads, which have their names where they are declared
/// ([`ThreadStats::TOTALS`]).
const NAMES: &[Name] = &[
    // Server
    gauge("uptime_in_seconds", "redis_uptime_in_seconds"),
    gauge("process_id", "redis_process_id"),
    gauge("io_threads_active", "redis_io_threads_active"),
    gauge("hz", "redis_hz"),
    gauge("configured_hz", "redis_configured_hz"),
    // Clients
    gauge("connected_clients", "redis_connected_clients"),
    gauge("blocked_clients", "redis_blocked_clients"),
    gauge("maxclients", "redis_max_clients"),
    gauge("tracking_clients", "redis_tracking_clients"),
    gauge("clients_in_timeout_table", "redis_clients_in_timeout_table"),
    gauge("total_watched_keys", "redis_total_watched_keys"),
    gauge("total_blocking_keys", "redis_total_blocking_keys"),
    gauge("total_blocking_keys_on_nokey", "redis_total_blocking_keys_on_nokey"),
    gauge("cluster_connections", "redis_cluster_connections"),
    gauge("client_recent_max_output_buffer", "redis_client_recent_max_output_buffer_bytes"),
    gauge("client_recent_max_input_buffer", "redis_client_recent_max_input_buffer_bytes"),
    // Memory
    gauge("allocator_active", "redis_allocator_active_bytes"),
    gauge("allocator_allocated", "redis_allocator_allocated_bytes"),
    gauge("allocator_resident", "redis_allocator_resident_bytes"),
    gauge("allocator_frag_ratio", "redis_allocator_frag_ratio"),
    gauge("allocator_frag_bytes", "redis_allocator_frag_bytes"),
    gauge("allocator_rss_ratio", "redis_allocator_rss_ratio"),
    gauge("allocator_rss_bytes", "redis_allocator_rss_bytes"),
    gauge("used_memory", "redis_memory_used_bytes"),
    gauge("used_memory_rss", "redis_memory_used_rss_bytes"),
    gauge("used_memory_peak", "redis_memory_used_peak_bytes"),
    gauge("used_memory_lua", "redis_memory_used_lua_bytes"),
    gauge("used_memory_vm_eval", "redis_memory_used_vm_eval_bytes"),
    gauge("used_memory_scripts_eval", "redis_memory_used_scripts_eval_bytes"),
    gauge("used_memory_overhead", "redis_memory_used_overhead_bytes"),
    gauge("used_memory_startup", "redis_memory_used_startup_bytes"),
    gauge("used_memory_dataset", "redis_memory_used_dataset_bytes"),
    gauge("number_of_cached_scripts", "redis_number_of_cached_scripts"),
    gauge("number_of_functions", "redis_number_of_functions"),
    gauge("number_of_libraries", "redis_number_of_libraries"),
    gauge("used_memory_vm_functions", "redis_memory_used_vm_functions_bytes"),
    gauge("used_memory_scripts", "redis_memory_used_scripts_bytes"),
    gauge("used_memory_functions", "redis_memory_used_functions_bytes"),
    gauge("used_memory_vm_total", "redis_memory_used_vm_total"),
    gauge("maxmemory", "redis_memory_max_bytes"),
    gauge("mem_fragmentation_ratio", "redis_mem_fragmentation_ratio"),
    gauge("mem_fragmentation_bytes", "redis_mem_fragmentation_bytes"),
    gauge("mem_clients_slaves", "redis_mem_clients_slaves"),
    gauge("mem_clients_normal", "redis_mem_clients_normal"),
    gauge("mem_cluster_links", "redis_mem_cluster_links_bytes"),
    gauge("mem_aof_buffer", "redis_mem_aof_buffer_bytes"),
    gauge("mem_replication_backlog", "redis_mem_replication_backlog_bytes"),
    gauge("mem_not_counted_for_evict", "redis_mem_not_counted_for_eviction_bytes"),
    gauge("mem_total_replication_buffers", "redis_mem_total_replication_buffers_bytes"),
    gauge("lazyfree_pending_objects", "redis_lazyfree_pending_objects"),
    gauge("active_defrag_running", "redis_active_defrag_running"),
    gauge("total_system_memory", "redis_total_system_memory_bytes"),
    // Persistence
    gauge("loading", "redis_loading_dump_file"),
    gauge("async_loading", "redis_async_loading"),
    gauge("rdb_changes_since_last_save", "redis_rdb_changes_since_last_save"),
    gauge("rdb_bgsave_in_progress", "redis_rdb_bgsave_in_progress"),
    gauge("rdb_last_save_time", "redis_rdb_last_save_timestamp_seconds"),
    gauge("rdb_last_bgsave_status", "redis_rdb_last_bgsave_status"),
    gauge("rdb_last_bgsave_time_sec", "redis_rdb_last_bgsave_duration_sec"),
    gauge("rdb_current_bgsave_time_sec", "redis_rdb_current_bgsave_duration_sec"),
    gauge("rdb_saves", "redis_rdb_saves_total"),
    gauge("rdb_last_cow_size", "redis_rdb_last_cow_size_bytes"),
    gauge("rdb_last_load_keys_expired", "redis_rdb_last_load_expired_keys"),
    gauge("rdb_last_load_keys_loaded", "redis_rdb_last_load_loaded_keys"),
    gauge("aof_enabled", "redis_aof_enabled"),
    gauge("aof_rewrite_in_progress", "redis_aof_rewrite_in_progress"),
    gauge("aof_rewrite_scheduled", "redis_aof_rewrite_scheduled"),
    gauge("aof_last_rewrite_time_sec", "redis_aof_last_rewrite_duration_sec"),
    gauge("aof_current_rewrite_time_sec", "redis_aof_current_rewrite_duration_sec"),
    gauge("aof_last_cow_size", "redis_aof_last_cow_size_bytes"),
    gauge("aof_current_size", "redis_aof_current_size_bytes"),
    gauge("aof_base_size", "redis_aof_base_size_bytes"),
    gauge("aof_pending_rewrite", "redis_aof_pending_rewrite"),
    gauge("aof_buffer_length", "redis_aof_buffer_length"),
    gauge("aof_rewrite_buffer_length", "redis_aof_rewrite_buffer_length"),
    gauge("aof_pending_bio_fsync", "redis_aof_pending_bio_fsync"),
    gauge("aof_delayed_fsync", "redis_aof_delayed_fsync"),
    gauge("aof_last_bgrewrite_status", "redis_aof_last_bgrewrite_status"),
    gauge("aof_last_write_status", "redis_aof_last_write_status"),
    gauge("module_fork_in_progress", "redis_module_fork_in_progress"),
    gauge("module_fork_last_cow_size", "redis_module_fork_last_cow_size"),
    // Stats
    gauge("instantaneous_ops_per_sec", "redis_instantaneous_ops_per_sec"),
    counter("total_net_repl_input_bytes", "redis_net_repl_input_bytes_total"),
    counter("total_net_repl_output_bytes", "redis_net_repl_output_bytes_total"),
    counter("expired_subkeys", "redis_expired_subkeys_total"),
    counter("expired_keys", "redis_expired_keys_total"),
    gauge("expired_stale_perc", "redis_expired_stale_percentage"),
    counter("expired_time_cap_reached_count", "redis_expired_time_cap_reached_total"),
    counter("expire_cycle_cpu_milliseconds", "redis_expire_cycle_cpu_time_ms_total"),
    counter("evicted_keys", "redis_evicted_keys_total"),
    counter("total_eviction_exceeded_time", "redis_eviction_exceeded_time_ms_total"),
    gauge("current_eviction_exceeded_time", "redis_current_eviction_exceeded_time_ms"),
    counter("keyspace_hits", "redis_keyspace_hits_total"),
    counter("keyspace_misses", "redis_keyspace_misses_total"),
    gauge("pubsub_channels", "redis_pubsub_channels"),
    gauge("pubsub_patterns", "redis_pubsub_patterns"),
    gauge("pubsubshard_channels", "redis_pubsubshard_channels"),
    gauge("migrate_cached_sockets", "redis_migrate_cached_sockets_total"),
    gauge("slave_expires_tracked_keys", "redis_slave_expires_tracked_keys"),
    gauge("tracking_total_keys", "redis_tracking_total_keys"),
    gauge("tracking_total_items", "redis_tracking_total_items"),
    gauge("tracking_total_prefixes", "redis_tracking_total_prefixes"),
    counter("unexpected_error_replies", "redis_unexpected_error_replies"),
    counter("dump_payload_sanitizations", "redis_dump_payload_sanitizations"),
    counter("io_threaded_reads_processed", "redis_io_threaded_reads_processed"),
    counter("io_threaded_writes_processed", "redis_io_threaded_writes_processed"),
    counter("reply_buffer_shrinks", "redis_reply_buffer_shrinks_total"),
    counter("reply_buffer_expands", "redis_reply_buffer_expands_total"),
    counter("acl_access_denied_auth", "redis_acl_access_denied_auth_total"),
    counter("acl_access_denied_cmd", "redis_acl_access_denied_cmd_total"),
    counter("acl_access_denied_key", "redis_acl_access_denied_key_total"),
    counter("acl_access_denied_channel", "redis_acl_access_denied_channel_total"),
    counter("acl_access_denied_db", "redis_acl_access_denied_db_total"),
    gauge("current_client_thread", "redis_current_client_thread"),
    // Replication
    gauge("connected_slaves", "redis_connected_slaves"),
    gauge("repl_backlog_size", "redis_replication_backlog_bytes"),
    gauge("repl_backlog_active", "redis_repl_backlog_is_active"),
    gauge("repl_backlog_first_byte_offset", "redis_repl_backlog_first_byte_offset"),
    gauge("repl_backlog_histlen", "redis_repl_backlog_history_bytes"),
    gauge("master_repl_offset", "redis_master_repl_offset"),
    gauge("second_repl_offset", "redis_second_repl_offset"),
    gauge("slave_priority", "redis_slave_priority"),
    gauge("sync_full", "redis_replica_resyncs_full"),
    gauge("sync_partial_ok", "redis_replica_partial_resync_accepted"),
    gauge("sync_partial_err", "redis_replica_partial_resync_denied"),
    // CPU
    counter("used_cpu_sys", "redis_cpu_sys_seconds_total"),
    counter("used_cpu_user", "redis_cpu_user_seconds_total"),
    counter("used_cpu_sys_children", "redis_cpu_sys_children_seconds_total"),
    counter("used_cpu_user_children", "redis_cpu_user_children_seconds_total"),
    counter("used_cpu_sys_main_thread", "redis_cpu_sys_main_thread_seconds_total"),
    counter("used_cpu_user_main_thread", "redis_cpu_user_main_thread_seconds_total"),
];

/// Writes these metrics.
pub(super) fn write(page: &mut Exposition, facts: &dyn Facts, state: &HttpState) {
    let settings = state.source.settings();
    exporter(page, state);
    info(page, facts);
    instance(page, facts);
    databases(page, facts);
    commands(page, facts);
    errors(page, facts);
    latencies(page, facts);
    slow_log(page, facts);
    replicas(page, facts);
    configuration(page, settings, facts);
}

/// Metrics of the exporter about itself.
fn exporter(page: &mut Exposition, state: &HttpState) {
    let counts = &state.counts;
    let [all_seconds, last_seconds] = counts.scrape_seconds.get();
    page.single("redis_up", Kind::Gauge, "1: the server answers.", 1.0);
    page.family("redis_exporter_last_scrape_error", Kind::Gauge, "1 if the last scrape failed; always 0.");
    page.sample("redis_exporter_last_scrape_error", &[("err", "")], 0.0);
    for (name, kind, help, value) in [
        (
            "redis_exporter_last_scrape_connect_time_seconds",
            Kind::Gauge,
            "Always 0: the metrics come from the server itself.",
            0.0,
        ),
        (
            "redis_exporter_last_scrape_duration_seconds",
            Kind::Gauge,
            "Duration of the last scrape.",
            last_seconds,
        ),
        (
            "redis_exporter_scrapes_total",
            Kind::Counter,
            "Scrapes before this one.",
            counts.scrapes.get() as f64,
        ),
        (
            "redis_target_scrape_request_errors_total",
            Kind::Counter,
            "Always 0: there is no other target.",
            0.0,
        ),
        (
            "redis_last_key_groups_scrape_duration_milliseconds",
            Kind::Gauge,
            "Always 0: keys are not grouped.",
            0.0,
        ),
    ] {
        page.single(name, kind, help, value);
    }
    let name = "redis_exporter_scrape_duration_seconds";
    page.family(name, Kind::Summary, "Durations of scrapes.");
    page.sample("redis_exporter_scrape_duration_seconds_sum", &[], all_seconds);
    page.sample("redis_exporter_scrape_duration_seconds_count", &[], counts.scrapes.get() as f64);
    page.family(
        "redis_exporter_build_info",
        Kind::Gauge,
        "Version of the server, which provides the metrics itself.",
    );
    let facts = state.source.facts();
    let labels = [("version", facts.server().darter_version), ("commit_sha", facts.server().git_sha)];
    page.sample("redis_exporter_build_info", &labels, 1.0);
}

/// The figures of INFO.
fn info(page: &mut Exposition, facts: &dyn Facts) {
    static BY_FIELD: OnceLock<HashMap<&'static str, Name>> = OnceLock::new();
    let by_field = BY_FIELD.get_or_init(|| {
        let totals = ThreadStats::TOTALS.iter().filter_map(|total| {
            let (metric, is_gauge) = total.metric?;
            Some(Name { info: total.info?, metric, kind: if is_gauge { Kind::Gauge } else { Kind::Counter } })
        });
        NAMES.iter().copied().chain(totals).map(|name| (name.info, name)).collect()
    });
    observe::figures(facts, &SECTIONS, &mut |field, value: InfoValue<'_>| {
        let Some(value) = number(value) else { return };
        if let Some(name) = by_field.get(field) {
            page.single(name.metric, name.kind, &format!("{field} of INFO."), value);
        }
        if field == "latest_fork_usec" {
            let help = "latest_fork_usec of INFO, in seconds.";
            page.single("redis_latest_fork_seconds", Kind::Gauge, help, value / 1e6);
        }
    });
}

/// Information that identifies the instance.
fn instance(page: &mut Exposition, facts: &dyn Facts) {
    let (server, replication, memory) = (facts.server(), facts.replication(), facts.memory());
    let started_s = (server.now_us / 1_000_000).saturating_sub(server.uptime_seconds);
    page.single(
        "redis_start_time_seconds",
        Kind::Gauge,
        "Time of the start, in seconds since 1970.",
        started_s as f64,
    );
    let is_cluster = f64::from(u8::from(server.is_cluster));
    page.single("redis_cluster_enabled", Kind::Gauge, "cluster_enabled of INFO.", is_cluster);
    let (port, process_id) = (server.port.to_string(), std::process::id().to_string());
    let role = if replication.followed.is_some() { "slave" } else { "master" };
    page.family("redis_instance_info", Kind::Gauge, "Information about the instance.");
    let labels = [
        ("role", role),
        ("redis_version", server.redis_version),
        ("redis_build_id", server.build_id),
        ("redis_mode", server.mode),
        ("os", &server.os),
        ("maxmemory_policy", &memory.policy),
        ("tcp_port", &port),
        ("run_id", &server.run_id),
        ("process_id", &process_id),
        ("master_replid", &replication.id),
    ];
    page.sample("redis_instance_info", &labels, 1.0);
}

/// Keys by database.
fn databases(page: &mut Exposition, facts: &dyn Facts) {
    let shards = facts.shards();
    let databases: Vec<(String, [f64; 3])> = (0..facts.server().database_count)
        .map(|db| {
            let keys: u64 = shards.tallies(db).map(|tally| tally.keys.get()).sum();
            let expiring: u64 = shards.tallies(db).map(|tally| tally.volatile_keys.get()).sum();
            let weighed = shards
                .tallies(db)
                .map(|tally| u128::from(tally.ttl_ms.get()) * u128::from(tally.volatile_keys.get()));
            let ttl_ms = weighed.sum::<u128>() / u128::from(expiring.max(1));
            (format!("db{db}"), [keys as f64, expiring as f64, ttl_ms as f64 / 1000.0])
        })
        .collect();
    for (index, name, help) in [
        (0, "redis_db_keys", "Keys of each database."),
        (1, "redis_db_keys_expiring", "Keys of each database that expire."),
        (2, "redis_db_avg_ttl_seconds", "Average time to live of the expiring keys of each database."),
    ] {
        page.family(name, Kind::Gauge, help);
        for (db, figures) in &databases {
            // As the exporter has it: a database without keys has no lifetimes.
            if index < 2 || figures[0] > 0.0 {
                page.sample(name, &[("db", db)], figures[index]);
            }
        }
    }
}

/// Calls, durations and failures of each command.
fn commands(page: &mut Exposition, facts: &dyn Facts) {
    let observed = facts.observed();
    let mut called: Vec<(&str, [f64; 4])> = Vec::new();
    let (mut durations, percents) = (Vec::new(), facts.latency_percents());
    for command in facts.table().all_with_protocol() {
        let sum = |counter: fn(&CommandStats) -> &Counter| {
            observed.sum(|stats| counter(stats.command(command.id))) as f64
        };
        let us = (sum(|stats| &stats.ns) / 1000.0).round();
        let sums = [sum(|stats| &stats.calls), us, sum(|stats| &stats.rejected), sum(|stats| &stats.failed)];
        if sums[0] + sums[2] + sums[3] > 0.0 {
            called.push((&command.full_name, sums));
            let known = Durations::of(observed, command.id);
            if known.calls > 0 {
                durations.push((&*command.full_name, us, known));
            }
        }
    }
    for (index, name, help, scale) in [
        (0, "redis_commands_total", "Calls of each command.", 1.0),
        (1, "redis_commands_duration_seconds_total", "Total duration of the calls of each command.", 1e6),
        (2, "redis_commands_rejected_calls_total", "Calls of each command refused before they ran.", 1.0),
        (3, "redis_commands_failed_calls_total", "Calls of each command that ended with an error.", 1.0),
    ] {
        page.family(name, Kind::Counter, help);
        called.iter().for_each(|(command, sums)| page.sample(name, &[("cmd", command)], sums[index] / scale));
    }
    let name = "redis_latency_percentiles_usec";
    page.family(name, Kind::Summary, "Percentiles of the durations of each command.");
    for (command, us, known) in durations.iter().filter(|_| !percents.is_empty()) {
        for percent in &percents {
            let rounded = (known.percentile_us(*percent) * 1000.0).round() / 1000.0;
            page.sample(name, &[("cmd", command), ("quantile", &percent.to_string())], rounded);
        }
        page.sample("redis_latency_percentiles_usec_sum", &[("cmd", command)], *us);
        page.sample("redis_latency_percentiles_usec_count", &[("cmd", command)], known.calls as f64);
    }
    let name = "redis_commands_latencies_usec";
    page.family(name, Kind::Histogram, "Durations of each command.");
    for (command, us, known) in &durations {
        for (bound_us, calls) in known.cumulative_us() {
            let labels = [("cmd", *command), ("le", &bound_us.to_string())];
            page.sample("redis_commands_latencies_usec_bucket", &labels, calls as f64);
        }
        let labels = [("cmd", *command), ("le", "+Inf")];
        page.sample("redis_commands_latencies_usec_bucket", &labels, known.calls as f64);
        page.sample("redis_commands_latencies_usec_sum", &[("cmd", command)], *us);
        page.sample("redis_commands_latencies_usec_count", &[("cmd", command)], known.calls as f64);
    }
}

/// Error replies by code.
fn errors(page: &mut Exposition, facts: &dyn Facts) {
    page.family("redis_errors_total", Kind::Counter, "Error replies by their first word.");
    for (code, count) in facts.observed().errors() {
        page.sample("redis_errors_total", &[("err", &code)], count as f64);
    }
}

/// The last samples of the latency monitor.
fn latencies(page: &mut Exposition, facts: &dyn Facts) {
    let spikes = facts.observed().latency_spikes();
    page.family(
        "redis_latency_spike_last",
        Kind::Gauge,
        "Time of the last slow event of each kind, in seconds since 1970.",
    );
    for (event, unix_s, _) in &spikes {
        page.sample("redis_latency_spike_last", &[("event_name", event)], *unix_s as f64);
    }
    page.family("redis_latency_spike_duration_seconds", Kind::Gauge, "Duration of that event.");
    for (event, _, ms) in &spikes {
        page.sample("redis_latency_spike_duration_seconds", &[("event_name", event)], *ms as f64 / 1000.0);
    }
}

fn slow_log(page: &mut Exposition, facts: &dyn Facts) {
    let (length, newest) = facts.observed().slowest();
    let (id, us) = newest.unwrap_or_default();
    page.single("redis_slowlog_length", Kind::Gauge, "Commands in the slow log.", length as f64);
    page.single("redis_slowlog_last_id", Kind::Gauge, "The number of the last slow command.", id as f64);
    let help = "Duration of the last slow command.";
    page.single("redis_last_slow_execution_duration_seconds", Kind::Gauge, help, us as f64 / 1e6);
}

/// The replicas and the primary.
fn replicas(page: &mut Exposition, facts: &dyn Facts) {
    let replication = facts.replication();
    let fields = |line: &str, name: &str| -> String {
        let fields = line.split(',').filter_map(|field| field.split_once('='));
        fields.filter(|(known, _)| *known == name).map(|(_, value)| value.to_owned()).collect()
    };
    for (name, field, help) in [
        ("redis_connected_slave_offset_bytes", "offset", "Offset that each replica has acknowledged."),
        ("redis_connected_slave_lag_seconds", "lag", "Seconds since each replica was last heard from."),
    ] {
        page.family(name, Kind::Gauge, help);
        for line in &replication.replicas {
            let (ip, port, state) = (fields(line, "ip"), fields(line, "port"), fields(line, "state"));
            let Ok(value) = fields(line, field).parse::<f64>() else { continue };
            page.sample(name, &[("slave_ip", &ip), ("slave_port", &port), ("slave_state", &state)], value);
        }
    }
    let Some(followed) = &replication.followed else { return };
    let (host, port) = (&followed.host, followed.port.to_string());
    let labels = [("master_host", host.as_str()), ("master_port", &port)];
    let silent_s = if followed.is_up { followed.silent_seconds as f64 } else { -1.0 };
    for (name, help, value) in [
        (
            "redis_master_link_up",
            "1 while the link to the primary is up.",
            f64::from(u8::from(followed.is_up)),
        ),
        (
            "redis_master_last_io_seconds_ago",
            "Seconds since the primary last sent something; -1 if the link is down.",
            silent_s,
        ),
        (
            "redis_master_sync_in_progress",
            "1 while a snapshot is being received.",
            f64::from(u8::from(followed.snapshot.is_some())),
        ),
        (
            "redis_slave_repl_offset",
            "Offset up to which the stream has been applied.",
            followed.offset as f64,
        ),
    ] {
        page.family(name, Kind::Gauge, help);
        page.sample(name, &labels, value);
    }
    let read_only = if followed.is_read_only { "1" } else { "0" };
    page.family("redis_slave_info", Kind::Gauge, "Information about this replica.");
    let labels = [("master_host", host.as_str()), ("master_port", &port), ("read_only", read_only)];
    page.sample("redis_slave_info", &labels, 1.0);
}

/// Settings that the exporter shows as metrics.
fn configuration(page: &mut Exposition, settings: &Settings, facts: &dyn Facts) {
    for (name, value) in [
        ("redis_config_maxclients", settings.number(MAXCLIENTS) as f64),
        ("redis_config_maxmemory", settings.memory_bytes_max() as f64),
        ("redis_config_io_threads", f64::from(settings.number(config::IO_THREADS) as i32)),
    ] {
        page.single(name, Kind::Gauge, "A setting.", value);
    }
    let classes = ["normal", "slave", "pubsub"].into_iter().enumerate();
    let limits: Vec<_> = classes.map(|(index, class)| (class, settings.output_limit(index))).collect();
    let name = "redis_config_client_output_buffer_limit_bytes";
    page.family(name, Kind::Gauge, "Limits of the output of each class of clients.");
    for (class, limit) in &limits {
        page.sample(name, &[("class", class), ("limit", "hard")], limit.hard_bytes as f64);
        page.sample(name, &[("class", class), ("limit", "soft")], limit.soft_bytes as f64);
    }
    let name = "redis_config_client_output_buffer_limit_overcome_seconds";
    page.family(name, Kind::Gauge, "For how long the soft limit may be exceeded.");
    for (class, limit) in &limits {
        page.sample(name, &[("class", class), ("limit", "soft")], limit.soft_seconds as f64);
    }
    let thread_count = facts.server().thread_count as f64;
    page.single("redis_server_threads_total", Kind::Gauge, "Threads that serve clients.", thread_count);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_given_twice() {
        let mut metrics: Vec<&str> = NAMES.iter().map(|name| name.metric).collect();
        let mut fields: Vec<&str> = NAMES.iter().map(|name| name.info).collect();
        for names in [&mut metrics, &mut fields] {
            names.sort_unstable();
            let count = names.len();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }
}
