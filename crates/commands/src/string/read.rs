//! Reads strings. `GETDEL` and `GETEX` also delete the key or change its expiry.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, integer, key, oneof,
    parse_i64, token, unix_time,
};
use keyspace::{Str, StrRef};

use super::options::{ExpiryOption, For, Options};
use super::reply_string;

pub(super) const GET: Entry = Entry {
    name: "get",
    summary: "Returns the string value of a key.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::String,
    arity: 2,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0)],
    reply: Shape::BULK_OR_NULL,
    run: Run::Function(get),
    ..Entry::DEFAULT
};

fn get(ctx: &mut Ctx) -> CommandResult {
    match ctx.store.read_as::<Str>(ctx.args[1])? {
        Some(string) => reply_string(&mut ctx.reply, string),
        None => ctx.reply.null(),
    }
    Ok(())
}

pub(super) const MGET: Entry = Entry {
    name: "mget",
    summary: "Atomically returns the string values of one or more keys.",
    complexity: "O(N) where N is the number of keys to retrieve.",
    since: "1.0.0",
    group: Group::String,
    arity: -2,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::String],
    keys: &[KeySpec::range(1, -1, 1, &[RO, Access])],
    args: &[key("key", 0).multiple()],
    tips: &["request_policy:multi_shard"],
    reply: Shape::Array(&Shape::BULK_OR_NULL),
    run: Run::Function(mget),
    ..Entry::DEFAULT
};

fn mget(ctx: &mut Ctx) -> CommandResult {
    let mut pace = Pace::new(ctx.host);
    ctx.reply.array(ctx.args.len() - 1);
    for key in &ctx.args[1..] {
        pace.step();
        match ctx.store.read_as::<Str>(key) {
            Ok(Some(string)) => reply_string(&mut ctx.reply, string),
            Ok(None) | Err(_) => ctx.reply.null(),
        }
    }
    Ok(())
}

pub(super) const STRLEN: Entry = Entry {
    name: "strlen",
    summary: "Returns the length of a string value.",
    complexity: "O(1)",
    since: "2.2.0",
    group: Group::String,
    arity: 2,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[RO])],
    args: &[key("key", 0)],
    reply: Shape::Int,
    run: Run::Function(strlen),
    ..Entry::DEFAULT
};

fn strlen(ctx: &mut Ctx) -> CommandResult {
    let length = ctx.store.read_as::<Str>(ctx.args[1])?.map_or(0, StrRef::len);
    ctx.reply.int(length as i64);
    Ok(())
}

pub(super) const GETRANGE: Entry = Entry {
    name: "getrange",
    summary: "Returns a substring of the string stored at a key.",
    complexity: "O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned length, but because creating a substring from an existing string is very cheap, it can be considered O(1) for small strings.",
    since: "2.4.0",
    group: Group::String,
    arity: 4,
    flags: &[ReadOnly],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), integer("start"), integer("end")],
    reply: Shape::Bulk,
    run: Run::Function(getrange),
    ..Entry::DEFAULT
};

fn getrange(ctx: &mut Ctx) -> CommandResult {
    let (start, end) = (parse_i64(ctx.args[2])?, parse_i64(ctx.args[3])?);
    match ctx.store.read_as::<Str>(ctx.args[1])? {
        None => ctx.reply.bulk(b""),
        Some(string) => {
            let bytes = string.bytes();
            match part(&bytes, start, end) {
                all if all.len() == bytes.len() => reply_string(&mut ctx.reply, string),
                part => ctx.reply.bulk(part),
            }
        }
    }
    Ok(())
}

/// The bytes from `start` to `end`, both included; negative positions count from the end.
fn part(bytes: &[u8], start: i64, end: i64) -> &[u8] {
    if start < 0 && end < 0 && start > end {
        return &[];
    }
    let length = bytes.len() as i64;
    let from_front = |index: i64| if index < 0 { (length + index).max(0) } else { index };
    let (start, end) = (from_front(start), from_front(end).min(length - 1));
    if start > end { &[] } else { &bytes[start as usize..=end as usize] }
}

pub(super) const SUBSTR: Entry = Entry {
    name: "substr",
    summary: "Returns a substring from a string value.",
    since: "1.0.0",
    deprecated: Some(("2.0.0", "`GETRANGE`")),
    ..GETRANGE
};

pub(super) const GETDEL: Entry = Entry {
    name: "getdel",
    summary: "Returns the string value of a key after deleting the key.",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::String,
    arity: 2,
    flags: &[Write, Fast],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[RW, Access, Delete])],
    args: &[key("key", 0)],
    reply: Shape::BULK_OR_NULL,
    run: Run::Function(getdel),
    ..Entry::DEFAULT
};

fn getdel(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    get(ctx)?;
    ctx.store.delete(key);
    Ok(())
}

pub(super) const GETEX: Entry = Entry {
    name: "getex",
    summary: "Returns the string value of a key after setting its expiration time.",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::String,
    arity: -2,
    flags: &[Write, Fast],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[RW, Access, Update]).notes("RW and UPDATE because it changes the TTL")],
    args: &[
        key("key", 0),
        oneof(
            "expiration",
            &[
                integer("seconds").token("EX"),
                integer("milliseconds").token("PX"),
                unix_time("unix-time-seconds").token("EXAT"),
                unix_time("unix-time-milliseconds").token("PXAT"),
                token("persist", "PERSIST"),
            ],
        )
        .optional(),
    ],
    reply: Shape::BULK_OR_NULL,
    run: Run::Function(getex),
    ..Entry::DEFAULT
};

fn getex(ctx: &mut Ctx) -> CommandResult {
    let options = Options::parse(&ctx.args[2..], For::GetEx)?;
    let key = ctx.args[1];
    if ctx.store.read_as::<Str>(key)?.is_none() {
        ctx.reply.null();
        return Ok(());
    }
    match options.expiry {
        ExpiryOption::At(unit, time) => {
            let expiry = unit.expiry(ctx, time)?;
            reply_value(ctx, key)?;
            if unit.absolute && ctx.store.is_past(expiry) {
                ctx.store.delete(key);
            } else {
                ctx.store.expire_at(key, expiry);
            }
        }
        ExpiryOption::Persist => {
            reply_value(ctx, key)?;
            ctx.store.persist(key);
        }
        ExpiryOption::Unsaid | ExpiryOption::Keep => reply_value(ctx, key)?,
    }
    Ok(())
}

fn reply_value(ctx: &mut Ctx, key: &[u8]) -> Result<(), CommandError> {
    if let Some(string) = ctx.store.peek_as::<Str>(key)? {
        reply_string(&mut ctx.reply, string);
    }
    Ok(())
}
