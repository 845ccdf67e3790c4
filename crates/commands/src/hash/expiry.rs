//! Expiry of fields: HEXPIRE and similar commands, as in Redis 7.4.
//!
//! Effects contain absolute times, so that they mean the same whenever they are replayed. A time in the past deletes
//! the field.

use ds::hash::Hash;
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Arg, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, block,
    integer, key, keyword_is, oneof, parse_i64, string, token, unix_time,
};
use keyspace::UnixMs;

/// The latest point in time that Redis can store.
const EXPIRY_MAX: UnixMs = 0xffff_ffff_ffff >> 2;

const NO_FIELD: i64 = -2;
const NO_EXPIRY: i64 = -1;
const REFUSED: i64 = 0;
const DONE: i64 = 1;
const DELETED: i64 = 2;

const CONDITION: Arg =
    oneof("condition", &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")])
        .optional();
pub(super) const FIELDS: Arg =
    block("fields", &[integer("numfields"), string("field").multiple()]).token("FIELDS");

pub(super) const HEXPIRE: Entry = Entry {
    name: "hexpire",
    summary: "Has hash fields expire after a number of seconds.",
    complexity: "O(N) for N fields.",
    since: "7.4.0",
    group: Group::Hash,
    arity: -6,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[key("key", 0), integer("seconds"), CONDITION, FIELDS],
    reply: Shape::Array(&Shape::Int),
    run: Run::Function(|ctx| expire(ctx, Unit { ms: 1000, is_absolute: false })),
    ..Entry::DEFAULT
};

pub(super) const HPEXPIRE: Entry = Entry {
    name: "hpexpire",
    summary: "Has hash fields expire after a number of milliseconds.",
    args: &[key("key", 0), integer("milliseconds"), CONDITION, FIELDS],
    run: Run::Function(|ctx| expire(ctx, Unit { ms: 1, is_absolute: false })),
    ..HEXPIRE
};

pub(super) const HEXPIREAT: Entry = Entry {
    name: "hexpireat",
    summary: "Has hash fields expire at a Unix time in seconds.",
    args: &[key("key", 0), unix_time("unix-time-seconds"), CONDITION, FIELDS],
    run: Run::Function(|ctx| expire(ctx, Unit { ms: 1000, is_absolute: true })),
    ..HEXPIRE
};

pub(super) const HPEXPIREAT: Entry = Entry {
    name: "hpexpireat",
    summary: "Has hash fields expire at a Unix time in milliseconds.",
    args: &[key("key", 0), unix_time("unix-time-milliseconds"), CONDITION, FIELDS],
    run: Run::Function(|ctx| expire(ctx, Unit { ms: 1, is_absolute: true })),
    ..HEXPIRE
};

/// How a command writes times.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    pub(super) ms: i64,
    /// Whether times count from 1970 rather than from now.
    pub(super) is_absolute: bool,
}

impl Unit {
    /// The point in time that `arg` names.
    pub(super) fn parse(self, ctx: &Ctx, arg: &[u8]) -> Result<UnixMs, CommandError> {
        let number = parse_i64(arg)?;
        if number < 0 {
            return Err(CommandError::fixed("ERR invalid expire time, must be >= 0"));
        }
        let base = if self.is_absolute { 0 } else { ctx.store.now() };
        let at = number.checked_mul(self.ms).and_then(|ms| ms.checked_add(base));
        at.filter(|at| *at <= EXPIRY_MAX).ok_or_else(|| CommandError::invalid_expire(&ctx.command.full_name))
    }
}

