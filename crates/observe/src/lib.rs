//! Observability of a running server: counters, the command logs, latencies, and connections that see every command.
//!
//! ```text
//!   each thread   Accounting ──▶ ThreadStats   counters that it alone writes
//!                 Monitors                      connections that see every command
//!   all threads   Observed     sums of the counters since the last reset, rates, peak, command logs, latency monitor
//! ```
//!
//! Invariant: a command that is neither slow nor large nor failed costs plain loads and stores in its thread's counters,
//! and reads three words of settings.
//!
//! After a command, the thread's [`Accounting`] compares its duration with one number, the lower of the thresholds of slow
//! log and latency monitor, and the client's output with the least size of a large reply. A command's entry declares what MONITOR must not show of it (`Secrets`).
//! `INFO` turns the server's figures (`Facts`), plain numbers and words, into named and typed values; its text is one way
//! to show these.
//!
//! Not here: sockets, and the messages between threads.

#![forbid(unsafe_code)]

mod accounting;
mod command_log;
mod commands;
mod durations;
mod facts;
mod hot_keys;
mod latency_monitor;
mod memory;
mod monitors;
mod observed;
mod observing;
mod peaks;
mod settings;
mod stats;

pub use accounting::{Accounting, Call, RequestSource};
pub use command_log::{Caller, LogKind, request_bytes};
pub use commands::{ENTRIES, InfoValue, figures};
pub use durations::Durations;
pub use facts::{
    Checkpoints, Clients, CpuTime, Facts, Followed, GroupFacts, JournalFacts, Loading, Persistence,
    Replication, Saving, Server, Span, Spans,
};
pub use memory::Memory;
pub use monitors::{CommandSource, Monitors, line};
pub use observed::{Observed, Rate};
pub use observing::{Ctx, Entry, Function, Observing};
pub use peaks::RecentPeaks;
pub use settings::{LogSettings, ObserveSettings};
pub use stats::{CommandStats, Counter, Denial, EntryType, ErrorCounts, ThreadStats, Total, WIDTH_BUCKETS};
