//! The stream commands.
//!
//! | file | commands |
//! |---|---|
//! | `add` | XADD |
//! | `producers` | its options for producers that may send twice; XCFGSET XIDMPRECORD |
//! | `range` | XLEN XRANGE XREVRANGE |
//! | `read` | XREAD XREADGROUP: their arguments, and the reply to a reader outside a group |
//! | `deliver` | the reply to a consumer of a group |
//! | `group` | XGROUP |
//! | `pending` | XACK XPENDING |
//! | `claim` | XCLAIM XAUTOCLAIM |
//! | `release` | XNACK |
//! | `remove` | XDEL XDELEX XACKDEL |
//! | `trim` | XTRIM, and the options that XADD shares with it |
//! | `set_id` | XSETID |
//! | `info` | XINFO |
//! | `effects` | deliveries and claims as commands |
//! | `rebuild` | a whole stream as commands |
//!
//! A stream stays in the keyspace when its last entry goes. Clients that watch its key are told when entries come and
//! go, but not when its groups change.

mod add;
mod budget;
mod claim;
#[cfg(test)]
mod claiming_tests;
mod deliver;
mod effects;
mod group;
mod ids;
mod info;
mod pending;
mod producers;
#[cfg(test)]
mod producers_tests;
mod range;
mod read;
pub(crate) mod rebuild;
mod release;
mod remove;
mod set_id;
#[cfg(test)]
mod tests;
mod trim;

use budget::Budget;
use ds::stream::{Fields, Group, Log, Stream, StreamId};
use engine::{CommandError, Entry, Pace, Shape, Store};
use resp::Reply;

/// The stream commands.
pub const ENTRIES: &[Entry] = &[
    pending::XACK,
    remove::XACKDEL,
    add::XADD,
    claim::XAUTOCLAIM,
    producers::XCFGSET,
    claim::XCLAIM,
    remove::XDEL,
    remove::XDELEX,
    group::XGROUP,
    producers::XIDMPRECORD,
    info::XINFO,
    range::XLEN,
    release::XNACK,
    pending::XPENDING,
    range::XRANGE,
    read::XREAD,
    read::XREADGROUP,
    range::XREVRANGE,
    set_id::XSETID,
    trim::XTRIM,
];

/// An entry: its id and its fields and values, or null instead of these if it was deleted.
const ENTRY: Shape = Shape::Tuple(&[Shape::Bulk, Shape::OneOf(&[Shape::BULKS, Shape::Null])]);

/// An entry with how long it was idle, in ms, and how often it was delivered before.
const CLAIMED_ENTRY: Shape = Shape::Tuple(&[Shape::Bulk, Shape::BULKS, Shape::Int, Shape::Int]);

/// Replies with an id.
fn reply_id(reply: &mut Reply, id: StreamId) {
    reply.bulk(id.to_string().as_bytes());
}

/// Replies with an entry.
fn reply_entry(reply: &mut Reply, id: StreamId, fields: Fields) {
    reply.array(2);
    reply_entry_parts(reply, id, fields);
}

fn reply_entry_parts(reply: &mut Reply, id: StreamId, fields: Fields) {
    reply_id(reply, id);
    reply.array(fields.len() * 2);
    for (field, value) in fields {
        reply.bulk(field);
        reply.bulk(value);
    }
}

/// Replies with an entry, and with how long it has been idle and how often it was delivered before.
fn reply_entry_with(reply: &mut Reply, id: StreamId, fields: Fields, idle_and_count: [i64; 2]) {
    reply.array(4);
    reply_entry_parts(reply, id, fields);
    idle_and_count.into_iter().for_each(|number| reply.int(number));
}

/// Replies with an array of `entries`, at most `count` (0: all), as far as the budget goes.
fn reply_entries<'a>(
    reply: &mut Reply,
    entries: impl Iterator<Item = (StreamId, Fields<'a>)>,
    count: usize,
    budget: &mut Budget,
    pace: &mut Pace<'_>,
) {
    let mark = reply.deferred();
    let mut written = 0;
    for (id, fields) in entries.take(if count == 0 { usize::MAX } else { count }) {
        if !budget.take(id, Some(fields)) {
            break;
        }
        reply_entry(reply, id, fields);
        written += 1;
        pace.step();
    }
    reply.finish_array(mark, written);
}

/// The stream at `key` and its group, for changes; `NOGROUP` if either does not exist.
fn group_mut<'s>(
    store: &'s mut Store,
    key: &[u8],
    name: &[u8],
) -> Result<(&'s Log, &'s mut Group), CommandError> {
    let stream = store.write_as::<Stream>(key)?;
    stream
        .and_then(|stream| Some((&stream.log, stream.groups.get_mut(name)?)))
        .ok_or_else(|| no_group(key, name, ""))
}

/// `NOGROUP No such key … or consumer group …`, with something `after` it.
fn no_group(key: &[u8], group: &[u8], after: &str) -> CommandError {
    quoting_two("NOGROUP No such key '", key, "' or consumer group '", group, &format!("'{after}"))
}

/// An error that quotes two things that a client sent, up to the first zero byte of each.
fn quoting_two(before: &str, one: &[u8], between: &str, other: &[u8], after: &str) -> CommandError {
    let error = CommandError::quoting(before, one, between);
    let rest = CommandError::quoting("", other, after);
    CommandError::new([error.text(), rest.text()].concat())
}