/// Parses the fields after the word `FIELDS` and their number, with which `args` begin.
pub(super) fn parse_fields<'a>(
    args: &'a [&'a [u8]],
    not_a_number: &'static str,
) -> Result<&'a [&'a [u8]], CommandError> {
    if !args.first().is_some_and(|word| keyword_is(word, "FIELDS")) {
        let text = "ERR Mandatory argument FIELDS is missing or not at the right position";
        return Err(CommandError::fixed(text));
    }
    let number = args.get(1).and_then(|number| ds::num::parse_i64(number)).filter(|number| *number > 0);
    let number = number.ok_or(CommandError::fixed(not_a_number))?;
    if number as u64 != args.len() as u64 - 2 {
        return Err(CommandError::fixed("ERR The `numfields` parameter must match the number of arguments"));
    }
    Ok(&args[2..])
}

pub(super) const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";

#[derive(Clone, Copy)]
enum Condition {
    Always,
    IfNone,
    IfSome,
    IfLater,
    IfEarlier,
}

impl Condition {
    /// Reads the condition, if there is one; returns the arguments after it.
    fn parse<'a>(args: &'a [&'a [u8]]) -> (Condition, &'a [&'a [u8]]) {
        let words = [
            ("NX", Condition::IfNone),
            ("XX", Condition::IfSome),
            ("GT", Condition::IfLater),
            ("LT", Condition::IfEarlier),
        ];
        match words.into_iter().find(|(word, _)| keyword_is(args[0], word)) {
            Some((_, condition)) => (condition, &args[1..]),
            None => (Condition::Always, args),
        }
    }

    /// A field without expiry counts as expiring last; still, `GT` never sets its expiry.
    fn allows(self, old: Option<UnixMs>, new: UnixMs) -> bool {
        match self {
            Condition::Always => true,
            Condition::IfNone => old.is_none(),
            Condition::IfSome => old.is_some(),
            Condition::IfLater => old.is_some_and(|old| old < new),
            Condition::IfEarlier => old.is_none_or(|old| old > new),
        }
    }
}

fn expire(ctx: &mut Ctx, unit: Unit) -> CommandResult {
    let key = ctx.args[1];
    let _ = ctx.store.write_as::<Hash>(key)?;
    let at = unit.parse(ctx, ctx.args[2])?;
    let (condition, rest) = Condition::parse(&ctx.args[3..]);
    let fields = parse_fields(rest, "ERR Parameter `numFields` should be greater than 0")?;
    let is_over = ctx.store.is_past(at);
    ctx.reply.array(fields.len());
    let Some(mut hash) = ctx.store.write_as::<Hash>(key)? else {
        fields.iter().for_each(|_| ctx.reply.int(NO_FIELD));
        return Ok(());
    };
    let mut touched = Vec::new();
    for field in fields {
        let outcome = match () {
            () if !hash.lend().contains(field) => NO_FIELD,
            () if !condition.allows(hash.lend().expiry(field), at) => REFUSED,
            () if is_over => {
                hash.remove(field);
                DELETED
            }
            () => {
                hash.set_expiry(field, at);
                DONE
            }
        };
        if outcome > REFUSED {
            touched.push(*field);
        }
        ctx.reply.int(outcome);
    }
    drop(hash);
    note_expiries(ctx, key, &touched, at, touched.len());
    Ok(())
}

/// Announces that fields got an expiry, or were deleted because it had passed. This counts as `changes` changes.
pub(super) fn note_expiries(ctx: &mut Ctx, key: &[u8], fields: &[&[u8]], at: UnixMs, changes: usize) {
    if fields.is_empty() {
        return;
    }
    let is_over = ctx.store.is_past(at);
    ctx.store.changed_with(
        key,
        Change::new(Class::Hash, if is_over { "hdel" } else { "hexpire" }).times(changes),
        |store| {
            let (at, count) = (at.to_string(), fields.len().to_string());
            let head: &[&[u8]] = if is_over {
                &[b"HDEL", key]
            } else {
                &[b"HPEXPIREAT", key, at.as_bytes(), b"FIELDS", count.as_bytes()]
            };
            store.effect(&[head, fields].concat());
        },
    );
    if is_over {
        ctx.store.delete_if_empty(key);
    } else {
        ctx.store.note_volatile_fields(key);
    }
}

pub(super) const HTTL: Entry = Entry {
    name: "httl",
    summary: "Tells how many seconds hash fields have left.",
    complexity: "O(N) for N fields.",
    since: "7.4.0",
    group: Group::Hash,
    arity: -5,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), FIELDS],
    tips: &["nondeterministic_output"],
    reply: Shape::Array(&Shape::Int),
    run: Run::Function(|ctx| tell(ctx, Unit { ms: 1000, is_absolute: false })),
    ..Entry::DEFAULT
};

