//! The list commands: the queues that this store exists for.
//!
//! | file | commands |
//! |---|---|
//! | `push` | LPUSH RPUSH LPUSHX RPUSHX |
//! | `pop` | LPOP RPOP LMPOP, and the pop that all of them share |
//! | `blocking` | BLPOP BRPOP BLMPOP BLMOVE BRPOPLPUSH |
//! | `lmove` | LMOVE RPOPLPUSH |
//! | `read` | LLEN LINDEX LRANGE LPOS |
//! | `edit` | LSET LINSERT LREM LTRIM |
//!
//! An element goes from the request into its list node and from there into the reply; nothing in between holds a
//! copy, except for a move and for a client that waited.
//!
//! Invariant: a list in the keyspace has elements. Whoever takes the last one deletes the key.

mod blocking;
#[cfg(test)]
mod blocking_tests;
mod edit;
mod lmove;
mod pop;
mod push;
mod read;

use std::ops::Range;

use command::{CommandError, Entry, keyword_is};
use ds::list::End;

/// The list commands.
pub const ENTRIES: &[Entry] = &[
    blocking::BLMOVE,
    blocking::BLMPOP,
    blocking::BLPOP,
    blocking::BRPOP,
    blocking::BRPOPLPUSH,
    read::LINDEX,
    edit::LINSERT,
    read::LLEN,
    lmove::LMOVE,
    pop::LMPOP,
    pop::LPOP,
    read::LPOS,
    push::LPUSH,
    push::LPUSHX,
    read::LRANGE,
    edit::LREM,
    edit::LSET,
    edit::LTRIM,
    pop::RPOP,
    lmove::RPOPLPUSH,
    push::RPUSH,
    push::RPUSHX,
];

/// The end that `LEFT` or `RIGHT` names.
fn parse_end(arg: &[u8]) -> Result<End, CommandError> {
    if keyword_is(arg, "left") {
        Ok(End::Head)
    } else if keyword_is(arg, "right") {
        Ok(End::Tail)
    } else {
        Err(CommandError::SYNTAX)
    }
}

/// The command that pushes at `end`, for effects.
fn push_command(end: End) -> &'static [u8] {
    match end {
        End::Head => b"LPUSH",
        End::Tail => b"RPUSH",
    }
}

/// The event of a push at `end`.
fn push_event(end: End) -> &'static str {
    match end {
        End::Head => "lpush",
        End::Tail => "rpush",
    }
}

/// The command that pops at `end`, for effects.
fn pop_command(end: End) -> &'static [u8] {
    match end {
        End::Head => b"LPOP",
        End::Tail => b"RPOP",
    }
}

/// The event of a pop at `end`.
fn pop_event(end: End) -> &'static str {
    match end {
        End::Head => "lpop",
        End::Tail => "rpop",
    }
}

/// The indexes from `start` to `stop`, both included, negative ones counted from the tail, as far as a list of `len`
/// elements has them.
fn index_range(start: i64, stop: i64, len: usize) -> Range<usize> {
    let len = len as i64;
    let from_head = |index: i64| if index < 0 { len + index } else { index };
    let (start, stop) = (from_head(start).max(0), from_head(stop).min(len - 1));
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_clamped_to_what_there_is() {
        for (start, stop, expected) in [
            (0, -1, 0..3),
            (-2, -1, 1..3),
            (1, 1, 1..2),
            (0, 100, 0..3),
            (-100, 0, 0..1),
            (2, 1, 0..0),
            (3, 5, 0..0),
            (0, -4, 0..0),
            (i64::MIN, i64::MAX, 0..3),
            (i64::MAX, i64::MIN, 0..0),
            (i64::MIN, i64::MIN, 0..0),
        ] {
            assert_eq!(index_range(start, stop, 3), expected, "{start} {stop}");
        }
    }
}
