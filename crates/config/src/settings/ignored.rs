//! Directives of `redis.conf` and `valkey.conf` that have no effect here.
//!
//! A configuration written for another server must start Darter, so they are accepted, kept, and returned by `CONFIG
//! GET`. For each it was decided whether it is a promise. Promises, about safety or about who talks to whom, are
//! refused with any value but the harmless one ([`Foreign::refused`]). Of the others, the log lists once those whose
//! value is not the default, because their author expects an effect. If no value makes a difference here
//! ([`Foreign::any`]), it is not listed.

use crate::{Foreign, SettingKind};

const DH: &str = "keys are agreed on over elliptic curves only; remove the line";
const RDMA: &str = "there is no RDMA; set it to 0";
const IMPORT: &str = "keys always expire and are evicted; set it to no";
const SOCKET_MARK: &str = "sockets are not marked; mark them by the unit's control group, and set it to 0";
const SOCKET_GROUP: &str =
    "the socket's group is not set; put the socket into a directory of that group, and remove the line";

const fn yes_no(name: &'static str, default: &'static str) -> Foreign {
    Foreign::of(name, SettingKind::Bool, default)
}

const fn number(name: &'static str, default: &'static str) -> Foreign {
    Foreign::of(name, SettingKind::Integer { min: i64::MIN, max: i64::MAX }, default)
}

const fn memory(name: &'static str, default: &'static str) -> Foreign {
    Foreign::of(name, SettingKind::Memory { min: 0, max: i64::MAX }, default)
}

/// Several words, which a line has without quotes.
const fn words(name: &'static str, default: &'static str) -> Foreign {
    Foreign::of(name, SettingKind::Words, default)
}

/// One word, which a line has in quotes if there are spaces in it.
const fn text(name: &'static str, default: &'static str) -> Foreign {
    Foreign::of(name, SettingKind::Text, default)
}

