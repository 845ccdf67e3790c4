//! The set commands.

use command::Entry;

/// The set commands.
pub const ENTRIES: &[Entry] = &[];
