//! Groups that fail over by themselves: real servers on a store in a folder, killed and stopped while clients write.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use blackbox::{Client, Scratch, Server, Signal, StartError, check, eventually, free_port, text};
use resp::Value;
use transcript::{Runner, Socket};

/// The shortest grant, so that a test does not wait for long.
const GRANT_MS: &str = "1000";
const WRITERS: usize = 3;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The nodes of one group, and the folders that outlive their processes.
struct Nodes {
    folder: Scratch,
    ports: Vec<u16>,
    servers: Vec<Option<Server>>,
}

impl Nodes {
    /// Starts a group whose first node creates the cluster, and waits until all are in sync.
    fn start(count: usize, more: &[&str]) -> Nodes {
        let ports = (0..count).map(|_| free_port().expect("there is one")).collect();
        let servers = (0..count).map(|_| None).collect();
        let mut nodes = Nodes { folder: Scratch::new("group"), ports, servers };
        nodes.begin(0, &[&["--cluster-create", "yes"], more].concat());
        eventually("the first node leads", || nodes.leader() == Some(0));
        (1..count).for_each(|node| nodes.begin(node, &[]));
        nodes.all_in_sync();
        nodes
    }

    fn options(&self, node: usize) -> Vec<String> {
        let dir = self.folder.path(NAMES[node]);
        std::fs::create_dir_all(&dir).expect("it can be created");
        let store = format!("folder:{}", self.folder.path("store"));
        let port = self.ports[node].to_string();
        let pairs = [
            ("--dir", &*dir),
            ("--port", &port),
            ("--appendonly", "yes"),
            ("--cluster-etcd", &store),
            ("--cluster-node-id", NAMES[node]),
            ("--cluster-grant-ms", GRANT_MS),
        ];
        pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_owned()]).collect()
    }

    fn begin(&mut self, node: usize, more: &[&str]) {
        let options = self.options(node);
        let options: Vec<&str> = options.iter().map(String::as_str).chain(more.iter().copied()).collect();
        self.servers[node] = Some(Server::start(2, "auto", &options));
    }

    fn kill(&mut self, node: usize) {
        let mut server = self.servers[node].take().expect("it runs");
        server.signal(Signal::KILL);
        server.wait();
    }

    /// The node that leads in the newest term and serves.
    fn leader(&self) -> Option<usize> {
        let running = (0..self.servers.len()).filter(|node| self.servers[*node].is_some());
        let serving = running.filter_map(|node| {
            let serves = ask(self.ports[node], "EXISTS none") == Some(Value::Int(0));
            let leads = serves && self.shows(node, "role")? == "primary";
            leads.then_some((self.shows(node, "term")?.parse::<u64>().ok()?, node))
        });
        serving.max().map(|(_, node)| node)
    }

    /// What a node shows of its group.
    fn shows(&self, node: usize, field: &str) -> Option<String> {
        let Value::Bulk(info) = ask(self.ports[node], "INFO cluster")? else { return None };
        let name = format!("group_{field}:");
        String::from_utf8_lossy(&info).lines().find_map(|line| line.strip_prefix(&name).map(str::to_owned))
    }

    fn a_leader(&self) -> usize {
        let mut leader = None;
        eventually("a node leads", || {
            leader = self.leader();
            leader.is_some()
        });
        leader.expect("it was found")
    }

    /// Waits until a leader has all nodes in sync.
    fn all_in_sync(&self) {
        let all = NAMES[..self.ports.len()].join(",");
        eventually("all are in sync", || {
            self.leader().and_then(|leader| self.shows(leader, "in_sync")).as_ref() == Some(&all)
        });
    }

    fn client(&self, node: usize) -> Client {
        self.servers[node].as_ref().expect("it runs").client()
    }

    /// Runs `faults` while clients push to lists. Then nothing acknowledged may be missing, and nothing may be there twice
    /// or in another order.
    fn under_pushes(&mut self, faults: impl FnOnce(&mut Nodes, &dyn Fn())) {
        let (is_over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
        let ports = self.ports.clone();
        let acknowledged: Vec<Vec<String>> = std::thread::scope(|scope| {
            let (ports, is_over, count) = (&ports, &is_over, &count);
            let push = |number| scope.spawn(move || push(number, ports, is_over, count));
            let writers: Vec<_> = (0..WRITERS).map(push).collect();
            let progress = || {
                let before = count.load(Ordering::Relaxed);
                eventually("writes go on", || count.load(Ordering::Relaxed) > before + 100);
            };
            let ended = EndsWith(is_over);
            progress();
            faults(self, &progress);
            drop(ended);
            writers.into_iter().map(|writer| writer.join().expect("it ends")).collect()
        });
        let mut client = self.client(self.a_leader());
        for (number, acknowledged) in acknowledged.iter().enumerate() {
            let Value::Array(found) = client.call(&format!("LRANGE list:{number} 0 -1")) else {
                panic!("a list is an array")
            };
            let found: Vec<String> = found.iter().map(text).collect();
            let is_in_order =
                found.is_sorted_by_key(|value| value.split_once('-').map(|(_, n)| n.parse::<u64>().ok()));
            assert!(is_in_order, "list {number}");
            let mut twice = found.clone();
            twice.dedup();
            assert_eq!(twice.len(), found.len(), "list {number}");
            let missing: Vec<&String> = acknowledged.iter().filter(|value| !found.contains(value)).collect();
            assert!(missing.is_empty(), "list {number} lacks {missing:?}");
        }
    }
}

