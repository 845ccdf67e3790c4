//! CLIENT: the subcommands about a connection itself. The subcommands about other connections, which live on all
//! threads, have files of their own beside this one.

mod filter;
mod handover;
mod kill;
mod list;
mod tracking;
mod wait;

pub(super) use handover::{READONLY, READWRITE};
pub use list::line;
pub use tracking::stop_tracking;

use crate::session::ReplyMode;
use engine::Flag::*;
use engine::{Acl, CommandError, CommandResult, Group, Mode, Rule, Shape, keyword_is, oneof, string, token};

use crate::{Ctx, Entry, Run};

pub(super) const CLIENT: Entry = Entry {
    name: "client",
    summary: "A container for client connection commands.",
    complexity: "Depends on subcommand.",
    since: "2.4.0",
    group: Group::Connection,
    arity: -2,
    subcommands: &[
        tracking::CLIENT_CACHING,
        handover::CLIENT_CAPA,
        CLIENT_GETNAME,
        tracking::CLIENT_GETREDIR,
        CLIENT_HELP,
        CLIENT_ID,
        list::CLIENT_INFO,
        kill::CLIENT_KILL,
        list::CLIENT_LIST,
        handover::CLIENT_MAINT_NOTIFICATIONS,
        CLIENT_NO_EVICT,
        CLIENT_NO_TOUCH,
        wait::CLIENT_PAUSE,
        CLIENT_REPLY,
        CLIENT_SETINFO,
        CLIENT_SETNAME,
        tracking::CLIENT_TRACKING,
        tracking::CLIENT_TRACKINGINFO,
        wait::CLIENT_UNBLOCK,
        wait::CLIENT_UNPAUSE,
    ],
    ..Entry::DEFAULT
};

/// The parts that all subcommands have in common.
const SUBCOMMAND: Entry = Entry {
    complexity: "O(1)",
    group: Group::Connection,
    flags: &[NoScript, Loading, Stale],
    rules: &[Rule::KeepsCaching],
    acl: &[Acl::Connection],
    mode: Mode::Session,
    ..Entry::DEFAULT
};

const CLIENT_ID: Entry = Entry {
    name: "id",
    summary: "Returns the unique client ID of the connection.",
    since: "5.0.0",
    arity: 2,
    reply: Shape::Int,
    run: Run::Function(client_id),
    ..SUBCOMMAND
};

fn client_id(ctx: &mut Ctx) -> CommandResult {
    ctx.reply.int(ctx.store.client.id as i64);
    Ok(())
}

const CLIENT_GETNAME: Entry = Entry {
    name: "getname",
    summary: "Returns the name of the connection.",
    since: "2.6.9",
    arity: 2,
    reply: Shape::BULK_OR_NULL,
    run: Run::Function(client_getname),
    ..SUBCOMMAND
};

fn client_getname(ctx: &mut Ctx) -> CommandResult {
    match ctx.host.session.name.as_slice() {
        [] => ctx.reply.null(),
        name => ctx.reply.bulk(name),
    }
    Ok(())
}

const CLIENT_SETNAME: Entry = Entry {
    name: "setname",
    summary: "Sets the connection name.",
    since: "2.6.9",
    arity: 3,
    args: &[string("connection-name")],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    reply: Shape::OK,
    run: Run::Function(client_setname),
    ..SUBCOMMAND
};

fn client_setname(ctx: &mut Ctx) -> CommandResult {
    ctx.host.session.name = valid_name(ctx.args[2])?.to_vec();
    ctx.host.note_label();
    ctx.reply.ok();
    Ok(())
}

/// Checks that a name has no spaces and control characters.
pub(super) fn valid_name(name: &[u8]) -> Result<&[u8], CommandError> {
    if !name.iter().all(u8::is_ascii_graphic) {
        return Err(CommandError::new(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ));
    }
    Ok(name)
}

const CLIENT_SETINFO: Entry = Entry {
    name: "setinfo",
    summary: "Sets information specific to the client or connection.",
    since: "7.2.0",
    arity: 4,
    args: &[oneof("attr", &[string("libname").token("LIB-NAME"), string("libver").token("LIB-VER")])],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    reply: Shape::OK,
    run: Run::Function(client_setinfo),
    ..SUBCOMMAND
};

fn client_setinfo(ctx: &mut Ctx) -> CommandResult {
    let (option, value) = (ctx.args[2], ctx.args[3]);
    let session = &mut *ctx.host.session;
    let place = if keyword_is(option, "LIB-NAME") {
        &mut session.lib_name
    } else if keyword_is(option, "LIB-VER") {
        &mut session.lib_version
    } else {
        return Err(CommandError::quoting("ERR Unrecognized option '", option, "'"));
    };
    if !value.iter().all(u8::is_ascii_graphic) {
        let why = " cannot contain spaces, newlines or special characters.";
        return Err(CommandError::quoting("ERR ", option, why));
    }
    *place = value.to_vec();
    ctx.host.note_label();
    ctx.reply.ok();
    Ok(())
}

const CLIENT_NO_EVICT: Entry = Entry {
    name: "no-evict",
    summary: "Sets the client eviction mode of the connection.",
    since: "7.0.0",
    arity: 3,
    flags: &[Admin, NoScript, Loading, Stale],
    args: &[oneof("enabled", &[token("on", "ON"), token("off", "OFF")])],
    reply: Shape::OK,
    run: Run::Function(client_no_evict),
    ..SUBCOMMAND
};

