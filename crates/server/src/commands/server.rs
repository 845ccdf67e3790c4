//! Small commands of the server: TIME and LOLWUT.

use engine::Flag::*;
use engine::{CommandResult, Group, Shape, integer, keyword_is, parse_i64};

use crate::commands::own::{Ctx, Entry, Run};

/// These commands.
pub(crate) const ENTRIES: &[Entry] = &[LOLWUT, TIME];

const TIME: Entry = Entry {
    name: "time",
    summary: "Returns the server time.",
    since: "2.6.0",
    group: Group::Server,
    arity: 1,
    flags: &[Loading, Stale, Fast],
    tips: &["nondeterministic_output"],
    reply: Shape::BULKS,
    run: Run::Function(time),
    ..Entry::DEFAULT
};

fn time(ctx: &mut Ctx) -> CommandResult {
    let now_us = ctx.host.net.driver.clock().now_us();
    ctx.reply.array(2);
    ctx.reply.bulk_int((now_us / 1_000_000) as i64);
    ctx.reply.bulk_int((now_us % 1_000_000) as i64);
    Ok(())
}

/// The most darts that `LOLWUT` draws.
const DARTS_MAX: i64 = 200;

const LOLWUT: Entry = Entry {
    name: "lolwut",
    summary: "Displays computer art and the Redis version",
    complexity: "",
    since: "5.0.0",
    group: Group::Server,
    arity: -1,
    flags: &[ReadOnly, Fast],
    args: &[integer("version").token("VERSION").optional()],
    reply: Shape::Verbatim,
    run: Run::Function(lolwut),
    ..Entry::DEFAULT
};

/// Draws one dart, or as many as the first number after `VERSION 5` or `VERSION 6`.
fn lolwut(ctx: &mut Ctx) -> CommandResult {
    let mut count = 1;
    if let [word, version, numbers @ ..] = &ctx.args[1..]
        && keyword_is(word, "VERSION")
        && matches!(parse_i64(version)?, 5 | 6)
    {
        let numbers = numbers.iter().map(|number| parse_i64(number)).collect::<Result<Vec<_>, _>>()?;
        count = numbers.first().map_or(1, |count| (*count).clamp(1, DARTS_MAX) as usize);
    }
    let dart = "        ·\n      · ·\n  ━━━━━━━━━━━━▶\n      · ·\n        ·\n";
    let version = ctx.host.shared.settings.redis_version();
    ctx.reply.verbatim("txt", format!("{}Redis ver. {version}\n", dart.repeat(count)).as_bytes());
    Ok(())
}
