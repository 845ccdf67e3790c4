//! Every setting: one block that contains everything about it.
//!
//! The command line, `redis.conf`, `CONFIG GET`, `CONFIG SET`, `CONFIG REWRITE`, `--help` and `docs/settings.md` derive from
//! this table. To add a setting, add a block and read it where it matters.
//!
//! Settings of the process and its files are in `table/process.rs`, those of replication in `table/replication.rs`, of
//! groups in `table/cluster.rs`, of HTTP in `table/http.rs`, of the logs of commands in `table/command_log.rs`, of TLS in
//! `table/tls.rs`, of queues in `table/queues.rs`, and of permissions and limits in
//! `table/security.rs`. Directives of `redis.conf` that have no effect here are in `ignored.rs`.

use crate::{Changeable, Id, Setting, SettingKind, Table};
use keyspace::eviction::Policy;

use crate::consequence::Consequence;
use crate::settings::ignored::IGNORED;
use crate::settings::special;

/// The directive that declares a user.
pub const USER: &str = "user";
/// The directive that renames a command.
pub(crate) const RENAME_COMMAND: &str = "rename-command";
/// The directive that loads a module.
pub(crate) const LOADMODULE: &str = "loadmodule";

/// All settings, and the directives that are not settings.
pub static TABLE: Table = Table {
    settings: EFFECTIVE,
    foreign: IGNORED,
    groups: &group::SHOWN,
    others: &[USER, LOADMODULE, RENAME_COMMAND],
};

/// The headings of the help.
mod group {
    /// Ports, sockets, clients.
    pub(crate) const NETWORK: &str = "Network and clients";
    /// Threads, shards, and how commands reach them.
    pub(crate) const THREADS: &str = "Threads and shards";
    /// Limits of memory.
    pub(crate) const MEMORY: &str = "Memory";
    /// How values are stored.
    pub(crate) const DATA: &str = "Data";
    /// Passwords and permissions.
    pub(crate) const SECURITY: &str = "Security";
    /// Encrypted connections.
    pub(crate) const TLS: &str = "TLS";
    /// The log, the slow log, statistics, events.
    pub(crate) const WATCHING: &str = "Log, statistics and events";
    /// Files and the process.
    pub(crate) const PROCESS: &str = "Process and files";
    /// Replicas.
    pub(crate) const REPLICATION: &str = "Replication";
    /// Groups.
    pub(crate) const CLUSTER: &str = "Groups that fail over by themselves";

    /// All headings, in this order.
    pub(crate) const SHOWN: [&str; 10] =
        [NETWORK, THREADS, MEMORY, DATA, SECURITY, TLS, WATCHING, PROCESS, REPLICATION, CLUSTER];
}

/// The greatest number of a 32-bit setting.
const INT: i64 = i32::MAX as i64;
/// The greatest number of a 64-bit setting.
const LONG: i64 = i64::MAX;

/// Declares settings and the list of them. Numbers start at `$first` and follow the order of the blocks.
macro_rules! settings {
    ($list:ident from $first:expr; $($id:ident = $setting:expr;)*) => {
        /// Numbers the settings.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "each is named like its constant")]
        enum Number { $($id),* }
        $(
            #[doc = concat!("`", stringify!($id), "`")]
            #[allow(dead_code, reason = "some are only shown and checked")]
            pub const $id: Id = Id::new($first + Number::$id as usize);
        )*
        /// The settings of this file.
        pub(crate) const $list: &[Setting] = &[$($setting),*];
    };
}

mod cluster;
mod command_log;
mod http;
mod process;
mod queues;
mod replication;
mod security;
mod tls;

pub use cluster::*;
pub use command_log::*;
pub use http::*;
pub use process::*;
pub use queues::*;
pub use replication::*;
pub use security::*;
pub use tls::*;

const COUNT: usize = SERVING.len()
    + PROCESS.len()
    + REPLICATION.len()
    + HTTP.len()
    + QUEUES.len()
    + TLS.len()
    + SECURITY.len()
    + CLUSTER.len()
    + COMMAND_LOG.len();

