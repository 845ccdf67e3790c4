//! NewExpiry of members: SEXPIRE and similar commands, and SADDEX, as in Redis 8.12. What the former do is in
//! `expiring.rs`.
//!
//! A member that is added again with SADD keeps its expiry; with SADDEX it keeps it only if the command says so.

use ds::set::Set;
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Arg, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape,
    block, integer, key, keyword_is, note_added, oneof, string, token, unix_time,
};
use keyspace::UnixMs;

use crate::expiring::{self, CONDITION, Condition, NewExpiry, Unit, note_expiries};

const MEMBERS: Arg = block("members", &[integer("nummembers"), string("member").multiple()]).token("MEMBERS");

pub(super) const SEXPIRE: Entry = Entry {
    name: "sexpire",
    summary: "Set expiry for set member using relative time to expire (seconds)",
    complexity: "O(N) where N is the number of specified members",
    since: "8.12.0",
    group: Group::Set,
    arity: -6,
    flags: &[Write, Fast],
    acl: &[Acl::Set],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[key("key", 0), integer("seconds"), CONDITION, MEMBERS],
    reply: Shape::Array(&Shape::Int),
    run: Run::Function(|ctx| expire(ctx, Unit::SECONDS)),
    ..Entry::DEFAULT
};

pub(super) const SPEXPIRE: Entry = Entry {
    name: "spexpire",
    summary: "Set expiry for set member using relative time to expire (milliseconds)",
    args: &[key("key", 0), integer("milliseconds"), CONDITION, MEMBERS],
    run: Run::Function(|ctx| expire(ctx, Unit::MS)),
    ..SEXPIRE
};

pub(super) const SEXPIREAT: Entry = Entry {
    name: "sexpireat",
    summary: "Set expiry for set member using an absolute Unix timestamp (seconds)",
    args: &[key("key", 0), unix_time("unix-time-seconds"), CONDITION, MEMBERS],
    run: Run::Function(|ctx| expire(ctx, Unit::UNIX_SECONDS)),
    ..SEXPIRE
};

pub(super) const SPEXPIREAT: Entry = Entry {
    name: "spexpireat",
    summary: "Set expiry for set member using an absolute Unix timestamp (milliseconds)",
    args: &[key("key", 0), unix_time("unix-time-milliseconds"), CONDITION, MEMBERS],
    run: Run::Function(|ctx| expire(ctx, Unit::UNIX_MS)),
    ..SEXPIRE
};

fn expire(ctx: &mut Ctx, unit: Unit) -> CommandResult {
    let args = ctx.args;
    let _ = ctx.store.write_as::<Set>(args[1])?;
    let at = unit.parse(ctx, args[2])?;
    let (condition, members) = parse_condition(&args[3..])?;
    expiring::expire::<Set>(ctx, members, condition, at)
}

const SEVERAL_MEMBERS: CommandError = CommandError::fixed("ERR MEMBERS keyword specified multiple times");
const NO_MEMBERS: CommandError = CommandError::fixed("ERR missing MEMBERS argument");
const TOO_FEW: CommandError = CommandError::fixed("ERR wrong number of arguments");

/// Parses a condition and `MEMBERS number member …`, in any order.
fn parse_condition<'k, 'a>(mut args: &'k [&'a [u8]]) -> Result<(Condition, &'k [&'a [u8]]), CommandError> {
    let (mut condition, mut members, mut has_several) = (None, None, false);
    while let [word, rest @ ..] = args {
        args = rest;
        if keyword_is(word, "MEMBERS") {
            if members.is_some() {
                return Err(SEVERAL_MEMBERS);
            }
            let [number, rest @ ..] = rest else { return Err(NO_NUMBER) };
            if rest.is_empty() {
                return Err(NO_NUMBER);
            }
            let (these, rest) = split(number, rest, NOT_POSITIVE)?;
            (members, args) = (Some(these), rest);
        } else if let Some(other) = Condition::of(word) {
            has_several |= condition.replace(other).is_some_and(|before| before != other);
        } else {
            return Err(CommandError::quoting("ERR unknown argument: ", word, ""));
        }
    }
    let members = members.ok_or(NO_MEMBERS)?;
    if has_several {
        return Err(CommandError::fixed("ERR Multiple condition flags specified"));
    }
    Ok((condition.unwrap_or(Condition::Always), members))
}

const NO_NUMBER: CommandError =
    CommandError::fixed("ERR MEMBERS requires at least nummembers and one member argument");
const NOT_POSITIVE: CommandError = CommandError::fixed("ERR Parameter `numMembers` should be greater than 0");

type Args<'k, 'a> = &'k [&'a [u8]];

