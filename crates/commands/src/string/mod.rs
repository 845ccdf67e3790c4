//! The string commands.

use command::Entry;

/// The string commands.
pub const ENTRIES: &[Entry] = &[];
