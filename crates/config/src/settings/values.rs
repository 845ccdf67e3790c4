//! The values of a running server.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{Changed, Refusal, SettingValue, Values};
use ds::hash::CollectionLimits;
use ds::list::{ListLimits, NODE_BYTES_MAX};
use ds::placing::Colocation;
use ds::set::SetLimits;
use ds::stream::StreamLimits;
use ds::zset::ZSetLimits;
use keyspace::eviction::{Policy, Rank};
use keyspace::queue::Known;
use keyspace::{Config, HashCompression, JobSettings, Lfu};
use resp::Limits;

use crate::settings::redis_version;
use crate::settings::special::{OutputLimit, parse_output_limits};
use crate::settings::table::*;

const EFFECTIVE_COUNT: usize = EFFECTIVE.len();

/// How many nodes at each end of a compressed list stay uncompressed.
const LIST_PLAIN_NODES: u32 = 64;
/// In a shorter list, one node in this many stays uncompressed at each end.
const LIST_PLAIN_PART: u32 = 64;
/// The default number of shards per thread.
const SHARDS_PER_THREAD: u16 = 32;

/// The settings of the server. Beside the values, holds what the server reads often and is not a number.
#[derive(Debug)]
pub struct Settings {
    values: Values<EFFECTIVE_COUNT>,
    /// Hard bytes, soft bytes and soft seconds of each class of clients.
    output_limits: [[AtomicU64; 3]; 3],
    /// Whether `io-threads` determines the number of threads.
    has_io_threads: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let settings = Settings {
            values: Values::new(&TABLE),
            output_limits: Default::default(),
            has_io_threads: false,
        };
        settings.note_output_limits();
        settings
    }
}

impl Deref for Settings {
    type Target = Values<EFFECTIVE_COUNT>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.values
    }
}

/// Which threads run commands on a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryMode {
    /// Every thread enters every shard.
    Roam,
    /// Only the shard's home thread enters it. Commands of other threads are sent there.
    Home,
}

impl Settings {
    pub(crate) fn values_mut(&mut self) -> &mut Values<EFFECTIVE_COUNT> {
        &mut self.values
    }

    /// Records whether `io-threads` determines the number of threads.
    pub(crate) fn note_io_threads(&mut self, asks: bool) {
        self.has_io_threads = asks;
    }

    // ---- changing -------------------------------------------------------------------------------------------

    /// Updates the limits of output from their text, after `CONFIG SET`.
    pub(crate) fn note_output_limits(&self) {
        self.values.with_text(CLIENT_OUTPUT_BUFFER_LIMIT, |text| {
            for (stored, limit) in self.output_limits.iter().zip(parse_output_limits(text)) {
                stored[0].store(limit.hard_bytes, Ordering::Relaxed);
                stored[1].store(limit.soft_bytes, Ordering::Relaxed);
                stored[2].store(limit.soft_seconds, Ordering::Relaxed);
            }
        });
    }

    /// Sets `dir` to the process's working directory. It may have been given as a relative path.
    pub fn note_directory(&self) {
        if let Ok(directory) = std::env::current_dir() {
            self.force(DIR, &SettingValue::text(directory.display().to_string()));
        }
    }

    /// `CONFIG SET`: applies all `pairs`, or none if one is invalid. `may_protected`: the client may change settings
    /// that say where files are written.
    pub fn change(&self, pairs: &[(&str, &str)], may_protected: bool) -> Result<Changed, Refusal> {
        let changed = self.values.change(pairs, may_protected)?;
        self.note_output_limits();
        Ok(changed)
    }

    /// Undoes a change, because its consequences failed.
    pub fn undo(&self, changed: &Changed) {
        self.values.undo(changed);
        self.note_output_limits();
    }

    // ---- what the server asks -------------------------------------------------------------------------------

    /// Tells `known` which keys are queues by the settings, and how many queues there may be. `steady_ms`: the time of
    /// the clock that never jumps.
    pub fn tell_queues(&self, known: &Known, steady_ms: u64) {
        known.set_now_ms(steady_ms);
        known.set_globs(
            self.text(QUEUE_PATTERN).split_whitespace().map(|glob| glob.as_bytes().into()).collect(),
        );
        known.set_count_max(self.number(QUEUES_MAX) as usize);
    }

