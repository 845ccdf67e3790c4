//! The documentation of commands: COMMAND for clients, [`page()`] for readers. All of it is derived from the entries of
//! the table of commands.
//!
//! These commands need nothing from the thread that runs them.
//!
//! Not here: the entries (each above its function), and whether the table is complete (a test of `server`, which has all).

mod docs;
mod info;
mod keys;
mod page;
#[cfg(test)]
mod tests;

use engine::Flag::*;
use engine::{
    Acl, Command, CommandError, CommandResult, Ctx, Entry, Group, Run, Shape, keyword_is, oneof, pattern,
    string,
};

pub use crate::catalog::page::page;

/// The commands of this folder.
pub const ENTRIES: &[Entry] = &[COMMAND];

const COMMAND: Entry = Entry {
    name: "command",
    summary: "Returns detailed information about all commands.",
    complexity: "O(N) where N is the total number of Redis commands",
    since: "2.8.13",
    group: Group::Server,
    arity: -1,
    flags: &[Loading, Stale],
    acl: &[Acl::Connection],
    tips: &["nondeterministic_output_order"],
    reply: Shape::Array(&Shape::Any),
    run: Run::Function(command),
    subcommands: &[
        COMMAND_COUNT,
        docs::COMMAND_DOCS,
        keys::COMMAND_GETKEYS,
        keys::COMMAND_GETKEYSANDFLAGS,
        COMMAND_HELP,
        info::COMMAND_INFO,
        COMMAND_LIST,
    ],
    ..Entry::DEFAULT
};

/// The base of the subcommands.
const SUBCOMMAND: Entry =
    Entry { group: Group::Server, flags: &[Loading, Stale], acl: &[Acl::Connection], ..Entry::DEFAULT };

fn command(ctx: &mut Ctx) -> CommandResult {
    info::write_all(ctx);
    Ok(())
}

const COMMAND_COUNT: Entry = Entry {
    name: "count",
    summary: "Returns a count of commands.",
    since: "2.8.13",
    arity: 2,
    reply: Shape::Int,
    run: Run::Function(command_count),
    ..SUBCOMMAND
};

fn command_count(ctx: &mut Ctx) -> CommandResult {
    ctx.reply.int(ctx.store.tx.table.callable().count() as i64);
    Ok(())
}

const COMMAND_LIST: Entry = Entry {
    name: "list",
    summary: "Returns a list of command names.",
    complexity: "O(N) where N is the total number of Redis commands",
    since: "7.0.0",
    arity: -2,
    args: &[oneof(
        "filterby",
        &[
            string("module-name").token("MODULE"),
            string("category").token("ACLCAT"),
            pattern("pattern").token("PATTERN"),
        ],
    )
    .token("FILTERBY")
    .optional()],
    tips: &["nondeterministic_output_order"],
    reply: Shape::BULKS,
    run: Run::Function(command_list),
    ..SUBCOMMAND
};

fn command_list(ctx: &mut Ctx) -> CommandResult {
    let table = ctx.store.tx.table;
    let wanted: Box<dyn Fn(&Command) -> bool> = match ctx.args[2..] {
        [] => Box::new(|_| true),
        [filter_by, kind, value] if keyword_is(filter_by, "FILTERBY") => {
            match kind.to_ascii_lowercase().as_slice() {
                // There are no modules.
                b"module" => Box::new(|_| false),
                b"aclcat" => {
                    let bit = Acl::parse(value).map_or(0, Acl::bit);
                    Box::new(move |command| command.acl & bit != 0)
                }
                b"pattern" => {
                    Box::new(move |command| ds::glob::matches(value, command.full_name.as_bytes(), true))
                }
                _ => return Err(CommandError::SYNTAX),
            }
        }
        _ => return Err(CommandError::SYNTAX),
    };
    let names: Vec<&str> = table
        .all()
        .iter()
        .filter(|command| !command.is_disabled && wanted(command))
        .map(|command| command.full_name.as_str())
        .collect();
    ctx.reply.array(names.len());
    for name in names {
        ctx.reply.bulk(name.as_bytes());
    }
    Ok(())
}

const COMMAND_HELP: Entry =
    Entry { acl: &[Acl::Connection], run: Run::Function(command_help), ..Entry::HELP };

fn command_help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
        "(no subcommand)",
        "    Return details about all Redis commands.",
        "COUNT",
        "    Return the total number of commands in this Redis server.",
        "LIST",
        "    Return a list of all commands in this Redis server.",
        "INFO [<command-name> ...]",
        "    Return details about multiple Redis commands.",
        "    If no command names are given, documentation details for all",
        "    commands are returned.",
        "DOCS [<command-name> ...]",
        "    Return documentation details about multiple Redis commands.",
        "    If no command names are given, documentation details for all",
        "    commands are returned.",
        "GETKEYS <full-command>",
        "    Return the keys from a full Redis command.",
        "GETKEYSANDFLAGS <full-command>",
        "    Return the keys and the access flags from a full Redis command.",
    ])
}
