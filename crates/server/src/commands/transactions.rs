//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! EXEC enters the shards of all queued commands and of all watched keys together, so that nothing can change between
//! checking the watched keys and running the commands.
//!
//! Inside a shard nothing waits. So commands that wait for answers of other threads run after the last command that
//! needs a shard. The commands after it run in order with them, each when the previous one has its answers. EXEC
//! replies when all commands have.

use acl::{Context, Lack, Reason};
use clients::session::{Executing, Multi, Session};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Client, CommandError, CommandId, CommandResult, Due, Group, KeySpec, Mode, Outcome, OwnedArgs,
    Route, Rule, Shape, Tx, key,
};
use observe::{Call, RequestSource};
use resp::{Output, Reply};
use shard::ShardId;

use crate::commands::own::{Ctx, Entry, Run};
use crate::life::admit::asks_threads;
use crate::life::giving_way::give_way_if_due;
use crate::thread::{ThreadHost, running};

/// The transaction commands.
pub(crate) const ENTRIES: &[Entry] = &[DISCARD, EXEC, MULTI, UNWATCH, WATCH];

/// The part of the entries that these commands share, except EXEC.
const COMMAND: Entry = Entry {
    group: Group::Transactions,
    flags: &[NoScript, Loading, Stale, Fast, AllowBusy],
    acl: &[Acl::Transaction],
    mode: Mode::Session,
    reply: Shape::OK,
    ..Entry::DEFAULT
};

const MULTI: Entry = Entry {
    name: "multi",
    summary: "Starts a transaction.",
    since: "1.2.0",
    arity: 1,
    rules: &[Rule::RunsInMulti, Rule::BeginsMulti],
    run: Run::Function(multi),
    ..COMMAND
};

fn multi(ctx: &mut Ctx) -> CommandResult {
    let session = ctx.host.session();
    if session.multi.is_some() {
        return Err(CommandError::new("ERR MULTI calls can not be nested"));
    }
    session.multi = Some(Multi::default());
    ctx.reply.ok();
    Ok(())
}

const DISCARD: Entry = Entry {
    name: "discard",
    summary: "Discards a transaction.",
    complexity: "O(N), when N is the number of queued commands",
    since: "2.0.0",
    arity: 1,
    rules: &[Rule::RunsInMulti, Rule::EndsMulti],
    run: Run::Function(discard),
    ..COMMAND
};

fn discard(ctx: &mut Ctx) -> CommandResult {
    let host = &mut *ctx.host;
    if host.session().multi.take().is_none() {
        return Err(CommandError::new("ERR DISCARD without MULTI"));
    }
    running(&mut host.current).end_watches(&mut host.background.stale_watches);
    ctx.reply.ok();
    Ok(())
}

const WATCH: Entry = Entry {
    name: "watch",
    summary: "Monitors changes to keys to determine the execution of a transaction.",
    complexity: "O(1) for every key.",
    since: "2.2.0",
    arity: -2,
    keys: &[KeySpec::range(1, -1, 1, &[RO])],
    args: &[key("key", 0).multiple()],
    rules: &[Rule::RunsInMulti],
    run: Run::Function(watch),
    ..COMMAND
};

fn watch(ctx: &mut Ctx) -> CommandResult {
    let session = ctx.host.session();
    if session.multi.is_some() {
        return Err(CommandError::new("ERR WATCH inside MULTI is not allowed"));
    }
    let db = ctx.store.client.db;
    for &key in &ctx.args[1..] {
        if !session.watching.add(db, key) {
            continue;
        }
        let (id, hash) = ctx.store.locate(key);
        let now = ctx.store.now();
        let record = ctx.store.tx.hold.shard(id).dbs[db as usize].find(hash, key);
        let is_gone = record.is_some_and(|record| record.expired(now));
        let is_deleted = is_gone && ctx.store.tx.due() == Due::Delete;
        if is_deleted {
            // A client that deletes it later would seem to have changed it.
            ctx.store.delete_expired(key);
        }
        let flag = &session.watching.flag;
        ctx.store.tx.hold.shard_mut(id).watches.add(db, key, flag, is_gone && !is_deleted);
    }
    ctx.reply.ok();
    Ok(())
}

const UNWATCH: Entry = Entry {
    name: "unwatch",
    summary: "Forgets about watched keys of a transaction.",
    since: "2.2.0",
    arity: 1,
    run: Run::Function(unwatch),
    ..COMMAND
};

fn unwatch(ctx: &mut Ctx) -> CommandResult {
    running(&mut ctx.host.current).end_watches(&mut ctx.host.background.stale_watches);
    ctx.reply.ok();
    Ok(())
}

const EXEC: Entry = Entry {
    name: "exec",
    summary: "Executes all commands in a transaction.",
    complexity: "Depends on commands in the transaction",
    since: "1.2.0",
    group: Group::Transactions,
    arity: 1,
    flags: &[NoScript, Loading, Stale, SkipSlowlog],
    rules: &[Rule::RunsInMulti],
    acl: &[Acl::Transaction],
    route: Route::Queued,
    mode: Mode::Session,
    reply: Shape::OneOf(&[Shape::Array(&Shape::Any), Shape::Null]),
    run: Run::Function(exec),
    ..Entry::DEFAULT
};

