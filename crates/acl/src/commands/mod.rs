//! ACL: users, their permissions, and the log of denials.

mod log;
mod users;

use engine::Flag::*;
use engine::{Acl, CommandError, CommandResult, Group, Mode, Shape, integer, string, subcommand_error};

use crate::administration::UserAdministration;

/// A call of a command of this crate.
type Ctx<'a, 't, 'h> = engine::Ctx<'a, 't, UserAdministration<'h>>;
/// The function of a command of this crate.
pub type Function = fn(&mut Ctx<'_, '_, '_>) -> CommandResult;
/// The declaration of a command of this crate.
pub type Entry = engine::Entry<Function>;
/// The way a command of this crate runs.
type Run = engine::Run<Function>;

/// `ACL` and its subcommands.
pub const ENTRIES: &[Entry] = &[Entry {
    name: "acl",
    summary: "A container for Access List Control commands.",
    complexity: "Depends on subcommand.",
    since: "6.0.0",
    group: Group::Server,
    arity: -2,
    subcommands: &[
        ACL_CAT,
        users::ACL_DELUSER,
        users::ACL_DRYRUN,
        ACL_GENPASS,
        users::ACL_GETUSER,
        ACL_HELP,
        users::ACL_LIST,
        ACL_LOAD,
        log::ACL_LOG,
        ACL_SAVE,
        users::ACL_SETUSER,
        users::ACL_USERS,
        ACL_WHOAMI,
    ],
    ..Entry::DEFAULT
}];

/// How many bits ACL GENPASS draws by default.
const PASSWORD_BITS: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4096;

/// The base of most subcommands. Some do not need [`Admin`].
const SUBCOMMAND: Entry = Entry {
    since: "6.0.0",
    group: Group::Server,
    flags: &[Admin, NoScript, Loading, Stale],
    mode: Mode::Session,
    ..Entry::DEFAULT
};

const ACL_CAT: Entry = Entry {
    name: "cat",
    summary: "Lists the ACL categories, or the commands inside a category.",
    complexity: "O(1) since the categories and commands are a fixed set.",
    arity: -2,
    flags: &[NoScript, Loading, Stale],
    args: &[string("category").optional()],
    reply: Shape::BULKS,
    run: Run::Function(acl_cat),
    ..SUBCOMMAND
};

fn acl_cat(ctx: &mut Ctx) -> CommandResult {
    let names: Vec<&str> = match ctx.args[2..] {
        [] => Acl::ALL.iter().map(|category| category.name()).collect(),
        [name] => {
            let shown = &name[..name.len().min(128)];
            let category =
                Acl::parse(name).ok_or(CommandError::quoting("ERR Unknown category '", shown, "'"))?;
            let commands = ctx.store.tx.table.all().iter();
            let inside = commands.filter(|command| command.acl & category.bit() != 0);
            inside.map(|command| command.full_name.as_str()).collect()
        }
        _ => return Err(subcommand_error(ctx.args)),
    };
    ctx.reply.array(names.len());
    for name in names {
        ctx.reply.bulk(name.as_bytes());
    }
    Ok(())
}

const ACL_GENPASS: Entry = Entry {
    name: "genpass",
    summary: "Generates a pseudorandom, secure password that can be used to identify ACL users.",
    arity: -2,
    flags: &[NoScript, Loading, Stale],
    args: &[integer("bits").optional()],
    reply: Shape::Bulk,
    run: Run::Function(acl_genpass),
    ..SUBCOMMAND
};

fn acl_genpass(ctx: &mut Ctx) -> CommandResult {
    let bits = match ctx.args[2..] {
        [] => PASSWORD_BITS,
        [bits] => engine::parse_i64(bits)?,
        _ => return Err(subcommand_error(ctx.args)),
    };
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(CommandError::new(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
             {PASSWORD_BITS_MAX}"
        )));
    }
    let digits = (bits as usize).div_ceil(4);
    let mut secret = vec![0; digits.div_ceil(2)];
    (ctx.host.draw_secret)(&mut secret)
        .map_err(|error| CommandError::new(format!("ERR The system has no random numbers: {error}")))?;
    let text: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    ctx.reply.bulk(&text.as_bytes()[..digits]);
    Ok(())
}

const ACL_WHOAMI: Entry = Entry {
    name: "whoami",
    summary: "Returns the authenticated username of the current connection.",
    arity: 2,
    flags: &[NoScript, Loading, Stale],
    reply: Shape::Bulk,
    run: Run::Function(acl_whoami),
    ..SUBCOMMAND
};

fn acl_whoami(ctx: &mut Ctx) -> CommandResult {
    ctx.reply.bulk(&ctx.host.user.name);
    Ok(())
}

const ACL_LOAD: Entry = Entry {
    name: "load",
    summary: "Reloads the rules from the configured ACL file.",
    complexity: "O(N). Where N is the number of configured users.",
    arity: 2,
    reply: Shape::OK,
    run: Run::Function(acl_load),
    ..SUBCOMMAND
};

fn acl_load(ctx: &mut Ctx) -> CommandResult {
    let loaded = ctx.host.storage()?.load(ctx.host.users, ctx.host.grammar);
    loaded.map_err(|errors| CommandError::quoting("ERR ", &errors, ""))?;
    ctx.host.has_changed = true;
    ctx.reply.ok();
    Ok(())
}

const ACL_SAVE: Entry = Entry {
    name: "save",
    summary: "Saves the effective ACL rules in the configured ACL file.",
    complexity: "O(N). Where N is the number of configured users.",
    arity: 2,
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    reply: Shape::OK,
    run: Run::Function(acl_save),
    ..SUBCOMMAND
};

fn acl_save(ctx: &mut Ctx) -> CommandResult {
    ctx.host.storage()?.save(ctx.host.users)?;
    ctx.reply.ok();
    Ok(())
}

const ACL_HELP: Entry = Entry { since: "6.0.0", run: Run::Function(acl_help), ..Entry::HELP };

fn acl_help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
        "CAT [<category>]",
        "    List all commands that belong to <category>, or all command categories",
        "    when no category is specified.",
        "DELUSER <username> [<username> ...]",
        "    Delete a list of users.",
        "DRYRUN <username> <command> [<arg> ...]",
        "    Returns whether the user can execute the given command without executing the command.",
        "GETUSER <username>",
        "    Get the user's details.",
        "GENPASS [<bits>]",
        "    Generate a secure 256-bit user password. The optional `bits` argument can",
        "    be used to specify a different size.",
        "LIST",
        "    Show users details in config file format.",
        "LOAD",
        "    Reload users from the ACL file.",
        "LOG [<count> | RESET]",
        "    Show the ACL log entries.",
        "SAVE",
        "    Save the current config to the ACL file.",
        "SETUSER <username> <attribute> [<attribute> ...]",
        "    Create or modify a user with the specified attributes.",
        "USERS",
        "    List all the registered usernames.",
        "WHOAMI",
        "    Return the current connection username.",
    ])
}
