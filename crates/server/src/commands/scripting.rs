//! EVAL, EVALSHA, their read-only twins, and SCRIPT. What they have in common with FCALL is here, too.

use command::Flag::*;
use command::KeyFlag::*;
use command::{
    Acl, Arg, Callee, CommandError, CommandResult, Group, KeySpec, Mode, Route, Shape, integer, key,
    keyword_is, oneof, parse_i64, string, token,
};

use crate::commands::own::{Ctx, Entry, Run};
use crate::life::busy;
use crate::scripts::running::{Call, Program, ScriptFailure, Wanted};
use crate::scripts::store::SlowKind;

/// The scripting commands.
pub(crate) const ENTRIES: &[Entry] = &[EVAL, EVALSHA, EVALSHA_RO, EVAL_RO, SCRIPT];

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
pub(super) const SCRIPT_KEYS: KeySpec = KeySpec::numbered(2, &[RW, Access, Update]);
pub(super) const SCRIPT_KEYS_RO: KeySpec = KeySpec::numbered(2, &[RO, Access]);

const EVAL: Entry = Entry {
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

const EVALSHA: Entry = Entry {
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

const EVAL_RO: Entry = Entry {
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

const EVALSHA_RO: Entry = Entry {
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
    match ctx.host.script(&wanted) {
        Ok(script) => run_program(ctx, &Program::Script(script), key_count as usize, is_read_only),
        Err(failure) => refuse_source(ctx, failure),
    }
}

/// Answers why a source is no script or library.
pub(super) fn refuse_source(ctx: &mut Ctx, failure: ScriptFailure) -> CommandResult {
    match failure {
        ScriptFailure::Command(error) => return Err(error),
        ScriptFailure::Source(error) => error.write(&mut ctx.reply),
    }
    Ok(())
}

/// Whether so many keys may be among the arguments.
pub(super) fn check_key_count(ctx: &Ctx, key_count: i64) -> CommandResult {
    if key_count > ctx.args.len() as i64 - 3 {
        return Err(CommandError::fixed("ERR Number of keys can't be greater than number of args"));
    }
    if key_count < 0 {
        return Err(CommandError::fixed("ERR Number of keys can't be negative"));
    }
    Ok(())
}

/// Runs a script or function with the keys and arguments from the third one on.
pub(super) fn run_program(
    ctx: &mut Ctx,
    program: &Program,
    key_count: usize,
    is_read_only: bool,
) -> CommandResult {
    let flags = program.flags();
    if is_read_only && flags.is_declared && !flags.no_writes {
        return Err(CommandError::NOT_READ_ONLY);
    }
    let call = Call { program, request: ctx.args, key_count, is_read_only: is_read_only || flags.no_writes };
    let client = ctx.store.client;
    let errors = ctx.host.run_program(ctx.store.tx, client, &call, &mut ctx.reply)?;
    if errors.count > 0 {
        ctx.host.count_errors_of_script(ctx.command, &errors);
    }
    Ok(())
}

const SCRIPT: Entry = Entry {
    name: "script",
    summary: "A container for Lua scripts management commands.",
    complexity: "Depends on subcommand.",
    since: "2.6.0",
    group: Group::Scripting,
    arity: -2,
    subcommands: &[SCRIPT_DEBUG, SCRIPT_EXISTS, SCRIPT_FLUSH, SCRIPT_HELP, SCRIPT_KILL, SCRIPT_LOAD],
    ..Entry::DEFAULT
};

/// What the subcommands have in common.
const SUBCOMMAND: Entry = Entry {
    since: "2.6.0",
    group: Group::Scripting,
    flags: &[NoScript],
    acl: &[Acl::Scripting],
    ..Entry::DEFAULT
};

const SCRIPT_DEBUG: Entry = Entry {
    name: "debug",
    summary: "Sets the debug mode of server-side Lua scripts.",
    since: "3.2.0",
    arity: 3,
    args: &[oneof("mode", &[token("yes", "YES"), token("sync", "SYNC"), token("no", "NO")])],
    reply: Shape::OK,
    run: Run::Function(script_debug),
    ..SUBCOMMAND
};

fn script_debug(ctx: &mut Ctx) -> CommandResult {
    if !keyword_is(ctx.args[2], "no") {
        return Err(CommandError::new("ERR The Lua debugger is not supported: only SCRIPT DEBUG NO"));
    }
    ctx.reply.ok();
    Ok(())
}

const SCRIPT_EXISTS: Entry = Entry {
    name: "exists",
    summary: "Determines whether server-side Lua scripts exist in the script cache.",
    complexity: "O(N) with N being the number of scripts to check (so checking a single script is an O(1) operation).",
    arity: -3,
    args: &[string("sha1").multiple()],
    tips: &["request_policy:all_shards", "response_policy:agg_logical_and"],
    reply: Shape::Array(&Shape::Int),
    run: Run::Function(script_exists),
    ..SUBCOMMAND
};

fn script_exists(ctx: &mut Ctx) -> CommandResult {
    let cache = ctx.host.shared.scripts.cache();
    ctx.reply.array(ctx.args.len() - 2);
    for name in &ctx.args[2..] {
        let known = script::Sha1Hex::parse(name).is_some_and(|sha| cache.get(&sha).is_some());
        ctx.reply.int(i64::from(known));
    }
    Ok(())
}

const SCRIPT_FLUSH: Entry = Entry {
    name: "flush",
    summary: "Removes all server-side Lua scripts from the script cache.",
    complexity: "O(N) with N being the number of scripts in cache",
    arity: -2,
    args: &[oneof("flush-type", &[token("async", "ASYNC"), token("sync", "SYNC")]).optional().since("6.2.0")],
    history: &[("6.2.0", "Added the `ASYNC` and `SYNC` flushing mode modifiers.")],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    reply: Shape::OK,
    run: Run::Function(script_flush),
    ..SUBCOMMAND
};

fn script_flush(ctx: &mut Ctx) -> CommandResult {
    match ctx.args[2..] {
        [] => {}
        [how] if keyword_is(how, "sync") || keyword_is(how, "async") => {}
        _ => return Err(CommandError::new("ERR SCRIPT FLUSH only support SYNC|ASYNC option")),
    }
    ctx.host.shared.scripts.cache().flush();
    ctx.reply.ok();
    Ok(())
}

const SCRIPT_HELP: Entry =
    Entry { group: Group::Scripting, acl: &[Acl::Scripting], run: Run::Function(script_help), ..Entry::HELP };

fn script_help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
        "DEBUG (YES|SYNC|NO)",
        "    Set the debug mode for subsequent scripts executed.",
        "EXISTS <sha1> [<sha1> ...]",
        "    Return information about the existence of the scripts in the script cache.",
        "FLUSH [ASYNC|SYNC]",
        "    Flush the Lua scripts cache. Very dangerous on replicas.",
        "    When called without the optional mode argument, the behavior is determined by the",
        "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
        "    * ASYNC: Asynchronously flush the scripts cache.",
        "    * SYNC: Synchronously flush the scripts cache.",
        "KILL",
        "    Kill the currently executing Lua script.",
        "LOAD <script>",
        "    Load a script into the scripts cache without executing it.",
    ])
}

