//! XLEN, XRANGE and XREVRANGE.

use ds::stream::{Stream, StreamId};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, integer, key, keyword_is,
    parse_i64, string,
};

use super::budget::Budget;
use super::{ENTRY, ids, reply_entries};

pub(super) const XLEN: Entry = Entry {
    name: "xlen",
    summary: "Return the number of messages in a stream.",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Stream,
    arity: 2,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Stream],
    keys: &[KeySpec::one(1, &[RO])],
    args: &[key("key", 0)],
    reply: Shape::Int,
    run: Run::Function(xlen),
    ..Entry::DEFAULT
};

fn xlen(ctx: &mut Ctx) -> CommandResult {
    let len = ctx.store.read_as::<Stream>(ctx.args[1])?.map_or(0, |stream| stream.log.len());
    ctx.reply.int(len as i64);
    Ok(())
}

pub(super) const XRANGE: Entry = Entry {
    name: "xrange",
    summary: "Returns the messages from a stream within a range of IDs.",
    complexity: "O(N) with N being the number of elements being returned. If N is constant (e.g. always \
            asking for the first 10 elements with COUNT), you can consider it O(1).",
    since: "5.0.0",
    group: Group::Stream,
    arity: -4,
    flags: &[ReadOnly],
    acl: &[Acl::Stream],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), string("start"), string("end"), integer("count").token("COUNT").optional()],
    history: &[("6.2.0", "Added exclusive ranges.")],
    reply: Shape::OneOf(&[Shape::Array(&ENTRY), Shape::Null]),
    run: Run::Function(xrange),
    ..Entry::DEFAULT
};

fn xrange(ctx: &mut Ctx) -> CommandResult {
    let (start, end) = (ids::parse_start(ctx.args[2])?, ids::parse_end(ctx.args[3])?);
    range(ctx, start, end, false)
}

pub(super) const XREVRANGE: Entry = Entry {
    name: "xrevrange",
    summary: "Returns the messages from a stream within a range of IDs in reverse order.",
    complexity: "O(N) with N being the number of elements returned. If N is constant (e.g. always asking for \
            the first 10 elements with COUNT), you can consider it O(1).",
    args: &[key("key", 0), string("end"), string("start"), integer("count").token("COUNT").optional()],
    run: Run::Function(xrevrange),
    ..XRANGE
};

fn xrevrange(ctx: &mut Ctx) -> CommandResult {
    let (start, end) = (ids::parse_start(ctx.args[3])?, ids::parse_end(ctx.args[2])?);
    range(ctx, start, end, true)
}

fn range(ctx: &mut Ctx, start: StreamId, end: StreamId, is_reverse: bool) -> CommandResult {
    let mut count = None;
    let mut options = &ctx.args[4..];
    while let [word, rest @ ..] = options {
        let [number, rest @ ..] = rest else { return Err(CommandError::SYNTAX) };
        if !keyword_is(word, "count") {
            return Err(CommandError::SYNTAX);
        }
        count = Some(parse_i64(number)?.max(0) as usize);
        options = rest;
    }
    let mut pace = Pace::new(ctx.host);
    match ctx.store.read_as::<Stream>(ctx.args[1])? {
        None => ctx.reply.array(0),
        Some(_) if count == Some(0) => ctx.reply.null_array(),
        Some(stream) => {
            let (entries, count) = (stream.log.range(start, end), count.unwrap_or(0));
            if is_reverse {
                reply_entries(&mut ctx.reply, entries.rev(), count, &mut Budget::any(), &mut pace);
            } else {
                reply_entries(&mut ctx.reply, entries, count, &mut Budget::any(), &mut pace);
            }
        }
    }
    Ok(())
}
