//! Many connections: as many as the system allows, refused beyond, cheap while idle, and gone without a trace.

use blackbox::{Client, Server, Witness, eventually, scale};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

/// Connections; times `DARTER_SCALE`.
const CONNECTIONS: usize = 1000;
/// And at most.
const CONNECTIONS_MAX: usize = 20_000;
/// Files that a process needs beside its connections.
const OTHER_FILES: usize = 200;
/// Connections that may safely wait to be accepted.
const BACKLOG: usize = 100;
/// Memory of an idle connection, as the system sees it.
const IDLE_BYTES_MAX: u64 = 3072;

/// Lets this process open as many files as the system allows; how many connections that makes.
fn connection_count() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, all).expect("the soft limit may be raised to the hard one");
    let possible = limit.maximum.map_or(CONNECTIONS_MAX, |files| files as usize - OTHER_FILES);
    let wanted = (CONNECTIONS * scale()).min(CONNECTIONS_MAX);
    if possible < wanted {
        println!("only {possible} connections rather than {wanted}: the system allows no more open files");
    }
    wanted.min(possible)
}

/// Connects clients, no faster than they are accepted: what overflows the backlog comes a second later.
fn connect(server: &Server, count: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    while clients.len() < count {
        let more = (count - clients.len()).min(BACKLOG);
        clients.extend((0..more).map(|_| server.client()));
        for client in clients.iter_mut().rev().take(more) {
            assert_eq!(client.show("PING"), "PONG");
        }
    }
    clients
}

#[test]
fn a_crowd_is_served_and_leaves_no_trace() {
    let count = connection_count();
    for io in ["epoll", "auto"] {
        let server = Server::start(2, io, &["--maxclients", "20000"]);
        let mut witness = Witness::new(&server);
        let before_bytes = server.resident_bytes();
        let mut grown_bytes = Vec::new();
        for _ in 0..3 {
            let mut clients = connect(&server, count);
            clients.iter_mut().for_each(|client| client.send("PING"));
            clients.iter_mut().for_each(|client| assert_eq!(client.receive().to_string(), "PONG"));
            let all = (count + 1).to_string();
            assert_eq!(witness.client().info("clients", "connected_clients"), all);
            witness.look();
            grown_bytes.push(server.resident_bytes().saturating_sub(before_bytes));
            // Half of them hang up politely.
            clients.into_iter().step_by(2).for_each(Client::reset);
            witness.alone();
        }
        println!("{io}: {count} idle connections take {grown_bytes:?} bytes");
        let bytes_max = IDLE_BYTES_MAX * count as u64 + (16 << 20);
        let is_little = grown_bytes.iter().all(|bytes| *bytes < bytes_max);
        assert!(is_little, "{grown_bytes:?} bytes for {count} idle connections, again and again");
    }
}

#[test]
fn the_limit_of_open_files_limits_the_clients() {
    let mut launcher = vec!["prlimit", "--nofile=200:200"];
    if geteuid().is_root() {
        // A process that may raise the limit does so.
        launcher.splice(0..0, ["setpriv", "--bounding-set", "-sys_resource"]);
    }
    let server = Server::launch(&launcher, &["--proactor-threads", "2"]).unwrap();
    assert!(server.log().contains("the system allows no more open files"), "{}", server.log());
    let mut witness = Witness::new(&server);
    let clients_max: usize = witness.client().info("clients", "maxclients").parse().unwrap();
    assert!(clients_max > 100 && clients_max < 200, "{clients_max}");
    let mut clients: Vec<Client> = (1..clients_max).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.show("PING"), "PONG"));
    for _ in 0..100 {
        let mut refused = server.client();
        assert_eq!(refused.receive().to_string(), "(error) ERR max number of clients reached");
        refused.expect_end();
    }
    witness.look();
    drop(clients);
    witness.alone();
    eventually("there is room again", || server.client().try_show("PING").as_deref() == Some("PONG"));
}