/// Each with its default in Redis 7.2, or in the version that brought it.
#[rustfmt::skip]
pub(crate) const IGNORED: &[Foreign] = &[
    number("active-defrag-cycle-us", "500"),
    number("active-defrag-max-scan-fields", "1000"),
    number("active-expire-effort", "1"),
    yes_no("activerehashing", "yes").any(),
    yes_no("always-show-logo", "no").any(),
    yes_no("aof-disable-auto-gc", "no"),
    yes_no("aof-rewrite-incremental-fsync", "yes"),
    yes_no("aof-timestamp-enabled", "no"),
    yes_no("aof-use-rdb-preamble", "yes"),
    text("aof_rewrite_cpulist", ""),
    number("array-slice-size", "4096"),
    number("array-sparse-kmax", "10"),
    number("array-sparse-kmin", "5"),
    text("availability-zone", ""),
    text("bind-source-addr", ""),
    text("bio_cpulist", ""),
    number("client-default-resp", "2"),
    yes_no("cluster-allow-pubsubshard-when-down", "yes"),
    yes_no("cluster-allow-reads-when-down", "no"),
    yes_no("cluster-allow-replica-migration", "yes"),
    number("cluster-announce-bus-port", "0"),
    text("cluster-announce-client-ipv4", ""),
    text("cluster-announce-client-ipv6", ""),
    number("cluster-announce-client-port", "0"),
    number("cluster-announce-client-tls-port", "0"),
    text("cluster-announce-hostname", ""),
    text("cluster-announce-human-nodename", ""),
    number("cluster-blacklist-ttl", "60"),
    number("cluster-compatibility-sample-ratio", "0"),
    text("cluster-config-file", "nodes.conf"),
    text("cluster-config-save-behavior", "sync"),
    number("cluster-databases", "1"),
    memory("cluster-link-sendbuf-limit", "0"),
    number("cluster-manual-failover-timeout", "5000"),
    number("cluster-message-gossip-perc", "10"),
    number("cluster-migration-barrier", "1"),
    number("cluster-node-timeout", "15000"),
    number("cluster-ping-interval", "0"),
    number("cluster-port", "0"),
    text("cluster-preferred-endpoint-type", "ip"),
    yes_no("cluster-replica-no-failover", "no"),
    number("cluster-replica-validity-factor", "10"),
    yes_no("cluster-require-full-coverage", "yes"),
    yes_no("cluster-slave-no-failover", "no"),
    number("cluster-slave-validity-factor", "10"),
    memory("cluster-slot-migration-handoff-max-lag-bytes", "1048576"),
    number("cluster-slot-migration-log-max-len", "1000"),
    number("cluster-slot-migration-max-archived-tasks", "32"),
    number("cluster-slot-migration-sync-buffer-drain-timeout", "60000"),
    number("cluster-slot-migration-write-pause-timeout", "10000"),
    yes_no("cluster-slot-stats-enabled", "no"),
    yes_no("crash-memcheck-enabled", "yes"),
    text("debug-context", ""),
    yes_no("dual-channel-replication-enabled", "no"),
    yes_no("dynamic-hz", "yes").any(),
    yes_no("enable-debug-assert", "no"),
    number("events-per-io-thread", "2"),
    yes_no("extended-redis-compatibility", "no").any(),
    yes_no("hide-user-data-from-log", "no").also("yes"),
    number("hz", "10"),
    text("ignore-warnings", ""),
    yes_no("import-mode", "no").refused(IMPORT),
    yes_no("io-threads-always-active", "no"),
    yes_no("io-threads-do-reads", "no").any(),
    yes_no("jemalloc-bg-thread", "yes").any(),
    number("key-load-delay", "0"),
    yes_no("key-memory-histograms", "no"),
    yes_no("lazyfree-lazy-eviction", "no").any(),
    yes_no("lazyfree-lazy-expire", "no").any(),
    yes_no("lazyfree-lazy-server-del", "no").any(),
    yes_no("lazyfree-lazy-user-del", "no").any(),
    yes_no("lazyfree-lazy-user-flush", "no").any(),
    number("list-max-listpack-size", "-2"),
    number("list-max-ziplist-size", "-2"),
    memory("loading-process-events-interval-bytes", "2097152"),
    text("locale-collate", ""),
    text("log-format", "legacy"),
    text("log-timestamp-format", "legacy"),
    number("lookahead", "16"),
    yes_no("lua-enable-deprecated-api", "no"),
    yes_no("lua-enable-insecure-api", "no"),
    number("max-new-connections-per-cycle", "10"),
    number("max-new-tls-connections-per-cycle", "1"),
    number("min-io-threads-avoid-copy-reply", "7"),
    number("min-io-threads-value-prefetch-off", "10"),
    number("min-string-size-avoid-copy-reply", "16384"),
    number("min-string-size-avoid-copy-reply-threaded", "65536"),
    yes_no("mptcp", "no"),
    yes_no("no-appendfsync-on-rewrite", "no"),
    text("oom-score-adj", "no"),
    words("oom-score-adj-values", "0 200 800"),
    number("prefetch-batch-max-size", "16"),
    text("proc-title-template", "{title} {listen-addr} {server-mode}"),
    text("propagation-error-behavior", "ignore"),
    yes_no("rdb-del-sync-files", "no"),
    number("rdb-key-save-delay", "0"),
    text("rdb-version-check", "strict"),
    words("rdma-bind", ""),
    number("rdma-completion-vector", "-1"),
    number("rdma-port", "0").refused(RDMA),
    memory("rdma-rx-size", "1048576"),
    yes_no("repl-disable-tcp-nodelay", "no"),
    text("repl-diskless-load", "disabled").any(),
    yes_no("repl-mptcp", "no"),
    yes_no("repl-rdb-channel", "no"),
    memory("replica-full-sync-buffer-limit", "0"),
    yes_no("replica-ignore-disk-write-errors", "no"),
    yes_no("replica-lazy-flush", "no").any(),
    text("req-res-logfile", ""),
    text("sanitize-dump-payload", "no").any(),
    yes_no("set-proc-title", "yes"),
    yes_no("slave-lazy-flush", "no").any(),
    number("slot-migration-max-failover-repl-bytes", "0"),
    number("slowlog-entry-max-argc", "32"),
    number("slowlog-entry-max-string-len", "128"),
    number("socket-mark-id", "0").refused(SOCKET_MARK),
    number("stream-idmp-duration", "100"),
    number("stream-idmp-maxsize", "100"),
    number("tcp-keepalive-probes", "3"),
    text("tls-dh-params-file", "").refused(DH),
    text("unixsocketgroup", "").refused(SOCKET_GROUP),
    yes_no("use-exit-on-panic", "no"),
    yes_no("vset-force-single-threaded-execution", "no"),
    number("watchdog-period", "0"),
];