pub(super) const HPTTL: Entry = Entry {
    name: "hpttl",
    summary: "Tells how many milliseconds hash fields have left.",
    run: Run::Function(|ctx| tell(ctx, Unit { ms: 1, is_absolute: false })),
    ..HTTL
};

pub(super) const HEXPIRETIME: Entry = Entry {
    name: "hexpiretime",
    summary: "Tells the Unix time in seconds at which hash fields expire.",
    tips: &[],
    run: Run::Function(|ctx| tell(ctx, Unit { ms: 1000, is_absolute: true })),
    ..HTTL
};

pub(super) const HPEXPIRETIME: Entry = Entry {
    name: "hpexpiretime",
    summary: "Tells the Unix time in milliseconds at which hash fields expire.",
    tips: &[],
    run: Run::Function(|ctx| tell(ctx, Unit { ms: 1, is_absolute: true })),
    ..HTTL
};

fn tell(ctx: &mut Ctx, unit: Unit) -> CommandResult {
    let base = if unit.is_absolute { 0 } else { ctx.store.now() };
    let hash = ctx.store.read_as::<Hash>(ctx.args[1])?;
    let fields = parse_fields(&ctx.args[2..], NOT_POSITIVE)?;
    ctx.reply.array(fields.len());
    for field in fields {
        let hash = hash.filter(|hash| hash.contains(field));
        ctx.reply.int(match hash.map(|hash| hash.expiry(field)) {
            None => NO_FIELD,
            Some(None) => NO_EXPIRY,
            // Seconds are rounded up.
            Some(Some(at)) => (at - base + unit.ms - 1) / unit.ms,
        });
    }
    Ok(())
}

pub(super) const HPERSIST: Entry = Entry {
    name: "hpersist",
    summary: "Has hash fields no longer expire.",
    complexity: "O(N) for N fields.",
    since: "7.4.0",
    group: Group::Hash,
    arity: -5,
    flags: &[Write, Fast],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[key("key", 0), FIELDS],
    reply: Shape::Array(&Shape::Int),
    run: Run::Function(hpersist),
    ..Entry::DEFAULT
};

