//! DARTER.PAUSE: the effect of QUEUE PAUSE and QUEUE RESUME.
//!
//! Redis' protocol has no such commands, so this one carries the change to the journal and to replicas.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{Acl, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, integer, key, parse_i64, pause};

pub(super) const DARTER_PAUSE: Entry = Entry {
    name: "darter.pause",
    summary: "Pauses or resumes a queue.",
    since: "",
    group: Group::Queue,
    arity: 3,
    flags: &[Write, Fast],
    acl: &[Acl::Queue, Acl::Dangerous],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[key("queue", 0), integer("paused")],
    reply: Shape::Int,
    note: "Internal to Darter, for its journal and replicas; 0 resumes, another number pauses",
    run: Run::Function(darter_pause),
    ..Entry::DEFAULT
};

fn darter_pause(ctx: &mut Ctx) -> CommandResult {
    let is_paused = parse_i64(ctx.args[2])? != 0;
    let has_changed = pause(&mut ctx.store, ctx.args[1], is_paused)?;
    ctx.reply.int(has_changed.into());
    Ok(())
}
