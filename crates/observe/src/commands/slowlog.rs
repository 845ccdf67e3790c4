//! SLOWLOG: the commands that took long.

use engine::Flag::*;
use engine::{CommandError, CommandResult, Group, Shape, integer, subcommand_error};

use crate::observing::{Ctx, Entry, Run};

/// SLOWLOG and its subcommands.
pub(super) const SLOWLOG: Entry = Entry {
    name: "slowlog",
    summary: "A container for slow log commands.",
    complexity: "Depends on subcommand.",
    since: "2.2.12",
    group: Group::Server,
    arity: -2,
    subcommands: &[SLOWLOG_GET, SLOWLOG_HELP, SLOWLOG_LEN, SLOWLOG_RESET],
    ..Entry::DEFAULT
};

/// How many entries GET returns by default.
const COUNT_DEFAULT: usize = 10;

/// The base of all subcommands.
const SUBCOMMAND: Entry =
    Entry { since: "2.2.12", group: Group::Server, flags: &[Admin, Loading, Stale], ..Entry::DEFAULT };

const SLOWLOG_GET: Entry = Entry {
    name: "get",
    summary: "Returns the slow log's entries.",
    complexity: "O(N) where N is the number of entries returned",
    arity: -2,
    args: &[integer("count").optional()],
    history: &[("4.0.0", "Added client IP address, port and name to the reply.")],
    tips: &["request_policy:all_nodes", "nondeterministic_output"],
    reply: Shape::Array(&Shape::Tuple(&[
        Shape::Int,
        Shape::Int,
        Shape::Int,
        Shape::BULKS,
        Shape::Bulk,
        Shape::Bulk,
    ])),
    run: Run::Function(slowlog_get),
    ..SUBCOMMAND
};

fn slowlog_get(ctx: &mut Ctx) -> CommandResult {
    let count = match ctx.args {
        [_, _] => COUNT_DEFAULT,
        [_, _, count] => match ds::num::parse_i64(count) {
            Some(-1) => usize::MAX,
            Some(count) if count >= 0 => count as usize,
            _ => return Err(CommandError::new("ERR count should be greater than or equal to -1")),
        },
        _ => return Err(subcommand_error(ctx.args)),
    };
    let log = ctx.host.facts.observed().slow_log();
    ctx.reply.array(count.min(log.entries.len()));
    for command in log.entries.iter().take(count) {
        ctx.reply.array(6);
        ctx.reply.int(command.id as i64);
        ctx.reply.int(command.unix_seconds as i64);
        ctx.reply.int(command.duration_us as i64);
        ctx.reply.array(command.args.len());
        for arg in &command.args {
            ctx.reply.bulk(arg);
        }
        ctx.reply.bulk(command.caller.peer.as_bytes());
        ctx.reply.bulk(&command.caller.name);
    }
    Ok(())
}

const SLOWLOG_LEN: Entry = Entry {
    name: "len",
    summary: "Returns the number of entries in the slow log.",
    arity: 2,
    tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
    reply: Shape::Int,
    run: Run::Function(slowlog_len),
    ..SUBCOMMAND
};

fn slowlog_len(ctx: &mut Ctx) -> CommandResult {
    let len = ctx.host.facts.observed().slow_log().entries.len();
    ctx.reply.int(len as i64);
    Ok(())
}

const SLOWLOG_RESET: Entry = Entry {
    name: "reset",
    summary: "Clears all entries from the slow log.",
    complexity: "O(N) where N is the number of entries in the slowlog",
    arity: 2,
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    reply: Shape::OK,
    run: Run::Function(slowlog_reset),
    ..SUBCOMMAND
};

fn slowlog_reset(ctx: &mut Ctx) -> CommandResult {
    ctx.host.facts.observed().slow_log().entries.clear();
    ctx.reply.ok();
    Ok(())
}

const SLOWLOG_HELP: Entry = Entry {
    summary: "Show helpful text about the different subcommands",
    since: "6.2.0",
    run: Run::Function(slowlog_help),
    ..Entry::HELP
};

fn slowlog_help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
        "GET [<count>]",
        "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
        "    Entries are made of:",
        "    id, timestamp, time in microseconds, arguments array, client IP and port,",
        "    client name",
        "LEN",
        "    Return the length of the slowlog.",
        "RESET",
        "    Reset the slowlog.",
    ])
}
