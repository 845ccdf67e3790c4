//! XSETID: sets a stream's last id and counters.

use ds::stream::{Stream, StreamId};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, integer, key,
    keyword_is, parse_i64, string,
};

use super::ids;

const ADDED_NEGATIVE: &str = "ERR entries_added must be positive";
const BELOW_GIVEN: &str = "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id";
const BELOW_DELETED: &str = "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id";
const BELOW_TOP: &str = "ERR The ID specified in XSETID is smaller than the target stream top item";
const FEWER_THAN_ARE: &str =
    "ERR The entries_added specified in XSETID is smaller than the target stream length";

pub(super) const XSETID: Entry = Entry {
    name: "xsetid",
    summary: "An internal command for replicating stream values.",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Stream,
    arity: -3,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::Stream],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[
        key("key", 0),
        string("last-id"),
        integer("entries-added").token("ENTRIESADDED").since("7.0.0").optional(),
        string("max-deleted-id").token("MAXDELETEDID").since("7.0.0").optional(),
    ],
    history: &[("7.0.0", "Added the `entries_added` and `max_deleted_entry_id` arguments.")],
    reply: Shape::OK,
    run: Run::Function(xsetid),
    ..Entry::DEFAULT
};

fn xsetid(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let last_id = ids::parse_strict(ctx.args[2], 0)?;
    let (mut added, mut max_deleted_id) = (None, StreamId::MIN);
    let mut options = &ctx.args[3..];
    while let [word, rest @ ..] = options {
        let [value, rest @ ..] = rest else { return Err(CommandError::SYNTAX) };
        if keyword_is(word, "entriesadded") {
            added = Some(parse_i64(value)?);
            if added < Some(0) {
                return Err(CommandError::new(ADDED_NEGATIVE));
            }
        } else if keyword_is(word, "maxdeletedid") {
            max_deleted_id = ids::parse_strict(value, 0)?;
            if last_id < max_deleted_id {
                return Err(CommandError::new(BELOW_GIVEN));
            }
        } else {
            return Err(CommandError::SYNTAX);
        }
        options = rest;
    }
    // A primary or a log of Redis 7.0 may have such ids: that version only rejects them in MAXDELETEDID.
    let is_told = ctx.store.tx.keeps_due;
    let log = &mut ctx.store.write_as::<Stream>(key)?.ok_or(CommandError::NO_SUCH_KEY)?.log;
    if last_id < log.max_deleted_id && !is_told {
        return Err(CommandError::new(BELOW_DELETED));
    }
    if log.last_entry_id().is_some_and(|top| last_id < top) {
        return Err(CommandError::new(BELOW_TOP));
    }
    if !log.is_empty() && added.is_some_and(|added| added < log.len() as i64) {
        return Err(CommandError::new(FEWER_THAN_ARE));
    }
    log.last_id = last_id;
    log.entries_added = added.unwrap_or(log.entries_added);
    if max_deleted_id != StreamId::MIN {
        log.max_deleted_id = max_deleted_id;
    }
    ctx.reply.ok();
    ctx.changed(key, Change::new(Class::Stream, "xsetid").untold());
    Ok(())
}
