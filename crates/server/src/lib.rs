//! The server: connections, dispatch, configuration, administration.
//!
//! A command travels `thread.rs` (bytes → arguments) → `dispatch.rs` (which shards, entered, delegated or queued)
//! → its function → the connection's output, or `homecoming.rs` if it ran on another thread.

mod accounting;
mod admin;
mod admit;
mod bounds;
mod busy;
mod commands;
mod connections;
mod cron;
mod dispatch;
mod gather;
mod homecoming;
mod lifecycle;
mod message;
mod monitor;
mod patterns;
mod pause;
mod pubsub;
mod script_store;
mod scripting;
mod session;
mod settings;
mod shared;
mod start;
mod stats;
mod thread;
mod timers;
mod version;

pub use start::{Options, run};
