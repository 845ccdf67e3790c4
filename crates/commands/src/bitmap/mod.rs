//! The bitmap commands.

use command::Entry;

/// The bitmap commands.
pub const ENTRIES: &[Entry] = &[];