/// The first `number` of `args`, and the rest.
fn split<'k, 'a>(
    number: &[u8],
    args: Args<'k, 'a>,
    not_positive: CommandError,
) -> Result<(Args<'k, 'a>, Args<'k, 'a>), CommandError> {
    let number = ds::num::parse_i64(number).filter(|number| (1..=i64::from(i32::MAX)).contains(number));
    args.split_at_checked(number.ok_or(not_positive)? as usize).ok_or(TOO_FEW)
}

pub(super) const STTL: Entry = Entry {
    name: "sttl",
    summary: "Returns the TTL in seconds of a set member.",
    complexity: "O(N) where N is the number of specified members",
    since: "8.12.0",
    group: Group::Set,
    arity: -5,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Set],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), MEMBERS],
    tips: &["nondeterministic_output"],
    reply: Shape::Array(&Shape::Int),
    run: Run::Function(|ctx| tell(ctx, Unit::SECONDS)),
    ..Entry::DEFAULT
};

pub(super) const SPTTL: Entry = Entry {
    name: "spttl",
    summary: "Returns the TTL in milliseconds of a set member.",
    run: Run::Function(|ctx| tell(ctx, Unit::MS)),
    ..STTL
};

pub(super) const SEXPIRETIME: Entry = Entry {
    name: "sexpiretime",
    summary: "Returns the expiration time of a set member as a Unix timestamp, in seconds.",
    tips: &[],
    run: Run::Function(|ctx| tell(ctx, Unit::UNIX_SECONDS)),
    ..STTL
};

pub(super) const SPEXPIRETIME: Entry = Entry {
    name: "spexpiretime",
    summary: "Returns the expiration time of a set member as a Unix timestamp, in msec.",
    tips: &[],
    run: Run::Function(|ctx| tell(ctx, Unit::UNIX_MS)),
    ..STTL
};

fn tell(ctx: &mut Ctx, unit: Unit) -> CommandResult {
    let args = ctx.args;
    expiring::tell::<Set>(ctx, unit, parse_members(&args[2..]))
}

/// Parses `MEMBERS number member …`.
fn parse_members<'k, 'a>(args: &'k [&'a [u8]]) -> Result<&'k [&'a [u8]], CommandError> {
    let [word, number, members @ ..] = args else { unreachable!("the arity was checked") };
    if !keyword_is(word, "MEMBERS") {
        let text = "ERR Mandatory argument MEMBERS is missing or not at the right position";
        return Err(CommandError::fixed(text));
    }
    let number = ds::num::parse_i64(number).filter(|number| *number > 0);
    let number = number.ok_or(CommandError::fixed("ERR Number of members must be a positive integer"))?;
    if number as u64 != members.len() as u64 {
        return Err(CommandError::fixed("ERR The `nummembers` parameter must match the number of arguments"));
    }
    Ok(members)
}

pub(super) const SPERSIST: Entry = Entry {
    name: "spersist",
    summary: "Removes the expiration time for each specified member",
    complexity: "O(N) where N is the number of specified members",
    since: "8.12.0",
    group: Group::Set,
    arity: -5,
    flags: &[Write, Fast],
    acl: &[Acl::Set],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[key("key", 0), MEMBERS],
    reply: Shape::Array(&Shape::Int),
    run: Run::Function(spersist),
    ..Entry::DEFAULT
};

fn spersist(ctx: &mut Ctx) -> CommandResult {
    let args = ctx.args;
    expiring::persist::<Set>(ctx, parse_members(&args[2..]))
}

pub(super) const SADDEX: Entry = Entry {
    name: "saddex",
    summary: "Add one or more members to a given set key, and optionally set their expiration.",
    complexity: "O(N) where N is the number of members being added.",
    since: "8.12.0",
    group: Group::Set,
    arity: -5,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::Set],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[
        key("key", 0),
        oneof("condition", &[token("mnx", "MNX"), token("mxx", "MXX")]).optional(),
        oneof(
            "expiration",
            &[
                integer("seconds").token("EX"),
                integer("milliseconds").token("PX"),
                unix_time("unix-time-seconds").token("EXAT"),
                unix_time("unix-time-milliseconds").token("PXAT"),
                token("keepttl", "KEEPTTL"),
            ],
        )
        .optional(),
        MEMBERS,
    ],
    reply: Shape::Int,
    run: Run::Function(saddex),
    ..Entry::DEFAULT
};

/// The arguments of `SADDEX`.
struct AddEx<'k, 'a> {
    /// `MXX` (true): all members must exist; `MNX` (false): none may.
    all_or_none: Option<bool>,
    expiry: NewExpiry,
    members: &'k [&'a [u8]],
}

