//! Darter over HTTP: the console, metrics, queues for autoscalers, and health.
//!
//! ```text
//!   accept (listening.rs) ─▶ a place (connections.rs) ─▶ TLS, if http-tls is on (securing.rs) ─▶ hyper, with limits (serving.rs, stream.rs)
//!      └─▶ guard.rs: Host, user and password, origin ─▶ routes.rs
//!            ├─ metrics/, queue_table.rs, overview.rs, charts.rs    read counters
//!            └─ now.rs, run_command.rs ── messenger.rs ─▶ a data thread, as a client of its own
//!   sampler.rs, each second ─▶ charts.rs, sparks.rs
//! ```
//!
//! HTTP has one thread with a runtime of its own, so that HTTP clients take no time from data threads. The thread reads
//! counters and never enters a shard. A request that needs a command runs it as an ordinary client: one end of a
//! socket pair goes to a data thread like an accepted connection, and its client is the HTTP user. So ACL rules,
//! MONITOR, the slow log, pauses and refusals apply to it without additional code.
//!
//! Limits: `http-connections-max`, and the constants of `serving.rs`, `guard.rs` and `messenger.rs`.
//!
//! [`Source`] is the server as this crate sees it. Its answers come from counters.
//!
//! Not here: the figures of queues (`queues`), the counters (`observe`), the page itself (`console/`).

#![forbid(unsafe_code)]

mod charts;
mod connections;
mod console;
mod cpu;
mod error;
#[cfg(test)]
mod example;
mod guard;
#[cfg(any(test, fuzzing))]
pub mod hostile;
mod jobs;
mod json;
mod key_samples;
mod labels;
mod listening;
mod messenger;
mod metrics;
mod now;
mod overview;
mod query;
mod queue_table;
mod reply;
mod ring;
mod routes;
mod run_command;
mod sampler;
mod securing;
mod serving;
mod sparks;
mod state;
mod stream;

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use ::jobs::queues::Row;
use acl::{Access, Users};
use config::Settings;
use observe::Facts;

pub use crate::error::Error;
pub use crate::listening::Listening;
pub use crate::serving::start;
pub use tokio_rustls::rustls::ServerConfig;

/// The server as this crate sees it. Every answer comes from counters, without entering a shard.
pub trait Source: Send + Sync {
    /// The server's figures.
    fn facts(&self) -> Box<dyn Facts + '_>;
    /// One row for each queue.
    fn queues(&self) -> Vec<Row>;
    /// The settings.
    fn settings(&self) -> &Settings;
    /// The users.
    fn users(&self) -> &Users;
    /// Whether commands that write wait for the journal because it cannot keep up.
    fn is_stalled(&self) -> bool;
    /// How new connections speak TLS, with the certificates that were read last; `None`: TLS was not set up.
    fn tls(&self) -> Option<Arc<ServerConfig>>;
    /// The time in milliseconds since 1970.
    fn now_ms(&self) -> u64;
    /// Opens a connection to one of the data threads, whose client is shown as `peer`. With `access` the client has
    /// that user's rights, is named `http` and speaks RESP3.
    ///
    /// # Errors
    /// If the system gives no sockets.
    fn connect(&self, peer: &str, access: Option<Access>) -> io::Result<UnixStream>;
}
