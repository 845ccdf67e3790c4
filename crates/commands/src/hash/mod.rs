//! The hash commands.

use command::Entry;

/// The hash commands.
pub const ENTRIES: &[Entry] = &[];
