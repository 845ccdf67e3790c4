//! Small commands of the server: TIME, LOLWUT, SHUTDOWN, SAVE and their like.

use std::sync::atomic::Ordering;

use command::Flag::*;
use command::{
    Acl, CommandError, CommandResult, Group, Mode, Route, Shape, integer, keyword_is, oneof, parse_i64, token,
};
use process::shutdown::How;
use resp::Reply;
use session::Part;

use crate::commands::own::{Ctx, Entry, Run};
use crate::journal::Keeper;
use crate::snapshot::save_settings;
use crate::version::REDIS_VERSION;

/// These commands.
pub(crate) const ENTRIES: &[Entry] = &[BGREWRITEAOF, BGSAVE, LASTSAVE, LOLWUT, SAVE, SHUTDOWN, TIME];

const TIME: Entry = Entry {
    name: "time",
    summary: "Returns the server time.",
    since: "2.6.0",
    group: Group::Server,
    arity: 1,
    flags: &[Loading, Stale, Fast],
    tips: &["nondeterministic_output"],
    reply: Shape::BULKS,
    run: Run::Function(time),
    ..Entry::DEFAULT
};

fn time(ctx: &mut Ctx) -> CommandResult {
    let now_us = ctx.host.driver.clock().now_us();
    ctx.reply.array(2);
    ctx.reply.bulk_int((now_us / 1_000_000) as i64);
    ctx.reply.bulk_int((now_us % 1_000_000) as i64);
    Ok(())
}

const LASTSAVE: Entry = Entry {
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
    let snapshots = &ctx.host.shared.snapshots;
    ctx.reply.int(snapshots.last_save_seconds() as i64);
    Ok(())
}

/// Darts that `LOLWUT` draws at most.
const DARTS_MAX: i64 = 200;

const LOLWUT: Entry = Entry {
    name: "lolwut",
    summary: "Displays computer art and the Redis version",
    complexity: "",
    since: "5.0.0",
    group: Group::Server,
    arity: -1,
    flags: &[ReadOnly, Fast],
    args: &[integer("version").token("VERSION").optional()],
    reply: Shape::Verbatim,
    run: Run::Function(lolwut),
    ..Entry::DEFAULT
};

/// As many darts as the first of the numbers says that versions 5 and 6 of it take.
fn lolwut(ctx: &mut Ctx) -> CommandResult {
    let mut count = 1;
    if let [word, version, numbers @ ..] = &ctx.args[1..]
        && keyword_is(word, "VERSION")
        && matches!(parse_i64(version)?, 5 | 6)
    {
        let numbers = numbers.iter().map(|number| parse_i64(number)).collect::<Result<Vec<_>, _>>()?;
        count = numbers.first().map_or(1, |count| (*count).clamp(1, DARTS_MAX) as usize);
    }
    let dart = "        ·\n      · ·\n  ━━━━━━━━━━━━▶\n      · ·\n        ·\n";
    ctx.reply.verbatim("txt", format!("{}Redis ver. {REDIS_VERSION}\n", dart.repeat(count)).as_bytes());
    Ok(())
}

const SHUTDOWN: Entry = Entry {
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
        token("abort", "ABORT").optional().since("7.0.0"),
    ],
    history: &[("7.0.0", "Added the `NOW`, `FORCE` and `ABORT` modifiers.")],
    reply: Shape::OK,
    run: Run::Function(shutdown),
    ..Entry::DEFAULT
};

