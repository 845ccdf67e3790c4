//! `INCR` and similar commands: strings as numbers.

use ds::num::LongDouble;
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, double, integer,
    key, parse_i64,
};
use keyspace::Str;

pub(super) const INCR: Entry = Entry {
    name: "incr",
    summary: "Increments the integer value of a key by one. Uses 0 as initial value if the key doesn't exist.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::String,
    arity: 2,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[RW, Access, Update])],
    args: &[key("key", 0)],
    reply: Shape::Int,
    run: Run::Function(incr),
    ..Entry::DEFAULT
};

fn incr(ctx: &mut Ctx) -> CommandResult {
    add(ctx, 1)
}

pub(super) const DECR: Entry = Entry {
    name: "decr",
    summary: "Decrements the integer value of a key by one. Uses 0 as initial value if the key doesn't exist.",
    run: Run::Function(decr),
    ..INCR
};

fn decr(ctx: &mut Ctx) -> CommandResult {
    add(ctx, -1)
}

pub(super) const INCRBY: Entry = Entry {
    name: "incrby",
    summary: "Increments the integer value of a key by a number. Uses 0 as initial value if the key doesn't exist.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::String,
    arity: 3,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[RW, Access, Update])],
    args: &[key("key", 0), integer("increment")],
    reply: Shape::Int,
    run: Run::Function(incrby),
    ..Entry::DEFAULT
};

fn incrby(ctx: &mut Ctx) -> CommandResult {
    add(ctx, parse_i64(ctx.args[2])?)
}

pub(super) const DECRBY: Entry = Entry {
    name: "decrby",
    summary: "Decrements a number from the integer value of a key. Uses 0 as initial value if the key doesn't exist.",
    args: &[key("key", 0), integer("decrement")],
    run: Run::Function(decrby),
    ..INCRBY
};

fn decrby(ctx: &mut Ctx) -> CommandResult {
    let decrement = parse_i64(ctx.args[2])?;
    match decrement.checked_neg() {
        Some(increment) => add(ctx, increment),
        None => Err(CommandError::new("ERR decrement would overflow")),
    }
}

fn add(ctx: &mut Ctx, increment: i64) -> CommandResult {
    let key = ctx.args[1];
    let plus = |old: i64| old.checked_add(increment).ok_or(CommandError::OVERFLOW);
    let sum = match ctx.store.write_as::<Str>(key)? {
        Some(string) => {
            let sum = plus(string.int().ok_or(CommandError::NOT_AN_INTEGER)?)?;
            *string = Str::Int(sum);
            sum
        }
        None => {
            *ctx.store.upsert::<Str>(key)? = Str::Int(increment);
            increment
        }
    };
    ctx.changed(key, Change::new(Class::String, "incrby"));
    ctx.reply.int(sum);
    Ok(())
}

pub(super) const INCRBYFLOAT: Entry = Entry {
    name: "incrbyfloat",
    summary: "Increment the floating point value of a key by a number. Uses 0 as initial value if the key doesn't exist.",
    complexity: "O(1)",
    since: "2.6.0",
    group: Group::String,
    arity: 3,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[RW, Access, Update])],
    args: &[key("key", 0), double("increment")],
    reply: Shape::Bulk,
    run: Run::Function(incrbyfloat),
    ..Entry::DEFAULT
};

fn incrbyfloat(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let old = match ctx.store.write_as::<Str>(key)? {
        Some(string) => LongDouble::parse(&string.bytes()).ok_or(CommandError::NOT_A_FLOAT)?,
        None => LongDouble::from_i64(0),
    };
    let increment = LongDouble::parse(ctx.args[2]).ok_or(CommandError::NOT_A_FLOAT)?;
    let sum = old.checked_add(increment).ok_or(CommandError::NAN_OR_INFINITY)?;
    let mut text = Vec::new();
    sum.format(&mut text);
    // Stored as text even if it is an integer, because Redis' `OBJECT ENCODING` shows it as such.
    *ctx.store.upsert::<Str>(key)? = Str::text(text.as_slice());
    ctx.store.changed(key, Change::new(Class::String, "incrbyfloat"), &[b"SET", key, &text, b"KEEPTTL"]);
    ctx.reply.bulk(&text);
    Ok(())
}
