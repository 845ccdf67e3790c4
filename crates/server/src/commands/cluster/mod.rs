//! CLUSTER, READONLY, READWRITE and ASKING: with `cluster-mode emulated`, the answers of a cluster of one node that
//! has all slots, for clients that know nothing else.
//!
//! Nothing but these answers changes: commands may name keys of several slots, and there are numbered databases. A slot
//! is no place here, so that its keys are found by looking at all of them.
//!
//! What would change a cluster is in `operate.rs`.

mod operate;

use command::Flag::*;
use command::{CommandError, CommandResult, Group, Route, Shape, integer, parse_i64, string};
use settings::CLUSTER_MODE;
use shard::hash_tag;

use crate::commands::own::{Ctx, Entry, Run};

/// The commands of this file.
pub(crate) const ENTRIES: &[Entry] = &[ASKING, CLUSTER, READONLY, READWRITE];

const SLOTS: u16 = 16_384;
/// How far the port of a node's bus lies above its own.
const BUS_PORT_OFFSET: u32 = 10_000;
const CHANGING: &[&str] = &["nondeterministic_output"];

const READONLY: Entry = Entry {
    name: "readonly",
    summary: "Enables read-only queries for a connection to a Redis Cluster replica node.",
    since: "3.0.0",
    group: Group::Cluster,
    arity: 1,
    flags: &[Loading, Stale, Fast],
    acl: &[command::Acl::Connection],
    reply: Shape::OK,
    run: Run::Function(agree),
    ..Entry::DEFAULT
};

const READWRITE: Entry = Entry {
    name: "readwrite",
    summary: "Enables read-write queries for a connection to a Redis Cluster replica node.",
    ..READONLY
};

const ASKING: Entry = Entry {
    name: "asking",
    summary: "Signals that a cluster client is following an -ASK redirect.",
    flags: &[Fast],
    ..READONLY
};

/// One node serves everything to everybody.
fn agree(ctx: &mut Ctx) -> CommandResult {
    check_mode(ctx)?;
    ctx.reply.ok();
    Ok(())
}

fn check_mode(ctx: &mut Ctx) -> CommandResult {
    if ctx.host.shared.settings.is_on(CLUSTER_MODE) {
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
        CLUSTER_COUNTKEYSINSLOT,
        operate::DELSLOTS,
        operate::DELSLOTSRANGE,
        operate::FAILOVER,
        operate::FLUSHSLOTS,
        operate::FORGET,
        CLUSTER_GETKEYSINSLOT,
        CLUSTER_HELP,
        CLUSTER_INFO,
        CLUSTER_KEYSLOT,
        CLUSTER_LINKS,
        operate::MEET,
        CLUSTER_MYID,
        CLUSTER_MYSHARDID,
        CLUSTER_NODES,
        operate::REPLICAS,
        operate::REPLICATE,
        operate::RESET,
        operate::SAVECONFIG,
        operate::SET_CONFIG_EPOCH,
        operate::SETSLOT,
        CLUSTER_SHARDS,
        operate::SLAVES,
        CLUSTER_SLOTS,
    ],
    ..Entry::DEFAULT
};

/// For `..SUBCOMMAND` in declarations.
const SUBCOMMAND: Entry =
    Entry { since: "3.0.0", group: Group::Cluster, arity: 2, flags: &[Stale], ..Entry::DEFAULT };

const CLUSTER_INFO: Entry = Entry {
    name: "info",
    summary: "Returns information about the state of a node.",
    tips: CHANGING,
    reply: Shape::Verbatim,
    run: Run::Function(cluster_info),
    ..SUBCOMMAND
};