fn exec(ctx: &mut Ctx) -> CommandResult {
    let host = &mut *ctx.host;
    if host.session().multi.is_none() {
        return Err(CommandError::new("ERR EXEC without MULTI"));
    }
    let changed = host.session().watching.flag.is_raised() || watched_key_expired(ctx);
    let host = &mut *ctx.host;
    let multi = host.session().multi.take().expect("looked at above");
    if multi.refused || changed {
        running(&mut host.current).end_watches(&mut host.background.stale_watches);
        if multi.refused {
            return Err(CommandError::EXEC_ABORTED);
        }
        ctx.reply.null_array();
        return Ok(());
    }
    let client = host.session().client;
    host.scripts.lua.renew_libraries();
    let table = ctx.store.tx.table;
    if multi.queued.iter().any(|(id, _)| asks_threads(table.get(*id))) {
        return exec_asking(ctx, multi);
    }
    ctx.reply.array(multi.queued.len());
    for (id, args) in &multi.queued {
        give_way_if_due(ctx.host);
        if let Outcome::Again(ids) = run_queued(ctx.store.tx, ctx.host, *id, args, ctx.reply.out()) {
            return Err(begin_again(ctx.host.session(), multi, client, ids));
        }
    }
    running(&mut ctx.host.current).end_watches(&mut ctx.host.background.stale_watches);
    Ok(())
}

/// Runs the whole transaction again with more shards, in the same database: a script needs them, and nothing was
/// written.
fn begin_again(session: &mut Session, multi: Multi, client: Client, ids: Box<[ShardId]>) -> CommandError {
    session.client = client;
    session.multi = Some(multi);
    CommandError::again(ids)
}

/// Executes commands, some of which ask other threads.
fn exec_asking(ctx: &mut Ctx, multi: Multi) -> CommandResult {
    let client = ctx.host.session().client;
    let ThreadHost { current, scripts, shared, .. } = &mut *ctx.host;
    let behind_shards = shared.judge().behind_shards(running(current), &mut scripts.lua, &multi);
    let mut executing = Executing::new(multi);
    for index in 0..behind_shards {
        let (id, args) = &executing.multi().queued[index];
        if asks_threads(ctx.store.tx.table.get(*id)) {
            continue;
        }
        let mut reply = Output::new();
        give_way_if_due(ctx.host);
        if let Outcome::Again(ids) = run_queued(ctx.store.tx, ctx.host, *id, args, &mut reply) {
            return Err(begin_again(ctx.host.session(), executing.into_multi(), client, ids));
        }
        executing.set_reply(index, reply);
    }
    running(&mut ctx.host.current).end_watches(&mut ctx.host.background.stale_watches);
    run_rest(ctx.store.tx, ctx.host, Box::new(executing), ctx.reply.out());
    Ok(())
}

/// Runs the rest of a transaction, which needs no shard, until a command waits for answers. If no command waits, EXEC
/// replies to `out`.
pub(crate) fn run_rest(
    tx: &mut Tx<'_>,
    host: &mut ThreadHost,
    mut executing: Box<Executing>,
    out: &mut Output,
) {
    while let Some((index, (id, args))) = executing.next() {
        let mut reply = Output::new();
        let outcome = run_queued(tx, host, *id, args, &mut reply);
        debug_assert!(!matches!(outcome, Outcome::Again(_)), "scripts have run with their shards");
        match host.session().state.gather_for(executing) {
            Some(back) => executing = back,
            None => return,
        }
        executing.set_reply(index, reply);
    }
    executing.reply(&mut Reply::new(out, host.session().client.proto));
}

/// Whether a watched key has expired since it was watched.
fn watched_key_expired(ctx: &mut Ctx) -> bool {
    let watched = std::mem::take(&mut ctx.host.session().watching.keys);
    let flag = ctx.host.session().watching.flag.clone();
    let now = ctx.store.now();
    let placement = ctx.store.tx.hold.shards().placement();
    let expired = watched.iter().any(|(db, key)| {
        let (id, hash) = placement.locate(key);
        let shard = ctx.store.tx.hold.shard(id);
        let record = shard.dbs[*db as usize].find(hash, key);
        record.is_some_and(|record| record.expired(now)) && !shard.watches.was_gone(*db, key, &flag)
    });
    ctx.host.session().watching.keys = watched;
    expired
}

fn run_queued(
    tx: &mut Tx<'_>,
    host: &mut ThreadHost,
    id: CommandId,
    args: &OwnedArgs,
    reply: &mut Output,
) -> Outcome {
    let command = tx.table.get(id);
    let args = args.slices();
    let users = &host.shared.users;
    if host.session().access.needs_check(users)
        && let Err(lack) = host.permit_in(Context::Multi, command, &args)
    {
        let error = CommandError::new([LOST_PERMISSION, what_is_lost(lack)].concat());
        host.reports.accounting.stats().count_error(&error.code());
        Reply::new(reply, host.session().client.proto).error(error.text());
        return Outcome::Failed;
    }
    // A queued command may have selected a database or changed the protocol.
    let client = Client { deny_blocking: true, ..host.session().client };
    let mut out = Output::new();
    let started = host.net.driver.clock().ticks();
    let mark = out.mark();
    let mut outcome = tx.run(command, &args, &client, host, &mut out);
    let call = Call { command, args: &args, started, mark, out: &out, source: RequestSource::Kept };
    let ThreadHost { reports, current, net, shared, .. } = host;
    reports.count(&call, &client, &mut outcome, current.as_deref(), net.driver.clock());
    reports.monitor(command, &args, running(current), shared, net.driver.clock());
    debug_assert!(!matches!(outcome, Outcome::Blocked(_)), "queued commands do not block");
    reply.append(&mut out);
    outcome
}

const LOST_PERMISSION: &str = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the \
    EXEC call. This command is no longer allowed for the following reason: ";

fn what_is_lost(lack: Lack) -> &'static str {
    match lack {
        Lack::Authentication | Lack::User => "no permission",
        Lack::Permission(denied) => match denied.reason {
            Reason::Database => "no permission to access database",
            Reason::Command | Reason::Auth => "no permission to execute the command or subcommand",
            Reason::Key => "no permission to touch the specified keys",
            Reason::Channel => "no permission to access one of the channels used as argument to the command",
        },
    }
}
