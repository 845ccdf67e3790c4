//! CLIENT TRACKING, CACHING, GETREDIR, TRACKINGINFO: what a client that caches keys is told of their changes.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use command::{
    CommandError, CommandResult, Mode, Route, Shape, integer, keyword_is, oneof, parse_i64, string, token,
};
use shard::{Subscriber, Tracker};

use super::SUBCOMMAND;
use crate::commands::own::{Ctx, Entry, Run};
use crate::subscribers::caching::{Caching, ClientTracking};
use crate::thread::ThreadHost;

pub(super) const CLIENT_TRACKING: Entry = Entry {
    name: "tracking",
    summary: "Controls server-assisted client-side caching for the connection.",
    complexity: "O(1). Some options may introduce additional complexity.",
    since: "6.0.0",
    arity: -3,
    // Every shard knows the prefixes.
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
    let host = &mut *ctx.host;
    let Options { wanted, no_loop, prefixes } = Options::parse(&ctx.args[3..], host)?;
    match ctx.args[2] {
        word if keyword_is(word, "ON") => {
            let old = host.session().tracking.as_deref();
            check(&wanted, &prefixes, old)?;
            start(ctx, wanted, no_loop, &prefixes);
        }
        word if keyword_is(word, "OFF") => stop_tracking(ctx),
        _ => return Err(CommandError::SYNTAX),
    }
    ctx.reply.ok();
    Ok(())
}

struct Options<'a> {
    wanted: ClientTracking,
    no_loop: bool,
    prefixes: Vec<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(mut args: &'a [&'a [u8]], host: &ThreadHost) -> Result<Options<'a>, CommandError> {
        let mut options = Options { wanted: ClientTracking::default(), no_loop: false, prefixes: Vec::new() };
        while let [word, after @ ..] = args {
            let is = |name| keyword_is(word, name);
            args = after;
            match after {
                [id, rest @ ..] if is("redirect") => {
                    if options.wanted.redirect != 0 {
                        let text = "ERR A client can only redirect to a single other client";
                        return Err(CommandError::fixed(text));
                    }
                    let id = parse_i64(id)? as u64;
                    if !host.shared.clients().contains_key(&id) {
                        let text = "ERR The client ID you want redirect to does not exist";
                        return Err(CommandError::fixed(text));
                    }
                    options.wanted.redirect = id;
                    args = rest;
                }
                [prefix, rest @ ..] if is("prefix") => {
                    options.prefixes.push(prefix);
                    args = rest;
                }
                _ if is("bcast") => options.wanted.broadcasts = true,
                _ if is("optin") => options.wanted.opts_in = true,
                _ if is("optout") => options.wanted.opts_out = true,
                _ if is("noloop") => options.no_loop = true,
                _ => return Err(CommandError::SYNTAX),
            }
        }
        Ok(options)
    }
}

/// Refuses what does not go together, or with what was asked for before.
fn check(wanted: &ClientTracking, prefixes: &[&[u8]], old: Option<&ClientTracking>) -> CommandResult {
    let text = match old {
        _ if !wanted.broadcasts && !prefixes.is_empty() => {
            "ERR PREFIX option requires BCAST mode to be enabled"
        }
        Some(old) if old.broadcasts != wanted.broadcasts => {
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode."
        }
        _ if wanted.broadcasts && (wanted.opts_in || wanted.opts_out) => {
            "ERR OPTIN and OPTOUT are not compatible with BCAST"
        }
        _ if wanted.opts_in && wanted.opts_out => "ERR You can't specify both OPTIN mode and OPTOUT mode",
        Some(old) if wanted.opts_in && old.opts_out || wanted.opts_out && old.opts_in => {
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode."
        }
        _ => {
            return old.map_or(check_prefixes(prefixes, &BTreeSet::new()), |old| {
                check_prefixes(prefixes, &old.prefixes)
            });
        }
    };
    Err(CommandError::fixed(text))
}

/// No prefix may be the beginning of another: its keys would be told of twice.
fn check_prefixes(prefixes: &[&[u8]], known: &BTreeSet<Box<[u8]>>) -> CommandResult {
    let overlaps = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    let error = |prefix: &[u8], kind: &str, other: &[u8]| {
        let parts: [&[u8]; 6] = [
            b"ERR Prefix '",
            prefix,
            kind.as_bytes(),
            b" prefix '",
            other,
            b"'. Prefixes for a single client must not overlap.",
        ];
        Err(CommandError::new(parts.concat()))
    };
    for (index, prefix) in prefixes.iter().enumerate() {
        if let Some(other) = known.iter().find(|other| overlaps(prefix, other)) {
            return error(prefix, "' overlaps with an existing", other);
        }
        if let Some(other) = prefixes[index + 1..].iter().find(|other| overlaps(prefix, other)) {
            return error(prefix, "' overlaps with another provided", other);
        }
    }
    Ok(())
}

