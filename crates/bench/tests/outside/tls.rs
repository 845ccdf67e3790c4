//! Over TLS, against redis-server: what the tool trusts, its own certificate, and its errors.

use blackbox::{Server, StartError, free_port};

use crate::tool::{Said, bench_at};

fn certificate(name: &str) -> String {
    format!("{}/tests/outside/certificates/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// redis-server with a port for TLS, which requires client certificates.
fn redis() -> Option<(Server, u16)> {
    let port = free_port().expect("the system has a free port");
    let (cert, key, ca) = (certificate("server.pem"), certificate("server.key"), certificate("ca.pem"));
    let port_text = port.to_string();
    let options = ["--tls-port", &port_text, "--tls-cert-file", &cert, "--tls-key-file", &key];
    match Server::redis_with(&[&options[..], &["--tls-ca-cert-file", &ca]].concat()) {
        Ok(server) => Some((server, port)),
        Err(StartError::Missing(name)) if std::env::var("CI").as_deref() != Ok("true") => {
            println!("SKIPPED: {name} is not installed");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn certificates_are_checked_both_ways() {
    let Some((_server, port)) = redis() else { return };
    let (ca, cert, key) = (certificate("ca.pem"), certificate("client.pem"), certificate("client.key"));
    let known = format!("--cacert {ca} --cert {cert} --key {key}");
    let at = |host: &str, line: &str| bench_at(&format!("rediss://{host}:{port}"), line);
    for line in [
        format!("raw -n 2000 -P 16 -c 5 {known} SET k:__rand_int__ v"),
        format!("raw -n 2000 -c 5 --insecure --cert {cert} --key {key} PING"),
        format!(
            "jobs --queues 2 --processes 2 --threads 2 --elements 50 --iterations 2 --payload-bytes 40000 {known}"
        ),
    ] {
        let said = at("localhost", &line);
        assert!(said.is_success, "{line}: {said:?}");
    }
    let said = at("localhost", &format!("raw -n 10 {known} --sni another.example PING"));
    check(&said, "not valid for name");
    check(&at("localhost", &format!("raw -n 10 --cert {cert} --key {key} PING")), "UnknownIssuer");
    check(&at("localhost", &format!("raw -n 10 --cacert {ca} PING")), "CertificateRequired");
    check(&at("localhost", &format!("raw -n 10 --cacert {key} PING")), "client.key: no certificate");
    check(&at("localhost", "raw -n 10 --cacert /nowhere.pem PING"), "/nowhere.pem");
}

#[test]
fn a_server_without_tls_is_told_apart() {
    let server = Server::start(1, "auto", &[]);
    let said = bench_at(&format!("rediss://localhost:{}", server.port()), "raw -n 10 --insecure PING");
    check(&said, "corrupt message");
}

#[track_caller]
fn check(said: &Said, part: &str) {
    assert!(!said.is_success && said.errors.contains(part), "{part:?} is missing: {said:?}");
}
