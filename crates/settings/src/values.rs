//! The values of a running server.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use config::{Changed, Refusal, Value, Values};
use ds::hash::CollectionLimits;
use ds::list::{ListLimits, NODE_BYTES_MAX};
use ds::placing::Colocation;
use ds::set::SetLimits;
use ds::stream::StreamLimits;
use ds::zset::ZSetLimits;
use keyspace::eviction::{Policy, Rank};
use keyspace::queue::Known;
use keyspace::{Config, Lfu};
use resp::Limits;

use crate::Consequence;
use crate::special::{OutputLimit, parse_output_limits};
use crate::table::*;

const EFFECTIVE_COUNT: usize = EFFECTIVE.len();

/// Nodes that are not compressed at either end of a list that is.
const LIST_PLAIN_NODES: u32 = 64;
/// Shorter ones have one node in so many plain at either end.
const LIST_PLAIN_PART: u32 = 64;
/// Shards per thread unless told otherwise.
const SHARDS_PER_THREAD: u16 = 32;

/// What the server was told, and may be told anew by `CONFIG SET`. It is its values, with what the server reads often and
/// has no number.
#[derive(Debug)]
pub struct Settings {
    values: Values<Consequence, EFFECTIVE_COUNT>,
    /// Hard bytes, soft bytes and soft seconds of each class of clients.
    output_limits: [[AtomicU64; 3]; 3],
    /// Whether `io-threads` says how many threads there are.
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
    type Target = Values<Consequence, EFFECTIVE_COUNT>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.values
    }
}

/// How commands enter shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryMode {
    /// Any thread enters any shard.
    Roam,
    /// Only the home thread enters a shard; the others hop.
    Home,
}

impl Settings {
    pub(crate) fn values_mut(&mut self) -> &mut Values<Consequence, EFFECTIVE_COUNT> {
        &mut self.values
    }

    /// Whether `io-threads` says how many threads there are.
    pub(crate) fn note_io_threads(&mut self, asks: bool) {
        self.has_io_threads = asks;
    }

    // ---- changing -------------------------------------------------------------------------------------------

    /// Takes the limits of output out of their text, in which `CONFIG SET` may have changed them.
    pub(crate) fn note_output_limits(&self) {
        self.values.with_text(CLIENT_OUTPUT_BUFFER_LIMIT, |text| {
            for (stored, limit) in self.output_limits.iter().zip(parse_output_limits(text)) {
                stored[0].store(limit.hard_bytes, Ordering::Relaxed);
                stored[1].store(limit.soft_bytes, Ordering::Relaxed);
                stored[2].store(limit.soft_seconds, Ordering::Relaxed);
            }
        });
    }

    /// Takes the process's working directory as `dir`, which may have been given relative to another.
    pub fn note_directory(&self) {
        if let Ok(directory) = std::env::current_dir() {
            self.force(DIR, &Value::text(directory.display().to_string()));
        }
    }

    /// `CONFIG SET`: sets all of `pairs` or, with an error, none. `may_protected`: the client may change settings that say
    /// where files are written.
    pub fn change(&self, pairs: &[(&str, &str)], may_protected: bool) -> Result<Changed, Refusal> {
        let changed = self.values.change(pairs, may_protected)?;
        self.note_output_limits();
        Ok(changed)
    }

    /// Takes a change back, because what had to follow from it failed.
    pub fn undo(&self, changed: &Changed) {
        self.values.undo(changed);
        self.note_output_limits();
    }

    // ---- what the server asks -------------------------------------------------------------------------------

