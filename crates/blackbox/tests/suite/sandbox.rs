//! The unit file for systemd (`contrib/systemd/darter.service`): systemd accepts it, it is tight, and the server needs no more than it
//! allows, whatever the server does.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output};
use std::sync::Arc;

use blackbox::replication::{expect_same, follow};
use blackbox::{Client, Scratch, Server, Signal, check, eventually, free_port};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/systemd/darter.service");
/// Most exposure that `systemd-analyze security` may report, times ten. The network, which a server needs, is eight of that, and systemd
/// 252 reports 11. Other versions may report a little more.
const EXPOSURE_MAX: &str = "15";
/// The launcher that confines the server.
const CONFINED: &[&str] = &["unshare", "--mount", env!("CARGO_BIN_EXE_confined"), UNIT];

/// The output of a program in the sandbox; `None` if this machine does not allow a sandbox, which fails in CI.
fn confined(writable: &str, args: &[&str]) -> Option<Output> {
    let mut command = Command::new("env");
    command.arg(format!("CONFINED_WRITABLE={writable}")).args(CONFINED).args(args);
    let output = command.output().expect("env is there");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let lacks =
        told.contains("unshare failed") || told.contains("permission denied") || told.contains("confined: ");
    if !lacks {
        return Some(output);
    }
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{told}");
    println!("SKIPPED: {told}");
    None
}

/// A folder that the user in the sandbox owns.
fn own_folder(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    std::os::unix::fs::chown(scratch.path(""), Some(65_534), Some(65_534)).expect("root may");
    scratch
}

/// A server in the sandbox with this configuration, which may only write to this folder.
fn start(scratch: &Scratch, settings: &str) -> Server {
    let folder = scratch.path("");
    let folder = folder.trim_end_matches('/');
    let config = scratch
        .file("darter.conf", &format!("dir {folder}\nenable-debug-command yes\nappendonly yes\n{settings}"));
    std::os::unix::fs::chown(&config, Some(65_534), Some(65_534)).expect("root may");
    let writable = format!("CONFINED_WRITABLE={folder}");
    let launcher = [&["env", &writable], CONFINED].concat();
    Server::launch(&launcher, &[&config]).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn systemd_takes_the_unit_and_finds_it_tight() {
    let program = std::env::var("DARTER").unwrap_or_else(|_| "/bin/true".to_owned());
    let scratch = Scratch::new("unit");
    let unit = fs::read_to_string(UNIT).expect("the unit is there");
    // A package's program is not installed at its path here.
    let path =
        scratch.file("darter.service", &unit.replace("/usr/bin/darter /etc", &format!("{program} /etc")));
    for args in [
        vec!["verify", "--man=no", &path],
        vec!["security", "--no-pager", "--offline=true", &format!("--threshold={EXPOSURE_MAX}"), &path],
    ] {
        match Command::new("systemd-analyze").args(&args).output() {
            Ok(output) => {
                let told = [output.stdout, output.stderr].concat();
                assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&told));
            }
            Err(error) if std::env::var("CI").as_deref() != Ok("true") => println!("SKIPPED: {error}"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The sandbox of the tests below works: it prevents what it does not allow.
#[test]
fn the_sandbox_holds() {
    use std::os::unix::process::ExitStatusExt;
    let scratch = own_folder("holds");
    let folder = scratch.path("");
    let folder = folder.trim_end_matches('/');
    let Some(output) = confined(folder, &["touch", &scratch.path("fine")]) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for args in [vec!["touch", "/var/tmp/x"], vec!["cat", "/etc/shadow"], vec!["touch", "/usr/x"]] {
        let output = confined(folder, &args).expect("it was possible before");
        assert!(!output.status.success(), "{args:?}");
    }
    for args in [["unshare", "--user", "true"], ["chroot", "/", "true"]] {
        let output = confined(folder, &args).expect("it was possible before");
        assert_eq!(output.status.signal(), Some(Signal::SYS.as_raw()), "{args:?}: {output:?}");
    }
}

/// Uses the server over any stream that carries Redis' protocol.
fn use_everything<S: Read + Write>(client: &mut Client<S>) {
    for (request, expected) in [
        ("SET k v", "OK"),
        ("EVAL \"return redis.call('GET', KEYS[1])\" 1 k", "\"v\""),
        (
            "FUNCTION LOAD REPLACE \"#!lua name=l\\nredis.register_function('f', function() return 1 end)\"",
            "\"l\"",
        ),
        ("FCALL f 0", "(integer) 1"),
        ("CONFIG SET maxclients 2000", "OK"),
        ("CONFIG SET maxmemory 1gb", "OK"),
        ("DEBUG POPULATE 5000 key 100", "OK"),
        ("MEMORY PURGE", "OK"),
        ("ACL SAVE", "OK"),
        ("CONFIG REWRITE", "OK"),
    ] {
        check(client, request, expected);
    }
    // The journal may be getting its first base.
    eventually("it can be saved", || client.show("SAVE") == "OK");
    for request in [
        "INFO everything",
        "CLIENT LIST",
        "LATENCY DOCTOR",
        "MEMORY DOCTOR",
        "ACL LOG",
        "BGREWRITEAOF",
        "BGSAVE SCHEDULE",
    ] {
        let reply = client.show(request);
        assert!(!reply.starts_with("(error)"), "{request}: {reply}");
    }
    eventually("nothing is being saved", || {
        client.info("persistence", "rdb_bgsave_in_progress") == "0"
            && client.info("persistence", "aof_rewrite_in_progress") == "0"
    });
}

/// A client over TLS that trusts this certificate.
fn secure(port: u16, certificate: &rcgen::Certificate) -> Client<StreamOwned<ClientConnection, TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).expect("it is one");
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let session = ClientConnection::new(Arc::new(config), name).expect("a good configuration");
    Client::over(StreamOwned::new(session, TcpStream::connect(("127.0.0.1", port)).expect("it listens")))
}

fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("it takes it");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// A folder with everything that a server can be configured to use.
struct Equipment {
    scratch: Scratch,
    certificate: rcgen::Certificate,
    tls: u16,
    http: u16,
    memcached: u16,
    settings: String,
}

impl Equipment {
    fn new(io: &str) -> Equipment {
        let scratch = own_folder("sandbox");
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("it can be made");
        for (name, text) in [
            ("cert.pem", &*made.cert.pem()),
            ("key.pem", &made.signing_key.serialize_pem()),
            ("users.acl", "user default on nopass ~* &* +@all\n"),
        ] {
            let file = scratch.file(name, text);
            std::os::unix::fs::chown(&file, Some(65_534), Some(65_534)).expect("root may");
        }
        let [tls, http, memcached] = [(); 3].map(|()| free_port().expect("a port is free"));
        let settings = format!(
            "io {io}\nproactor_threads 2\nsave 3600 1\ntls-port {tls}\nhttp-port {http}\nmemcached-port {memcached}\n\
             tls-cert-file cert.pem\ntls-key-file key.pem\ntls-auth-clients no\naclfile users.acl\n\
             unixsocket {}\nunixsocketperm 700\npidfile {}\nlogfile {}\n",
            scratch.path("socket"),
            scratch.path("pid"),
            scratch.path("log"),
        );
        Equipment { scratch, certificate: made.cert, tls, http, memcached, settings }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.scratch.path("log")).expect("there is a log")
    }

    /// Uses all ports and sockets.
    fn serve_clients(&self, server: &Server) {
        use_everything(&mut server.client());
        let socket = UnixStream::connect(self.scratch.path("socket")).expect("it listens");
        use_everything(&mut Client::over(socket));
        use_everything(&mut secure(self.tls, &self.certificate));
        for path in ["/", "/healthz", "/readyz", "/metrics", "/queues.json", "/api/overview"] {
            assert!(get(self.http, path).starts_with("HTTP/1.1 200"), "{path}");
        }
        let mut memcached = TcpStream::connect(("127.0.0.1", self.memcached)).expect("it listens");
        memcached.write_all(b"mn\r\nquit\r\n").expect("it takes it");
        let mut answer = String::new();
        memcached.read_to_string(&mut answer).expect("it answers");
        assert_eq!(answer, "MN\r\n");
    }

    /// Checks that other users cannot access files that the server has created.
    fn check_files(&self) {
        for entry in
            fs::read_dir(self.scratch.path("")).expect("it is there").map(|entry| entry.expect("a name"))
        {
            let name = entry.file_name().into_string().expect("text");
            if ["cert.pem", "key.pem", "darter.conf", "users.acl", "log"].contains(&&*name) {
                continue;
            }
            let mode = entry.metadata().expect("it is there").mode() & 0o777;
            let expected = if entry.path().is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, expected, "{name}");
        }
    }
}

