//! EVAL, EVALSHA and FCALL, and their read-only variants.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Arg, Callee, CommandError, CommandResult, Group, KeySpec, Mode, Route, integer, key, parse_i64,
    string,
};

use super::{Ctx, Entry, Run, refuse_source};
use crate::program::{Program, Wanted};
use crate::running::{self, ScriptCall};

const NOT_ON_REPLICA: CommandError =
    CommandError::fixed("READONLY Can not run script with write flag on readonly replica");
const NOT_STALE: CommandError = CommandError::fixed(
    "MASTERDOWN Link with MASTER is down, replica-serve-stale-data is set to 'no' and 'allow-stale' flag is not set on the script.",
);

const SCRIPT_ARGS: &[Arg] = &[
    string("script"),
    integer("numkeys"),
    key("key", 0).optional().multiple(),
    string("arg").optional().multiple(),
];
const SHA1_ARGS: &[Arg] = &[
    string("sha1"),
    integer("numkeys"),
    key("key", 0).optional().multiple(),
    string("arg").optional().multiple(),
];
const SCRIPT_KEYS: KeySpec = KeySpec::numbered(2, &[RW, Access, Update]);
const SCRIPT_KEYS_RO: KeySpec = KeySpec::numbered(2, &[RO, Access]);

pub(super) const EVAL: Entry = Entry {
    name: "eval",
    summary: "Executes a server-side Lua script.",
    complexity: "Depends on the script that is executed.",
    since: "2.6.0",
    group: Group::Scripting,
    arity: -3,
    flags: &[NoScript, Stale, SkipMonitor, MayReplicate, NoMandatoryKeys],
    acl: &[Acl::Scripting],
    keys: &[
        SCRIPT_KEYS.notes("We cannot tell how the keys will be used so we assume the worst, RW and UPDATE")
    ],
    route: Route::Script(Callee::Source),
    mode: Mode::Heavy,
    args: SCRIPT_ARGS,
    run: Run::Function(eval),
    ..Entry::DEFAULT
};

fn eval(ctx: &mut Ctx) -> CommandResult {
    run(ctx, Wanted::Source(ctx.args[1]), false)
}

pub(super) const EVALSHA: Entry = Entry {
    name: "evalsha",
    summary: "Executes a server-side Lua script by SHA1 digest.",
    keys: &[SCRIPT_KEYS],
    route: Route::Script(Callee::Sha1),
    args: SHA1_ARGS,
    run: Run::Function(evalsha),
    ..EVAL
};

fn evalsha(ctx: &mut Ctx) -> CommandResult {
    run(ctx, Wanted::Named(ctx.args[1]), false)
}

pub(super) const EVAL_RO: Entry = Entry {
    name: "eval_ro",
    summary: "Executes a read-only server-side Lua script.",
    since: "7.0.0",
    flags: &[ReadOnly, NoScript, Stale, SkipMonitor, NoMandatoryKeys],
    keys: &[SCRIPT_KEYS_RO
        .notes("We cannot tell how the keys will be used so we assume the worst, RO and ACCESS")],
    run: Run::Function(eval_ro),
    ..EVAL
};

fn eval_ro(ctx: &mut Ctx) -> CommandResult {
    run(ctx, Wanted::Source(ctx.args[1]), true)
}

pub(super) const EVALSHA_RO: Entry = Entry {
    name: "evalsha_ro",
    summary: "Executes a read-only server-side Lua script by SHA1 digest.",
    keys: &[SCRIPT_KEYS_RO],
    route: Route::Script(Callee::Sha1),
    args: SHA1_ARGS,
    run: Run::Function(evalsha_ro),
    ..EVAL_RO
};

fn evalsha_ro(ctx: &mut Ctx) -> CommandResult {
    run(ctx, Wanted::Named(ctx.args[1]), true)
}

fn run(ctx: &mut Ctx, wanted: Wanted, is_read_only: bool) -> CommandResult {
    let key_count = parse_i64(ctx.args[2])?;
    check_key_count(ctx, key_count)?;
    match ctx.host.states().take(&wanted) {
        Ok(script) => run_program(ctx, script, key_count as usize, is_read_only),
        Err(failure) => refuse_source(ctx, failure),
    }
}

