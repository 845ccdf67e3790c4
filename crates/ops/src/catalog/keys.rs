//! COMMAND GETKEYS and GETKEYSANDFLAGS: which arguments of a command are keys, and what it does with them.

use engine::KeyFlag::Incomplete;
use engine::{CommandError, CommandResult, Ctx, Entry, Flag, KeyFlag, KeySpec, KeyUse, Run, Shape, string};

use crate::catalog::SUBCOMMAND;
use crate::catalog::info::write_key_flags;

pub(crate) const COMMAND_GETKEYS: Entry = Entry {
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
    for key in found {
        ctx.reply.bulk(ctx.args[key.index]);
    }
    Ok(())
}

pub(crate) const COMMAND_GETKEYSANDFLAGS: Entry = Entry {
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
    for key in found {
        ctx.reply.array(2);
        ctx.reply.bulk(ctx.args[key.index]);
        // `incomplete` says that the spec misses some keys, which is not a property of a key.
        let said: Vec<KeyFlag> = key.flags.iter().copied().filter(|flag| *flag != Incomplete).collect();
        write_key_flags(&mut ctx.reply, &said);
    }
    Ok(())
}

/// The keys of the command in the arguments, by their positions.
fn keys_of(ctx: &Ctx) -> Result<Vec<KeyUse>, CommandError> {
    let args = &ctx.args[2..];
    let named = ctx.store.tx.table.named(args);
    let command = named.map_err(|_| CommandError::new("ERR Invalid command specified"))?;
    if !command.entry.keys.iter().any(KeySpec::is_key) {
        return Err(CommandError::new("ERR The command has no key arguments"));
    }
    if !command.entry.takes(args.len()) {
        return Err(CommandError::new("ERR Invalid number of arguments specified for command"));
    }
    let mut found = command.key_uses(args).unwrap_or_default();
    if found.is_empty() && !command.has(Flag::NoMandatoryKeys) {
        return Err(CommandError::new("ERR Invalid arguments specified for command"));
    }
    for key in &mut found {
        key.index += 2;
    }
    Ok(found)
}
