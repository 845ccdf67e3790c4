//! The keys commands.

use command::Entry;

/// The keys commands.
pub const ENTRIES: &[Entry] = &[];
