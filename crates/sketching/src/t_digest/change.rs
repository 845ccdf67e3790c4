//! `TDIGEST.CREATE`, `TDIGEST.ADD` and `TDIGEST.RESET`.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, double, integer,
    key, keyword_is, parse_f64, parse_i64,
};
use keyspace::Value;
use sketches::{Sketch, TDigest};

use super::{CENTROIDS_PER_STEP, NO_KEY, values};

const EXISTS: CommandError = CommandError::fixed("ERR T-Digest: key already exists");
const WRONG_KEYWORD: CommandError = CommandError::fixed("ERR T-Digest: wrong keyword");
const NOT_A_COMPRESSION: CommandError =
    CommandError::fixed("ERR T-Digest: error parsing compression parameter");
const COMPRESSION_TOO_SMALL: CommandError =
    CommandError::fixed("ERR T-Digest: compression parameter needs to be a positive integer");
const NO_MEMORY: CommandError = CommandError::fixed("ERR T-Digest: allocation failed");
const NOT_A_NUMBER: CommandError = CommandError::fixed("ERR T-Digest: error parsing val parameter");
const INFINITE: CommandError = CommandError::fixed("ERR T-Digest: val parameter needs to be a finite number");
const OVERFLOW: CommandError = CommandError::fixed("ERR T-Digest: overflow detected");

const COMPRESSION: u64 = 100;

pub(super) const TDIGEST_CREATE: Entry = Entry {
    name: "tdigest.create",
    summary: "Creates an empty t-digest.",
    complexity: "O(1)",
    since: "2.4.0",
    group: Group::TDigest,
    arity: -2,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::TDigest],
    keys: &[KeySpec::one(1, &[RW, Insert])],
    args: &[key("key", 0), integer("compression").token("COMPRESSION").optional()],
    reply: Shape::OK,
    run: Run::Function(create),
    ..Entry::DEFAULT
};

fn create(ctx: &mut Ctx) -> CommandResult {
    let [_, key, ref option @ ..] = *ctx.args else { unreachable!("the arity says so") };
    if ![0, 2].contains(&option.len()) {
        return Err(CommandError::wrong_arity("tdigest.create"));
    }
    if ctx.store.write_as::<TDigest>(key)?.is_some() {
        return Err(EXISTS);
    }
    let compression = match option {
        [word, compression] if keyword_is(word, "COMPRESSION") => parse_compression(compression)?,
        [] => COMPRESSION,
        _ => return Err(WRONG_KEYWORD),
    };
    let digest = TDigest::new(compression).map_err(|_| NO_MEMORY)?;
    ctx.store.set(key, Value::Sketch(Box::new(Sketch::TDigest(digest))));
    ctx.changed(key, Change::UNNAMED);
    ctx.reply.ok();
    Ok(())
}

/// A compression, with the errors of `TDIGEST.CREATE` and `TDIGEST.MERGE`.
pub(super) fn parse_compression(arg: &[u8]) -> Result<u64, CommandError> {
    let compression = parse_i64(arg).map_err(|_| NOT_A_COMPRESSION)?;
    u64::try_from(compression).ok().filter(|number| *number > 0).ok_or(COMPRESSION_TOO_SMALL)
}

pub(super) const TDIGEST_ADD: Entry = Entry {
    name: "tdigest.add",
    summary: "Adds numbers to a t-digest.",
    complexity: "O(N), where N is the number of samples to add",
    since: "2.4.0",
    group: Group::TDigest,
    arity: -3,
    flags: &[Write, DenyOom],
    acl: &[Acl::TDigest],
    keys: &[KeySpec::one(1, &[RW, Insert])],
    args: &[key("key", 0), double("value").multiple()],
    reply: Shape::OK,
    run: Run::Function(add),
    ..Entry::DEFAULT
};

fn add(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    if ctx.store.write_as::<TDigest>(key)?.is_none() {
        return Err(NO_KEY);
    }
    let numbers = values(ctx, |arg| {
        let number = parse_f64(arg).map_err(|_| NOT_A_NUMBER)?;
        if number.is_finite() { Ok(number) } else { Err(INFINITE) }
    })?;
    let digest = ctx.store.write_as::<TDigest>(key)?.ok_or(NO_KEY)?;
    let mut pace = Pace::new(ctx.host);
    let added = numbers.iter().take_while(|number| {
        pace.step();
        digest.add(**number).is_ok()
    });
    let added = added.count();
    pace.steps(digest.merged_count() / CENTROIDS_PER_STEP);
    if added > 0 {
        ctx.changed(key, Change::UNNAMED);
    }
    if added < numbers.len() {
        return Err(OVERFLOW);
    }
    ctx.reply.ok();
    Ok(())
}

pub(super) const TDIGEST_RESET: Entry = Entry {
    name: "tdigest.reset",
    summary: "Removes all numbers from a t-digest.",
    complexity: "O(1)",
    since: "2.4.0",
    group: Group::TDigest,
    arity: 2,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::TDigest],
    keys: &[KeySpec::one(1, &[RW, Delete])],
    args: &[key("key", 0)],
    reply: Shape::OK,
    run: Run::Function(reset),
    ..Entry::DEFAULT
};

fn reset(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    ctx.store.write_as::<TDigest>(key)?.ok_or(NO_KEY)?.reset();
    ctx.changed(key, Change::UNNAMED);
    ctx.reply.ok();
    Ok(())
}
