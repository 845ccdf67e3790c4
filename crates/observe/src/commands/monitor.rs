//! MONITOR: shows the commands of all clients.

use engine::Flag::*;
use engine::{CommandError, CommandResult, Group, Mode, Shape};

use crate::observing::{Ctx, Entry, Run};

pub(super) const MONITOR: Entry = Entry {
    name: "monitor",
    summary: "Listens for all requests received by the server in real-time.",
    complexity: "",
    since: "1.0.0",
    group: Group::Server,
    arity: 1,
    flags: &[Admin, NoScript, Loading, Stale],
    mode: Mode::Session,
    reply: Shape::OK,
    run: Run::Function(monitor),
    ..Entry::DEFAULT
};

fn monitor(ctx: &mut Ctx) -> CommandResult {
    if ctx.store.client.deny_blocking {
        return Err(CommandError::new("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    if !std::mem::replace(&mut ctx.host.is_monitor, true) {
        ctx.reply.ok();
    }
    Ok(())
}