const FUNCTION_ARGS: &[Arg] = &[
    string("function"),
    integer("numkeys"),
    key("key", 0).optional().multiple(),
    string("arg").optional().multiple(),
];

pub(super) const FCALL: Entry = Entry {
    name: "fcall",
    summary: "Invokes a function.",
    complexity: "Depends on the function that is executed.",
    since: "7.0.0",
    group: Group::Scripting,
    arity: -3,
    flags: &[NoScript, Stale, SkipMonitor, MayReplicate, NoMandatoryKeys],
    acl: &[Acl::Scripting],
    keys: &[
        SCRIPT_KEYS.notes("We cannot tell how the keys will be used so we assume the worst, RW and UPDATE")
    ],
    route: Route::Script(Callee::Function),
    mode: Mode::Heavy,
    args: FUNCTION_ARGS,
    run: Run::Function(fcall),
    ..Entry::DEFAULT
};

fn fcall(ctx: &mut Ctx) -> CommandResult {
    call_function(ctx, false)
}

pub(super) const FCALL_RO: Entry = Entry {
    name: "fcall_ro",
    summary: "Invokes a read-only function.",
    flags: &[ReadOnly, NoScript, Stale, SkipMonitor, NoMandatoryKeys],
    keys: &[SCRIPT_KEYS_RO
        .notes("We cannot tell how the keys will be used so we assume the worst, RO and ACCESS")],
    run: Run::Function(fcall_ro),
    ..FCALL
};

fn fcall_ro(ctx: &mut Ctx) -> CommandResult {
    call_function(ctx, true)
}

fn call_function(ctx: &mut Ctx, is_read_only: bool) -> CommandResult {
    // EXEC renewed the libraries when it began, so the whole transaction sees one set.
    let is_in_exec = ctx.store.client.deny_blocking;
    let states = ctx.host.states();
    if !is_in_exec {
        states.renew_libraries();
    }
    let program = states.take_function(ctx.args[1]).ok_or(CommandError::NO_FUNCTION)?;
    let key_count = parse_i64(ctx.args[2]);
    let key_count = key_count.map_err(|_| CommandError::fixed("ERR Bad number of keys provided"))?;
    check_key_count(ctx, key_count)?;
    match ctx.host.states().load_library_of(&program) {
        Ok(()) => run_program(ctx, program, key_count as usize, is_read_only),
        Err(error) => refuse_source(ctx, error.into()),
    }
}

/// Checks that the arguments can contain this many keys.
fn check_key_count(ctx: &Ctx, key_count: i64) -> CommandResult {
    if key_count > ctx.args.len() as i64 - 3 {
        return Err(CommandError::fixed("ERR Number of keys can't be greater than number of args"));
    }
    if key_count < 0 {
        return Err(CommandError::fixed("ERR Number of keys can't be negative"));
    }
    Ok(())
}

/// Runs a script or function. Its keys and arguments start at the third argument.
fn run_program(ctx: &mut Ctx, program: Program, key_count: usize, is_read_only: bool) -> CommandResult {
    let flags = program.flags();
    // The primary's commands are applied without these checks.
    let standing = if ctx.store.tx.keeps_due { None } else { (ctx.host.standing)() };
    let standing = standing.unwrap_or_default();
    if let Some(error) = standing.stale {
        if !flags.is_declared {
            return Err(error);
        }
        if !flags.allow_stale {
            return Err(NOT_STALE);
        }
    }
    if flags.is_declared && !flags.no_writes {
        // It has declared that it may write.
        if standing.read_only.is_some() {
            return Err(NOT_ON_REPLICA);
        }
        if let Some(error) = (ctx.host.refuses_writes)() {
            return Err(error);
        }
        if is_read_only {
            return Err(CommandError::NOT_READ_ONLY);
        }
    }
    let call = ScriptCall {
        program: &program,
        request: ctx.args,
        key_count,
        is_read_only: is_read_only || flags.no_writes,
    };
    let client = ctx.store.client;
    let result = running::run(ctx.host, ctx.store.tx, client, &call, &mut ctx.reply);
    ctx.host.states().keep(program);
    let errors = result?;
    if errors.count > 0 {
        ctx.host.errors = Some(errors);
    }
    Ok(())
}
