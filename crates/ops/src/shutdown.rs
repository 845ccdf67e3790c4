//! SHUTDOWN: ends the server.
//!
//! Not here: the state of a shutdown (`process/shutdown.rs`), and what it waits for (`server/shutdown.rs`).

use engine::Flag::*;
use engine::{CommandError, CommandResult, Group, Mode, Shape, keyword_is, oneof, token};
use process::shutdown::How;

use crate::{Ctx, Entry, OperatorTask, Run};

pub(crate) const SHUTDOWN: Entry = Entry {
    name: "shutdown",
    summary: "Synchronously saves the database(s) to disk and shuts down the Redis server.",
    complexity: "O(N) when saving, where N is the total number of keys in all databases when saving data, otherwise O(1)",
    since: "1.0.0",
    group: Group::Server,
    arity: -1,
    flags: &[Admin, NoScript, Loading, Stale, NoMulti, AllowBusy],
    mode: Mode::Session,
    args: &[
        oneof("save-selector", &[token("nosave", "NOSAVE"), token("save", "SAVE")]).optional(),
        token("now", "NOW").optional().since("7.0.0"),
        token("force", "FORCE").optional().since("7.0.0"),
        token("safe", "SAFE").optional().since("9.0.0"),
        token("failover", "FAILOVER").optional().since("9.0.0"),
        token("abort", "ABORT").optional().since("7.0.0"),
    ],
    history: &[
        ("7.0.0", "Added the `NOW`, `FORCE` and `ABORT` modifiers."),
        ("9.0.0", "Added the `SAFE` and `FAILOVER` modifiers, as in Valkey."),
    ],
    reply: Shape::OK,
    run: Run::Function(shutdown),
    ..Entry::DEFAULT
};

/// On success the connection ends without a reply. If the shutdown fails, the waiting client gets an error.
fn shutdown(ctx: &mut Ctx) -> CommandResult {
    let has = |word: &str| ctx.args[1..].iter().any(|arg| keyword_is(arg, word));
    let known = ["nosave", "save", "now", "force", "safe", "failover", "abort"];
    let is_known = |arg: &&[u8]| known.iter().any(|word| keyword_is(arg, word));
    let contradicts = (has("save") && has("nosave")) || (has("abort") && ctx.args.len() > 2);
    if contradicts || !ctx.args[1..].iter().all(is_known) {
        return Err(CommandError::SYNTAX);
    }
    let may_wait = !ctx.store.client.deny_blocking;
    if has("abort") {
        if !ctx.host.server.shutdown.abort() {
            return Err(CommandError::new("ERR No shutdown in progress."));
        }
        tracing::info!("Shutdown manually aborted.");
        ctx.reply.ok();
        return Ok(());
    }
    if !may_wait && !has("now") {
        return Err(CommandError::new(
            "ERR SHUTDOWN without NOW or ABORT isn't allowed for DENY BLOCKING client",
        ));
    }
    if !has("nosave")
        && let Some(error) = ctx.host.busy_error.take()
    {
        return Err(error);
    }
    let saves = if has("save") { Some(true) } else { has("nosave").then_some(false) };
    let how = How {
        saves,
        is_now: has("now"),
        is_forced: has("force"),
        is_safe: has("safe"),
        fails_over: has("failover"),
    };
    ctx.host.carry_out(ctx.store.tx, OperatorTask::ShutDown(how))
}
