//! The commands that only read a hash.

use ds::hash::{FieldValue, Hash, HashRef};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, integer, key, pattern, string, token,
};

use crate::scan;

pub(super) const HGET: Entry = Entry {
    name: "hget",
    summary: "Returns the value of a field in a hash.",
    complexity: "O(1)",
    since: "2.0.0",
    group: Group::Hash,
    arity: 3,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), string("field")],
    reply: Shape::BULK_OR_NULL,
    run: Run::Function(hget),
    ..Entry::DEFAULT
};

fn hget(ctx: &mut Ctx) -> CommandResult {
    match ctx.store.read_as::<Hash>(ctx.args[1])?.and_then(|hash| hash.get(ctx.args[2])) {
        None => ctx.reply.null(),
        Some(value) => ctx.reply.bulk(&value.bytes()),
    }
    Ok(())
}

pub(super) const HMGET: Entry = Entry {
    name: "hmget",
    summary: "Returns the values of all fields in a hash.",
    complexity: "O(N) where N is the number of fields being requested.",
    since: "2.0.0",
    group: Group::Hash,
    arity: -3,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), string("field").multiple()],
    reply: Shape::Array(&Shape::BULK_OR_NULL),
    run: Run::Function(hmget),
    ..Entry::DEFAULT
};

fn hmget(ctx: &mut Ctx) -> CommandResult {
    let hash = ctx.store.read_as::<Hash>(ctx.args[1])?;
    let (fields, mut pace) = (&ctx.args[2..], Pace::new(ctx.host));
    ctx.reply.array(fields.len());
    for field in fields {
        pace.step();
        match hash.and_then(|hash| hash.get(field)) {
            None => ctx.reply.null(),
            Some(value) => ctx.reply.bulk(&value.bytes()),
        }
    }
    Ok(())
}

pub(super) const HGETALL: Entry = Entry {
    name: "hgetall",
    summary: "Returns all fields and values in a hash.",
    complexity: "O(N) where N is the size of the hash.",
    since: "2.0.0",
    group: Group::Hash,
    arity: 2,
    flags: &[ReadOnly],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0)],
    tips: &["nondeterministic_output_order"],
    reply: Shape::Map(&Shape::Bulk, &Shape::Bulk),
    run: Run::Function(hgetall),
    ..Entry::DEFAULT
};

fn hgetall(ctx: &mut Ctx) -> CommandResult {
    let hash = ctx.store.read_as::<Hash>(ctx.args[1])?;
    let mut pace = Pace::new(ctx.host);
    ctx.reply.map(hash.map_or(0, HashRef::len));
    if let Some(hash) = hash {
        ctx.reply.bulks(|bulks| {
            hash.visit_ahead(|bytes, len| {
                bulks.push_ahead(bytes, len);
                pace.step();
            });
        });
    }
    Ok(())
}

pub(super) const HKEYS: Entry = Entry {
    name: "hkeys",
    summary: "Returns all fields in a hash.",
    complexity: "O(N) where N is the size of the hash.",
    since: "2.0.0",
    group: Group::Hash,
    arity: 2,
    flags: &[ReadOnly],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0)],
    tips: &["nondeterministic_output_order"],
    reply: Shape::BULKS,
    run: Run::Function(hkeys),
    ..Entry::DEFAULT
};

fn hkeys(ctx: &mut Ctx) -> CommandResult {
    let hash = ctx.store.read_as::<Hash>(ctx.args[1])?;
    ctx.reply.array(hash.map_or(0, HashRef::len));
    let mut pace = Pace::new(ctx.host);
    let fields = hash.into_iter().flat_map(HashRef::iter).map(|(field, _)| field);
    let fields = fields.inspect(|_| pace.step());
    ctx.reply.bulks(|bulks| fields.for_each(|field| bulks.push(field)));
    Ok(())
}

pub(super) const HVALS: Entry =
    Entry { name: "hvals", summary: "Returns all values in a hash.", run: Run::Function(hvals), ..HKEYS };

fn hvals(ctx: &mut Ctx) -> CommandResult {
    let hash = ctx.store.read_as::<Hash>(ctx.args[1])?;
    ctx.reply.array(hash.map_or(0, HashRef::len));
    let mut pace = Pace::new(ctx.host);
    let values = hash.into_iter().flat_map(HashRef::iter).map(|(_, value)| value);
    let values = values.inspect(|_| pace.step());
    ctx.reply.bulks(|bulks| values.for_each(|value| bulks.push(&value.bytes())));
    Ok(())
}

pub(super) const HLEN: Entry = Entry {
    name: "hlen",
    summary: "Returns the number of fields in a hash.",
    complexity: "O(1)",
    since: "2.0.0",
    group: Group::Hash,
    arity: 2,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RO])],
    args: &[key("key", 0)],
    reply: Shape::Int,
    run: Run::Function(hlen),
    ..Entry::DEFAULT
};

fn hlen(ctx: &mut Ctx) -> CommandResult {
    let len = ctx.store.read_as::<Hash>(ctx.args[1])?.map_or(0, HashRef::len);
    ctx.reply.int(len as i64);
    Ok(())
}

pub(super) const HEXISTS: Entry = Entry {
    name: "hexists",
    summary: "Determines whether a field exists in a hash.",
    complexity: "O(1)",
    since: "2.0.0",
    group: Group::Hash,
    arity: 3,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RO])],
    args: &[key("key", 0), string("field")],
    reply: Shape::Int,
    run: Run::Function(hexists),
    ..Entry::DEFAULT
};

fn hexists(ctx: &mut Ctx) -> CommandResult {
    let found = ctx.store.read_as::<Hash>(ctx.args[1])?.is_some_and(|hash| hash.contains(ctx.args[2]));
    ctx.reply.int(found.into());
    Ok(())
}

pub(super) const HSTRLEN: Entry = Entry {
    name: "hstrlen",
    summary: "Returns the length of the value of a field.",
    complexity: "O(1)",
    since: "3.2.0",
    group: Group::Hash,
    arity: 3,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RO])],
    args: &[key("key", 0), string("field")],
    reply: Shape::Int,
    run: Run::Function(hstrlen),
    ..Entry::DEFAULT
};

fn hstrlen(ctx: &mut Ctx) -> CommandResult {
    let value = ctx.store.read_as::<Hash>(ctx.args[1])?.and_then(|hash| hash.get(ctx.args[2]));
    ctx.reply.int(value.map_or(0, FieldValue::len) as i64);
    Ok(())
}

pub(super) const HSCAN: Entry = Entry {
    name: "hscan",
    summary: "Iterates over fields and values of a hash.",
    group: Group::Hash,
    acl: &[Acl::Hash],
    args: &[
        key("key", 0),
        integer("cursor"),
        pattern("pattern").token("MATCH").optional(),
        integer("count").token("COUNT").optional(),
        token("novalues", "NOVALUES").optional().since("7.4.0"),
    ],
    run: Run::Function(hscan),
    ..scan::ENTRY
};

fn hscan(ctx: &mut Ctx) -> CommandResult {
    scan::reply_step::<Hash>(ctx, true, |hash, cursor, options, reply, count, pace| {
        hash.scan(cursor, options.count, &mut |field, value| {
            pace.step();
            if options.wants(field) {
                reply.bulk(field);
                *count += 1;
                if !options.no_values {
                    reply.bulk(&value.bytes());
                    *count += 1;
                }
            }
        })
    })
}
