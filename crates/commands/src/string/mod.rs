//! The string commands.
//!
//! A string is a [`Str`](keyspace::Str): an integer, a block written as a whole, or a buffer that is large or
//! grew. `GET` and `SET` are the hottest commands of all: reading a block and overwriting one of the same
//! size allocate nothing.
//!
//! Not here: commands that treat a string as bits (`bitmap`).

mod compare;
mod count;
mod increx;
mod lcs;
mod msetex;
mod options;
mod read;
#[cfg(test)]
mod tests;
mod throttle;
mod write;

use std::sync::Arc;

use engine::{CommandError, Entry};
use keyspace::{SHARED_BYTES_MIN, StrRef};
use resp::Reply;

/// The string commands.
pub const ENTRIES: &[Entry] = &[
    compare::DELEX,
    compare::DELIFEQ,
    compare::DIGEST,
    increx::INCREX,
    msetex::MSETEX,
    read::GET,
    read::GETDEL,
    read::GETEX,
    read::GETRANGE,
    read::MGET,
    read::STRLEN,
    read::SUBSTR,
    write::APPEND,
    write::GETSET,
    write::MSET,
    write::MSETNX,
    write::PSETEX,
    write::SET,
    write::SETEX,
    write::SETNX,
    write::SETRANGE,
    count::DECR,
    count::DECRBY,
    count::INCR,
    count::INCRBY,
    count::INCRBYFLOAT,
    lcs::LCS,
    throttle::CL_THROTTLE,
];

/// Replies with the content of `string`.
#[inline]
fn reply_string(reply: &mut Reply, string: StrRef<'_>) {
    match string {
        StrRef::Int(number) => reply.bulk_int(number),
        StrRef::Text(text) => reply.bulk(text),
        StrRef::Shared(bytes) if bytes.len() >= SHARED_BYTES_MIN => reply.bulk_shared(Arc::clone(bytes)),
        StrRef::Shared(bytes) => reply.bulk(bytes),
    }
}

/// Refuses a string of `size_bytes` with `added_bytes` more if that exceeds `proto-max-bulk-len`.
pub(crate) fn check_length(size_bytes: u64, added_bytes: u64, max_bytes: u64) -> Result<(), CommandError> {
    match size_bytes.checked_add(added_bytes) {
        Some(total) if total <= max_bytes => Ok(()),
        _ => Err(CommandError::STRING_TOO_LONG),
    }
}