fn cluster_info(ctx: &mut Ctx) -> CommandResult {
    check_mode(ctx)?;
    let fields = [
        ("state", "ok"),
        ("slots_assigned", "16384"),
        ("slots_ok", "16384"),
        ("slots_pfail", "0"),
        ("slots_fail", "0"),
        ("known_nodes", "1"),
        ("size", "1"),
        ("current_epoch", "0"),
        ("my_epoch", "0"),
        ("stats_messages_sent", "0"),
        ("stats_messages_received", "0"),
    ];
    let mut text: String = fields.iter().map(|(name, value)| format!("cluster_{name}:{value}\r\n")).collect();
    text.push_str("total_cluster_links_buffer_limit_exceeded:0\r\n");
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// The one node as the client of a command sees it.
struct Node {
    id: String,
    host: String,
    port: u32,
}

fn node(ctx: &mut Ctx) -> Result<Node, CommandError> {
    check_mode(ctx)?;
    let host = &mut *ctx.host;
    let id = host.shared.run_id.clone();
    let session = host.session();
    let address = session.local.rsplit_once(':').filter(|_| !session.is_unix);
    let (name, port) = address.unwrap_or(("", "0"));
    let name = name.trim_start_matches('[').trim_end_matches(']');
    Ok(Node { id, host: name.to_owned(), port: port.parse().unwrap_or(0) })
}

const CLUSTER_NODES: Entry = Entry {
    name: "nodes",
    summary: "Returns the cluster configuration for a node.",
    complexity: "O(N) where N is the total number of Cluster nodes",
    tips: CHANGING,
    reply: Shape::Verbatim,
    run: Run::Function(cluster_nodes),
    ..SUBCOMMAND
};

fn cluster_nodes(ctx: &mut Ctx) -> CommandResult {
    let Node { id, host, port } = node(ctx)?;
    let bus = port + BUS_PORT_OFFSET;
    let line = format!("{id} {host}:{port}@{bus} myself,master - 0 0 0 connected 0-{}\n", SLOTS - 1);
    ctx.reply.verbatim("txt", line.as_bytes());
    Ok(())
}

const CLUSTER_SLOTS: Entry = Entry {
    name: "slots",
    summary: "Returns the mapping of cluster slots to nodes.",
    complexity: "O(N) where N is the total number of Cluster nodes",
    history: &[("4.0.0", "Added node IDs."), ("7.0.0", "Added additional networking metadata field.")],
    tips: CHANGING,
    deprecated: Some(("7.0.0", "`CLUSTER SHARDS`")),
    reply: Shape::Array(&Shape::Tuple(&[
        Shape::Int,
        Shape::Int,
        Shape::Tuple(&[Shape::Bulk, Shape::Int, Shape::Bulk, Shape::Map(&Shape::Bulk, &Shape::Bulk)]),
    ])),
    run: Run::Function(cluster_slots),
    ..SUBCOMMAND
};

fn cluster_slots(ctx: &mut Ctx) -> CommandResult {
    let node = node(ctx)?;
    ctx.reply.array(1);
    ctx.reply.array(3);
    ctx.reply.int(0);
    ctx.reply.int(i64::from(SLOTS - 1));
    ctx.reply.array(4);
    ctx.reply.bulk(node.host.as_bytes());
    ctx.reply.int(i64::from(node.port));
    ctx.reply.bulk(node.id.as_bytes());
    ctx.reply.map(0);
    Ok(())
}

const CLUSTER_SHARDS: Entry = Entry {
    name: "shards",
    summary: "Returns the mapping of cluster slots to shards.",
    complexity: "O(N) where N is the total number of cluster nodes",
    since: "7.0.0",
    tips: CHANGING,
    reply: Shape::Array(&Shape::Map(&Shape::Bulk, &Shape::Array(&Shape::Any))),
    run: Run::Function(cluster_shards),
    ..SUBCOMMAND
};

fn cluster_shards(ctx: &mut Ctx) -> CommandResult {
    let Node { id, host, port } = node(ctx)?;
    let reply = &mut ctx.reply;
    reply.array(1);
    reply.map(2);
    reply.bulk(b"slots");
    reply.array(2);
    reply.int(0);
    reply.int(i64::from(SLOTS - 1));
    reply.bulk(b"nodes");
    reply.array(1);
    reply.map(7);
    reply.bulk(b"id");
    reply.bulk(id.as_bytes());
    reply.bulk(b"port");
    reply.int(i64::from(port));
    for (field, value) in [("ip", &host[..]), ("endpoint", &host), ("role", "master")] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"replication-offset");
    reply.int(0);
    reply.bulk(b"health");
    reply.bulk(b"online");
    Ok(())
}

const CLUSTER_MYID: Entry = Entry {
    name: "myid",
    summary: "Returns the ID of a node.",
    reply: Shape::Bulk,
    run: Run::Function(cluster_myid),
    ..SUBCOMMAND
};

fn cluster_myid(ctx: &mut Ctx) -> CommandResult {
    let id = node(ctx)?.id;
    ctx.reply.bulk(id.as_bytes());
    Ok(())
}