/// Ends the clients when dropped, even if the test has failed.
struct EndsWith<'a>(&'a AtomicBool);

impl Drop for EndsWith<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Pushes to a list, on whichever node takes it. Returns the values that were acknowledged.
fn push(number: usize, ports: &[u16], is_over: &AtomicBool, count: &AtomicUsize) -> Vec<String> {
    let (mut acknowledged, mut place, mut socket) = (Vec::new(), number, None);
    for value in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let Some(open) = &mut socket else {
            place = (place + 1) % ports.len();
            socket = connect(ports[place]);
            continue;
        };
        let value = format!("{number}-{value}");
        let request = ["RPUSH".to_owned(), format!("list:{number}"), value.clone()].map(String::into_bytes);
        match open.call(&request) {
            Ok(Value::Int(_)) => {
                acknowledged.push(value);
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(_) | Err(_) => socket = None,
        }
    }
    acknowledged
}

/// The answer of a node, if there is one.
fn ask(port: u16, line: &str) -> Option<Value> {
    let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    connect(port)?.call(&words).ok()
}

/// A connection that is given up when no answer comes for some time, as clients do.
fn connect(port: u16) -> Option<Socket> {
    let socket = Socket::connect(("127.0.0.1", port)).ok()?;
    socket.stream.set_read_timeout(Some(Duration::from_secs(2))).expect("sockets have a timeout");
    Some(socket)
}

#[test]
fn killed_primaries_are_replaced_and_nothing_acknowledged_is_lost() {
    let mut nodes = Nodes::start(3, &[]);
    nodes.under_pushes(|nodes, progress| {
        for _ in 0..3 {
            nodes.all_in_sync();
            let leader = nodes.a_leader();
            nodes.kill(leader);
            progress();
            nodes.begin(leader, &[]);
        }
        nodes.all_in_sync();
    });
}

#[test]
fn of_two_nodes_either_may_die() {
    let mut nodes = Nodes::start(2, &[]);
    nodes.under_pushes(|nodes, progress| {
        for node in [0, 1] {
            nodes.all_in_sync();
            nodes.kill(node);
            progress();
            nodes.begin(node, &[]);
        }
        nodes.all_in_sync();
    });
}

