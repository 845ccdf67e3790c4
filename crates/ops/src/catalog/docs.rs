//! COMMAND DOCS: summaries, arguments, history.

use engine::{Arg, ArgKind, Command, CommandResult, Ctx, Entry, Run, Shape, Table, string};
use resp::Reply;

use crate::catalog::SUBCOMMAND;
use crate::catalog::info::write_set;

pub(crate) const COMMAND_DOCS: Entry = Entry {
    name: "docs",
    summary: "Returns documentary information about one, multiple or all commands.",
    complexity: "O(N) where N is the number of commands to look up",
    since: "7.0.0",
    arity: -2,
    args: &[string("command-name").optional().multiple()],
    tips: &["nondeterministic_output_order"],
    reply: Shape::Map(&Shape::Bulk, &Shape::Any),
    run: Run::Function(command_docs),
    ..SUBCOMMAND
};

fn command_docs(ctx: &mut Ctx) -> CommandResult {
    let table = ctx.store.tx.table;
    let commands: Vec<&Command> = match &ctx.args[2..] {
        [] => table.callable().collect(),
        names => names.iter().filter_map(|name| table.by_full_name(name)).collect(),
    };
    ctx.reply.map(commands.len());
    for command in commands {
        write(&mut ctx.reply, table, command);
    }
    Ok(())
}

/// The name, and the map that describes it.
fn write(reply: &mut Reply<'_>, table: &Table, command: &Command) {
    let entry = command.entry;
    reply.bulk(command.full_name.as_bytes());
    let mark = reply.deferred();
    let mut count = 0;
    let mut field = |reply: &mut Reply<'_>, name: &str| {
        reply.bulk(name.as_bytes());
        count += 1;
    };
    for (name, text) in [("summary", entry.summary), ("since", entry.since), ("group", entry.group.name())] {
        field(reply, name);
        reply.bulk(text.as_bytes());
    }
    if !entry.complexity.is_empty() {
        field(reply, "complexity");
        reply.bulk(entry.complexity.as_bytes());
    }
    let flags = [("deprecated", entry.deprecated.is_some()), ("syscmd", entry.is_system)];
    write_flags(reply, "doc_flags", &flags, &mut field);
    if let Some((since, instead)) = entry.deprecated {
        field(reply, "deprecated_since");
        reply.bulk(since.as_bytes());
        field(reply, "replaced_by");
        reply.bulk(instead.as_bytes());
    }
    if !entry.history.is_empty() {
        field(reply, "history");
        reply.set(entry.history.len());
        for (since, change) in entry.history {
            reply.array(2);
            reply.bulk(since.as_bytes());
            reply.bulk(change.as_bytes());
        }
    }
    if !entry.args.is_empty() {
        field(reply, "arguments");
        write_args(reply, entry.args);
    }
    if table.subcommands(command).next().is_some() {
        field(reply, "subcommands");
        reply.map(table.subcommands(command).count());
        for subcommand in table.subcommands(command) {
            write(reply, table, subcommand);
        }
    }
    reply.finish_map(mark, count);
}

fn write_args(reply: &mut Reply<'_>, args: &[Arg]) {
    reply.array(args.len());
    for arg in args {
        write_arg(reply, arg);
    }
}

fn write_arg(reply: &mut Reply<'_>, arg: &Arg) {
    let mark = reply.deferred();
    let mut count = 0;
    let mut field = |reply: &mut Reply<'_>, name: &str| {
        reply.bulk(name.as_bytes());
        count += 1;
    };
    field(reply, "name");
    reply.bulk(arg.name.as_bytes());
    field(reply, "type");
    reply.bulk(arg.kind.name().as_bytes());
    if !matches!(arg.kind, ArgKind::OneOf | ArgKind::Block) {
        field(reply, "display_text");
        reply.bulk(arg.display.unwrap_or(arg.name).as_bytes());
    }
    if let Some(spec) = arg.key_spec {
        field(reply, "key_spec_index");
        reply.int(i64::from(spec));
    }
    if let Some(token) = arg.token {
        field(reply, "token");
        reply.bulk(token.as_bytes());
    }
    if let Some(since) = arg.since {
        field(reply, "since");
        reply.bulk(since.as_bytes());
    }
    if let Some(since) = arg.deprecated_since {
        field(reply, "deprecated_since");
        reply.bulk(since.as_bytes());
    }
    let flags =
        [("optional", arg.optional), ("multiple", arg.multiple), ("multiple_token", arg.multiple_token)];
    write_flags(reply, "flags", &flags, &mut field);
    if matches!(arg.kind, ArgKind::OneOf | ArgKind::Block) {
        field(reply, "arguments");
        write_args(reply, arg.args);
    }
    reply.finish_map(mark, count);
}

/// Writes a field `name` with the flags that are set; nothing if no flag is set.
fn write_flags(
    reply: &mut Reply<'_>,
    name: &str,
    flags: &[(&str, bool)],
    field: &mut impl FnMut(&mut Reply<'_>, &str),
) {
    if flags.iter().any(|(_, is_set)| *is_set) {
        field(reply, name);
        write_set(reply, flags.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| (*name).to_owned()));
    }
}
