//! The commands of Bloom filters, with the replies of RedisBloom.

mod add;
mod dump;
mod read;

use engine::{CommandError, Entry};

/// The commands of Bloom filters.
pub const ENTRIES: &[Entry] = &[
    add::BF_ADD,
    read::BF_CARD,
    read::BF_EXISTS,
    read::BF_INFO,
    add::BF_INSERT,
    dump::BF_LOADCHUNK,
    add::BF_MADD,
    read::BF_MEXISTS,
    add::BF_RESERVE,
    dump::BF_SCANDUMP,
];

pub(crate) const NOT_FOUND: CommandError = CommandError::fixed("ERR not found");
pub(crate) const EXISTS: CommandError = CommandError::fixed("ERR item exists");
pub(crate) const UNKNOWN_ARGUMENT: CommandError = CommandError::fixed("Unknown argument received");
pub(crate) const NO_MEMORY: CommandError = CommandError::fixed("ERR Insufficient memory to create filter");