/// There is no reply, the connection just ends, unless the shutdown fails: the client waits for that.
fn shutdown(ctx: &mut Ctx) -> CommandResult {
    let has = |word: &str| ctx.args[1..].iter().any(|arg| keyword_is(arg, word));
    let known = ["nosave", "save", "now", "force", "abort"];
    let is_known = |arg: &&[u8]| known.iter().any(|word| keyword_is(arg, word));
    let contradicts = (has("save") && has("nosave")) || (has("abort") && ctx.args.len() > 2);
    if contradicts || !ctx.args[1..].iter().all(is_known) {
        return Err(CommandError::SYNTAX);
    }
    let (may_wait, host) = (!ctx.store.client.deny_blocking, &mut *ctx.host);
    let shared = host.shared;
    if has("abort") {
        if !shared.shutdown.abort() {
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
    if !has("nosave") && shared.scripts.is_busy() {
        return Err(shared.scripts.busy_error());
    }
    let saves = if has("save") { Some(true) } else { has("nosave").then_some(false) };
    let failed =
        |_: Vec<Part>, reply: &mut Reply<'_>| reply.error("ERR Errors trying to SHUTDOWN. Check logs.");
    let asker = host.await_answer(Box::new(failed));
    shared.shut_down(How { saves, is_now: has("now"), is_forced: has("force") }, Some(asker));
    Ok(())
}

const SAVE: Entry = Entry {
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

/// The reply tells nothing of the data, unless those of other commands of a transaction do, which come with it.
fn tell_nothing(ctx: &mut Ctx) {
    if !ctx.store.client.deny_blocking {
        ctx.store.tx.tell_nothing();
    }
}

/// Everybody waits, as in Redis.
fn save(ctx: &mut Ctx) -> CommandResult {
    let shared = ctx.host.shared;
    if shared.snapshots.saving_rdb().is_some() {
        return Err(CommandError::new(IN_PROGRESS));
    }
    tell_nothing(ctx);
    shared.save(&ctx.store.tx.hold).map_err(|error| CommandError::new(format!("ERR {error}")))?;
    ctx.reply.ok();
    Ok(())
}

const IN_PROGRESS: &str = "ERR Background save already in progress";

const BGSAVE: Entry = Entry {
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

/// It needs all shards for the cut, and runs again with them. In a transaction, or with SCHEDULE while there is a checkpoint, it comes
/// when that is over.
fn bgsave(ctx: &mut Ctx) -> CommandResult {
    let may_wait = match &ctx.args[1..] {
        [] => false,
        [word] if keyword_is(word, "schedule") => true,
        _ => return Err(CommandError::SYNTAX),
    };
    let host = &mut *ctx.host;
    let shared = host.shared;
    if shared.snapshots.saving_rdb().is_some() {
        return Err(CommandError::new(IN_PROGRESS));
    }
    let must_wait = shared.snapshots.current().is_some();
    if must_wait && !may_wait {
        return Err(CommandError::fixed(REWRITE_IN_PROGRESS));
    }
    if must_wait || ctx.store.client.deny_blocking {
        shared.snapshots.is_scheduled.store(true, Ordering::Relaxed);
        ctx.reply.simple("Background saving scheduled");
        return Ok(());
    }
    if ctx.store.entered().len() < shared.shards.len() {
        return Err(CommandError::again(shared.shards.ids()));
    }
    tell_nothing(ctx);
    let settings = save_settings(&shared.settings, &shared.machine.disk);
    let begun = shared.save_in_background(&mut ctx.store.tx.hold, settings);
    begun.map_err(|error| CommandError::new(format!("ERR {error}")))?;
    ctx.reply.simple("Background saving started");
    Ok(())
}

const BGREWRITEAOF: Entry = Entry {
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

/// Like BGSAVE it needs all shards.
fn bgrewriteaof(ctx: &mut Ctx) -> CommandResult {
    let shared = ctx.host.shared;
    if !shared.journal.is_on() {
        return Err(CommandError::new("ERR There is no journal to rewrite: appendonly is no"));
    }
    if shared.journal.checkpoint_started_ms().is_some() {
        return Err(CommandError::new("ERR Background append only file rewriting already in progress"));
    }
    if shared.snapshots.current().is_some() || ctx.store.client.deny_blocking {
        shared.journal.is_scheduled.store(true, Ordering::Relaxed);
        ctx.reply.simple("Background append only file rewriting scheduled");
        return Ok(());
    }
    if ctx.store.entered().len() < shared.shards.len() {
        return Err(CommandError::again(shared.shards.ids()));
    }
    tell_nothing(ctx);
    let begun = Keeper(shared).begin_checkpoint(&mut ctx.store.tx.hold);
    begun.map_err(|error| CommandError::new(format!("ERR {error}")))?;
    ctx.reply.simple("Background append only file rewriting started");
    Ok(())
}
