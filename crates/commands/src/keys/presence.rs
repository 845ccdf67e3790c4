//! Tests whether keys exist, and deletes them.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{Acl, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, key};

pub(super) const DEL: Entry = Entry {
    name: "del",
    summary: "Deletes one or more keys.",
    complexity: "O(N) where N is the number of keys that will be removed. When a key to remove holds a value other than a string, the individual complexity for this key is O(M) where M is the number of elements in the list, set, sorted set or hash. Removing a single key that holds a string value is O(1).",
    since: "1.0.0",
    group: Group::Generic,
    arity: -2,
    flags: &[Write],
    acl: &[Acl::Keyspace],
    keys: &[KeySpec::range(1, -1, 1, &[RM, Delete])],
    args: &[key("key", 0).multiple()],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    reply: Shape::Int,
    run: Run::Function(del),
    ..Entry::DEFAULT
};

fn del(ctx: &mut Ctx) -> CommandResult {
    let (mut count, mut pace) = (0, Pace::new(ctx.host));
    for key in &ctx.args[1..] {
        count += i64::from(ctx.store.delete(key));
        pace.step();
    }
    ctx.reply.int(count);
    Ok(())
}

pub(super) const UNLINK: Entry = Entry {
    name: "unlink",
    summary: "Asynchronously deletes one or more keys.",
    complexity: "O(1) for each key removed regardless of its size. Then the command does O(N) work in a different thread in order to reclaim memory, where N is the number of allocations the deleted objects where composed of.",
    since: "4.0.0",
    group: Group::Generic,
    arity: -2,
    flags: &[Write, Fast],
    acl: &[Acl::Keyspace],
    keys: &[KeySpec::range(1, -1, 1, &[RM, Delete])],
    args: &[key("key", 0).multiple()],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    reply: Shape::Int,
    run: Run::Function(del),
    ..Entry::DEFAULT
};

pub(super) const EXISTS: Entry = Entry {
    name: "exists",
    summary: "Determines whether one or more keys exist.",
    complexity: "O(N) where N is the number of keys to check.",
    since: "1.0.0",
    group: Group::Generic,
    arity: -2,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Keyspace],
    keys: &[KeySpec::range(1, -1, 1, &[RO])],
    args: &[key("key", 0).multiple()],
    history: &[("3.0.3", "Accepts multiple `key` arguments.")],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    reply: Shape::Int,
    run: Run::Function(exists),
    ..Entry::DEFAULT
};

fn exists(ctx: &mut Ctx) -> CommandResult {
    ctx.store.client.no_touch = true;
    reply_count_of_present(ctx)
}

pub(super) const TOUCH: Entry = Entry {
    name: "touch",
    summary: "Returns the number of existing keys out of those specified after updating the time they were last accessed.",
    complexity: "O(N) where N is the number of keys that will be touched.",
    since: "3.2.1",
    group: Group::Generic,
    arity: -2,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Keyspace],
    keys: &[KeySpec::range(1, -1, 1, &[RO])],
    args: &[key("key", 0).multiple()],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    reply: Shape::Int,
    run: Run::Function(touch),
    ..Entry::DEFAULT
};

fn touch(ctx: &mut Ctx) -> CommandResult {
    ctx.store.client.no_touch = false;
    reply_count_of_present(ctx)
}

/// Replies with the number of keys that exist; a key that is named twice counts twice.
fn reply_count_of_present(ctx: &mut Ctx) -> CommandResult {
    let (mut count, mut pace) = (0, Pace::new(ctx.host));
    for key in &ctx.args[1..] {
        count += i64::from(ctx.store.read(key).is_some());
        pace.step();
    }
    ctx.reply.int(count);
    Ok(())
}

pub(super) const TYPE: Entry = Entry {
    name: "type",
    summary: "Determines the type of value stored at a key.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Generic,
    arity: 2,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Keyspace],
    keys: &[KeySpec::one(1, &[RO])],
    args: &[key("key", 0)],
    reply: Shape::AnyStatus,
    run: Run::Function(type_of),
    ..Entry::DEFAULT
};

fn type_of(ctx: &mut Ctx) -> CommandResult {
    ctx.store.client.no_touch = true;
    let name = ctx.store.read(ctx.args[1]).map_or("none", |value| value.kind().name());
    ctx.reply.simple(name);
    Ok(())
}
