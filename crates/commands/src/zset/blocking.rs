//! The pops that wait until there is something to take.
//!
//! They take at once if they can. Else the client becomes a waiter at every key, and whoever makes one of them a
//! sorted set runs the same pop for it ([`serve`]), together with a `ZADD` that puts everything back should the client
//! be gone by then.

use command::Flag::*;
use command::KeyFlag::*;
use command::{
    Acl, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Route, Run, Serve, Shape, double, integer,
    key, oneof, parse_timeout_ms, token,
};
use ds::zset::ZSet;
use keyspace::Kind;
use smallvec::SmallVec;

use super::pop::{Answer, End, KEY_AND_PAIRS, Pop};
use super::with_zadd;
use crate::blocking::block_or_null;

const POP_MIN: Pop = Pop { end: End::Min, count: 1, answer: Answer::KeyAndMember };
const POP_MAX: Pop = Pop { end: End::Max, ..POP_MIN };

/// What `BZPOPMIN` and `BZPOPMAX` answer.
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
    pop_one(ctx, POP_MIN, |ctx, key| serve(ctx, key, POP_MIN))
}

pub(super) const BZPOPMAX: Entry = Entry {
    name: "bzpopmax",
    summary: "Removes and returns the member with the highest score from one or more sorted sets. Blocks \
            until a member available otherwise.  Deletes the sorted set if the last element was popped.",
    run: Run::Function(bzpopmax),
    ..BZPOPMIN
};

fn bzpopmax(ctx: &mut Ctx) -> CommandResult {
    pop_one(ctx, POP_MAX, |ctx, key| serve(ctx, key, POP_MAX))
}

/// Pops from the first of the keys between the command's name and the timeout.
fn pop_one(ctx: &mut Ctx, pop: Pop, serve: Serve) -> CommandResult {
    let [_, keys @ .., timeout] = ctx.args else { unreachable!("the arity was checked") };
    pop_or_block(ctx, keys, pop, parse_timeout_ms(timeout)?, serve)
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
    let (keys, pop) = Pop::parse(&ctx.args[2..])?;
    pop_or_block(ctx, keys, pop, parse_timeout_ms(ctx.args[1])?, |ctx, key| {
        let (_, pop) = Pop::parse(&ctx.args[2..])?;
        serve(ctx, key, pop)
    })
}

/// Pops from the first of `keys` that there is. If there is none, waits for one.
///
/// A client that may be gone when the reply comes home is served like one that waited, so that what it misses goes back.
fn pop_or_block(ctx: &mut Ctx, keys: &[&[u8]], pop: Pop, timeout_ms: u64, serve: Serve) -> CommandResult {
    for (index, key) in keys.iter().enumerate() {
        if index > 0 {
            ctx.enter_next(key)?;
        }
        let is_owed = ctx.store.client.may_be_gone && ctx.store.exists(key);
        let found = if is_owed { serve(ctx, key)? } else { pop.run(ctx, key)? };
        if found {
            return Ok(());
        }
    }
    block_or_null(ctx, keys, Kind::ZSet, timeout_ms, serve);
    Ok(())
}

/// Pops from `key` for a client that waited; false, without a reply, if there is no such sorted set.
fn serve(ctx: &mut Ctx, key: &[u8], pop: Pop) -> Result<bool, CommandError> {
    let mut restore = ctx.spare_args();
    let Some(zset) = ctx.store.peek_as::<ZSet>(key)? else { return Ok(false) };
    let taken: SmallVec<[(&[u8], f64); 1]> = pop.taken(zset).collect();
    with_zadd(key, &taken, |args| restore.set(args));
    drop(taken);
    if !pop.run(ctx, key)? {
        return Ok(false);
    }
    ctx.restore_with(restore);
    Ok(true)
}