    /// The settings of the data path.
    pub fn data_config(&self) -> Config {
        let number = |id| self.number(id) as usize;
        Config {
            list: self.list_limits(),
            hash: CollectionLimits {
                entries_max: number(HASH_ENTRIES),
                value_bytes_max: number(HASH_VALUE),
                pack_bytes_min: number(HASH_COMPRESS_BYTES_MIN),
            },
            hash_compression: HashCompression {
                bytes_min: self.number(HASH_COMPRESS_BYTES_MIN) as u64,
                idle_seconds: self.number(HASH_COMPRESS_IDLE) as u32,
            },
            set: SetLimits {
                intset_entries_max: number(SET_INTSET_ENTRIES),
                listpack_entries_max: number(SET_ENTRIES),
                listpack_value_bytes_max: number(SET_VALUE),
            },
            zset: ZSetLimits {
                entries_max: number(ZSET_ENTRIES),
                value_bytes_max: number(ZSET_VALUE),
                pack_bytes_min: number(ZSET_COMPRESS_BYTES_MIN),
            },
            hll_sparse_bytes_max: self.number(HLL_SPARSE_MAX_BYTES) as u64,
            stream: StreamLimits {
                node_bytes_max: number(STREAM_NODE_BYTES),
                node_entries_max: number(STREAM_NODE_ENTRIES),
            },
            string_bytes_max: self.number(PROTO_MAX_BULK_LEN) as u64,
            item_bytes_max: self.number(MEMCACHED_ITEM_SIZE_MAX) as u64,
            tracking_keys_max: self.number(TRACKING_TABLE_MAX_KEYS) as u64,
            rdb_compression: self.is_on(RDBCOMPRESSION),
            lfu: self.policy().filter(|policy| policy.rank == Rank::Rare).map(|_| Lfu {
                log_factor: self.number(LFU_LOG_FACTOR) as u64,
                decay_minutes: self.number(LFU_DECAY_TIME) as u64,
            }),
            ignores_reads: self.policy().is_some_and(|policy| policy.rank == Rank::Unchanged),
            evicts_queues: self.is_on(QUEUE_EVICTION),
            promotes: self.is_on(PROMOTE),
            jobs: JobSettings {
                tries: self.number(JOB_TRIES) as u64,
                dead_max: number(JOB_DEAD_MAX),
                dead_timeout_ms: Some(self.number(JOB_DEAD_TIMEOUT) * 1000).filter(|ms| *ms > 0),
            },
            recovers: self.is_on(JOB_RECOVERY),
            notify: self.number(NOTIFY_KEYSPACE_EVENTS) as u32,
        }
    }

    /// Which lists are compressed, and how many of their nodes.
    fn list_limits(&self) -> ListLimits {
        match self.number(LIST_COMPRESS_DEPTH) {
            0 => {
                let bytes_min = self.number(LIST_COMPRESS_BYTES_MIN) as u64;
                let nodes_min = bytes_min.div_ceil(NODE_BYTES_MAX as u64) as u32;
                ListLimits { nodes_min, plain_nodes: LIST_PLAIN_NODES, plain_part: LIST_PLAIN_PART }
            }
            depth => ListLimits { nodes_min: 1, plain_nodes: depth as u32, plain_part: 1 },
        }
    }

    /// Whether the settings ask for snapshots after changes and at the end.
    pub fn has_save_points(&self) -> bool {
        self.is_on(SAVE)
    }

    /// The limit of memory for data; 0: no limit.
    #[inline]
    pub fn memory_bytes_max(&self) -> u64 {
        self.number(MAXMEMORY) as u64
    }

    /// Which keys are evicted; `None`: none.
    pub fn policy(&self) -> Option<Policy> {
        Policy::numbered(self.number(MAXMEMORY_POLICY))
    }

    /// The limits of a request.
    #[inline]
    pub fn request_limits(&self, authenticated: bool) -> Limits {
        Limits { bulk_bytes_max: self.number(PROTO_MAX_BULK_LEN) as u64, authenticated, ..Limits::default() }
    }

    /// How long a connection may be silent before it is probed; zero: no probes.
    pub fn keepalive(&self) -> Duration {
        Duration::from_secs(self.number(TCP_KEEPALIVE) as u64)
    }

    /// The password of the default user.
    pub fn password(&self) -> Option<Arc<str>> {
        self.is_on(REQUIREPASS).then(|| self.text(REQUIREPASS))
    }

    /// Whether clients from other machines are refused while there is no password.
    pub fn is_protected(&self) -> bool {
        self.is_on(PROTECTED_MODE)
    }

    /// The most clients that may be connected.
    pub fn clients_max(&self) -> u64 {
        self.number(MAXCLIENTS) as u64
    }

    /// How many seconds a client may be idle before it is disconnected; 0: no limit.
    pub fn idle_seconds_max(&self) -> u64 {
        self.number(TIMEOUT) as u64
    }

    /// The longest request that a client may send.
    pub fn query_bytes_max(&self) -> usize {
        self.number(CLIENT_QUERY_BUFFER_LIMIT) as usize
    }

    /// A client's further commands wait while it has this many bytes of replies unread.
    pub fn unread_bytes_max(&self) -> usize {
        self.number(CLIENT_UNREAD_BYTES_MAX) as usize
    }

