//! `CMS.INCRBY`, `CMS.QUERY` and `CMS.INFO`.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, block, integer,
    key, parse_i64, string,
};
use sketches::CountMin;
use sketches::count_min::COUNT_MAX;

use super::NO_KEY;

const NOT_A_NUMBER: CommandError = CommandError::fixed("CMS: Cannot parse number");
const NEGATIVE: CommandError = CommandError::fixed("CMS: Number cannot be negative");
const OVERFLOW: &str = "CMS: INCRBY overflow";

pub(super) const CMS_INCRBY: Entry = Entry {
    name: "cms.incrby",
    summary: "Increments the counts of items in a count-min sketch.",
    complexity: "O(n) where n is the number of items",
    since: "2.0.0",
    group: Group::CountMin,
    arity: -4,
    flags: &[Write, DenyOom],
    acl: &[Acl::CountMin],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[key("key", 0), block("items", &[string("item"), integer("increment")]).multiple()],
    reply: Shape::Array(&Shape::Int),
    run: Run::Function(incrby),
    ..Entry::DEFAULT
};

fn incrby(ctx: &mut Ctx) -> CommandResult {
    let [_, key, ref items @ ..] = *ctx.args else { unreachable!("the arity says so") };
    let (items, []) = items.as_chunks::<2>() else { return Err(CommandError::wrong_arity("cms.incrby")) };
    let counts = ctx.store.write_as::<CountMin>(key)?.ok_or(NO_KEY)?;
    for [_, increment] in items {
        increment_of(increment)?;
    }
    let mut pace = Pace::new(ctx.host);
    ctx.reply.array(items.len());
    for [item, increment] in items {
        pace.steps(counts.depth() as usize);
        match counts.add(item, increment_of(increment)?) {
            COUNT_MAX => ctx.reply.error(OVERFLOW),
            count => ctx.reply.int(count.into()),
        }
    }
    ctx.changed(key, Change::UNNAMED);
    Ok(())
}

fn increment_of(arg: &[u8]) -> Result<u64, CommandError> {
    u64::try_from(parse_i64(arg).map_err(|_| NOT_A_NUMBER)?).map_err(|_| NEGATIVE)
}

pub(super) const CMS_QUERY: Entry = Entry {
    name: "cms.query",
    summary: "Returns the counts of items in a count-min sketch.",
    complexity: "O(n) where n is the number of items",
    since: "2.0.0",
    group: Group::CountMin,
    arity: -3,
    flags: &[ReadOnly],
    acl: &[Acl::CountMin],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), string("item").multiple()],
    reply: Shape::Array(&Shape::Int),
    run: Run::Function(query),
    ..Entry::DEFAULT
};

fn query(ctx: &mut Ctx) -> CommandResult {
    let items = &ctx.args[2..];
    let counts = ctx.store.read_as::<CountMin>(ctx.args[1])?.ok_or(NO_KEY)?;
    let mut pace = Pace::new(ctx.host);
    ctx.reply.array(items.len());
    for item in items {
        pace.steps(counts.depth() as usize);
        ctx.reply.int(counts.count_of(item).into());
    }
    Ok(())
}

pub(super) const CMS_INFO: Entry = Entry {
    name: "cms.info",
    summary: "Returns width, depth and total count of a count-min sketch.",
    complexity: "O(1)",
    arity: 2,
    args: &[key("key", 0)],
    reply: Shape::Map(&Shape::AnyStatus, &Shape::Int),
    run: Run::Function(info),
    ..CMS_QUERY
};

fn info(ctx: &mut Ctx) -> CommandResult {
    let counts = ctx.store.read_as::<CountMin>(ctx.args[1])?.ok_or(NO_KEY)?;
    let values = [("width", counts.width()), ("depth", counts.depth()), ("count", counts.count())];
    ctx.reply.map(values.len());
    for (name, value) in values {
        ctx.reply.simple(name);
        ctx.reply.int(value as i64);
    }
    Ok(())
}
