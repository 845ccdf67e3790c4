//! CLIENT MAINT_NOTIFICATIONS and CLIENT CAPA: what a client wants to know when another server takes over. READONLY and
//! READWRITE: whether a client of a replica reads there.
//!
//! `replication::Notices` says who is told what, and `docs/high-availability.md` when.

use config::{CLUSTER_ETCD, CLUSTER_MODE};
use engine::Flag::*;
use engine::{CommandError, CommandResult, Group, Shape, keyword_is, oneof, string, token};
use replication::EndpointKind;
use resp::Proto;

use super::SUBCOMMAND;
use crate::{Ctx, Entry, Run};

pub(super) const CLIENT_MAINT_NOTIFICATIONS: Entry = Entry {
    name: "maint_notifications",
    summary: "Controls whether the connection is told when another server takes over.",
    since: "8.4.0",
    arity: -3,
    args: &[
        oneof("status", &[token("on", "ON"), token("off", "OFF")]),
        oneof(
            "endpoint-type",
            &[
                token("internal-ip", "internal-ip"),
                token("internal-fqdn", "internal-fqdn"),
                token("external-ip", "external-ip"),
                token("external-fqdn", "external-fqdn"),
                token("none", "none"),
            ],
        )
        .token("moving-endpoint-type")
        .optional(),
    ],
    reply: Shape::OK,
    run: Run::Function(client_maint_notifications),
    ..SUBCOMMAND
};

fn client_maint_notifications(ctx: &mut Ctx) -> CommandResult {
    let kind = match &ctx.args[2..] {
        [word] if keyword_is(word, "OFF") => None,
        [word] if keyword_is(word, "ON") => Some(EndpointKind::Address),
        [word, option, kind] if keyword_is(word, "ON") && keyword_is(option, "MOVING-ENDPOINT-TYPE") => {
            let kind = EndpointKind::parse(kind);
            Some(kind.ok_or(CommandError::fixed("ERR Invalid value for moving-endpoint-type"))?)
        }
        _ => return Err(CommandError::SYNTAX),
    };
    let host = &mut *ctx.host;
    if kind.is_some() && host.session.client.proto != Proto::Resp3 {
        return Err(CommandError::fixed("ERR CLIENT MAINT_NOTIFICATIONS ON requires RESP3"));
    }
    let (notices, now_ms) = (host.server.notices, host.now_ms);
    host.session.recipient = None;
    ctx.reply.ok();
    if let Some(kind) = kind {
        // If clients are being told to go elsewhere, it is told in the next round: a connection that has to go before
        // its first command keeps go-redis from ever using one.
        host.session.recipient = Some(notices.admit(kind, now_ms));
    }
    Ok(())
}

pub(super) const CLIENT_CAPA: Entry = Entry {
    name: "capa",
    summary: "A client claims its capability.",
    since: "8.0.0",
    arity: -3,
    args: &[string("capability").multiple()],
    reply: Shape::OK,
    run: Run::Function(client_capa),
    ..SUBCOMMAND
};

/// As in Valkey, unknown capabilities are ignored, and none can be taken back.
fn client_capa(ctx: &mut Ctx) -> CommandResult {
    ctx.host.session.follows_redirects |= ctx.args[2..].iter().any(|name| keyword_is(name, "REDIRECT"));
    ctx.reply.ok();
    Ok(())
}

pub(in crate::commands) const READONLY: Entry = Entry {
    name: "readonly",
    summary: "Enables read-only queries for a connection to a Redis Cluster replica node.",
    since: "3.0.0",
    group: Group::Cluster,
    arity: 1,
    flags: &[Loading, Stale, Fast],
    acl: &[engine::Acl::Connection],
    reply: Shape::OK,
    run: Run::Function(readonly),
    ..Entry::DEFAULT
};

pub(in crate::commands) const READWRITE: Entry = Entry {
    name: "readwrite",
    summary: "Enables read-write queries for a connection to a Redis Cluster replica node.",
    run: Run::Function(readwrite),
    ..READONLY
};

fn readonly(ctx: &mut Ctx) -> CommandResult {
    set_reads_here(ctx, true)
}

fn readwrite(ctx: &mut Ctx) -> CommandResult {
    set_reads_here(ctx, false)
}

/// In a cluster the single node serves everything. Without one this is only for clients that are redirected, and for those
/// of a group's replicas.
fn set_reads_here(ctx: &mut Ctx, reads_here: bool) -> CommandResult {
    let host = &mut *ctx.host;
    if !host.server.settings.is_on(CLUSTER_MODE) {
        if !host.session.follows_redirects && host.server.settings.text(CLUSTER_ETCD).is_empty() {
            return Err(CommandError::fixed("ERR This instance has cluster support disabled"));
        }
        host.session.reads_here = reads_here;
    }
    ctx.reply.ok();
    Ok(())
}
