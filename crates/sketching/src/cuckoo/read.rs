//! The commands that read a cuckoo filter: `CF.EXISTS`, `CF.MEXISTS`, `CF.COUNT`, `CF.INFO`.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{Acl, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, key, string};
use keyspace::Type;
use sketches::Cuckoo;

use super::NOT_FOUND;

pub(super) const CF_EXISTS: Entry = Entry {
    name: "cf.exists",
    summary: "Determines whether an item is in a cuckoo filter.",
    complexity: "O(k), where k is the number of sub-filters",
    since: "1.0.0",
    group: Group::Cuckoo,
    arity: 3,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Cuckoo],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), string("item")],
    reply: Shape::Bool,
    run: Run::Function(exists),
    ..Entry::DEFAULT
};

fn exists(ctx: &mut Ctx) -> CommandResult {
    // A key of another type contains nothing, as in RedisBloom.
    let filter = ctx.store.read(ctx.args[1]).and_then(Cuckoo::of);
    ctx.reply.bool(filter.is_some_and(|filter| filter.contains(ctx.args[2])));
    Ok(())
}

pub(super) const CF_MEXISTS: Entry = Entry {
    name: "cf.mexists",
    summary: "Determines whether items are in a cuckoo filter.",
    complexity: "O(k * n), where k is the number of sub-filters and n is the number of items",
    arity: -3,
    args: &[key("key", 0), string("item").multiple()],
    reply: Shape::Array(&Shape::Bool),
    run: Run::Function(mexists),
    ..CF_EXISTS
};

fn mexists(ctx: &mut Ctx) -> CommandResult {
    let items = &ctx.args[2..];
    let filter = ctx.store.read(ctx.args[1]).and_then(Cuckoo::of);
    let mut pace = Pace::new(ctx.host);
    ctx.reply.array(items.len());
    for item in items {
        pace.steps(1 + filter.map_or(0, Cuckoo::table_count));
        ctx.reply.bool(filter.is_some_and(|filter| filter.contains(item)));
    }
    Ok(())
}

pub(super) const CF_COUNT: Entry = Entry {
    name: "cf.count",
    summary: "Returns how often an item may be in a cuckoo filter.",
    reply: Shape::Int,
    run: Run::Function(count),
    ..CF_EXISTS
};

fn count(ctx: &mut Ctx) -> CommandResult {
    let filter = ctx.store.read(ctx.args[1]).and_then(Cuckoo::of);
    ctx.reply.int(filter.map_or(0, |filter| filter.count_of(ctx.args[2])) as i64);
    Ok(())
}

pub(super) const CF_INFO: Entry = Entry {
    name: "cf.info",
    summary: "Returns information about a cuckoo filter.",
    complexity: "O(1)",
    arity: 2,
    args: &[key("key", 0)],
    reply: Shape::Map(&Shape::AnyStatus, &Shape::Int),
    run: Run::Function(info),
    ..CF_EXISTS
};

fn info(ctx: &mut Ctx) -> CommandResult {
    let filter = ctx.store.read_as::<Cuckoo>(ctx.args[1])?.ok_or(NOT_FOUND)?;
    let parameters = filter.parameters();
    let values = [
        ("Size", filter.reported_bytes()),
        ("Number of buckets", filter.bucket_count()),
        ("Number of filters", filter.table_count() as u64),
        ("Number of items inserted", filter.len()),
        ("Number of items deleted", filter.deleted_count()),
        ("Bucket size", parameters.bucket_size.into()),
        ("Expansion rate", parameters.expansion.into()),
        ("Max iterations", parameters.iterations_max.into()),
    ];
    ctx.reply.map(values.len());
    for (name, value) in values {
        ctx.reply.simple(name);
        ctx.reply.int(value as i64);
    }
    Ok(())
}
