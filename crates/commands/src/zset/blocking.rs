//! The pops that wait until there is a member to take.
//!
//! They take one at once if they can. Otherwise the client becomes a waiter at every key, and the command
//! that creates a sorted set at one of them runs the same pop for it, together with a `ZADD` that
//! puts everything back if the client is gone by then.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandResult, Ctx, Entry, Group, KeySpec, Route, Run, Serve, Shape, double, integer, key, oneof,
    token,
};

use super::pop::{Answer, End, KEY_AND_PAIRS, ZSetPop};
use crate::list::pop::{Pop, parse_several, pop_or_block};

const POP_MIN: ZSetPop = ZSetPop { end: End::Min, count: 1, due_by: None, answer: Answer::KeyAndMember };
const POP_MAX: ZSetPop = ZSetPop { end: End::Max, ..POP_MIN };

/// The reply of `BZPOPMIN` and `BZPOPMAX`.
const KEY_AND_MEMBER: Shape =
    Shape::OneOf(&[Shape::Tuple(&[Shape::Bulk, Shape::Bulk, Shape::Double]), Shape::Null]);

pub(super) const BZPOPMIN: Entry = Entry {
    name: "bzpopmin",
    summary: "Removes and returns the member with the lowest score from one or more sorted sets. Blocks \
            until a member is available otherwise. Deletes the sorted set if the last element was popped.",
    complexity: "O(log(N)) with N being the number of elements in the sorted set.",
    since: "5.0.0",
    group: Group::SortedSet,
    arity: -3,
    flags: &[Write, Blocking, Fast],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::range(1, -2, 1, &[RW, Access, Delete])],
    route: Route::KeysInTurn,
    args: &[key("key", 0).multiple(), double("timeout")],
    history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
    reply: KEY_AND_MEMBER,
    run: Run::Function(bzpopmin),
    ..Entry::DEFAULT
};

fn bzpopmin(ctx: &mut Ctx) -> CommandResult {
    pop_one(ctx, POP_MIN, |ctx, key| POP_MIN.try_key(ctx, key, true))
}

pub(super) const BZPOPMAX: Entry = Entry {
    name: "bzpopmax",
    summary: "Removes and returns the member with the highest score from one or more sorted sets. Blocks \
            until a member available otherwise.  Deletes the sorted set if the last element was popped.",
    run: Run::Function(bzpopmax),
    ..BZPOPMIN
};

fn bzpopmax(ctx: &mut Ctx) -> CommandResult {
    pop_one(ctx, POP_MAX, |ctx, key| POP_MAX.try_key(ctx, key, true))
}

/// Pops from the first existing key of those between the command's name and the timeout.
fn pop_one(ctx: &mut Ctx, pop: ZSetPop, serve: Serve) -> CommandResult {
    let [_, keys @ .., timeout] = ctx.args else { unreachable!("the arity was checked") };
    pop_or_block(ctx, keys, pop, timeout, serve)
}

pub(super) const BZMPOP: Entry = Entry {
    name: "bzmpop",
    summary: "Removes and returns a member by score from one or more sorted sets. Blocks until a member is \
            available otherwise. Deletes the sorted set if the last element was popped.",
    complexity: "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements \
            in the sorted set, and M being the number of elements popped.",
    since: "7.0.0",
    group: Group::SortedSet,
    arity: -5,
    flags: &[Write, Blocking],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::numbered(2, &[RW, Access, Delete])],
    route: Route::KeysInTurn,
    args: &[
        double("timeout"),
        integer("numkeys"),
        key("key", 0).multiple(),
        oneof("where", &[token("min", "MIN"), token("max", "MAX")]),
        integer("count").token("COUNT").optional(),
    ],
    reply: KEY_AND_PAIRS,
    run: Run::Function(bzmpop),
    ..Entry::DEFAULT
};

fn bzmpop(ctx: &mut Ctx) -> CommandResult {
    let (keys, pop) = parse_several::<ZSetPop>(&ctx.args[2..])?;
    pop_or_block(ctx, keys, pop, ctx.args[1], |ctx, key| {
        let (_, pop) = parse_several::<ZSetPop>(&ctx.args[2..])?;
        pop.try_key(ctx, key, true)
    })
}
