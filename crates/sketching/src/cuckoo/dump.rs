//! `CF.SCANDUMP` and `CF.LOADCHUNK`: a cuckoo filter in pieces, which RedisBloom can load as well.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Mode, Run, Shape, integer, key,
    parse_i64, string,
};
use keyspace::Value;
use sketches::{Cuckoo, Sketch};

use super::{EXISTS, NOT_FOUND};

const BAD_POSITION: CommandError = CommandError::fixed("Invalid position");
const BAD_HEAD: CommandError = CommandError::fixed("Invalid header");
const NOT_CREATED: CommandError = CommandError::fixed("Couldn't create filter!");
const NOT_LOADED: CommandError = CommandError::fixed("Couldn't load chunk!");
/// The position of the head, and of the first chunk behind it.
const HEAD: i64 = 1;

pub(super) const CF_SCANDUMP: Entry = Entry {
    name: "cf.scandump",
    summary: "Returns the next piece of a cuckoo filter, and the position behind it.",
    complexity: "O(n), where n is the capacity",
    since: "1.0.0",
    group: Group::Cuckoo,
    arity: 3,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Cuckoo],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), integer("iterator")],
    reply: Shape::Tuple(&[Shape::Int, Shape::BULK_OR_NULL]),
    run: Run::Function(scandump),
    ..Entry::DEFAULT
};

fn scandump(ctx: &mut Ctx) -> CommandResult {
    let at = parse_i64(ctx.args[2]).ok().filter(|at| *at >= 0).ok_or(BAD_POSITION)?;
    let filter = ctx.store.read_as::<Cuckoo>(ctx.args[1])?.ok_or(NOT_FOUND)?;
    ctx.reply.array(2);
    if at == 0 && !filter.is_empty() {
        ctx.reply.int(HEAD);
        ctx.reply.bulk(&filter.dump_head());
        return Ok(());
    }
    match filter.dump_chunk(at).filter(|_| !filter.is_empty()) {
        Some((next, chunk)) => {
            ctx.reply.int(next);
            ctx.reply.bulk(chunk);
        }
        None => {
            ctx.reply.int(0);
            ctx.reply.null();
        }
    }
    Ok(())
}

pub(super) const CF_LOADCHUNK: Entry = Entry {
    name: "cf.loadchunk",
    summary: "Loads a piece of a cuckoo filter that CF.SCANDUMP returned.",
    complexity: "O(n), where n is the capacity",
    since: "1.0.0",
    group: Group::Cuckoo,
    arity: 4,
    flags: &[Write, DenyOom],
    acl: &[Acl::Cuckoo],
    keys: &[KeySpec::one(1, &[RW, Insert])],
    args: &[key("key", 0), integer("iterator"), string("data")],
    reply: Shape::OK,
    mode: Mode::Heavy,
    run: Run::Function(loadchunk),
    ..Entry::DEFAULT
};

fn loadchunk(ctx: &mut Ctx) -> CommandResult {
    let (key, chunk) = (ctx.args[1], ctx.args[3]);
    let at = parse_i64(ctx.args[2]).ok().filter(|at| *at != 0).ok_or(BAD_POSITION)?;
    let found = ctx.store.write_as::<Cuckoo>(key)?;
    if at == HEAD {
        if found.is_some() {
            return Err(EXISTS);
        }
        let head = chunk.try_into().map_err(|_| BAD_HEAD)?;
        let filter = Cuckoo::from_dump_head(head).ok_or(NOT_CREATED)?;
        ctx.store.set(key, Value::Sketch(Box::new(Sketch::Cuckoo(filter))));
    } else if !found.ok_or(NOT_FOUND)?.load_chunk(at, chunk) {
        return Err(NOT_LOADED);
    }
    ctx.changed(key, Change::UNNAMED);
    ctx.reply.ok();
    Ok(())
}
