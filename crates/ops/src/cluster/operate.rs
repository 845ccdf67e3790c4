//! The subcommands of CLUSTER with which operators build and change a cluster. The emulated cluster has one node with
//! all slots, and stays so. Subcommands that such a node can answer truthfully reply as in Redis; changes are refused.

use engine::Flag::*;
use engine::{
    CommandError, CommandResult, Group, Route, Shape, block, integer, keyword_is, oneof, parse_i64, string,
    token,
};

use crate::cluster::node::node;
use crate::cluster::slot::valid_slot;
use crate::cluster::{CHANGING, Ctx, Entry, Run, agree, check_mode};

const NO_CHANGE: CommandError =
    CommandError::fixed("ERR The emulated cluster has one node with all slots, which cannot be changed");
const BAD_SLOT: CommandError = CommandError::fixed("ERR Invalid or out of range slot");
const ONE_NODE: &str = "Answers an error, because the emulated cluster cannot be changed";

/// The base of the commands of this file.
const OPERATION: Entry = Entry {
    since: "3.0.0",
    group: Group::Cluster,
    arity: 2,
    flags: &[Admin, Stale, NoAsyncLoading],
    reply: Shape::OK,
    note: ONE_NODE,
    run: Run::Function(refuse),
    ..Entry::DEFAULT
};

fn refuse(ctx: &mut Ctx) -> CommandResult {
    check_mode(ctx)?;
    Err(NO_CHANGE)
}

pub(crate) const ADDSLOTS: Entry = Entry {
    name: "addslots",
    summary: "Assigns new hash slots to a node.",
    complexity: "O(N) where N is the total number of hash slot arguments",
    arity: -3,
    args: &[integer("slot").multiple()],
    run: Run::Function(slots),
    ..OPERATION
};

pub(crate) const DELSLOTS: Entry =
    Entry { name: "delslots", summary: "Sets hash slots as unbound for a node.", ..ADDSLOTS };

/// Commands about single slots or, in pairs, about ranges of slots.
fn slots(ctx: &mut Ctx) -> CommandResult {
    check_mode(ctx)?;
    let (is_range, adds) =
        (ctx.command.entry.name.ends_with("range"), ctx.command.entry.name.starts_with("add"));
    if is_range && !ctx.args.len().is_multiple_of(2) {
        return Err(CommandError::wrong_arity(&ctx.command.full_name));
    }
    let slots: Vec<u16> = ctx.args[2..].iter().map(|arg| parse_slot(arg)).collect::<Result<_, _>>()?;
    if is_range && let Some(pair) = slots.chunks(2).find(|pair| pair[0] > pair[1]) {
        let text = format!("ERR start slot number {} is greater than end slot number {}", pair[0], pair[1]);
        return Err(CommandError::new(text));
    }
    Err(if adds { CommandError::new(format!("ERR Slot {} is already busy", slots[0])) } else { NO_CHANGE })
}

fn parse_slot(arg: &[u8]) -> Result<u16, CommandError> {
    ds::num::parse_i64(arg).and_then(valid_slot).ok_or(BAD_SLOT)
}

pub(crate) const ADDSLOTSRANGE: Entry = Entry {
    name: "addslotsrange",
    summary: "Assigns new hash slot ranges to a node.",
    complexity: "O(N) where N is the total number of the slots between the start slot and end slot arguments.",
    since: "7.0.0",
    arity: -4,
    args: &[block("range", &[integer("start-slot"), integer("end-slot")]).multiple()],
    ..ADDSLOTS
};

pub(crate) const DELSLOTSRANGE: Entry =
    Entry { name: "delslotsrange", summary: "Sets hash slot ranges as unbound for a node.", ..ADDSLOTSRANGE };

pub(crate) const FLUSHSLOTS: Entry =
    Entry { name: "flushslots", summary: "Deletes all slots information from a node.", ..OPERATION };

pub(crate) const BUMPEPOCH: Entry = Entry {
    name: "bumpepoch",
    summary: "Advances the cluster config epoch.",
    tips: CHANGING,
    reply: Shape::AnyStatus,
    note: "The epoch of the emulated cluster is always 0",
    run: Run::Function(bumpepoch),
    ..OPERATION
};

fn bumpepoch(ctx: &mut Ctx) -> CommandResult {
    check_mode(ctx)?;
    ctx.reply.simple("STILL 0");
    Ok(())
}

pub(crate) const SET_CONFIG_EPOCH: Entry = Entry {
    name: "set-config-epoch",
    summary: "Sets the configuration epoch for a new node.",
    arity: 3,
    args: &[integer("config-epoch")],
    run: Run::Function(set_config_epoch),
    ..OPERATION
};

fn set_config_epoch(ctx: &mut Ctx) -> CommandResult {
    check_mode(ctx)?;
    if parse_i64(ctx.args[2])? < 0 {
        return Err(CommandError::quoting("ERR Invalid config epoch specified: ", ctx.args[2], ""));
    }
    Err(NO_CHANGE)
}

