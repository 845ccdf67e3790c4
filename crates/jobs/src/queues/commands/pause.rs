//! QUEUE PAUSE and QUEUE RESUME: a paused queue looks empty to commands that take from it.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{Acl, CommandResult, Group, KeySpec, Shape, key};

use crate::queues::{Ctx, Entry, Run};

pub(super) const PAUSE: Entry = Entry {
    name: "pause",
    summary: "Pauses queues: commands that take from them find them empty; elements can still be added.",
    complexity: "O(N) where N is the number of queues",
    since: "7.2.0",
    group: Group::Queue,
    arity: -3,
    flags: &[Write, Fast],
    acl: &[Acl::Queue],
    keys: &[KeySpec::range(2, -1, 1, &[RW, Update])],
    args: &[key("queue", 0).multiple()],
    reply: Shape::Int,
    run: Run::Function(pause),
    ..Entry::DEFAULT
};

fn pause(ctx: &mut Ctx) -> CommandResult {
    set_paused(ctx, true)
}

pub(super) const RESUME: Entry = Entry {
    name: "resume",
    summary: "Resumes queues that were paused. Clients that wait for their elements get them.",
    run: Run::Function(resume),
    ..PAUSE
};

fn resume(ctx: &mut Ctx) -> CommandResult {
    set_paused(ctx, false)
}

fn set_paused(ctx: &mut Ctx, is_paused: bool) -> CommandResult {
    let mut changed = 0;
    for key in &ctx.args[2..] {
        changed += i64::from(engine::pause(&mut ctx.store, key, is_paused)?);
    }
    ctx.reply.int(changed);
    Ok(())
}
