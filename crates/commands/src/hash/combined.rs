//! HGETDEL, HGETEX and HSETEX, as in Redis 8.0: they get or set fields and also change their expiry or delete them.

use ds::hash::Hash;
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Arg, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, block,
    integer, key, keyword_is, oneof, string, token, unix_time,
};

use super::expiry::{FIELDS, NOT_POSITIVE, parse_fields};
use crate::expiring::{NewExpiry, Unit, note_expiries, note_persistent};

const EX: Arg = integer("seconds").token("EX");
const PX: Arg = integer("milliseconds").token("PX");
const EXAT: Arg = unix_time("unix-time-seconds").token("EXAT");
const PXAT: Arg = unix_time("unix-time-milliseconds").token("PXAT");

pub(super) const HGETDEL: Entry = Entry {
    name: "hgetdel",
    summary: "Takes fields out of a hash and returns their values.",
    complexity: "O(N) for N fields.",
    since: "8.0.0",
    group: Group::Hash,
    arity: -5,
    flags: &[Write, Fast],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RW, Access, Delete])],
    args: &[key("key", 0), FIELDS],
    reply: Shape::Array(&Shape::BULK_OR_NULL),
    run: Run::Function(hgetdel),
    ..Entry::DEFAULT
};

fn hgetdel(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let mut hash = ctx.store.write_as::<Hash>(key)?;
    let fields = parse_fields(&ctx.args[2..], NOT_POSITIVE)?;
    let mut gone: Vec<&[u8]> = Vec::new();
    ctx.reply.array(fields.len());
    for &field in fields {
        match hash.as_ref().and_then(|hash| hash.lend().get(field)) {
            None => ctx.reply.null(),
            Some(value) => {
                ctx.reply.bulk(&value.bytes());
                hash.as_mut().map(|hash| hash.remove(field));
                gone.push(field);
            }
        }
    }
    drop(hash);
    if !gone.is_empty() {
        ctx.store.changed_with(key, Change::new(Class::Hash, "hdel").times(gone.len()), |store| {
            store.effect(&[&[&b"HDEL"[..], key], &gone[..]].concat());
        });
        ctx.store.delete_if_empty(key);
    }
    Ok(())
}

pub(super) const HGETEX: Entry = Entry {
    name: "hgetex",
    summary: "Returns the values of hash fields and may change when they expire.",
    complexity: "O(N) for N fields.",
    since: "8.0.0",
    group: Group::Hash,
    arity: -5,
    flags: &[Write, Fast],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RW, Access, Update]).notes("RW and UPDATE because it changes the TTL")],
    args: &[
        key("key", 0),
        oneof("expiration", &[EX, PX, EXAT, PXAT, token("persist", "PERSIST")]).optional(),
        FIELDS,
    ],
    reply: Shape::Array(&Shape::BULK_OR_NULL),
    run: Run::Function(hgetex),
    ..Entry::DEFAULT
};

fn hgetex(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let _ = ctx.store.write_as::<Hash>(key)?;
    let persists = keyword_is(ctx.args[2], "PERSIST");
    let at = Unit::after(ctx.args[2]).map(|unit| unit.parse(ctx, ctx.args[3])).transpose()?;
    let options = if at.is_some() { 2 } else { usize::from(persists) };
    let fields = parse_fields(&ctx.args[2 + options..], NOT_POSITIVE)?;
    let is_over = at.is_some_and(|at| ctx.store.is_past(at));
    let mut hash = ctx.store.write_as::<Hash>(key)?;
    let mut touched: Vec<&[u8]> = Vec::new();
    ctx.reply.array(fields.len());
    for &field in fields {
        let Some((hash, value)) = hash.as_mut().and_then(|hash| {
            let value = hash.lend().get(field)?.bytes().into_owned();
            Some((hash, value))
        }) else {
            ctx.reply.null();
            continue;
        };
        ctx.reply.bulk(&value);
        let is_touched = match at {
            None => persists && hash.persist(field),
            Some(_) if is_over => hash.remove(field),
            Some(at) => {
                hash.set_expiry(field, at);
                true
            }
        };
        touched.extend(is_touched.then_some(field));
    }
    drop(hash);
    match at {
        Some(at) => note_expiries::<Hash>(ctx, &touched, at, touched.len()),
        None => note_persistent::<Hash>(ctx, &touched, touched.len()),
    }
    Ok(())
}

pub(super) const HSETEX: Entry = Entry {
    name: "hsetex",
    summary: "Sets hash fields and may say when they expire.",
    complexity: "O(N) for N fields.",
    since: "8.0.0",
    group: Group::Hash,
    arity: -6,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[
        key("key", 0),
        oneof("key-condition", &[token("nx", "NX"), token("xx", "XX")]).optional(),
        oneof("condition", &[token("fnx", "FNX"), token("fxx", "FXX")]).optional(),
        oneof("expiration", &[EX, PX, EXAT, PXAT, token("keepttl", "KEEPTTL")]).optional(),
        block(
            "fields",
            &[integer("numfields"), block("data", &[string("field"), string("value")]).multiple()],
        )
        .token("FIELDS"),
    ],
    reply: Shape::Int,
    note: "`NX` and `XX` are options of Valkey 9.0",
    run: Run::Function(hsetex),
    ..Entry::DEFAULT
};

