//! A real etcd of one or more members, in a scratch folder and on ports of its own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use proactor::Entropy;
use rustix::process::{Pid, Signal, kill_process};
use scratch::{Scratch, free_port};
use topology::etcd::{EtcdOptions, EtcdStore};
use topology::{History, Store};

use crate::{PATIENCE, within_patience};

/// How long a member has to end.
const END: Duration = Duration::from_secs(5);

/// See the head of this file.
pub(crate) struct Cluster {
    pub(crate) scratch: Scratch,
    program: PathBuf,
    members: Vec<Member>,
    /// Arguments of all members.
    arguments: Vec<String>,
    scheme: &'static str,
}

struct Member {
    port: u16,
    peer_port: u16,
    process: Option<Child>,
    is_paused: bool,
    /// Its folder, which changes when it is restored.
    folder: String,
}

/// The path of a program, if it is installed.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    if found.is_none() {
        println!("SKIPPED: {name} is not installed");
    }
    found
}

/// Sends a request to a member, as an operator does, and returns the body of the answer.
fn post(port: u16, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    write!(stream, "POST /v3/{path} HTTP/1.0\r\ncontent-length: {length}\r\n\r\n{body}")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned()))
}

impl Cluster {
    /// Starts a cluster and waits until it serves; `None`: there is no etcd on this machine.
    pub(crate) fn start(count: usize, arguments: &[&str]) -> Option<Cluster> {
        let mut cluster = Cluster::prepare(count, arguments)?;
        cluster.start_all();
        within_patience(|| cluster.store().read());
        Some(cluster)
    }

    /// Chooses folders and ports.
    pub(crate) fn prepare(count: usize, arguments: &[&str]) -> Option<Cluster> {
        let program = program("etcd")?;
        let scratch = Scratch::new("etcd");
        let members = (0..count).map(|number| Member {
            port: free_port().unwrap(),
            peer_port: free_port().unwrap(),
            process: None,
            is_paused: false,
            folder: scratch.path(&format!("m{number}")),
        });
        let members = members.collect();
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Some(Cluster { scratch, program, members, arguments, scheme: "http" })
    }

    /// Serves clients by TLS.
    pub(crate) fn secured(mut self, arguments: &[String]) -> Cluster {
        self.scheme = "https";
        self.arguments.extend_from_slice(arguments);
        self
    }

    pub(crate) fn start_all(&mut self) {
        (0..self.members.len()).for_each(|at| self.start_one(at));
    }

    /// The members as etcd wants them.
    pub(crate) fn initial(&self) -> String {
        let named = self.members.iter().enumerate();
        let named: Vec<String> =
            named.map(|(at, member)| format!("m{at}=http://127.0.0.1:{}", member.peer_port)).collect();
        named.join(",")
    }

    pub(crate) fn peer_url(&self, at: usize) -> String {
        format!("http://127.0.0.1:{}", self.members[at].peer_port)
    }

    /// Starts a member.
    pub(crate) fn start_one(&mut self, at: usize) {
        let (client, peer) = (self.url(at), self.peer_url(at));
        let log = std::fs::File::create(self.scratch.path(&format!("m{at}.log"))).unwrap();
        let (initial, member) = (self.initial(), &mut self.members[at]);
        assert!(member.process.is_none());
        let process = Command::new(&self.program)
            .args(["--name", &format!("m{at}"), "--data-dir", &member.folder])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &initial, "--logger", "zap", "--log-level", "error"])
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .args(&self.arguments)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        member.process = Some(process.unwrap());
    }

    /// The URL of a member for clients.
    pub(crate) fn url(&self, at: usize) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.members[at].port)
    }

    pub(crate) fn options(&self) -> EtcdOptions {
        let urls = (0..self.members.len()).map(|at| self.url(at)).collect();
        EtcdOptions::new(urls, "shop".parse().unwrap())
    }

    /// A store that knows all members.
    pub(crate) fn store(&self) -> EtcdStore {
        open(&self.options())
    }

    /// Sends a request to a member.
    pub(crate) fn post(&self, at: usize, path: &str, body: &str) -> String {
        post(self.members[at].port, path, body).unwrap_or_default()
    }

    /// The member that leads.
    pub(crate) fn leader(&self) -> usize {
        let begin = Instant::now();
        loop {
            for (at, member) in self
                .members
                .iter()
                .enumerate()
                .filter(|(_, member)| member.process.is_some() && !member.is_paused)
            {
                let status = post(member.port, "maintenance/status", "{}").unwrap_or_default();
                let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
                let id = &status["header"]["member_id"];
                if id.is_string() && *id == status["leader"] {
                    return at;
                }
            }
            assert!(begin.elapsed() < PATIENCE, "there is no leader");
        }
    }

    fn signal(&self, at: usize, signal: Signal) {
        let process = self.members[at].process.as_ref().expect("it runs");
        kill_process(Pid::from_child(process), signal).unwrap();
    }

    /// Kills a member and waits until it is gone.
    pub(crate) fn kill(&mut self, at: usize) {
        if let Some(mut process) = self.members[at].process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Stops a member, which still accepts connections but does not answer.
    pub(crate) fn pause(&mut self, at: usize) {
        self.signal(at, Signal::STOP);
        self.members[at].is_paused = true;
    }

    pub(crate) fn resume(&mut self) {
        for at in 0..self.members.len() {
            if std::mem::take(&mut self.members[at].is_paused) {
                self.signal(at, Signal::CONT);
            }
        }
    }

    pub(crate) fn folder(&self, at: usize) -> &Path {
        Path::new(&self.members[at].folder)
    }

    pub(crate) fn set_folder(&mut self, at: usize, folder: &str) {
        self.members[at].folder = self.scratch.path(folder);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            let Some(mut process) = member.process.take() else { continue };
            // It is ours, and may have ended by itself.
            let _ = process.kill();
            let begin = Instant::now();
            while begin.elapsed() < END && matches!(process.try_wait(), Ok(None)) {
                std::thread::yield_now();
            }
        }
    }
}

/// A store as these options say.
pub(crate) fn open(options: &EtcdOptions) -> EtcdStore {
    EtcdStore::new(options, History::default(), &mut Entropy::from_os().unwrap()).unwrap()
}