    /// Says which further keys are queues, and how many queues may be known; `steady_ms` is the time of the clock that does not jump.
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
            hash: CollectionLimits { entries_max: number(HASH_ENTRIES), value_bytes_max: number(HASH_VALUE) },
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
            promotes: self.is_on(PROMOTE),
            recovers: self.is_on(JOB_RECOVERY),
            notify: self.number(NOTIFY_KEYSPACE_EVENTS) as u32,
        }
    }

    /// Which lists are compressed, and how far.
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

    /// Whether snapshots are saved unasked after so many changes, and before the server ends.
    pub fn has_save_points(&self) -> bool {
        self.is_on(SAVE)
    }

    /// How much memory may be used; 0: any.
    #[inline]
    pub fn memory_bytes_max(&self) -> u64 {
        self.number(MAXMEMORY) as u64
    }

    /// Which keys are evicted, if any.
    pub fn policy(&self) -> Option<Policy> {
        Policy::numbered(self.number(MAXMEMORY_POLICY))
    }

    /// What a request may be like.
    #[inline]
    pub fn request_limits(&self, authenticated: bool) -> Limits {
        Limits { bulk_bytes_max: self.number(PROTO_MAX_BULK_LEN) as u64, authenticated, ..Limits::default() }
    }

    /// After how long a silent connection is probed; zero: never.
    pub fn keepalive(&self) -> Duration {
        Duration::from_secs(self.number(TCP_KEEPALIVE) as u64)
    }

    /// The password that the default user is to have.
    pub fn password(&self) -> Option<Arc<str>> {
        self.is_on(REQUIREPASS).then(|| self.text(REQUIREPASS))
    }

    /// Whether only clients on this machine are served while there is no password.
    pub fn is_protected(&self) -> bool {
        self.is_on(PROTECTED_MODE)
    }

    /// How many clients may be connected at once.
    pub fn clients_max(&self) -> u64 {
        self.number(MAXCLIENTS) as u64
    }

    /// After how many seconds an idle client is disconnected; 0: never.
    pub fn idle_seconds_max(&self) -> u64 {
        self.number(TIMEOUT) as u64
    }

    /// The longest request that is collected for a client.
    pub fn query_bytes_max(&self) -> usize {
        self.number(CLIENT_QUERY_BUFFER_LIMIT) as usize
    }

    /// Unread replies at which a client's further commands wait.
    pub fn unread_bytes_max(&self) -> usize {
        self.number(CLIENT_UNREAD_BYTES_MAX) as usize
    }

    /// The limit of the output of a class of clients: 0 normal ones, 1 replicas, 2 subscribers.
    pub fn output_limit(&self, class: usize) -> OutputLimit {
        let [hard_bytes, soft_bytes, soft_seconds] =
            self.output_limits[class].each_ref().map(|number| number.load(Ordering::Relaxed));
        OutputLimit { hard_bytes, soft_bytes, soft_seconds }
    }

    /// After how long a script is slow.
    pub fn script_time_limit_ms(&self) -> u64 {
        match self.number(BUSY_REPLY_THRESHOLD) {
            0 => u64::MAX,
            limit_ms => limit_ms as u64,
        }
    }

    /// For how long a script may run that has written nothing.
    pub fn script_time_max_ms(&self) -> u64 {
        match self.number(SCRIPT_TIME_MAX) {
            0 => u64::MAX,
            max_ms => max_ms as u64,
        }
    }

    /// After how many runs within its declared keys a script is trusted to keep to them.
    pub fn script_trusted_after(&self) -> u32 {
        self.number(SCRIPT_TRUSTED_AFTER) as u32
    }

    /// Memory that scripts may use on each thread.
    pub fn script_memory_bytes_max(&self) -> usize {
        self.number(SCRIPT_MEMORY_BYTES_MAX) as usize
    }

    /// Number of databases.
    pub fn databases(&self) -> u32 {
        self.number(DATABASES) as u32
    }

    /// How many threads are to serve clients, and which setting says so; `None`: as many as the machine suggests.
    pub fn thread_count(&self) -> Option<(usize, &'static str)> {
        match self.number(PROACTOR_THREADS) {
            0 if self.has_io_threads => Some((self.number(IO_THREADS) as usize, "io-threads")),
            0 => None,
            count => Some((count as usize, "proactor-threads")),
        }
    }

    /// Number of shards for so many threads.
    pub fn shard_count(&self, threads: u16) -> u16 {
        match self.number(NUM_SHARDS) {
            0 => threads.saturating_mul(SHARDS_PER_THREAD),
            count => count as u16,
        }
    }

    /// What the server says it is, alone or a cluster.
    pub fn mode(&self) -> &'static str {
        if self.is_on(CLUSTER_MODE) { "cluster" } else { "standalone" }
    }

    /// How commands enter shards.
    pub fn entry_mode(&self) -> EntryMode {
        if self.is_on(SHARD_ENTRY) { EntryMode::Home } else { EntryMode::Roam }
    }

    /// Whether a blocking pop needs one hop rather than two in home mode.
    pub fn singlehop_blocking(&self) -> bool {
        self.is_on(SINGLEHOP_BLOCKING)
    }

    /// Keys that begin like this are dealt out to the shards in turn.
    pub fn round_robin_prefix(&self) -> Option<Vec<u8>> {
        self.is_on(SHARD_ROUND_ROBIN_PREFIX).then(|| self.text(SHARD_ROUND_ROBIN_PREFIX).as_bytes().to_vec())
    }

    /// Which keys lie together.
    pub fn colocation(&self) -> Colocation {
        Colocation::parse(self.text(COLOCATE).split_whitespace()).expect("the setting was checked")
    }

    /// How the drivers are to behave.
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
    use config::directives;

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
