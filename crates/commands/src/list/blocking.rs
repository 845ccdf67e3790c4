//! The commands that wait for a list: BLPOP, BRPOP, BLMPOP, BLMOVE and BRPOPLPUSH.
//!
//! ```text
//! arguments ─→ try the keys in order ─→ found: reply, done
//!                     │ nothing
//!                     ├─→ may not block (MULTI, script): null, done
//!                     └─→ a waiter at every key … somebody creates a list there ─→ serve_…
//! ```
//!
//! A `serve_…` function runs on the thread of whoever created the list, after that command, MULTI or script is complete,
//! with the arguments, database and protocol of the client that waits. It finds a list at the key that became ready,
//! and does what the command would do there now; the effect is that of the command that does not wait.
//! What it pops is also put into a command that restores it, should the client turn out to be gone. A move loses
//! nothing with its client, so nothing restores it.

use command::Flag::*;
use command::KeyFlag::*;
use command::{
    Acl, ArgSlices, BlockOn, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, OwnedArgs, Route, Run,
    Serve, Shape, When, double, integer, key, oneof, parse_timeout_ms, token,
};
use ds::list::{Element, End, List};
use keyspace::Kind;
use smallvec::SmallVec;

use super::lmove::try_move;
use super::pop::{Pop, parse_mpop};
use super::{parse_end, push_command};
use crate::blocking;

const BLPOP_POP: Pop = Pop { end: End::Head, count: None };
const BRPOP_POP: Pop = Pop { end: End::Tail, count: None };

pub(super) const BLPOP: Entry = Entry {
    name: "blpop",
    summary: "Removes and returns the first element in a list. Blocks until an element is available otherwise. \
            Deletes the list if the last element was popped.",
    complexity: "O(N) where N is the number of provided keys.",
    since: "2.0.0",
    group: Group::List,
    arity: -3,
    flags: &[Write, Blocking],
    acl: &[Acl::List],
    keys: &[KeySpec::range(1, -2, 1, &[RW, Access, Delete])],
    route: Route::KeysInTurn,
    args: &[key("key", 0).multiple(), double("timeout")],
    history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
    reply: Shape::OneOf(&[Shape::Tuple(&[Shape::Bulk, Shape::Bulk]), Shape::Null]),
    run: Run::Function(blpop),
    ..Entry::DEFAULT
};

fn blpop(ctx: &mut Ctx) -> CommandResult {
    pop_or_block_until(ctx, BLPOP_POP, serve_blpop)
}

fn serve_blpop(ctx: &mut Ctx, key: &[u8]) -> Result<bool, CommandError> {
    serve_pop(ctx, key, BLPOP_POP)
}

pub(super) const BRPOP: Entry = Entry {
    name: "brpop",
    summary: "Removes and returns the last element in a list. Blocks until an element is available otherwise. \
            Deletes the list if the last element was popped.",
    run: Run::Function(brpop),
    ..BLPOP
};

fn brpop(ctx: &mut Ctx) -> CommandResult {
    pop_or_block_until(ctx, BRPOP_POP, serve_brpop)
}

fn serve_brpop(ctx: &mut Ctx, key: &[u8]) -> Result<bool, CommandError> {
    serve_pop(ctx, key, BRPOP_POP)
}

/// `key [key ...] timeout`
#[inline]
fn pop_or_block_until(ctx: &mut Ctx, pop: Pop, serve: Serve) -> CommandResult {
    let [_, keys @ .., timeout] = ctx.args else { unreachable!("the arity says so") };
    pop_or_block(ctx, keys, pop, timeout, serve)
}

pub(super) const BLMPOP: Entry = Entry {
    name: "blmpop",
    summary: "Pops the first element from one of multiple lists. Blocks until an element is available \
            otherwise. Deletes the list if the last element was popped.",
    complexity: "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
    since: "7.0.0",
    group: Group::List,
    arity: -5,
    flags: &[Write, Blocking],
    acl: &[Acl::List],
    keys: &[KeySpec::numbered(2, &[RW, Access, Delete])],
    route: Route::KeysInTurn,
    args: &[
        double("timeout"),
        integer("numkeys"),
        key("key", 0).multiple(),
        oneof("where", &[token("left", "LEFT"), token("right", "RIGHT")]),
        integer("count").token("COUNT").optional(),
    ],
    reply: Shape::OneOf(&[Shape::Tuple(&[Shape::Bulk, Shape::BULKS]), Shape::Null]),
    run: Run::Function(blmpop),
    ..Entry::DEFAULT
};

fn blmpop(ctx: &mut Ctx) -> CommandResult {
    let (keys, pop) = parse_mpop(&ctx.args[2..])?;
    pop_or_block(ctx, keys, pop, ctx.args[1], serve_blmpop)
}

