//! The server: connections, dispatch, configuration, administration.
//!
//! A command travels `thread.rs` (bytes → arguments) → `dispatch.rs` (which shards, entered, delegated or queued)
//! → its function → the connection's output, or `homecoming.rs` if it ran on another thread.

mod accounting;
mod admit;
mod background;
mod bounds;
mod busy;
mod commands;
mod connections;
mod crash;
mod cron;
mod cross_protocol;
mod defrag;
mod dispatch;
mod error;
mod eviction;
mod gather;
mod homecoming;
mod latency_monitor;
mod library_store;
mod lifecycle;
mod listeners;
mod log;
mod memcached;
mod message;
mod migration;
mod monitor;
mod parser;
mod patterns;
mod pause;
mod pipeline;
mod populate;
mod processors;
mod pubsub;
mod roamed;
mod roaming;
mod script_store;
mod scripting;
mod session;
mod settings;
mod shared;
mod shutdown;
mod simulated;
mod snapshot;
mod start;
mod stats;
mod supervisor;
mod system;
mod thread;
mod timers;
mod tracking;
mod users;
mod version;
mod watch;

pub use simulated::{SimulatedServer, SimulatedThread, simulate};
pub use start::run;

/// All commands of the server: for tests that go by their declarations.
pub fn table() -> command::Table {
    command::Table::new(&commands::families())
}
