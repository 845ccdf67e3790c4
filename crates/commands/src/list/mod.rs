//! The list commands: the queues that this store exists for.
//!
//! | file | commands |
//! |---|---|
//! | `push` | LPUSH RPUSH LPUSHX RPUSHX |
//! | `pop` | LPOP RPOP LMPOP, BLPOP BRPOP BLMPOP |
//! | `lmove` | LMOVE RPOPLPUSH, BLMOVE BRPOPLPUSH |
//! | `lmovem` | LMOVEM, BLMOVEM |
//! | `read` | LLEN LINDEX LRANGE LPOS |
//! | `edit` | LSET LINSERT LREM LTRIM |
//!
//! An element is copied from the request into its list node, and from there into the reply. It is not copied
//! in between, except by a move, and by a pop that serves a waiting client.
//!
//! Invariant: a list in the keyspace has elements. A command that takes the last one deletes the key.

#[cfg(test)]
mod blocking_tests;
mod edit;
mod lmove;
mod lmovem;
pub(crate) mod pop;
pub(crate) mod push;
mod read;

use ds::list::End;
use engine::{CommandError, Entry, keyword_is};

/// The list commands.
pub const ENTRIES: &[Entry] = &[
    lmove::BLMOVE,
    lmovem::BLMOVEM,
    pop::BLMPOP,
    pop::BLPOP,
    pop::BRPOP,
    lmove::BRPOPLPUSH,
    read::LINDEX,
    edit::LINSERT,
    read::LLEN,
    lmove::LMOVE,
    lmovem::LMOVEM,
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
