//! What can be seen of a running server: counters, the slow log, latencies, and connections that see every command.
//!
//! Not here: how `INFO` and its like show them (`commands/`).

pub(crate) mod accounting;
pub(crate) mod latency_monitor;
pub(crate) mod monitors;
pub(crate) mod observed;
pub(crate) mod peaks;
pub(crate) mod slow_log;
pub(crate) mod stats;
