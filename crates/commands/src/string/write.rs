//! Writes strings.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeyFlag, KeySpec, Run, Shape, block,
    integer, key, keyword_is, oneof, parse_i64, string, token, unix_time,
};
use keyspace::{Str, UnixMs};

use super::compare::is_comparison;
use super::options::{Condition, ExpiryOption, For, Options, Unit};
use super::{check_length, reply_string};

pub(super) const SET: Entry = Entry {
    name: "set",
    summary: "Sets the string value of a key, ignoring its type. The key is created if it doesn't exist.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::String,
    arity: -3,
    flags: &[Write, DenyOom],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[RW, Access, Update, VariableFlags])
        .notes("RW and ACCESS due to the optional `GET` argument")],
    key_flags: Some(set_key_flags),
    args: &[
        key("key", 0),
        string("value"),
        oneof(
            "condition",
            &[
                token("nx", "NX"),
                token("xx", "XX"),
                string("ifeq-value").token("IFEQ").since("8.4.0"),
                string("ifne-value").token("IFNE").since("8.4.0"),
                string("ifdeq-digest").token("IFDEQ").since("8.4.0"),
                string("ifdne-digest").token("IFDNE").since("8.4.0"),
            ],
        )
        .optional()
        .since("2.6.12"),
        token("get", "GET").optional().since("6.2.0"),
        oneof(
            "expiration",
            &[
                integer("seconds").token("EX").since("2.6.12"),
                integer("milliseconds").token("PX").since("2.6.12"),
                unix_time("unix-time-seconds").token("EXAT").since("6.2.0"),
                unix_time("unix-time-milliseconds").token("PXAT").since("6.2.0"),
                token("keepttl", "KEEPTTL").since("6.0.0"),
            ],
        )
        .optional(),
    ],
    history: &[
        ("2.6.12", "Added the `EX`, `PX`, `NX` and `XX` options."),
        ("6.0.0", "Added the `KEEPTTL` option."),
        ("6.2.0", "Added the `GET`, `EXAT` and `PXAT` option."),
        ("7.0.0", "Allowed the `NX` and `GET` options to be used together."),
        ("8.4.0", "Added the `IFEQ`, `IFNE`, `IFDEQ` and `IFDNE` options."),
    ],
    reply: Shape::OneOf(&[Shape::OK, Shape::Bulk, Shape::Null]),
    run: Run::Function(set),
    ..Entry::DEFAULT
};

fn set_key_flags(args: &[&[u8]]) -> &'static [KeyFlag] {
    let reads = |arg: &&[u8]| keyword_is(arg, "GET") || is_comparison(arg);
    if args[3..].iter().any(reads) { &[RW, Access, Update] } else { &[OW, Update] }
}

fn set(ctx: &mut Ctx) -> CommandResult {
    let (key, value) = (ctx.args[1], ctx.args[2]);
    if ctx.args.len() == 3 {
        ctx.store.set_string(key, value, None);
        ctx.changed(key, Change::new(Class::String, "set"));
        ctx.reply.ok();
        return Ok(());
    }
    let options = Options::parse(&ctx.args[3..], For::Set)?;
    let expiry = match options.expiry {
        ExpiryOption::At(unit, time) => Some(unit.expiry(ctx, time)?),
        ExpiryOption::Keep => ctx.store.expiry(key),
        ExpiryOption::Unsaid | ExpiryOption::Persist => None,
    };
    if options.get {
        match ctx.store.read_as::<Str>(key)? {
            Some(old) => reply_string(&mut ctx.reply, old),
            None => ctx.reply.null(),
        }
    }
    let goes = match options.condition {
        None => true,
        Some(Condition::IfAbsent) => !ctx.store.exists(key),
        Some(Condition::IfPresent) => ctx.store.exists(key),
        Some(Condition::If(comparison)) => comparison.holds(ctx.store.peek_as::<Str>(key)?),
    };
    if goes {
        store(ctx, key, value, expiry, matches!(options.expiry, ExpiryOption::At(..)));
    }
    match (options.get, goes) {
        (true, _) => {}
        (false, true) => ctx.reply.ok(),
        (false, false) => ctx.reply.null(),
    }
    Ok(())
}

