//! QUEUE MOVE: moves jobs from one queue to another.

use command::Flag::*;
use command::KeyFlag::*;
use command::{
    Acl, CommandError, CommandResult, Group, KeySpec, Mode, Shape, integer, key, keyword_is, string,
};

use super::parse_count;
use crate::pattern::Pattern;
use crate::slices;
use crate::sweep::Sweep;
use crate::{Ctx, Entry, Run};

pub(super) const MOVE: Entry = Entry {
    name: "move",
    summary: "Moves elements from one queue to another, in their order.",
    complexity: "O(N) where N is the number of elements moved or, with TEXT, searched, in slices that hold up nobody.",
    since: "7.2.0",
    group: Group::Queue,
    arity: -4,
    flags: &[Write, DenyOom],
    acl: &[Acl::Queue],
    keys: &[KeySpec::one(2, &[RW, Access, Delete]), KeySpec::one(3, &[RW, Insert])],
    mode: Mode::Session,
    args: &[
        key("from", 0),
        key("to", 1),
        integer("count").token("COUNT").optional(),
        string("text").token("TEXT").optional(),
    ],
    reply: Shape::Int,
    run: Run::Function(move_elements),
    ..Entry::DEFAULT
};

fn move_elements(ctx: &mut Ctx) -> CommandResult {
    let [_, _, from, to, ref options @ ..] = *ctx.args else { return Err(CommandError::SYNTAX) };
    let mut sweep = Sweep { from, to: Some(to), wanted: None, count: usize::MAX };
    for option in options.chunks(2) {
        match *option {
            [word, count] if keyword_is(word, "count") => sweep.count = parse_count(count)?,
            [word, text] if keyword_is(word, "text") => sweep.wanted = Pattern::parse(word, text)?,
            _ => return Err(CommandError::SYNTAX),
        }
    }
    if from == to {
        return Err(CommandError::new("ERR source and destination queues are the same"));
    }
    slices::run(
        ctx,
        |ctx, progress, slice| sweep.step(ctx, progress, slice),
        |ctx, progress| ctx.reply.int(progress.done as i64),
    )
}
