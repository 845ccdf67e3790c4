//! SCRIPT: the script cache that all threads share, and SCRIPT KILL.

use engine::Flag::*;
use engine::{Acl, CommandError, CommandResult, Group, Mode, Rule, Shape, keyword_is, oneof, string, token};
use lua::{Origin, Sha1Hex};

use super::{Ctx, Entry, Run, kill, refuse_source};
use crate::program::Wanted;
use crate::slow::SlowKind;

pub(super) const SCRIPT: Entry = Entry {
    name: "script",
    summary: "A container for Lua scripts management commands.",
    complexity: "Depends on subcommand.",
    since: "2.6.0",
    group: Group::Scripting,
    arity: -2,
    subcommands: &[
        SCRIPT_DEBUG,
        SCRIPT_EXISTS,
        SCRIPT_FLUSH,
        SCRIPT_HELP,
        SCRIPT_KILL,
        SCRIPT_LOAD,
        SCRIPT_SHOW,
    ],
    ..Entry::DEFAULT
};

/// The declaration that all subcommands share.
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
    let cache = ctx.host.states().scripts.cache();
    ctx.reply.array(ctx.args.len() - 2);
    for name in &ctx.args[2..] {
        let known = Sha1Hex::parse(name).is_some_and(|sha| cache.get(&sha).is_some());
        ctx.reply.int(i64::from(known));
    }
    Ok(())
}

const SCRIPT_FLUSH: Entry = Entry {
    name: "flush",
    summary: "Removes all server-side Lua scripts from the script cache.",
    complexity: "O(N) with N being the number of scripts in cache",
    arity: -2,
    rules: &[Rule::LeavesNothing],
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
    ctx.host.states().scripts.cache().flush();
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
        "SHOW <sha1>",
        "    Show a script from the scripts cache.",
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
    kill(ctx, SlowKind::Script)
}

const SCRIPT_LOAD: Entry = Entry {
    name: "load",
    summary: "Loads a server-side Lua script to the script cache.",
    complexity: "O(N) with N being the length in bytes of the script body.",
    arity: 3,
    flags: &[NoScript, Stale],
    rules: &[Rule::LeavesNothing],
    args: &[string("script")],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    reply: Shape::Bulk,
    run: Run::Function(script_load),
    ..SUBCOMMAND
};

fn script_load(ctx: &mut Ctx) -> CommandResult {
    let states = ctx.host.states();
    match states.script(&Wanted::Source(ctx.args[2])) {
        Ok(script) => {
            let script = script.clone();
            let script = states.scripts.cache().insert(script, Origin::Load);
            ctx.reply.bulk(script.sha().as_str().as_bytes());
            Ok(())
        }
        Err(failure) => refuse_source(ctx, failure),
    }
}

const SCRIPT_SHOW: Entry = Entry {
    name: "show",
    summary: "Show server-side Lua script in the script cache.",
    complexity: "O(1).",
    since: "8.0.0",
    arity: 3,
    args: &[string("sha1")],
    reply: Shape::Bulk,
    run: Run::Function(script_show),
    ..SUBCOMMAND
};

fn script_show(ctx: &mut Ctx) -> CommandResult {
    let found = Sha1Hex::parse(ctx.args[2]).and_then(|sha| ctx.host.states().scripts.cache().get(&sha));
    let script = found.ok_or(CommandError::NO_SCRIPT)?;
    ctx.reply.bulk(script.source());
    Ok(())
}
