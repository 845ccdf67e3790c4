//! Reads one sorted set: its size, scores and ranks, and how many members a range has.

use ds::zset::{ZSet, ZSetRef};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, double, key, keyword_is,
    string, token,
};

use super::SCORE_OR_NULL;
use super::span::{By, Span};

pub(super) const ZCARD: Entry = Entry {
    name: "zcard",
    summary: "Returns the number of members in a sorted set.",
    complexity: "O(1)",
    since: "1.2.0",
    group: Group::SortedSet,
    arity: 2,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[RO])],
    args: &[key("key", 0)],
    reply: Shape::Int,
    run: Run::Function(zcard),
    ..Entry::DEFAULT
};

fn zcard(ctx: &mut Ctx) -> CommandResult {
    let len = ctx.store.read_as::<ZSet>(ctx.args[1])?.map_or(0, ZSetRef::len);
    ctx.reply.int(len as i64);
    Ok(())
}

pub(super) const ZSCORE: Entry = Entry {
    name: "zscore",
    summary: "Returns the score of a member in a sorted set.",
    complexity: "O(1)",
    since: "1.2.0",
    group: Group::SortedSet,
    arity: 3,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), string("member")],
    reply: SCORE_OR_NULL,
    run: Run::Function(zscore),
    ..Entry::DEFAULT
};

fn zscore(ctx: &mut Ctx) -> CommandResult {
    let zset = ctx.store.read_as::<ZSet>(ctx.args[1])?;
    match zset.and_then(|zset| zset.score(ctx.args[2])) {
        Some(score) => ctx.reply.double(score),
        None => ctx.reply.null(),
    }
    Ok(())
}

pub(super) const ZMSCORE: Entry = Entry {
    name: "zmscore",
    summary: "Returns the score of one or more members in a sorted set.",
    complexity: "O(N) where N is the number of members being requested.",
    since: "6.2.0",
    group: Group::SortedSet,
    arity: -3,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), string("member").multiple()],
    reply: Shape::Array(&SCORE_OR_NULL),
    run: Run::Function(zmscore),
    ..Entry::DEFAULT
};

fn zmscore(ctx: &mut Ctx) -> CommandResult {
    let zset = ctx.store.read_as::<ZSet>(ctx.args[1])?;
    let members = &ctx.args[2..];
    ctx.reply.array(members.len());
    for member in members {
        match zset.and_then(|zset| zset.score(member)) {
            Some(score) => ctx.reply.double(score),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

/// The reply of `ZRANK` and `ZREVRANK`.
const RANK: Shape = Shape::OneOf(&[Shape::Int, Shape::Tuple(&[Shape::Int, Shape::Double]), Shape::Null]);

pub(super) const ZRANK: Entry = Entry {
    name: "zrank",
    summary: "Returns the index of a member in a sorted set ordered by ascending scores.",
    complexity: "O(log(N))",
    since: "2.0.0",
    group: Group::SortedSet,
    arity: -3,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), string("member"), token("withscore", "WITHSCORE").optional()],
    history: &[("7.2.0", "Added the optional `WITHSCORE` argument.")],
    reply: RANK,
    run: Run::Function(zrank),
    ..Entry::DEFAULT
};

fn zrank(ctx: &mut Ctx) -> CommandResult {
    reply_rank(ctx, false)
}

pub(super) const ZREVRANK: Entry = Entry {
    name: "zrevrank",
    summary: "Returns the index of a member in a sorted set ordered by descending scores.",
    run: Run::Function(zrevrank),
    ..ZRANK
};

fn zrevrank(ctx: &mut Ctx) -> CommandResult {
    reply_rank(ctx, true)
}

/// Replies with the rank of the member at argument 2, counted from the highest score if `reverse`.
fn reply_rank(ctx: &mut Ctx, reverse: bool) -> CommandResult {
    let with_score = match &ctx.args[3..] {
        [] => false,
        [word] if keyword_is(word, "withscore") => true,
        [_] => return Err(CommandError::SYNTAX),
        _ => return Err(CommandError::wrong_arity(&ctx.command.full_name)),
    };
    let member = ctx.args[2];
    let zset = ctx.store.read_as::<ZSet>(ctx.args[1])?;
    let Some((zset, rank)) = zset.and_then(|zset| Some((zset, zset.rank(member)?))) else {
        if with_score {
            ctx.reply.null_array();
        } else {
            ctx.reply.null();
        }
        return Ok(());
    };
    let rank = if reverse { zset.len() - 1 - rank } else { rank };
    if !with_score {
        ctx.reply.int(rank as i64);
        return Ok(());
    }
    let score = zset.score(member).expect("a member that has a rank has a score");
    ctx.reply.array(2);
    ctx.reply.int(rank as i64);
    ctx.reply.double(score);
    Ok(())
}

pub(super) const ZCOUNT: Entry = Entry {
    name: "zcount",
    summary: "Returns the count of members in a sorted set that have scores within a range.",
    complexity: "O(log(N)) with N being the number of elements in the sorted set.",
    since: "2.0.0",
    group: Group::SortedSet,
    arity: 4,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), double("min"), double("max")],
    reply: Shape::Int,
    run: Run::Function(zcount),
    ..Entry::DEFAULT
};

fn zcount(ctx: &mut Ctx) -> CommandResult {
    count(ctx, By::Score)
}

pub(super) const ZLEXCOUNT: Entry = Entry {
    name: "zlexcount",
    summary: "Returns the number of members in a sorted set within a lexicographical range.",
    complexity: "O(log(N)) with N being the number of elements in the sorted set.",
    since: "2.8.9",
    group: Group::SortedSet,
    arity: 4,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), string("min"), string("max")],
    reply: Shape::Int,
    run: Run::Function(zlexcount),
    ..Entry::DEFAULT
};

fn zlexcount(ctx: &mut Ctx) -> CommandResult {
    count(ctx, By::Lex)
}

/// Replies with the number of members within the bounds at arguments 2 and 3.
fn count(ctx: &mut Ctx, by: By) -> CommandResult {
    let span = Span::parse(by, ctx.args[2], ctx.args[3])?;
    let zset = ctx.store.read_as::<ZSet>(ctx.args[1])?;
    let count = zset.map_or(0, |zset| span.ranks(zset, false).len());
    ctx.reply.int(count as i64);
    Ok(())
}
