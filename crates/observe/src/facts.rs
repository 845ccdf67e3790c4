//! Figures of the server that are not counted in this crate, collected on request.
//!
//! `INFO` shows them. Everything else that shows figures of a server should read them here, too.

use engine::{Shards, Table};

use crate::memory::Memory;
use crate::observed::Observed;

/// A server's statistics. None of these enters a shard.
pub trait Facts {
    /// Statistics of all threads.
    fn observed(&self) -> &Observed;
    /// The shards. Their statistics change while they are read.
    fn shards(&self) -> &Shards;
    /// The commands.
    fn table(&self) -> &Table;
    /// The server and its process.
    fn server(&self) -> Server;
    /// The connected clients.
    fn clients(&self) -> Clients;
    /// The use of memory.
    fn memory(&self) -> Memory;
    /// Snapshots and the journal.
    fn persistence(&self) -> Persistence;
    /// The server's role in replication.
    fn replication(&self) -> Replication;
    /// How long certain states have lasted.
    fn spans(&self) -> Spans;
    /// The number of patterns that have subscribers.
    fn pattern_count(&self) -> usize;
    /// The processor time of the process, of its children, and of this thread.
    fn cpu(&self) -> [CpuTime; 3];
    /// The percentiles to show for commands' durations.
    fn latency_percents(&self) -> Vec<f64>;
}

/// The state of a replica's primary, as the replica knows it.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// The host of the primary.
    pub host: String,
    /// The port of the primary.
    pub port: u16,
    /// Whether the stream is being received.
    pub is_up: bool,
    /// How many seconds ago something was last received.
    pub silent_seconds: u64,
    /// The snapshot that is being received: its size in bytes (0: unknown), and the bytes received.
    pub snapshot: Option<(u64, u64)>,
    /// For how many seconds no stream has been received.
    pub down_seconds: u64,
    /// How many of the primary's commands failed here, so that what they did is lacking.
    pub divergence: u64,
    /// The offset up to which the stream is applied. It begins at 1, as in Redis.
    pub offset: u64,
    /// `replica-priority`.
    pub priority: u64,
    /// `replica-read-only`.
    pub is_read_only: bool,
    /// `replica-announced`.
    pub is_announced: bool,
}

/// A server's part in a group that fails over by itself.
#[derive(Clone, Debug, Default)]
pub struct GroupFacts {
    /// The group.
    pub name: String,
    /// This node, and the life of this process.
    pub node: (String, String),
    /// `primary`, `replica` or `none`.
    pub role: &'static str,
    /// The term, and the revision of the document that says it.
    pub term: (u64, u64),
    /// The node that leads.
    pub leader: String,
    /// The nodes in sync, and those that belong to the group.
    pub in_sync: Vec<String>,
    /// See [`in_sync`](Self::in_sync).
    pub members: Vec<String>,
    /// For how many milliseconds this primary serves without a new grant; `None`: it needs none.
    pub serves_for_ms: Option<u64>,
    /// What this primary knows of each node: its name, the milliseconds left of its grant, and the offset that it has.
    pub grants: Vec<(String, u64, u64)>,
    /// Whether it is not known what became of a change of the document.
    pub is_outcome_unknown: bool,
}

/// The server's role in replication.
#[derive(Clone, Debug, Default)]
pub struct Replication {
    /// Its part in a group, if it is in one.
    pub group: Option<GroupFacts>,
    /// The primary, if the server is a replica.
    pub followed: Option<Followed>,
    /// The id of its stream.
    pub id: String,
    /// The former id of its stream, and the offset up to which it is valid.
    pub former: Option<(String, u64)>,
    /// The offset at the end of the stream.
    pub offset: u64,
    /// The offset at the beginning of the backlog; `None`: there is no backlog.
    pub first: Option<u64>,
    /// The least size of the backlog.
    pub backlog_bytes: u64,
    /// The line of INFO about each replica.
    pub replicas: Vec<String>,
    /// How many replicas have little lag, if `min-replicas-to-write` is set.
    pub close_count: Option<u64>,
    /// For how many replicas replies may wait, if `repl-sync-replicas` is set.
    pub synced_count: Option<u64>,
    /// Nothing is read, because replicas may lack some of the data here.
    pub is_in_doubt: bool,
    /// Full synchronisations, partial ones, and requests for partial ones that were denied.
    pub syncs: [u64; 3],
    /// The state of a failover: `no-failover`, `waiting-for-sync` or `failover-in-progress`.
    pub failover: &'static str,
    /// How many commands of the primary's stream failed here.
    pub error_count: u64,
    /// How many commands were not sent to replicas that do not know them.
    pub unsupported_count: u64,
}