pub(crate) const FAILOVER: Entry = Entry {
    name: "failover",
    summary: "Forces a replica to perform a manual failover of its master.",
    arity: -2,
    args: &[
        oneof("options", &[token("force", "FORCE"), token("takeover", "TAKEOVER")]).optional(),
        string("node").token("TO").optional(),
        integer("milliseconds").token("TIMEOUT").optional(),
    ],
    note: "In a group on etcd it is sent to the primary, which hands over to `node`, or to the member that has most",
    route: Route::Global,
    run: Run::Function(failover),
    ..OPERATION
};

fn failover(ctx: &mut Ctx) -> CommandResult {
    check_mode(ctx)?;
    match &ctx.args[2..] {
        [] => {}
        [word] if keyword_is(word, "FORCE") || keyword_is(word, "TAKEOVER") => {}
        _ => return Err(CommandError::SYNTAX),
    }
    Err(CommandError::fixed("ERR You should send CLUSTER FAILOVER to a replica"))
}

pub(crate) const MEET: Entry = Entry {
    name: "meet",
    summary: "Forces a node to handshake with another node.",
    arity: -4,
    args: &[string("ip"), integer("port"), integer("cluster-bus-port").optional().since("4.0.0")],
    history: &[("4.0.0", "Added the optional `cluster_bus_port` argument.")],
    ..OPERATION
};

pub(crate) const FORGET: Entry = Entry {
    name: "forget",
    summary: "Removes a node from the nodes table.",
    arity: 3,
    args: &[string("node-id")],
    note: "",
    run: Run::Function(forget),
    ..OPERATION
};

fn forget(ctx: &mut Ctx) -> CommandResult {
    check_is_me(ctx)?;
    Err(CommandError::fixed("ERR I tried hard but I can't forget myself..."))
}

/// Checks that argument 2 is the id of this node.
fn check_is_me(ctx: &mut Ctx) -> CommandResult {
    let named = ctx.args[2];
    if node(ctx)?.id.as_bytes() == named {
        return Ok(());
    }
    Err(CommandError::quoting("ERR Unknown node ", named, ""))
}

pub(crate) const REPLICATE: Entry = Entry {
    name: "replicate",
    summary: "Configure a node as replica of a master node.",
    run: Run::Function(replicate),
    ..FORGET
};

fn replicate(ctx: &mut Ctx) -> CommandResult {
    check_is_me(ctx)?;
    Err(CommandError::fixed("ERR Can't replicate myself"))
}

pub(crate) const REPLICAS: Entry = Entry {
    name: "replicas",
    summary: "Lists the replica nodes of a master node.",
    complexity: "O(N) where N is the number of replicas.",
    since: "5.0.0",
    flags: &[Admin, Stale],
    tips: CHANGING,
    reply: Shape::BULKS,
    run: Run::Function(replicas),
    ..FORGET
};

pub(crate) const SLAVES: Entry =
    Entry { name: "slaves", since: "3.0.0", deprecated: Some(("5.0.0", "`CLUSTER REPLICAS`")), ..REPLICAS };

fn replicas(ctx: &mut Ctx) -> CommandResult {
    check_is_me(ctx)?;
    ctx.reply.array(0);
    Ok(())
}

pub(crate) const COUNT_FAILURE_REPORTS: Entry = Entry {
    name: "count-failure-reports",
    summary: "Returns the number of active failure reports active for a node.",
    complexity: "O(N) where N is the number of failure reports",
    flags: &[Admin, Stale],
    tips: CHANGING,
    reply: Shape::Int,
    run: Run::Function(count_failure_reports),
    ..FORGET
};

fn count_failure_reports(ctx: &mut Ctx) -> CommandResult {
    check_is_me(ctx)?;
    ctx.reply.int(0);
    Ok(())
}

pub(crate) const RESET: Entry = Entry {
    name: "reset",
    summary: "Resets a node.",
    complexity: "O(N) where N is the number of known nodes. The command may execute a FLUSHALL as a side effect.",
    arity: -2,
    flags: &[Admin, NoScript, Stale],
    args: &[oneof("reset-type", &[token("hard", "HARD"), token("soft", "SOFT")]).optional()],
    ..OPERATION
};

pub(crate) const SAVECONFIG: Entry = Entry {
    name: "saveconfig",
    summary: "Forces a node to save the cluster configuration to disk.",
    note: "Answers `OK`, because there is nothing to save",
    run: Run::Function(agree),
    ..OPERATION
};

pub(crate) const SETSLOT: Entry = Entry {
    name: "setslot",
    summary: "Binds a hash slot to a node.",
    arity: -4,
    args: &[
        integer("slot"),
        oneof(
            "subcommand",
            &[
                string("importing").display("node-id").token("IMPORTING"),
                string("migrating").display("node-id").token("MIGRATING"),
                string("node").display("node-id").token("NODE"),
                token("stable", "STABLE"),
            ],
        ),
    ],
    note: "Only `STABLE` works, because the emulated cluster cannot be changed",
    run: Run::Function(setslot),
    ..OPERATION
};

fn setslot(ctx: &mut Ctx) -> CommandResult {
    check_mode(ctx)?;
    parse_slot(ctx.args[2])?;
    match &ctx.args[3..] {
        [word] if keyword_is(word, "STABLE") => agree(ctx),
        [word, _] if ["IMPORTING", "MIGRATING", "NODE"].iter().any(|known| keyword_is(word, known)) => {
            Err(NO_CHANGE)
        }
        _ => Err(CommandError::fixed(
            "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP",
        )),
    }
}
