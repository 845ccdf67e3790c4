//! Tests of CLUSTER without a server: with a node of plain values.

use engine::{Client, CommandResult, Entry, Host, Local, OwnCall, function_of};
use resp::{Output, Proto};

use crate::cluster::{ClusterNode, ENTRIES};

/// A thread with its one node.
struct Thread(Option<ClusterNode>);

impl Thread {
    fn at(address: Option<&str>, ports: [u32; 2]) -> Thread {
        Thread(Some(ClusterNode::at("0123", address, ports)))
    }
}

impl Host for Thread {
    fn run_own(&mut self, call: OwnCall<'_, '_>) -> CommandResult {
        function_of(ENTRIES, call.command)(&mut call.on(&mut self.0))
    }
}

/// The reply to a line, on one line.
fn reply(thread: &mut Thread, line: &str) -> String {
    let entries: Vec<Entry> = ENTRIES.iter().map(Entry::of_host).collect();
    let mut store = Local::new(&[Vec::leak(entries)]);
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let mut out = Output::new();
    store.run(Client::internal(0, Proto::Resp2), &args, thread, &mut out);
    String::from_utf8_lossy(&out.to_vec()).replace("\r\n", " ").trim_end().to_owned()
}

#[test]
fn without_a_cluster_everything_is_refused() {
    let thread = &mut Thread(None);
    for line in ["CLUSTER NODES", "CLUSTER KEYSLOT a", "CLUSTER FORGET 0123", "CLUSTER HELP", "ASKING"] {
        assert_eq!(reply(thread, line), "-ERR This instance has cluster support disabled", "{line}");
    }
}

#[test]
fn the_node_is_where_the_client_reached_it() {
    for (address, host, port) in
        [(Some("10.0.0.1:7000"), "10.0.0.1", 7000), (Some("[::1]:1"), "::1", 1), (None, "", 0)]
    {
        let thread = &mut Thread::at(address, [port, 0]);
        let line = format!("0123 {host}:{port}@{} myself,master - 0 0 0 connected 0-16383", port + 10_000);
        assert!(reply(thread, "CLUSTER NODES").contains(&line), "{line}");
        let slots = format!("*1 *3 :0 :16383 *4 ${} {host} :{port} $4 0123 *0", host.len());
        assert_eq!(reply(thread, "CLUSTER SLOTS"), slots);
    }
}

#[test]
fn a_shard_has_its_ports_without_and_with_tls() {
    for (ports, shown) in [
        ([6379, 0], "*14 $2 id $4 0123 $4 port :6379 $2 ip"),
        ([0, 6380], "*14 $2 id $4 0123 $8 tls-port :6380 $2 ip"),
        ([6379, 6380], "*16 $2 id $4 0123 $4 port :6379 $8 tls-port :6380 $2 ip"),
    ] {
        let thread = &mut Thread::at(Some("10.0.0.1:6380"), ports);
        let shards = reply(thread, "CLUSTER SHARDS");
        assert!(shards.contains(shown), "{shards}");
    }
}

#[test]
fn what_is_true_is_answered_and_what_would_change_it_is_refused() {
    let thread = &mut Thread::at(None, [1, 0]);
    for (line, expected) in [
        ("ASKING", "+OK"),
        ("CLUSTER MYSHARDID", "$4 3210"),
        ("CLUSTER REPLICAS 0123", "*0"),
        ("CLUSTER REPLICAS 9", "-ERR Unknown node 9"),
        ("CLUSTER SETSLOT 16383 STABLE", "+OK"),
        ("CLUSTER SETSLOT 16384 STABLE", "-ERR Invalid or out of range slot"),
        ("CLUSTER ADDSLOTS 1 2", "-ERR Slot 1 is already busy"),
        ("CLUSTER FORGET 0123", "-ERR I tried hard but I can't forget myself..."),
        ("CLUSTER COUNTKEYSINSLOT 0", ":0"),
        ("CLUSTER COUNTKEYSINSLOT 16384", "-ERR Invalid slot"),
    ] {
        assert_eq!(reply(thread, line), expected, "{line}");
    }
}
