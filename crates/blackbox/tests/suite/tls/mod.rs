//! TLS from outside: who is let in, who is not, and what changes of certificates do to a running server.

mod bad_input;
mod cluster;
mod fixture;
mod http;
mod under_tls;

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use blackbox::replication::{expect_same, is_up};
use blackbox::{PATIENCE, Server, Signal, check, eventually, free_port};
use resp::Value;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use self::fixture::{Authority, Identity, read_to_end, secured, secured_on};

/// Files that are not valid for TLS.
fn rubbish() -> Identity {
    Identity { certificate: "rubbish".to_owned(), key: String::new() }
}

fn der(identity: &Identity) -> Vec<u8> {
    CertificateDer::from_pem_slice(identity.certificate.as_bytes()).expect("PEM").to_vec()
}

#[test]
fn clients_are_served_on_either_driver() {
    for (name, io) in [("tls-uring", "auto"), ("tls-epoll", "epoll")] {
        let authority = Authority::new(name);
        authority.serve_as(&authority.issue("server"));
        let secured = secured_on(authority, io, &[]);
        let identity = secured.authority.issue("client");
        let mut client = secured.connect(Some(&identity));
        let large = "x".repeat(3_000_000);
        client.send_args(&[b"SET", b"large", large.as_bytes()]);
        assert_eq!(client.receive().to_string(), "OK");
        client.send("GET large");
        assert!(client.receive() == Value::Bulk(large.into_bytes()), "it is as it was");
        let pipeline = "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n".repeat(5000);
        client.send_bytes(pipeline.as_bytes());
        for count in 1..=5000 {
            assert_eq!(client.receive(), Value::Int(count));
        }
        client.send("QUIT");
        assert_eq!(client.receive().to_string(), "OK");
        client.expect_end();
        let listeners = secured.server.client().info("server", "listener1");
        assert!(
            listeners.starts_with("name=tls,") && listeners.ends_with(&format!(",port={}", secured.port))
        );
    }
}

#[test]
fn the_tools_of_redis_are_served() {
    let secured = secured("tls-tools", &[]);
    let identity = secured.authority.issue("client");
    let scratch = &secured.authority.scratch;
    let (cert, key) =
        (scratch.file("client.pem", &identity.certificate), scratch.file("client.key", &identity.key));
    let run = |program: &str, more: &[&str]| {
        let port = secured.port.to_string();
        let options =
            ["--tls", "-p", &port, "--cacert", &scratch.path("ca.pem"), "--cert", &cert, "--key", &key];
        Command::new(program).args(options).args(more).stdin(Stdio::null()).output()
    };
    let Ok(set) = run("redis-cli", &["SET", "key", "value"]) else { return };
    assert_eq!(String::from_utf8_lossy(&set.stdout), "OK\n");
    let get = run("redis-cli", &["GET", "key"]).expect("it ran before");
    assert_eq!(String::from_utf8_lossy(&get.stdout), "value\n");
    let measured =
        run("redis-benchmark", &["-q", "-n", "2000", "-P", "16", "-t", "set,get"]).expect("it is there");
    assert!(measured.status.success());
    assert_eq!(secured.server.client().show("GET key"), "\"value\"");
}

#[test]
fn who_does_not_speak_as_the_port_does_is_sent_away() {
    let secured = secured("tls-mixed", &[]);
    let identity = secured.authority.issue("client");
    let mut plain = secured.tcp();
    plain.write_all(b"*1\r\n$4\r\nPING\r\n").expect("it is open");
    assert_eq!(read_to_end(&mut plain)[0], 21, "an alert");
    // A record longer than is allowed.
    let mut oversized = secured.tcp();
    oversized.write_all(&[22, 3, 1, 0xff, 0xff]).expect("it is open");
    assert_eq!(read_to_end(&mut oversized)[0], 21, "an alert");
    let mut wrong = TcpStream::connect(("127.0.0.1", secured.server.port())).expect("it listens");
    wrong.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
    wrong.write_all(b"\x16\x03\x01\x00\x02\x01\x00\r\n").expect("it is open");
    wrong.shutdown(std::net::Shutdown::Write).expect("it is open");
    assert!(read_to_end(&mut wrong).starts_with(b"-ERR"));
    check(&mut secured.connect(Some(&identity)), "PING", "PONG");
}