    /// The limit of output of a class of clients: 0 normal clients, 1 replicas, 2 subscribers.
    pub fn output_limit(&self, class: usize) -> OutputLimit {
        let [hard_bytes, soft_bytes, soft_seconds] =
            self.output_limits[class].each_ref().map(|number| number.load(Ordering::Relaxed));
        OutputLimit { hard_bytes, soft_bytes, soft_seconds }
    }

    /// A script that runs longer counts as slow.
    pub fn script_time_limit_ms(&self) -> u64 {
        match self.number(BUSY_REPLY_THRESHOLD) {
            0 => u64::MAX,
            limit_ms => limit_ms as u64,
        }
    }

    /// How long a script may run without writing.
    pub fn script_time_max_ms(&self) -> u64 {
        match self.number(SCRIPT_TIME_MAX) {
            0 => u64::MAX,
            max_ms => max_ms as u64,
        }
    }

    /// A script is expected to keep to its declared keys after this many runs that did.
    pub fn script_trusted_after(&self) -> u32 {
        self.number(SCRIPT_TRUSTED_AFTER) as u32
    }

    /// How much memory scripts may use on each thread.
    pub fn script_memory_bytes_max(&self) -> usize {
        self.number(SCRIPT_MEMORY_BYTES_MAX) as usize
    }

    /// The version of Redis that clients are told.
    pub fn redis_version(&self) -> &'static str {
        redis_version::text(self.redis_version_number())
    }

    /// The version of Redis that scripts are told, with a byte for each part.
    pub fn redis_version_number(&self) -> u32 {
        self.number(REDIS_VERSION) as u32
    }

    /// Number of databases.
    pub fn databases(&self) -> u32 {
        self.number(DATABASES) as u32
    }

    /// The number of threads, and the setting that determines it; `None`: the default depends on the machine.
    pub fn thread_count(&self) -> Option<(usize, &'static str)> {
        match self.number(PROACTOR_THREADS) {
            0 if self.has_io_threads => Some((self.number(IO_THREADS) as usize, "io-threads")),
            0 => None,
            count => Some((count as usize, "proactor-threads")),
        }
    }

    /// The number of shards for `threads` threads.
    pub fn shard_count(&self, threads: u16) -> u16 {
        match self.number(NUM_SHARDS) {
            0 => threads.saturating_mul(SHARDS_PER_THREAD),
            count => count as u16,
        }
    }

    /// The mode that the server reports: standalone or cluster.
    pub fn mode(&self) -> &'static str {
        if self.is_on(CLUSTER_MODE) { "cluster" } else { "standalone" }
    }

    /// Which threads run commands on a shard.
    pub fn entry_mode(&self) -> EntryMode {
        if self.is_on(SHARD_ENTRY) { EntryMode::Home } else { EntryMode::Roam }
    }

    /// Whether a blocking pop needs one hop rather than two in home mode.
    pub fn singlehop_blocking(&self) -> bool {
        self.is_on(SINGLEHOP_BLOCKING)
    }

    /// Keys with this prefix are assigned to the shards in turn.
    pub fn round_robin_prefix(&self) -> Option<Vec<u8>> {
        self.is_on(SHARD_ROUND_ROBIN_PREFIX).then(|| self.text(SHARD_ROUND_ROBIN_PREFIX).as_bytes().to_vec())
    }

    /// Which keys are placed in the same shard.
    pub fn colocation(&self) -> Colocation {
        Colocation::parse(self.text(COLOCATE).split_whitespace()).expect("the setting was checked")
    }

    /// The configuration of the drivers.
    pub fn driver_config(&self) -> proactor::Config {
        let io = match self.number(IO) {
            1 => proactor::IoChoice::Uring,
            2 => proactor::IoChoice::Epoll,
            _ => proactor::IoChoice::Auto,
        };
        proactor::Config { io, poll_us: self.number(POLL_US) as u32, ..proactor::Config::default() }
    }
}

#[cfg(test)]
mod tests {
    use crate::directives;

    use super::*;

    #[track_caller]
    fn check_change(settings: &Settings, pairs: &[(&str, &str)], expected: Result<(), &str>) {
        let outcome = settings.change(pairs, false).map(|_| ()).map_err(|refusal| refusal.to_string());
        assert_eq!(outcome, expected.map_err(str::to_owned), "{pairs:?}");
    }

    #[test]
    fn defaults_are_those_of_the_data_path() {
        let settings = Settings::default();
        assert_eq!(format!("{:?}", settings.data_config()), format!("{:?}", Config::default()));
        assert_eq!(settings.request_limits(true), Limits::default());
        assert_eq!(&*settings.text(PORT), "6379");
        assert_eq!(
            settings.output_limit(2),
            OutputLimit { hard_bytes: 32 << 20, soft_bytes: 8 << 20, soft_seconds: 60 }
        );
        TABLE.assert_valid();
    }

