//! `darter --cluster`: groups in a folder and in etcd, as a person sees and changes them.
//!
//! This program has no test harness, because it also is the `darter` that the tests run. It plays the nodes, too: it
//! announces them and locks data folders as servers do.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use agent::{NodeState, ProcessFacts};
use config::Settings;
use proactor::{Disk, Entropy};
use scratch::{Scratch, free_port};
use topology::folder::FolderStore;
use topology::{
    Announcement, Document, History, Instance, Life, NodeId, Reason, ReplicaGroup, Revision, Store, Swap,
    Term,
};

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);
/// The argument that makes this program `darter`.
const AS_DARTER: &str = "--as-darter";

type Test = fn();

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some((AS_DARTER, rest)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return cli::cluster::run(rest).expect("it has a verb");
    }
    let tests: &[(&str, Test)] = &[
        ("a_cluster_is_created_once_and_shown", a_cluster_is_created_once_and_shown),
        ("a_running_node_leads_as_it_is", a_running_node_leads_as_it_is),
        (
            "without_a_name_it_is_the_node_of_the_data_folder",
            without_a_name_it_is_the_node_of_the_data_folder,
        ),
        ("members_come_and_go_by_the_rules", members_come_and_go_by_the_rules),
        ("a_handover_is_asked_of_the_primary", a_handover_is_asked_of_the_primary),
        (
            "a_person_decides_who_leads_and_is_told_what_is_given_up",
            a_person_decides_who_leads_and_is_told_what_is_given_up,
        ),
        ("terms_pass_those_that_a_restored_store_forgot", terms_pass_those_that_a_restored_store_forgot),
        (
            "a_node_that_has_ended_is_proven_dead_and_one_that_runs_is_not",
            a_node_that_has_ended_is_proven_dead_and_one_that_runs_is_not,
        ),
        (
            "a_copied_folder_is_adopted_and_a_restored_store_is_accepted",
            a_copied_folder_is_adopted_and_a_restored_store_is_accepted,
        ),
        ("refusals_say_what_to_do", refusals_say_what_to_do),
        ("the_same_on_etcd", the_same_on_etcd),
    ];
    let wanted = args.iter().find(|arg| !arg.starts_with('-'));
    let is_wanted = |name: &str| wanted.is_none_or(|wanted| name.contains(wanted.as_str()));
    for (name, test) in tests.iter().filter(|(name, _)| is_wanted(name)) {
        test();
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}

/// The output of the program, standard output before standard error, and its exit status.
fn told(args: &[&str]) -> (String, i32) {
    let mut command = Command::new("/proc/self/exe");
    let Output { status, stdout, stderr } = command.arg(AS_DARTER).args(args).output().unwrap();
    let text = [stdout, stderr].concat();
    (String::from_utf8(text).unwrap(), status.code().unwrap())
}

/// A cluster in a folder.
struct Cluster {
    scratch: Scratch,
    url: String,
}

impl Cluster {
    fn new() -> Cluster {
        let scratch = Scratch::new("groups");
        let url = format!("folder:{}", scratch.path("store"));
        Cluster { scratch, url }
    }

    /// Runs a verb, and checks its exit status and parts of what it says.
    #[track_caller]
    fn check(&self, line: &str, status: i32, parts: &[&str]) -> String {
        let words = line.split(' ').chain(["--cluster-etcd", &self.url]);
        let args: Vec<&str> = ["--cluster"].into_iter().chain(words).collect();
        let (text, found) = told(&args);
        assert_eq!(found, status, "{line}: {text}");
        parts.iter().for_each(|part| assert!(text.contains(part), "{line}: no {part:?} in: {text}"));
        text
    }

    fn store(&self) -> FolderStore {
        let folder = PathBuf::from(self.scratch.path("store"));
        FolderStore::open(&folder, &"darter".parse().unwrap(), History::default()).unwrap()
    }

