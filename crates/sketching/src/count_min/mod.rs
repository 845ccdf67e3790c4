//! The commands of count-min sketches, with the replies of RedisBloom.

mod create;
mod items;
mod merge;

use engine::{CommandError, Entry};

/// The commands of count-min sketches.
pub const ENTRIES: &[Entry] = &[
    items::CMS_INCRBY,
    items::CMS_INFO,
    create::CMS_INITBYDIM,
    create::CMS_INITBYPROB,
    merge::CMS_MERGE,
    items::CMS_QUERY,
];

const NO_KEY: CommandError = CommandError::fixed("CMS: key does not exist");
