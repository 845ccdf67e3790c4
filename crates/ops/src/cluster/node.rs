//! The only node of the emulated cluster, and the answers that describe the cluster.

use engine::Flag::{Loading, Stale};
use engine::{CommandError, CommandResult, Shape};

use crate::cluster::{CHANGING, Ctx, Entry, Run, SLOTS, SUBCOMMAND, check_mode};

/// The port of a node's bus is this much above its own port.
const BUS_PORT_OFFSET: u32 = 10_000;

/// The only node, as the client of a command sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterNode {
    /// The node's id: 40 hexadecimal digits.
    pub id: String,
    /// The address that the client connected to, without brackets; empty if it is not a network address.
    pub host: String,
    /// The port that the client connected to; 0 if it is not a network address.
    pub port: u32,
    /// The port without TLS; 0: none.
    pub tcp_port: u32,
    /// The port with TLS; 0: none.
    pub tls_port: u32,
}

impl ClusterNode {
    /// The node at `address`, which is `host:port`; `None`: not a network address. The ports are those without and with
    /// TLS.
    pub fn at(id: &str, address: Option<&str>, [tcp_port, tls_port]: [u32; 2]) -> ClusterNode {
        let (host, port) = address.and_then(|address| address.rsplit_once(':')).unwrap_or(("", "0"));
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = port.parse().unwrap_or(0);
        ClusterNode { id: id.to_owned(), host: host.to_owned(), port, tcp_port, tls_port }
    }
}

/// The only node, or an error if cluster mode is off.
pub(crate) fn node(ctx: &mut Ctx) -> Result<ClusterNode, CommandError> {
    check_mode(ctx)?;
    Ok(ctx.host.clone().expect("there is a cluster"))
}

pub(crate) const CLUSTER_INFO: Entry = Entry {
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

pub(crate) const CLUSTER_NODES: Entry = Entry {
    name: "nodes",
    summary: "Returns the cluster configuration for a node.",
    complexity: "O(N) where N is the total number of Cluster nodes",
    tips: CHANGING,
    reply: Shape::Verbatim,
    run: Run::Function(cluster_nodes),
    ..SUBCOMMAND
};

fn cluster_nodes(ctx: &mut Ctx) -> CommandResult {
    let ClusterNode { id, host, port, .. } = node(ctx)?;
    let bus = port + BUS_PORT_OFFSET;
    let line = format!("{id} {host}:{port}@{bus} myself,master - 0 0 0 connected 0-{}\n", SLOTS - 1);
    ctx.reply.verbatim("txt", line.as_bytes());
    Ok(())
}

pub(crate) const CLUSTER_SLOTS: Entry = Entry {
    name: "slots",
    summary: "Returns the mapping of cluster slots to nodes.",
    complexity: "O(N) where N is the total number of Cluster nodes",
    history: &[("4.0.0", "Added node IDs."), ("7.0.0", "Added additional networking metadata field.")],
    flags: &[Loading, Stale],
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

pub(crate) const CLUSTER_SHARDS: Entry = Entry {
    name: "shards",
    summary: "Returns the mapping of cluster slots to shards.",
    complexity: "O(N) where N is the total number of cluster nodes",
    since: "7.0.0",
    flags: &[Loading, Stale],
    tips: CHANGING,
    reply: Shape::Array(&Shape::Map(&Shape::Bulk, &Shape::Array(&Shape::Any))),
    run: Run::Function(cluster_shards),
    ..SUBCOMMAND
};

fn cluster_shards(ctx: &mut Ctx) -> CommandResult {
    let ClusterNode { id, host, tcp_port, tls_port, .. } = node(ctx)?;
    let ports = [("port", tcp_port), ("tls-port", tls_port)].into_iter().filter(|(_, port)| *port != 0);
    let reply = &mut ctx.reply;
    reply.array(1);
    reply.map(2);
    reply.bulk(b"slots");
    reply.array(2);
    reply.int(0);
    reply.int(i64::from(SLOTS - 1));
    reply.bulk(b"nodes");
    reply.array(1);
    reply.map(6 + ports.clone().count());
    reply.bulk(b"id");
    reply.bulk(id.as_bytes());
    for (field, port) in ports {
        reply.bulk(field.as_bytes());
        reply.int(i64::from(port));
    }
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

pub(crate) const CLUSTER_MYID: Entry = Entry {
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

pub(crate) const CLUSTER_MYSHARDID: Entry = Entry {
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

pub(crate) const CLUSTER_LINKS: Entry = Entry {
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
