//! The zset commands.

use command::Entry;

/// The zset commands.
pub const ENTRIES: &[Entry] = &[];
