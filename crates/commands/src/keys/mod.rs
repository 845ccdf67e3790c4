//! The commands on keys of any type, and on whole databases.
//!
//! Commands on whole databases work on the entered shards: all of them when a client asks, one when the effect that
//! each shard records is replayed.
//!
//! Not here: `WAIT`.

mod bless;
mod database;
pub mod digest;
mod dump;
mod expiry;
mod mark;
mod object;
mod pause;
pub mod populate;
mod presence;
pub mod rebuild;
mod relocate;
mod scan;
mod sort;

pub use database::flush_selected;

use engine::{CommandError, Ctx, Entry, parse_i64};

/// The commands on keys and databases.
pub const ENTRIES: &[Entry] = &[
    bless::BLESS,
    database::DBSIZE,
    database::FLUSHALL,
    database::FLUSHDB,
    database::SWAPDB,
    dump::DUMP,
    dump::RESTORE,
    dump::RESTORE_ASKING,
    mark::DARTER_MARK,
    pause::DARTER_PAUSE,
    expiry::EXPIRE,
    expiry::EXPIREAT,
    expiry::EXPIRETIME,
    expiry::PERSIST,
    expiry::PEXPIRE,
    expiry::PEXPIREAT,
    expiry::PEXPIRETIME,
    expiry::PTTL,
    expiry::TTL,
    object::OBJECT,
    presence::DEL,
    presence::EXISTS,
    presence::TOUCH,
    presence::TYPE,
    presence::UNLINK,
    relocate::COPY,
    relocate::MOVE,
    relocate::RENAME,
    relocate::RENAMENX,
    scan::KEYS,
    scan::RANDOMKEY,
    scan::SCAN,
    sort::SORT,
    sort::SORT_RO,
];

/// The number of a database in an argument; `None` if there is no such database.
fn parse_db(ctx: &Ctx, arg: &[u8]) -> Result<Option<u32>, CommandError> {
    let text = "ERR value is out of range, value must between -2147483648 and 2147483647";
    let number = i32::try_from(parse_i64(arg)?).map_err(|_| CommandError::new(text))?;
    Ok(u32::try_from(number).ok().filter(|&db| db < ctx.store.db_count()))
}
