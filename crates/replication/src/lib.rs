//! REPLICAOF, FAILOVER, PSYNC and their like: this server replicates nothing, and says so.
//!
//! It is a primary without replicas, as `ROLE` answers, so that `REPLICAOF NO ONE` changes nothing and agrees.
//!
//! What a replica says to its primary and hears from it is a machine that knows no server: [`link`].

#![forbid(unsafe_code)]

pub mod link;

use command::Flag::*;
use command::{
    Acl, CommandError, CommandResult, Ctx, Entry, Group, Run, Shape, block, integer, keyword_is, oneof,
    parse_i64, string, token,
};

/// The commands of this crate.
pub const ENTRIES: &[Entry] = &[FAILOVER, PSYNC, REPLCONF, REPLICAOF, ROLE, SLAVEOF, SYNC];

const NO_REPLICAS: CommandError = CommandError::fixed("ERR This server cannot have replicas yet");
const NO_REPLICA: CommandError = CommandError::fixed("ERR This server cannot be a replica yet");

const ROLE: Entry = Entry {
    name: "role",
    summary: "Returns the replication role.",
    since: "2.8.12",
    group: Group::Server,
    arity: 1,
    flags: &[NoScript, Loading, Stale, Fast],
    acl: &[Acl::Admin, Acl::Dangerous],
    reply: Shape::Array(&Shape::Any),
    run: Run::Function(role),
    ..Entry::DEFAULT
};

fn role(ctx: &mut Ctx) -> CommandResult {
    ctx.reply.array(3);
    ctx.reply.bulk(b"master");
    ctx.reply.int(0);
    ctx.reply.array(0);
    Ok(())
}

const FAILOVER: Entry = Entry {
    name: "failover",
    summary: "Starts a coordinated failover from a server to one of its replicas.",
    since: "6.2.0",
    group: Group::Server,
    flags: &[Admin, NoScript, Stale],
    args: &[
        block("target", &[string("host"), integer("port"), token("force", "FORCE").optional()])
            .token("TO")
            .optional(),
        token("abort", "ABORT").optional(),
        integer("milliseconds").token("TIMEOUT").optional(),
    ],
    reply: Shape::OK,
    note: "There are no replicas to fail over to: an error, as in Redis",
    run: Run::Function(failover),
    ..Entry::DEFAULT
};

fn failover(ctx: &mut Ctx) -> CommandResult {
    let (mut forces, mut has_target, mut has_timeout) = (false, false, false);
    let mut rest = &ctx.args[1..];
    while let [word, after @ ..] = rest {
        rest = after;
        if keyword_is(word, "TIMEOUT") && !has_timeout && !after.is_empty() {
            if parse_i64(after[0])? <= 0 {
                return Err(CommandError::fixed("ERR FAILOVER timeout must be greater than 0"));
            }
            has_timeout = true;
            rest = &after[1..];
        } else if keyword_is(word, "ABORT") && ctx.args.len() == 2 {
            return Err(CommandError::fixed("ERR No failover in progress."));
        } else if keyword_is(word, "TO") && !has_target && after.len() > 1 {
            parse_i64(after[1])?;
            has_target = true;
            rest = &after[2..];
        } else if keyword_is(word, "FORCE") && !forces {
            forces = true;
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    Err(CommandError::fixed("ERR FAILOVER requires connected replicas."))
}

const REPLICAOF: Entry = Entry {
    name: "replicaof",
    summary: "Configures a server as replica of another, or promotes it to a master.",
    since: "5.0.0",
    group: Group::Server,
    arity: 3,
    flags: &[Admin, NoScript, Stale, NoAsyncLoading],
    args: &[oneof(
        "args",
        &[
            block("host-port", &[string("host"), integer("port")]),
            block("no-one", &[token("no", "NO"), token("one", "ONE")]),
        ],
    )],
    reply: Shape::OK,
    note: "`NO ONE` only: there is no replication yet",
    run: Run::Function(replicaof),
    ..Entry::DEFAULT
};

const SLAVEOF: Entry = Entry {
    name: "slaveof",
    summary: "Sets a Redis server as a replica of another, or promotes it to being a master.",
    since: "1.0.0",
    deprecated: Some(("5.0.0", "`REPLICAOF`")),
    ..REPLICAOF
};

fn replicaof(ctx: &mut Ctx) -> CommandResult {
    if keyword_is(ctx.args[1], "NO") && keyword_is(ctx.args[2], "ONE") {
        ctx.reply.ok();
        return Ok(());
    }
    match ds::num::parse_i64(ctx.args[2]) {
        Some(0..=65_535) => Err(NO_REPLICA),
        _ => Err(CommandError::fixed("ERR Invalid master port")),
    }
}

const PSYNC: Entry = Entry {
    name: "psync",
    summary: "An internal command used in replication.",
    complexity: "",
    since: "2.8.0",
    group: Group::Server,
    arity: -3,
    flags: &[Admin, NoScript, NoAsyncLoading, NoMulti],
    args: &[string("replicationid"), integer("offset")],
    note: "An error: there is no replication yet",
    run: Run::Function(sync),
    ..Entry::DEFAULT
};

const SYNC: Entry = Entry { name: "sync", since: "1.0.0", arity: 1, args: &[], ..PSYNC };

fn sync(_ctx: &mut Ctx) -> CommandResult {
    Err(NO_REPLICAS)
}

const REPLCONF: Entry = Entry {
    name: "replconf",
    is_system: true,
    summary: "An internal command for configuring the replication stream.",
    since: "3.0.0",
    group: Group::Server,
    flags: &[Admin, NoScript, Loading, Stale, AllowBusy],
    reply: Shape::OK,
    note: "An error: there is no replication yet",
    run: Run::Function(sync),
    ..Entry::DEFAULT
};
