//! The commands that show clients the server's figures.

use crate::observing::Entry;

mod commandlog;
mod hotkeys;
mod info;
mod latency;
mod memory;
mod monitor;
mod slowlog;

pub use info::{InfoValue, figures};

/// The commands of this crate.
pub const ENTRIES: &[Entry] = &[
    commandlog::COMMANDLOG,
    hotkeys::HOTKEYS,
    info::INFO,
    latency::LATENCY,
    memory::MEMORY,
    monitor::MONITOR,
    slowlog::SLOWLOG,
];
