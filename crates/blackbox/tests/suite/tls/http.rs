//! HTTP over TLS: the same certificates, users and limits.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;

use blackbox::{Signal, check, eventually, free_port};
use rustls::ClientConfig;

use super::fixture::{Identity, Secure, Secured, dial, dial_plain, read_to_end, secured};
use super::{der, rubbish};

/// The default limit of HTTP connections.
const CONNECTIONS_MAX: usize = 64;

/// A server with HTTP over TLS.
struct Site {
    secured: Secured,
    port: u16,
}

fn site(name: &'static str, more: &[&str]) -> Site {
    let port = free_port().expect("a port is free");
    let http = ["--http-tls".to_owned(), "yes".to_owned(), "--http-port".to_owned(), port.to_string()];
    let options: Vec<&str> = http.iter().map(String::as_str).chain(more.iter().copied()).collect();
    Site { secured: secured(name, &options), port }
}

impl Site {
    fn config(&self, identity: Option<&Identity>) -> Arc<ClientConfig> {
        self.secured.authority.client_config(identity)
    }

    fn connect(&self, identity: Option<&Identity>) -> Secure {
        dial(self.port, self.config(identity))
    }

    /// Status and body of the response to a request on a new connection.
    #[track_caller]
    fn get(&self, path: &str, identity: Option<&Identity>, headers: &str) -> (u16, String) {
        let mut stream = self.connect(identity);
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it is open");
        split(&String::from_utf8_lossy(&read_to_end(&mut stream)))
    }
}

#[track_caller]
fn split(answer: &str) -> (u16, String) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("it has a status"), body.to_owned())
}

/// Sends two requests on one connection, like Prometheus.
fn scrape_twice(stream: &mut Secure) {
    for _ in 0..2 {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is open");
        let mut received = Vec::new();
        let mut byte = [0];
        while !received.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).expect("it answers");
            received.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&received).to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next());
        let mut body =
            vec![0; length.and_then(|length| length.parse().ok()).expect("it says how long it is")];
        stream.read_exact(&mut body).expect("it is as long");
        assert!(String::from_utf8_lossy(&body).contains("redis_up 1\n"), "{head}");
    }
}

#[test]
fn metrics_come_over_tls() {
    let site = site("tls-http", &[]);
    let client = site.secured.authority.issue("client");
    scrape_twice(&mut site.connect(Some(&client)));
    assert!(site.secured.server.log().contains(&format!("https://127.0.0.1:{}", site.port)));
    // A request without TLS gets a response that says so, and garbage gets an alert.
    let mut plain = dial_plain(site.port);
    plain.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is open");
    let (status, body) = split(&String::from_utf8_lossy(&read_to_end(&mut plain)));
    assert!(status == 400 && body.contains("https://"), "{status} {body}");
    let mut garbage = dial_plain(site.port);
    garbage.write_all(&[22, 3, 1, 0xff, 0xff]).expect("it is open");
    assert_eq!(read_to_end(&mut garbage)[0], 21, "an alert");
    // A client without a certificate learns nothing either.
    let mut stranger = site.connect(None);
    let _ = stream_request(&mut stranger);
    assert!(stranger.read_to_end(&mut Vec::new()).is_err());
}