/// Stores a string under `key`, with its events and its effect; `expires` says that the expiry was given.
pub(super) fn store(ctx: &mut Ctx, key: &[u8], value: &[u8], expiry: Option<UnixMs>, expires: bool) {
    ctx.store.set_string(key, value, expiry);
    ctx.store.changed_with(key, Change::new(Class::String, "set"), |store| match expiry {
        None => store.effect(&[b"SET", key, value]),
        Some(expiry) => {
            let mut text = itoa::Buffer::new();
            store.effect(&[b"SET", key, value, b"PXAT", text.format(expiry).as_bytes()]);
        }
    });
    if expires {
        ctx.store.notify(Class::Generic, "expire", key);
    }
}

pub(super) const SETNX: Entry = Entry {
    name: "setnx",
    summary: "Set the string value of a key only when the key doesn't exist.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::String,
    arity: 3,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[OW, Insert])],
    args: &[key("key", 0), string("value")],
    deprecated: Some(("2.6.12", "`SET` with the `NX` argument")),
    reply: Shape::Int,
    run: Run::Function(setnx),
    ..Entry::DEFAULT
};

fn setnx(ctx: &mut Ctx) -> CommandResult {
    let (key, value) = (ctx.args[1], ctx.args[2]);
    let goes = !ctx.store.exists(key);
    if goes {
        store(ctx, key, value, None, false);
    }
    ctx.reply.int(i64::from(goes));
    Ok(())
}

pub(super) const SETEX: Entry = Entry {
    name: "setex",
    summary: "Sets the string value and expiration time of a key. Creates the key if it doesn't exist.",
    complexity: "O(1)",
    since: "2.0.0",
    group: Group::String,
    arity: 4,
    flags: &[Write, DenyOom],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[OW, Update])],
    args: &[key("key", 0), integer("seconds"), string("value")],
    deprecated: Some(("2.6.12", "`SET` with the `EX` argument")),
    reply: Shape::OK,
    run: Run::Function(setex),
    ..Entry::DEFAULT
};

fn setex(ctx: &mut Ctx) -> CommandResult {
    set_expiring(ctx, Unit::EX)
}

pub(super) const PSETEX: Entry = Entry {
    name: "psetex",
    summary: "Sets both string value and expiration time in milliseconds of a key. The key is created if it doesn't exist.",
    since: "2.6.0",
    args: &[key("key", 0), integer("milliseconds"), string("value")],
    deprecated: Some(("2.6.12", "`SET` with the `PX` argument")),
    run: Run::Function(psetex),
    ..SETEX
};

fn psetex(ctx: &mut Ctx) -> CommandResult {
    set_expiring(ctx, Unit::PX)
}

fn set_expiring(ctx: &mut Ctx, unit: Unit) -> CommandResult {
    let expiry = unit.expiry(ctx, ctx.args[2])?;
    store(ctx, ctx.args[1], ctx.args[3], Some(expiry), true);
    ctx.reply.ok();
    Ok(())
}

pub(super) const GETSET: Entry = Entry {
    name: "getset",
    summary: "Returns the previous string value of a key after setting it to a new value.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::String,
    arity: 3,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[RW, Access, Update])],
    args: &[key("key", 0), string("value")],
    deprecated: Some(("6.2.0", "`SET` with the `!GET` argument")),
    reply: Shape::BULK_OR_NULL,
    run: Run::Function(getset),
    ..Entry::DEFAULT
};

fn getset(ctx: &mut Ctx) -> CommandResult {
    let (key, value) = (ctx.args[1], ctx.args[2]);
    match ctx.store.read_as::<Str>(key)? {
        Some(old) => reply_string(&mut ctx.reply, old),
        None => ctx.reply.null(),
    }
    store(ctx, key, value, None, false);
    Ok(())
}

pub(super) const MSET: Entry = Entry {
    name: "mset",
    summary: "Atomically creates or modifies the string values of one or more keys.",
    complexity: "O(N) where N is the number of keys to set.",
    since: "1.0.1",
    group: Group::String,
    arity: -3,
    flags: &[Write, DenyOom],
    acl: &[Acl::String],
    keys: &[KeySpec::range(1, -1, 2, &[OW, Update])],
    args: &[block("data", &[key("key", 0), string("value")]).multiple()],
    tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
    reply: Shape::OK,
    run: Run::Function(mset),
    ..Entry::DEFAULT
};

fn mset(ctx: &mut Ctx) -> CommandResult {
    store_pairs(ctx, pairs(ctx)?);
    ctx.reply.ok();
    Ok(())
}

