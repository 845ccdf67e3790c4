//! The commands of cuckoo filters, with the replies of RedisBloom.

mod add;
mod dump;
mod read;

use engine::{CommandError, Entry};

/// The commands of cuckoo filters.
pub const ENTRIES: &[Entry] = &[
    add::CF_ADD,
    add::CF_ADDNX,
    read::CF_COUNT,
    add::CF_DEL,
    read::CF_EXISTS,
    read::CF_INFO,
    add::CF_INSERT,
    add::CF_INSERTNX,
    dump::CF_LOADCHUNK,
    read::CF_MEXISTS,
    add::CF_RESERVE,
    dump::CF_SCANDUMP,
];

const NOT_FOUND: CommandError = CommandError::fixed("ERR not found");
const EXISTS: CommandError = CommandError::fixed("ERR item exists");