/// The server and its process.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// The version of Redis that it is compatible with.
    pub redis_version: &'static str,
    /// Its own version.
    pub darter_version: &'static str,
    /// The first digits of the commit that it was built from.
    pub git_sha: &'static str,
    /// How many files were changed since that commit.
    pub git_dirty: &'static str,
    /// Identifies the build.
    pub build_id: &'static str,
    /// `standalone` or `cluster`.
    pub mode: &'static str,
    /// Whether it presents itself as a cluster of one node.
    pub is_cluster: bool,
    /// The operating system.
    pub os: String,
    /// How it waits for I/O.
    pub driver: &'static str,
    /// The service manager.
    pub supervisor: &'static str,
    /// Forty random digits that identify this run.
    pub run_id: String,
    /// The port; 0: none.
    pub port: u64,
    /// The current time, in microseconds since 1970.
    pub now_us: u64,
    /// The time of the monotonic clock, in milliseconds.
    pub steady_ms: u64,
    /// For how many seconds it has run.
    pub uptime_seconds: u64,
    /// For how many milliseconds a shutdown still waits for replicas, if it does.
    pub shutdown_ms_left: Option<i64>,
    /// The path of the program.
    pub executable: String,
    /// The path of the configuration file; empty: none.
    pub config_file: String,
    /// The number of threads that serve clients.
    pub thread_count: usize,
    /// `home` or `roam`.
    pub shard_entry: &'static str,
    /// The listeners, as `INFO` describes them.
    pub listeners: Vec<String>,
    /// The number of databases.
    pub database_count: u32,
}

/// The connected clients.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clients {
    /// The number of clients.
    pub connected: u64,
    /// The most clients that may be connected.
    pub max: u64,
    /// The number of clients that track keys.
    pub tracking: usize,
}

/// Snapshots and the journal.
#[derive(Clone, Debug, Default)]
pub struct Persistence {
    /// The current load, if there is one.
    pub loading: Option<Loading>,
    /// The current save, if there is one.
    pub saving: Option<Saving>,
    /// Changes that are in no snapshot.
    pub unsaved_changes: u64,
    /// The time of the last successful save, in seconds since 1970.
    pub last_save_seconds: u64,
    /// Whether the last save failed.
    pub last_failed: bool,
    /// How long the last save took; -1: there was none.
    pub last_took_seconds: i64,
    /// The number of saves since the start.
    pub save_count: u64,
    /// The most memory that the last save used.
    pub last_peak_bytes: u64,
    /// How many keys had expired when the snapshot was loaded.
    pub expired_key_count: u64,
    /// How many keys were loaded.
    pub loaded_key_count: u64,
    /// Checkpoints of the journal.
    pub checkpoints: Checkpoints,
    /// Whether the settings ask for a journal.
    pub has_journal: bool,
    /// The journal, if it is on.
    pub journal: Option<JournalFacts>,
    /// The data that a crash now would lose, in words.
    pub at_risk: String,
}

/// Checkpoints of the journal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checkpoints {
    /// For how long the current one has run, if there is one.
    pub current_seconds: Option<u64>,
    /// Whether one is to begin as soon as possible.
    pub is_scheduled: bool,
    /// How long the last one took.
    pub last_took_seconds: Option<u64>,
    /// The number of checkpoints since the start, including failed ones.
    pub count: u64,
    /// How many have failed since the last successful one.
    pub failures: u64,
    /// The most memory that the last one used.
    pub last_peak_bytes: u64,
}

/// The journal.
#[derive(Clone, Copy, Debug, Default)]
pub struct JournalFacts {
    /// The size of the base and everything after it.
    pub size_bytes: u64,
    /// The size of the base.
    pub base_bytes: u64,
    /// Changes that wait to be written.
    pub pending_bytes: u64,
    /// The number of syncs in progress.
    pub syncs_pending: u64,
    /// How often commands that write had to wait because a sync took too long.
    pub syncs_delayed: u64,
    /// How often they had to wait for the journal at all.
    pub writes_delayed: u64,
    /// The number of the last slice.
    pub slice: u64,
    /// The number of the last durable slice.
    pub durable_slice: u64,
    /// The position at the end of the stream, in bytes.
    pub position: u64,
    /// The number of writes.
    pub write_count: u64,
    /// How long all writes took, in microseconds.
    pub write_us: u64,
    /// Whether the journal can no longer be written.
    pub has_failed: bool,
}

/// A save in progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Saving {
    /// How many keys are written.
    pub keys_done: u64,
    /// How many keys there are to write.
    pub key_count: u64,
    /// For how many seconds it has run.
    pub seconds: u64,
}

/// A load in progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loading {
    /// When it began, in seconds since 1970.
    pub started_seconds: u64,
    /// The size of the files.
    pub total_bytes: u64,
    /// The memory of the data when it was saved.
    pub used_bytes: u64,
    /// How much of the files is read.
    pub loaded_bytes: u64,
    /// How much of the files is read, in percent.
    pub percent: f64,
    /// The estimated remaining time.
    pub seconds_left: u64,
}

/// How long a state has lasted, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// For how long it has lasted now; 0: it does not hold.
    pub current_ms: u64,
    /// For how long in all, since the start or the last reset.
    pub total_ms: u64,
}

/// How long certain states have lasted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spans {
    /// More memory is used than allowed.
    pub exceeded: Span,
    /// Defragmentation is running.
    pub fragmented: Span,
}

/// Processor time, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTime {
    /// Time in the kernel.
    pub system: f64,
    /// Time in the program.
    pub user: f64,
}
