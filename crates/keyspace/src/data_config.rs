//! The settings that data commands read: one immutable copy, which `CONFIG SET` replaces as a whole.

use ds::hash::CollectionLimits;
use ds::list::ListLimits;
use ds::set::SetLimits;
use ds::stream::StreamLimits;
use ds::zset::ZSetLimits;

use crate::access::Lfu;

/// Milliseconds since 1970 in UTC, as in `PEXPIREAT`.
pub type UnixMs = i64;

/// The hashes to compress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashCompression {
    /// `hash-compress-bytes-min`: bytes of similar hashes on a shard at which they are compressed; 0: never.
    pub bytes_min: u64,
    /// `hash-compress-idle`: seconds for which hashes must be unused.
    pub idle_seconds: u32,
}

/// The treatment of leased jobs that fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobSettings {
    /// `job-tries`: attempts of a job without a number of its own.
    pub tries: u64,
    /// `job-dead-max`: dead jobs that are kept per queue.
    pub dead_max: usize,
    /// `job-dead-timeout`: how long dead jobs are kept, in ms; `None`: for good.
    pub dead_timeout_ms: Option<i64>,
}

/// The settings of the data path, with the names and defaults of `redis.conf`.
#[derive(Clone, Debug)]
pub struct Config {
    /// `list-compress-depth`, `list-compress-bytes-min`.
    pub list: ListLimits,
    /// `hash-max-listpack-entries`, `hash-max-listpack-value`, `hash-compress-bytes-min`.
    pub hash: CollectionLimits,
    /// `hash-compress-bytes-min`, `hash-compress-idle`.
    pub hash_compression: HashCompression,
    /// `set-max-intset-entries`, `set-max-listpack-entries`, `set-max-listpack-value`.
    pub set: SetLimits,
    /// `zset-max-listpack-entries`, `zset-max-listpack-value`, `zset-compress-bytes-min`.
    pub zset: ZSetLimits,
    /// `hll-sparse-max-bytes`: a HyperLogLog that would grow beyond it becomes dense.
    pub hll_sparse_bytes_max: u64,
    /// `stream-node-max-bytes`, `stream-node-max-entries`.
    pub stream: StreamLimits,
    /// `proto-max-bulk-len`: no string may grow beyond it.
    pub string_bytes_max: u64,
    /// `memcached-item-size-max`: the largest item, measured as memcached does.
    pub item_bytes_max: u64,
    /// `tracking-table-max-keys`: keys that clients may track, over all shards; 0: any number.
    pub tracking_keys_max: u64,
    /// `rdbcompression`: strings in dumps are compressed.
    pub rdb_compression: bool,
    /// How accesses are counted if `maxmemory-policy` is an LFU policy; otherwise records store the time of access.
    pub lfu: Option<Lfu>,
    /// Whether reads leave the time of access, because `maxmemory-policy` goes by changes.
    pub ignores_reads: bool,
    /// `queue-eviction`: whether keys of queues are evicted, too.
    pub evicts_queues: bool,
    /// `promote`: whether due jobs of Sidekiq are moved to their queues.
    pub promotes: bool,
    /// The treatment of leased jobs that fail.
    pub jobs: JobSettings,
    /// `job-recovery`: whether pops from queues are remembered for a while.
    pub recovers: bool,
    /// `notify-keyspace-events` as bits of [`Class`](crate::Class); 0 is off.
    pub notify: u32,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            list: ListLimits { nodes_min: 16, plain_nodes: 64, plain_part: 64 },
            hash: CollectionLimits { entries_max: 512, value_bytes_max: 64, pack_bytes_min: 64 << 10 },
            hash_compression: HashCompression { bytes_min: 64 << 10, idle_seconds: 60 },
            set: SetLimits {
                intset_entries_max: 512,
                listpack_entries_max: 128,
                listpack_value_bytes_max: 64,
            },
            zset: ZSetLimits { entries_max: 128, value_bytes_max: 64, pack_bytes_min: 128 << 10 },
            hll_sparse_bytes_max: 3000,
            stream: StreamLimits { node_bytes_max: 4096, node_entries_max: 100 },
            string_bytes_max: 512 * 1024 * 1024,
            item_bytes_max: 1 << 20,
            tracking_keys_max: 1_000_000,
            rdb_compression: true,
            lfu: None,
            ignores_reads: false,
            evicts_queues: false,
            promotes: false,
            jobs: JobSettings { tries: 25, dead_max: 10_000, dead_timeout_ms: None },
            recovers: false,
            notify: 0,
        }
    }
}