pub(super) const MSETNX: Entry = Entry {
    name: "msetnx",
    summary: "Atomically modifies the string values of one or more keys only when all keys don't exist.",
    complexity: "O(N) where N is the number of keys to set.",
    since: "1.0.1",
    group: Group::String,
    arity: -3,
    flags: &[Write, DenyOom],
    acl: &[Acl::String],
    keys: &[KeySpec::range(1, -1, 2, &[OW, Insert])],
    args: &[block("data", &[key("key", 0), string("value")]).multiple()],
    reply: Shape::Int,
    run: Run::Function(msetnx),
    ..Entry::DEFAULT
};

fn msetnx(ctx: &mut Ctx) -> CommandResult {
    let pairs = pairs(ctx)?;
    let goes = !pairs.iter().step_by(2).any(|key| ctx.store.exists(key));
    if goes {
        store_pairs(ctx, pairs);
    }
    ctx.reply.int(i64::from(goes));
    Ok(())
}

/// The keys and values of `MSET` and `MSETNX`.
fn pairs<'a>(ctx: &Ctx<'a, '_>) -> Result<&'a [&'a [u8]], CommandError> {
    let pairs = &ctx.args[1..];
    if !pairs.len().is_multiple_of(2) {
        return Err(CommandError::wrong_arity(&ctx.command.full_name));
    }
    Ok(pairs)
}

/// The number of pairs after which the thread serves its other clients.
pub(super) const PAIRS_PER_BREATH: usize = 256;

fn store_pairs(ctx: &mut Ctx, pairs: &[&[u8]]) {
    for (index, pair) in pairs.chunks_exact(2).enumerate() {
        store(ctx, pair[0], pair[1], None, false);
        if index % PAIRS_PER_BREATH == PAIRS_PER_BREATH - 1 {
            ctx.host.breathe();
        }
    }
}

pub(super) const APPEND: Entry = Entry {
    name: "append",
    summary: "Appends a string to the value of a key. Creates the key if it doesn't exist.",
    complexity: "O(1). The amortized time complexity is O(1) assuming the appended value is small and the already present value is of any size, since the dynamic string library used by Redis will double the free space available on every reallocation.",
    since: "2.0.0",
    group: Group::String,
    arity: 3,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[RW, Insert])],
    args: &[key("key", 0), string("value")],
    reply: Shape::Int,
    run: Run::Function(append),
    ..Entry::DEFAULT
};

fn append(ctx: &mut Ctx) -> CommandResult {
    let (key, added) = (ctx.args[1], ctx.args[2]);
    let max_bytes = ctx.store.config().string_bytes_max;
    let length = match ctx.store.write_as::<Str>(key)? {
        Some(string) => {
            check_length(string.len() as u64, added.len() as u64, max_bytes)?;
            let bytes = string.make_mut();
            bytes.extend_from_slice(added);
            bytes.len()
        }
        None => {
            ctx.store.set_string(key, added, None);
            added.len()
        }
    };
    ctx.changed(key, Change::new(Class::String, "append"));
    ctx.reply.int(length as i64);
    Ok(())
}

pub(super) const SETRANGE: Entry = Entry {
    name: "setrange",
    summary: "Overwrites a part of a string value with another by an offset. Creates the key if it doesn't exist.",
    complexity: "O(1), not counting the time taken to copy the new string in place. Usually, this string is very small so the amortized complexity is O(1). Otherwise, complexity is O(M) with M being the length of the value argument.",
    since: "2.2.0",
    group: Group::String,
    arity: 4,
    flags: &[Write, DenyOom],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[key("key", 0), integer("offset"), string("value")],
    reply: Shape::Int,
    run: Run::Function(setrange),
    ..Entry::DEFAULT
};

fn setrange(ctx: &mut Ctx) -> CommandResult {
    let (key, part) = (ctx.args[1], ctx.args[3]);
    let offset = parse_i64(ctx.args[2])?;
    let Ok(offset) = u64::try_from(offset) else {
        return Err(CommandError::new("ERR offset is out of range"));
    };
    let old_length = ctx.store.write_as::<Str>(key)?.map_or(0, |string| string.len());
    if part.is_empty() {
        ctx.reply.int(old_length as i64);
        return Ok(());
    }
    check_length(offset, part.len() as u64, ctx.store.config().string_bytes_max)?;
    let bytes = ctx.store.upsert::<Str>(key)?.make_mut();
    let start = offset as usize;
    let end = start + part.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[start..end].copy_from_slice(part);
    let length = bytes.len();
    ctx.changed(key, Change::new(Class::String, "setrange"));
    ctx.reply.int(length as i64);
    Ok(())
}
