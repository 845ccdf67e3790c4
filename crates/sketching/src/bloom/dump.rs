//! `BF.SCANDUMP` and `BF.LOADCHUNK`: a Bloom filter in pieces, which RedisBloom can load as well.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Mode, Run, Shape, integer, key,
    parse_i64, string,
};
use keyspace::Value;
use sketches::bloom::ChunkError;
use sketches::{Bloom, Sketch};

use super::NOT_FOUND;

const NOT_A_POSITION: CommandError = CommandError::fixed("Second argument must be numeric");
const NOT_A_POSITION_TO_LOAD: CommandError = CommandError::fixed("ERR Second argument must be numeric");
const BAD_DATA: CommandError = CommandError::fixed("ERR received bad data");
const NO_LINK: CommandError = CommandError::fixed("ERR invalid offset - no link found");
const TOO_LONG: CommandError = CommandError::fixed("ERR invalid chunk - Too big for current filter");
/// The position of the head, and of the first chunk behind it.
const HEAD: i64 = 1;

pub(super) const BF_SCANDUMP: Entry = Entry {
    name: "bf.scandump",
    summary: "Returns the next piece of a Bloom filter, and the position behind it.",
    complexity: "O(n), where n is the capacity",
    since: "1.0.0",
    group: Group::Bloom,
    arity: 3,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Bloom],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), integer("iterator")],
    reply: Shape::Tuple(&[Shape::Int, Shape::Bulk]),
    run: Run::Function(scandump),
    ..Entry::DEFAULT
};

fn scandump(ctx: &mut Ctx) -> CommandResult {
    let filter = ctx.store.read_as::<Bloom>(ctx.args[1])?.ok_or(NOT_FOUND)?;
    let at = parse_i64(ctx.args[2]).map_err(|_| NOT_A_POSITION)?;
    ctx.reply.array(2);
    if at == 0 {
        ctx.reply.int(HEAD);
        ctx.reply.bulk(&filter.dump_head());
        return Ok(());
    }
    let (next, chunk) = filter.dump_chunk(at).unwrap_or_default();
    ctx.reply.int(next);
    ctx.reply.bulk(chunk);
    Ok(())
}

pub(super) const BF_LOADCHUNK: Entry = Entry {
    name: "bf.loadchunk",
    summary: "Loads a piece of a Bloom filter that BF.SCANDUMP returned.",
    complexity: "O(n), where n is the capacity",
    since: "1.0.0",
    group: Group::Bloom,
    arity: 4,
    flags: &[Write, DenyOom],
    acl: &[Acl::Bloom],
    keys: &[KeySpec::one(1, &[RW, Insert])],
    args: &[key("key", 0), integer("iterator"), string("data")],
    reply: Shape::OK,
    mode: Mode::Heavy,
    run: Run::Function(loadchunk),
    ..Entry::DEFAULT
};

fn loadchunk(ctx: &mut Ctx) -> CommandResult {
    let (key, chunk) = (ctx.args[1], ctx.args[3]);
    let at = parse_i64(ctx.args[2]).map_err(|_| NOT_A_POSITION_TO_LOAD)?;
    match ctx.store.write_as::<Bloom>(key)? {
        Some(filter) => filter.load_chunk(at, chunk).map_err(|error| match error {
            ChunkError::BadData => BAD_DATA,
            ChunkError::NoFilter => NO_LINK,
            ChunkError::TooLong => TOO_LONG,
        })?,
        None if at == HEAD => {
            let filter = Bloom::from_dump_head(chunk).ok_or(BAD_DATA)?;
            ctx.store.set(key, Value::Sketch(Box::new(Sketch::Bloom(filter))));
        }
        None => return Err(NOT_FOUND),
    }
    ctx.changed(key, Change::UNNAMED);
    ctx.reply.ok();
    Ok(())
}
