//! The commands of top-k sketches, with the replies of RedisBloom.

mod add;
mod read;

use engine::{CommandError, Entry};

/// The commands of top-k sketches.
pub const ENTRIES: &[Entry] = &[
    add::TOPK_ADD,
    read::TOPK_COUNT,
    add::TOPK_INCRBY,
    read::TOPK_INFO,
    read::TOPK_LIST,
    read::TOPK_QUERY,
    add::TOPK_RESERVE,
];

const NO_KEY: CommandError = CommandError::fixed("TopK: key does not exist");
