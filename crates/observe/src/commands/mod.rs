//! The commands by which clients see what was observed.

use crate::door::Entry;

mod latency;
mod monitor;
mod slowlog;

/// All of them.
pub const ENTRIES: &[Entry] = &[latency::LATENCY, monitor::MONITOR, slowlog::SLOWLOG];
