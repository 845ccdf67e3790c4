//! Figures of the server that are not counted in this crate, collected when somebody asks.
//!
//! `INFO` shows them. Everything else that shows figures of a server should read them here, too.

use command::{Shards, Table};

use crate::memory::Memory;
use crate::observed::Observed;

/// A server that can be asked for its figures. It answers without entering a shard.
pub trait Facts {
    /// What was observed on all threads.
    fn observed(&self) -> &Observed;
    /// The shards, whose figures are read while they go on.
    fn shards(&self) -> &Shards;
    /// The commands.
    fn table(&self) -> &Table;
    /// What it is.
    fn server(&self) -> Server;
    /// Who is connected.
    fn clients(&self) -> Clients;
    /// Where memory goes.
    fn memory(&self) -> Memory;
    /// What becomes of snapshots.
    fn persistence(&self) -> Persistence;
    /// What it is to its replicas.
    fn replication(&self) -> Replication;
    /// What has gone on for how long.
    fn spans(&self) -> Spans;
    /// Patterns to which clients have subscribed.
    fn pattern_count(&self) -> usize;
    /// The processor's time: that of the process, that of its children, that of this thread.
    fn cpu(&self) -> [CpuTime; 3];
    /// Which percentiles of the commands' durations are shown.
    fn latency_percents(&self) -> Vec<f64>;
}

/// What a server knows of the primary that it follows.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// Where the primary is.
    pub host: String,
    /// See there.
    pub port: u16,
    /// Whether the stream flows, and since something last came.
    pub is_up: bool,
    /// See there.
    pub silent_seconds: u64,
    /// Of the snapshot that is being received: bytes in all, 0 if that is not known, and those that have come.
    pub snapshot: Option<(u64, u64)>,
    /// How long the stream has not flowed.
    pub down_seconds: u64,
    /// How much of the stream is applied; at first 1, as Redis has it.
    pub offset: u64,
    /// `replica-priority`.
    pub priority: u64,
    /// `replica-read-only`.
    pub is_read_only: bool,
    /// `replica-announced`.
    pub is_announced: bool,
}

/// What a server is to its replicas, and to its primary.
#[derive(Clone, Debug, Default)]
pub struct Replication {
    /// The primary that it follows.
    pub followed: Option<Followed>,
    /// The id of its stream.
    pub id: String,
    /// The one that it had before, and up to which offset; empty: none.
    pub former: Option<(String, u64)>,
    /// Where the stream ends.
    pub offset: u64,
    /// Where what is kept of it begins; `None`: it is off.
    pub first: Option<u64>,
    /// So many bytes are kept at least.
    pub backlog_bytes: u64,
    /// Each replica as a line of INFO has it.
    pub replicas: Vec<String>,
    /// How many of them follow closely, if `min-replicas-to-write` asks for some.
    pub close_count: Option<u64>,
    /// For how many of them replies may wait, if `repl-sync-replicas` has them wait for some.
    pub synced_count: Option<u64>,
    /// Full and partial synchronisations, and those that could not be partial.
    pub syncs: [u64; 3],
    /// How far a failover is: `no-failover`, `waiting-for-sync` or `failover-in-progress`.
    pub failover: &'static str,
    /// Commands of the primary's stream that failed here.
    pub error_count: u64,
    /// Commands that were left out of what replicas got, as they do not know them.
    pub unsupported_count: u64,
}

/// What a server is, and how it was started.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// The Redis version whose behaviour it has.
    pub redis_version: &'static str,
    /// Its own.
    pub darter_version: &'static str,
    /// The first digits of the commit that it was built from.
    pub git_sha: &'static str,
    /// How many files differed from it.
    pub git_dirty: &'static str,
    /// Tells builds apart.
    pub build_id: &'static str,
    /// `standalone` or `cluster`.
    pub mode: &'static str,
    /// Whether it is emulating a cluster.
    pub is_cluster: bool,
    /// The operating system.
    pub os: String,
    /// How it waits for its sockets.
    pub driver: &'static str,
    /// Who looks after the process.
    pub supervisor: &'static str,
    /// Forty digits that no other run has.
    pub run_id: String,
    /// Where it listens; 0: at no port.
    pub port: u64,
    /// What time it is, in microseconds since 1970.
    pub now_us: u64,
    /// The same in milliseconds, of the clock that does not jump.
    pub steady_ms: u64,
    /// For how long it has run.
    pub uptime_seconds: u64,
    /// The program's file.
    pub executable: String,
    /// The configuration's; empty: none.
    pub config_file: String,
    /// Its threads that serve clients.
    pub thread_count: usize,
    /// `home` or `roam`.
    pub shard_entry: &'static str,
    /// Where it listens, each as `INFO` describes it.
    pub listeners: Vec<String>,
    /// Its databases.
    pub database_count: u32,
}

