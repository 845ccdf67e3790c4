//! The list commands.

use command::Entry;

/// The list commands.
pub const ENTRIES: &[Entry] = &[];