    fn document(&self) -> Document {
        let reading = self.store().read().unwrap();
        (**reading.document().unwrap()).clone()
    }

    fn group(&self) -> ReplicaGroup {
        self.document().groups.into_values().next().unwrap()
    }

    /// Changes the group as its primary does.
    fn change(&self, change: impl FnOnce(&mut ReplicaGroup)) {
        change_group(&mut self.store(), change);
    }

    /// A node that is seen until this is dropped.
    fn announce(&self, name: &str, life: u64, port: u16) -> FolderStore {
        let facts = ProcessFacts { version: "1.0".to_owned(), cores: 1, started_ms: 1 };
        let announced = agent::announcement(&Settings::default(), instance(name, life), "127.0.0.1", &facts);
        let mut store = self.store();
        store.announce(&Announcement { port: Some(port), ..announced }).unwrap();
        store
    }

    fn dead(&self) -> Vec<Life> {
        self.store().read().unwrap().dead.into_iter().collect()
    }
}

fn change_group(store: &mut dyn Store, change: impl FnOnce(&mut ReplicaGroup)) {
    let reading = store.read().unwrap();
    let mut next = (**reading.document().unwrap()).clone();
    change(next.groups.values_mut().next().unwrap());
    let swap = store.compare_and_swap(&reading, &next, &Reason::new("test", 0, "as the primary"));
    assert!(matches!(swap, Swap::Done(_)), "{swap:?}");
}

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

fn instance(name: &str, life: u64) -> Instance {
    Instance { node: node(name), life: Life(life) }
}

