//! The answers of a cluster of one node, and a cluster client that believes them.

use std::process::Command;

use blackbox::{Server, check};

const MODE: &[&str] = &["--cluster-mode=emulated"];

#[test]
fn without_the_mode_there_is_no_cluster() {
    let server = Server::start(2, "auto", &[]);
    let client = &mut server.client();
    for line in ["CLUSTER INFO", "CLUSTER HELP", "CLUSTER KEYSLOT a", "READONLY", "READWRITE", "ASKING"] {
        check(client, line, "(error) ERR This instance has cluster support disabled");
    }
    check(client, "CLUSTER NONSENSE", "(error) ERR unknown subcommand 'NONSENSE'. Try CLUSTER HELP.");
    assert_eq!(
        (client.info("server", "redis_mode"), client.info("cluster", "cluster_enabled")),
        ("standalone".into(), "0".into())
    );
}

#[test]
fn one_node_has_all_slots() {
    let server = Server::start(2, "auto", MODE);
    let client = &mut server.client();
    let (host, port) = ("127.0.0.1", server.port());
    let bus = u32::from(port) + 10_000;
    let id = client.show("CLUSTER MYID").trim_matches('"').to_owned();
    assert_eq!(id.len(), 40);
    assert!(client.show("CLUSTER INFO").contains("cluster_state:ok"));
    assert_eq!(client.info("server", "redis_mode"), "cluster");
    assert_eq!(client.info("cluster", "cluster_enabled"), "1");
    let nodes = client.show("CLUSTER NODES");
    assert!(
        nodes.contains(&format!("{id} {host}:{port}@{bus} myself,master - 0 0 0 connected 0-16383")),
        "{nodes}"
    );
    let slots = format!(
        "1) 1) (integer) 0\n   2) (integer) 16383\n   3) 1) \"{host}\"\n      2) (integer) {port}\n      3) \"{id}\"\n      4) (empty array)"
    );
    check(client, "CLUSTER SLOTS", &slots);
    let node = format!(
        "[slots [0 16383] nodes [[id {id} port {port} ip {host} endpoint {host} role master replication-offset 0 health online]]]"
    );
    let shards: Vec<String> = client.show("CLUSTER SHARDS").split(['\n', ' ']).map(str::to_owned).collect();
    for word in node.split([' ', '[', ']']).filter(|word| !word.is_empty()) {
        assert!(shards.iter().any(|shown| shown.trim_matches('"') == word), "{word} in {shards:?}");
    }
    assert_ne!(client.show("CLUSTER MYSHARDID"), format!("\"{id}\""));
    check(client, "CLUSTER LINKS", "(empty array)");
    for line in ["READONLY", "READWRITE", "ASKING"] {
        check(client, line, "OK");
    }
}

#[test]
fn keys_have_slots() {
    let server = Server::start(2, "auto", MODE);
    let client = &mut server.client();
    check(client, "CLUSTER KEYSLOT a{b}c", "(integer) 3300");
    check(client, "MSET b 1 {b}1 2 a{b} 3 a 4", "OK");
    check(client, "CLUSTER COUNTKEYSINSLOT 3300", "(integer) 3");
    check(client, "CLUSTER GETKEYSINSLOT 15495 10", "1) \"a\"");
    check(client, "CLUSTER GETKEYSINSLOT 3300 0", "(empty array)");
    assert_eq!(client.show("CLUSTER GETKEYSINSLOT 3300 2").lines().count(), 2);
    let stats = |slot: u16, keys: u8| {
        resp::Value::Array(vec![
            resp::Value::Int(slot.into()),
            resp::Value::Array(vec![resp::Value::Bulk(b"key-count".to_vec()), resp::Value::Int(keys.into())]),
        ])
    };
    for (request, expected) in [
        ("SLOTSRANGE 3299 3301", vec![stats(3299, 0), stats(3300, 3), stats(3301, 0)]),
        ("ORDERBY key-count LIMIT 3", vec![stats(3300, 3), stats(15495, 1), stats(0, 0)]),
        ("orderby KEY-COUNT asc limit 2", vec![stats(0, 0), stats(1, 0)]),
    ] {
        assert_eq!(
            client.call(&format!("CLUSTER SLOT-STATS {request}")),
            resp::Value::Array(expected),
            "{request}"
        );
    }
    for (request, error) in [
        ("SLOTSRANGE 1 0", "Start slot number 1 is greater than end slot number 0"),
        ("SLOTSRANGE 0 16384", "Invalid or out of range slot"),
        ("SLOTSRANGE x 1", "Invalid or out of range slot"),
        ("ORDERBY cpu-usec", "Unrecognized sort metric for ORDERBY."),
        ("ORDERBY key-count LIMIT 0", "Limit has to lie in between 1 and 16384 (maximum number of slots)."),
        ("ORDERBY key-count ASC DESC", "Multiple filters of the same type are disallowed."),
        ("ORDERBY key-count LIMIT", "syntax error"),
    ] {
        check(client, &format!("CLUSTER SLOT-STATS {request}"), &format!("(error) ERR {error}"));
    }
    for line in ["CLUSTER COUNTKEYSINSLOT 16384", "CLUSTER COUNTKEYSINSLOT -1"] {
        check(client, line, "(error) ERR Invalid slot");
    }
    check(client, "CLUSTER COUNTKEYSINSLOT x", "(error) ERR value is not an integer or out of range");
    for line in ["CLUSTER GETKEYSINSLOT 16384 1", "CLUSTER GETKEYSINSLOT 1 -1"] {
        check(client, line, "(error) ERR Invalid slot or number of keys");
    }
}