#[test]
fn certificates_are_asked_for_as_the_settings_say() {
    let secured = secured("tls-auth", &[]);
    let (own, other) = (&secured.authority, Authority::new("tls-foreign"));
    let (good, expired, foreign) = (own.issue("a"), own.issue_expired("b"), other.issue("c"));
    let mut admin = secured.server.client();
    for (mode, expected) in [
        ("yes", [true, false, false, false]),
        ("optional", [true, true, false, false]),
        ("no", [true, true, true, true]),
    ] {
        check(&mut admin, &format!("CONFIG SET tls-auth-clients {mode}"), "OK");
        let shown = [Some(&good), None, Some(&expired), Some(&foreign)];
        let served = shown.map(|identity| secured.serves(own.client_config(identity)));
        assert_eq!(served, expected, "{mode}");
    }
    assert_eq!(admin.info("stats", "rejected_connections"), "0");
    // And a client that trusts another authority does not accept this server.
    assert!(!secured.serves(other.client_config(None)));
}

#[test]
fn a_certificate_may_name_the_user() {
    let secured = secured("tls-user", &["--tls-auth-clients-user", "CN", "--requirepass", "secret"]);
    let own = &secured.authority;
    let mut admin = secured.server.client();
    check(&mut admin, "AUTH secret", "OK");
    check(&mut admin, "ACL SETUSER alice on ~a:* +@all", "OK");
    check(&mut admin, "ACL SETUSER bob off ~* +@all", "OK");
    let mut alice = secured.connect(Some(&own.issue("alice")));
    check(&mut alice, "ACL WHOAMI", "\"alice\"");
    check(&mut alice, "SET b:1 x", "(error) NOPERM No permissions to access a key");
    for name in ["bob", "nobody"] {
        let mut stranger = secured.connect(Some(&own.issue(name)));
        check(&mut stranger, "PING", "(error) NOAUTH Authentication required.");
        check(&mut stranger, "AUTH secret", "OK");
    }
}

#[test]
fn the_user_of_a_certificate_has_only_so_many_connections() {
    let limits = ["--tls-auth-clients-user", "CN", "--maxclients-per-user", "2"];
    let secured = secured("tls-seats", &limits);
    let own = &secured.authority;
    let (alice, bob) = (own.issue("alice"), own.issue("bob"));
    let mut admin = secured.server.client();
    check(&mut admin, "ACL SETUSER alice on nopass ~* +@all", "OK");
    check(&mut admin, "ACL SETUSER bob on nopass ~* +@all", "OK");
    let [mut first, mut second] = [(); 2].map(|()| secured.connect(Some(&alice)));
    check(&mut first, "ACL WHOAMI", "\"alice\"");
    check(&mut second, "ACL WHOAMI", "\"alice\"");
    // One more client is refused, whether its certificate or a password names the user: both count for the same
    // user.
    assert!(!secured.serves(own.client_config(Some(&alice))));
    assert!(secured.server.log().contains("user 'alice' has reached maxclients-per-user: refusing"));
    check(&mut admin, "AUTH alice x", "(error) ERR max number of clients of this user reached");
    assert_eq!(admin.info("stats", "rejected_connections"), "2");
    let mut other = secured.connect(Some(&bob));
    check(&mut other, "ACL WHOAMI", "\"bob\"");
    // A place is freed when a client changes its user, and when it leaves.
    check(&mut first, "RESET", "RESET");
    check(&mut secured.server.client(), "AUTH alice x", "OK");
    eventually("a place", || secured.serves(own.client_config(Some(&alice))));
    drop(second);
    eventually("a place", || secured.serves(own.client_config(Some(&alice))));
}

#[test]
fn handshakes_are_limited_in_number_and_time() {
    // None of them ends before all have come, however long that takes.
    let limits = ["--tls-handshakes-max", "20", "--tls-handshake-timeout", "0"];
    let secured = secured("tls-handshakes", &limits);
    let identity = secured.authority.issue("client");
    let mut silent: Vec<TcpStream> = (0..20).map(|_| secured.tcp()).collect();
    // Half a hello.
    silent.iter_mut().take(10).for_each(|stream| stream.write_all(&[22, 3, 1, 2, 0, 1]).expect("it is open"));
    eventually("they came", || secured.server.client().info("clients", "connected_clients") == "21");
    assert_eq!(read_to_end(&mut secured.tcp()), b"");
    assert_eq!(secured.server.client().info("stats", "rejected_connections"), "1");
    check(&mut secured.server.client(), "CONFIG SET tls-handshake-timeout 1", "OK");
    for stream in &mut silent {
        assert_eq!(read_to_end(stream), b"");
    }
    check(&mut secured.connect(Some(&identity)), "PING", "PONG");
}