/// The arguments of `HSETEX`.
struct SetEx<'a> {
    /// `XX` (true): the hash must exist; `NX` (false): it must not.
    must_exist: Option<bool>,
    /// `FXX` (true): all fields must exist; `FNX` (false): none may.
    all_or_none: Option<bool>,
    expiry: NewExpiry,
    pairs: &'a [[&'a [u8]; 2]],
}

impl<'a> SetEx<'a> {
    fn parse(ctx: &Ctx<'a, '_>) -> Result<SetEx<'a>, CommandError> {
        let wrong_arity = || CommandError::wrong_arity(&ctx.command.full_name);
        let mut set = SetEx { must_exist: None, all_or_none: None, expiry: NewExpiry::Gone, pairs: &[] };
        let mut args = &ctx.args[2..];
        while let [word, rest @ ..] = args {
            args = rest;
            let is_expiry = keyword_is(word, "KEEPTTL") || Unit::after(word).is_some();
            match word {
                word if keyword_is(word, "FIELDS") => {
                    let [number, pairs @ ..] = rest else { return Err(wrong_arity()) };
                    if pairs.is_empty() {
                        return Err(wrong_arity());
                    }
                    let number = ds::num::parse_i64(number)
                        .filter(|number| (1..=i64::from(i32::MAX)).contains(number));
                    let number = number.ok_or(CommandError::fixed("ERR invalid number of fields"))?;
                    let (pairs, odd) = pairs.as_chunks::<2>();
                    if !odd.is_empty() || pairs.len() as u64 != number as u64 {
                        return Err(wrong_arity());
                    }
                    return Ok(SetEx { pairs, ..set });
                }
                _ if is_expiry && set.expiry != NewExpiry::Gone => {
                    let text = "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
                    return Err(CommandError::fixed(text));
                }
                word if keyword_is(word, "KEEPTTL") => set.expiry = NewExpiry::Kept,
                word if keyword_is(word, "FNX") || keyword_is(word, "FXX") => {
                    if set.all_or_none.is_some() {
                        let text = "ERR Only one of FXX or FNX arguments can be specified";
                        return Err(CommandError::fixed(text));
                    }
                    set.all_or_none = Some(keyword_is(word, "FXX"));
                }
                word if keyword_is(word, "NX") || keyword_is(word, "XX") => {
                    if set.must_exist.is_some() {
                        let text = "ERR Only one of NX or XX arguments can be specified";
                        return Err(CommandError::fixed(text));
                    }
                    set.must_exist = Some(keyword_is(word, "XX"));
                }
                word => {
                    let unit = Unit::after(word)
                        .ok_or_else(|| CommandError::quoting("ERR unknown argument: ", word, ""))?;
                    let [at, rest @ ..] = rest else {
                        return Err(CommandError::fixed("ERR missing expire time"));
                    };
                    set.expiry = NewExpiry::At(unit.parse(ctx, at)?);
                    args = rest;
                }
            }
        }
        Err(wrong_arity())
    }
}

fn hsetex(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let SetEx { must_exist, all_or_none, expiry, pairs } = SetEx::parse(ctx)?;
    let hash = ctx.store.write_as::<Hash>(key)?;
    let contains = |field: &[u8]| hash.as_ref().is_some_and(|hash| hash.lend().contains(field));
    if must_exist.is_some_and(|must_exist| must_exist != hash.is_some())
        || all_or_none
            .is_some_and(|must_be_there| pairs.iter().any(|[field, _]| contains(field) != must_be_there))
    {
        ctx.reply.int(0);
        return Ok(());
    }
    drop(hash);
    let limits = ctx.store.config().hash;
    let is_over = matches!(expiry, NewExpiry::At(at) if ctx.store.is_past(at));
    let mut hash = ctx.store.upsert::<Hash>(key)?;
    hash.expect(pairs.len(), &limits);
    for [field, value] in pairs {
        match expiry {
            NewExpiry::Gone => _ = hash.set(field, value, &limits),
            NewExpiry::Kept => _ = hash.set_keeping_expiry(field, value, &limits),
            NewExpiry::At(_) if is_over => _ = hash.remove(field),
            NewExpiry::At(at) => {
                hash.set(field, value, &limits);
                hash.set_expiry(field, at);
            }
        }
    }
    drop(hash);
    ctx.store.changed_with(key, Change::new(Class::Hash, "hset").times(pairs.len()), |store| {
        let count = pairs.len().to_string();
        let mut effect: Vec<&[u8]> = vec![b"HSETEX", key];
        if expiry == NewExpiry::Kept {
            effect.push(b"KEEPTTL");
        }
        effect.extend([b"FIELDS", count.as_bytes()]);
        effect.extend(pairs.as_flattened());
        store.effect(&effect);
    });
    if let NewExpiry::At(at) = expiry {
        let fields: Vec<&[u8]> = pairs.iter().map(|[field, _]| *field).collect();
        note_expiries::<Hash>(ctx, &fields, at, 0);
    }
    ctx.reply.int(1);
    Ok(())
}