/// The settings that have an effect, each at the index of its number.
pub(crate) const EFFECTIVE: &[Setting] = &{
    let mut all = [SERVING[0]; COUNT];
    let (mut number, lists) =
        (0, [SERVING, PROCESS, REPLICATION, HTTP, QUEUES, TLS, SECURITY, CLUSTER, COMMAND_LOG]);
    let (mut list, mut place) = (0, 0);
    while number < COUNT {
        if place == lists[list].len() {
            (list, place) = (list + 1, 0);
        }
        all[number] = lists[list][place];
        (number, place) = (number + 1, place + 1);
    }
    all
};

settings! {
    SERVING from 0;

    // ---- network and clients ------------------------------------------------------------------------------

    PORT = Setting {
        name: "port",
        kind: SettingKind::Integer { min: 0, max: 65535 },
        default: "6379",
        effect: Some(Consequence::Listen),
        doc: "TCP port to listen on; 0: none",
        ..Setting::of(group::NETWORK)
    };
    BIND = Setting {
        name: "bind",
        kind: SettingKind::Words,
        default: "* -::*",
        effect: Some(Consequence::Listen),
        doc: "Addresses to listen on; * is all of IPv4, ::* all of IPv6",
        details: "An address with a - in front may be missing.",
        ..Setting::of(group::NETWORK)
    };
    UNIXSOCKET = Setting {
        name: "unixsocket",
        change: Changeable::AtStart,
        doc: "Path of a Unix socket to listen on; empty: none",
        ..Setting::of(group::NETWORK)
    };
    UNIXSOCKETPERM = Setting {
        name: "unixsocketperm",
        kind: SettingKind::Octal,
        default: "0",
        change: Changeable::AtStart,
        doc: "Permissions of the Unix socket's file; 0: from the umask",
        ..Setting::of(group::NETWORK)
    };
    TCP_BACKLOG = Setting {
        name: "tcp-backlog",
        kind: SettingKind::Integer { min: 0, max: INT },
        unit: "connections",
        default: "511",
        change: Changeable::AtStart,
        doc: "Length of the queue of connections waiting to be accepted",
        ..Setting::of(group::NETWORK)
    };
    TCP_KEEPALIVE = Setting {
        name: "tcp-keepalive",
        kind: SettingKind::Integer { min: 0, max: INT },
        unit: "seconds",
        default: "300",
        doc: "Idle time after which a connection is probed; 0: never",
        ..Setting::of(group::NETWORK)
    };
    TIMEOUT = Setting {
        name: "timeout",
        kind: SettingKind::Integer { min: 0, max: INT },
        unit: "seconds",
        default: "0",
        doc: "Idle time after which a client is disconnected; 0: never",
        ..Setting::of(group::NETWORK)
    };
    MAXCLIENTS = Setting {
        name: "maxclients",
        kind: SettingKind::Integer { min: 1, max: u32::MAX as i64 },
        unit: "clients",
        default: "10000",
        effect: Some(Consequence::MaxClients),
        doc: "Maximum number of connected clients",
        details: "It is lowered at the start if the system does not allow so many open files.",
        ..Setting::of(group::NETWORK)
    };
    CLIENT_QUERY_BUFFER_LIMIT = Setting {
        name: "client-query-buffer-limit",
        kind: SettingKind::Memory { min: 1 << 20, max: LONG },
        unit: "bytes",
        default: "1073741824",
        doc: "Maximum size of a request that is buffered for a client",
        ..Setting::of(group::NETWORK)
    };
    CLIENT_OUTPUT_BUFFER_LIMIT = Setting {
        name: "client-output-buffer-limit",
        kind: special::OUTPUT_LIMITS,
        default: "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        doc: "Unsent bytes at which a client of a class is disconnected: at once (hard), after seconds (soft)",
        details: "0: no limit. The limit of `pubsub` also holds for what any client has not read of invalidations.",
        ..Setting::of(group::NETWORK)
    };
    CLIENT_UNREAD_BYTES_MAX = Setting {
        name: "client-unread-bytes-max",
        kind: SettingKind::Memory { min: 1 << 20, max: LONG },
        unit: "bytes",
        default: "1073741824",
        doc: "Bytes of unread replies at which a client is no longer served until it reads them",
        details: "It is disconnected after a minute.",
        ..Setting::of(group::NETWORK)
    };
    MEMCACHED_PORT = Setting {
        name: "memcached-port",
        kind: SettingKind::Integer { min: 0, max: 65535 },
        default: "0",
        change: Changeable::AtStart,
        doc: "TCP port for clients of memcached's text and meta protocol, on the addresses of bind; 0: none",
        ..Setting::of(group::NETWORK)
    };
    MEMCACHED_UNIXSOCKET = Setting {
        name: "memcached-unixsocket",
        change: Changeable::AtStart,
        doc: "Path of a Unix socket for clients of memcached's protocol; empty: none",
        ..Setting::of(group::NETWORK)
    };
    MEMCACHED_ITEM_SIZE_MAX = Setting {
        name: "memcached-item-size-max",
        kind: SettingKind::Memory { min: 1 << 10, max: 1 << 30 },
        unit: "bytes",
        default: "1048576",
        effect: Some(Consequence::Data),
        doc: "Maximum size of an item of memcached's protocol, including key and head, as memcached counts it",
        ..Setting::of(group::NETWORK)
    };
    PROTO_MAX_BULK_LEN = Setting {
        name: "proto-max-bulk-len",
        kind: SettingKind::Memory { min: 1 << 20, max: resp::BULK_BYTES_LIMIT as i64 },
        unit: "bytes",
        default: "536870912",
        effect: Some(Consequence::Data),
        doc: "Maximum length of an argument and of a string",
        ..Setting::of(group::NETWORK)
    };

    CLUSTER_MODE = Setting {
        name: "cluster-mode",
        kind: SettingKind::Choice(&[("no", 0), ("emulated", 1)]),
        default: "no",
        change: Changeable::AtStart,
        doc: "emulated: CLUSTER answers like a cluster of one node that has all slots",
        ..Setting::of(group::NETWORK)
    };

    // ---- threads and shards -------------------------------------------------------------------------------

    PROACTOR_THREADS = Setting {
        name: "proactor-threads",
        kind: SettingKind::Integer { min: 0, max: 1024 },
        unit: "threads",
        default: "0",
        change: Changeable::AtStart,
        doc: "Threads that serve clients; 0: one per available processor, or as many as the CPU quota allows",
        ..Setting::of(group::THREADS)
    };
    IO_THREADS = Setting {
        name: "io-threads",
        kind: SettingKind::Integer { min: 1, max: 128 },
        unit: "threads",
        default: "1",
        change: Changeable::AtStart,
        doc: "Number of threads that serve clients (not only I/O), if `proactor-threads` is not set",
        ..Setting::of(group::THREADS)
    };
    THREADS_ELASTIC = Setting {
        name: "threads-elastic",
        kind: SettingKind::Switch,
        default: "yes",
        doc: "Serve connections on as many threads as the load needs; no: on all",
        details: "With yes, connections move to idle threads. With no, each stays on the thread that it was assigned to round-robin.",
        ..Setting::of(group::THREADS)
    };
    NUM_SHARDS = Setting {
        name: "num-shards",
        kind: SettingKind::Integer { min: 0, max: 32767 },
        unit: "shards",
        default: "0",
        change: Changeable::AtStart,
        doc: "Independent parts of the keyspace; 0: 32 per thread",
        ..Setting::of(group::THREADS)
    };
    SHARD_ENTRY = Setting {
        name: "shard-entry",
        kind: SettingKind::Choice(&[("roam", 0), ("home", 1)]),
        default: "roam",
        change: Changeable::AtStart,
        doc: "roam: the thread that reads a command enters the key's shard; home: the thread that owns it does",
        details: "With home, the command is sent to that thread.",
        ..Setting::of(group::THREADS)
    };
    SHARD_ROUND_ROBIN_PREFIX = Setting {
        name: "shard-round-robin-prefix",
        change: Changeable::AtStart,
        doc: "Keys with this prefix are assigned to shards round-robin; empty: none",
        ..Setting::of(group::THREADS)
    };
    COLOCATE = Setting {
        name: "colocate",
        kind: special::COLOCATION,
        default: "bull:{*}: bq:{*}: {dramatiq}:",
        change: Changeable::AtStart,
        doc: "Keys to keep on one shard because scripts use them together, as rules separated by spaces",
        details: "The rule `bull:{*}:` keeps all keys of a BullMQ queue together, such as `bull:mail:wait` and `bull:mail:7`. Rules that are given replace the default. They change speed, not results, but also the names of the keys beside a queue used with JOB commands: change them only while such queues have no active, delayed or dead jobs, limits or schedules.",
        ..Setting::of(group::THREADS)
    };
    SINGLEHOP_BLOCKING = Setting {
        name: "singlehop-blocking",
        kind: SettingKind::Switch,
        default: "yes",
        change: Changeable::AtStart,
        doc: "With shard-entry home: a blocking pop looks and pops in one hop rather than two",
        ..Setting::of(group::THREADS)
    };
    IO = Setting {
        name: "io",
        kind: SettingKind::Choice(&[("auto", 0), ("uring", 1), ("epoll", 2)]),
        default: "auto",
        change: Changeable::AtStart,
        doc: "I/O driver; auto: io_uring where it works, otherwise epoll",
        ..Setting::of(group::THREADS)
    };
    POLL_US = Setting {
        name: "poll-us",
        kind: SettingKind::Integer { min: 0, max: 1_000_000 },
        unit: "microseconds",
        default: "30",
        change: Changeable::AtStart,
        doc: "How long a busy thread polls for more work before it sleeps; 0: not at all",
        ..Setting::of(group::THREADS)
    };

    SERVER_CPULIST = Setting {
        name: "server_cpulist",
        kind: special::CPUS,
        change: Changeable::AtStart,
        doc: "Processors that the server runs on, as 0,2 or 0-7 or 0-7:2; empty: any. A unit file may forbid this",
        ..Setting::of(group::THREADS)
    };
    BGSAVE_CPULIST = Setting {
        name: "bgsave_cpulist",
        kind: special::CPUS,
        change: Changeable::AtStart,
        doc: "Processors for the thread that writes snapshots",
        ..Setting::of(group::THREADS)
    };
    PIN = Setting {
        name: "pin",
        kind: SettingKind::Switch,
        default: "no",
        change: Changeable::AtStart,
        doc: "Pin each thread to one processor of server_cpulist",
        details: "This is for repeatable measurements on an otherwise idle machine.",
        ..Setting::of(group::THREADS)
    };
    DISABLE_THP = Setting {
        name: "disable-thp",
        kind: SettingKind::Switch,
        default: "yes",
        change: Changeable::AtStart,
        doc: "Do not use transparent huge pages: clearing one delays a command by more than a millisecond",
        ..Setting::of(group::THREADS)
    };

    // ---- data ---------------------------------------------------------------------------------------------

    DATABASES = Setting {
        name: "databases",
        kind: SettingKind::Integer { min: 1, max: 16384 },
        unit: "databases",
        default: "16",
        change: Changeable::AtStart,
        doc: "Numbered databases, from 0 on",
        ..Setting::of(group::DATA)
    };
    MAXMEMORY = Setting {
        name: "maxmemory",
        kind: SettingKind::Memory { min: 0, max: LONG },
        unit: "bytes",
        default: "0",
        effect: Some(Consequence::Memory),
        doc: "Limit of memory for data and clients; 0: no limit",
        details: "Above it keys are evicted, or commands that need more memory are refused. What the server itself needs, and what waits for replicas or the disk, does not count.",
        ..Setting::of(group::MEMORY)
    };
    MAXMEMORY_POLICY = Setting {
        name: "maxmemory-policy",
        kind: SettingKind::Choice(Policy::CHOICES),
        default: "noeviction",
        effect: Some(Consequence::Data),
        doc: "Which keys are evicted: any (allkeys) or only those that expire (volatile)",
        details: "Of these, the least recently used (lru) or least frequently used (lfu) ones, any (random), or those that expire first (ttl). Of lru, lrm counts changes only, not reads. Keys that `BLESS` protects are never evicted, nor are queues unless `queue-eviction` says so.",
        ..Setting::of(group::MEMORY)
    };
    MAXMEMORY_SAMPLES = Setting {
        name: "maxmemory-samples",
        kind: SettingKind::Integer { min: 1, max: INT },
        unit: "keys",
        default: "5",
        doc: "Keys that are sampled to find one to evict; 64 at most",
        ..Setting::of(group::MEMORY)
    };
    MAXMEMORY_EVICTION_TENACITY = Setting {
        name: "maxmemory-eviction-tenacity",
        kind: SettingKind::Integer { min: 0, max: 100 },
        default: "10",
        doc: "How long evictions may delay a command; 100: without limit",
        details: "Each step up to 10 allows 50 µs, and each further step 15 % more. The rest is done in the background.",
        ..Setting::of(group::MEMORY)
    };
    MAXMEMORY_CLIENTS = Setting {
        name: "maxmemory-clients",
        kind: SettingKind::MemoryOrPercent,
        unit: "bytes or percent",
        default: "0",
        doc: "Memory of all clients above which the largest are disconnected, or a percentage; 0: no limit",
        details: "A percentage is of `maxmemory`.",
        ..Setting::of(group::MEMORY)
    };
    ACTIVEDEFRAG = Setting {
        name: "activedefrag",
        kind: SettingKind::Bool,
        default: "yes",
        doc: "Compact fragmented memory so that unused pages go back to the system",
        ..Setting::of(group::MEMORY)
    };
    ACTIVE_DEFRAG_IGNORE_BYTES = Setting {
        name: "active-defrag-ignore-bytes",
        kind: SettingKind::Memory { min: 1, max: LONG },
        unit: "bytes",
        default: "2097152",
        doc: "Amount of unused memory below which nothing is compacted",
        ..Setting::of(group::MEMORY)
    };
    ACTIVE_DEFRAG_THRESHOLD_LOWER = Setting {
        name: "active-defrag-threshold-lower",
        kind: SettingKind::Integer { min: 0, max: 1000 },
        unit: "percent",
        default: "3",
        doc: "Unused memory, relative to used memory, at which compaction starts",
        ..Setting::of(group::MEMORY)
    };
    ACTIVE_DEFRAG_THRESHOLD_UPPER = Setting {
        name: "active-defrag-threshold-upper",
        kind: SettingKind::Integer { min: 0, max: 1000 },
        unit: "percent",
        default: "100",
        doc: "Unused memory, relative to used memory, at which compaction gets the most time",
        ..Setting::of(group::MEMORY)
    };
    ACTIVE_DEFRAG_CYCLE_MIN = Setting {
        name: "active-defrag-cycle-min",
        kind: SettingKind::Integer { min: 1, max: 99 },
        unit: "percent",
        default: "1",
        doc: "Share of each thread's time for compaction at the lower threshold",
        details: "It is also the share while clients keep the thread busy.",
        ..Setting::of(group::MEMORY)
    };
    ACTIVE_DEFRAG_CYCLE_MAX = Setting {
        name: "active-defrag-cycle-max",
        kind: SettingKind::Integer { min: 1, max: 99 },
        unit: "percent",
        default: "25",
        doc: "Share of an idle thread's time for compaction at the upper threshold",
        details: "It may be more while keys are evicted and unused memory exceeds `maxmemory`.",
        ..Setting::of(group::MEMORY)
    };
    LFU_LOG_FACTOR = Setting {
        name: "lfu-log-factor",
        kind: SettingKind::Integer { min: 0, max: INT },
        default: "10",
        effect: Some(Consequence::Data),
        doc: "How much more slowly a key's counter grows as it gets larger",
        details: "With 10 it saturates after a million accesses.",
        ..Setting::of(group::MEMORY)
    };
    LFU_DECAY_TIME = Setting {
        name: "lfu-decay-time",
        kind: SettingKind::Integer { min: 0, max: INT },
        unit: "minutes",
        default: "1",
        effect: Some(Consequence::Data),
        doc: "Minutes without access after which a key's counter is decremented; 0: never",
        ..Setting::of(group::MEMORY)
    };
    LIST_COMPRESS_DEPTH = Setting {
        name: "list-compress-depth",
        kind: SettingKind::Integer { min: 0, max: 1 << 30 },
        unit: "nodes",
        default: "0",
        effect: Some(Consequence::Data),
        doc: "Compress lists except this many runs of 8 KiB at either end; 0: `list-compress-bytes-min` decides",
        ..Setting::of(group::DATA)
    };
    LIST_COMPRESS_BYTES_MIN = Setting {
        name: "list-compress-bytes-min",
        kind: SettingKind::Memory { min: 0, max: 1 << 40 },
        unit: "bytes",
        default: "131072",
        effect: Some(Consequence::Data),
        doc: "Compress lists of at least this many bytes, except for their ends; 0: none",
        details: "A sixty-fourth of the list, and 512 KiB at most, is not compressed at either end.",
        ..Setting::of(group::DATA)
    };
    HASH_ENTRIES = Setting {
        name: "hash-max-listpack-entries",
        alias: Some("hash-max-ziplist-entries"),
        kind: SettingKind::Integer { min: 0, max: LONG },
        unit: "fields",
        default: "512",
        effect: Some(Consequence::Data),
        doc: "Maximum number of fields of a hash in the compact encoding",
        ..Setting::of(group::DATA)
    };
    HASH_VALUE = Setting {
        name: "hash-max-listpack-value",
        alias: Some("hash-max-ziplist-value"),
        kind: SettingKind::Memory { min: 0, max: LONG },
        unit: "bytes",
        default: "64",
        effect: Some(Consequence::Data),
        doc: "Maximum length of fields and values of a hash in the compact encoding",
        ..Setting::of(group::DATA)
    };
    HASH_COMPRESS_BYTES_MIN = Setting {
        name: "hash-compress-bytes-min",
        kind: SettingKind::Memory { min: 0, max: 1 << 40 },
        unit: "bytes",
        default: "65536",
        effect: Some(Consequence::Data),
        doc: "Pack values of hashes, and compress small hashes, from this many bytes on; 0: never",
        details: "Values of a hash that has so many bytes are packed when they are set, if they are alike, as jobs are, and have 48 to 4096 bytes. Hashes of 48 to 2048 bytes that are alike are compressed where they take so many bytes in a shard and are not in use.",
        ..Setting::of(group::DATA)
    };
    HASH_COMPRESS_IDLE = Setting {
        name: "hash-compress-idle",
        kind: SettingKind::Integer { min: 0, max: 1 << 20 },
        unit: "seconds",
        default: "60",
        effect: Some(Consequence::Data),
        doc: "How long a hash must not have been used before it is compressed",
        ..Setting::of(group::DATA)
    };
    SET_INTSET_ENTRIES = Setting {
        name: "set-max-intset-entries",
        kind: SettingKind::Integer { min: 0, max: LONG },
        unit: "members",
        default: "512",
        effect: Some(Consequence::Data),
        doc: "Maximum number of members of a set of integers that is kept as an array",
        ..Setting::of(group::DATA)
    };
    SET_ENTRIES = Setting {
        name: "set-max-listpack-entries",
        kind: SettingKind::Integer { min: 0, max: LONG },
        unit: "members",
        default: "128",
        effect: Some(Consequence::Data),
        doc: "Maximum number of members of a set in the compact encoding",
        ..Setting::of(group::DATA)
    };
    SET_VALUE = Setting {
        name: "set-max-listpack-value",
        kind: SettingKind::Memory { min: 0, max: LONG },
        unit: "bytes",
        default: "64",
        effect: Some(Consequence::Data),
        doc: "Maximum length of members of a set in the compact encoding",
        ..Setting::of(group::DATA)
    };
    ZSET_ENTRIES = Setting {
        name: "zset-max-listpack-entries",
        alias: Some("zset-max-ziplist-entries"),
        kind: SettingKind::Integer { min: 0, max: LONG },
        unit: "members",
        default: "128",
        effect: Some(Consequence::Data),
        doc: "Maximum number of members of a sorted set in the compact encoding",
        ..Setting::of(group::DATA)
    };
    ZSET_VALUE = Setting {
        name: "zset-max-listpack-value",
        alias: Some("zset-max-ziplist-value"),
        kind: SettingKind::Memory { min: 0, max: LONG },
        unit: "bytes",
        default: "64",
        effect: Some(Consequence::Data),
        doc: "Maximum length of members of a sorted set in the compact encoding",
        ..Setting::of(group::DATA)
    };
    ZSET_COMPRESS_BYTES_MIN = Setting {
        name: "zset-compress-bytes-min",
        kind: SettingKind::Memory { min: 0, max: 1 << 40 },
        unit: "bytes",
        default: "131072",
        effect: Some(Consequence::Data),
        doc: "Compress members of sorted sets of so many bytes if they are alike, as jobs are; 0: none",
        details: "Members have 48 to 4096 bytes.",
        ..Setting::of(group::DATA)
    };
    HLL_SPARSE_MAX_BYTES = Setting {
        name: "hll-sparse-max-bytes",
        kind: SettingKind::Memory { min: 0, max: LONG },
        unit: "bytes",
        default: "3000",
        effect: Some(Consequence::Data),
        doc: "Maximum length of a sparse HyperLogLog",
        ..Setting::of(group::DATA)
    };
    TRACKING_TABLE_MAX_KEYS = Setting {
        name: "tracking-table-max-keys",
        kind: SettingKind::Integer { min: 0, max: LONG },
        unit: "keys",
        default: "1000000",
        effect: Some(Consequence::Data),
        doc: "Keys that CLIENT TRACKING remembers; beyond that, some are invalidated; 0: no limit",
        ..Setting::of(group::DATA)
    };
    STREAM_NODE_BYTES = Setting {
        name: "stream-node-max-bytes",
        kind: SettingKind::Memory { min: 0, max: LONG },
        unit: "bytes",
        default: "4096",
        effect: Some(Consequence::Data),
        doc: "Maximum size of a stream's nodes, as Redis counts it; 0: up to 1 GiB",
        ..Setting::of(group::DATA)
    };
    STREAM_NODE_ENTRIES = Setting {
        name: "stream-node-max-entries",
        kind: SettingKind::Integer { min: 0, max: LONG },
        unit: "entries",
        default: "100",
        effect: Some(Consequence::Data),
        doc: "Maximum number of entries of a stream's node; 0: no limit",
        ..Setting::of(group::DATA)
    };
    BUSY_REPLY_THRESHOLD = Setting {
        name: "busy-reply-threshold",
        alias: Some("lua-time-limit"),
        kind: SettingKind::Integer { min: 0, max: LONG },
        unit: "milliseconds",
        default: "5000",
        doc: "Time after which a script is slow: other clients get BUSY, and it can be killed; 0: never",
        ..Setting::of(group::DATA)
    };
    SCRIPT_TIME_MAX = Setting {
        name: "script-time-max",
        kind: SettingKind::Integer { min: 0, max: LONG },
        unit: "milliseconds",
        default: "0",
        doc: "Time after which a script or function that has written nothing is ended with an error; 0: never",
        ..Setting::of(group::DATA)
    };
    SCRIPT_TRUSTED_AFTER = Setting {
        name: "script-trusted-after",
        kind: SettingKind::Integer { min: 0, max: INT },
        unit: "runs",
        default: "1000",
        doc: "Runs within its declared keys after which a script may run in parallel; 0: at once",
        details: "It then runs in parallel with scripts that touch undeclared keys.",
        ..Setting::of(group::DATA)
    };
    SCRIPT_MEMORY_BYTES_MAX = Setting {
        name: "script-memory-bytes-max",
        kind: SettingKind::Memory { min: 1 << 20, max: 2 << 30 },
        unit: "bytes",
        default: "268435456",
        change: Changeable::AtStart,
        doc: "Memory limit for scripts on each thread, and separately for functions",
        details: "A script that needs more gets an error.",
        ..Setting::of(group::DATA)
    };

    // ---- log, statistics and events -----------------------------------------------------------------------

    LOGLEVEL = Setting {
        name: "loglevel",
        kind: SettingKind::Choice(&[("debug", 4), ("verbose", 4), ("notice", 3), ("warning", 2), ("nothing", 0)]),
        default: "notice",
        effect: Some(Consequence::LogLevel),
        doc: "Level of the log",
        details: "Debug and verbose log everything, notice what an operator should know, and warning only problems.",
        ..Setting::of(group::WATCHING)
    };
    LOGFILE = Setting {
        name: "logfile",
        change: Changeable::AtStart,
        doc: "File to which the log is appended; empty: standard output",
        ..Setting::of(group::WATCHING)
    };
    CRASH_LOG_ENABLED = Setting {
        name: "crash-log-enabled",
        kind: SettingKind::Bool,
        default: "yes",
        doc: "Write a report to the log on a crash: the place, the command, the state of the server",
        ..Setting::of(group::WATCHING)
    };
    SYSLOG_ENABLED = Setting {
        name: "syslog-enabled",
        kind: SettingKind::Bool,
        default: "no",
        change: Changeable::AtStart,
        doc: "Also log to the system's log",
        ..Setting::of(group::WATCHING)
    };
    SYSLOG_IDENT = Setting {
        name: "syslog-ident",
        default: "redis",
        change: Changeable::AtStart,
        doc: "Name of the server in the system's log",
        ..Setting::of(group::WATCHING)
    };
    SYSLOG_FACILITY = Setting {
        name: "syslog-facility",
        kind: SettingKind::Choice(&[
            ("user", 1),
            ("local0", 16),
            ("local1", 17),
            ("local2", 18),
            ("local3", 19),
            ("local4", 20),
            ("local5", 21),
            ("local6", 22),
            ("local7", 23),
        ]),
        default: "local0",
        change: Changeable::AtStart,
        doc: "Facility in the system's log",
        ..Setting::of(group::WATCHING)
    };
    LATENCY_TRACKING = Setting {
        name: "latency-tracking",
        kind: SettingKind::Bool,
        default: "yes",
        effect: Some(Consequence::Observed),
        doc: "Count commands by duration, for LATENCY HISTOGRAM and INFO latencystats",
        ..Setting::of(group::WATCHING)
    };
    LATENCY_MONITOR_THRESHOLD = Setting {
        name: "latency-monitor-threshold",
        kind: SettingKind::Integer { min: 0, max: i64::MAX },
        default: "0",
        effect: Some(Consequence::Observed),
        doc: "Duration above which an event is recorded for LATENCY LATEST, HISTORY, GRAPH and DOCTOR; 0: nothing",
        ..Setting::of(group::WATCHING)
    };
    LATENCY_PERCENTILES = Setting {
        name: "latency-tracking-info-percentiles",
        kind: special::PERCENTILES,
        unit: "percent",
        default: "50 99 99.9",
        doc: "Percentiles of the durations that INFO latencystats shows",
        ..Setting::of(group::WATCHING)
    };
    NOTIFY_KEYSPACE_EVENTS = Setting {
        name: "notify-keyspace-events",
        kind: special::EVENT_CLASSES,
        effect: Some(Consequence::Data),
        doc: "Which events are published: K and E select channels, letters events; empty: none",
        details: "The letters are g$lshzxetdnm, and A means all of them but n and m.",
        ..Setting::of(group::WATCHING)
    };
}