#[test]
fn the_cluster_stays_as_it_is() {
    let server = Server::start(2, "auto", MODE);
    let client = &mut server.client();
    let id = client.show("CLUSTER MYID").trim_matches('"').to_owned();
    let fixed = "(error) ERR The emulated cluster has one node with all slots, which cannot be changed";
    let unknown = "(error) ERR Unknown node x";
    for (line, expected) in [
        ("ADDSLOTS 1 2", "(error) ERR Slot 1 is already busy"),
        ("ADDSLOTS 1 x", "(error) ERR Invalid or out of range slot"),
        ("ADDSLOTSRANGE 1 2 3 4", "(error) ERR Slot 1 is already busy"),
        ("ADDSLOTSRANGE 2 1", "(error) ERR start slot number 2 is greater than end slot number 1"),
        ("ADDSLOTSRANGE 1 2 3", "(error) ERR wrong number of arguments for 'cluster|addslotsrange' command"),
        ("DELSLOTS 1", fixed),
        ("DELSLOTS 16384", "(error) ERR Invalid or out of range slot"),
        ("DELSLOTSRANGE 1 2", fixed),
        ("FLUSHSLOTS", fixed),
        ("BUMPEPOCH", "STILL 0"),
        ("SET-CONFIG-EPOCH 1", fixed),
        ("SET-CONFIG-EPOCH -1", "(error) ERR Invalid config epoch specified: -1"),
        ("SETSLOT 1 STABLE", "OK"),
        ("SETSLOT 1 MIGRATING x", fixed),
        ("SETSLOT x STABLE", "(error) ERR Invalid or out of range slot"),
        (
            "SETSLOT 1 WHAT",
            "(error) ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP",
        ),
        ("FAILOVER", "(error) ERR You should send CLUSTER FAILOVER to a replica"),
        ("FAILOVER SOON", "(error) ERR syntax error"),
        ("MEET 127.0.0.1 1", fixed),
        ("RESET HARD", fixed),
        ("SAVECONFIG", "OK"),
        ("FORGET x", unknown),
        ("REPLICATE x", unknown),
        ("REPLICAS x", unknown),
        ("SLAVES x", unknown),
        ("COUNT-FAILURE-REPORTS x", unknown),
    ] {
        check(client, &format!("CLUSTER {line}"), expected);
    }
    for (line, expected) in [
        ("FORGET", "(error) ERR I tried hard but I can't forget myself..."),
        ("REPLICATE", "(error) ERR Can't replicate myself"),
        ("REPLICAS", "(empty array)"),
        ("SLAVES", "(empty array)"),
        ("COUNT-FAILURE-REPORTS", "(integer) 0"),
    ] {
        check(client, &format!("CLUSTER {line} {id}"), expected);
    }
}

#[test]
fn redis_cli_takes_it_for_a_cluster() {
    let server = Server::start(2, "auto", MODE);
    let port = server.port().to_string();
    let cli = |args: &[&str]| {
        let output = Command::new("redis-cli").args(args).output().expect("redis-cli is installed");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(cli(&["-c", "-p", &port, "set", "a", "1"]), "OK\n");
    assert_eq!(cli(&["-c", "-p", &port, "mget", "a", "b"]), "1\n\n");
    let address = format!("127.0.0.1:{port}");
    let checked = cli(&["--cluster", "check", &address]);
    assert!(checked.contains("[OK] All 16384 slots covered."), "{checked}");
    assert_eq!(
        cli(&["--cluster", "call", &address, "get", "a"]).lines().last(),
        Some(&*format!("{address}: 1"))
    );
}