/// A primary that is stopped for longer than a grant does not know that it was replaced. What it answers when it goes on is
/// not what the group has meanwhile written over.
#[test]
fn a_stopped_primary_is_replaced_and_shows_nothing_old() {
    let nodes = Nodes::start(3, &[]);
    let old = nodes.a_leader();
    check(&mut nodes.client(old), "SET key old", "OK");
    let mut late: Vec<Client> = (0..8).map(|_| nodes.client(old)).collect();
    let stopped = nodes.servers[old].as_ref().expect("it runs");
    // A process that is stopped while it changes the store in a folder holds its lock. (On etcd there is none.)
    let lock =
        std::fs::File::open(nodes.folder.path("store/darter/topology.lock")).expect("the store has one");
    lock.lock().expect("it is given back soon");
    stopped.signal(Signal::STOP);
    drop(lock);
    late.iter_mut().for_each(|client| client.send("GET key"));
    let mut others = (0..3).filter(|node| *node != old).cycle();
    let is_written = || {
        let node = others.next().expect("it goes round");
        matches!(ask(nodes.ports[node], "SET key new"), Some(Value::Simple(_)))
    };
    eventually("another node leads", is_written);
    stopped.signal(Signal::CONT);
    for client in &mut late {
        let answer = client.try_receive().map(|value| value.to_string());
        assert_ne!(answer.as_deref(), Some("\"old\""), "it was written over");
    }
    nodes.all_in_sync();
    check(&mut nodes.client(nodes.a_leader()), "GET key", "\"new\"");
}

#[test]
fn a_handover_loses_nothing() {
    let mut nodes = Nodes::start(3, &[]);
    nodes.under_pushes(|nodes, progress| {
        for _ in 0..3 {
            nodes.all_in_sync();
            let leader = nodes.a_leader();
            let to = (leader + 1) % 3;
            check(&mut nodes.client(leader), &format!("CLUSTER FAILOVER TO {}", NAMES[to]), "OK");
            eventually("it leads", || nodes.leader() == Some(to));
            progress();
        }
        nodes.all_in_sync();
    });
}

#[test]
fn a_group_that_has_died_leads_itself_again() {
    let mut nodes = Nodes::start(3, &[]);
    let mut client = nodes.client(nodes.a_leader());
    check(&mut client, "SET key value", "OK");
    // A write that is acknowledged when it is applied may be lost if all members die at the same moment.
    check(&mut client, "WAITAOF 1 2 0", "1) (integer) 1\n2) (integer) 2");
    (0..3).for_each(|node| nodes.kill(node));
    (0..3).for_each(|node| nodes.begin(node, &[]));
    nodes.all_in_sync();
    check(&mut nodes.client(nodes.a_leader()), "GET key", "\"value\"");
}

#[test]
fn the_group_decides_who_leads() {
    let nodes = Nodes::start(2, &[]);
    let leader = nodes.a_leader();
    let mut replica = nodes.client(1 - leader);
    assert!(replica.show("GET key").starts_with("(error) READONLY"));
    assert!(replica.show("SET key value").starts_with("(error) READONLY"));
    check(&mut replica, "READONLY", "OK");
    check(&mut replica, "GET key", "(nil)");
    for refused in ["REPLICAOF NO ONE", "FAILOVER", "CLUSTER FAILOVER"] {
        assert!(replica.show(refused).starts_with("(error) ERR"), "{refused}");
    }
    let mut primary = nodes.client(leader);
    assert!(primary.show("CLUSTER FAILOVER TO nobody").contains("not in sync"));
    assert!(primary.show("CLUSTER FAILOVER TIMEOUT 0").contains("out of range"));
    assert!(primary.show("GROUP-BEAT 1:b:2:3 1 1 1").starts_with("(error) ERR"));
}

#[test]
fn settings_that_would_break_a_promise_are_refused() {
    let folder = Scratch::new("group-settings");
    let store = format!("folder:{}", folder.path("store"));
    let refused = |more: &[&str]| {
        let options = [&["--cluster-etcd", &store], more].concat();
        match Server::darter(&options) {
            Err(StartError::Failed { log, .. }) => log,
            other => panic!("it starts: {other:?}"),
        }
    };
    assert!(refused(&[]).contains("needs appendonly yes"));
    let journal = ["--appendonly", "yes"];
    for (setting, value) in
        [("--replicaof", "127.0.0.1 1"), ("--repl-sync-replicas", "1"), ("--cluster-mode", "emulated")]
    {
        let log = refused(&[&journal[..], &[setting, value]].concat());
        assert!(log.contains("cluster-etcd exclude each other"), "{setting}: {log}");
    }
}