#[test]
fn certificates_change_under_connections() {
    let secured = secured("tls-reload", &[]);
    let own = &secured.authority;
    let client = own.issue("client");
    let mut old = secured.connect(Some(&client));
    check(&mut old, "PING", "PONG");
    let first = secured.shown(&client);
    let second = own.issue("server");
    own.serve_as(&second);
    secured.server.signal(Signal::HUP);
    eventually("the new one is shown", || secured.shown(&client) == der(&second));
    assert_ne!(first, der(&second));
    // Invalid files change nothing.
    own.serve_as(&rubbish());
    secured.server.signal(Signal::HUP);
    eventually("the log says why", || {
        secured.server.log().contains("the TLS certificates were not reloaded: tls-cert-file")
    });
    assert_eq!(secured.shown(&client), der(&second));
    let (third, other) = (own.issue("server"), own.issue("server"));
    own.serve_as(&Identity { certificate: third.certificate.clone(), key: other.key });
    let path = own.scratch.path("server.pem");
    let mut admin = secured.server.client();
    check(
        &mut admin,
        &format!("CONFIG SET tls-cert-file {path}"),
        "(error) ERR CONFIG SET failed (possibly related to argument 'tls-cert-file') - Unable to update TLS configuration. \
         Check server logs.",
    );
    assert!(secured.server.log().contains("the key does not match the certificate"));
    own.serve_as(&third);
    check(&mut admin, &format!("CONFIG SET tls-cert-file {path}"), "OK");
    assert_eq!(secured.shown(&client), der(&third));
    // And when a setting makes the server check the files.
    check(&mut admin, "CONFIG SET tls-auto-reload-interval 1", "OK");
    let fourth = own.issue("a server with another name");
    own.serve_as(&fourth);
    eventually("the files were looked at", || secured.shown(&client) == der(&fourth));
    check(&mut old, "PING", "PONG");
}

#[test]
fn a_change_that_fails_changes_nothing() {
    let secured = secured("tls-rollback", &[]);
    let own = &secured.authority;
    let (client, second) = (own.issue("client"), own.issue("server"));
    let first = secured.shown(&client);
    let certificate = own.scratch.file("second.pem", &second.certificate);
    let key = own.scratch.file("second.key", &second.key);
    let taken = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let port = taken.local_addr().expect("it listens").port();
    let mut admin = secured.server.client();
    let files = format!("tls-cert-file {certificate} tls-key-file {key}");
    let refused = "(error) ERR CONFIG SET failed (possibly related to argument 'tls-port') - Unable to listen on this port. \
                   Check server logs.";
    check(&mut admin, &format!("CONFIG SET {files} tls-auth-clients no tls-port {port}"), refused);
    assert_eq!(secured.shown(&client), first);
    assert!(!secured.serves(own.client_config(None)), "certificates are asked for as before");
    // The server does not start TLS either if it cannot listen.
    check(&mut admin, "CONFIG SET tls-port 0", "OK");
    check(&mut admin, &format!("CONFIG SET tls-port {port}"), refused);
    check(&mut admin, &format!("CONFIG SET {files} tls-port {}", secured.port), "OK");
    assert_eq!(secured.shown(&client), der(&second));
}

#[test]
fn only_regular_files_are_read() {
    let secured = secured("tls-files", &[]);
    let scratch = &secured.authority.scratch;
    let pipe = scratch.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("there is mkfifo").success());
    let large = scratch.file("large.pem", &"x".repeat((8 << 20) + 1));
    let mut admin = secured.server.client();
    for (setting, path, why) in [
        ("tls-cert-file", "/dev/zero", "it is not a regular file"),
        ("tls-key-file", &pipe, "it is not a regular file"),
        ("tls-ca-cert-file", "/dev/tty", ""),
        ("tls-ca-cert-file", &scratch.path("."), "it is not a regular file"),
        ("tls-client-cert-file", &large, "it has 8388609 bytes, more than the limit of 8388608"),
        ("tls-ca-cert-dir", "/dev/zero", ""),
    ] {
        let refused = admin.show(&format!("CONFIG SET {setting} {path}"));
        assert!(
            refused.ends_with("Unable to update TLS configuration. Check server logs."),
            "{setting} {path}: {refused}"
        );
        let line = format!("the TLS settings are unchanged: {setting}: cannot read {path}: {why}");
        assert!(secured.server.log().contains(&line), "{line}: {}", secured.server.log());
    }
    assert!(secured.serves(secured.authority.client_config(Some(&secured.authority.issue("client")))));
}

