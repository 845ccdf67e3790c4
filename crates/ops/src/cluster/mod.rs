//! CLUSTER and ASKING: with `cluster-mode emulated`, the answers of a cluster of one node that
//! has all slots, for clients that speak only to clusters.
//!
//! Nothing but these answers changes: commands may name keys of several slots, and there are numbered databases. Keys
//! are not stored by slot, so the keys of a slot are found by scanning all keys (`slot.rs`). The answers are computed
//! from the name and address of the single node (`node.rs`), which commands get; they get none if there is no cluster.
//! Commands that would change a cluster are in `operate.rs`.

mod node;
mod operate;
mod slot;
mod slot_stats;
#[cfg(test)]
mod tests;

use engine::Flag::*;
use engine::{CommandError, CommandResult, Group, HostFn, Shape};

pub use crate::cluster::node::ClusterNode;

/// A call of a command of this folder. Its host is the one node, as the client whose command runs sees it; `None`:
/// clients are not answered as by a cluster.
type Ctx<'a, 't> = engine::Ctx<'a, 't, Option<ClusterNode>>;
/// The function of a command of this folder.
pub type Function = HostFn<Option<ClusterNode>>;
/// The declaration of a command of this folder.
pub type Entry = engine::Entry<Function>;
/// The way a command of this folder runs.
type Run = engine::Run<Function>;

/// The commands of this folder.
pub const ENTRIES: &[Entry] = &[ASKING, CLUSTER];

/// How many slots there are in every cluster.
const SLOTS: u16 = 16_384;
const CHANGING: &[&str] = &["nondeterministic_output"];

const ASKING: Entry = Entry {
    name: "asking",
    summary: "Signals that a cluster client is following an -ASK redirect.",
    since: "3.0.0",
    group: Group::Cluster,
    arity: 1,
    flags: &[Fast],
    acl: &[engine::Acl::Connection],
    reply: Shape::OK,
    run: Run::Function(agree),
    ..Entry::DEFAULT
};

/// Answers OK: the single node serves all slots to all clients.
fn agree(ctx: &mut Ctx) -> CommandResult {
    check_mode(ctx)?;
    ctx.reply.ok();
    Ok(())
}

fn check_mode(ctx: &mut Ctx) -> CommandResult {
    if ctx.host.is_some() {
        return Ok(());
    }
    Err(CommandError::fixed("ERR This instance has cluster support disabled"))
}

const CLUSTER: Entry = Entry {
    name: "cluster",
    summary: "A container for Redis Cluster commands.",
    complexity: "Depends on subcommand.",
    since: "3.0.0",
    group: Group::Cluster,
    arity: -2,
    subcommands: &[
        operate::ADDSLOTS,
        operate::ADDSLOTSRANGE,
        operate::BUMPEPOCH,
        operate::COUNT_FAILURE_REPORTS,
        slot::CLUSTER_COUNTKEYSINSLOT,
        operate::DELSLOTS,
        operate::DELSLOTSRANGE,
        operate::FAILOVER,
        operate::FLUSHSLOTS,
        operate::FORGET,
        slot::CLUSTER_GETKEYSINSLOT,
        CLUSTER_HELP,
        node::CLUSTER_INFO,
        slot::CLUSTER_KEYSLOT,
        node::CLUSTER_LINKS,
        operate::MEET,
        node::CLUSTER_MYID,
        node::CLUSTER_MYSHARDID,
        node::CLUSTER_NODES,
        operate::REPLICAS,
        operate::REPLICATE,
        operate::RESET,
        operate::SAVECONFIG,
        operate::SET_CONFIG_EPOCH,
        operate::SETSLOT,
        node::CLUSTER_SHARDS,
        operate::SLAVES,
        slot_stats::CLUSTER_SLOT_STATS,
        node::CLUSTER_SLOTS,
    ],
    ..Entry::DEFAULT
};

/// For `..SUBCOMMAND` in declarations.
const SUBCOMMAND: Entry =
    Entry { since: "3.0.0", group: Group::Cluster, arity: 2, flags: &[Stale], ..Entry::DEFAULT };

const CLUSTER_HELP: Entry = Entry { group: Group::Cluster, run: Run::Function(cluster_help), ..Entry::HELP };

fn cluster_help(ctx: &mut Ctx) -> CommandResult {
    check_mode(ctx)?;
    ctx.help(&[
        "ADDSLOTS <slot> [<slot> ...]",
        "    Assign slots to current node.",
        "ADDSLOTSRANGE <start slot> <end slot> [<start slot> <end slot> ...]",
        "    Assign slots which are between <start-slot> and <end-slot> to current node.",
        "BUMPEPOCH",
        "    Advance the cluster config epoch.",
        "COUNT-FAILURE-REPORTS <node-id>",
        "    Return number of failure reports for <node-id>.",
        "COUNTKEYSINSLOT <slot>",
        "    Return the number of keys in <slot>.",
        "DELSLOTS <slot> [<slot> ...]",
        "    Delete slots information from current node.",
        "DELSLOTSRANGE <start slot> <end slot> [<start slot> <end slot> ...]",
        "    Delete slots information which are between <start-slot> and <end-slot> from current node.",
        "FAILOVER [FORCE|TAKEOVER]",
        "    Promote current replica node to being a master.",
        "FORGET <node-id>",
        "    Remove a node from the cluster.",
        "GETKEYSINSLOT <slot> <count>",
        "    Return key names stored by current node in a slot.",
        "FLUSHSLOTS",
        "    Delete current node own slots information.",
        "INFO",
        "    Return information about the cluster.",
        "KEYSLOT <key>",
        "    Return the hash slot for <key>.",
        "MEET <ip> <port> [<bus-port>]",
        "    Connect nodes into a working cluster.",
        "MYID",
        "    Return the node id.",
        "MYSHARDID",
        "    Return the node's shard id.",
        "NODES",
        "    Return cluster configuration seen by node. Output format:",
        "    <id> <ip:port@bus-port[,hostname]> <flags> <master> <pings> <pongs> <epoch> <link> <slot> ...",
        "REPLICATE <node-id>",
        "    Configure current node as replica to <node-id>.",
        "RESET [HARD|SOFT]",
        "    Reset current node (default: soft).",
        "SET-CONFIG-EPOCH <epoch>",
        "    Set config epoch of current node.",
        "SETSLOT <slot> (IMPORTING <node-id>|MIGRATING <node-id>|STABLE|NODE <node-id>)",
        "    Set slot state.",
        "REPLICAS <node-id>",
        "    Return <node-id> replicas.",
        "SAVECONFIG",
        "    Force saving cluster configuration on disk.",
        "SLOT-STATS",
        "    Return an array of slot usage statistics for slots assigned to the current node.",
        "SLOTS",
        "    Return information about slots range mappings. Each range is made of:",
        "    start, end, master and replicas IP addresses, ports and ids",
        "SHARDS",
        "    Return information about slot range mappings and the nodes associated with them.",
        "LINKS",
        "    Return information about all network links between this node and its peers.",
        "    Output format is an array where each array element is a map containing attributes of a link",
    ])
}
