//! COMMANDLOG: commands that took long, had a large request, or got a large reply. SLOWLOG, the same for the first of
//! these logs, is in `slowlog.rs`.

use engine::Flag::*;
use engine::{Arg, CommandError, CommandResult, Group, Shape, integer, oneof, token};

use crate::LogKind;
use crate::observing::{Ctx, Entry, Run};

/// COMMANDLOG and its subcommands.
pub(super) const COMMANDLOG: Entry = Entry {
    name: "commandlog",
    summary: "A container for command log commands.",
    complexity: "Depends on subcommand.",
    since: "8.1.0",
    group: Group::Server,
    arity: -2,
    subcommands: &[COMMANDLOG_GET, COMMANDLOG_HELP, COMMANDLOG_LEN, COMMANDLOG_RESET],
    ..Entry::DEFAULT
};

/// The base of all subcommands.
const SUBCOMMAND: Entry =
    Entry { since: "8.1.0", group: Group::Server, flags: &[Admin, Loading, Stale], ..Entry::DEFAULT };

/// The log that a subcommand is about.
const KIND: Arg = oneof(
    "type",
    &[token("slow", "slow"), token("large-request", "large-request"), token("large-reply", "large-reply")],
);

/// A list of entries.
pub(super) const ENTRIES: Shape = Shape::Array(&Shape::Tuple(&[
    Shape::Int,
    Shape::Int,
    Shape::Int,
    Shape::BULKS,
    Shape::Bulk,
    Shape::Bulk,
]));

const COMMANDLOG_GET: Entry = Entry {
    name: "get",
    summary: "Returns the specified command log's entries.",
    complexity: "O(N) where N is the number of entries returned",
    arity: 4,
    args: &[integer("count"), KIND],
    tips: &["request_policy:all_nodes", "nondeterministic_output"],
    reply: ENTRIES,
    run: Run::Function(commandlog_get),
    ..SUBCOMMAND
};

fn commandlog_get(ctx: &mut Ctx) -> CommandResult {
    let count = parse_count(ctx.args[2])?;
    let kind = parse_kind(ctx.args[3])?;
    show(ctx, kind, count);
    Ok(())
}

/// How many entries to show.
pub(super) fn parse_count(arg: &[u8]) -> Result<usize, CommandError> {
    match ds::num::parse_i64(arg) {
        Some(-1) => Ok(usize::MAX),
        Some(count) if count >= 0 => Ok(count as usize),
        _ => Err(CommandError::fixed("ERR count should be greater than or equal to -1")),
    }
}

fn parse_kind(name: &[u8]) -> Result<LogKind, CommandError> {
    LogKind::parse(name).ok_or(CommandError::fixed(
        "ERR type should be one of the following: slow, large-request, large-reply",
    ))
}

/// Replies with the newest entries of a log.
pub(super) fn show(ctx: &mut Ctx, kind: LogKind, count: usize) {
    let log = ctx.host.facts.observed().command_log(kind);
    ctx.reply.array(count.min(log.entries.len()));
    for command in log.entries.iter().take(count) {
        ctx.reply.array(6);
        ctx.reply.int(command.id as i64);
        ctx.reply.int(command.unix_seconds as i64);
        ctx.reply.int(command.figure as i64);
        ctx.reply.array(command.args.len());
        for arg in &command.args {
            ctx.reply.bulk(arg);
        }
        ctx.reply.bulk(command.caller.peer.as_bytes());
        ctx.reply.bulk(&command.caller.name);
    }
}

const COMMANDLOG_LEN: Entry = Entry {
    name: "len",
    summary: "Returns the number of entries in the specified type of command log.",
    complexity: "O(1)",
    arity: 3,
    args: &[KIND],
    tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
    reply: Shape::Int,
    run: Run::Function(commandlog_len),
    ..SUBCOMMAND
};

fn commandlog_len(ctx: &mut Ctx) -> CommandResult {
    let kind = parse_kind(ctx.args[2])?;
    let len = ctx.host.facts.observed().command_log(kind).entries.len();
    ctx.reply.int(len as i64);
    Ok(())
}

const COMMANDLOG_RESET: Entry = Entry {
    name: "reset",
    summary: "Clears all entries from the specified type of command log.",
    complexity: "O(N) where N is the number of entries in the commandlog",
    arity: 3,
    args: &[KIND],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    reply: Shape::OK,
    run: Run::Function(commandlog_reset),
    ..SUBCOMMAND
};

fn commandlog_reset(ctx: &mut Ctx) -> CommandResult {
    let kind = parse_kind(ctx.args[2])?;
    ctx.host.facts.observed().command_log(kind).entries.clear();
    ctx.reply.ok();
    Ok(())
}

const COMMANDLOG_HELP: Entry = Entry {
    summary: "Show helpful text about the different subcommands",
    since: "8.1.0",
    run: Run::Function(commandlog_help),
    ..Entry::HELP
};

fn commandlog_help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
        "GET <count> <type>",
        "    Return top <count> entries of the specified <type> from the commandlog (-1 mean all).",
        "    Entries are made of:",
        "    id, timestamp,",
        "        time in microseconds for type of slow,",
        "        or size in bytes for type of large-request,",
        "        or size in bytes for type of large-reply",
        "    arguments array, client IP and port,",
        "    client name",
        "LEN <type>",
        "    Return the length of the specified type of commandlog.",
        "RESET <type>",
        "    Reset the specified type of commandlog.",
    ])
}
