//! The server: connections, dispatch, configuration, administration.
//!
//! A command travels `life/pipeline.rs` (bytes → arguments) → `life/dispatch.rs` (which shards, entered, delegated or
//! queued) → its function → the connection's output, or `life/homecoming.rs` if it ran on another thread.

mod accounting;
mod bounds;
mod clients;
mod commands;
mod connections;
mod crash;
mod cron;
mod cross_protocol;
mod daemon;
mod defrag;
mod error;
mod eviction;
mod latency_monitor;
mod library_store;
mod life;
mod listeners;
mod log;
mod memcached;
mod message;
mod monitor;
mod parser;
mod patterns;
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
mod totals;
mod tracking;
mod users;
mod version;

pub use simulated::{SimulatedServer, SimulatedThread, simulate};
pub use start::run;

/// All commands of the server: for tests that go by their declarations.
pub fn table() -> command::Table {
    command::Table::new(&commands::families())
}
