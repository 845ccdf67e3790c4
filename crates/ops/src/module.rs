//! MODULE: answers that there are no modules, and refuses to load one.

use config::ENABLE_MODULE_COMMAND;
use engine::Flag::*;
use engine::{CommandError, CommandResult, Group, Shape, block, keyword_is, string};

use crate::{Ctx, Entry, Run, not_allowed};

/// MODULE and its subcommands.
pub(crate) const MODULE: Entry = Entry {
    name: "module",
    summary: "A container for module commands.",
    complexity: "Depends on subcommand.",
    since: "4.0.0",
    group: Group::Server,
    arity: -2,
    subcommands: &[MODULE_HELP, MODULE_LIST, MODULE_LOAD, MODULE_LOADEX, MODULE_UNLOAD],
    ..Entry::DEFAULT
};

/// The base of all subcommands.
const SUBCOMMAND: Entry = Entry {
    since: "4.0.0",
    group: Group::Server,
    flags: &[Admin, NoScript, NoAsyncLoading],
    reply: Shape::OK,
    note: "Answers an error, because there are no modules",
    ..Entry::DEFAULT
};

const MODULE_LIST: Entry = Entry {
    name: "list",
    summary: "Returns all loaded modules.",
    complexity: "O(N) where N is the number of loaded modules.",
    arity: 2,
    flags: &[Admin, NoScript],
    tips: &["nondeterministic_output_order"],
    reply: Shape::Array(&Shape::Any),
    note: "",
    run: Run::Function(module_list),
    ..SUBCOMMAND
};

fn module_list(ctx: &mut Ctx) -> CommandResult {
    ctx.reply.array(0);
    Ok(())
}

const MODULE_LOAD: Entry = Entry {
    name: "load",
    summary: "Loads a module.",
    arity: -3,
    args: &[string("path"), string("arg").optional().multiple()],
    run: Run::Function(module_load),
    ..SUBCOMMAND
};

fn module_load(ctx: &mut Ctx) -> CommandResult {
    check_setting(ctx)?;
    Err(CommandError::fixed("ERR Error loading the extension. Please check the server logs."))
}

/// Checks the setting first, as Redis does.
fn check_setting(ctx: &mut Ctx) -> CommandResult {
    if ctx.host.allows(ENABLE_MODULE_COMMAND) {
        Ok(())
    } else {
        Err(not_allowed("MODULE", "enable-module-command"))
    }
}

const MODULE_LOADEX: Entry = Entry {
    name: "loadex",
    summary: "Loads a module using extended parameters.",
    since: "7.0.0",
    arity: -3,
    args: &[
        string("path"),
        block("configs", &[string("name"), string("value")]).token("CONFIG").optional().multiple_token(),
        string("args").token("ARGS").optional().multiple(),
    ],
    run: Run::Function(module_loadex),
    ..SUBCOMMAND
};

fn module_loadex(ctx: &mut Ctx) -> CommandResult {
    check_setting(ctx)?;
    let mut rest = &ctx.args[3..];
    while let [word, after @ ..] = rest {
        match after {
            _ if keyword_is(word, "ARGS") => break,
            [_, _, after @ ..] if keyword_is(word, "CONFIG") => rest = after,
            _ => return Err(CommandError::SYNTAX),
        }
    }
    module_load(ctx)
}

const MODULE_UNLOAD: Entry = Entry {
    name: "unload",
    summary: "Unloads a module.",
    arity: 3,
    args: &[string("name")],
    run: Run::Function(module_unload),
    ..SUBCOMMAND
};

fn module_unload(ctx: &mut Ctx) -> CommandResult {
    check_setting(ctx)?;
    Err(CommandError::fixed("ERR Error unloading module: no such module with that name"))
}

const MODULE_HELP: Entry = Entry { run: Run::Function(module_help), ..Entry::HELP };

fn module_help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
        "LIST",
        "    Return a list of loaded modules.",
        "LOAD <path> [<arg> ...]",
        "    Load a module library from <path>, passing to it any optional arguments.",
        "LOADEX <path> [[CONFIG NAME VALUE] [CONFIG NAME VALUE]] [ARGS ...]",
        "    Load a module library from <path>, while passing it module configurations and optional arguments.",
        "UNLOAD <name>",
        "    Unload a module.",
    ])
}