fn start(ctx: &mut Ctx, wanted: ClientTracking, no_loop: bool, prefixes: &[&[u8]]) {
    let host = &mut *ctx.host;
    let session = host.session();
    let known = session.tracking.take().map(|old| old.prefixes);
    if known.is_none() {
        host.shared.tracking_count.fetch_add(1, Ordering::Relaxed);
    }
    let session = host.session();
    let mut all = known.unwrap_or_default();
    if wanted.broadcasts {
        all.extend(prefixes.iter().map(|prefix| Box::from(*prefix)));
        if prefixes.is_empty() {
            all.insert(Box::default());
        }
    }
    session.client.no_loop = no_loop;
    let client = session.client;
    let subscriber = Subscriber { thread: client.thread, connection: client.connection };
    let tracker = Tracker { client: client.id, subscriber, no_loop };
    session.tracking = Some(Box::new(ClientTracking { prefixes: all.clone(), ..wanted }));
    session.note_tracking();
    for id in ctx.store.entered() {
        let tracking = &mut ctx.store.tx.hold.shard_mut(id).tracking;
        all.iter().for_each(|prefix| tracking.add_prefix(prefix, tracker));
    }
}

/// Ends what the client tracks. If it broadcasts, all shards must be entered.
pub(crate) fn stop_tracking(ctx: &mut Ctx) {
    let host = &mut *ctx.host;
    let session = host.session();
    let Some(tracking) = session.tracking.take() else { return };
    session.client.no_loop = false;
    session.note_tracking();
    let subscriber = Subscriber { thread: session.client.thread, connection: session.client.connection };
    host.shared.tracking_count.fetch_sub(1, Ordering::Relaxed);
    if tracking.broadcasts {
        for id in ctx.store.entered() {
            ctx.store.tx.hold.shard_mut(id).tracking.remove_prefixes(subscriber);
        }
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
    let session = ctx.host.session();
    let Some(tracking) = &mut session.tracking else {
        let text = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled";
        return Err(CommandError::fixed(text));
    };
    let text = match ctx.args[2] {
        word if keyword_is(word, "YES") && !tracking.opts_in => {
            "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."
        }
        word if keyword_is(word, "NO") && !tracking.opts_out => {
            "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."
        }
        word if keyword_is(word, "YES") || keyword_is(word, "NO") => {
            tracking.caching = Caching::Next;
            session.note_tracking();
            ctx.reply.ok();
            return Ok(());
        }
        _ => return Err(CommandError::SYNTAX),
    };
    Err(CommandError::fixed(text))
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
    let id = ctx.host.session().redirects_to();
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
    let host = &mut *ctx.host;
    let redirect = host.session().redirects_to();
    let no_loop = host.session().client.no_loop;
    let tracking = host.session().tracking.clone().unwrap_or_default();
    let is_on = redirect >= 0;
    let is_broken = redirect > 0 && !host.shared.clients().contains_key(&tracking.redirect);
    let is_said = tracking.caching != Caching::Unsaid;
    let flags = [
        ("off", !is_on),
        ("on", is_on),
        ("bcast", tracking.broadcasts),
        ("optin", tracking.opts_in),
        ("caching-yes", tracking.opts_in && is_said),
        ("optout", tracking.opts_out),
        ("caching-no", tracking.opts_out && is_said),
        ("noloop", no_loop),
        ("broken_redirect", is_broken),
    ];
    ctx.reply.map(3);
    ctx.reply.bulk(b"flags");
    ctx.reply.set(flags.iter().filter(|(_, is_set)| *is_set).count());
    for (flag, _) in flags.iter().filter(|(_, is_set)| *is_set) {
        ctx.reply.bulk(flag.as_bytes());
    }
    ctx.reply.bulk(b"redirect");
    ctx.reply.int(redirect);
    ctx.reply.bulk(b"prefixes");
    ctx.reply.array(tracking.prefixes.len());
    tracking.prefixes.iter().for_each(|prefix| ctx.reply.bulk(prefix));
    Ok(())
}
