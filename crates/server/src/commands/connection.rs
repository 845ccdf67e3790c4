//! PING, ECHO, SELECT, RESET and QUIT.

use clients::session::ReplyMode;
use engine::Flag::*;
use engine::{
    Acl, CommandError, CommandResult, Databases, Group, Mode, Route, Rule, Shape, integer, parse_i64, string,
};
use proactor::ConnId;
use resp::Proto;

use crate::commands::own::{Ctx, Entry, Run};
use crate::subscribers::{deliver_before_reply, subscribing};
use crate::thread::running;

/// The connection commands.
pub(crate) const ENTRIES: &[Entry] = &[ECHO, PING, QUIT, RESET, SELECT];

const PING: Entry = Entry {
    name: "ping",
    summary: "Returns the server's liveliness response.",
    since: "1.0.0",
    group: Group::Connection,
    arity: -1,
    flags: &[Fast],
    rules: &[Rule::ForSubscribers, Rule::TellsOfFailedSaves, Rule::LeavesNothing],
    acl: &[Acl::Connection],
    args: &[string("message").optional()],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    reply: Shape::OneOf(&[Shape::Status("PONG"), Shape::Bulk, Shape::Array(&Shape::Bulk)]),
    run: Run::Function(ping),
    ..Entry::DEFAULT
};

fn ping(ctx: &mut Ctx) -> CommandResult {
    if ctx.args.len() > 2 {
        return Err(CommandError::wrong_arity("ping"));
    }
    let message = ctx.args.get(1).copied();
    let in_subscription = ctx.reply.proto() == Proto::Resp2 && ctx.host.session().is_subscriber();
    match message {
        _ if in_subscription => {
            ctx.reply.array(2);
            ctx.reply.bulk(b"pong");
            ctx.reply.bulk(message.unwrap_or_default());
        }
        Some(message) => ctx.reply.bulk(message),
        None => ctx.reply.simple("PONG"),
    }
    Ok(())
}

const ECHO: Entry = Entry {
    name: "echo",
    summary: "Returns the given string.",
    since: "1.0.0",
    group: Group::Connection,
    arity: 2,
    flags: &[Loading, Stale, Fast],
    acl: &[Acl::Connection],
    args: &[string("message")],
    reply: Shape::Bulk,
    run: Run::Function(echo),
    ..Entry::DEFAULT
};

fn echo(ctx: &mut Ctx) -> CommandResult {
    ctx.reply.bulk(ctx.args[1]);
    Ok(())
}

const QUIT: Entry = Entry {
    name: "quit",
    summary: "Closes the connection.",
    since: "1.0.0",
    group: Group::Connection,
    arity: -1,
    flags: &[NoScript, Loading, Stale, Fast, NoAuth, AllowBusy],
    rules: &[Rule::RunsInMulti, Rule::EndsMulti, Rule::ForSubscribers],
    acl: &[Acl::Connection],
    mode: Mode::Session,
    deprecated: Some(("7.2.0", "just closing the connection")),
    reply: Shape::OK,
    run: Run::Function(quit),
    ..Entry::DEFAULT
};

fn quit(ctx: &mut Ctx) -> CommandResult {
    ctx.host.session().close_after_reply = true;
    ctx.reply.ok();
    Ok(())
}

const RESET: Entry = Entry {
    name: "reset",
    summary: "Resets the connection.",
    since: "6.2.0",
    group: Group::Connection,
    arity: 1,
    flags: &[NoScript, Loading, Stale, Fast, NoAuth, AllowBusy],
    rules: &[Rule::RunsInMulti, Rule::EndsMulti, Rule::ForSubscribers],
    acl: &[Acl::Connection],
    // These are the channels to which the client was subscribed.
    route: Route::Channels(1),
    mode: Mode::Session,
    reply: Shape::Status("RESET"),
    run: Run::Function(reset),
    ..Entry::DEFAULT
};

fn reset(ctx: &mut Ctx) -> CommandResult {
    let (mut call, host) = ctx.split();
    deliver_before_reply(host, &mut call);
    pubsub::leave_all(&mut call.on(&mut subscribing(host)));
    let (call, host) = ctx.split();
    clients::stop_tracking(&mut call.on(&mut host.caller()));
    let host = &mut *ctx.host;
    running(&mut host.current).end_watches(&mut host.background.stale_watches);
    let mut session = host.current.take().expect("a command runs for a client");
    session.monitor = false;
    host.reports.monitors.remove(ConnId::from_bits(session.client.connection));
    session.multi = None;
    session.client.db = 0;
    session.client.proto = Proto::Resp2;
    session.client.no_touch = false;
    session.recipient = None;
    (session.follows_redirects, session.reads_here) = (false, false);
    session.no_evict = false;
    session.reply_mode = ReplyMode::On;
    (session.access, session.seat) = (host.shared.users.access(), None);
    session.client.reads_all_keys = true;
    session.name = Vec::new();
    host.current = Some(session);
    ctx.reply.simple("RESET");
    Ok(())
}

const SELECT: Entry = Entry {
    name: "select",
    summary: "Changes the selected database.",
    since: "1.0.0",
    group: Group::Connection,
    arity: 2,
    flags: &[Loading, Stale, Fast],
    rules: &[Rule::SelectsDb],
    acl: &[Acl::Connection],
    mode: Mode::Session,
    databases: Databases::Numbered(&[1]),
    args: &[integer("index")],
    reply: Shape::OK,
    run: Run::Function(select),
    ..Entry::DEFAULT
};

fn select(ctx: &mut Ctx) -> CommandResult {
    let index = parse_i64(ctx.args[1])?;
    let host = &mut *ctx.host;
    let database_count = host.shared.settings.databases();
    let db =
        u32::try_from(index).ok().filter(|db| *db < database_count).ok_or(CommandError::DB_OUT_OF_RANGE)?;
    host.session().client.db = db;
    ctx.reply.ok();
    Ok(())
}
