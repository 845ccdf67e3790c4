//! The commands that read a top-k sketch: `TOPK.QUERY`, `TOPK.COUNT`, `TOPK.LIST`, `TOPK.INFO`.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, key, keyword_is, string,
    token,
};
use sketches::TopK;

use super::NO_KEY;

const WITHCOUNT_EXPECTED: CommandError = CommandError::fixed("WITHCOUNT keyword expected");
/// Comparisons that take about as long as a usual step.
const COMPARISONS_PER_STEP: usize = 16;

pub(super) const TOPK_QUERY: Entry = Entry {
    name: "topk.query",
    summary: "Determines whether items are among the most frequent ones.",
    complexity: "O(n) where n is the number of items",
    since: "2.0.0",
    group: Group::TopK,
    arity: -3,
    flags: &[ReadOnly],
    acl: &[Acl::TopK],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), string("item").multiple()],
    reply: Shape::Array(&Shape::Bool),
    run: Run::Function(query),
    ..Entry::DEFAULT
};

fn query(ctx: &mut Ctx) -> CommandResult {
    let items = &ctx.args[2..];
    let top = ctx.store.read_as::<TopK>(ctx.args[1])?.ok_or(NO_KEY)?;
    let mut pace = Pace::new(ctx.host);
    ctx.reply.array(items.len());
    for item in items {
        pace.steps(1 + top.k() as usize / COMPARISONS_PER_STEP);
        ctx.reply.bool(top.contains(item));
    }
    Ok(())
}

pub(super) const TOPK_COUNT: Entry = Entry {
    name: "topk.count",
    summary: "Returns the counts of items in a top-k sketch.",
    reply: Shape::Array(&Shape::Int),
    run: Run::Function(count),
    ..TOPK_QUERY
};

fn count(ctx: &mut Ctx) -> CommandResult {
    let items = &ctx.args[2..];
    let top = ctx.store.read_as::<TopK>(ctx.args[1])?.ok_or(NO_KEY)?;
    let mut pace = Pace::new(ctx.host);
    ctx.reply.array(items.len());
    for item in items {
        pace.steps(1 + top.k() as usize / COMPARISONS_PER_STEP);
        ctx.reply.int(top.count_of(item).into());
    }
    Ok(())
}

pub(super) const TOPK_LIST: Entry = Entry {
    name: "topk.list",
    summary: "Returns the most frequent items, the most frequent first.",
    complexity: "O(k*log(k)) where k is the value of top-k",
    arity: -2,
    args: &[key("key", 0), token("withcount", "WITHCOUNT").optional()],
    reply: Shape::Array(&Shape::OneOf(&[Shape::Bulk, Shape::Int])),
    run: Run::Function(list),
    ..TOPK_QUERY
};

fn list(ctx: &mut Ctx) -> CommandResult {
    let [_, key, ref word @ ..] = *ctx.args else { unreachable!("the arity says so") };
    let has_counts = match word {
        [] => false,
        [word] if keyword_is(word, "WITHCOUNT") => true,
        [_] => return Err(WITHCOUNT_EXPECTED),
        _ => return Err(CommandError::wrong_arity("topk.list")),
    };
    let top = ctx.store.read_as::<TopK>(key)?.ok_or(NO_KEY)?;
    let mut pace = Pace::new(ctx.host);
    let items = top.list();
    ctx.reply.array(items.len() * if has_counts { 2 } else { 1 });
    for (item, count) in items {
        pace.step();
        ctx.reply.bulk(item);
        if has_counts {
            ctx.reply.int(count.into());
        }
    }
    Ok(())
}

pub(super) const TOPK_INFO: Entry = Entry {
    name: "topk.info",
    summary: "Returns the parameters of a top-k sketch.",
    complexity: "O(1)",
    arity: 2,
    args: &[key("key", 0)],
    reply: Shape::Map(&Shape::AnyStatus, &Shape::OneOf(&[Shape::Int, Shape::Double])),
    run: Run::Function(info),
    ..TOPK_QUERY
};

fn info(ctx: &mut Ctx) -> CommandResult {
    let top = ctx.store.read_as::<TopK>(ctx.args[1])?.ok_or(NO_KEY)?;
    ctx.reply.map(4);
    for (name, value) in [("k", top.k()), ("width", top.width()), ("depth", top.depth())] {
        ctx.reply.simple(name);
        ctx.reply.int(value.into());
    }
    ctx.reply.simple("decay");
    ctx.reply.double(top.decay());
    Ok(())
}