/// Who is connected.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clients {
    /// Connections of clients.
    pub connected: u64,
    /// As many as there may be.
    pub max: u64,
    /// Those that track keys.
    pub tracking: usize,
}

/// What becomes of snapshots and of the journal.
#[derive(Clone, Debug, Default)]
pub struct Persistence {
    /// The load that is under way.
    pub loading: Option<Loading>,
    /// The save that is under way.
    pub saving: Option<Saving>,
    /// Changes that no snapshot has.
    pub unsaved_changes: u64,
    /// When the last save was done, in seconds since 1970.
    pub last_save_seconds: u64,
    /// The last one did not succeed.
    pub last_failed: bool,
    /// How long it took; -1: there was none.
    pub last_took_seconds: i64,
    /// Saves since the start.
    pub save_count: u64,
    /// The most memory that the last one took.
    pub last_peak_bytes: u64,
    /// Keys that had expired when the snapshot was loaded.
    pub expired_key_count: u64,
    /// Keys that were loaded.
    pub loaded_key_count: u64,
    /// The checkpoints of the journal.
    pub checkpoints: Checkpoints,
    /// Whether a journal is wanted.
    pub has_journal: bool,
    /// The journal, if it is on.
    pub journal: Option<Journal>,
    /// What a crash at this moment would lose, in words.
    pub at_risk: String,
}

/// What becomes of the checkpoints of the journal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checkpoints {
    /// For how long the one that is under way has gone on.
    pub current_seconds: Option<u64>,
    /// One is to come as soon as possible.
    pub is_scheduled: bool,
    /// How long the last one took.
    pub last_took_seconds: Option<u64>,
    /// Those since the start, failed ones included.
    pub count: u64,
    /// Those that failed since one did not.
    pub failures: u64,
    /// The most memory that the last one took.
    pub last_peak_bytes: u64,
}

/// What becomes of the journal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Journal {
    /// Its base and all that came after it.
    pub size_bytes: u64,
    /// Its base.
    pub base_bytes: u64,
    /// What was changed and waits to be written.
    pub pending_bytes: u64,
    /// Syncs that are under way.
    pub syncs_pending: u64,
    /// Syncs that took longer than they may.
    pub syncs_delayed: u64,
    /// The last slice, and the last one that is durable.
    pub slice: u64,
    /// See there.
    pub durable_slice: u64,
    /// Where the stream of changes ends, in bytes.
    pub position: u64,
    /// Writes, and what they took in microseconds.
    pub write_count: u64,
    /// See there.
    pub write_us: u64,
    /// It cannot be written.
    pub has_failed: bool,
}

/// A save that is under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Saving {
    /// Keys that it has written.
    pub keys_done: u64,
    /// All keys that it will write.
    pub key_count: u64,
    /// For how long it has gone on.
    pub seconds: u64,
}

/// A load that is under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loading {
    /// When it began, since 1970.
    pub started_seconds: u64,
    /// How large the files are.
    pub total_bytes: u64,
    /// What the data took when they were saved.
    pub used_bytes: u64,
    /// How much of the files was read.
    pub loaded_bytes: u64,
    /// The same as a percentage.
    pub percent: f64,
    /// How long it may go on.
    pub seconds_left: u64,
}

/// For how long something has been so, and for how long in all, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// 0: it is not so now.
    pub current_ms: u64,
    /// Since the start or the last reset.
    pub total_ms: u64,
}

/// What has gone on for how long.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spans {
    /// More memory was used than is allowed.
    pub exceeded: Span,
    /// Defragmentation was at work.
    pub fragmented: Span,
}

/// The processor's time, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTime {
    /// In the kernel.
    pub system: f64,
    /// Outside it.
    pub user: f64,
}