fn stream_request(stream: &mut Secure) -> std::io::Result<()> {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

#[test]
fn curl_checks_the_certificate() {
    let site = site("tls-curl", &["--tls-auth-clients", "no"]);
    let url = format!("https://localhost:{}/readyz", site.port);
    let curl = |more: &[&str]| {
        Command::new("curl").args(["-sS", "--noproxy", "*", &url]).args(more).stdin(Stdio::null()).output()
    };
    let authority = site.secured.authority.scratch.path("ca.pem");
    let Ok(trusting) = curl(&["--cacert", &authority]) else { return };
    assert!(String::from_utf8_lossy(&trusting.stdout).contains("\"ready\":true"), "{trusting:?}");
    let doubting = curl(&[]).expect("it ran before");
    assert!(!doubting.status.success() && doubting.stdout.is_empty(), "{doubting:?}");
}

#[test]
fn a_certificate_may_name_the_http_user() {
    let site = site("tls-http-user", &["--tls-auth-clients-user", "CN", "--requirepass", "secret"]);
    let mut admin = site.secured.server.client();
    check(&mut admin, "AUTH secret", "OK");
    check(&mut admin, "ACL SETUSER alice on nopass +info", "OK");
    let own = &site.secured.authority;
    let (alice, nobody) = (own.issue("alice"), own.issue("nobody"));
    let status = |path: &str, identity: &Identity, headers: &str| site.get(path, Some(identity), headers).0;
    assert_eq!(status("/metrics", &alice, ""), 200);
    assert_eq!(status("/queues.json", &alice, ""), 403);
    assert_eq!(status("/metrics", &nobody, ""), 401);
    // A password takes precedence over the certificate: "default:secret".
    assert_eq!(status("/queues.json", &alice, "Authorization: Basic ZGVmYXVsdDpzZWNyZXQ=\r\n"), 200);
    assert!(site.secured.server.log().contains("names user 'nobody', who does not exist"));
    // A deleted user is refused, even on connections that are open.
    let mut open = site.connect(Some(&alice));
    scrape_twice(&mut open);
    check(&mut admin, "ACL DELUSER alice", "(integer) 1");
    open.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("it is open");
    assert_eq!(split(&String::from_utf8_lossy(&read_to_end(&mut open))).0, 401);
}

#[test]
fn the_http_user_of_a_certificate_has_only_so_many_connections() {
    let limits = ["--tls-auth-clients-user", "CN", "--maxclients-per-user", "1"];
    let site = site("tls-http-seats", &limits);
    check(&mut site.secured.server.client(), "ACL SETUSER alice on nopass ~* +@all", "OK");
    let alice = site.secured.authority.issue("alice");
    let now = || site.get("/api/now", Some(&alice), "");
    assert_eq!(now().0, 200);
    let mut client = site.secured.server.client();
    eventually("a place", || client.show("AUTH alice x") == "OK");
    let (status, why) = now();
    assert!(status == 503 && why.contains("ERR max number of clients of this user reached"), "{why}");
    assert_eq!(site.get("/metrics", Some(&alice), "").0, 200);
    drop(client);
    eventually("a place", || now().0 == 200);
}

#[test]
fn http_gets_new_certificates() {
    let site = site("tls-http-reload", &[]);
    let own = &site.secured.authority;
    let client = own.issue("client");
    let mut old = site.connect(Some(&client));
    scrape_twice(&mut old);
    let shown = || {
        let mut stream = site.connect(Some(&client));
        scrape_twice(&mut stream);
        stream.conn.peer_certificates().expect("it was shown")[0].to_vec()
    };
    let second = own.issue("server");
    own.serve_as(&second);
    site.secured.server.signal(Signal::HUP);
    eventually("the new one is shown", || shown() == der(&second));
    own.serve_as(&rubbish());
    site.secured.server.signal(Signal::HUP);
    eventually("the log says why", || {
        site.secured.server.log().contains("the TLS certificates were not reloaded: tls-cert-file")
    });
    assert_eq!(shown(), der(&second));
    scrape_twice(&mut old);
}

#[test]
fn silent_handshakes_keep_nobody_out() {
    let site = site("tls-http-silent", &["--tls-handshake-timeout", "3"]);
    let client = site.secured.authority.issue("client");
    let mut seated: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| dial_plain(site.port)).collect();
    // Half a hello.
    seated.iter_mut().take(30).for_each(|stream| stream.write_all(&[22, 3, 1, 2, 0, 1]).expect("it is open"));
    for _ in 0..3 {
        assert_eq!(site.get("/healthz", Some(&client), ""), (200, "ok\n".to_owned()));
    }
    let (_, metrics) = site.get("/metrics", Some(&client), "");
    assert!(metrics.contains("darter_http_rejected_connections_total 0\n"), "{metrics}");
    // The seated connections end, too.
    for stream in &mut seated {
        assert_eq!(read_to_end(stream), b"");
    }
}

#[test]
fn http_over_tls_needs_a_certificate() {
    let refused = blackbox::Server::darter(&["--http-tls", "yes"]).map(drop).expect_err("it does not start");
    assert!(refused.to_string().contains("No tls-cert-file configured!"), "{refused}");
}
