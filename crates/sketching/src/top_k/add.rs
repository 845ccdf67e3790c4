//! `TOPK.RESERVE`, `TOPK.ADD` and `TOPK.INCRBY`.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, block, double,
    integer, key, parse_f64, parse_i64, string,
};
use keyspace::Value;
use sketches::top_k::INCREMENT_MAX;
use sketches::{Sketch, TopK};

use super::NO_KEY;

const EXISTS: CommandError = CommandError::fixed("TopK: key already exists");
const BAD_K: CommandError = CommandError::fixed("TopK: invalid k");
const BAD_WIDTH: CommandError = CommandError::fixed("TopK: invalid width");
const BAD_DEPTH: CommandError = CommandError::fixed("TopK: invalid depth");
const BAD_DECAY: CommandError = CommandError::fixed("TopK: invalid decay value. must be '<= 1' & '> 0'");
const NO_MEMORY: CommandError = CommandError::fixed("ERR Insufficient memory to create topk data structure");
/// With the spaces that RedisBloom has in it.
const BAD_INCREMENT: &str = "TopK: increment must be an integer greater or equal to 0                            and smaller or equal to 100,000";

const WIDTH: u32 = 8;
const DEPTH: u32 = 7;
const DECAY: f64 = 0.9;
/// Random decisions that take about as long as a usual step.
const DECISIONS_PER_STEP: usize = 16;

pub(super) const TOPK_RESERVE: Entry = Entry {
    name: "topk.reserve",
    summary: "Creates an empty sketch of the most frequent items.",
    complexity: "O(1)",
    since: "2.0.0",
    group: Group::TopK,
    arity: -3,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::TopK],
    keys: &[KeySpec::one(1, &[RW, Insert])],
    args: &[
        key("key", 0),
        integer("topk"),
        block("params", &[integer("width"), integer("depth"), double("decay")]).optional(),
    ],
    reply: Shape::OK,
    run: Run::Function(reserve),
    ..Entry::DEFAULT
};

fn reserve(ctx: &mut Ctx) -> CommandResult {
    let (key, k) = (ctx.args[1], ctx.args[2]);
    if ![3, 6].contains(&ctx.args.len()) {
        return Err(CommandError::wrong_arity("topk.reserve"));
    }
    if ctx.store.write(key).is_some() {
        return Err(EXISTS);
    }
    let count =
        |arg| parse_i64(arg).ok().and_then(|number| u32::try_from(number).ok()).filter(|count| *count > 0);
    let k = count(k).ok_or(BAD_K)?;
    let (width, depth, decay) = match ctx.args[3..] {
        [width, depth, decay] => {
            let (width, depth) = (count(width).ok_or(BAD_WIDTH)?, count(depth).ok_or(BAD_DEPTH)?);
            let decay = parse_f64(decay).ok().filter(|decay| *decay > 0.0 && *decay <= 1.0);
            (width, depth, decay.ok_or(BAD_DECAY)?)
        }
        _ => (WIDTH, DEPTH, DECAY),
    };
    let top = TopK::new(k, width, depth, decay).map_err(|_| NO_MEMORY)?;
    ctx.store.set(key, Value::Sketch(Box::new(Sketch::TopK(top))));
    ctx.changed(key, Change::UNNAMED);
    ctx.reply.ok();
    Ok(())
}

pub(super) const TOPK_ADD: Entry = Entry {
    name: "topk.add",
    summary: "Adds items to a top-k sketch. Returns the items that left it.",
    complexity: "O(n * k) where n is the number of items and k is the depth",
    since: "2.0.0",
    group: Group::TopK,
    arity: -3,
    flags: &[Write, DenyOom],
    acl: &[Acl::TopK],
    keys: &[KeySpec::one(1, &[RW, Insert])],
    args: &[key("key", 0), string("item").multiple()],
    reply: Shape::Array(&Shape::BULK_OR_NULL),
    run: Run::Function(add),
    ..Entry::DEFAULT
};

fn add(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let items = &ctx.args[2..];
    let top = ctx.store.write_as::<TopK>(key)?.ok_or(NO_KEY)?;
    let mut pace = Pace::new(ctx.host);
    ctx.reply.array(items.len());
    for item in items {
        pace.steps(steps(top, 1));
        match top.add(item, 1) {
            Some(expelled) => ctx.reply.bulk(&expelled),
            None => ctx.reply.null(),
        }
    }
    ctx.changed(key, Change::UNNAMED);
    Ok(())
}

/// About how many steps it takes to add an item this often.
fn steps(top: &TopK, times: u32) -> usize {
    let decisions = times as usize * top.depth() as usize;
    1 + (top.k() as usize + decisions) / DECISIONS_PER_STEP
}

pub(super) const TOPK_INCRBY: Entry = Entry {
    name: "topk.incrby",
    summary: "Increments the counts of items in a top-k sketch. Returns the items that left it.",
    complexity: "O(n * k * increment) where n is the number of items and k is the depth",
    arity: -4,
    args: &[key("key", 0), block("items", &[string("item"), integer("increment")]).multiple()],
    run: Run::Function(incrby),
    ..TOPK_ADD
};

fn incrby(ctx: &mut Ctx) -> CommandResult {
    let [_, key, ref items @ ..] = *ctx.args else { unreachable!("the arity says so") };
    let (items, []) = items.as_chunks::<2>() else { return Err(CommandError::wrong_arity("topk.incrby")) };
    let top = ctx.store.write_as::<TopK>(key)?.ok_or(NO_KEY)?;
    let mut pace = Pace::new(ctx.host);
    let (mark, mut count, mut has_changed) = (ctx.reply.deferred(), 0, false);
    for [item, increment] in items {
        count += 1;
        let increment = parse_i64(increment).ok().and_then(|number| u32::try_from(number).ok());
        let Some(increment) = increment.filter(|increment| *increment <= INCREMENT_MAX) else {
            ctx.reply.error(BAD_INCREMENT);
            break;
        };
        pace.steps(steps(top, increment));
        has_changed = true;
        match top.add(item, increment) {
            Some(expelled) => ctx.reply.bulk(&expelled),
            None => ctx.reply.null(),
        }
    }
    ctx.reply.finish_array(mark, count);
    if has_changed {
        ctx.changed(key, Change::UNNAMED);
    }
    Ok(())
}