const SCRIPT_KILL: Entry = Entry {
    name: "kill",
    summary: "Terminates a server-side Lua script during execution.",
    arity: 2,
    flags: &[NoScript, AllowBusy],
    mode: Mode::Session,
    tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
    reply: Shape::OK,
    run: Run::Function(script_kill),
    ..SUBCOMMAND
};

fn script_kill(ctx: &mut Ctx) -> CommandResult {
    busy::kill(ctx, SlowKind::Script)
}

const SCRIPT_LOAD: Entry = Entry {
    name: "load",
    summary: "Loads a server-side Lua script to the script cache.",
    complexity: "O(N) with N being the length in bytes of the script body.",
    arity: 3,
    flags: &[NoScript, Stale],
    args: &[string("script")],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    reply: Shape::Bulk,
    run: Run::Function(script_load),
    ..SUBCOMMAND
};

fn script_load(ctx: &mut Ctx) -> CommandResult {
    let host = &mut *ctx.host;
    match host.script(&Wanted::Source(ctx.args[2])) {
        Ok(script) => {
            let script = host.shared.scripts.cache().insert(script, script::Origin::Load);
            ctx.reply.bulk(script.sha().as_str().as_bytes());
            Ok(())
        }
        Err(failure) => refuse_source(ctx, failure),
    }
}