const CLUSTER_MYSHARDID: Entry = Entry {
    name: "myshardid",
    summary: "Returns the shard ID of a node.",
    since: "7.2.0",
    tips: CHANGING,
    reply: Shape::Bulk,
    run: Run::Function(cluster_myshardid),
    ..SUBCOMMAND
};

fn cluster_myshardid(ctx: &mut Ctx) -> CommandResult {
    // Any other number of the same length.
    let id: String = node(ctx)?.id.chars().rev().collect();
    ctx.reply.bulk(id.as_bytes());
    Ok(())
}

const CLUSTER_LINKS: Entry = Entry {
    name: "links",
    summary: "Returns a list of all TCP links to and from peer nodes.",
    complexity: "O(N) where N is the total number of Cluster nodes",
    since: "7.0.0",
    tips: CHANGING,
    reply: Shape::Array(&Shape::Any),
    run: Run::Function(cluster_links),
    ..SUBCOMMAND
};

fn cluster_links(ctx: &mut Ctx) -> CommandResult {
    check_mode(ctx)?;
    ctx.reply.array(0);
    Ok(())
}

const CLUSTER_KEYSLOT: Entry = Entry {
    name: "keyslot",
    summary: "Returns the hash slot for a key.",
    complexity: "O(N) where N is the number of bytes in the key",
    arity: 3,
    args: &[string("key")],
    reply: Shape::Int,
    run: Run::Function(cluster_keyslot),
    ..SUBCOMMAND
};

fn cluster_keyslot(ctx: &mut Ctx) -> CommandResult {
    check_mode(ctx)?;
    ctx.reply.int(i64::from(slot(ctx.args[2])));
    Ok(())
}

const CLUSTER_COUNTKEYSINSLOT: Entry = Entry {
    name: "countkeysinslot",
    summary: "Returns the number of keys in a hash slot.",
    arity: 3,
    route: Route::Global,
    args: &[integer("slot")],
    reply: Shape::Int,
    run: Run::Function(cluster_countkeysinslot),
    ..SUBCOMMAND
};

fn cluster_countkeysinslot(ctx: &mut Ctx) -> CommandResult {
    check_mode(ctx)?;
    let slot = parse_i64(ctx.args[2])?;
    let slot = valid_slot(slot).ok_or(CommandError::fixed("ERR Invalid slot"))?;
    let count = keys_in(ctx, slot).len();
    ctx.reply.int(count as i64);
    Ok(())
}

const CLUSTER_GETKEYSINSLOT: Entry = Entry {
    name: "getkeysinslot",
    summary: "Returns the key names in a hash slot.",
    complexity: "O(log(N)) where N is the number of requested keys",
    arity: 4,
    route: Route::Global,
    args: &[integer("slot"), integer("count")],
    tips: CHANGING,
    reply: Shape::BULKS,
    run: Run::Function(cluster_getkeysinslot),
    ..SUBCOMMAND
};

fn cluster_getkeysinslot(ctx: &mut Ctx) -> CommandResult {
    check_mode(ctx)?;
    let (slot, count) = (parse_i64(ctx.args[2])?, parse_i64(ctx.args[3])?);
    let (Some(slot), Ok(count)) = (valid_slot(slot), usize::try_from(count)) else {
        return Err(CommandError::fixed("ERR Invalid slot or number of keys"));
    };
    let keys = keys_in(ctx, slot);
    ctx.reply.array(keys.len().min(count));
    keys.iter().take(count).for_each(|key| ctx.reply.bulk(key));
    Ok(())
}

fn valid_slot(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|slot| *slot < SLOTS)
}

/// The keys of a slot in database 0, the only one of a cluster.
fn keys_in(ctx: &Ctx, wanted: u16) -> Vec<Box<[u8]>> {
    let hold = &ctx.store.tx.hold;
    let all = hold.shards().ids().flat_map(|id| hold.shard(id).dbs[0].iter().map(keyspace::RecordRef::key));
    all.filter(|key| slot(key) == wanted).map(Box::from).collect()
}

/// The slot of a key, as every cluster client calculates it.
fn slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 { shifted } else { shifted ^ 0x1021 }
        })
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// As Redis 7.0.15 answers.
    #[test]
    fn keys_have_the_slots_that_they_have_in_redis() {
        for (key, expected) in [("a", 15495), ("a{b}c", 3300), ("123456789", 12739), ("", 0), ("{}a", 10875)]
        {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }
}
