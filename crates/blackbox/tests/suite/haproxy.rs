//! Debian's haproxy, configured as in docs/high-availability.md, in front of two Darters: clients reach the primary.

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use blackbox::replication::{expect_same, follow};
use blackbox::{Client, PATIENCE, Scratch, Server, Signal, check, eventually, free_port};

const PAGE: &str = include_str!("../../../../docs/high-availability.md");
/// Connections that must all reach the same server. If haproxy distributed them, two would be enough to show it.
const CONNECTIONS: usize = 10;

/// The configuration on the page: the block that begins with the section `global`.
fn configuration() -> &'static str {
    let start = PAGE.find("global\n    presetenv").expect("the page shows it");
    PAGE[start..].split_once("```").expect("the block ends").0
}

/// A running haproxy.
struct Proxy {
    child: Child,
    port: u16,
    log: String,
}

impl Proxy {
    /// Starts one in front of a primary and its replica, and waits until it knows which is which; `None` if haproxy is not installed.
    fn start(scratch: &Scratch, configuration: &str, [primary, replica]: [&Server; 2]) -> Option<Proxy> {
        let file = scratch.file("haproxy.cfg", configuration);
        let log = scratch.path("haproxy.log");
        let port = free_port().expect("a port is free");
        let at = |port: u16| format!("127.0.0.1:{port}");
        // Debian installs it in a directory that is not always in the search path.
        let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
        let started = Command::new("haproxy")
            .env("PATH", path)
            .args(["-db", "-f", &file])
            .envs([("LISTEN", at(port)), ("FIRST", at(primary.port())), ("SECOND", at(replica.port()))])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("the scratch directory can be written to"))
            .spawn();
        let child = match started {
            Ok(child) => child,
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && std::env::var("CI").as_deref() != Ok("true") =>
            {
                println!("SKIPPED: haproxy is not installed");
                return None;
            }
            Err(error) => panic!("haproxy: {error}"),
        };
        let mut proxy = Proxy { child, port, log };
        eventually("haproxy finds the replica", || {
            assert!(proxy.child.try_wait().expect("it is our child").is_none(), "haproxy has ended");
            proxy.log().contains("Server darter/second is DOWN")
        });
        Some(proxy)
    }

    /// Its log messages about the servers.
    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("it is there")
    }

    fn connect(&self) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("haproxy listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("sockets have a timeout");
        Client::over(stream)
    }

    /// A connection to this server, as soon as new ones lead there.
    #[track_caller]
    fn connect_to(&self, server: &Server) -> Client {
        let mut client = self.connect();
        eventually("new connections lead to the primary", || {
            client = self.connect();
            leads_to(&mut client, server)
        });
        client
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the log of haproxy\n{}\n---", self.log());
        }
        // The proxy may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a connection leads to this server. haproxy may have closed it.
fn leads_to(client: &mut Client, server: &Server) -> bool {
    client.try_show("CONFIG GET port") == Some(format!("1) \"port\"\n2) \"{}\"", server.port()))
}

fn darter(options: &[&str]) -> Server {
    Server::start(2, "auto", options)
}

/// A primary and its replica.
fn pair() -> [Server; 2] {
    let [primary, replica] = [darter(&[]), darter(&[])];
    follow(&replica, &primary);
    expect_same(&replica, &primary);
    [primary, replica]
}

/// A client writes to `from`. After `change` its connection ends, and a new one leads to `to`, which has what it wrote.
fn check_change(proxy: &Proxy, from: &Server, to: &Server, change: impl FnOnce()) {
    let mut client = proxy.connect_to(from);
    check(&mut client, "SET before 1", "OK");
    expect_same(to, from);
    change();
    client.expect_end();
    let mut client = proxy.connect_to(to);
    check(&mut client, "GET before", "\"1\"");
    check(&mut client, "SET after 2", "OK");
    check(&mut to.client(), "GET after", "\"2\"");
}

#[test]
fn clients_follow_a_primary_that_hands_over() {
    let (scratch, [one, other]) = (Scratch::new("haproxy-hand-over"), pair());
    let Some(proxy) = Proxy::start(&scratch, configuration(), [&one, &other]) else { return };
    check_change(&proxy, &one, &other, || {
        check(&mut other.client(), "REPLICAOF NO ONE", "OK");
        follow(&one, &other);
    });
    expect_same(&one, &other);
    check(&mut other.client(), "DEL before after", "(integer) 2");
    check_change(&proxy, &other, &one, || check(&mut other.client(), "FAILOVER", "OK"));
    expect_same(&other, &one);
}

#[test]
fn clients_leave_a_primary_that_has_stopped() {
    let (scratch, [one, other]) = (Scratch::new("haproxy-stop"), pair());
    let Some(proxy) = Proxy::start(&scratch, configuration(), [&one, &other]) else { return };
    check_change(&proxy, &one, &other, || {
        one.signal(Signal::STOP);
        check(&mut other.client(), "REPLICAOF NO ONE", "OK");
    });
}

#[test]
fn a_primary_that_was_killed_gets_no_clients_when_it_comes_back() {
    let (scratch, [mut one, other]) = (Scratch::new("haproxy-kill"), pair());
    let Some(proxy) = Proxy::start(&scratch, configuration(), [&one, &other]) else { return };
    check_change(&proxy, &one, &other, || {
        one.signal(Signal::KILL);
        check(&mut other.client(), "REPLICAOF NO ONE", "OK");
    });
    one.wait();
    // The restarted server considers itself the primary until told otherwise.
    let one = darter(&["--port", &one.port().to_string()]);
    eventually("haproxy finds it", || proxy.log().contains("Server darter/first is UP"));
    for _ in 0..CONNECTIONS {
        assert!(leads_to(&mut proxy.connect(), &other));
    }
    follow(&one, &other);
    check_change(&proxy, &other, &one, || {
        other.signal(Signal::KILL);
        check(&mut one.client(), "REPLICAOF NO ONE", "OK");
    });
}

#[test]
fn haproxy_gives_the_password() {
    let scratch = Scratch::new("haproxy-password");
    let configuration = configuration().replace("# tcp-check", "tcp-check");
    let options = ["--requirepass", "secret", "--masterauth", "secret"];
    let primary = darter(&options);
    let follow = format!("127.0.0.1 {}", primary.port());
    let replica = darter(&[&options[..], &["--replicaof", &follow]].concat());
    let Some(proxy) = Proxy::start(&scratch, &configuration, [&primary, &replica]) else { return };
    let mut client = proxy.connect();
    check(&mut client, "AUTH secret", "OK");
    assert!(leads_to(&mut client, &primary));
    check(&mut client, "SET key value", "OK");
}
