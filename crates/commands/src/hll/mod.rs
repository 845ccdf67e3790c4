//! The HyperLogLog commands. A HyperLogLog is a string that `ds::hll` interprets; clients may `GET` and `SET` it.

mod count;
mod debug;

use ds::hll::{self, Corrupt};
use engine::{CommandError, Entry};
use keyspace::StrRef;

/// The HyperLogLog commands.
pub const ENTRIES: &[Entry] =
    &[count::PFADD, count::PFCOUNT, count::PFMERGE, debug::PFDEBUG, debug::PFSELFTEST];

const CORRUPT: CommandError = CommandError::fixed("INVALIDOBJ Corrupted HLL object detected");

/// Converts an error of `ds::hll`, for `?`.
fn corrupt(_: Corrupt) -> CommandError {
    CORRUPT
}

/// Refuses a string that is not a HyperLogLog.
fn check(string: StrRef<'_>) -> Result<(), CommandError> {
    match string {
        StrRef::Text(_) | StrRef::Shared(_) if hll::has_header(&string.bytes()) => Ok(()),
        _ => Err(CommandError::fixed("WRONGTYPE Key is not a valid HyperLogLog string value.")),
    }
}