fn serve_blmpop(ctx: &mut Ctx, key: &[u8]) -> Result<bool, CommandError> {
    let (_, pop) = parse_mpop(&ctx.args[2..])?;
    serve_pop(ctx, key, pop)
}

#[inline]
fn pop_or_block(ctx: &mut Ctx, keys: &[&[u8]], pop: Pop, timeout: &[u8], serve: Serve) -> CommandResult {
    let timeout_ms = parse_timeout_ms(timeout)?;
    blocking::pop_or_block(ctx, keys, Kind::List, timeout_ms, serve, |ctx, key| pop.try_key(ctx, key))
}

/// Pops for a waiter, and says how to put back what it got; false, without a reply, if there is no list.
fn serve_pop(ctx: &mut Ctx, key: &[u8], pop: Pop) -> Result<bool, CommandError> {
    let Some(list) = ctx.store.peek_as::<List>(key)? else { return Ok(false) };
    // The last one popped goes back first.
    let count = pop.count.unwrap_or(1).min(list.len());
    let (from, reverse) = match pop.end {
        End::Head => (count as i64 - 1, true),
        End::Tail => (-(count as i64), false),
    };
    let restore = {
        let values: SmallVec<[Element; 1]> = list.iter(from, reverse).take(count).collect();
        let mut args: ArgSlices = [push_command(pop.end), key].into_iter().collect();
        args.extend(values.iter().map(|value| &**value));
        OwnedArgs::new(&args)
    };
    if !pop.try_key(ctx, key)? {
        return Ok(false);
    }
    ctx.restore_with(restore);
    Ok(true)
}

pub(super) const BLMOVE: Entry = Entry {
    name: "blmove",
    summary: "Pops an element from a list, pushes it to another list and returns it. Blocks until an element \
            is available otherwise. Deletes the list if the last element was moved.",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::List,
    arity: 6,
    flags: &[Write, DenyOom, Blocking],
    acl: &[Acl::List],
    keys: &[KeySpec::one(1, &[RW, Access, Delete]), KeySpec::one(2, &[RW, Insert])],
    args: &[
        key("source", 0),
        key("destination", 1),
        oneof("wherefrom", &[token("left", "LEFT"), token("right", "RIGHT")]),
        oneof("whereto", &[token("left", "LEFT"), token("right", "RIGHT")]),
        double("timeout"),
    ],
    reply: Shape::BULK_OR_NULL,
    run: Run::Function(blmove),
    ..Entry::DEFAULT
};

fn blmove(ctx: &mut Ctx) -> CommandResult {
    let (from, to) = (parse_end(ctx.args[3])?, parse_end(ctx.args[4])?);
    move_or_block(ctx, from, to, ctx.args[5], serve_blmove)
}

fn serve_blmove(ctx: &mut Ctx, _: &[u8]) -> Result<bool, CommandError> {
    let (from, to) = (parse_end(ctx.args[3])?, parse_end(ctx.args[4])?);
    try_move(ctx, from, to)
}

pub(super) const BRPOPLPUSH: Entry = Entry {
    name: "brpoplpush",
    summary: "Pops an element from a list, pushes it to another list and returns it. Block until an element is \
            available otherwise. Deletes the list if the last element was popped.",
    complexity: "O(1)",
    since: "2.2.0",
    group: Group::List,
    arity: 4,
    flags: &[Write, DenyOom, Blocking],
    acl: &[Acl::List],
    keys: &[KeySpec::one(1, &[RW, Access, Delete]), KeySpec::one(2, &[RW, Insert])],
    args: &[key("source", 0), key("destination", 1), double("timeout")],
    history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
    deprecated: Some(("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments")),
    reply: Shape::BULK_OR_NULL,
    run: Run::Function(brpoplpush),
    ..Entry::DEFAULT
};

fn brpoplpush(ctx: &mut Ctx) -> CommandResult {
    move_or_block(ctx, End::Tail, End::Head, ctx.args[3], serve_brpoplpush)
}

fn serve_brpoplpush(ctx: &mut Ctx, _: &[u8]) -> Result<bool, CommandError> {
    try_move(ctx, End::Tail, End::Head)
}

fn move_or_block(ctx: &mut Ctx, from: End, to: End, timeout: &[u8], serve: Serve) -> CommandResult {
    let timeout_ms = parse_timeout_ms(timeout)?;
    let (keys, also) = (&ctx.args[1..2], Some(ctx.args[2]));
    if try_move(ctx, from, to)? {
        return Ok(());
    }
    if ctx.may_block() {
        // At the timeout Redis answers a null array here too.
        let (args, when) = (ctx.args, When::Holds(Kind::List));
        ctx.block(&BlockOn {
            args,
            keys,
            when,
            also,
            timeout_ms,
            heeds_loss: false,
            serve,
            null_array: true,
        });
    } else {
        ctx.reply.null();
    }
    Ok(())
}
