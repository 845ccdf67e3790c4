//! COMMAND INFO: arity, flags, key positions, categories, tips, key specs, subcommands.

use engine::{
    Acl, Begin, Command, CommandResult, Ctx, Entry, Find, Flag, KeyFlag, KeySpec, Run, Shape, Table, string,
};
use resp::Reply;

use crate::catalog::SUBCOMMAND;

pub(crate) const COMMAND_INFO: Entry = Entry {
    name: "info",
    summary: "Returns information about one, multiple or all commands.",
    complexity: "O(N) where N is the number of commands to look up",
    since: "2.8.13",
    arity: -2,
    args: &[string("command-name").optional().multiple()],
    history: &[("7.0.0", "Allowed to be called with no argument to get info on all commands.")],
    tips: &["nondeterministic_output_order"],
    reply: Shape::Array(&Shape::Any),
    run: Run::Function(command_info),
    ..SUBCOMMAND
};

fn command_info(ctx: &mut Ctx) -> CommandResult {
    let table = ctx.store.tx.table;
    if ctx.args.len() == 2 {
        write_all(ctx);
        return Ok(());
    }
    ctx.reply.array(ctx.args.len() - 2);
    for name in &ctx.args[2..] {
        match table.by_full_name(name) {
            Some(command) => write(&mut ctx.reply, table, command),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

/// Describes all commands.
pub(crate) fn write_all(ctx: &mut Ctx) {
    let table = ctx.store.tx.table;
    ctx.reply.array(table.callable().count());
    for command in table.callable() {
        write(&mut ctx.reply, table, command);
    }
}

fn write(reply: &mut Reply<'_>, table: &Table, command: &Command) {
    let entry = command.entry;
    let (first, last, step) = legacy_range(entry.keys);
    reply.array(10);
    reply.bulk(command.full_name.as_bytes());
    reply.int(i64::from(entry.arity));
    // Redis keeps this one to itself.
    let shown = Flag::ALL.iter().filter(|flag| command.has(**flag) && **flag != Flag::MayReplicate);
    write_set(reply, shown.map(|flag| flag.name().to_owned()));
    reply.int(first);
    reply.int(last);
    reply.int(step);
    let categories = Acl::ALL.iter().filter(|acl| command.acl & acl.bit() != 0);
    write_set(reply, categories.map(|acl| format!("@{}", acl.name())));
    reply.set(entry.tips.len());
    for tip in entry.tips {
        reply.bulk(tip.as_bytes());
    }
    reply.set(entry.keys.len());
    for spec in entry.keys {
        write_key_spec(reply, spec);
    }
    match table.subcommands(command).count() {
        0 => reply.set(0),
        count => reply.array(count),
    }
    for subcommand in table.subcommands(command) {
        write(reply, table, subcommand);
    }
}

/// A set of simple strings.
pub(crate) fn write_set(reply: &mut Reply<'_>, names: impl Iterator<Item = String>) {
    let mark = reply.deferred();
    let mut count = 0;
    for name in names {
        reply.simple(&name);
        count += 1;
    }
    reply.finish_set(mark, count);
}

/// First key, last key and step, for clients that do not know key specs: of plain ranges that follow one another. Zeros
/// if the command has no such range.
fn legacy_range(specs: &[KeySpec]) -> (i64, i64, i64) {
    let range = |spec: &KeySpec| match (spec.begin, spec.find) {
        (Begin::Index(first), Find::Range { last, step, .. }) => {
            let first = first as i64;
            let last = i64::from(last);
            Some((first, if last >= 0 { first + last } else { last }, step as i64))
        }
        _ => None,
    };
    if let [spec] = specs {
        return range(spec).unwrap_or((0, 0, 0));
    }
    let mut found: Option<(i64, i64)> = None;
    for (first, last, step) in specs.iter().filter_map(range) {
        let follows = found.is_none_or(|(_, end)| end == first - 1);
        if step == 1 && follows {
            found = Some((found.map_or(first, |(start, _)| start), last));
        }
    }
    found.map_or((0, 0, 0), |(first, last)| (first, last, 1))
}

fn write_key_spec(reply: &mut Reply<'_>, spec: &KeySpec) {
    reply.map(if spec.notes.is_empty() { 3 } else { 4 });
    if !spec.notes.is_empty() {
        reply.bulk(b"notes");
        reply.bulk(spec.notes.as_bytes());
    }
    reply.bulk(b"flags");
    write_key_flags(reply, spec.flags);
    reply.bulk(b"begin_search");
    match spec.begin {
        Begin::Index(index) => write_search(reply, "index", &[("index", index as i64)]),
        Begin::Keyword(word, from) | Begin::Option(word, from, _, _) => {
            reply.map(2);
            reply.bulk(b"type");
            reply.bulk(b"keyword");
            reply.bulk(b"spec");
            reply.map(2);
            reply.bulk(b"keyword");
            reply.bulk(word.as_bytes());
            reply.bulk(b"startfrom");
            reply.int(i64::from(from));
        }
        Begin::Unknown => write_search(reply, "unknown", &[]),
    }
    reply.bulk(b"find_keys");
    match spec.find {
        Find::Range { last, step, limit } => {
            let fields = [("lastkey", i64::from(last)), ("keystep", step as i64), ("limit", limit as i64)];
            write_search(reply, "range", &fields);
        }
        Find::KeyNum { number, first, step } => {
            let fields = [("keynumidx", number as i64), ("firstkey", first as i64), ("keystep", step as i64)];
            write_search(reply, "keynum", &fields);
        }
        Find::Unknown => write_search(reply, "unknown", &[]),
    }
}

pub(crate) fn write_key_flags(reply: &mut Reply<'_>, flags: &[KeyFlag]) {
    write_set(reply, flags.iter().map(|flag| flag.name().to_owned()));
}

fn write_search(reply: &mut Reply<'_>, kind: &str, fields: &[(&str, i64)]) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(fields.len());
    for (name, value) in fields {
        reply.bulk(name.as_bytes());
        reply.int(*value);
    }
}
