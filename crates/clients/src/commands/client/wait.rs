//! CLIENT PAUSE, UNPAUSE and UNBLOCK.

use crate::session::{Part, Subject};
use engine::Flag::*;
use engine::{
    CommandError, CommandResult, Rule, Shape, integer, keyword_is, oneof, parse_i64, parse_timeout_in_ms,
    token,
};
use resp::Reply;

use super::SUBCOMMAND;
use crate::{Ctx, Entry, Run};

const UNBLOCKED: CommandError = CommandError::fixed("UNBLOCKED client unblocked via CLIENT UNBLOCK");

pub(super) const CLIENT_PAUSE: Entry = Entry {
    name: "pause",
    summary: "Suspends commands processing.",
    since: "3.0.0",
    arity: -3,
    flags: &[Admin, NoScript, Loading, Stale],
    rules: &[Rule::KeepsCaching, Rule::AsksThreads],
    args: &[
        integer("timeout"),
        oneof("mode", &[token("write", "WRITE"), token("all", "ALL")]).optional().since("6.2.0"),
    ],
    history: &[("6.2.0", "`CLIENT PAUSE WRITE` mode added along with the `mode` option.")],
    reply: Shape::OK,
    run: Run::Function(client_pause),
    ..SUBCOMMAND
};

fn client_pause(ctx: &mut Ctx) -> CommandResult {
    let all = match &ctx.args[3..] {
        [] => true,
        [mode] if keyword_is(mode, "ALL") => true,
        [mode] if keyword_is(mode, "WRITE") => false,
        [_] => return Err(CommandError::new("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(CommandError::SYNTAX),
    };
    let pause_ms = parse_timeout_in_ms(ctx.args[2], ctx.store.now())?;
    ctx.host.ask(Subject::Pause { pause_ms, all }, Box::new(|_, reply: &mut Reply<'_>| reply.ok()));
    Ok(())
}

pub(super) const CLIENT_UNPAUSE: Entry = Entry {
    name: "unpause",
    summary: "Resumes processing commands from paused clients.",
    complexity: "O(N) Where N is the number of paused clients",
    since: "6.2.0",
    arity: 2,
    flags: &[Admin, NoScript, Loading, Stale],
    rules: &[Rule::KeepsCaching, Rule::AsksThreads],
    reply: Shape::OK,
    run: Run::Function(client_unpause),
    ..SUBCOMMAND
};

fn client_unpause(ctx: &mut Ctx) -> CommandResult {
    ctx.host.ask(Subject::EndPause, Box::new(|_, reply: &mut Reply<'_>| reply.ok()));
    Ok(())
}

pub(super) const CLIENT_UNBLOCK: Entry = Entry {
    name: "unblock",
    summary: "Unblocks a client blocked by a blocking command from a different connection.",
    complexity: "O(log N) where N is the number of client connections",
    since: "5.0.0",
    arity: -3,
    flags: &[Admin, NoScript, Loading, Stale],
    rules: &[Rule::KeepsCaching, Rule::AsksThreads],
    args: &[
        integer("client-id"),
        oneof("unblock-type", &[token("timeout", "TIMEOUT"), token("error", "ERROR")]).optional(),
    ],
    reply: Shape::Int,
    run: Run::Function(client_unblock),
    ..SUBCOMMAND
};

fn client_unblock(ctx: &mut Ctx) -> CommandResult {
    let error = match &ctx.args[3..] {
        [] => None,
        [reason] if keyword_is(reason, "TIMEOUT") => None,
        [reason] if keyword_is(reason, "ERROR") => Some(UNBLOCKED),
        [_] => return Err(CommandError::new("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
        _ => return Err(CommandError::SYNTAX),
    };
    let id = parse_i64(ctx.args[2])? as u64;
    let finish = |parts: Vec<Part>, reply: &mut Reply<'_>| reply.int(Part::total(&parts) as i64);
    ctx.host.ask(Subject::Unblock(id, error), Box::new(finish));
    Ok(())
}