fn a_cluster_is_created_once_and_shown() {
    let cluster = Cluster::new();
    cluster.check("status", 1, &["the store has no document of this cluster", "'darter --cluster create'"]);
    cluster.check("add b", 1, &["the store has no document of this cluster"]);
    let settings = "--cluster-grant-ms 2000 --cluster-ack durable --cluster-min-in-sync 1";
    cluster.check(
        &format!("create a b c {settings}"),
        0,
        &["the cluster darter is created: group g1 has the members a, b and c; a leads when its server starts"],
    );
    let group = cluster.group();
    assert_eq!((group.term, group.members.len(), &group.leader.node), (Term(1), 3, &node("a")));
    assert_eq!(cluster.dead(), [group.leader.life], "the node recovers the group when it starts");
    let data = cluster.scratch.folder().to_owned();
    let state = NodeState::open(&Disk::real(), &data, Some(&node("a")), &mut Entropy::from_seed(1)).unwrap();
    assert!(state.took_part_as(group.leader.life) && !state.took_part_as(Life(u64::MAX)), "with any folder");
    let params = cluster.document().params;
    assert_eq!((params.grant_ms, params.min_in_sync), (2000, Some(1)));
    cluster.check("create x", 1, &["the store has a cluster darter already"]);
    assert_eq!(cluster.group(), group);
    let text = cluster.check(
        "status",
        0,
        &["grants of 2000 ms, ack durable, alone durable", "a     g1     the leader, dead", ": create"],
    );
    assert!(text.contains("g1     1     a       a        a b c    1            0-16383"), "{text}");
    cluster.check("status --json", 0, &[r#""leader":["a","#, r#""problem":null"#]);
    cluster.check("status --cluster-name other", 1, &["has no document of this cluster"]);
}

fn a_running_node_leads_as_it_is() {
    let cluster = Cluster::new();
    let _seen = cluster.announce("a", 7, 1);
    cluster.check("create a", 0, &["a leads, and its data are those of the group"]);
    assert_eq!((cluster.group().leader, cluster.dead()), (instance("a", 7), Vec::new()));
}

fn without_a_name_it_is_the_node_of_the_data_folder() {
    let cluster = Cluster::new();
    let data = cluster.scratch.folder().display().to_string();
    let text = cluster.check(&format!("create --dir {data}"), 0, &["group g1 has the members n-"]);
    let state = NodeState::open_existing(&Disk::real(), Path::new(&data)).unwrap();
    let id = state.unwrap().node().to_string();
    assert!(text.contains(&id), "{text}: {id}");
}

fn members_come_and_go_by_the_rules() {
    let cluster = Cluster::new();
    cluster.check("create a b", 0, &[]);
    cluster.check("add b", 1, &["b is a member of g1 already"]);
    cluster.check(
        "add c d",
        0,
        &[
            "the members of g1 are a, b, c and d now",
            "with 4 members writes need 2 nodes in sync",
            "there are 1",
        ],
    );
    cluster.check(
        "add e --cluster-group g2",
        1,
        &["the cluster has no group g2: set cluster-group to one of g1"],
    );
    let many: Vec<String> = (0..16).map(|number| format!("n{number}")).collect();
    cluster.check(&format!("add {}", many.join(" ")), 1, &["groups.g1.members: there are 20, 16 at most"]);
    cluster.check("remove x", 1, &["x is not a member of g1, which has a, b, c and d"]);
    cluster.check("remove a", 1, &["a leads g1: hand over first with 'darter --cluster failover'"]);
    cluster.change(|group| group.in_sync.extend([(node("b"), Life(2))]));
    cluster.check("remove b", 1, &["b is in sync, so writes wait for it: stop its server"]);
    cluster.check("remove c", 0, &["the members of g1 are a, b and d now"]);
    cluster.check("status", 0, &["remove c from g1", "add c and d to g1"]);
}

/// A primary that answers one request by `act`.
fn primary(act: impl FnOnce(&str) -> String + Send + 'static) -> (u16, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let work = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut byte = [0];
        // The last word of the request.
        while !request.ends_with(b"\r\n4000\r\n") {
            stream.read_exact(&mut byte).unwrap();
            request.push(byte[0]);
        }
        let request = String::from_utf8(request).unwrap();
        let reply = act(&request);
        stream.write_all(reply.as_bytes()).unwrap();
        request
    };
    (port, std::thread::spawn(work))
}

fn a_handover_is_asked_of_the_primary() {
    let cluster = Cluster::new();
    let lone = cluster.announce("a", 1, 1);
    cluster.check("create a b c", 0, &[]);
    cluster.check("failover", 1, &["no other node of g1 is in sync: start one"]);
    cluster.change(|group| group.in_sync.extend([(node("b"), Life(2))]));
    cluster.check("failover a", 1, &["a leads g1 already"]);
    cluster.check("failover c", 1, &["c is not in sync, so it may lack data", "b could lead"]);
    drop(lone);
    cluster.check("failover b", 1, &["the primary a (life 0000000000000001) does not announce itself"]);

    let mut store = cluster.store();
    let (port, asked) = primary(move |_| {
        change_group(&mut store, |group| {
            (group.term, group.leader) = (group.term.next(), instance("b", 2));
        });
        "+OK\r\n".to_owned()
    });
    let seen = cluster.announce("a", 1, port);
    cluster.check("failover b --timeout-ms 4000", 0, &["b leads g1 in term 2, ", "(before: a)"]);
    let request = asked.join().unwrap();
    assert_eq!(
        request,
        "*6\r\n$7\r\nCLUSTER\r\n$8\r\nFAILOVER\r\n$2\r\nTO\r\n$1\r\nb\r\n$7\r\nTIMEOUT\r\n$4\r\n4000\r\n"
    );
    drop(seen);

    let (port, asked) = primary(|_| "-ERR no replica is in sync\r\n".to_owned());
    let _seen = cluster.announce("b", 2, port);
    cluster.check("failover --timeout-ms 4000", 1, &["answers with an error: ERR no replica is in sync"]);
    assert!(!asked.join().unwrap().contains("TO\r\n$1"));
}

fn a_person_decides_who_leads_and_is_told_what_is_given_up() {
    let cluster = Cluster::new();
    let a = cluster.announce("a", 1, 1);
    cluster.check("create a b c", 0, &[]);
    cluster.check(
        "repair",
        0,
        &["g1 is led by a in term 1, which announces itself: nothing has to be repaired"],
    );
    drop(a);
    cluster.check("repair", 0, &["a (life 0000000000000001) was in sync, and neither seen nor proven dead"]);
    cluster.check("repair --accept-loss c", 1, &["c does not announce itself: start its server"]);
    let _c = cluster.announce("c", 3, 1);
    cluster.check(
        "repair --accept-loss c",
        1,
        &["a (life 0000000000000001) was in sync and not proven dead", "then add --stopped"],
    );
    assert_eq!(cluster.dead(), [], "nothing was done");
    let a = cluster.announce("a", 1, 1);
    cluster.check("repair --accept-loss c --stopped", 1, &["a leads and announces itself"]);
    drop(a);
    cluster.check(
        "repair --accept-loss c --stopped",
        0,
        &[
            "c leads g1 in term 2, alone in sync",
            "given up: writes that were acknowledged by a and have not reached c",
        ],
    );
    let group = cluster.group();
    assert_eq!((group.leader, group.in_sync), (instance("c", 3), [(node("c"), Life(3))].into()));
    assert_eq!(cluster.dead(), [Life(1)]);
    cluster.check("repair --accept-loss c", 1, &["c leads already, alone in sync"]);
    cluster.check("status", 0, &["repair: c leads, losses are accepted"]);
}

fn terms_pass_those_that_a_restored_store_forgot() {
    let cluster = Cluster::new();
    let _b = cluster.announce("b", 2, 1);
    cluster.check("create a b", 0, &[]);
    cluster.check("repair --accept-loss b --above-term 5000", 1, &["more than 1000 terms above"]);
    cluster.check("repair --accept-loss b --above-term 7", 0, &["b leads g1 in term 8"]);
    assert_eq!(cluster.group().leader, instance("b", 2));
}

fn a_node_that_has_ended_is_proven_dead_and_one_that_runs_is_not() {
    let cluster = Cluster::new();
    let data = cluster.scratch.folder().to_owned();
    let line = format!("dead --dir {}", data.display());
    assert_eq!(cluster.check(&line, 0, &[]), "", "there is no node");
    let mut state = NodeState::open(&Disk::real(), &data, None, &mut Entropy::from_seed(1)).unwrap();
    state.begin_life(Life(9)).unwrap();
    cluster.check(&line, 1, &["is in use by another process"]);
    drop(state);
    cluster.check(&line, 0, &["life 0000000000000009 of node n-", "is proven to be over"]);
    assert_eq!(cluster.dead(), [Life(9)]);
    let (text, status) = told(&["--cluster", "dead", "--dir", &data.display().to_string()]);
    assert_eq!((text.as_str(), status), ("", 0), "a server without a group");
}

fn a_copied_folder_is_adopted_and_a_restored_store_is_accepted() {
    let cluster = Cluster::new();
    let data = cluster.scratch.folder().to_owned();
    let dir = format!("--dir {}", data.display());
    cluster.check(&format!("adopt {dir}"), 1, &["nothing has to be adopted"]);
    let mut state = NodeState::open(&Disk::real(), &data, None, &mut Entropy::from_seed(1)).unwrap();
    let original = state.node().to_string();
    state.begin_life(Life(9)).unwrap();
    state.note_term(Term(7), &[b'a'; 40]).unwrap();
    let known = History { cluster: Some(0), highest: Revision(1_000), fallen_to: None };
    state.note_history(known).unwrap();
    cluster.check(&format!("repair --accept-store {dir}"), 1, &["is in use by another process"]);
    drop(state);
    cluster.check("create b", 0, &[]);
    cluster.check(
        &format!("repair --accept-store {dir}"),
        0,
        &[
            "follows the store at revision 2; before, it knew revision 1000",
            "the document is in term 1, but this node was in term 7",
        ],
    );

    let path = data.join("cluster.json");
    std::fs::copy(&path, data.join("copy")).unwrap();
    std::fs::rename(data.join("copy"), &path).unwrap();
    cluster.check(&format!("dead {dir}"), 1, &["was copied, restored or edited", "'darter --cluster adopt'"]);
    cluster.check(
        &format!("adopt --moved {dir}"),
        0,
        &[&format!("node {original}: never start the original")],
    );
    cluster.check(
        &format!("adopt --cluster-node-id {original} {dir}"),
        1,
        &["set another one, or remove it"],
    );
    let text = cluster.check(&format!("adopt {dir}"), 0, &["is the data folder of the new node n-"]);
    assert!(!text.contains(&original), "{text}");
}

fn refusals_say_what_to_do() {
    for (line, status, expected) in [
        ("--cluster", 1, "--cluster needs a verb"),
        ("--cluster status", 1, "cluster-etcd is not set: set it to the URLs of etcd's members"),
        ("--cluster status --cluster-etcd x", 1, "bad value 'x' for 'cluster-etcd' on the command line"),
        ("--cluster status --cluster-etcd https://127.0.0.1:1", 2, "which need cluster-etcd-ca-file"),
        ("--cluster status --cluster-etcd http://127.0.0.1:1", 2, "no member of the store can be reached"),
        ("--cluster status --prot 1", 1, "did you mean"),
        ("--check-journal /x --cluster status", 1, "--cluster cannot be combined with other tasks"),
    ] {
        let (text, found) = told(&line.split(' ').collect::<Vec<_>>());
        assert!(found == status && text.contains(expected), "{line}: {found}, {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

/// An etcd of one member, which ends with this.
struct Etcd {
    process: Child,
    url: String,
    _scratch: Scratch,
}

impl Etcd {
    /// `None`: it is not installed.
    fn start() -> Option<Etcd> {
        let scratch = Scratch::new("groups-etcd");
        let (client, peer) = (free_port().unwrap(), free_port().unwrap());
        let [url, peer_url] = [client, peer].map(|port| format!("http://127.0.0.1:{port}"));
        let started = Command::new("etcd")
            .args([
                "--name",
                "m",
                "--data-dir",
                &scratch.path("m"),
                "--logger",
                "zap",
                "--log-level",
                "error",
            ])
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("m={peer_url}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match started {
            Ok(process) => Some(Etcd { process, url, _scratch: scratch }),
            Err(error) => {
                println!("SKIPPED: etcd is not installed ({error})");
                None
            }
        }
    }

    fn told(&self, line: &str) -> (String, i32) {
        let args = [&["--cluster"], &line.split(' ').collect::<Vec<_>>()[..], &["--cluster-etcd", &self.url]];
        told(&args.concat())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn the_same_on_etcd() {
    let Some(mut etcd) = Etcd::start() else { return };
    let begin = Instant::now();
    while etcd.told("status").1 != 1 {
        assert!(begin.elapsed() < PATIENCE, "etcd does not start");
    }
    let check = |etcd: &Etcd, line: &str, status: i32, part: &str| {
        let (text, found) = etcd.told(line);
        assert!(found == status && text.contains(part), "{line}: {found}, {text}");
    };
    check(&etcd, "create a b", 0, "the cluster darter is created");
    check(&etcd, "create a b", 1, "the store has a cluster darter already");
    check(&etcd, "create a --cluster-name other", 0, "the cluster other is created");
    check(&etcd, "add c", 0, "the members of g1 are a, b and c now");
    check(&etcd, "remove c", 0, "the members of g1 are a and b now");
    check(&etcd, "remove a", 1, "a leads g1");
    check(&etcd, "status", 0, "remove c from g1");
    check(&etcd, "repair", 0, "recovers by itself when a has started again");
    etcd.process.kill().unwrap();
    etcd.process.wait().unwrap();
    check(&etcd, "add c", 2, "no member of the store can be reached");
}
