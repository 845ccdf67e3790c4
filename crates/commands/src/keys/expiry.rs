//! `EXPIRE`, `TTL` and similar commands: when keys expire.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Arg, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, integer, key, keyword_is,
    oneof, parse_i64, token, unix_time,
};
use keyspace::UnixMs;

/// `NX`, `XX`, `GT`, `LT`
const CONDITION: Arg =
    oneof("condition", &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")])
        .optional()
        .since("7.0.0");

pub(super) const EXPIRE: Entry = Entry {
    name: "expire",
    summary: "Sets the expiration time of a key in seconds.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Generic,
    arity: -3,
    flags: &[Write, Fast],
    acl: &[Acl::Keyspace],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[key("key", 0), integer("seconds"), CONDITION],
    history: &[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")],
    reply: Shape::Int,
    run: Run::Function(expire),
    ..Entry::DEFAULT
};

fn expire(ctx: &mut Ctx) -> CommandResult {
    set(ctx, 1000, ctx.store.now())
}

pub(super) const PEXPIRE: Entry = Entry {
    name: "pexpire",
    summary: "Sets the expiration time of a key in milliseconds.",
    since: "2.6.0",
    args: &[key("key", 0), integer("milliseconds"), CONDITION],
    run: Run::Function(pexpire),
    ..EXPIRE
};

fn pexpire(ctx: &mut Ctx) -> CommandResult {
    set(ctx, 1, ctx.store.now())
}

pub(super) const EXPIREAT: Entry = Entry {
    name: "expireat",
    summary: "Sets the expiration time of a key to a Unix timestamp.",
    since: "1.2.0",
    args: &[key("key", 0), unix_time("unix-time-seconds"), CONDITION],
    run: Run::Function(expireat),
    ..EXPIRE
};

fn expireat(ctx: &mut Ctx) -> CommandResult {
    set(ctx, 1000, 0)
}

pub(super) const PEXPIREAT: Entry = Entry {
    name: "pexpireat",
    summary: "Sets the expiration time of a key to a Unix milliseconds timestamp.",
    since: "2.6.0",
    args: &[key("key", 0), unix_time("unix-time-milliseconds"), CONDITION],
    run: Run::Function(pexpireat),
    ..EXPIRE
};

fn pexpireat(ctx: &mut Ctx) -> CommandResult {
    set(ctx, 1, 0)
}

/// Sets the expiry to `base` plus the argument in units of `unit_ms`.
fn set(ctx: &mut Ctx, unit_ms: i64, base: UnixMs) -> CommandResult {
    let key = ctx.args[1];
    let conditions = Conditions::parse(&ctx.args[3..])?;
    let number = parse_i64(ctx.args[2])?;
    let expiry = number
        .checked_mul(unit_ms)
        .and_then(|ms| ms.checked_add(base))
        .ok_or_else(|| CommandError::invalid_expire(&ctx.command.full_name))?;
    let goes = ctx.store.write(key).is_some_and(|record| conditions.allow(record.lend().expiry(), expiry));
    if goes {
        if ctx.store.is_past(expiry) {
            ctx.store.delete(key);
        } else {
            ctx.store.expire_at(key, expiry);
        }
    }
    ctx.reply.int(i64::from(goes));
    Ok(())
}

/// The conditions under which `EXPIRE` has an effect.
#[derive(Default)]
struct Conditions {
    if_none: bool,
    if_some: bool,
    if_later: bool,
    if_earlier: bool,
}

impl Conditions {
    fn parse(args: &[&[u8]]) -> Result<Conditions, CommandError> {
        let mut found = Conditions::default();
        for word in args {
            match () {
                () if keyword_is(word, "NX") => found.if_none = true,
                () if keyword_is(word, "XX") => found.if_some = true,
                () if keyword_is(word, "GT") => found.if_later = true,
                () if keyword_is(word, "LT") => found.if_earlier = true,
                () => return Err(CommandError::quoting("ERR Unsupported option ", word, "")),
            }
        }
        if found.if_none && (found.if_some || found.if_later || found.if_earlier) {
            let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
            return Err(CommandError::new(text));
        }
        if found.if_later && found.if_earlier {
            return Err(CommandError::new("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(found)
    }

    /// Whether `new` may replace `old`; a key without expiry counts as expiring last.
    fn allow(&self, old: Option<UnixMs>, new: UnixMs) -> bool {
        (!self.if_none || old.is_none())
            && (!self.if_some || old.is_some())
            && (!self.if_later || old.is_some_and(|old| new > old))
            && (!self.if_earlier || old.is_none_or(|old| new < old))
    }
}

pub(super) const PERSIST: Entry = Entry {
    name: "persist",
    summary: "Removes the expiration time of a key.",
    complexity: "O(1)",
    since: "2.2.0",
    group: Group::Generic,
    arity: 2,
    flags: &[Write, Fast],
    acl: &[Acl::Keyspace],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[key("key", 0)],
    reply: Shape::Int,
    run: Run::Function(persist),
    ..Entry::DEFAULT
};

fn persist(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let had = ctx.store.write(key).is_some() && ctx.store.persist(key);
    ctx.reply.int(i64::from(had));
    Ok(())
}

pub(super) const TTL: Entry = Entry {
    name: "ttl",
    summary: "Returns the expiration time in seconds of a key.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Generic,
    arity: 2,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Keyspace],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0)],
    history: &[("2.8.0", "Added the -2 reply.")],
    tips: &["nondeterministic_output"],
    reply: Shape::Int,
    run: Run::Function(ttl),
    ..Entry::DEFAULT
};

fn ttl(ctx: &mut Ctx) -> CommandResult {
    let now = ctx.store.now();
    reply_expiry(ctx, |expiry| rounded_seconds(expiry.saturating_sub(now)))
}

pub(super) const PTTL: Entry = Entry {
    name: "pttl",
    summary: "Returns the expiration time in milliseconds of a key.",
    since: "2.6.0",
    run: Run::Function(pttl),
    ..TTL
};

fn pttl(ctx: &mut Ctx) -> CommandResult {
    let now = ctx.store.now();
    reply_expiry(ctx, |expiry| expiry.saturating_sub(now))
}

pub(super) const EXPIRETIME: Entry = Entry {
    name: "expiretime",
    summary: "Returns the expiration time of a key as a Unix timestamp.",
    complexity: "O(1)",
    since: "7.0.0",
    group: Group::Generic,
    arity: 2,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Keyspace],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0)],
    reply: Shape::Int,
    run: Run::Function(expiretime),
    ..Entry::DEFAULT
};

fn expiretime(ctx: &mut Ctx) -> CommandResult {
    reply_expiry(ctx, rounded_seconds)
}

pub(super) const PEXPIRETIME: Entry = Entry {
    name: "pexpiretime",
    summary: "Returns the expiration time of a key as a Unix milliseconds timestamp.",
    run: Run::Function(pexpiretime),
    ..EXPIRETIME
};

fn pexpiretime(ctx: &mut Ctx) -> CommandResult {
    reply_expiry(ctx, |expiry| expiry)
}

/// Replies with the expiry as `shown` converts it; -2 if the key does not exist, -1 if it does not expire.
fn reply_expiry(ctx: &mut Ctx, shown: impl FnOnce(UnixMs) -> i64) -> CommandResult {
    ctx.store.client.no_touch = true;
    let number = match ctx.store.read_record(ctx.args[1]) {
        None => -2,
        Some(record) => record.expiry().map_or(-1, shown),
    };
    ctx.reply.int(number);
    Ok(())
}

fn rounded_seconds(ms: i64) -> i64 {
    ms.saturating_add(500) / 1000
}