impl<'a> AddEx<'a, 'a> {
    fn parse(ctx: &Ctx<'a, '_>) -> Result<AddEx<'a, 'a>, CommandError> {
        let (mut all_or_none, mut expiry, mut members) = (None, NewExpiry::Gone, None);
        let mut args = &ctx.args[2..];
        while let [word, rest @ ..] = args {
            args = rest;
            let unit = Unit::after(word);
            match *word {
                word if keyword_is(word, "MEMBERS") => {
                    if members.is_some() {
                        return Err(SEVERAL_MEMBERS);
                    }
                    let [number, rest @ ..] = rest else {
                        return Err(CommandError::wrong_arity(&ctx.command.full_name));
                    };
                    let not_positive = CommandError::fixed("ERR invalid number of members");
                    let (these, rest) = split(number, rest, not_positive)?;
                    (members, args) = (Some(these), rest);
                }
                _ if (unit.is_some() || keyword_is(word, "KEEPTTL")) && expiry != NewExpiry::Gone => {
                    let text = "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
                    return Err(CommandError::fixed(text));
                }
                word if keyword_is(word, "KEEPTTL") => expiry = NewExpiry::Kept,
                word if keyword_is(word, "MNX") || keyword_is(word, "MXX") => {
                    if all_or_none.replace(keyword_is(word, "MXX")).is_some() {
                        let text = "ERR Only one of MXX or MNX arguments can be specified";
                        return Err(CommandError::fixed(text));
                    }
                }
                word => {
                    let unit =
                        unit.ok_or_else(|| CommandError::quoting("ERR unknown argument: ", word, ""))?;
                    let [at, rest @ ..] = rest else {
                        return Err(CommandError::fixed("ERR missing expire time"));
                    };
                    (expiry, args) = (NewExpiry::At(unit.parse(ctx, at)?), rest);
                }
            }
        }
        Ok(AddEx { all_or_none, expiry, members: members.ok_or(NO_MEMBERS)? })
    }
}

fn saddex(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let AddEx { all_or_none, expiry, members } = AddEx::parse(ctx)?;
    let set = ctx.store.write_as::<Set>(key)?;
    let contains = |member: &[u8]| set.as_ref().is_some_and(|set| set.lend().contains(member));
    if all_or_none.is_some_and(|must_be_there| members.iter().any(|member| contains(member) != must_be_there))
    {
        ctx.reply.int(0);
        return Ok(());
    }
    drop(set);
    match expiry {
        NewExpiry::At(at) if ctx.store.is_past(at) => remove_existing(ctx, members, at)?,
        NewExpiry::At(_) | NewExpiry::Gone | NewExpiry::Kept => add_all(ctx, members, expiry)?,
    }
    ctx.reply.int(1);
    Ok(())
}

/// Deletes the members that exist, because their new expiry has passed.
fn remove_existing(ctx: &mut Ctx, members: &[&[u8]], at: UnixMs) -> CommandResult {
    let mut gone = Vec::new();
    if let Some(mut set) = ctx.store.write_as::<Set>(ctx.args[1])? {
        gone.extend(members.iter().copied().filter(|member| set.remove(member)));
    }
    note_expiries::<Set>(ctx, &gone, at, gone.len());
    Ok(())
}

/// Adds members and changes their expiry.
fn add_all(ctx: &mut Ctx, members: &[&[u8]], expiry: NewExpiry) -> CommandResult {
    let key = ctx.args[1];
    let limits = ctx.store.config().set;
    let mut set = ctx.store.upsert::<Set>(key)?;
    if members.len() > 1 {
        set.expect(members[0], members.len(), &limits);
    }
    let (mut persistent, mut pace) = (Vec::new(), Pace::new(ctx.host));
    for member in members {
        set.insert(member, &limits);
        match expiry {
            NewExpiry::At(at) => set.set_expiry(member, at),
            NewExpiry::Gone if set.persist(member) => persistent.push(*member),
            NewExpiry::Gone | NewExpiry::Kept => {}
        }
        pace.step();
    }
    drop(set);
    ctx.store.changed_with(key, Change::new(Class::Set, "sadd").times(members.len()), |store| {
        store.effect(&[&[b"SADD", key], members].concat());
    });
    note_added(&mut ctx.store, key, members);
    match expiry {
        NewExpiry::At(at) => note_expiries::<Set>(ctx, members, at, 0),
        NewExpiry::Gone | NewExpiry::Kept => state_persistent(ctx, &persistent),
    }
    Ok(())
}

/// Records that members no longer expire. This is no event of its own.
fn state_persistent(ctx: &mut Ctx, members: &[&[u8]]) {
    if members.is_empty() {
        return;
    }
    let key = ctx.args[1];
    ctx.store.changed_with(key, Change::UNNAMED.untold(), |store| {
        let count = members.len().to_string();
        store.effect(&[&[b"SPERSIST", key, b"MEMBERS", count.as_bytes()], members].concat());
    });
}