#[test]
fn a_server_that_cannot_speak_tls_does_not_start() {
    let authority = Authority::new("tls-start");
    let (one, other) = (authority.issue("server"), authority.issue("server"));
    authority.serve_as(&Identity { certificate: one.certificate.clone(), key: other.key });
    let start = |more: &[&str]| {
        let port = free_port().expect("a port is free").to_string();
        let mut options = authority.options();
        options.extend(more.iter().map(|option| (*option).to_owned()));
        options.extend(["--tls-port".to_owned(), port]);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        Server::darter(&options).map(drop).expect_err("it does not start").to_string()
    };
    let refused = start(&[]);
    assert!(refused.contains("server.key: the key does not match the certificate"), "{refused}");
    authority.serve_as(&one);
    for (option, value, why) in [
        ("--tls-protocols", "TLSv1.1", "use 'TLSv1.2 TLSv1.3'"),
        ("--tls-ciphers", "AES128-SHA", "use DEFAULT, or one or more of"),
        ("--tls-ciphersuites", "TLS_AES_128_CCM_SHA256", "use one or more of"),
        ("--tls-dh-params-file", "dh.pem", "elliptic curves only"),
        ("--tls-ca-cert-file", "", "No tls-ca-cert-file or tls-ca-cert-dir configured!"),
    ] {
        let refused = start(&[option, value]);
        assert!(refused.contains(&option[2..]) && refused.contains(why), "{refused}");
    }
    assert_eq!(authority.name, "tls-start");
}

/// Makes one server follow the other over TLS, and compares them.
fn replicate(primary: &Server, port: u16, replica: &Server) {
    let mut writer = primary.client();
    for key in 0..100 {
        check(&mut writer, &format!("SET key:{key} {}", "v".repeat(300)), "OK");
    }
    let mut client = replica.client();
    check(&mut client, &format!("REPLICAOF 127.0.0.1 {port}"), "OK");
    eventually("it follows", || is_up(replica));
    for key in 0..100 {
        check(&mut writer, &format!("APPEND key:{key} more"), "(integer) 304");
    }
    expect_same(replica, primary);
}

/// One self-signed certificate is enough for servers that follow each other. If they do not accept each other's, both
/// say why.
#[test]
fn servers_share_a_certificate_or_say_what_is_wrong_with_it() {
    let authority = Authority::new("tls-alone");
    let own = Identity { certificate: authority.issuer.pem(), key: authority.issuer.key().serialize_pem() };
    authority.serve_as(&own);
    let start = |authority: &Authority, tls_port: u16| {
        let mut options = authority.options();
        options.extend(["--tls-replication", "yes", "--repl-diskless-sync-delay", "0"].map(str::to_owned));
        options.extend(["--tls-port".to_owned(), tls_port.to_string()]);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        Server::start(2, "auto", &options)
    };
    let port = free_port().expect("a port is free");
    let primary = start(&authority, port);
    replicate(&primary, port, &start(&authority, free_port().expect("a port is free")));
    let foreign = Authority::new("tls-foreign");
    foreign.serve_as(&foreign.issue("server"));
    let replica = start(&foreign, free_port().expect("a port is free"));
    check(&mut replica.client(), &format!("REPLICAOF 127.0.0.1 {port}"), "OK");
    eventually("it says why", || replica.log().contains("vouches for its certificate"));
    eventually("the other, too", || primary.log().contains("the other side refused it: alert"));
}

#[test]
fn replicas_follow_over_tls() {
    let authority = Authority::new("tls-replicas");
    authority.serve_as(&authority.issue("server"));
    let port = || free_port().expect("a port is free");
    let mut options = authority.options();
    options.extend(["--tls-replication", "yes", "--repl-diskless-sync-delay", "0"].map(str::to_owned));
    let start = |is_redis: bool, tls_port: u16| {
        let port = tls_port.to_string();
        let options: Vec<&str> = options.iter().map(String::as_str).chain(["--tls-port", &port]).collect();
        if is_redis {
            Server::redis_with(&[&options[..], &["--enable-debug-command", "yes", "--save", ""]].concat())
                .ok()
        } else {
            Some(Server::start(2, "auto", &[&options[..], &["--enable-debug-command", "yes"]].concat()))
        }
    };
    for (primary_is_redis, replica_is_redis) in [(false, false), (true, false), (false, true)] {
        let tls_port = port();
        let replica_port = port();
        let (Some(primary), Some(replica)) =
            (start(primary_is_redis, tls_port), start(replica_is_redis, replica_port))
        else {
            return;
        };
        replicate(&primary, tls_port, &replica);
        let shown = primary.client().info("replication", "slave0");
        assert!(shown.contains(&format!("port={replica_port},state=online")), "{shown}");
    }
}