    #[test]
    fn names_have_dashes_and_are_found_by_their_old_spelling() {
        // Redis 7.2 itself spells these so.
        const OF_REDIS: [&str; 2] = ["server_cpulist", "bgsave_cpulist"];
        for (id, setting) in TABLE.all().filter(|(_, setting)| !OF_REDIS.contains(&setting.name)) {
            let is_ours = TABLE.settings.iter().any(|ours| ours.name == setting.name);
            assert!(!is_ours || !setting.name.contains('_'), "{}", setting.name);
            assert_eq!(TABLE.find(&setting.name.replace('-', "_")), Some(id), "{}", setting.name);
        }
    }

    #[test]
    fn a_change_happens_as_a_whole_or_not_at_all() {
        let settings = Settings::default();
        check_change(&settings, &[("timeout", "7"), ("HASH_max-ziplist-entries", "3")], Ok(()));
        assert_eq!((settings.number(TIMEOUT), settings.data_config().hash.entries_max), (7, 3));
        for (pairs, error) in [
            (&[("timeout", "9"), ("maxmemory", "x")] as &[_], "'maxmemory': argument must be a memory value"),
            (&[("timeout", "9"), ("TIMEOUT", "8")], "'timeout': duplicate parameter"),
            (&[("timeout", "9"), ("databases", "3")], "'databases': can't set immutable config"),
            (&[("dir", "/")], "'dir': can't set protected config"),
            (&[("timeout", "9"), ("nope", "3")], "unknown setting 'nope'"),
        ] {
            check_change(&settings, pairs, Err(error));
        }
        assert_eq!(&*settings.text(TIMEOUT), "7");
    }

    #[test]
    fn a_change_can_be_taken_back() {
        let settings = Settings::default();
        let changed = settings.change(&[("timeout", "7"), ("loglevel", "debug")], false).unwrap();
        settings.undo(&changed);
        assert_eq!((settings.number(TIMEOUT), &*settings.text(LOGLEVEL)), (0, "notice"));
    }

    #[track_caller]
    fn check_lines(lines: &str, without_effect: &[&str], errors: &[&str]) {
        let found = Settings::default().apply(directives(&TABLE, lines.as_bytes(), "x").unwrap());
        let told: Vec<&str> = found.without_effect.iter().map(|directive| directive.name).collect();
        assert_eq!(told, without_effect, "{lines}");
        let refused: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        assert!(
            refused.len() == errors.len()
                && refused.iter().zip(errors).all(|(text, name)| text.contains(name)),
            "{lines}: {refused:?}"
        );
    }

    #[test]
    fn settings_without_effect_are_kept_and_told_of() {
        let mut settings = Settings::default();
        let found =
            settings.apply(directives(&TABLE, b"hz 100\nuser default on\nUser x off", "here").unwrap());
        assert_eq!(found.users[0].words, [&b"default"[..], b"on"]);
        assert_eq!(found.users[1].place, "in here, line 3");
        assert_eq!(&*settings.text(TABLE.find("hz").unwrap()), "100");
        assert_eq!(found.without_effect[0].place, "in here, line 1");
    }

    #[test]
    fn what_says_the_default_is_nothing_to_tell() {
        check_lines("hz 10\nrepl-backlog-size 10mb\nrepl-timeout 60", &[], &[]);
        check_lines("lazyfree-lazy-expire yes\nhide-user-data-from-log yes\nreplicaof no one", &[], &[]);
        check_lines("hz 100\nhz 10\nrepl-backlog-size 2mb\nrepl-timeout 61", &[], &[]);
    }

    #[test]
    fn promises_that_cannot_be_kept_are_refused_by_their_last_value() {
        for line in [
            "tls-dh-params-file /etc/dh.pem",
            "loadmodule /usr/lib/x.so",
            "cluster-enabled yes",
            "rdma-port 1",
            "import-mode yes",
            "socket-mark-id 1",
            "unixsocketgroup redis",
        ] {
            let name = line.split(' ').next().unwrap();
            check_lines(line, &[], &[&format!("'{name}' in x, line 1 is refused: ")]);
        }
        check_lines("rdma-port 6380\nRDMA_port 0\nsocket-mark-id 2\nsocket-mark-id 0", &[], &[]);
        check_lines(
            "import-mode yes\nport x",
            &[],
            &["bad value 'x' for 'port'", "'import-mode' in x, line 1"],
        );
        let settings = Settings::default();
        let refused = settings.change(&[("socket-mark-id", "1")], false).unwrap_err();
        assert!(refused.to_string().starts_with("'socket-mark-id': "));
        check_change(&settings, &[("socket-mark-id", "0")], Ok(()));
    }
}
