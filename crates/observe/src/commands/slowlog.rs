//! SLOWLOG: the commands that took long. COMMANDLOG shows them, too.

use engine::Flag::*;
use engine::{CommandResult, Group, Shape, integer, subcommand_error};

use super::commandlog::{ENTRIES, parse_count, show};
use crate::LogKind;
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
    reply: ENTRIES,
    run: Run::Function(slowlog_get),
    ..SUBCOMMAND
};

fn slowlog_get(ctx: &mut Ctx) -> CommandResult {
    let count = match ctx.args {
        [_, _] => COUNT_DEFAULT,
        [_, _, count] => parse_count(count)?,
        _ => return Err(subcommand_error(ctx.args)),
    };
    show(ctx, LogKind::Slow, count);
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
    let len = ctx.host.facts.observed().command_log(LogKind::Slow).entries.len();
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
    ctx.host.facts.observed().command_log(LogKind::Slow).entries.clear();
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
