//! Expiry of fields: HEXPIRE and similar commands, as in Redis 7.4. What they do is in `expiring.rs`.

use ds::hash::Hash;
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Arg, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, block, integer, key,
    keyword_is, string, unix_time,
};

use crate::expiring::{self, CONDITION, Condition, Unit};

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
    run: Run::Function(|ctx| expire(ctx, Unit::SECONDS)),
    ..Entry::DEFAULT
};

pub(super) const HPEXPIRE: Entry = Entry {
    name: "hpexpire",
    summary: "Has hash fields expire after a number of milliseconds.",
    args: &[key("key", 0), integer("milliseconds"), CONDITION, FIELDS],
    run: Run::Function(|ctx| expire(ctx, Unit::MS)),
    ..HEXPIRE
};

pub(super) const HEXPIREAT: Entry = Entry {
    name: "hexpireat",
    summary: "Has hash fields expire at a Unix time in seconds.",
    args: &[key("key", 0), unix_time("unix-time-seconds"), CONDITION, FIELDS],
    run: Run::Function(|ctx| expire(ctx, Unit::UNIX_SECONDS)),
    ..HEXPIRE
};

pub(super) const HPEXPIREAT: Entry = Entry {
    name: "hpexpireat",
    summary: "Has hash fields expire at a Unix time in milliseconds.",
    args: &[key("key", 0), unix_time("unix-time-milliseconds"), CONDITION, FIELDS],
    run: Run::Function(|ctx| expire(ctx, Unit::UNIX_MS)),
    ..HEXPIRE
};

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

fn expire(ctx: &mut Ctx, unit: Unit) -> CommandResult {
    let _ = ctx.store.write_as::<Hash>(ctx.args[1])?;
    let at = unit.parse(ctx, ctx.args[2])?;
    let condition = Condition::of(ctx.args[3]);
    let rest = &ctx.args[3 + usize::from(condition.is_some())..];
    let fields = parse_fields(rest, "ERR Parameter `numFields` should be greater than 0")?;
    expiring::expire::<Hash>(ctx, fields, condition.unwrap_or(Condition::Always), at)
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
    run: Run::Function(|ctx| tell(ctx, Unit::SECONDS)),
    ..Entry::DEFAULT
};

pub(super) const HPTTL: Entry = Entry {
    name: "hpttl",
    summary: "Tells how many milliseconds hash fields have left.",
    run: Run::Function(|ctx| tell(ctx, Unit::MS)),
    ..HTTL
};

pub(super) const HEXPIRETIME: Entry = Entry {
    name: "hexpiretime",
    summary: "Tells the Unix time in seconds at which hash fields expire.",
    tips: &[],
    run: Run::Function(|ctx| tell(ctx, Unit::UNIX_SECONDS)),
    ..HTTL
};

pub(super) const HPEXPIRETIME: Entry = Entry {
    name: "hpexpiretime",
    summary: "Tells the Unix time in milliseconds at which hash fields expire.",
    tips: &[],
    run: Run::Function(|ctx| tell(ctx, Unit::UNIX_MS)),
    ..HTTL
};

fn tell(ctx: &mut Ctx, unit: Unit) -> CommandResult {
    let args = ctx.args;
    expiring::tell::<Hash>(ctx, unit, parse_fields(&args[2..], NOT_POSITIVE))
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
    let args = ctx.args;
    expiring::persist::<Hash>(ctx, parse_fields(&args[2..], NOT_POSITIVE))
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