/// A server that uses everything, and a replica of it, both confined.
fn work_out(io: &str) {
    let (equipment, beside) = (Equipment::new(io), own_folder("sandbox-replica"));
    let mut server = start(&equipment.scratch, &equipment.settings);
    equipment.serve_clients(&server);
    let replica = start(&beside, &format!("io {io}\n"));
    follow(&replica, &server);
    expect_same(&replica, &server);
    check(&mut server.client(), "FAILOVER", "OK");
    eventually("they have changed places", || server.client().info("replication", "role") == "slave");
    expect_same(&server, &replica);
    check(&mut server.client(), "REPLICAOF NO ONE", "OK");
    // Certificates and the log file.
    server.signal(Signal::HUP);
    eventually("the certificates were read again", || equipment.log().contains("were reloaded"));
    check(&mut secure(equipment.tls, &equipment.certificate), "PING", "PONG");
    server.client().send("SHUTDOWN");
    assert_eq!(server.wait().code(), Some(0), "{}", equipment.log());
    equipment.check_files();
    // It loads what it left, and a crash is reported.
    let mut server = start(&equipment.scratch, &equipment.settings);
    check(&mut server.client(), "GET k", "\"v\"");
    server.client().send("DEBUG SEGFAULT");
    server.wait();
    let log = equipment.log();
    assert!(log.contains("crashed by signal: 11") && log.contains("BUG REPORT END"), "{log}");
}

#[test]
fn the_server_needs_no_more_than_the_unit_allows() {
    let Some(_) = confined("", &["true"]) else { return };
    for io in ["auto", "epoll"] {
        work_out(io);
    }
}