fn hpersist(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let mut hash = ctx.store.write_as::<Hash>(key)?;
    let fields = parse_fields(&ctx.args[2..], NOT_POSITIVE)?;
    ctx.reply.array(fields.len());
    let mut any = false;
    for field in fields {
        let hash = hash.as_mut().filter(|hash| hash.lend().contains(field));
        ctx.reply.int(match hash.map(|hash| hash.persist(field)) {
            None => NO_FIELD,
            Some(false) => NO_EXPIRY,
            Some(true) => {
                any = true;
                DONE
            }
        });
    }
    drop(hash);
    if any {
        ctx.changed(key, Change::new(Class::Hash, "hpersist"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use engine::{Local, TxMessage};

    /// A hash whose field `a` expires in a second and `b` in two.
    fn local() -> Local {
        let mut local = Local::new(crate::FAMILIES);
        for line in ["HSET h a 1 b 2", "HPEXPIRE h 1000 FIELDS 1 a", "HPEXPIRE h 2000 FIELDS 1 b"] {
            local.line(line);
        }
        local.record_effects();
        local
    }

    fn effects(local: &mut Local) -> Vec<String> {
        let text = |args: &[Box<[u8]>]| {
            args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect::<Vec<_>>().join(" ")
        };
        local.take_effects().iter().map(|effect| text(&effect.args)).collect()
    }

    #[test]
    fn whoever_looks_into_a_hash_takes_out_what_is_due() {
        for (line, reply) in [
            ("HGET h a", "$-1\r\n"),
            ("HLEN h", ":1\r\n"),
            ("HGETALL h", "*2\r\n$1\r\nb\r\n$1\r\n2\r\n"),
            ("HSETNX h a 5", ":1\r\n"),
            ("HINCRBY h a 5", ":5\r\n"),
            ("HRANDFIELD h", "$1\r\nb\r\n"),
            ("HPTTL h FIELDS 2 a b", "*2\r\n:-2\r\n:999\r\n"),
        ] {
            let mut local = local();
            local.now += 1000;
            assert_eq!(local.line("HEXISTS h a"), ":1\r\n");
            local.now += 1;
            assert_eq!(local.line(line), reply, "{line}");
            assert_eq!(effects(&mut local)[0], "HDEL h a");
        }
    }

    #[test]
    fn a_hash_without_fields_is_gone() {
        for (line, reply) in [
            ("HGET h a", "$-1\r\n"),
            ("RENAME h g", "-ERR no such key\r\n"),
            ("HSET h c 1", ":1\r\n"),
            ("SET h x", "+OK\r\n"),
        ] {
            let mut local = local();
            local.now += 2001;
            assert_eq!(local.line(line), reply, "{line}");
        }
        let mut local = local();
        local.config.notify = u32::MAX;
        local.now += 2001;
        assert_eq!(local.line("HLEN h"), ":0\r\n");
        let events = local.outbox.iter().filter_map(|message| match message {
            TxMessage::Event { channel, .. } => Some(String::from_utf8_lossy(channel).into_owned()),
            _ => None,
        });
        let events: Vec<String> = events.filter(|channel| channel.contains("keyevent")).collect();
        assert_eq!(events, ["__keyevent@0__:hexpired", "__keyevent@0__:del", "__keyevent@0__:keymiss"]);
    }

    #[test]
    fn effects_say_when_and_what() {
        let mut local = local();
        for line in [
            "HEXPIRE h 10 NX FIELDS 1 a",
            "HEXPIRE h 10 FIELDS 3 a none b",
            "HPERSIST h FIELDS 1 a",
            "HINCRBYFLOAT h b 1",
            "HGETEX h EX 20 FIELDS 2 a none",
            "HGETEX h PERSIST FIELDS 2 a none",
            "HSETEX h EX 30 FIELDS 1 c 3",
            "HGETDEL h FIELDS 2 none c",
            "HEXPIRE h 0 FIELDS 2 a b",
        ] {
            local.line(line);
        }
        let expected = [
            "HPEXPIREAT h 1700000010000 FIELDS 2 a b",
            "HPERSIST h FIELDS 1 a",
            "HSETEX h KEEPTTL FIELDS 1 b 3",
            "HPEXPIREAT h 1700000020000 FIELDS 1 a",
            "HPERSIST h FIELDS 1 a",
            "HSETEX h FIELDS 1 c 3",
            "HPEXPIREAT h 1700000030000 FIELDS 1 c",
            "HDEL h c",
            "HDEL h a b",
        ];
        assert_eq!(effects(&mut local), expected);
    }

    #[test]
    fn a_copy_expires_too() {
        let mut local = local();
        for line in ["COPY h {other}", "RENAME h moved", "MOVE moved 1"] {
            local.line(line);
        }
        local.now += 1001;
        assert_eq!(local.line("HKEYS {other}"), "*1\r\n$1\r\nb\r\n");
        local.line("MOVE {other} 1");
        local.now += 1000;
        assert_eq!(local.line("HKEYS {other}"), "*0\r\n");
    }
}
