//! QUEUE LIMIT: limits how many elements of a queue are taken within a window, and how many jobs of it or of
//! each of its groups are active.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Group, KeySpec, Rule, Shape, block, integer, key, keyword_is, oneof,
    token,
};

use crate::limits::Limit;
use crate::queues::{Ctx, Entry, Run};

pub(super) const LIMIT: Entry = Entry {
    name: "limit",
    summary: "Limits how many elements of a queue are taken in a time and how many of its jobs are active, or returns its limits.",
    complexity: "O(1)",
    since: "7.2.0",
    group: Group::Queue,
    arity: -3,
    flags: &[Write, Fast],
    rules: &[Rule::ShowsAlone],
    acl: &[Acl::Queue],
    keys: &[KeySpec::one(2, &[RW, Update])],
    args: &[
        key("queue", 0),
        oneof(
            "limit",
            &[
                block(
                    "limits",
                    &[
                        block("rate", &[integer("count").token("RATE"), integer("window-ms").token("PER")])
                            .optional(),
                        integer("active").token("ACTIVE").optional(),
                        block(
                            "per-group",
                            &[token("per", "PER"), integer("active-per-group").token("GROUP")],
                        )
                        .optional(),
                    ],
                ),
                token("off", "OFF"),
            ],
        )
        .optional(),
    ],
    reply: Shape::OneOf(&[Shape::OK, Shape::Map(&Shape::Bulk, &Shape::Int), Shape::Null]),
    run: Run::Function(limit),
    ..Entry::DEFAULT
};

fn limit(ctx: &mut Ctx) -> CommandResult {
    let [_, _, queue, ref words @ ..] = *ctx.args else { return Err(CommandError::SYNTAX) };
    let limit = match *words {
        [] => return show(ctx, queue),
        [off] if keyword_is(off, "off") => None,
        ref words => Some(Limit::parse(words)?),
    };
    Limit::set(&mut ctx.store, queue, limit)?;
    ctx.reply.ok();
    Ok(())
}

fn show(ctx: &mut Ctx, queue: &[u8]) -> CommandResult {
    let Some(limit) = Limit::of(&ctx.store, queue)? else {
        ctx.reply.null();
        return Ok(());
    };
    ctx.reply.map(limit.rows().count());
    for (name, number) in limit.rows() {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.int(number.cast_signed());
    }
    Ok(())
}
