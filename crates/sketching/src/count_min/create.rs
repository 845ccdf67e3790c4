//! `CMS.INITBYDIM` and `CMS.INITBYPROB`.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, double, integer, key,
    parse_f64, parse_i64,
};
use keyspace::Value;
use sketches::count_min::dimensions;
use sketches::{CountMin, Sketch};

const EXISTS: CommandError = CommandError::fixed("CMS: key already exists");
const BAD_WIDTH: CommandError = CommandError::fixed("CMS: invalid width");
const BAD_DEPTH: CommandError = CommandError::fixed("CMS: invalid depth");
const BAD_ERROR: CommandError = CommandError::fixed("CMS: invalid overestimation value");
const BAD_PROBABILITY: CommandError = CommandError::fixed("CMS: invalid prob value");
const BAD_ARGUMENTS: CommandError = CommandError::fixed("CMS: invalid init arguments");
const NO_MEMORY: CommandError = CommandError::fixed("CMS: Insufficient memory to create the key");

pub(super) const CMS_INITBYDIM: Entry = Entry {
    name: "cms.initbydim",
    summary: "Creates a count-min sketch with this many columns and rows.",
    complexity: "O(1)",
    since: "2.0.0",
    group: Group::CountMin,
    arity: 4,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::CountMin],
    keys: &[KeySpec::one(1, &[RW, Insert])],
    args: &[key("key", 0), integer("width"), integer("depth")],
    reply: Shape::OK,
    run: Run::Function(initbydim),
    ..Entry::DEFAULT
};

fn initbydim(ctx: &mut Ctx) -> CommandResult {
    let [_, key, width, depth] = *ctx.args else { unreachable!("the arity says so") };
    expect_none(ctx, key)?;
    let count = |arg| parse_i64(arg).ok().filter(|count| *count > 0).map(|count| count as u64);
    let (width, depth) = (count(width).ok_or(BAD_WIDTH)?, count(depth).ok_or(BAD_DEPTH)?);
    create(ctx, key, width, depth)
}

pub(super) const CMS_INITBYPROB: Entry = Entry {
    name: "cms.initbyprob",
    summary: "Creates a count-min sketch that overestimates counts by no more than this share of their sum, with a \
              probability of error.",
    args: &[key("key", 0), double("error"), double("probability")],
    run: Run::Function(initbyprob),
    ..CMS_INITBYDIM
};

fn initbyprob(ctx: &mut Ctx) -> CommandResult {
    let [_, key, error, probability] = *ctx.args else { unreachable!("the arity says so") };
    expect_none(ctx, key)?;
    let share = |arg| parse_f64(arg).ok().filter(|share| *share > 0.0 && *share < 1.0);
    let error = share(error).ok_or(BAD_ERROR)?;
    let probability = share(probability).ok_or(BAD_PROBABILITY)?;
    let (width, depth) = dimensions(error, probability).ok_or(BAD_ARGUMENTS)?;
    create(ctx, key, width, depth)
}

/// Refuses a key that exists, whatever its type, before anything else is looked at.
fn expect_none(ctx: &mut Ctx, key: &[u8]) -> CommandResult {
    if ctx.store.write(key).is_some() { Err(EXISTS) } else { Ok(()) }
}

fn create(ctx: &mut Ctx, key: &[u8], width: u64, depth: u64) -> CommandResult {
    if width.checked_mul(depth).is_none_or(|cells| cells > i64::MAX as u64) {
        return Err(BAD_ARGUMENTS);
    }
    let counts = CountMin::new(width, depth).map_err(|_| NO_MEMORY)?;
    ctx.store.set(key, Value::Sketch(Box::new(Sketch::CountMin(counts))));
    ctx.changed(key, Change::UNNAMED);
    ctx.reply.ok();
    Ok(())
}