fn client_no_evict(ctx: &mut Ctx) -> CommandResult {
    ctx.host.session.no_evict = parse_switch(ctx.args[2])?;
    ctx.reply.ok();
    Ok(())
}

const CLIENT_NO_TOUCH: Entry = Entry {
    name: "no-touch",
    summary: "Controls whether commands sent by the client affect the LRU/LFU of accessed keys.",
    since: "7.2.0",
    arity: 3,
    args: &[oneof("enabled", &[token("on", "ON"), token("off", "OFF")])],
    reply: Shape::OK,
    run: Run::Function(client_no_touch),
    ..SUBCOMMAND
};

fn client_no_touch(ctx: &mut Ctx) -> CommandResult {
    ctx.host.session.client.no_touch = parse_switch(ctx.args[2])?;
    ctx.reply.ok();
    Ok(())
}

fn parse_switch(arg: &[u8]) -> Result<bool, CommandError> {
    match arg {
        arg if keyword_is(arg, "ON") => Ok(true),
        arg if keyword_is(arg, "OFF") => Ok(false),
        _ => Err(CommandError::SYNTAX),
    }
}

const CLIENT_REPLY: Entry = Entry {
    name: "reply",
    summary: "Instructs the server whether to reply to commands.",
    since: "3.2.0",
    arity: 3,
    args: &[oneof("action", &[token("on", "ON"), token("off", "OFF"), token("skip", "SKIP")])],
    reply: Shape::OK,
    rules: &[Rule::KeepsCaching, Rule::SetsReplyMode],
    run: Run::Function(client_reply),
    ..SUBCOMMAND
};

fn client_reply(ctx: &mut Ctx) -> CommandResult {
    let mode = match ctx.args[2] {
        arg if keyword_is(arg, "ON") => ReplyMode::On,
        arg if keyword_is(arg, "OFF") => ReplyMode::Off,
        arg if keyword_is(arg, "SKIP") => ReplyMode::Skip,
        _ => return Err(CommandError::SYNTAX),
    };
    let session = &mut *ctx.host.session;
    match mode {
        ReplyMode::On => ctx.reply.ok(),
        ReplyMode::Skip if session.reply_mode == ReplyMode::Off => return Ok(()),
        ReplyMode::Off | ReplyMode::Skip => {}
    }
    session.reply_mode = mode;
    Ok(())
}

const CLIENT_HELP: Entry = Entry {
    group: Group::Connection,
    acl: &[Acl::Connection],
    mode: Mode::Session,
    rules: &[Rule::KeepsCaching],
    run: Run::Function(client_help),
    ..Entry::HELP
};

fn client_help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(HELP)
}

/// The lines of `CLIENT HELP`.
const HELP: &[&str] = &[
    "CACHING (YES|NO)",
    "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
    "CAPA <option> [options...]",
    "    The client claims its some capability options. Options are:",
    "    * REDIRECT",
    "      The client can handle redirection during primary and replica failover in standalone mode.",
    "GETREDIR",
    "    Return the client ID we are redirecting to when tracking is enabled.",
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections. Options are:",
    "    * ADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made from the specified address",
    "    * LADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made to specified local address",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Kill connections by type.",
    "    * USER <username>",
    "      Kill connections authenticated by <username>.",
    "    * SKIPME (YES|NO)",
    "      Skip killing current connection (default: yes).",
    "    * ID <client-id> [<client-id>...]",
    "      Kill connections by client IDs.",
    "    * MAXAGE <maxage>",
    "      Kill connections older than the specified age.",
    "    * FLAGS|NAME|IDLE|LIB-NAME|LIB-VER|DB|CAPA|IP <value>",
    "      Kill connections that CLIENT LIST shows with the value, or that are idle for <value> seconds.",
    "    * NOT-ID|NOT-TYPE|NOT-ADDR|NOT-LADDR|NOT-USER|NOT-FLAGS|NOT-NAME|NOT-LIB-NAME|NOT-LIB-VER|",
    "      NOT-DB|NOT-CAPA|NOT-IP <value>",
    "      Kill connections for which the filter without NOT- does not hold.",
    "LIST [options ...]",
    "    Return information about client connections. Options:",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Return clients of specified type.",
    "    * ID <client-id> [<client-id>...]",
    "      Return clients with the specified IDs.",
    "    * SKIPME (YES|NO)",
    "      Exclude the current client from the list (default: no).",
    "    * All other options of KILL",
    "      Return clients that KILL would select.",
    "MAINT_NOTIFICATIONS (ON|OFF) [MOVING-ENDPOINT-TYPE <type>]",
    "    Tell the current connection in RESP3 when another server takes over. Types are:",
    "    * INTERNAL-IP|INTERNAL-FQDN|EXTERNAL-IP|EXTERNAL-FQDN: where it is",
    "    * NONE: nothing, the client connects again to the endpoint that it knows",
    "UNPAUSE",
    "    Stop the current client pause, resuming traffic.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Suspend all, or just write, clients for <timeout> milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "SETINFO <option> <value>",
    "    Set client meta attr. Options are:",
    "    * LIB-NAME: the client lib name.",
    "    * LIB-VER: the client lib version.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Unblock the specified blocked client.",
    "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
    "         [OPTIN] [OPTOUT] [NOLOOP]",
    "    Control server assisted client side caching.",
    "TRACKINGINFO",
    "    Report tracking status for the current connection.",
    "NO-EVICT (ON|OFF)",
    "    Protect current client connection from eviction.",
    "NO-TOUCH (ON|OFF)",
    "    Will not touch LRU/LFU stats when this mode is on.",
];
