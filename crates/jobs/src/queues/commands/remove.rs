//! QUEUE REMOVE: removes jobs from a queue.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Group, KeySpec, Mode, Route, Shape, integer, key, keyword_is, oneof,
    string,
};

use super::{BESIDE, parse_count};
use crate::queues::pattern::Pattern;
use crate::queues::slices;
use crate::queues::sweep::{self, Sweep};
use crate::queues::transfer::Transfer;
use crate::queues::{Ctx, Entry, Run};

pub(super) const REMOVE: Entry = Entry {
    name: "remove",
    summary: "Removes the job of an id, or the elements that contain a text, from a queue.",
    complexity: "O(N) where N is the number of elements searched, in slices that hold up nobody.",
    since: "7.2.0",
    group: Group::Queue,
    arity: -5,
    flags: &[Write],
    acl: &[Acl::Queue],
    keys: &[KeySpec::one(2, &[RW, Delete]), BESIDE],
    route: Route::KeysAndBeside,
    mode: Mode::Session,
    args: &[
        key("queue", 0),
        oneof("wanted", &[string("text").token("TEXT"), string("id").token("ID")]),
        integer("count").token("COUNT").optional(),
    ],
    reply: Shape::Int,
    run: Run::Function(remove),
    ..Entry::DEFAULT
};

fn remove(ctx: &mut Ctx) -> CommandResult {
    let [_, _, from, word, value, ref options @ ..] = *ctx.args else { return Err(CommandError::SYNTAX) };
    let wanted = Pattern::parse(word, value)?.ok_or(CommandError::SYNTAX)?;
    let count = match *options {
        [] => usize::MAX,
        [word, count] if keyword_is(word, "count") => parse_count(count)?,
        _ => return Err(CommandError::SYNTAX),
    };
    let transfer = Transfer::nowhere(&ctx.store, from);
    let sweep = Sweep { from, to: None, wanted: Some(wanted), count, transfer };
    slices::run(ctx, |ctx, progress, slice| sweep.step(ctx, progress, slice), sweep::reply)
}
