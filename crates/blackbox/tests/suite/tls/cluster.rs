//! MIGRATE over TLS, and the ports that the emulated cluster reports.

use blackbox::{Client, Server, check, free_port};

use super::fixture::{Authority, secured};

/// Servers with TLS that accept each other's certificates.
fn start(authority: &Authority, is_redis: bool, more: &[&str]) -> Option<(Server, u16)> {
    let port = free_port().expect("a port is free");
    let mut options = authority.options();
    options.extend(["--tls-port".to_owned(), port.to_string()]);
    let options: Vec<&str> = options.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let server =
        if is_redis { Server::redis_with(&options).ok()? } else { Server::start(2, "auto", &options) };
    Some((server, port))
}

fn fill(client: &mut Client) {
    check(client, &format!("SET large {}", "x".repeat(300_000)), "OK");
    check(client, "RPUSH list a b c", "(integer) 3");
}

#[test]
fn keys_migrate_over_tls() {
    let authority = Authority::new("tls-migrate");
    authority.serve_as(&authority.issue("server"));
    let cluster = ["--tls-cluster", "yes"];
    let (ours, our_port) = start(&authority, false, &cluster).expect("it is Darter");
    for is_redis in [false, true] {
        let Some((other, port)) = start(&authority, is_redis, &cluster) else { return };
        let (client, there) = (&mut ours.client(), &mut other.client());
        fill(client);
        check(client, &format!("MIGRATE 127.0.0.1 {port} \"\" 0 5000 KEYS large list"), "OK");
        check(client, "DBSIZE", "(integer) 0");
        check(there, "STRLEN large", "(integer) 300000");
        check(there, "LRANGE list 0 -1", "1) \"a\"\n2) \"b\"\n3) \"c\"");
        check(there, &format!("MIGRATE 127.0.0.1 {our_port} \"\" 0 5000 KEYS large list"), "OK");
        check(client, "STRLEN large", "(integer) 300000");
        check(client, "FLUSHALL", "OK");
        // A port without TLS, or a TLS port that is used without TLS, cannot be reached, and nothing is lost.
        fill(client);
        let plain = format!("MIGRATE 127.0.0.1 {} list 0 5000", other.port());
        check(client, &plain, "(error) IOERR error or timeout connecting to the client");
        check(client, "CONFIG SET tls-cluster no", "OK");
        let secured = format!("MIGRATE 127.0.0.1 {port} list 0 5000");
        assert!(client.show(&secured).starts_with("(error) IOERR error or timeout reading"));
        check(client, &format!("MIGRATE 127.0.0.1 {} list 0 5000", other.port()), "OK");
        check(client, "CONFIG SET tls-cluster yes", "OK");
        check(client, "EXISTS large list", "(integer) 1");
        check(client, "FLUSHALL", "OK");
    }
}

#[test]
fn a_target_that_another_authority_vouches_for_gets_nothing() {
    let (own, other) = (Authority::new("tls-migrate-own"), Authority::new("tls-migrate-other"));
    for authority in [&own, &other] {
        authority.serve_as(&authority.issue("server"));
    }
    let (ours, _) = start(&own, false, &["--tls-cluster", "yes"]).expect("it is Darter");
    let (theirs, port) = start(&other, false, &["--tls-auth-clients", "no"]).expect("it is Darter");
    let client = &mut ours.client();
    fill(client);
    let refused = "(error) IOERR error or timeout connecting to the client";
    check(client, &format!("MIGRATE 127.0.0.1 {port} list 0 5000"), refused);
    check(client, "EXISTS list", "(integer) 1");
    check(&mut theirs.client(), "DBSIZE", "(integer) 0");
}

#[test]
fn the_cluster_names_the_port_that_the_client_can_use() {
    let secured = secured("tls-cluster", &["--cluster-mode", "emulated"]);
    let identity = secured.authority.issue("client");
    let (plain_port, tls_port) = (secured.server.port(), secured.port);
    let (plain, tls) = (&mut secured.server.client(), &mut secured.connect(Some(&identity)));
    let slots = [plain.show("CLUSTER SLOTS"), tls.show("CLUSTER SLOTS")];
    let nodes = [plain.show("CLUSTER NODES"), tls.show("CLUSTER NODES")];
    for (index, port) in [plain_port, tls_port].into_iter().enumerate() {
        assert!(slots[index].contains(&format!("(integer) {port}\n")), "{slots:?}");
        assert!(nodes[index].contains(&format!("127.0.0.1:{port}@")), "{nodes:?}");
    }
    let shards = [plain.show("CLUSTER SHARDS"), tls.show("CLUSTER SHARDS")];
    assert_eq!(shards[0], shards[1]);
    for (name, port) in [("port", plain_port), ("tls-port", tls_port)] {
        let words: Vec<&str> = shards[0].split_whitespace().collect();
        let index = words.iter().position(|word| *word == format!("\"{name}\"")).expect("it has such a port");
        assert!(words[index..].iter().take(4).any(|word| *word == port.to_string()), "{words:?}");
    }
}
