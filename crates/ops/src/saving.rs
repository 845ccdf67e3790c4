//! SAVE, BGSAVE, BGREWRITEAOF and LASTSAVE.
//!
//! Not here: how data is saved (`persistence`).

use std::sync::atomic::Ordering;

use engine::Flag::*;
use engine::{Acl, CommandError, CommandResult, Group, Mode, Route, Shape, keyword_is, token};

use crate::{Ctx, Entry, OperatorTask, Run};

pub(crate) const LASTSAVE: Entry = Entry {
    name: "lastsave",
    summary: "Returns the Unix timestamp of the last successful save to disk.",
    since: "1.0.0",
    group: Group::Server,
    arity: 1,
    flags: &[Loading, Stale, Fast],
    acl: &[Acl::Admin, Acl::Dangerous],
    tips: &["nondeterministic_output"],
    reply: Shape::Int,
    run: Run::Function(lastsave),
    ..Entry::DEFAULT
};

fn lastsave(ctx: &mut Ctx) -> CommandResult {
    let snapshots = ctx.host.server.snapshots;
    ctx.reply.int(snapshots.last_save_seconds() as i64);
    Ok(())
}

pub(crate) const SAVE: Entry = Entry {
    name: "save",
    summary: "Synchronously saves the database(s) to disk.",
    complexity: "O(N) where N is the total number of keys in all databases",
    since: "1.0.0",
    group: Group::Server,
    arity: 1,
    flags: &[Admin, NoScript, NoAsyncLoading, NoMulti],
    route: Route::Global,
    mode: Mode::Session,
    reply: Shape::OK,
    run: Run::Function(save),
    ..Entry::DEFAULT
};

/// Lets the reply be sent without waiting for the journal, since it contains no data. In a transaction the replies of
/// other commands may contain some, so that one waits.
fn tell_nothing(ctx: &mut Ctx) {
    if !ctx.store.client.deny_blocking {
        ctx.store.tx.tell_nothing();
    }
}

/// Blocks all clients, as in Redis.
fn save(ctx: &mut Ctx) -> CommandResult {
    if ctx.host.server.snapshots.saving_rdb().is_some() {
        return Err(CommandError::new(IN_PROGRESS));
    }
    tell_nothing(ctx);
    ctx.host.carry_out(ctx.store.tx, OperatorTask::Save)?;
    ctx.reply.ok();
    Ok(())
}

/// Asks to run again with all shards, unless they are entered.
fn lacks_shards(ctx: &Ctx) -> Option<CommandError> {
    let shards = ctx.store.tx.hold.shards();
    (ctx.store.entered().len() < shards.len()).then(|| CommandError::again(shards.ids()))
}

const IN_PROGRESS: &str = "ERR Background save already in progress";

pub(crate) const BGSAVE: Entry = Entry {
    name: "bgsave",
    summary: "Asynchronously saves the database(s) to disk.",
    since: "1.0.0",
    group: Group::Server,
    arity: -1,
    flags: &[Admin, NoScript, NoAsyncLoading],
    mode: Mode::Session,
    args: &[token("schedule", "SCHEDULE").optional().since("3.2.2")],
    history: &[("3.2.2", "Added the `SCHEDULE` option.")],
    reply: Shape::AnyStatus,
    run: Run::Function(bgsave),
    ..Entry::DEFAULT
};

const REWRITE_IN_PROGRESS: &str = "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a BGSAVE whenever possible.";

/// Needs all shards for a consistent state, and runs again with them. In a transaction, or with SCHEDULE during a
/// checkpoint, the save is scheduled for later.
fn bgsave(ctx: &mut Ctx) -> CommandResult {
    let may_wait = match &ctx.args[1..] {
        [] => false,
        [word] if keyword_is(word, "schedule") => true,
        _ => return Err(CommandError::SYNTAX),
    };
    let snapshots = ctx.host.server.snapshots;
    if snapshots.saving_rdb().is_some() {
        return Err(CommandError::new(IN_PROGRESS));
    }
    let must_wait = snapshots.current().is_some();
    if must_wait && !may_wait {
        return Err(CommandError::fixed(REWRITE_IN_PROGRESS));
    }
    if must_wait || ctx.store.client.deny_blocking {
        snapshots.is_scheduled.store(true, Ordering::Relaxed);
        ctx.reply.simple("Background saving scheduled");
        return Ok(());
    }
    if let Some(error) = lacks_shards(ctx) {
        return Err(error);
    }
    tell_nothing(ctx);
    ctx.host.carry_out(ctx.store.tx, OperatorTask::BeginSave)?;
    ctx.reply.simple("Background saving started");
    Ok(())
}

pub(crate) const BGREWRITEAOF: Entry = Entry {
    name: "bgrewriteaof",
    summary: "Asynchronously rewrites the append-only file to disk.",
    since: "1.0.0",
    group: Group::Server,
    arity: 1,
    flags: &[Admin, NoScript, NoAsyncLoading],
    mode: Mode::Session,
    reply: Shape::AnyStatus,
    run: Run::Function(bgrewriteaof),
    ..Entry::DEFAULT
};

/// Needs all shards, like BGSAVE.
fn bgrewriteaof(ctx: &mut Ctx) -> CommandResult {
    if !ctx.host.has_journal {
        return Err(CommandError::new("ERR There is no journal to rewrite: appendonly is no"));
    }
    if ctx.host.has_checkpoint {
        return Err(CommandError::new("ERR Background append only file rewriting already in progress"));
    }
    if ctx.host.server.snapshots.current().is_some() || ctx.store.client.deny_blocking {
        ctx.host.server.is_checkpoint_scheduled.store(true, Ordering::Relaxed);
        ctx.reply.simple("Background append only file rewriting scheduled");
        return Ok(());
    }
    if let Some(error) = lacks_shards(ctx) {
        return Err(error);
    }
    tell_nothing(ctx);
    ctx.host.carry_out(ctx.store.tx, OperatorTask::BeginCheckpoint)?;
    ctx.reply.simple("Background append only file rewriting started");
    Ok(())
}
