//! The commands: calls of scripts and functions, SCRIPT and FUNCTION.

mod calls;
mod function;
mod script;

use engine::CommandResult;
use resp::Reply;

use crate::host::ScriptThread;
use crate::program::Failure;
use crate::slow::SlowKind;

pub use function::{Change, change_of};

/// The context of one of this crate's commands.
type Ctx<'a, 't, 'h> = engine::Ctx<'a, 't, ScriptThread<'h>>;
/// The function of one of this crate's commands.
pub type Function = fn(&mut Ctx<'_, '_, '_>) -> CommandResult;
/// The declaration of one of this crate's commands.
pub type Entry = engine::Entry<Function>;
/// How one of this crate's commands is run.
type Run = engine::Run<Function>;

/// The scripting commands.
pub const ENTRIES: &[Entry] = &[
    calls::EVAL,
    calls::EVALSHA,
    calls::EVALSHA_RO,
    calls::EVAL_RO,
    calls::FCALL,
    calls::FCALL_RO,
    function::FUNCTION,
    script::SCRIPT,
];

/// Replies why a source is not a valid script or library.
fn refuse_source(ctx: &mut Ctx, failure: Failure) -> CommandResult {
    match failure {
        Failure::Command(error) => return Err(error),
        Failure::Source(error) => error.write(&mut ctx.reply),
    }
    Ok(())
}

/// `SCRIPT KILL` and `FUNCTION KILL`.
fn kill(ctx: &mut Ctx, kind: SlowKind) -> CommandResult {
    let scripts = ctx.host.states().scripts;
    let kill = move |reply: &mut Reply<'_>| {
        scripts.kill(kind)?;
        reply.ok();
        Ok(())
    };
    once_scripts_passed(ctx, kill)
}

/// Writes `answer` as the reply. If no script is slow and the client may wait, replies later: when every
/// script that runs now has ended or is slow. That is when Redis would get to the command.
fn once_scripts_passed(
    ctx: &mut Ctx,
    answer: impl FnOnce(&mut Reply<'_>) -> CommandResult + Send + 'static,
) -> CommandResult {
    if !ctx.may_block() || ctx.host.states().scripts.is_busy() {
        return answer(&mut ctx.reply);
    }
    ctx.host.answer = Some(Box::new(answer));
    Ok(())
}
