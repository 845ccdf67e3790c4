//! CLIENT TRACKING, CACHING, GETREDIR, TRACKINGINFO: invalidation of keys that a client caches.
//!
//! This file has the entries, and connects the client's session with its shards. `pubsub::ClientTracking` has the
//! options and their meaning.

use engine::{CommandError, CommandResult, Mode, Route, Shape, integer, keyword_is, oneof, string, token};
use pubsub::{ClientTracking, TrackingRequest};
use shard::Tracker;

use super::SUBCOMMAND;
use crate::{Ctx, Entry, Run};

pub(super) const CLIENT_TRACKING: Entry = Entry {
    name: "tracking",
    summary: "Controls server-assisted client-side caching for the connection.",
    complexity: "O(1). Some options may introduce additional complexity.",
    since: "6.0.0",
    arity: -3,
    // The prefixes are known to every shard.
    route: Route::Global,
    mode: Mode::Session,
    args: &[
        oneof("status", &[token("on", "ON"), token("off", "OFF")]),
        integer("client-id").token("REDIRECT").optional(),
        string("prefix").token("PREFIX").optional().multiple_token(),
        token("bcast", "BCAST").optional(),
        token("optin", "OPTIN").optional(),
        token("optout", "OPTOUT").optional(),
        token("noloop", "NOLOOP").optional(),
    ],
    reply: Shape::OK,
    run: Run::Function(client_tracking),
    ..SUBCOMMAND
};

fn client_tracking(ctx: &mut Ctx) -> CommandResult {
    let registry = ctx.host.server.registry;
    let request = TrackingRequest::parse(&ctx.args[3..], |id| registry.place(id).is_some())?;
    match ctx.args[2] {
        word if keyword_is(word, "ON") => {
            request.check(ctx.host.session.tracking.as_deref())?;
            start(ctx, request);
        }
        word if keyword_is(word, "OFF") => stop_tracking(ctx),
        _ => return Err(CommandError::SYNTAX),
    }
    ctx.reply.ok();
    Ok(())
}

fn start(ctx: &mut Ctx, request: TrackingRequest) {
    let host = &mut *ctx.host;
    let directory = host.server.directory;
    let session = &mut *host.session;
    let old = session.tracking.take();
    if old.is_none() {
        directory.begin_tracking();
    }
    session.client.no_loop = request.no_loop;
    let tracker = Tracker { client: session.client.id, subscriber: session.client.subscriber() };
    let tracking = Box::new(request.follow(old.as_deref(), ctx.store.entered().len()));
    let known = old.as_deref().map(|old| &old.prefixes);
    let is_new = |prefix: &[u8]| known.is_none_or(|known| !known.contains(prefix));
    let mut new = tracking.prefixes.iter().filter(|prefix| is_new(prefix)).peekable();
    if new.peek().is_some() {
        ctx.store.tx.hold.change_prefixes(|known| new.for_each(|prefix| known.add(prefix, tracker)));
    }
    session.tracking = Some(tracking);
    session.note_tracking();
}

/// Ends tracking for the client. If it broadcasts, all shards must be entered.
pub fn stop_tracking(ctx: &mut Ctx) {
    let host = &mut *ctx.host;
    let session = &mut *host.session;
    let Some(tracking) = session.tracking.take() else { return };
    session.client.no_loop = false;
    session.note_tracking();
    let subscriber = session.client.subscriber();
    host.server.directory.end_tracking();
    if tracking.broadcasts {
        ctx.store.tx.hold.change_prefixes(|known| known.remove(&[subscriber]));
    }
}

pub(super) const CLIENT_CACHING: Entry = Entry {
    name: "caching",
    summary: "Instructs the server whether to track the keys in the next request.",
    since: "6.0.0",
    arity: 3,
    args: &[oneof("mode", &[token("yes", "YES"), token("no", "NO")])],
    reply: Shape::OK,
    run: Run::Function(client_caching),
    ..SUBCOMMAND
};

fn client_caching(ctx: &mut Ctx) -> CommandResult {
    let session = &mut *ctx.host.session;
    let Some(tracking) = &mut session.tracking else {
        let text = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled";
        return Err(CommandError::fixed(text));
    };
    tracking.say_caching(ctx.args[2])?;
    session.note_tracking();
    ctx.reply.ok();
    Ok(())
}

pub(super) const CLIENT_GETREDIR: Entry = Entry {
    name: "getredir",
    summary: "Returns the client ID to which the connection's tracking notifications are redirected.",
    since: "6.0.0",
    arity: 2,
    reply: Shape::Int,
    run: Run::Function(client_getredir),
    ..SUBCOMMAND
};

fn client_getredir(ctx: &mut Ctx) -> CommandResult {
    let id = ClientTracking::redirect_of(ctx.host.session.tracking.as_deref());
    ctx.reply.int(id);
    Ok(())
}

pub(super) const CLIENT_TRACKINGINFO: Entry = Entry {
    name: "trackinginfo",
    summary: "Returns information about server-assisted client-side caching for the connection.",
    since: "6.2.0",
    arity: 2,
    reply: Shape::Map(&Shape::Bulk, &Shape::OneOf(&[Shape::Set(&Shape::Bulk), Shape::Int, Shape::BULKS])),
    run: Run::Function(client_trackinginfo),
    ..SUBCOMMAND
};

fn client_trackinginfo(ctx: &mut Ctx) -> CommandResult {
    let registry = ctx.host.server.registry;
    let session = &mut *ctx.host.session;
    let is_client = |id| registry.place(id).is_some();
    ClientTracking::write_info(
        session.tracking.as_deref(),
        session.client.no_loop,
        is_client,
        &mut ctx.reply,
    );
    Ok(())
}
