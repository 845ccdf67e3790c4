//! QUEUE MOVE: moves jobs from one queue to another.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Group, KeySpec, Mode, Route, Shape, integer, key, keyword_is, string,
};

use super::{BESIDE, parse_count};
use crate::queues::pattern::Pattern;
use crate::queues::slices;
use crate::queues::sweep::{self, Sweep};
use crate::queues::transfer::Transfer;
use crate::queues::{Ctx, Entry, Run};

pub(super) const MOVE: Entry = Entry {
    name: "move",
    summary: "Moves elements from one queue to another, in their order.",
    complexity: "O(N) where N is the number of elements moved or, with TEXT, searched, in slices that hold up nobody.",
    since: "7.2.0",
    group: Group::Queue,
    arity: -4,
    flags: &[Write, DenyOom],
    acl: &[Acl::Queue],
    keys: &[KeySpec::one(2, &[RW, Access, Delete]), KeySpec::one(3, &[RW, Insert]), BESIDE],
    route: Route::KeysAndBeside,
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
    let (mut wanted, mut count) = (None, usize::MAX);
    for option in options.chunks(2) {
        match *option {
            [word, number] if keyword_is(word, "count") => count = parse_count(number)?,
            [word, text] if keyword_is(word, "text") => wanted = Pattern::parse(word, text)?,
            _ => return Err(CommandError::SYNTAX),
        }
    }
    if from == to {
        return Err(CommandError::new("ERR source and destination queues are the same"));
    }
    let transfer = Transfer::to(&ctx.store, from, to);
    let sweep = Sweep { from, to: Some(to), wanted, count, transfer };
    slices::run(ctx, |ctx, progress, slice| sweep.step(ctx, progress, slice), sweep::reply)
}
