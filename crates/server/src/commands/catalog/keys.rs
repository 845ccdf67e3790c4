//! COMMAND GETKEYS and GETKEYSANDFLAGS: which arguments of a command are keys, and what it does with them.

use command::KeyFlag::*;
use command::{
    Command, CommandError, CommandResult, Ctx, Entry, Flag, KeyFlag, KeySpec, Run, Shape, keyword_is, string,
};
use smallvec::SmallVec;

use super::SUBCOMMAND;
use super::info::write_key_flags;

pub(super) const COMMAND_GETKEYS: Entry = Entry {
    name: "getkeys",
    summary: "Extracts the key names from an arbitrary command.",
    complexity: "O(N) where N is the number of arguments to the command",
    since: "2.8.13",
    arity: -3,
    args: &[string("command"), string("arg").optional().multiple()],
    reply: Shape::BULKS,
    run: Run::Function(command_getkeys),
    ..SUBCOMMAND
};

fn command_getkeys(ctx: &mut Ctx) -> CommandResult {
    let found = keys_of(ctx)?;
    ctx.reply.array(found.len());
    for (index, _) in found {
        ctx.reply.bulk(ctx.args[index]);
    }
    Ok(())
}

pub(super) const COMMAND_GETKEYSANDFLAGS: Entry = Entry {
    name: "getkeysandflags",
    summary: "Extracts the key names and access flags for an arbitrary command.",
    complexity: "O(N) where N is the number of arguments to the command",
    since: "7.0.0",
    arity: -3,
    args: &[string("command"), string("arg").optional().multiple()],
    reply: Shape::Array(&Shape::Tuple(&[Shape::Bulk, Shape::Set(&Shape::AnyStatus)])),
    run: Run::Function(command_getkeysandflags),
    ..SUBCOMMAND
};

fn command_getkeysandflags(ctx: &mut Ctx) -> CommandResult {
    let found = keys_of(ctx)?;
    ctx.reply.array(found.len());
    for (index, flags) in found {
        ctx.reply.array(2);
        ctx.reply.bulk(ctx.args[index]);
        // That its spec does not find them all is nothing about a key.
        let said: Vec<KeyFlag> = flags.iter().copied().filter(|flag| *flag != Incomplete).collect();
        write_key_flags(&mut ctx.reply, &said);
    }
    Ok(())
}

type Keys = Vec<(usize, &'static [KeyFlag])>;

/// The keys of the command that follows, by their places among all arguments.
fn keys_of(ctx: &Ctx) -> Result<Keys, CommandError> {
    let args = &ctx.args[2..];
    let named = ctx.store.tx.table.named(args);
    let command = named.map_err(|_| CommandError::new("ERR Invalid command specified"))?;
    if !command.entry.keys.iter().any(KeySpec::is_key) {
        return Err(CommandError::new("ERR The command has no key arguments"));
    }
    if !command.entry.takes(args.len()) {
        return Err(CommandError::new("ERR Invalid number of arguments specified for command"));
    }
    let mut found = find(command, args).unwrap_or_default();
    if found.is_empty() && !command.has(Flag::NoMandatoryKeys) {
        return Err(CommandError::new("ERR Invalid arguments specified for command"));
    }
    for (index, _) in &mut found {
        *index += 2;
    }
    Ok(found)
}

/// The keys among `args`, with what happens to each; `None` if the arguments contradict the key specs.
fn find(command: &Command, args: &[&[u8]]) -> Option<Keys> {
    let mut keys = Keys::new();
    for spec in command.entry.keys.iter().filter(|spec| spec.is_key()) {
        let mut found = SmallVec::new();
        if !spec.find(args, &mut found) {
            return None;
        }
        let flags =
            if spec.flags.contains(&VariableFlags) { actual_flags(command, args) } else { spec.flags };
        keys.extend(found.iter().map(|key| (key.index, flags)));
    }
    let counted = command.keys(args)?;
    keys.retain(|(index, _)| counted.iter().any(|key| key.index == *index));
    const STORED: &[KeyFlag] = &[OW, Update];
    keys.extend(command.sort_target(args).map(|index| (index, STORED)));
    Some(keys)
}

/// What a command does with its key, where that depends on its options.
fn actual_flags(command: &Command, args: &[&[u8]]) -> &'static [KeyFlag] {
    match command.entry.name {
        "set" if args[3..].iter().any(|arg| keyword_is(arg, "GET")) => &[RW, Access, Update],
        "set" => &[OW, Update],
        "bitfield" if bitfield_only_reads(args) => &[RO, Access],
        _ => &[RW, Access, Update],
    }
}

fn bitfield_only_reads(args: &[&[u8]]) -> bool {
    let mut rest = &args[2..];
    while let [option, values @ ..] = rest {
        rest = match values {
            [_, _, rest @ ..] if keyword_is(option, "GET") => rest,
            [_, rest @ ..] if keyword_is(option, "OVERFLOW") => rest,
            _ => return false,
        };
    }
    true
}
